"""DirectoryShardList: a directory as a queue of shards that several processes share.

A process claims a shard by renaming it to "name._PID_"; renaming is atomic, so that one of them gets it. What it left
behind when it died is put back by the others.
"""
from __future__ import annotations

import glob
import os
import random
import re
import time
from typing import Any, Iterator, List, Optional

from .. import arguments
from ..errors import InvalidError
from . import utils
from .pytorch import IterableDataset

ARCHIVES = "*.{tar,tgz,tar.gz,tar.zst,tar.bz2,tar.xz}"
_CLAIMED = re.compile(r"(.+)\._(\d+)_")


def archives_in(path: str, pattern: Optional[str] = None) -> List[str]:
    """By name."""
    patterns = utils.expand_braces(pattern or ARCHIVES)
    return sorted({name for each in patterns for name in glob.glob(os.path.join(glob.escape(path), each))})


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's
    return True


class DirectoryShardList(IterableDataset):
    """`mode`: what becomes of a shard that was read: "resample" (back into the queue), "unlink" (removed), "keep" (renamed to
    "name._done_"). `select`: "random" or "oldest". `poll`: seconds between looks into an empty directory; None: it ends
    then. `timeout`: seconds after which it ends in any case."""

    def __init__(self, path: str, pattern: Optional[str] = None, poll: Optional[float] = 1, timeout: float = 1e12,
                 mode: str = "resample", select: str = "random") -> None:
        super().__init__()
        if not os.path.isdir(path):
            raise InvalidError(f"{path} is no directory")
        self.path, self.pattern = os.path.join(path, ""), pattern
        self.poll = None if poll is None else arguments.real("poll", poll)
        self.timeout = arguments.real("timeout", timeout)
        self.mode = arguments.one_of("mode", mode, ("resample", "unlink", "keep"))
        self.select = arguments.one_of("select", select, ("random", "oldest"))

    def recycle(self, activename: str) -> None:
        """Ends the claim on a shard, as `mode` says."""
        name = os.path.splitext(activename)[0]
        if self.mode == "unlink":
            os.unlink(activename)
        else:
            os.rename(activename, name + "._done_" if self.mode == "keep" else name)

    def cleanup_files_without_processes(self) -> None:
        """Puts back what processes had claimed that are no longer there: they did not come to the end of it."""
        for name in glob.glob(glob.escape(self.path) + "*._*_"):
            claimed = _CLAIMED.fullmatch(name)
            if claimed is not None and not _is_running(int(claimed.group(2))):
                self._rename(name, claimed.group(1))

    @staticmethod
    def _rename(old: str, new: str) -> bool:
        try:
            os.rename(old, new)
            return True
        except FileNotFoundError:  # another process was quicker
            return False

    def _claim(self) -> Optional[str]:
        candidates = archives_in(self.path, self.pattern)
        while candidates:
            chosen = min(candidates, key=_age_of) if self.select == "oldest" else random.choice(candidates)
            active = f"{chosen}._{os.getpid()}_"
            if self._rename(chosen, active):
                return active
            candidates.remove(chosen)
        return None

    def __iter__(self) -> Iterator[Any]:
        end = time.monotonic() + self.timeout
        while time.monotonic() < end:
            active = self._claim()
            if active is not None:
                yield {"url": active}
                self.recycle(active)
                self.cleanup_files_without_processes()
            elif self.poll is None:
                return
            else:
                time.sleep(self.poll)


def _age_of(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:
        return float("inf")
