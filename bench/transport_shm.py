# SPDX-License-Identifier: Apache-2.0
"""What do 10^9 bytes of batches (64 x 224 x 224 x 3, float32) cost from a local worker to the training process?

Ours is the feed's client with one child, through shared memory, hashing and order included. `rows not made` leaves out the
making of a row (bench/feed_transport.cc); `stoker/written` copies each row into its place from a batch made before, as the
bound and the peers do. The bound is that copy into a memfd whose number is passed over a socket. Peers: torch's workers
and Ray's object store.
"""
import harness

NEEDS = ["torch", "ray"]
NEEDS_PICTURES = False
UNIT, SCALE = "s/GB", 1.0
BOUND = "memfd_handoff_write_noread"


def program(run, who, *more):
    path = harness.ROOT / "build" / "release" / "feed_transport"
    version = harness.version_of_ours()
    missing = "" if path.exists() else "build/release/feed_transport"
    command = [str(path), *run.timing(), "--shm", "1", *more]
    return harness.Contestant(who, 1, command, lambda d: {"version": version, **d}, missing=missing)


def handoff(run):
    """transport_base.py measures a dozen things one after the other and takes no choice: short windows, and one line."""
    base = harness.peer(run, "torch", "transport_base.py", 1, "all", harness.per_gigabyte)
    timing = ["--seconds", str(run.seconds / 4), "--windows", str(run.windows), "--warmup", "0.5"]
    script = '"$@" | grep ' + BOUND
    base.command = ["bash", "-c", script, "bash", *base.command[:2], "--json", *timing]
    return base


def contestants(run):
    listed = [
        program(run, "stoker/exact", "--float", "1"),
        program(run, "stoker/written", "--float", "1", "--write", "1"),
        program(run, "stoker/uint8"),
        handoff(run),
        harness.peer(run, "torch", "transport_torchshm.py", 1, "float32", harness.per_gigabyte),
        harness.peer(run, "torch", "transport_torchshm.py", 1, "float32", harness.per_gigabyte, tuned=True),
        harness.peer(run, "ray", "transport_ray.py", 1, "float32", harness.per_gigabyte),
    ]
    return listed


def verdict(best):
    bound = best.get((f"transport_base/{BOUND}", 1))
    for who, what in (("stoker/exact", "hand-over"), ("stoker/written", "hand-over and writing the rows")):
        ours = best.get((who, 1))
        if ours and bound:
            ratio = ours.cpu_s_per_item / bound.cpu_s_per_item
            yield f"{what}: {ratio:.2f}x the CPU time of writing into a memfd and handing it over (wanted: at most 1.2x)"
    ours = best.get(("stoker/written", 1))
    others = [row for (who, _), row in best.items() if who.startswith(("torch_", "ray_"))]
    if ours and others:
        first = min(others, key=lambda row: row.cpu_s_per_item)
        yield f"{first.cpu_s_per_item / ours.cpu_s_per_item:.2f}x less than the best peer, {first.who}"
