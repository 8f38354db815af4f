# SPDX-License-Identifier: Apache-2.0
"""torch's DataLoader over records of 4 KB in memory: the peer of bench/arrays.py, run by the peer's own Python.

--variant arrays: a Dataset that indexes the arrays, default collate. --variant getitems: `__getitems__`, which fetches a
whole batch by one fancy index, as a careful user would write it.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["STOKER_SHARED"], "bench", "peers"))
import common  # noqa: E402

a = common.args("torch_dataloader", "arrays", records=65536)
import numpy as np  # noqa: E402
import torch  # noqa: E402

x = np.random.default_rng(0).integers(0, 256, (a.records, 4096), dtype=np.uint8)
y = np.arange(a.records)


class Records(torch.utils.data.Dataset):
    def __len__(self):
        return len(x)

    def __getitem__(self, i):
        return x[i], y[i]


class Batches(Records):
    def __getitems__(self, indices):
        return torch.from_numpy(x[indices]), torch.from_numpy(y[indices])


fetched = a.variant == "getitems"
loader = torch.utils.data.DataLoader(
    Batches() if fetched else Records(), batch_size=a.batch, shuffle=True, num_workers=a.workers, drop_last=True,
    persistent_workers=a.workers > 0, collate_fn=(lambda batch: batch) if fetched else None,
)


def forever():
    while True:
        yield from loader


batches = forever()


def step():
    records, _ = next(batches)
    return len(records)


common.emit(a, common.windows(a, step), versions=common.versions("torch", "numpy"))
os._exit(0)
