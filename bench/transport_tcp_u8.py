# SPDX-License-Identifier: Apache-2.0
"""What do 10^9 bytes of batches (64 x 224 x 224 x 3, uint8) cost from a feed worker to a client over loopback TCP?

Ours is the feed's own worker and client as they come, framing and hashing at both ends included; only the making of a row
is left out (bench/feed_transport.cc). The bound is a plain C++ socket with the same payload and congestion control (reno),
sending from a block larger than the caches, and once more from one that fits. The machine's default may be bbr, which
paces and costs half as much again: shown as well. Peers: tf.data service, gRPC from Python, torch's workers.
"""
import harness

NEEDS = ["tf", "torch"]
NEEDS_PICTURES = False
UNIT, SCALE = "s/GB", 1.0

PEERS = [  # environment, script, variant
    ("tf", "transport_tfservice.py", "grpcnc_uint8"),
    ("tf", "transport_tfservice.py", "grpc_uint8"),
    ("torch", "transport_grpc.py", "stream_bytes_uint8"),
    ("torch", "transport_grpc.py", "unary_pickle_uint8"),
    ("torch", "transport_torchshm.py", "uint8"),
]


def program(run, who, name, *more):
    path = harness.ROOT / "build" / "release" / name
    version = harness.version_of_ours()
    missing = "" if path.exists() else f"build/release/{name}"
    return harness.Contestant(
        who, 1, [str(path), *run.timing(), *more], lambda d: {"version": version, **d}, missing=missing
    )


def contestants(run):
    listed = [
        program(run, "stoker/exact", "feed_transport"),
        program(run, "bound/plain_socket_reno", "plain_socket", "--congestion", "reno"),
        program(run, "bound/plain_socket_reno_in_cache", "plain_socket", "--congestion", "reno", "--rows", "64"),
        program(run, "bound/plain_socket_bbr", "plain_socket", "--congestion", "bbr"),
    ]
    for venv, script, variant in PEERS:
        listed.append(harness.peer(run, venv, script, 1, variant, harness.per_gigabyte))
        listed.append(harness.peer(run, venv, script, 1, variant, harness.per_gigabyte, tuned=True))
    return listed


def verdict(best):
    ours = best.get(("stoker/exact", 1))
    if not ours:
        return
    for name, text in (("plain_socket_reno", "a plain socket"), ("plain_socket_reno_in_cache", "one that sends from cache")):
        bound = best.get((f"bound/{name}", 1))
        if bound:
            yield f"{ours.cpu_s_per_item / bound.cpu_s_per_item:.2f}x the CPU time of {text} with reno (wanted: at most 1.3x)"
    others = [row for (who, _), row in best.items() if not who.startswith(("stoker/", "bound/"))]
    if others:
        first = min(others, key=lambda row: row.cpu_s_per_item)
        yield f"{first.cpu_s_per_item / ours.cpu_s_per_item:.2f}x less than the best peer, {first.who}"
