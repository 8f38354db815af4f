#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make bench [Q=QUESTION]: ours beside its peers, in turns, in one sitting.

    bench/run.py [QUESTION…] [--rounds 3] [--seconds 2] [--windows 3] [--only REGEX] [--no-setup]
    bench/run.py --setup-peers          every peer's environment, under build/peers
    bench/run.py --list
"""
import argparse
import importlib
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness  # noqa: E402

QUESTIONS = [
    "decode_rrc", "blur10", "small_records", "arrays", "loader_startup", "transport_tcp_u8", "transport_tcp_f32", "transport_shm",
    "recovery", "feed_scaling", "feed_forecast", "spare_cores", "price_performance", "first_line",
]  # fmt: skip


def answer(name, args):
    question = importlib.import_module(name)
    if not args.no_setup:
        harness.set_up_peers(question.NEEDS)
        if hasattr(question, "set_up"):
            question.set_up()
    if question.NEEDS_PICTURES:
        harness.make_pictures()
    run = harness.Run(name, args.rounds, args.seconds, args.windows, args.warmup)
    print(f"\n{name}: {question.__doc__.splitlines()[0]}", flush=True)
    listed = [c for c in question.contestants(run) if re.search(args.only, c.who)]
    rows, missing = harness.take_turns(run, listed)
    best = harness.minima(rows)
    harness.print_table(best, missing, question.SCALE, question.UNIT, getattr(question, "BY", "cpu_s_per_item"))
    for line in question.verdict(best):
        print(line)
    ours_missing = [why for (who, _), why in missing.items() if who.startswith("stoker/")]
    return not ours_missing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help=f"of {', '.join(QUESTIONS)}; default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--warmup", type=float, default=2)
    parser.add_argument("--only", default="", metavar="REGEX", help="contestants whose name matches")
    parser.add_argument("--no-setup", action="store_true", help="use the environments that are there")
    parser.add_argument("--setup-peers", action="store_true")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    unknown = set(args.questions) - set(QUESTIONS)
    if unknown:
        parser.error(f"no such question: {', '.join(sorted(unknown))}; there are {', '.join(QUESTIONS)}")
    chosen = args.questions or QUESTIONS
    if args.list:
        print("\n".join(QUESTIONS))
        return 0
    if args.setup_peers:
        for name in chosen:
            question = importlib.import_module(name)
            harness.set_up_peers(question.NEEDS)
            if hasattr(question, "set_up"):
                question.set_up()
        return 0
    answered = [answer(name, args) for name in chosen]
    print("\nmeasurements: build/bench/*.jsonl")
    return 0 if all(answered) else 1


if __name__ == "__main__":
    sys.exit(main())
