# SPDX-License-Identifier: Apache-2.0
"""The same loader in front of a feed group: a dispatcher and workers over loopback, found through the environment alone."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

torch = pytest.importorskip("torch")

import stoker
from stoker.data import loader_data_test as data
from stoker.data.errors import WorkerError
from stoker.data.feed_engine import find_program
from stoker.data.loader_test import children, items_of, same


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Feed:
    """A feed group of this test's own."""

    def __init__(self, folder, program):
        self.token = folder / "token"
        self.token.write_text("0123456789abcdef\n")
        self.dispatcher = f"127.0.0.1:{free_port()}"
        self.program = program
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.log = folder / "log"  # what they say
        self.processes = [self.start("feed-dispatcher", "--listen", self.dispatcher)]

    def start(self, part, *arguments):
        command = [self.program, part, *arguments, "--token-file", str(self.token)]
        with self.log.open("ab") as log:
            return subprocess.Popen(command, env=self.environment, stderr=log)

    def add_worker(self, threads=1):
        worker = self.start(
            "feed-worker", "--listen", "127.0.0.1:0", "--dispatcher", self.dispatcher, "--threads", str(threads),
            "--python", sys.executable,
        )  # fmt: skip
        self.processes.append(worker)
        return worker

    def end(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(20)


@pytest.fixture
def feed(tmp_path, monkeypatch):
    try:
        program = find_program()
    except WorkerError:
        pytest.skip("no stoker program was built")
    group = Feed(tmp_path, program)
    monkeypatch.setenv("STOKER_FEED", group.dispatcher)
    monkeypatch.setenv("STOKER_FEED_TOKEN_FILE", str(group.token))
    yield group
    group.end()


def test_python_datasets_run_there_and_give_the_same_bytes(feed, monkeypatch):
    def epochs(workers):
        torch.manual_seed(8)
        loader = stoker.DataLoader(data.Draws(40), batch_size=4, shuffle=True, num_workers=workers)
        got = [list(loader) for _ in range(2)]
        digest = loader.state_dict()["digest"]
        assert children() == [process.pid for process in feed.processes] or workers == 0
        loader.close()
        return got, digest

    feed.add_worker()
    there, there_digest = epochs(2)
    monkeypatch.delenv("STOKER_FEED")
    here, _ = epochs(0)
    for a, b in zip(here, there, strict=True):
        assert all(map(same, a, b))
    assert there_digest != "0" * 32


def test_a_worker_that_dies_costs_nothing(feed):
    first = feed.add_worker()
    feed.add_worker()
    loader = stoker.DataLoader(data.Numbers(300), batch_size=2, num_workers=1)
    got = []
    for index, batch in enumerate(loader):
        got.append(batch)
        if index == 3:
            first.send_signal(signal.SIGKILL)
    assert items_of(got) == list(range(300))
    end = time.monotonic() + 60
    while "is gone: it has ended or was silent; 1 are left" not in feed.log.read_text():
        assert time.monotonic() < end, feed.log.read_text()
        time.sleep(0.05)


@pytest.mark.parametrize("contents", [None, "", "\n", "t\xf6ken"])
def test_a_token_file_that_cannot_be_used_is_named_with_its_variable(tmp_path, monkeypatch, contents):
    path = tmp_path / "token"
    if contents is not None:
        path.write_text(contents, encoding="utf-8")
    monkeypatch.setenv("STOKER_FEED", "127.0.0.1:9")
    monkeypatch.setenv("STOKER_FEED_TOKEN_FILE", str(path))
    with pytest.raises(WorkerError, match=f"STOKER_FEED_TOKEN_FILE={path}, the feed group's token, (cannot be read|is empty)"):
        next(iter(stoker.DataLoader(data.Numbers(9), batch_size=3)))


def test_a_process_that_hangs_is_replaced_also_where_no_other_worker_could_be_asked(feed, tmp_path):
    worker = feed.add_worker()
    loader = stoker.DataLoader(data.HangsOnce(40, tmp_path / "hung", 30), batch_size=2)
    iterator = iter(loader)
    got = [next(iterator) for _ in range(5)]
    (before,) = children(worker.pid)
    assert torch.cat([*got, *iterator]).tolist() == list(range(40))
    (after,) = children(worker.pid)
    assert before != after and loader.stats().feed.hedged == 0


def test_a_process_that_hangs_is_replaced_sooner_where_its_batch_was_waited_for_in_vain(feed, tmp_path):
    feed.add_worker()
    loader = stoker.DataLoader(data.HangsOnce(8, tmp_path / "hung"), batch_size=2, timeout=1)
    iterator, got = iter(loader), []
    while len(got) < 4:
        try:
            got.append(next(iterator))
        except RuntimeError as error:
            assert "timed out after 1 seconds: batch 2 of epoch 0" in str(error) or not got  # while it starts
    assert torch.cat(got).tolist() == list(range(8))


def test_a_batch_at_which_each_process_hangs_is_an_error_in_the_end(feed):
    feed.add_worker()
    loader = stoker.DataLoader(data.HangsForGood(8), batch_size=2, timeout=0.5)
    iterator, got, told = iter(loader), [], None
    while len(got) < 3:
        try:
            got.append(next(iterator))
        except stoker.WorkerError as error:
            told = str(error)
            assert len(got) == 2
        except RuntimeError as error:
            assert "timed out" in str(error)
    assert torch.cat(got).tolist() == [0, 1, 2, 3, 6, 7]
    assert "at the batch of position 4 for" in told and "was killed while it made this batch, as did 2 before it" in told


def test_workers_that_cannot_start_again_are_an_error_in_the_end(feed, tmp_path):
    feed.add_worker()
    iterator = iter(stoker.DataLoader(data.DiesForGood(9, tmp_path / "dead"), batch_size=3))
    assert next(iterator).tolist() == [0, 1, 2]
    with pytest.raises(stoker.WorkerError, match="Python worker process"):
        next(iterator)


def test_a_refused_token_is_told_at_once(feed, tmp_path, monkeypatch):
    # Not by the time that passes without workers, which would be told in other words.
    feed.add_worker()
    other = tmp_path / "other"
    other.write_text("fedcba9876543210\n")
    monkeypatch.setenv("STOKER_FEED_TOKEN_FILE", str(other))
    loader = stoker.DataLoader(data.Numbers(9), batch_size=3)
    iterator = iter(loader)
    with pytest.raises(WorkerError, match="refuses the token.*give both the same file.*this iterator ends here") as caught:
        next(iterator)
    assert caught.value.position is None and "sample" not in str(caught.value)
    assert loader.stats().errors["refused_token"] >= 1
    with pytest.raises(StopIteration):
        next(iterator)


def test_loaders_that_are_closed_do_not_pile_up_in_a_worker(feed):
    worker = feed.add_worker(threads=2)
    for count in range(30, 90, 10):  # of another length: each is a plan of its own
        loader = stoker.DataLoader(data.Numbers(count), batch_size=5, num_workers=1)
        assert items_of(loader) == list(range(count))
        loader.close()
        assert len(children(worker.pid)) <= 6  # its own, those of the last one, and some that are just ending


@pytest.fixture
def unreachable(tmp_path, monkeypatch):
    """A loader whose feed group is not there."""
    (tmp_path / "token").write_text("0123456789abcdef\n")
    address = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("STOKER_FEED", address)
    monkeypatch.setenv("STOKER_FEED_TOKEN_FILE", str(tmp_path / "token"))
    loader = stoker.DataLoader(data.Numbers(9), batch_size=3, num_workers=1, timeout=0.3)
    yield loader, address
    loader.close()


def test_a_timeout_holds_for_a_feed_group_that_cannot_be_reached(unreachable):
    loader, address = unreachable
    iterator = iter(loader)
    for _ in range(2):  # the batch is still to come
        with pytest.raises(RuntimeError, match="timed out after 0.3 seconds: batch 0.*has not come") as caught:
            next(iterator)
        for told in (f"feed group {address}", "last problem: the dispatcher", "longer timeout="):
            assert told in str(caught.value), caught.value


@pytest.mark.parametrize("close", ["iterator", "loader"])
def test_closing_ends_a_wait_in_another_thread(unreachable, monkeypatch, close):
    loader = stoker.DataLoader(data.Numbers(9), batch_size=3, num_workers=1)
    iterator = iter(loader)
    got = []

    def wait():
        try:
            got.append(next(iterator))
        except BaseException as error:
            got.append(error)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    while iterator._one_at_a_time.acquire(blocking=False):  # until that thread is in next()
        iterator._one_at_a_time.release()
    (iterator if close == "iterator" else loader).close()
    waiting.join(30)
    assert not waiting.is_alive() and [type(one) for one in got] == [StopIteration]
    with pytest.raises(StopIteration):
        next(iterator)
    loader.close()


def test_errors_come_back_from_there(feed):
    feed.add_worker()
    loader = stoker.DataLoader(data.Failing(9, "value"), batch_size=3)
    iterator = iter(loader)
    assert next(iterator).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="five is bad"):
        next(iterator)
    assert next(iterator).tolist() == [6, 7, 8]
    assert loader.stats().errors["python"] >= 1


