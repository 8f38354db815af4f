# SPDX-License-Identifier: Apache-2.0
"""Lets torchvision's wheel be imported beside a CPU build of torch. tools/setup copies this file into ./.venv, where each Python
imports it as it starts; the package does not know it.

The wheel's C++ operators need the build of torch that it was made for; its transforms and data sets do not. Only the two
operators whose shapes its import describes must be known to torch. A torchvision that brings its operators keeps them.
"""

import sys

OPERATORS = ("nms", "qnms")


class Declares:
    """A finder that finds nothing: it declares what is missing when the module that describes the shapes is looked for."""

    def find_spec(self, name, path=None, target=None):
        if name == "torchvision._meta_registrations":
            import torch

            sys.meta_path.remove(self)
            self.library = torch.library.Library("torchvision", "FRAGMENT")  # the definitions go with this object
            for operator in OPERATORS:
                try:
                    self.library.define(operator + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
                except RuntimeError:
                    pass  # torchvision's own is there


declares = Declares()
sys.meta_path.insert(0, declares)
