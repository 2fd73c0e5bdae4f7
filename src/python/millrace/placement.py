"""Chooses where to keep the blocks of a remote data set between epochs: in memory, on a drive, or nowhere."""
from __future__ import annotations

import os
import shutil
import stat
from typing import Any, Dict

from . import _core
from ._core import available_memory

SHARED_MEMORY = "/dev/shm"
SHARED = f"{SHARED_MEMORY}/millrace-{os.getuid()}"
MEMORY_SHARE, DRIVE_SHARE = 0.25, 0.5


def _free(path: str) -> int:
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return shutil.disk_usage(path).free


def _is_own(path: str) -> bool:
    """Makes it; others could have made it before, where everybody may write."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError:
        return False
    facts = os.lstat(path)
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o022


def choose_cache(size: int, is_local: bool) -> Dict[str, Any]:
    """The settings of a recipe for a data set of `size` bytes."""
    if is_local:
        return {"cache": "", "cache_note": "cache: the files are local, the page cache keeps them"}
    memory = min(available_memory(), _free(SHARED_MEMORY) if os.path.isdir(SHARED_MEMORY) else 0)
    directory = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "millrace", "blocks")
    free = _free(directory)
    # The blocks are as they are stored: a GPU has no use for them.
    home, _ = _core.place(size, nodes=1, gpu_memory=0, ram=int(MEMORY_SHARE * memory), local=int(DRIVE_SHARE * free))
    if home == "ram" and _is_own(SHARED):
        return {"cache": SHARED, "cache_bytes": int(2 * MEMORY_SHARE * memory),
                "cache_note": f"cache: in memory, {size / 1e9:.1f} GB of {memory / 1e9:.1f} GB free"}
    if home in ("ram", "local"):
        return {"cache": directory, "cache_bytes": int(DRIVE_SHARE * free),
                "cache_note": f"cache: in {directory}, {size / 1e9:.1f} GB of {free / 1e9:.1f} GB free"}
    return {"cache": "", "cache_note": f"cache: none, {size / 1e9:.1f} GB fit neither into memory nor onto the drive"}