def test_damaged_pictures_that_are_met_there_are_counted_here(feed, tmp_path):
    numpy, Image = pytest.importorskip("numpy"), pytest.importorskip("PIL.Image")
    v2 = pytest.importorskip("torchvision.transforms.v2")
    folder = tmp_path / "train" / "c"
    folder.mkdir(parents=True)
    for number in range(24):
        Image.fromarray(numpy.full((40, 60, 3), 9 * number, numpy.uint8)).save(folder / f"{number:02}.jpg")
    for number in (3, 4, 20):
        (folder / f"{number:02}.jpg").write_bytes((folder / f"{number:02}.jpg").read_bytes()[:200])
    Image.fromarray(numpy.zeros((40, 60, 3), numpy.uint8)).save(folder / "21.gif")
    (folder / "21.gif").rename(folder / "21.jpg")
    feed.add_worker()
    source = stoker.data.image_folder(str(folder.parent), transform=v2.Compose([v2.Resize((8, 8)), v2.ToImage()]))
    loaders = [stoker.DataLoader(source, batch_size=4, on_error=how) for how in ("skip", "substitute")]
    for loader in loaders:
        list(loader), list(loader)
    skipping, replacing = (loader.stats() for loader in loaders)
    assert (skipping.skipped, skipping.substituted, skipping.other_formats) == (6, 0, 2)
    assert (replacing.skipped, replacing.substituted) == (0, 6) and replacing.other_formats >= 2


