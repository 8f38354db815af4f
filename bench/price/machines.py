# SPDX-License-Identifier: Apache-2.0
"""The emulated machines of one run: this process is the trainer's, helpers are started in control groups of their own.

Limits begin with limit(), when all have started: what start-up costs (Ray: many seconds of CPU) is not the question.
"""
import contextlib
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import kinds
import quotas


class Machines:
    def __init__(self, kind: kinds.Kind, helpers: int):
        self.kind = kind
        self.helpers = helpers
        self._quotas = quotas.Quotas()
        self._own = self._quotas.make()
        self._others = [self._quotas.make() for _ in range(helpers)]
        self._processes = []
        self._folder = tempfile.TemporaryDirectory(prefix="stoker-bench-")
        self.folder = Path(self._folder.name)  # for what a loader writes down
        (self._own / "cgroup.procs").write_text(str(os.getpid()))

    def threads(self, helper: bool) -> int:
        return max(1, math.ceil(self.kind.cores[1 if helper else 0]))

    def start(self, helper: int | None, command: list, wait_for: str) -> str:
        """Starts it on a helper (None: beside the trainer). Gives its first line with `wait_for`, of what it says to stdout or stderr."""
        if helper is not None:
            command = quotas.within(self._others[helper], command)
        started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._processes.append(started)
        said = []
        for line in started.stdout:
            said.append(line)
            if wait_for in line:
                threading.Thread(target=started.stdout.read, daemon=True).start()  # or it would wait for us once the pipe is full
                return line.strip()
        sys.exit(f"{command[-1]} ended: {''.join(said[-3:])}")

    def limit(self):
        quotas.limit(self._own, self.kind.cores[0])
        for folder in self._others:
            quotas.limit(folder, self.kind.cores[1])

    def close(self):
        """Ends what was started, and all that it or the loader started: whoever else is in the groups."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's raises an error for each worker that is killed
        (quotas.CGROUPS / "cgroup.procs").write_text(str(os.getpid()))
        for process in self._processes:
            process.kill()
        for folder in [self._own, *self._others]:
            for pid in (folder / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        for process in self._processes:
            process.wait()
        self._quotas.close()
        self._folder.cleanup()
