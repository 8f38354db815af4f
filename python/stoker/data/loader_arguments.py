# SPDX-License-Identifier: Apache-2.0
"""What a loader's arguments may be: torch's rules in torch's words, and ours. Each raises for what cannot be honoured."""

import math
import os

from stoker.data import iterable as iterables
from stoker.data.fluent import CALL_A_FACE, Pipe, refuse_path
from stoker.data.image import check_gray16

MOST_WORKERS = 1024


def batch_size_of(batch_size, shuffle, sampler, batch_sampler, drop_last):
    """The batch size that torch's loader would have: None where a batch_sampler decides, or nothing is batched."""
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
        return None
    if batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )
    if batch_size is not None and (not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1):
        raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size!r}")
    return batch_size


def check_workers(num_workers, timeout, prefetch_factor, persistent_workers, context) -> None:
    if isinstance(num_workers, bool) or not hasattr(num_workers, "__index__"):
        raise TypeError(f"num_workers is a number of processes, not {num_workers!r}")
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
        )
    if num_workers > MOST_WORKERS:
        raise ValueError(f"num_workers is a number of processes on this machine, at most {MOST_WORKERS}, but got {num_workers}")
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool):
        raise TypeError(f"timeout is a number of seconds, not {timeout!r}")
    if not 0 <= timeout < math.inf:  # NaN neither
        raise ValueError(f"timeout option should be non-negative and finite (0: wait for as long as it takes), but got {timeout}")
    if timeout > 0 and num_workers == 0 and not os.environ.get("STOKER_FEED"):
        raise ValueError("timeout needs num_workers > 0: what runs in this process cannot be waited for")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and (isinstance(prefetch_factor, bool) or not hasattr(prefetch_factor, "__index__")):
        raise TypeError(f"prefetch_factor is a number of batches, not {prefetch_factor!r}")
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ValueError(f"prefetch_factor option should be at least 1, but got {prefetch_factor}")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if context is None:
        return
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            f"num_workers={num_workers}"
        )
    import multiprocessing.context

    method = context
    if isinstance(context, multiprocessing.context.BaseContext):
        method = context.get_start_method()
    elif not isinstance(context, str):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, but "
            f"got multiprocessing_context={context}"
        )
    if method not in ("fork", "spawn", "forkserver"):
        raise ValueError(
            "multiprocessing_context option should specify a valid start method in ['fork', 'spawn', 'forkserver'], but "
            f"got multiprocessing_context={context!r}"
        )
    if method == "fork":
        raise ValueError(
            "multiprocessing_context='fork' cannot be honoured: stoker's workers are new processes (as with 'spawn'), which "
            "inherit no memory. Leave the argument out"
        )


def check_dataset(dataset) -> None:
    if isinstance(dataset, Pipe):
        raise TypeError(f"a pipe is no dataset, but makes a loader itself: {CALL_A_FACE}")
    refuse_path(dataset)
    if not hasattr(dataset, "__getitem__") and not iterables.is_iterable(dataset):
        raise TypeError(
            f"{type(dataset).__name__} has no __getitem__ and is no torch IterableDataset: stoker needs samples by number, or a "
            "dataset that says it is to be iterated"
        )


def check_own(on_error, gray16, version) -> None:
    check_gray16(gray16)
    if on_error not in ("raise", "skip", "substitute"):
        raise ValueError(f"on_error should be 'raise', 'skip' or 'substitute', but got {on_error!r}")
    if version is not None and not isinstance(version, (str, int)):
        raise TypeError(f"version should be a string or a number, but got {type(version).__name__}")


def check_generator(torch, generator) -> None:
    if generator is not None and (torch is None or not isinstance(generator, torch.Generator)):
        raise TypeError(f"generator should be a torch.Generator, but got {type(generator).__name__}")
