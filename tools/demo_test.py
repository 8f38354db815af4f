# SPDX-License-Identifier: Apache-2.0
"""The demo's pure parts: keys, verdicts, picture. The demo itself is run by hand and by its own command."""
import subprocess
import sys
import xml.dom.minidom

import demo
import demo_picture
import pytest

ALONE = {"step_ms": 1000.0, "cost_per_100_steps": 0.1, "wait_share": 0.9}
FED = {
    "step_ms": 200.0, "cost_per_100_steps": 0.03, "speedup": 5.0, "price_performance": 0.7, "bound_ms": 190.0,
    "share_of_bound": 0.95, "bound_covers": "feed workers", "accelerator": "emulated", "cpu_scale": 0.04, "wait_share": 0.5,
}
ADVICE = {"summary": "", "candidates": [
    {"kind": "sibling", "instance_type": demo.DATA, "count": 1, "step_ms": 1.0},
    {"kind": "helpers", "instance_type": demo.DATA, "count": 2, "step_ms": 2.0},
    {"kind": "helpers", "instance_type": demo.DATA, "count": 1, "step_ms": 210.0},
]}
SAID = {"images": 480, "loss": 1.8, "first_loss": 2.6, "steps": 60}
TELEMETRY = {"delivered_once": True, "samples": 480, "digest": "ab"}


def test_summary_has_the_promised_keys_and_the_prediction_for_one_helper():
    result = demo.summary(ALONE, FED, ADVICE, SAID, TELEMETRY)
    assert result["predicted"] == 210.0 and result["delivered_once"] is True
    promised = (
        "alone.step_ms fed.step_ms alone.cost_per_100_steps fed.cost_per_100_steps speedup bound share_of_bound "
        "price_performance predicted delivered_once digest images loss"
    )
    assert set(promised.split()) <= set(result)


def test_a_sample_too_few_is_not_delivered_once():
    assert not demo.summary(ALONE, FED, ADVICE, SAID, {**TELEMETRY, "samples": 479})["delivered_once"]
    assert not demo.summary(ALONE, FED, ADVICE, SAID, {**TELEMETRY, "delivered_once": False})["delivered_once"]


def test_the_script_s_last_line_is_understood():
    line = "done: 60 steps, 480 pictures in 10.4 s, loss 2.5521 at first (chance 2.7726), 1.7604 at last"
    assert demo.DONE.search(line).groups() == ("60", "480", "10.4", "2.5521", "1.7604")


def test_too_large_a_scale_is_refused_with_one_that_fits(monkeypatch):
    monkeypatch.setattr(demo.os, "sched_getaffinity", lambda pid: {0})
    with pytest.raises(SystemExit, match="--cpu-scale 0.02"):
        demo.check_machine(0.04)


def test_the_end_says_where_the_jobs_are_and_how_to_run_another():
    text = demo.afterwards(demo.HOME, keep=False)
    assert "export STOKER_HOME=$PWD/build/demo\n" in text and "stoker run train.py" in text
    assert "--stop" not in text and "stoker server --stop" in demo.afterwards(demo.HOME, keep=True)


def test_the_picture_is_well_formed():
    result = demo.summary(ALONE, FED, ADVICE, SAID, TELEMETRY)
    drawn = demo_picture.draw(result)
    xml.dom.minidom.parseString(drawn)
    assert "5.0x faster" in drawn


def test_a_second_demo_of_a_checkout_is_refused(tmp_path):
    path = tmp_path / "build" / "lock"
    held = demo.lock(path)
    with pytest.raises(SystemExit, match="another `make demo` of this checkout is running"):
        demo.lock(path)
    held.close()
    demo.lock(path).close()


def test_ctrl_c_ends_the_demo_quietly(tmp_path):
    script = """
import runpy, sys
sys.path.insert(0, "tools")
import demo_picture
import argparse
def interrupted(*_, **__): raise KeyboardInterrupt
argparse.ArgumentParser.parse_args = interrupted
runpy.run_path("tools/demo.py", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=demo.ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")
