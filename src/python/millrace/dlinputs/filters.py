"""Stages in dlinputs' manner: name(arguments) waits for its source; compose puts them in a row.

    pipeline = compose(shuffle(1000), map(png=augment), batch(20))
"""
from __future__ import annotations

import builtins
import itertools
import random
import re
import sys
from typing import Any, Callable, Iterable, Iterator, List, Optional, Sequence

import numpy as np

from ..webdataset import autodecode, writer
from ..webdataset import filters as stages
from ..webdataset.filters import compose, pipelinefilter
from ..webdataset.handlers import warn_and_continue

__all__ = ["annotate", "batch", "batched", "batchedbuckets", "batchinfo", "cached", "check", "compose", "concat",
           "copy", "decode", "encode", "extract", "grep", "info", "map", "merge", "rename", "select", "shuffle",
           "sliced", "transform", "unbatch", "unique", "with_keys"]


# -- sources -----------------------------------------------------------------------------------------------------

def concat(sources: Iterable[Iterable], maxepoch: int = 1) -> Iterator:
    """One source behind the other."""
    for _ in range(maxepoch):
        for source in sources:
            yield from source


def merge(sources: Sequence[Iterable], weights: Optional[Sequence[float]] = None, seed: Any = None) -> Iterator:
    """Random draws from several sources by weight, until all are empty."""
    from ..webdataset.mix import random_samples

    return random_samples([iter(source) for source in sources], weights, longest=True, rng=random.Random(seed))


# -- which samples -------------------------------------------------------------------------------------------------

def _unique(data: Iterable[dict], key: str = "__key__", rekey: bool = False) -> Iterator[dict]:
    """Keys that come again are an error, or with `rekey` get a number behind them."""
    seen: dict = {}
    for sample in data:
        name = sample[key]
        times = seen[name] = seen.get(name, -1) + 1
        if times and not rekey:
            raise ValueError(f"{key} {name!r} comes a second time; rekey=True makes it another")
        yield {**sample, key: f"{name}-{times}"} if times else sample


def _sliced(data: Iterable, *args: Any) -> Iterator:
    return itertools.islice(data, *args)


def _grep(data: Iterable[dict], _not: bool = False, **patterns: str) -> Iterator[dict]:
    """Samples whose fields match regular expressions."""
    compiled = {field: re.compile(pattern) for field, pattern in patterns.items()}
    for sample in data:
        matches = all(pattern.search(str(sample[field])) for field, pattern in compiled.items())
        if matches != _not:
            yield sample


def _select(data: Iterable[dict], **predicates: Callable[[Any], bool]) -> Iterator[dict]:
    return (sample for sample in data if all(wanted(sample[field]) for field, wanted in predicates.items()))


def _with_keys(data: Iterable[dict], *keys: str) -> Iterator[dict]:
    """Samples that have all of these fields."""
    return (sample for sample in data if all(key in sample for key in keys))


def _check(data: Iterable[dict], f: Callable[[dict], bool]) -> Iterator[dict]:
    for sample in data:
        if not f(sample):
            raise ValueError(f"sample {sample.get('__key__')!r} of {sample.get('__source__')} fails the check")
        yield sample


# -- what is in them -----------------------------------------------------------------------------------------------

def _rename(data: Iterable[dict], keep_all: bool = False, keep_meta: bool = True, skip_missing: bool = False,
            **new: Any) -> Iterator[dict]:
    """rename(image="png;jpg", label="cls"). Other fields go unless keep_all; __key__ and the like stay."""
    choices = {name: old.split(";") if isinstance(old, str) else list(old) for name, old in new.items()}
    old_names = {old for olds in choices.values() for old in olds}
    for sample in data:
        found = {name: next((old for old in olds if old in sample), None) for name, olds in choices.items()}
        missing = [choices[name] for name, old in found.items() if old is None]
        if missing and skip_missing:
            continue
        if missing:
            raise ValueError(f"sample {sample.get('__key__')!r} has none of {missing[0]}; it has {list(sample)}")
        kept = {name: value for name, value in sample.items()
                if (name.startswith("__") and keep_meta) or (keep_all and name not in old_names)}
        kept.update((name, sample[old]) for name, old in found.items() if old is not None)
        yield kept


def _copy(data: Iterable[dict], **new: str) -> Iterator[dict]:
    """More names for fields: copy(original="png")."""
    return ({**sample, **{name: sample[old] for name, old in new.items()}} for sample in data)


def _annotate(data: Iterable[dict], table: Any, key: str = "__key__") -> Iterator[dict]:
    """Fields from a dict or a function of the key."""
    for sample in data:
        yield {**sample, **((table(sample[key]) if callable(table) else table.get(sample[key])) or {})}


