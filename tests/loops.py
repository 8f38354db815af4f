# SPDX-License-Identifier: Apache-2.0
"""Training loops as processes of their own, alone or before a feed group: each checks what it gets, tells of itself in lines of JSON,
and waits where it is told to."""

import json
import os
import subprocess
import sys

from program import binary

LOOP = """
import json, random, sys
import numpy, stoker
from stoker.data import feed_engine

asked = json.loads(sys.argv[1])
random.seed(asked.get("seed", 0))  # of which a loader draws its own
if "window_bytes" in asked: feed_engine.WINDOW_BYTES = asked["window_bytes"]
BATCH = 4

class Draws:
    def __init__(self, samples): self.samples = samples
    def __len__(self): return self.samples
    def __getitem__(self, index): return numpy.full(5000, index, numpy.float32), numpy.random.randint(1 << 40)

class Skewed(Draws):
    # Small ones first: what a batch takes is not known before the first large one is there.
    def size(self, index): return LARGE if index >= 40 and index % BATCH == 1 else LARGE // 100
    def __getitem__(self, index): return numpy.full(self.size(index), index % 251, numpy.uint8)
LARGE = 4_000_000

def loader():
    if asked["kind"] == "pictures":
        pipe = stoker.data.image_folder(asked["root"]).repeat(asked["epochs"]).shuffle(seed=asked["seed"]).decode()
        return pipe.random_resized_crop(64).horizontal_flip().batch(BATCH).numpy(workers=1)
    if asked["kind"] == "skewed": return stoker.DataLoader(Skewed(asked["samples"]), BATCH, collate_fn=list, num_workers=1)
    return stoker.DataLoader(Draws(asked["samples"]), BATCH, num_workers=1)

def check(batch, first):
    if asked["kind"] == "skewed":
        assert [(one.size, int(one[0]), int(one[-1])) for one in batch] == [
            (loader.dataset.size(i), i % 251, i % 251) for i in range(first, first + BATCH)], first
    elif asked["kind"] == "draws": assert [int(one[0]) for one in batch[0]] == list(range(first, first + BATCH))

def tell(**what): print(json.dumps({"taken": taken, **what}), flush=True)

def idle(stats):  # everything that it may look ahead is here
    return stats.feed is not None and stats.feed.workers and all(one.ready and one.asked == 0 for one in stats.feed.workers)

loader, taken, held = loader(), 0, 0
for batch in loader:
    check(batch, taken * BATCH)
    taken += 1
    del batch
    stats = loader.stats()
    if stats.feed is not None: held = max(held, stats.feed.bytes_held)
    if taken == asked.get("wait_at"):
        tell()
        while (line := sys.stdin.readline()) == "idle?\\n": tell(idle=idle(loader.stats()))
        assert line == "go on\\n", line
        if stats.feed is not None: held = max(held, loader.stats().feed.bytes_held)
tell(digest=loader.state_dict()["digest"], held=held, **{name: getattr(loader.stats().feed, name, 0) for name in ("disagreed", "corrupt")})
"""


class Loop:
    """One process. `feed`: (the dispatcher's address, the token's file), or None: it makes its samples itself."""

    def __init__(self, feed=None, **asked):
        environment = {**os.environ, "STOKER_BIN": binary()}
        environment.pop("STOKER_FEED", None)
        if feed:
            environment |= {"STOKER_FEED": feed[0], "STOKER_FEED_TOKEN_FILE": feed[1]}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.popen = subprocess.Popen([sys.executable, "-c", LOOP, json.dumps(asked)], env=environment, text=True, **pipes)

    def hear(self) -> dict:
        """What it says next."""
        line = self.popen.stdout.readline()
        assert line, self.popen.stderr.read()
        return json.loads(line)

    def is_idle(self) -> bool:
        """Of one that waits: whether nothing that it has asked its feed group for is still to come."""
        self._say("idle?")
        return self.hear()["idle"]

    def go_on(self) -> None:
        self._say("go on")

    def _say(self, line: str) -> None:
        self.popen.stdin.write(line + "\n")
        self.popen.stdin.flush()

    def end(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.communicate()


def alone(**asked) -> str:
    """The digest of such a loop that makes its samples itself."""
    loop = Loop(**asked)
    try:
        return loop.hear()["digest"]
    finally:
        loop.end()
