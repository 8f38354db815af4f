# SPDX-License-Identifier: Apache-2.0
"""What loader.stats() says of samples' cost, and that damaged ones are counted."""

import time

import numpy
import pytest

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")
import stoker  # noqa: E402
from stoker.data.explain import megabytes  # noqa: E402
from stoker.data.feed_stats import FeedStats  # noqa: E402
from stoker.data.stages import LoaderStats, Work  # noqa: E402
from stoker.data.telemetry import Meter  # noqa: E402


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    draws = numpy.random.default_rng(0)
    (tmp_path / "train" / "c").mkdir(parents=True)
    for i in range(64):
        picture = Image.fromarray(draws.integers(0, 256, (40, 60, 3), dtype=numpy.uint8)).resize((600, 400))
        picture.save(tmp_path / "train" / "c" / f"{i:02}.jpg")
    return tmp_path / "train"


def loader_of(folder, **arguments):
    from torchvision.transforms import v2

    ops = [v2.RandomResizedCrop(64), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    source = stoker.data.image_folder(str(folder), transform=v2.Compose(ops))
    return stoker.DataLoader(source, batch_size=8, **arguments)


def meter_of(steps, step_s, wait_s, cpu_s):
    meter = Meter(10)
    meter.batches, meter.steps, meter.samples, meter.step_samples = steps + 1, steps, 10 * (steps + 1), 10 * steps
    meter.step_s, meter.wait_s, meter.step_cpu_s = step_s, wait_s, cpu_s
    return meter


def told(samples, busy_s, cpu_s):
    stages = [{"name": "read", "cpu_s": cpu_s / 4}, {"name": "decode", "cpu_s": cpu_s / 2}]
    moved = {"read_bytes": 50 * samples, "made_bytes": 100 * samples}
    return {"samples": samples, **moved, "busy_s": busy_s, "cpu_s": cpu_s, "stages": stages}


def test_the_binding_resource_is_the_slowest_and_the_others_have_slack(monkeypatch):
    monkeypatch.setattr("stoker.data.stages._native.feed.allowed_cpu", lambda: 4.0)
    # 100 steps of 10 samples: 10 ms each, 4 of them the loop's own; two workers, each 2 ms a sample.
    work = Work.of(2, False, [told(500, 1.0, 0.5), told(500, 1.0, 0.5)])
    stats = LoaderStats.of(meter_of(100, 1.0, 0.6, 0.4), work)
    assert stats.binds == "workers (2)"
    assert stats.predicted_per_s == pytest.approx(1000)
    assert stats.measured_per_s == pytest.approx(1000)
    assert stats.limits == pytest.approx({"workers (2)": 1000, "the training loop": 2500, "cores (4)": 4 / 0.0014})
    assert stats.slack == pytest.approx({"workers (2)": 0, "the training loop": 0.6, "cores (4)": 0.65})
    assert [(op["name"], round(op["cpu_ms"], 3), op["bytes"]) for op in stats.ops] == [
        ("read", 0.25, 50), ("decode", 0.5, None), ("hand-over", 0.25, 100),
    ]  # fmt: skip
    # A loop that takes as long as four workers would: it binds, and they have slack.
    slow_loop = LoaderStats.of(meter_of(100, 2.0, 0.0, 0.4), work)
    assert slow_loop.binds == "the training loop" and slow_loop.slack["workers (2)"] == pytest.approx(0.5)
    assert LoaderStats.of(meter_of(0, 0, 0, 0), Work()).predicted_per_s is None


def test_cores_are_what_the_quota_allows(monkeypatch):
    monkeypatch.setenv("STOKER_CORES", "0.32")
    work = Work.of(2, False, [told(1000, 1.0, 1.0)])
    stats = LoaderStats.of(meter_of(100, 4.0, 3.6, 0.4), work)
    assert stats.binds == "cores (0.32)" and stats.predicted_per_s == pytest.approx(0.32 / 0.0014)


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("loop_s", [0.0, 0.03])
def test_the_predicted_rate_is_near_the_measured(folder, workers, loop_s):
    # One long epoch: what is made ahead of its first batch counts little.
    loader = loader_of(folder, num_workers=workers, sampler=list(range(64)) * 8)
    for _ in loader:
        time.sleep(loop_s)
    stats = loader.stats()
    assert stats.samples == 8 * 64
    # Within 15 % on a quiet machine; here others may run, and the rate is what they leave.
    assert 0.33 < stats.predicted_per_s / stats.measured_per_s < 3, str(stats)
    names = [op["name"] for op in stats.ops]
    passes = ["read", "decode", "random_resized_crop + to_float"]
    assert names == passes + ["hash"] + (["hand-over"] if workers else [])
    assert all(op["cpu_ms"] > 0 for op in stats.ops if op["name"] != "hash"), str(stats)
    if loop_s and workers:
        assert stats.binds == "the training loop"
        assert stats.waiting < 0.5
    assert "random_resized_crop + to_float" in str(loader.explain())


@pytest.mark.parametrize("workers", [0, 1])
def test_python_plans_have_stages_too(workers):
    class Squares(torch.utils.data.Dataset):
        def __len__(self):
            return 4000

        def __getitem__(self, i):
            return torch.full((64,), i) ** 2

    loader = stoker.DataLoader(Squares(), batch_size=100, num_workers=workers)
    for _ in loader:
        pass
    stats = loader.stats()
    names = {op["name"] for op in stats.ops}
    assert {"dataset", "collate"} <= names
    assert workers == 0 or {"write", "hand-over"} <= names
    assert workers or 0.4 < stats.predicted_per_s / stats.measured_per_s < 2.5, str(stats)


@pytest.mark.parametrize("workers", [0, 2])
def test_damaged_pictures_are_skipped_or_replaced_and_counted(folder, workers):
    for i in (3, 4, 20):
        path = folder / "c" / f"{i:02}.jpg"
        path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(stoker.data.image.ImageError):
        list(loader_of(folder, num_workers=workers))
    loader = loader_of(folder, num_workers=workers, on_error="skip")
    valid = torch.cat([valid for _, _, valid in loader])
    images = torch.cat([images for images, _, _ in loader])
    assert valid.dtype == torch.bool
    assert (~valid).nonzero().flatten().tolist() == [3, 4, 20]
    assert not images[3].any() and images[5].any()
    assert loader.stats().skipped == 6

    def seeded():
        return torch.Generator().manual_seed(5)

    replaced = loader_of(folder, num_workers=workers, on_error="substitute", generator=seeded())
    images = torch.cat([images for images, _ in replaced])
    assert images[3].any() and len(images) == 64
    again = torch.cat([images for images, _ in loader_of(folder, on_error="substitute", generator=seeded())])
    assert torch.equal(images, again)
    assert replaced.stats().substituted == 3


def test_rates_of_what_was_made_while_the_first_batch_was_waited_for_are_not_told():
    work = Work.of(2, False, [told(40, 0.2, 0.1)])  # 400/s by two workers
    meter = meter_of(3, 0.001, 0.0001, 0.001)  # 30,000/s taken
    meter.first_wait_s = 1.5
    short = LoaderStats.of(meter, work)
    assert (short.measured_per_s, short.predicted_per_s, short.binds, short.waiting) == (None, None, None, None)
    assert short.limits == short.slack == {} and short.ops
    assert "at most" not in str(short) and "samples/s: not measured yet" in str(short)
    meter.first_wait_s = 0.0005  # no time in which to make them
    assert LoaderStats.of(meter, work).measured_per_s == pytest.approx(30_000)
    meter = meter_of(100, 2.5, 2.0, 0.1)
    meter.first_wait_s = 3.0  # slow to start, and then as fast as predicted
    assert LoaderStats.of(meter, work).measured_per_s == pytest.approx(400)


def test_where_the_cost_is_not_known_no_table_is_begun():
    assert "so far; what they cost is not known (yet)\n" in str(LoaderStats.of(meter_of(3, 1.0, 0.5, 0.1), Work(hands=2)))
    fed_loop = str(LoaderStats.of(meter_of(100, 1.0, 0.9, 0.1), fed(0.05, 1100.0)))
    assert "CPU per sample" not in fed_loop and "so far; their CPU is the feed workers', which `stoker advise` tells\n" in fed_loop


def fed(starved_s, supply_per_s):
    sizing = [{"group": "data", "workers": 2, "wanted": 2, "supply_per_s": supply_per_s, "reason": ""}]
    return Work(feed=FeedStats([], sizing, 0, bytes_received=2_000_000, starved_s=starved_s))


def test_of_a_fed_loop_the_link_is_named_where_it_is_waited_for_and_the_workers_could_do_more():
    # 100 steps of 10 samples in a second, most of it waiting.
    slow_wire = LoaderStats.of(meter_of(100, 1.0, 0.9, 0.1), fed(0.8, 5000.0))
    assert slow_wire.binds == "the link (2.5 MB/s)" and "samples/s at most by the link (2.5 MB/s): binds" in str(slow_wire)
    assert slow_wire.predicted_per_s == pytest.approx(1010 / 0.8)
    assert slow_wire.slack["feed workers (2)"] > 0.5
    slow_workers = LoaderStats.of(meter_of(100, 1.0, 0.9, 0.1), fed(0.05, 1100.0))
    assert slow_workers.binds == "feed workers (2)" and not any("link" in name for name in slow_workers.limits)
    assert LoaderStats.of(meter_of(100, 1.0, 0.9, 0.1), fed(0.8, 0.0)).binds is None  # what the workers could do is not known yet


def test_of_a_fed_loop_the_trainers_own_cores_may_bind(monkeypatch):
    monkeypatch.setattr("stoker.data.stages._native.feed.allowed_cpu", lambda: 0.2)
    # 100 steps of 10 samples: 10 ms each, of which receiving and training take 3 ms of CPU.
    stats = LoaderStats.of(meter_of(100, 1.0, 0.9, 0.3), fed(0.05, 5000.0))
    assert stats.binds == "cores (0.2)" and stats.predicted_per_s == pytest.approx(0.2 / 0.0003)


def test_rates_of_links_are_written_without_powers_of_ten():
    assert [megabytes(rate) for rate in (2.5e6, 94e6, 1.5e9)] == ["2.5 MB/s", "94 MB/s", "1500 MB/s"]
