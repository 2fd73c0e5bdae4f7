"""LMDBCached: a stage that keeps the first whole pass in a database; later passes come from there."""
from __future__ import annotations

import itertools
from typing import Any, Iterable, Iterator, List

from .. import arguments
from ..errors import DeniedError
from . import utils
from .utils import PipelineStage

# Behind the samples, whose keys are their numbers.
_COMPLETE = b"complete"


class LMDBCached(PipelineStage):
    """`pickler` has dumps() and loads(); Python's pickle needs MILLRACE_ALLOW_PICKLE=1. Needs the package lmdb."""

    def __init__(self, fname: str, map_size: float = 1e12, pickler: Any = None, chunksize: int = 500) -> None:
        import pickle

        self.pickler = pickle if pickler is None else pickler
        if self.pickler is pickle and not utils.allowed("pickle"):
            raise DeniedError(f"{fname}: a pickle can run any program: samples are not kept as pickles",
                              hint="set MILLRACE_ALLOW_PICKLE=1, or give a pickler with dumps() and loads()")
        import lmdb

        self.chunksize = arguments.count("chunksize", chunksize)
        self.db = lmdb.open(fname, readonly=False, map_size=arguments.count("map_size", map_size))

    def is_complete(self) -> bool:
        with self.db.begin(write=False) as reading:
            return reading.get(_COMPLETE) is not None

    def add_samples(self, samples: Iterable[tuple]) -> None:
        """(number, sample) pairs, in one transaction."""
        with self.db.begin(write=True) as writing:
            for number, sample in samples:
                writing.put(b"%020d" % number, self.pickler.dumps(sample))

    def run(self, source: Iterable) -> Iterator:
        if self.is_complete():
            with self.db.begin(write=False) as reading:
                for key, value in reading.cursor():
                    if key != _COMPLETE:
                        yield self.pickler.loads(value)
            return
        with self.db.begin(write=True) as writing:  # what a pass that was broken off left
            writing.drop(self.db.open_db(), delete=False)
        numbered = enumerate(source)
        while chunk := list(itertools.islice(numbered, self.chunksize)):
            self.add_samples(chunk)
            yield from _samples_of(chunk)
        with self.db.begin(write=True) as writing:
            writing.put(_COMPLETE, b"")


def _samples_of(chunk: List[tuple]) -> Iterator:
    return (sample for _, sample in chunk)
