# SPDX-License-Identifier: Apache-2.0
"""What do 100 training steps cost, on a machine with an accelerator alone and with CPU machines beside it?

The three published jobs of mixed machines (price/kinds.py): their vCPU ratios and kinds of work, each vCPU a small share of a core
here, before an emulated accelerator. Its step is as long as all vCPUs together take for a batch with PyTorch's transforms, so that
whoever keeps them busy without loss reaches it. An item is a picture; `workers` are helpers. `stoker` runs the same Dataset as
`torch_dataloader`, in Python; `stoker/native` says the work as transforms that run without Python, where there is no op of the user's.
Price-performance is 1 - cost / cost of torch's DataLoader on the first machine alone. Prices are the catalogue's.
Needs root and control groups (version 1).
"""
import json
import sys

import harness
import quotas

sys.path.append(str(harness.ROOT / "bench" / "price"))
import kinds  # noqa: E402

NEEDS = ["torch", "tf", "ray"]
NEEDS_PICTURES = False
UNIT, SCALE, BY = "ms/picture", 1e3, "wall_s_per_item"
WHO = [  # name, loader, environment, with helpers, on which machines
    ("torch_dataloader", "torch", "torch", (False,)),
    ("stoker", "stoker", "", (False, True)),
    ("stoker/native", "stoker_native", "", (False, True)),
    ("tf_data_service", "tf", "tf", (False, True)),
    ("ray_data", "ray", "ray", (False, True)),
    ("python_grpc", "grpc", "torch", (True,)),
]


def contestants(run):
    listed = []
    for kind in kinds.KINDS.values():
        step_ms = accelerator_ms(kind)
        for name, loader, venv, fed in WHO:
            if kind.dilate and loader == "stoker_native":
                continue
            for helpers in (kind.helpers if one else 0 for one in fed):
                listed.append(contestant(run, kind, f"{name} {kind.name}", loader, venv, helpers, step_ms))
    return listed


def accelerator_ms(kind) -> float:
    """One thread's cost for a batch, spread over all cores of the emulated machines."""
    if not harness.ready("torch"):
        return 50.0
    code = "import kinds, tvcpu, work_torch; print(work_torch.ms_per_picture(kinds.KINDS[%r]))" % kind.name
    python = harness.HOME / "venv" / "torch" / "bin" / "python"
    said = harness.subprocess.run([str(python), "-c", code], env=environment(), capture_output=True, text=True, check=True).stdout
    return float(said) * kind.batch / (kind.cores[0] + kind.helpers * kind.cores[1])


def environment():
    paths = [harness.ROOT / "bench" / "price", harness.ROOT / "bench", harness.PEERS]
    return {**harness.os.environ, "PYTHONPATH": ":".join(map(str, paths))}


def contestant(run, kind, who, loader, venv, helpers, step_ms):
    python = harness.HOME / "venv" / venv / "bin" / "python" if venv else harness.PYTHON
    missing = f"environment {venv}" if venv and not harness.ready(venv) else ""
    if not quotas.can_set():
        missing = "root and control groups of version 1"
    command = [str(python), str(harness.ROOT / "bench" / "price" / "trainer.py"), "--loader", loader, "--kind", kind.name]
    command += ["--helpers", str(helpers), "--step-ms", f"{step_ms:.3f}", "--seconds", str(run.seconds * run.windows), "--warmup", str(run.warmup)]

    def read(said):
        price = price_per_hour(kind, helpers)
        spent = price / 3600 * said["step_ms"] / 1e3 * 100
        note = f"step {said['step_ms']:.0f} ms, accelerator {step_ms:.0f}, waits {said['wait_share']:.0%}, {price:.3f} $/h, {spent:.5f} $ per 100 steps"
        return {
            "version": harness.version_of_ours() if not venv else "", "items": said["steps"] * kind.batch, "cpu_s_per_item": None,
            "wall_s_per_item": said["step_ms"] / 1e3 / kind.batch, "note": note,
        }

    return harness.Contestant(who, helpers, command, read, {"PYTHONPATH": environment()["PYTHONPATH"]}, missing)


def price_per_hour(kind, helpers: int) -> float:
    listed = json.loads((harness.ROOT / "src" / "control" / "instance-types.json").read_text())["instances"]
    prices = {entry["type"]: entry["sagemaker_usd_per_hour"] for entry in listed}
    return prices[kind.trainer] + helpers * prices[kind.helper]


def verdict(best):
    for kind in kinds.KINDS.values():
        rows = {key: row for key, row in best.items() if key[0].endswith(f" {kind.name}")}
        base = rows.get((f"torch_dataloader {kind.name}", 0))
        yield f"{kind.name}: {kind.trainer} alone, or with {kind.helpers} x {kind.helper}"
        for (who, helpers), row in sorted(rows.items(), key=lambda entry: cost(kind, entry[1], entry[0][1])):
            spent = cost(kind, row, helpers)
            line = f"  {who.split(' ')[0]:18} {'fed' if helpers else 'alone':5} step {row.wall_s_per_item * kind.batch * 1e3:7.0f} ms  {spent:.5f} $ per 100 steps"
            if base:
                line += f"  {base.wall_s_per_item / row.wall_s_per_item:5.2f}x  price-performance {1 - spent / cost(kind, base, 0):.0%}"
            yield line


def cost(kind, row, helpers: int) -> float:
    """$ of 100 steps."""
    return price_per_hour(kind, helpers) / 3600 * row.wall_s_per_item * kind.batch * 100
