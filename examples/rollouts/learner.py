# SPDX-License-Identifier: Apache-2.0
"""Learns to balance a pole by evolution strategies (Salimans et al., 2017, arXiv:1703.03864, section 2): simulators play episodes with
disturbed weights, the weights move towards the disturbances that went well.

    python examples/rollouts/learner.py --local 2          simulators as processes here
    stoker run examples/rollouts/learner.py --group learn=1xcpus=1 --group sims=2xcpus=1:feed --entry sims=simulate.py

An episode is a pure function of its number, so that the weights are the same whatever the number of simulators, and when some of
them die: what was not answered is asked of another.
"""
import argparse
import json
import os
import queue
import random
import socket
import subprocess
import sys
import threading

from cartpole import STEPS
from simulate import PATIENCE_S, PORT

PAIRS, SPREAD, RATE = 16, 0.5, 0.4


class Simulators:
    """Whoever connects is asked for episodes, one at a time; a thread for each."""

    def __init__(self, port: int):
        self.listener = socket.create_server(("", port))
        self.port = self.listener.getsockname()[1]
        self.asked, self.told = queue.Queue(), queue.Queue()
        self.arrived = threading.Semaphore(0)  # released once for each that comes
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            simulator, _ = self.listener.accept()
            self.arrived.release()
            threading.Thread(target=self._ask, args=[simulator], daemon=True).start()

    def _ask(self, simulator) -> None:
        with simulator, simulator.makefile("rw", encoding="ascii") as lines:
            while (episode := self.asked.get()) is not None:
                try:
                    print(json.dumps(episode), file=lines, flush=True)
                    answer = json.loads(lines.readline())
                except (OSError, ValueError):  # it is gone, or was cut off within a line
                    print(f"a simulator is gone; episode {episode['number']} is asked of another", flush=True)
                    return self.asked.put(episode)
                self.told.put((answer["number"], answer["steps"]))

    def play(self, episodes: list) -> list:
        """Their steps, in order."""
        for number, (weights, seed) in enumerate(episodes):
            self.asked.put({"number": number, "weights": weights, "seed": seed})
        try:
            told = dict(self.told.get(timeout=PATIENCE_S) for _ in episodes)
        except queue.Empty:
            raise SystemExit(f"no simulator has answered for {PATIENCE_S} s: does the group of simulators run?") from None
        return [told[number] for number in range(len(episodes))]


def learn(simulators: Simulators, generations: int, seed: int = 0) -> tuple:
    """(weights, mean steps of each generation)"""
    draw = random.Random(seed)
    weights, means = [0.0] * 4, []
    for generation in range(generations):
        disturbances = [[draw.gauss(0, 1) for _ in weights] for _ in range(PAIRS)]
        signed = [[sign * d for d in one] for one in disturbances for sign in (1, -1)]
        seeds = [1000 * generation + i // 2 for i in range(len(signed))]  # both of a pair begin alike
        episodes = [([w + SPREAD * d for w, d in zip(weights, one)], s) for one, s in zip(signed, seeds)]
        steps = simulators.play(episodes)
        means.append(sum(steps) / len(steps))
        deviation = max(1e-6, (sum((one - means[-1]) ** 2 for one in steps) / len(steps)) ** 0.5)
        for k in range(4):
            towards = sum((one - means[-1]) / deviation * d[k] for one, d in zip(steps, signed))
            weights[k] += RATE / len(signed) / SPREAD * towards
        print(f"generation {generation}: {means[-1]:.1f} of {STEPS} steps", flush=True)
        if means[-1] > 0.95 * STEPS:
            break
    return weights, means


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generations", type=int, default=40)
    parser.add_argument("--local", type=int, default=0, metavar="N", help="start N simulators here")
    args = parser.parse_args()
    simulators = Simulators(0 if args.local else PORT)
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "simulate.py")
    command = [sys.executable, script, "--learner", "127.0.0.1", "--port", str(simulators.port)]
    started = [subprocess.Popen(command) for _ in range(args.local)]
    try:
        weights, _ = learn(simulators, args.generations)
    finally:
        for one in started:
            one.terminate()
            one.wait()
    print("weights", json.dumps(weights), flush=True)
    if "SM_MODEL_DIR" in os.environ:
        with open(os.path.join(os.environ["SM_MODEL_DIR"], "weights.json"), "w", encoding="ascii") as file:
            json.dump(weights, file)


if __name__ == "__main__":
    main()
