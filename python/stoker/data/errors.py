# SPDX-License-Identifier: Apache-2.0
"""Errors that cross a process border: described as JSON by the worker, raised again in the trainer.

The trainer raises the original class where that class can be built from one text, so that `except KeyError` works
with workers as without, `except OSError` for a file that is gone, and `except ImageError`, with the damage's kind, path and
offset; else WorkerError, whose message and attributes carry the same facts.
"""

import builtins
import errno
import importlib
import traceback

from stoker import _native


_OF_CONTAINERS = ("not_tar", "duplicate_field", "corrupt_length", "corrupt_data")
_OVER = "; this iterator ends here, the next iter() tries anew"
_NO_TEXT = "(its text cannot be had: "
_LONGEST = 64 * 1024  # characters of a message, and of a traceback: a frame of JSON has a limit


class WorkerError(RuntimeError):
    """A sample failed in a worker, or no worker could be had. Attributes are None where they do not apply."""

    def __init__(self, message, *, type_name=None, position=None, item=None, worker=None, traceback_text=None, fault=None):
        super().__init__(message)
        self.type_name = type_name
        self.position = position
        self.item = item
        self.worker = worker
        self.traceback_text = traceback_text
        self.fault = fault  # {"kind", "path", "offset"} for damaged data


class _VerbatimText(str):
    """KeyError shows repr() of its argument; a traceback in repr() is unreadable."""

    def __repr__(self):
        return str(self)


def describe(error: BaseException, *, worker=None, position=None, item=None, doing=None) -> dict:
    """The error JSON of docs/formats/wire.md for an exception of Python code."""
    kind = type(error)
    try:
        text = str(error)
    except BaseException as broken:  # its own __str__, which is not the worker's end
        text = f"{_NO_TEXT}{type(broken).__name__})"
    described = {
        "code": "internal",
        "message": _travels(f"{kind.__name__}: {text}" if text else kind.__name__)[:_LONGEST],
        "type": f"{kind.__module__}.{kind.__qualname__}",
        "traceback": _travels("".join(traceback.format_exception(error)))[-_LONGEST:],
    }
    from stoker.data.image import ImageError

    if isinstance(error, ImageError):
        kind_of_damage, path, offset = (getattr(error, name, None) for name in ("kind", "path", "offset"))  # or of a class of the user's
        offset = offset if isinstance(offset, int) and 0 <= offset < 1 << 63 else -1
        described["fault"] = {"kind": str(kind_of_damage), "path": _travels(str(path or "")), "offset": offset}
    for key, value in (("worker", worker), ("position", position), ("item", item), ("doing", doing)):
        if value is not None:
            described[key] = value
    return described


def _travels(text: str) -> str:
    """File names may bring lone surrogates, which JSON does not carry."""
    return text.encode("utf-8", "backslashreplace").decode()


def exception_from(described: dict, *, epoch=None, over=False, native=False) -> Exception:
    """The exception to raise in the trainer for an error JSON. `over`: it is of no batch, and none comes after it; `native`: of
    a native plan, where an error that has a position is of that sample and not of a worker."""
    facts = {
        "type_name": described.get("type"),
        "position": described.get("position"),
        "item": described.get("item"),
        "worker": described.get("worker"),
        "traceback_text": described.get("traceback"),
        "fault": described.get("fault"),
    }
    if described.get("type") is None:
        return _native_error(described, facts, epoch, over, native)
    text = _text(described, epoch)
    kind = _find_class(described["type"])
    has_text = _NO_TEXT not in described["message"]  # that of a class without one would raise here too
    if has_text and kind is not None and issubclass(kind, Exception) and not issubclass(kind, (StopIteration, StopAsyncIteration)):
        try:
            error = _of_kind(kind, text, described.get("fault"))
            if type(error) is kind and described["message"] in str(error):
                for key, value in facts.items():
                    if not hasattr(error, key):
                        setattr(error, key, value)
                return error
        except (Exception, SystemExit):  # its constructor wants something else: say it with our own class
            pass
    return WorkerError(text, **facts)


def _of_kind(kind, text: str, fault):
    from stoker.data.image import ImageError

    if fault and issubclass(kind, ImageError):
        offset = fault.get("offset", -1)
        return kind(text, fault["kind"], fault.get("path", ""), offset if offset >= 0 else None)
    return kind(_VerbatimText(text) if issubclass(kind, KeyError) else text)


def _native_error(described: dict, facts: dict, epoch, over: bool, native: bool) -> Exception:
    """Of compiled code: the same classes as where it runs in this process."""
    message = described.get("message", "unknown error")
    told = ("position", "item") if f"position {described.get('position')}" in message else ()
    where = _where(described, epoch, told)
    if where:
        message = f"{message} ({where})"
    count = described.get("position_count")  # of a worker process that ended: what it had been asked for
    if count is not None and epoch is not None and not native:
        first = described["position"]
        many = f"position {first} is the first of the {count} samples (positions {first}–{first + count - 1}) that it was asked for"
        message += f"; {many}: if one of them ends it" if count > 1 else "; if that sample ends it"
        message += f", num_workers=0 shows {'which' if count > 1 else 'where'}"
    message += _OVER if over else ""
    fault = described.get("fault") or {}
    if not fault.get("kind"):
        kind = _native.feed.exception_class(described.get("code", ""))
        if over or not native or facts["position"] is None or kind is RuntimeError:
            return WorkerError(message, **facts)
        error = kind(errno.ENOSPC, message) if described.get("code") == "no_space" else kind(message)
        for key, value in facts.items():
            setattr(error, key, value)
        return error
    from stoker.data.containers import ContainerError
    from stoker.data.image import ImageError

    offset = fault.get("offset", -1)
    kind = ContainerError if fault["kind"] in _OF_CONTAINERS else ImageError
    error = kind(message, fault["kind"], fault.get("path", ""), offset if offset >= 0 else None)
    for key in ("position", "item", "worker"):
        setattr(error, key, facts[key])
    return error


def _text(described: dict, epoch) -> str:
    name = described["type"].rpartition(".")[2]
    doing = described.get("doing")
    lines = [f"Caught {name} in worker process {described.get('worker', '?')}"]
    where = _where(described, epoch, ("worker",))
    if where:
        lines[0] += f" at {where}"
    if doing:
        lines[0] += f" while {doing}"
    lines[0] += f". {described['message']}"
    return lines[0] + "\nOriginal " + described.get("traceback", "")


def _where(described: dict, epoch, told=()) -> str:
    """Position and item (of iterables shard and sample), worker and epoch, apart from those that the message tells."""
    parts = []
    for key in ("position", "item", "virtual shard", "sample", "worker"):
        if described.get(key) is not None and key not in told:
            parts.append(f"{key} {described[key]}")
    if epoch is not None and (parts or "position" in told):
        parts.append(f"epoch {epoch}")
    return ", ".join(parts)


def _find_class(full_name: str):
    """The class of that name, or None. Its module may have to be imported: the user's code raised it."""
    import sys

    module_name, _, qualified = full_name.rpartition(".")
    while module_name:
        module = builtins if module_name == "builtins" else sys.modules.get(module_name)
        if module is None:
            try:
                module = importlib.import_module(module_name)
            except Exception:
                module = None
        if module is not None:
            found = module
            for part in qualified.split("."):
                found = getattr(found, part, None)
            return found if isinstance(found, type) else None
        module_name, _, outer = module_name.rpartition(".")
        qualified = f"{outer}.{qualified}"
    return None
