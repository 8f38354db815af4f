# SPDX-License-Identifier: Apache-2.0
"""One loader feeding one emulated accelerator: run by the Python of whoever is measured, prints a JSON line.

    trainer.py --loader stoker --kind 8+36 --helpers 1 --step-ms 40

A step asks for a batch and sleeps as long as the accelerator would take. The modules NAME_loader.py beside this one have
`batches(kind, machines)`: an iterator of batches, prepared by the helpers of `machines` or, where it has none, here.
"""
import argparse
import importlib
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import kinds  # noqa: E402
import machines  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--loader", required=True)
    parser.add_argument("--kind", choices=kinds.KINDS, required=True)
    parser.add_argument("--helpers", type=int, default=0)
    parser.add_argument("--step-ms", type=float, required=True)
    parser.add_argument("--seconds", type=float, default=10, help="that are measured")
    parser.add_argument("--warmup", type=float, default=5, help="until what was made ahead while all started is used up")
    args = parser.parse_args()
    kind = kinds.KINDS[args.kind]
    rented = machines.Machines(kind, args.helpers)
    try:
        iterator = iter(importlib.import_module(f"{args.loader}_loader").batches(kind, rented))
        next(iterator)
        rented.limit()
        step(iterator, args, args.warmup)
        steps, took, waited = step(iterator, args, args.seconds)
    finally:
        rented.close()
    print(json.dumps({"steps": steps, "step_ms": 1e3 * took / steps, "wait_share": waited / took}), flush=True)
    os._exit(0)  # some loaders take a minute to leave


def step(iterator, args, seconds: float):
    """(steps, seconds, of these waited)"""
    steps, waited, start = 0, 0.0, time.perf_counter()
    while True:
        asked = time.perf_counter()
        next(iterator)
        waited += time.perf_counter() - asked
        time.sleep(args.step_ms / 1e3)
        steps += 1
        took = time.perf_counter() - start
        if took >= seconds and steps >= 4:
            return steps, took, waited


if __name__ == "__main__":
    main()
