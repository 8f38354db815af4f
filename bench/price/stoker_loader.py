# SPDX-License-Identifier: Apache-2.0
"""Ours. The dataset is the one that torch's DataLoader gets, run as Python; batches(…, native=True) says the same as a source and
transforms that run without Python, where there is no op of the user's own."""
import os
import sys
from pathlib import Path

import kinds
import numpy
import torch
import work_torch

TOKEN = "0123456789abcdef\n"


def batches(kind, machines, native=False):
    import stoker

    torch.set_num_threads(1)
    if machines.helpers:
        token = machines.folder / "token"
        token.write_text(TOKEN)
        program = str(Path(sys.executable).parent / "stoker")
        said = machines.start(0, [program, "feed-dispatcher", "--listen", "127.0.0.1:0", "--token-file", token], "listening on ")
        address = said.rsplit("listening on ", 1)[1]
        threads = machines.threads(helper=True)
        for helper in range(machines.helpers):
            command = [program, "feed-worker", "--listen", "127.0.0.1:0", "--token-file", token, "--dispatcher", address]
            machines.start(helper, [*command, "--threads", str(threads), "--python", sys.executable], "listening on ")
        os.environ["STOKER_FEED"], os.environ["STOKER_FEED_TOKEN_FILE"] = address, str(token)
    os.environ.pop("STOKER_TELEMETRY_DIR", None)
    workers = machines.threads(helper=False)
    return endless(stoker.DataLoader(dataset(kind, machines, native), batch_size=kind.batch, num_workers=workers, drop_last=True))


def dataset(kind, machines, native):
    import stoker

    if not native:
        return work_torch.Pictures(kind)
    files = []
    images, labels = kinds.pictures(kind)
    for name, values in (("images", images.transpose(0, 3, 1, 2).copy()), ("labels", labels)):
        files.append(machines.folder / f"{name}.npy")  # files go to helpers too
        numpy.save(files[-1], values)
    return stoker.data.arrays(*map(str, files), transform=work_torch.transforms(kind))


def endless(loader):
    while True:
        yield from loader
