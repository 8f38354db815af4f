# SPDX-License-Identifier: Apache-2.0
"""What is seen of a user's code that runs in worker processes: tracebacks, what it prints, and what failed."""

import os
import subprocess
import sys
import textwrap
import time

import pytest

torch = pytest.importorskip("torch")

import stoker
from stoker.data.loader_workers_test import ENVIRONMENT


def run_file(path, program):
    """Runs a program as the user's main script; (exit status, stdout, stderr)."""
    path.write_text(textwrap.dedent(program))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("fails", ["collate", "init", "inner", "shards"])
def test_tracebacks_of_the_main_scripts_code_name_its_file_and_show_its_line(tmp_path, fails):
    program = """
        import torch
        import stoker

        def fail():
            raise KeyError("here it fails")

        class Set(torch.utils.data.Dataset):
            def __len__(self):
                return 4

            def __getitem__(self, i):
                inner = lambda: fail() if WHAT == "inner" else None
                inner()
                return i

        class Shards(torch.utils.data.IterableDataset):
            def __iter__(self):
                yield fail()

        collate = (lambda rows: fail()) if WHAT == "collate" else None
        init = (lambda worker: fail()) if WHAT == "init" else None
        list(stoker.DataLoader(Shards() if WHAT == "shards" else Set(), num_workers=1, collate_fn=collate, worker_init_fn=init))
    """
    path = tmp_path / "train.py"
    status, _, err = run_file(path, program.replace("WHAT", repr(fails)))
    line = path.read_text().splitlines().index('    raise KeyError("here it fails")') + 1
    of_worker = err.partition("Original Traceback")[2]
    assert status == 1 and f'File "{path}", line {line}, in fail\n    raise KeyError("here it fails")\n' in of_worker, err
    assert "dynamic-code" not in err


@pytest.mark.parametrize("ends", ["list(loader)", "next(iter(loader)); loader.close()", "list(loader)  # killed"])
def test_what_a_dataset_prints_is_there_when_stdout_is_a_pipe(tmp_path, ends):
    program = """
        import os, signal
        import stoker

        class Set:
            def __len__(self):
                return 2

            def __getitem__(self, i):
                print("made", i)
                if KILLED and i == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                return i

        loader = stoker.DataLoader(Set(), num_workers=1)
        ENDS
    """
    killed = ends.endswith("killed")
    status, out, err = run_file(tmp_path / "train.py", program.replace("ENDS", ends).replace("KILLED", repr(killed)))
    assert status == int(killed) and "made 0\n" in out and (ends.startswith("next") or "made 1\n" in out), (out, err)


def test_a_failing_worker_init_fn_is_named():
    def init(worker):
        raise OSError("no such device")

    with pytest.raises(OSError, match="Caught OSError in worker process 0 while running worker_init_fn.*no such device"):
        list(stoker.DataLoader(list(range(4)), num_workers=1, worker_init_fn=init))


class EndsItsWorker(torch.utils.data.Dataset):
    """Item 5 ends the process that makes it, as a crash in compiled code would."""

    def __len__(self):
        return 40

    def __getitem__(self, i):
        if i == 5:
            os._exit(1)
        time.sleep(0.05)
        return i


def test_a_sample_that_ends_its_worker_takes_no_other_batch_with_it_and_is_named():
    iterator = iter(stoker.DataLoader(EndsItsWorker(), batch_size=2, num_workers=2))
    batches, errors = [], []
    while True:
        try:
            batches.append(next(iterator).tolist())
        except StopIteration:
            break
        except stoker.WorkerError as error:
            errors.append(str(error))
    whole = [[i, i + 1] for i in range(0, 40, 2) if i != 4]
    assert errors and all("position 4 is the first of the 2 samples (positions 4–5)" in error for error in errors), errors
    over = "this iterator ends here" in errors[-1]  # as it is where one worker has died of it four times in a row
    assert batches == (whole[: len(batches)] if over else whole)
