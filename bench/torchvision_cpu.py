# SPDX-License-Identifier: Apache-2.0
"""Lets torchvision's wheel be imported beside the CPU build of torch: import this first.

The wheel's C++ operators need a CUDA build; its transforms and data sets do not. Only the two operators that its import
describes must be known to torch.
"""
import torch

_library = torch.library.Library("torchvision", "DEF")  # kept: the definitions go with this object
for _name in ("nms", "qnms"):
    try:
        _library.define(_name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    except RuntimeError:
        pass  # a torchvision that matches this torch has defined it
