# SPDX-License-Identifier: Apache-2.0
"""What a loader keeps of stored pictures so that decoding them again is cheaper: docs/guide/loader.md, "Decoding less".

It changes no byte of a batch, so it is no part of a plan: it goes to whoever opens one on this machine. A value.
"""

import os
from dataclasses import dataclass

from stoker import _native

KINDS = ("index", "coefficients")
BUDGET_BYTES = 16 << 30
HALF_OF_THE_DISK = 0


@dataclass(frozen=True)
class PictureCache:
    kind: str
    folder: str  # "": `pictures` in the cache folder
    budget_bytes: int  # of the pictures of one source
    total_bytes: int = HALF_OF_THE_DISK  # of all sources in the folder together

    @classmethod
    def of(cls, kind, folder=None, budget_bytes=None, total_bytes=None):
        """From a loader's arguments; None where there is no cache. Makes the folder, so that a wrong one is an error now."""
        if kind is None:
            if folder is not None or budget_bytes is not None or total_bytes is not None:
                raise ValueError("cache_dir, cache_budget and cache_total are of a picture_cache, and none was asked for")
            return None
        if kind not in KINDS:
            raise ValueError(f"picture_cache should be {' or '.join(map(repr, KINDS))}, but got {kind!r}")
        budget_bytes = BUDGET_BYTES if budget_bytes is None else budget_bytes
        for name, number in {"cache_budget": budget_bytes, "cache_total": total_bytes}.items():
            if number is not None and (not isinstance(number, int) or isinstance(number, bool) or not 1 <= number < 1 << 60):
                raise ValueError(f"{name} should be a number of bytes, but got {number!r}")
        total_bytes = HALF_OF_THE_DISK if total_bytes is None else total_bytes
        if folder is None:
            return cls(kind, "", budget_bytes, total_bytes)
        return cls(kind, _made(folder), budget_bytes, total_bytes)

    def native(self) -> tuple:
        """As the extension takes it."""
        return self.kind, os.fsencode(self.folder), self.budget_bytes, self.total_bytes

    def arguments(self) -> list:
        """As `stoker feed-worker` takes it."""
        folder = ["--picture-cache-dir", self.folder] if self.folder else []
        numbers = ["--picture-cache-bytes", str(self.budget_bytes), "--picture-cache-total", str(self.total_bytes)]
        return ["--picture-cache", self.kind, *folder, *numbers]

    def describe(self, plan_text: str) -> str:
        """What there is of it, for people."""
        try:
            path, entries, size = _native.pipeline.picture_cache_figures(_native.pipeline.Plan.parse(plan_text), self.native())
        except (OSError, RuntimeError, ValueError) as error:
            return f"{self.kind}: none, {error}"
        return f"{self.kind} of {entries} pictures, {size / 2**20:.0f} of {self.budget_bytes / 2**20:.0f} MiB, in {path}"


def _made(folder) -> str:
    """The absolute path of a cache_dir, which is there then."""
    text = os.fsdecode(folder) if isinstance(folder, (str, bytes, os.PathLike)) else ""
    if not text or "\0" in text:
        raise ValueError(f"cache_dir should be the path of a folder, but got {folder!r}; without it the cache is in the user's cache folder")
    try:
        os.makedirs(text, mode=0o700, exist_ok=True)
    except OSError as error:
        why = "there is a file in its place" if isinstance(error, FileExistsError) else error.strerror
        raise OSError(error.errno, f"cache_dir: the folder cannot be made: {why}", os.path.abspath(text)) from None
    return os.path.abspath(text)
