"""Finds the rank and worker of this process, makes seeds from them, and holds small functions that stages share."""
from __future__ import annotations

import fnmatch
import glob
import hashlib
import itertools
import os
import sys
from typing import Any, Callable, Iterable, Iterator, List, Optional, Tuple

from .. import _core
from ..errors import SecurityError


def _flag(name: str) -> bool:
    return os.environ.get(name, "0") not in ("", "0")


# WDS_SECURE forbids what even MILLRACE_ALLOW_PICKLE and MILLRACE_ALLOW_PIPE would permit.
enforce_security = _flag("WDS_SECURE")


def is_secure() -> bool:
    """Whether WDS_SECURE was said when the program began or since, or enforce_security was set."""
    return enforce_security or _flag("WDS_SECURE")


def check_security(refusal: str) -> None:
    if is_secure():
        raise SecurityError(refusal, hint="WDS_SECURE or utils.enforce_security asks for that")


def allowed(what: str) -> bool:
    """Whether MILLRACE_ALLOW_PICKLE=1 or MILLRACE_ALLOW_PIPE=1 was said."""
    return _flag(f"MILLRACE_ALLOW_{what.upper()}") and not is_secure()


class PipelineStage:
    """A stage as a class: run(source) gives an iterator. Subclasses may define invoke() instead."""

    def run(self, *args: Any, **kw: Any) -> Iterator:
        return self.invoke(*args, **kw)

    def invoke(self, *args: Any, **kw: Any) -> Iterator:
        raise NotImplementedError(f"{type(self).__name__} defines neither run nor invoke")


class EpochCount:
    """Which pass comes next. A seed that was set anew begins to count again: programs that seed by epoch get the order
    that their seed means."""

    def __init__(self) -> None:
        self.epoch, self._seed = -1, None

    def begin(self, seed: Any) -> int:
        self.epoch = self.epoch + 1 if seed == self._seed else 0
        self._seed = seed
        return self.epoch


def identity(x: Any) -> Any:
    return x


def is_iterable(obj: Any) -> bool:
    return isinstance(obj, Iterable) and not isinstance(obj, (str, bytes))


def make_seed(*args: Any) -> int:
    """31 bits that depend on the arguments' text alone, so they are the same in every process."""
    digest = hashlib.blake2b(repr(args).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") & 0x7FFFFFFF


def glob_with_braces(pattern: str) -> List[str]:
    return [name for each in expand_braces(pattern) for name in glob.glob(each)]


def fnmatch_with_braces(filename: str, pattern: str) -> bool:
    return any(fnmatch.fnmatch(filename, each) for each in expand_braces(pattern))


def pytorch_worker_info(group: Any = None) -> Tuple[int, int, int, int]:
    """(rank, world size, worker, number of workers): from the environment, else from torch, else one of one."""
    rank, world_size, worker, num_workers = 0, 1, 0, 1
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    elif "torch.distributed" in sys.modules:
        distributed = sys.modules["torch.distributed"]
        if distributed.is_available() and distributed.is_initialized():
            group = group or distributed.group.WORLD
            rank, world_size = distributed.get_rank(group=group), distributed.get_world_size(group=group)
    if "WORKER" in os.environ and "NUM_WORKERS" in os.environ:
        worker, num_workers = int(os.environ["WORKER"]), int(os.environ["NUM_WORKERS"])
    elif "torch.utils.data" in sys.modules:
        info = sys.modules["torch.utils.data"].get_worker_info()
        if info is not None:
            worker, num_workers = info.id, info.num_workers
    return rank, world_size, worker, num_workers


def pytorch_worker_seed(group: Any = None) -> int:
    """A number of its own for each worker of each rank."""
    rank, _, worker, num_workers = pytorch_worker_info(group=group)
    return rank * max(1000, num_workers) + worker


def guess_batchsize(batch: Any) -> int:
    return len(batch[0])


def repeatedly0(loader: Iterable, nepochs: int = sys.maxsize, nbatches: int = sys.maxsize) -> Iterator:
    for _ in range(nepochs):
        yield from itertools.islice(loader, nbatches)


def repeatedly(source: Iterable, nepochs: Optional[int] = None, nbatches: Optional[int] = None,
               nsamples: Optional[int] = None, batchsize: Callable[[Any], int] = guess_batchsize) -> Iterator:
    """The source again and again, until as many epochs, batches or samples have passed."""
    batches = samples = 0
    for _ in itertools.count() if nepochs is None else range(nepochs):
        before = batches
        for batch in source:
            yield batch
            batches += 1
            samples += batchsize(batch) if nsamples is not None else 0
            if (nbatches is not None and batches >= nbatches) or (nsamples is not None and samples >= nsamples):
                return
        if batches == before:
            return


def expand_braces(text: str) -> List[str]:
    """Shell braces: {a,b}, {1..5}, {05..12..2}, {a..e}, nested; a brace without a partner stands for itself."""
    return _Braces(text).expand()


class _Braces:
    """One pass over the text. Stops at _core's limit of names rather than fill the memory."""

    MOST = 10_000_000

    def __init__(self, text: str) -> None:
        self.text = text

    def expand(self) -> List[str]:
        start = self.text.find("{")
        while start >= 0:
            end, commas = self._partner(start)
            if end >= 0:
                choices = self._choices(start, end, commas)
                if choices is not None:
                    head, tails = self.text[:start], expand_braces(self.text[end + 1:])
                    if len(choices) * len(tails) > self.MOST:
                        raise ValueError(f"{self.text}: means more than {self.MOST} names")
                    return [head + choice + tail for choice in choices for tail in tails]
            start = self.text.find("{", start + 1)
        return [self.text]

    def _partner(self, start: int) -> Tuple[int, List[int]]:
        depth, commas = 0, []
        for at in range(start, len(self.text)):
            depth += {"{": 1, "}": -1}.get(self.text[at], 0)
            if depth == 0:
                return at, commas
            if self.text[at] == "," and depth == 1:
                commas.append(at)
        return -1, []

    def _choices(self, start: int, end: int, commas: List[int]) -> Optional[List[str]]:
        if commas:
            edges = [start, *commas, end]
            parts = [self.text[low + 1:high] for low, high in zip(edges, edges[1:])]
            return [choice for part in parts for choice in expand_braces(part)]
        return _range(self.text[start + 1:end])


def _range(inside: str) -> Optional[List[str]]:
    parts = inside.split("..")
    if len(parts) not in (2, 3):
        return None
    try:
        step = abs(int(parts[2])) if len(parts) == 3 else 1
    except ValueError:
        return None
    low, high = parts[:2]
    if len(low) == len(high) == 1 and low.isalpha() and high.isalpha():
        ends, width, show = (ord(low), ord(high)), 0, chr
    else:
        try:
            ends = int(low), int(high)
        except ValueError:
            return None
        padded = any(len(part.lstrip("-")) > 1 and part.lstrip("-").startswith("0") for part in (low, high))
        width = max(len(low), len(high)) if padded else 0
        show = lambda number: f"{number:0{width}d}" if width else str(number)  # noqa: E731
    step = max(step, 1)
    if abs(ends[1] - ends[0]) // step >= _Braces.MOST:
        raise ValueError(f"{{{inside}}}: means more than {_Braces.MOST} names")
    numbers = range(ends[0], ends[1] + 1, step) if ends[0] <= ends[1] else range(ends[0], ends[1] - 1, -step)
    return [show(number) for number in numbers]


def expand_names(specification: str) -> List[str]:
    """Millrace's own language of names, which has counts (@000124) and globs too."""
    return _core.expand_names(specification)