def test_a_changed_dataset_is_sent_again(feed):
    feed.add_worker()
    dataset = data.Kept(4)
    loader = stoker.DataLoader(dataset, batch_size=4)
    epochs = []
    for epoch in (0, 0, 1):
        dataset.epoch = epoch
        epochs += [batch[1].tolist() for batch in loader]
    assert epochs == [[0] * 4, [0] * 4, [1] * 4]


def both_ready(loader):
    """The figures of its feed once two workers have taken its plan, which one may do later than the other has made much."""
    for _ in range(600):
        told = loader.stats().feed
        if len(told.workers) == 2 and all(one.ready for one in told.workers):
            return told
        time.sleep(0.05)
    raise AssertionError(told)


def test_stats_tell_of_the_feed_group(feed):
    workers = [feed.add_worker() for _ in range(2)]
    loader = stoker.DataLoader(data.Numbers(3000), batch_size=2, num_workers=1)
    assert stoker.DataLoader(data.Numbers(4), batch_size=2).stats().feed is None
    for index, _ in enumerate(loader):
        if index == 700:
            told = both_ready(loader)
            workers[0].send_signal(signal.SIGKILL)
    stats = loader.stats()
    assert stats.feed.lost == 1 and stats.feed.bytes_received > 0
    assert sum(one.samples for one in stats.feed.workers) <= 3000
    assert "samples/s of feed worker 127.0.0.1:" in str(stats) and "went wrong: 1 lost" in str(stats)
    assert stats.errors["lost"] == 1
    assert sum(one.samples for one in told.workers) > 1000


def test_what_helpers_would_make_is_known_before_there_are_any(feed, monkeypatch):
    monkeypatch.delenv("STOKER_FEED")
    loader = stoker.DataLoader(data.Spinning(300), batch_size=4, num_workers=1, spare_cores=0)
    for _ in loader:
        pass
    alone = loader.explain(helpers=(1, 2), cores=1).forecasts
    monkeypatch.setenv("STOKER_FEED", feed.dispatcher)
    for _ in range(2):
        feed.add_worker()
    loader = stoker.DataLoader(data.Spinning(100_000), batch_size=4, spare_cores=0)
    for index, _ in enumerate(loader):
        if index % 20 == 0 and sum(one["workers"] for one in loader.stats().feed.sizing) == 2:
            break
    told = loader.explain(helpers=(1, 2)).forecasts
    loader.close()
    for before, now in zip(alone, told, strict=True):
        name = f"the helpers ({before.helpers})"
        assert before.binds == name and 1 / 3 < before.limits[name] / now.limits[name] < 3, (before, now)


def test_a_loop_that_waits_wants_more_workers(feed):
    feed.add_worker()
    loader = stoker.DataLoader(data.Spinning(100_000), batch_size=4)
    deadline = time.monotonic() + 300
    for index, _ in enumerate(loader):
        if index % 20 == 0 and (sizing := loader.stats().feed.sizing):
            break
        assert time.monotonic() < deadline, loader.stats()
    (told,) = sizing
    assert (told["group"], told["workers"]) == ("", 1) and told["wanted"] >= 2
    assert told["demand_per_s"] > told["supply_per_s"] > 0 and told["stall"] > 0.05 and "waits" in told["reason"]
    assert " wanted: the loop waits" in str(loader.stats())
