# SPDX-License-Identifier: Apache-2.0
"""A loader with worker processes: deaths, stops, interrupts, forks, kept batches, and what is left behind."""

import gc
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
import weakref

import pytest

torch = pytest.importorskip("torch")

import stoker
from stoker.data import loader_data_test as data
from stoker.data.loader_test import children, items_of

PACKAGES = os.path.dirname(os.path.dirname(stoker.__file__))
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([PACKAGES, os.environ.get("PYTHONPATH", "")])}


def state_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(") ")[2][0]


def await_true(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def run(script, *, limits="", timeout=60):
    """Runs a script of its own, as a user would; returns (exit status, stdout, stderr, seconds)."""
    start = time.monotonic()
    program = textwrap.dedent(script)
    command = ["bash", "-c", f'{limits} exec "$0" -c "$1"', sys.executable, program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=ENVIRONMENT)
    return done.returncode, done.stdout, done.stderr, time.monotonic() - start


def test_a_killed_worker_costs_no_sample(tmp_path):  # R08
    loader = stoker.DataLoader(data.Slow(60, 0.005, str(tmp_path)), batch_size=3, num_workers=2)
    got = []
    for index, batch in enumerate(loader):
        got.append(batch)
        if index in (2, 7):
            os.kill(children()[0], signal.SIGKILL)
    assert items_of(got) == list(range(60))
    assert all((batch[0][:, 0] == batch[1]).all() for batch in got)
    await_true(lambda: children() == [])


def test_a_stopped_worker_ends_in_an_answer_within_the_timeout(tmp_path):  # R08
    loader = stoker.DataLoader(data.Slow(40, 0.002, str(tmp_path)), batch_size=2, num_workers=2, timeout=5)
    iterator = iter(loader)
    got = [next(iterator) for _ in range(3)]
    stopped = children()[0]
    os.kill(stopped, signal.SIGSTOP)
    try:
        got += list(iterator)
        assert items_of(got) == list(range(40))
    except RuntimeError as error:
        assert "timed out" in str(error) and "batch" in str(error)
    del iterator
    loader.close()
    await_true(lambda: children() == [])


def test_the_timeout_names_what_was_waited_for(tmp_path):
    loader = stoker.DataLoader(data.Slow(8, 600, str(tmp_path)), batch_size=2, num_workers=1, timeout=3)
    with pytest.raises(RuntimeError, match=r"timed out after 3 seconds.*batch 0 of epoch 0 \(positions 0 to 1"):
        next(iter(loader))
    loader.close()
    assert children() == []


def test_after_a_timeout_the_batch_is_still_to_come(tmp_path):
    gate = tmp_path / "gate"
    loader = stoker.DataLoader(data.Gated(6, str(gate)), batch_size=2, num_workers=1, timeout=1)
    iterator = iter(loader)
    assert next(iterator)[0].tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="batch 1 of epoch 0"):
        next(iterator)
    gate.touch()
    assert [batch[0].tolist() for batch in iterator] == [[2, 3], [4, 5]]


def test_after_timeouts_the_worker_that_hangs_is_replaced(tmp_path):
    loader = stoker.DataLoader(data.HangsOnce(8, tmp_path / "hung"), batch_size=2, num_workers=1, timeout=1)
    iterator, got, hung = iter(loader), [], set()
    while len(got) < 4:
        try:
            got.append(next(iterator).tolist())
        except RuntimeError as error:
            assert "batch 2 of epoch 0" in str(error)
            hung.update(children())
    assert got == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert hung and hung.isdisjoint(children())


def test_workers_end_with_the_epoch_unless_they_persist():
    once = stoker.DataLoader(data.Numbers(8), batch_size=2, num_workers=2)
    assert items_of(once) == list(range(8))
    assert children() == []
    kept = stoker.DataLoader(data.Numbers(8), batch_size=2, num_workers=2, persistent_workers=True)
    assert items_of(kept) == list(range(8))
    before = set(children())
    assert len(before) == 2
    for _ in kept:
        break
    assert items_of(kept) == list(range(8))
    assert set(children()) == before
    del kept
    gc.collect()
    assert children() == []


