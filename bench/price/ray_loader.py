# SPDX-License-Identifier: Apache-2.0
"""Ray Data: map_batches over numbers of items, iter_torch_batches. Helpers are nodes of their own that join the trainer's."""
import os
import sys
from pathlib import Path

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DATA_DISABLE_PROGRESS_BARS": "1", "RAY_DEDUP_LOGS": "1"}
PORT = 6399
STORE_BYTES = 512 << 20
_made = {}


def batches(kind, machines):
    os.environ.update(QUIET, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    import ray

    program = str(Path(sys.executable).parent / "ray")
    joined = ["--object-store-memory", str(STORE_BYTES), "--disable-usage-stats", "--block"]
    own = 1 if machines.helpers == 0 else machines.threads(helper=False)
    head = ["start", "--head", "--port", str(PORT), "--node-ip-address", "127.0.0.1", "--num-cpus", str(own), "--include-dashboard", "false"]
    head += ["--temp-dir", str(machines.folder / "ray")]
    machines.start(None, [program, *head, *joined], "Ray runtime started")
    for helper in range(machines.helpers):
        node = ["start", "--address", f"127.0.0.1:{PORT}", "--num-cpus", str(machines.threads(helper=True))]
        machines.start(helper, [program, *node, *joined], "Ray runtime started")
    ray.init(address=f"127.0.0.1:{PORT}", logging_level="ERROR", log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False

    def make(rows):
        return picked(kind, rows["id"])

    made = ray.data.range(1 << 20, override_num_blocks=(1 << 20) // kind.batch).map_batches(make, batch_size=kind.batch)
    return made.iter_torch_batches(batch_size=kind.batch, prefetch_batches=2, drop_last=True)


def picked(kind, items):
    import numpy

    if not _made:
        import tvcpu  # noqa: F401  before torchvision
        import torch
        import work_torch

        torch.set_num_threads(1)
        _made["pictures"] = work_torch.Pictures(kind)
    samples = [_made["pictures"][int(item)] for item in items]
    return {"image": numpy.stack([image.numpy() for image, _ in samples]), "label": numpy.asarray([label for _, label in samples])}
