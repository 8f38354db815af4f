# SPDX-License-Identifier: Apache-2.0
"""torch's DataLoader, which has no helpers on other machines."""
import tvcpu  # noqa: F401  before torchvision, in the peers' environments
import torch
import work_torch


def batches(kind, machines):
    if machines.helpers:
        raise SystemExit("torch's DataLoader cannot use another machine")
    torch.set_num_threads(1)
    workers = machines.threads(helper=False)
    return torch.utils.data.DataLoader(work_torch.Pictures(kind), batch_size=kind.batch, shuffle=False, num_workers=workers)