def test_a_worker_that_cannot_be_kept_alive_ends_the_iterator_with_one_error(tmp_path):
    # As with torch: one error, then the end; the next iter() starts workers again.
    poison = tmp_path / "poison"
    poison.touch()
    for loader in (
        stoker.DataLoader(data.Poisoned(6, str(poison)), batch_size=2, num_workers=2, persistent_workers=True),
        stoker.DataLoader(data.Poisoned(6, str(poison)), batch_size=2, num_workers=1),
    ):
        iterator = iter(loader)
        with pytest.raises(stoker.WorkerError, match="4th time in a row.*this iterator ends here, the next iter"):
            list(iterator)
        with pytest.raises(StopIteration):
            next(iterator)
        assert children() == []
        state = loader.state_dict()
        assert state["batch"] == 0 and not state["finished"]  # nothing was lost: here it goes on
        poison.unlink()
        loader.load_state_dict(state)
        assert items_of(loader) == list(range(6))
        assert items_of(loader) == list(range(6))
        poison.touch()
        loader.close()


def test_an_iterable_whose_worker_cannot_be_kept_alive_ends_with_one_error(tmp_path):
    poison = tmp_path / "poison"
    poison.touch()
    loader = stoker.DataLoader(data.PoisonedStream(str(poison)), batch_size=2, num_workers=1)
    iterator = iter(loader)
    with pytest.raises(stoker.WorkerError, match="4th time in a row.*this iterator ends here"):
        next(iterator)
    assert list(iterator) == [] and children() == []
    poison.unlink()
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]


DROPPED = {
    "python": lambda: stoker.DataLoader(data.Numbers(8), batch_size=2, num_workers=2, persistent_workers=True),
    "one epoch": lambda: stoker.DataLoader(data.Numbers(8), batch_size=2, num_workers=2),
    "arrays": lambda: stoker.data.arrays(list(range(8))).batch(2).numpy(workers=2),
    "pipe": lambda: stoker.data.range(8).map(float).batch(2).numpy(workers=2),
    "iterable": lambda: stoker.DataLoader(data.PoisonedStream(""), batch_size=2, num_workers=1, persistent_workers=True),
}


@pytest.mark.parametrize("kind, used", [("python", "whole"), ("python", "kept iterator"), *((kind, "begun") for kind in DROPPED)])
def test_a_dropped_loader_ends_its_workers_without_a_collection(kind, used):
    gc.collect()
    gc.disable()
    try:
        loader = DROPPED[kind]()
        gone = weakref.ref(loader)
        if used == "whole":
            list(loader)
        elif used == "begun":
            next(iter(loader))
        else:
            iterator = iter(loader)
            next(iterator)
            loader.stats()
            del iterator
        del loader
        assert gone() is None and children() == []
    finally:
        gc.enable()


def test_a_dataset_changed_between_epochs_is_seen_by_new_workers():
    dataset = data.Kept(4)
    loader = stoker.DataLoader(dataset, batch_size=4, num_workers=1)
    epochs = []
    for epoch in range(2):
        dataset.epoch = epoch
        epochs += [batch[1].tolist() for batch in loader]
    assert epochs == [[0] * 4, [1] * 4]


def test_worker_info_and_worker_init(tmp_path):
    loader = stoker.DataLoader(data.Info(12), batch_size=1, num_workers=2)
    seen = torch.cat([torch.stack(batch, 1) for batch in loader])
    assert seen[:, 0].tolist() == list(range(12))
    assert set(seen[:, 1].tolist()) <= {0, 1} and set(seen[:, 2].tolist()) == {2}
    loader = stoker.DataLoader(
        data.Slow(8, 0, str(tmp_path)), batch_size=1, num_workers=2, worker_init_fn=data.leave_note
    )
    list(loader)
    notes = [name for name in os.listdir(tmp_path) if name.startswith("init.")]
    numbers = [name.split(".")[1] for name in notes]
    assert numbers and len(set(numbers)) == len(numbers) and set(numbers) <= {"0", "1"}


def test_kept_batches_block_nothing_and_cost_no_descriptor():  # R12
    script = """
    import os, torch, stoker
    from stoker.data import loader_data_test as data
    kept = []
    loader = stoker.DataLoader(data.Numbers(1500), batch_size=1, num_workers=2)
    for batch in loader:
        kept.append(batch)
        if len(kept) == 200:
            before = len(os.listdir("/proc/self/fd"))
    after = len(os.listdir("/proc/self/fd"))
    assert after <= before + 8, (before, after)
    assert [b[1].item() for b in kept] == list(range(1500))
    assert all((b[0] == b[1]).all() for b in kept)
    """
    status, _, errors, _ = run(script, limits="ulimit -n 256;")
    assert status == 0, errors


