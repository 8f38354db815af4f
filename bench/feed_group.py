# SPDX-License-Identifier: Apache-2.0
"""A feed group of a bench's own: the `stoker` program's dispatcher and workers over loopback, workers under a CPU quota on wish."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import harness
import quotas

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
from program import address_of


def contestants_under_quotas(run, script: str, whats, helpers) -> list:
    """stoker/WHAT of a bench for each WHAT with each number of helpers (or another number that its `--workers` is)."""
    listed = [harness.ours(run, f"stoker/{what}", script, one, "--what", what) for one in helpers for what in whats]
    for one in listed:
        if not quotas.can_set():
            one.missing = "root and control groups of version 1"
    return listed


class FeedGroup:
    """Sets $STOKER_FEED for loaders that are made afterwards."""

    def __init__(self):
        self.program = str(Path(sys.executable).parent / "stoker")
        self.folder = tempfile.TemporaryDirectory(prefix="stoker-bench-")
        self.token = Path(self.folder.name) / "token"
        self.token.write_text("0123456789abcdef\n")
        self.quotas = quotas.Quotas()
        self.processes = []
        self.dispatcher, self.address = self.start("feed-dispatcher")
        os.environ.setdefault("STOKER_SPARE_CORES", "0")  # the group is measured, not what helps it
        os.environ["STOKER_FEED"], os.environ["STOKER_FEED_TOKEN_FILE"] = self.address, str(self.token)

    def start(self, part, *arguments, cores=None):
        command = [self.program, part, "--listen", "127.0.0.1:0", "--token-file", str(self.token), *arguments]
        if cores:
            command = quotas.within(self.quotas.make(cores), command)
        started = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.processes.append(started)
        return started, address_of(started, lambda line: None)

    def add_worker(self, cores=None):
        return self.start("feed-worker", "--dispatcher", self.address, "--threads", "1", "--python", sys.executable, cores=cores)[0]

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stderr.close()
        self.quotas.close()
        self.folder.cleanup()
