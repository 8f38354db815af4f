# SPDX-License-Identifier: Apache-2.0
"""A simulator: asks the learner for episodes, plays them, tells how they went, until the learner has enough.

What a feed group runs whose helpers are no loaders: `stoker run learner.py … --entry sims=simulate.py`.
"""
import argparse
import json
import os
import socket
import time

from cartpole import episode

PORT = 7300
PATIENCE_S = 60


def connect(host: str, port: int):
    """The learner may start later than we do."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection((host, port), timeout=5)
        except OSError as error:
            if time.monotonic() > deadline:
                raise SystemExit(f"no learner at {host}:{port} within {PATIENCE_S} s: {error}") from None
            time.sleep(0.1)


def serve(host: str, port: int) -> int:
    """How many episodes were played. A line is a JSON object; floats are written so that they are read back the same."""
    played = 0
    with connect(host, port) as learner:
        learner.settimeout(None)
        lines = learner.makefile("rw", encoding="ascii")
        for line in lines:
            asked = json.loads(line)
            print(json.dumps({"number": asked["number"], "steps": episode(asked["weights"], asked["seed"])}), file=lines, flush=True)
            played += 1
    return played


def learner_host() -> str:
    from stoker.environment import environment

    here = environment()
    return next(hosts[0] for group, hosts in here.groups.items() if group != here.group)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learner", default="", metavar="HOST", help="default: the first host of the group that is helped")
    parser.add_argument("--port", type=int, default=PORT)
    args = parser.parse_args()
    played = serve(args.learner or learner_host(), args.port)
    print(f"{os.uname().nodename} played {played} episodes", flush=True)


if __name__ == "__main__":
    main()