def test_batches_are_views_that_outlive_the_loader():
    loader = stoker.DataLoader(data.Big(6), batch_size=2, num_workers=1)
    batches = list(loader)
    loader.close()
    del loader
    gc.collect()
    assert [batch[:, 0, 0].tolist() for batch in batches] == [[0, 1], [2, 3], [4, 5]]
    batches[0].add_(1)  # writable


def test_memory_is_flat_over_epochs():  # R14
    loader = stoker.DataLoader(data.Big(64), batch_size=8, num_workers=2, persistent_workers=True)
    peaks = []
    for _ in range(6):
        for _ in loader:
            pass
        with open("/proc/self/statm") as file:
            peaks.append(int(file.read().split()[1]) * resource.getpagesize())
    assert max(peaks[2:]) < peaks[1] * 1.05 + (4 << 20)


def test_a_script_that_ends_early_ends_at_once_and_quietly():  # R06
    script = """
    import torch, stoker
    from stoker.data import loader_data_test as data
    loader = stoker.DataLoader(data.Numbers(100), batch_size=1, num_workers=4, persistent_workers=True)
    iterator = iter(loader)
    next(iterator)
    import time
    open("/dev/stdout", "w").write(f"{time.monotonic()}\\n")
    """
    status, out, errors, _ = run(script)
    assert status == 0 and errors == ""
    assert time.monotonic() - float(out) < 100


def test_interrupt_works_while_waiting(tmp_path):
    script = f"""
    import torch, stoker
    from stoker.data import loader_data_test as data
    loader = stoker.DataLoader(data.Slow(8, 600, {str(tmp_path)!r}), batch_size=2, num_workers=1)
    try:
        next(iter(loader))
    except KeyboardInterrupt:
        print("interrupted")
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=ENVIRONMENT)
    await_true(lambda: os.listdir(tmp_path))
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to the workers as well
    out, errors = child.communicate(timeout=300)  # the sample takes 600
    assert out == "interrupted\n" and errors == "" and child.returncode == 0


NATIVE = """
    import json, os, signal, numpy, stoker
    from stoker.data.loader_test import children
    numpy.save({path!r}, numpy.arange(8000))
    loader = stoker.DataLoader(stoker.data.arrays({path!r}), batch_size=10, num_workers=2)
    iterator = iter(loader)
    got, before = [next(iterator)], children()
