# SPDX-License-Identifier: Apache-2.0
"""What transport_tcp_u8.py and transport_tcp_f32.py share: batches from a feed worker to a client over loopback TCP.

Ours is the feed's own worker and client as they come, framing and hashing at both ends included; only the making of a row
is left out (bench/feed_transport.cc). The bound is a plain C++ socket with the same payload and congestion control (reno),
sending from a block larger than the caches, and once more from one that fits. The machine's default may be bbr, which
paces and costs half as much again: shown as well. Peers: tf.data service, gRPC from Python, torch's workers.
"""
import harness

NEEDS = ["tf", "torch"]
PEERS = [  # environment, script, variant but for its dtype
    ("tf", "transport_tfservice.py", "grpcnc"),
    ("tf", "transport_tfservice.py", "grpc"),
    ("torch", "transport_grpc.py", "stream_bytes"),
    ("torch", "transport_grpc.py", "unary_pickle"),
    ("torch", "transport_torchshm.py", ""),
]


def program(run, who, name, *more):
    path = harness.ROOT / "build" / "release" / name
    version = harness.version_of_ours()
    missing = "" if path.exists() else f"build/release/{name}"
    return harness.Contestant(
        who, 1, [str(path), *run.timing(), *more], lambda d: {"version": version, **d}, missing=missing
    )


def contestants(run, dtype):
    floats = "1" if dtype == "float32" else "0"
    listed = [
        program(run, "stoker/exact", "feed_transport", "--float", floats),
        program(run, "bound/plain_socket_reno", "plain_socket", "--congestion", "reno"),
        program(run, "bound/plain_socket_reno_in_cache", "plain_socket", "--congestion", "reno", "--rows", "64"),
        program(run, "bound/plain_socket_bbr", "plain_socket", "--congestion", "bbr"),
    ]
    for venv, script, kind in PEERS:
        variant = f"{kind}_{dtype}" if kind else dtype
        listed.append(harness.peer(run, venv, script, 1, variant, harness.per_gigabyte))
        listed.append(harness.peer(run, venv, script, 1, variant, harness.per_gigabyte, tuned=True))
    return listed


def verdict(best, wanted, wanted_of_defaults):
    """`wanted`: at most so many times the plain socket; `wanted_of_defaults`: so many times less than tf.data service as it comes."""
    ours = best.get(("stoker/exact", 1))
    if not ours:
        return
    for name, text in (("plain_socket_reno", "a plain socket"), ("plain_socket_reno_in_cache", "one that sends from cache")):
        bound = best.get((f"bound/{name}", 1))
        if bound:
            rate = bound.wall_s_per_item / ours.wall_s_per_item
            yield (
                f"{ours.cpu_s_per_item / bound.cpu_s_per_item:.2f}x the CPU time of {text} with reno (wanted: at most {wanted}x), "
                f"at {rate:.0%} of its rate (wanted: 90%)"
            )
    rivals = {"tuned tf.data service": ("tf_data_service/grpcnc", 2.2), "Python gRPC": ("python_grpc/", 2.2)}
    rivals["tf.data service as it comes"] = ("tf_data_service/grpc_", wanted_of_defaults)
    for text, (start, least) in rivals.items():
        rows = [row for (who, _), row in best.items() if who.startswith(start)]
        if rows:
            cheapest = min(row.cpu_s_per_item for row in rows)
            yield f"{cheapest / ours.cpu_s_per_item:.1f}x less than {text} (wanted: {least}x)"
    yield f"the trainer's side: {ours.note.split(';')[0]}"