def _map(data: Iterable[dict], errors_are_fatal: bool = True, **functions: Callable[[Any], Any]) -> Iterator[dict]:
    """map(png=f): each named field through its function. Samples that fail are left out with a warning if errors are
    not fatal."""
    for sample in data:
        try:
            changed = {field: f(sample[field]) for field, f in functions.items()}
        except Exception as error:
            if errors_are_fatal:
                raise
            warn_and_continue(error)
            continue
        yield {**sample, **changed}


def _transform(data: Iterable[dict], f: Optional[Callable[[dict], Optional[dict]]] = None) -> Iterator[dict]:
    """The whole sample through a function; None drops it."""
    return stages._map(data, f or stages.identity)


def _decode(data: Iterable[dict], spec: str = "rgb") -> Iterator[dict]:
    return builtins.map(autodecode.Decoder([autodecode.imagehandler(spec)], partial=True), data)


def _encode(data: Iterable[dict]) -> Iterator[dict]:
    """Fields to bytes, by their extension."""
    for sample in data:
        yield {name: value if name.startswith("_") else
               writer.encode_based_on_extension1(value, name, writer.default_handlers) for name, value in sample.items()}


# -- batches -------------------------------------------------------------------------------------------------------

def _expand_and_stack(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays of different sizes in one, each in the corner, zeros elsewhere."""
    shape = np.array([array.shape for array in arrays]).max(axis=0)
    padded = np.zeros((len(arrays), *shape), dtype=arrays[0].dtype)
    for row, array in zip(padded, arrays):
        row[tuple(slice(size) for size in array.shape)] = array
    return padded


def _column(values: List[Any], combine_tensors: bool, combine_scalars: bool, expand: bool) -> Any:
    if expand and combine_tensors and isinstance(values[0], np.ndarray):
        return _expand_and_stack(values)
    return stages.combine_values(values, combine_tensors, combine_scalars)


def _collate(samples: List[dict], combine_tensors: bool = True, combine_scalars: bool = True,
             expand: bool = False) -> dict:
    fields = samples[0].keys()
    for sample in samples:
        if sample.keys() != fields:
            raise ValueError(f"samples of a batch have different fields: {sorted(fields)} and {sorted(sample)}")
    return {field: _column([sample[field] for sample in samples], combine_tensors, combine_scalars, expand)
            for field in fields}


def _batched(data: Iterable[dict], batchsize: int = 20, combine_tensors: bool = True, combine_scalars: bool = True,
             partial: bool = True, expand: bool = False) -> Iterator[dict]:
    """Dicts of columns; `expand` pads arrays of different sizes."""
    return stages._batched(data, batchsize, partial=partial,
                           collation_fn=lambda samples: _collate(samples, combine_tensors, combine_scalars, expand))


def _batchedbuckets(data: Iterable[dict], batchsize: int = 5, scale: float = 1.8, seqkey: str = "image",
                    batchdim: int = 1, partial: bool = True) -> Iterator[dict]:
    """Batches of samples of similar size: a bucket holds sizes (of dimension `batchdim` of field `seqkey`) within a
    factor of `scale`, and is padded to its largest."""
    buckets: dict = {}
    for sample in data:
        size = max(1, sample[seqkey].shape[batchdim])
        bucket = buckets.setdefault(int(np.log(size) / np.log(scale)), [])
        bucket.append(sample)
        if len(bucket) == batchsize:
            yield _collate(bucket, expand=True)
            bucket.clear()
    for _, bucket in sorted(buckets.items()):
        if bucket and partial:
            yield _collate(bucket, expand=True)


def _batchinfo(data: Iterable[dict], n: int = 3) -> Iterator[dict]:
    """Prints shapes and types of the first n batches."""
    for number, columns in enumerate(data):
        if number < n:
            for name, column in columns.items():
                kind = getattr(column, "dtype", type(column).__name__)
                print(f"{name} {kind} {getattr(column, 'shape', len(column))}", file=sys.stderr)
        yield columns


def _cached(data: Iterable) -> Iterator:
    """For a source that is iterated over once: its samples again and again from memory."""
    seen = []
    for sample in data:
        seen.append(sample)
        yield sample
    while seen:
        yield from seen


unique = pipelinefilter(_unique)
sliced = pipelinefilter(_sliced)
grep = pipelinefilter(_grep)
select = pipelinefilter(_select)
with_keys = pipelinefilter(_with_keys)
check = pipelinefilter(_check)
rename = pipelinefilter(_rename)
copy = pipelinefilter(_copy)
extract = stages.to_tuple
annotate = pipelinefilter(_annotate)
map = pipelinefilter(_map)
transform = pipelinefilter(_transform)
decode = pipelinefilter(_decode)
encode = pipelinefilter(_encode)
info = stages.info
shuffle = stages.shuffle
batched = batch = pipelinefilter(_batched)
unbatch = stages.unbatched
batchedbuckets = pipelinefilter(_batchedbuckets)
batchinfo = pipelinefilter(_batchinfo)
cached = pipelinefilter(_cached)