"""


def test_interrupts_of_the_group_are_not_for_native_workers(tmp_path):
    script = textwrap.dedent(NATIVE.format(path=str(tmp_path / "x.npy"))) + textwrap.dedent("""
    interrupts = 0
    while True:
        try:
            if interrupts < 6 and len(got) > 5 * interrupts:
                interrupts += 1
                os.killpg(0, signal.SIGINT)  # as a terminal does: to the workers as well
            got += [next(iterator)]
        except KeyboardInterrupt:
            if interrupts == 6:
                after = children()
        except StopIteration:
            break
    assert before and after == before, (before, after)
    items = [int(i) for batch in got for i in numpy.asarray(batch).ravel()]
    assert items == list(range(8000)), len(items)
    """)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, start_new_session=True, env=ENVIRONMENT)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_native_workers_that_are_told_to_end_while_batches_are_taken_are_started_again(tmp_path):
    # Told by SIGTERM they end in order, which is no fault of theirs, and however often it is no reason to give up.
    script = textwrap.dedent(NATIVE.format(path=str(tmp_path / "x.npy"))) + textwrap.dedent("""
    import time
    for round in range(8):
        there = children()
        for pid in there:
            os.kill(pid, signal.SIGTERM)
        while set(there) & set(children()) or len(children()) < 2:
            time.sleep(0.01)
        got += [next(iterator) for _ in range(20)]
    got += list(iterator)
    items = [int(i) for batch in got for i in numpy.asarray(batch).ravel()]
    assert items == list(range(8000)), len(items)
    """)
    status, _, errors, _ = run(script)
    assert status == 0, errors
    assert "exit status 0" in errors and "signal 9" not in errors and "a child" not in errors, errors


def test_a_native_worker_that_dies_again_and_again_is_given_longer_and_longer_pauses(tmp_path):
    # The other one answers, so this is not what ends the loop; but nobody is to be started as fast as it can die.
    script = textwrap.dedent(NATIVE.format(path=str(tmp_path / "x.npy"))) + textwrap.dedent("""
    import time
    def until(holds):
        while not (found := holds(iterator._engine._client.stats()["endpoints"])): time.sleep(0.01)
        return found
    stays, pauses = f"child {before[0]}", 0
    while pauses < 2:
        (name, *_) = until(lambda all: [one["name"] for one in all if one["name"] != stays and one["ready"] and one["outstanding_rows"] == 0])
        os.kill(int(name.split()[1]), signal.SIGKILL)
        there = until(lambda all: name not in (names := [one["name"] for one in all]) and names)
        pauses += there == [stays]
        got += [next(iterator) for _ in range(3)]  # by the one that stays, but for a time when the new one is quicker
        until(lambda all: any(one["name"] == stays and one["outstanding_rows"] == 0 for one in all))
    got += list(iterator)
    items = [int(i) for batch in got for i in numpy.asarray(batch).ravel()]
    assert items == list(range(8000)), len(items)
    """)
    status, _, errors, _ = run(script)
    assert status == 0, errors
    assert "started again after 500 ms, for it has ended 3 times in a row" in errors, errors


def test_an_interrupt_while_waiting_costs_no_batch(tmp_path):
    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    iterator = iter(stoker.DataLoader(data.Slow(10, 0.1, str(tmp_path)), batch_size=1, num_workers=1))
    got = [next(iterator)]
    interrupted = 0
    before = signal.signal(signal.SIGALRM, stop)
    try:
        while True:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.07)  # in the middle of the wait that the next batch ends
                batch = next(iterator)
                signal.setitimer(signal.ITIMER_REAL, 0)
                got.append(batch)
            except Stop:
                interrupted += 1
            except StopIteration:
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted and items_of(got) == list(range(10))
    assert iterator.state_dict()["samples"] == 10


def test_killing_the_trainer_leaves_no_worker(tmp_path):
    script = f"""
    import torch, stoker
    from stoker.data import loader_data_test as data
    next(iter(stoker.DataLoader(data.Slow(8, 600, {str(tmp_path)!r}), batch_size=2, num_workers=1)))
    """
    trainer = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], env=ENVIRONMENT)
    await_true(lambda: os.listdir(tmp_path))
    worker = int(os.listdir(tmp_path)[0].split(".")[1])
    trainer.kill()
    trainer.wait()
    await_true(lambda: not os.path.exists(f"/proc/{worker}") or state_of(worker) == "Z")


def test_a_fork_of_the_trainer_can_neither_use_nor_harm_the_loader():
    loader = stoker.DataLoader(data.Numbers(40), batch_size=1, num_workers=1)
    iterator = iter(loader)
    next(iterator)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            next(iterator)
        except RuntimeError as error:
            status = 0 if "fork" in str(error) else 2
        try:
            iter(loader)
            status = 3
        except RuntimeError:
            pass
        del iterator, loader
        gc.collect()
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert items_of(iterator) == list(range(1, 40))


def test_a_fork_of_the_trainer_ends_at_once_and_quietly():
    script = """
    import os, signal, sys, stoker
    from stoker.data import loader_data_test as data
    iterator = iter(stoker.DataLoader(data.Numbers(40), batch_size=1, num_workers=1))
    next(iterator)
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # a child that waits for the parent's threads would wait for ever
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert [batch[1].item() for batch in iterator] == list(range(1, 40))
    """
    status, _, errors, _ = run(script)
    assert status == 0 and errors == ""


def test_two_iterators_with_workers_are_two_cursors():
    loader = stoker.DataLoader(data.Numbers(12), batch_size=2, num_workers=1)
    a, b = iter(loader), iter(loader)
    assert [next(a)[1][0].item(), next(a)[1][0].item(), next(b)[1][0].item()] == [0, 2, 0]
    assert items_of(a) == list(range(4, 12)) and items_of(b) == list(range(2, 12))
    assert children() == []


def test_classes_of_the_users_script_travel(tmp_path):
    script = tmp_path / "train.py"
    (tmp_path / "helper.py").write_text("def double(x):\n    return 2 * x\n")
    script.write_text(
        textwrap.dedent("""
        import collections
        import numpy
        import helper
        import stoker
        import torch

        Pair = collections.namedtuple("Pair", "a b")

        class Mine:
            def __len__(self):
                return 6
            def __getitem__(self, i):
                if i == 5:
                    raise Odd("odd one")
                return Pair(torch.ones(2) * helper.double(i), i)

        class Odd(Exception):
            pass

        if __name__ == "__main__":
            got = []
            try:
                for batch in stoker.DataLoader(Mine(), batch_size=2, num_workers=2):
                    assert type(batch) is Pair
                    got += batch.b.tolist()
            except Odd as error:
                assert "odd one" in str(error)
            assert got == [0, 1, 2, 3], got
        """)
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, cwd="/", env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr


def test_without_torch_batches_are_numpys():
    script = """
    import sys, numpy, stoker
    from stoker.data.loader_plain_test import Plain
    for workers in (0, 1):
        batches = list(stoker.DataLoader(Plain(), batch_size=4, num_workers=workers, shuffle=True))
        assert [b[0].shape for b in batches] == [(4, 3), (4, 3), (2, 3)]
        assert all(isinstance(b[0], numpy.ndarray) for b in batches)
        assert sorted(i for b in batches for i in b[1].tolist()) == list(range(10))
    assert "torch" not in sys.modules
    """
    status, _, errors, _ = run(script)
    assert status == 0, errors


def test_digests_and_telemetry_agree_whoever_makes_the_batches(tmp_path, monkeypatch):
    import json

    monkeypatch.setenv("STOKER_TELEMETRY_DIR", str(tmp_path))
    digests = []
    for workers in (0, 1, 2):
        torch.manual_seed(6)
        loader = stoker.DataLoader(data.Draws(30), batch_size=4, shuffle=True, num_workers=workers)
        for _ in range(2):
            list(loader)
        digests.append(loader.state_dict()["digest"])
        loader.close()
    assert len(set(digests)) == 1 and digests[0] != "0" * 32
    lines = [json.loads(line) for line in open(tmp_path / f"loader-{os.getpid()}.jsonl")]
    last = {line["loader"]: line for line in lines}
    assert len(last) == 3
    for line in last.values():
        assert (line["batches"], line["samples"], line["epochs"], line["steps"]) == (16, 60, 2, 14)
        assert line["digest"] == digests[0] and line["delivered_once"] and line["data_cpu_s"] > 0
        assert 0 < line["wait_s"] <= line["step_s"]


def test_few_descriptors_suffice_for_many_kept_batches():
    code = (
        "import resource, stoker; from stoker.data import loader_data_test as data\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "kept = list(stoker.DataLoader(data.Numbers(300), batch_size=1, num_workers=2))\n"
        "assert [batch[1].item() for batch in kept] == list(range(300))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_too_few_descriptors_are_told_with_what_raises_them():
    script = """
    import resource, stoker
    from stoker.data import loader_data_test as data
    loader = stoker.DataLoader(data.Numbers(9), num_workers=8)
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 4096))
    try:
        list(loader)
    except stoker.data.errors.WorkerError as error:
        print(error)
    """
    status, said, errors, _ = run(script)
    assert status == 0 and "Too many open files" in said and "`ulimit -n`" in said, (said, errors)


@pytest.mark.parametrize("workers", [0, 1])
def test_the_last_batches_of_a_script_that_just_ends_are_in_its_telemetry(tmp_path, workers):
    code = (
        "import torch, stoker\nfrom stoker.data import loader_data_test as data\n"
        f"loader = stoker.DataLoader(data.Numbers(30), batch_size=5, num_workers={workers})\n"
        "for _ in range(2):\n    list(loader)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "STOKER_TELEMETRY_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)
    (file,) = tmp_path.iterdir()
    last = json.loads(file.read_text().splitlines()[-1])
    assert (last["samples"], last["batches"], last["epochs"], last["delivered_once"]) == (60, 12, 2, True)


def test_closing_an_iterator_does_not_end_the_next_one_of_the_same_workers():
    loader = stoker.DataLoader(data.Numbers(12), batch_size=3, num_workers=1, persistent_workers=True)
    first = iter(loader)
    next(first)
    first.close()
    second = iter(loader)
    assert second._engine is first._engine
    first._engine.give_up(first._use)  # as close() of another thread does that comes this late
    assert len(list(second)) == 4
