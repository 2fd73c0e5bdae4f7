"""DataPipeline: a source and the stages behind it, iterable as often as one likes."""
from __future__ import annotations

import copy
import itertools
import sys
import warnings
from typing import Any, Iterator

from .. import arguments
from .pytorch import DataLoader, IterableDataset
from .utils import PipelineStage


class DataPipeline(IterableDataset, PipelineStage):
    """Stages are callables from iterator to iterator, PipelineStages, or (first) anything that can be iterated over.
    Lists are unpacked; None is left out."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.pipeline: list = []
        self.length = -1
        self.repetitions = 1
        self.nsamples = -1
        self.goes_on = False
        for stage in args:
            if isinstance(stage, list):
                self.pipeline.extend(stage)
            elif stage is not None:
                self.pipeline.append(stage)

    def close(self) -> None:
        for stage in self.pipeline:
            if hasattr(stage, "close"):
                stage.close()
        self.pipeline = []

    def invoke(self, f: Any, *args: Any, **kwargs: Any) -> Iterator:
        """One stage put behind what came before, if anything did."""
        if not args and isinstance(f, (IterableDataset, DataLoader, list)):
            return iter(f)
        if isinstance(f, PipelineStage):
            return f.run(*args, **kwargs)
        if callable(f):
            return f(*args, **kwargs)
        if isinstance(f, list):
            return iter(f)
        raise ValueError(f"{f!r} is no pipeline stage: neither callable, nor a PipelineStage, nor a dataset")

    def run(self, *args: Any, **kwargs: Any) -> Iterator:
        """As a stage of another pipeline: its own stages, behind the other's source."""
        return self._chain(*args) if args else iter(self)

    def _chain(self, *source: Any) -> Iterator:
        if not self.pipeline:
            raise ValueError("an empty pipeline has nothing to iterate over: its first stage is the source")
        for stage in self.pipeline:
            source = (self.invoke(stage, *source),)
        return source[0]

    def iterator1(self) -> Iterator:
        """One pass through the source."""
        return self._chain()

    def iterator(self) -> Iterator:
        """As many passes as asked for. A pass that gives nothing is the last: it would be so for ever."""
        for _ in range(self.repetitions):
            empty = True
            for sample in self.iterator1():
                empty = False
                yield sample
            if empty:
                return

    def __iter__(self) -> Iterator:
        if self.repetitions != 1 and self.nsamples > 0:
            return self._next_stretch() if self.goes_on else itertools.islice(self.iterator(), self.nsamples)
        return self.iterator()

    def _next_stretch(self) -> Iterator:
        """`nsamples` of an endless stream that goes on from epoch to epoch."""
        endless = self.__dict__.get("_endless")
        taken = 0
        while taken < self.nsamples:
            fresh = endless is None
            endless = self.__dict__["_endless"] = self.iterator() if endless is None else endless
            for sample in itertools.islice(endless, self.nsamples - taken):
                taken += 1
                yield sample
            if taken < self.nsamples:
                endless = self.__dict__["_endless"] = None
                if fresh:
                    return

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name != "_endless"}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)

    def stage(self, i: int) -> Any:
        return self.pipeline[i]

    def append(self, f: Any) -> None:
        self.pipeline.append(f)

    def compose(self, *args: Any) -> "DataPipeline":
        """A copy with more stages; this one stays as it is."""
        result = copy.copy(self)
        result.pipeline = [*self.pipeline, *args]
        return result

    def with_length(self, n: int, silent: bool = False) -> "DataPipeline":
        """Gives the pipeline a len(); how many samples it has does not change."""
        if not silent:
            warnings.warn("with_length(n) only makes len() say n; the samples of an epoch stay the same",
                          stacklevel=2)
        self.size = arguments.count("n", n, least=0)
        kind = type(self)
        if not hasattr(kind, "__len__"):
            self.__class__ = _with_length(kind)
        return self

    def with_epoch(self, nsamples: int = -1, nbatches: int = -1, *, goes_on: bool = False) -> "DataPipeline":
        """Epochs of so many samples (batches behind a batched stage), repeating the source as needed. Every epoch begins
        at the beginning of the source; with `goes_on` where the last epoch ended, so that epochs shorter than the data set
        reach all of it in the end."""
        self.repetitions = sys.maxsize
        self.nsamples = max(arguments.count("nsamples", nsamples, least=-1), arguments.count("nbatches", nbatches, least=-1))
        self.goes_on = goes_on
        return self

    def repeat(self, nepochs: int = -1, nbatches: int = -1) -> "DataPipeline":
        nepochs = arguments.count("nepochs", nepochs, least=-1)
        self.repetitions = nepochs if nepochs > 0 else sys.maxsize
        self.nsamples = arguments.count("nbatches", nbatches, least=-1)
        self.goes_on = False
        return self


def _length(self: Any) -> int:
    return self.size


_lengthy: dict = {}


def _with_length(kind: type) -> type:
    """The class with a len(), made once for each class, and found again by pickle."""
    if kind not in _lengthy:
        _lengthy[kind] = type(kind.__name__ + "WithLength", (kind,), {
            "__len__": _length, "__reduce_ex__": _reduce_with_length, "__module__": kind.__module__})
    return _lengthy[kind]


def _reduce_with_length(self: Any, protocol: int) -> tuple:
    return _restore_with_length, (type(self).__mro__[1], self.__getstate__())


def _restore_with_length(kind: type, state: dict) -> Any:
    restored = object.__new__(_with_length(kind))
    restored.__dict__.update(state)
    return restored
