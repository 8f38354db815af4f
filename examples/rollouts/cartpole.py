# SPDX-License-Identifier: Apache-2.0
"""A pole on a cart, after Barto, Sutton and Anderson (1983), with the constants that Gym's CartPole made common."""
import math
import random

STEPS = 500
GRAVITY, CART_KG, POLE_KG, HALF_POLE_M, FORCE_N, STEP_S = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
TOTAL_KG, POLE_KG_M = CART_KG + POLE_KG, POLE_KG * HALF_POLE_M


def episode(weights, seed: int) -> int:
    """Steps until the pole falls, at most STEPS, when a cart is pushed to the side that `weights`, 4 numbers, say. The seed alone
    decides how it begins: the same weights and seed are the same episode on every machine."""
    draw = random.Random(seed)
    x, v, angle, turn = (draw.uniform(-0.05, 0.05) for _ in range(4))
    for step in range(STEPS):
        push = FORCE_N if sum(w * s for w, s in zip(weights, (x, v, angle, turn))) > 0 else -FORCE_N
        sine, cosine = math.sin(angle), math.cos(angle)
        share = (push + POLE_KG_M * turn * turn * sine) / TOTAL_KG
        turning = (GRAVITY * sine - cosine * share) / (HALF_POLE_M * (4 / 3 - POLE_KG * cosine * cosine / TOTAL_KG))
        x, v = x + STEP_S * v, v + STEP_S * (share - POLE_KG_M * turning * cosine / TOTAL_KG)
        angle, turn = angle + STEP_S * turn, turn + STEP_S * turning
        if abs(x) > 2.4 or abs(angle) > math.radians(12):
            return step
    return STEPS
