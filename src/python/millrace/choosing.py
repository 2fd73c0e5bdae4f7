"""Chooses samples of a catalogue. These are functions of a module, so that the description of a data set can be pickled."""
from __future__ import annotations

from typing import Any, Callable, Iterator, List

import numpy

from . import _core
from .errors import InvalidError
from .recipes import DEFAULTS

BATCH = 256


def select(numbers: List[int], catalogue: Any) -> Any:
    return catalogue.select(numbers)


def select_mask(mask: numpy.ndarray, catalogue: Any) -> Any:
    if len(mask) != catalogue.samples:
        raise InvalidError(f"a mask has one truth for each sample: there are {len(mask)} for {catalogue.samples} samples")
    return catalogue.select(numpy.flatnonzero(mask).tolist())


def select_with(any_of: List[str], catalogue: Any) -> Any:
    return catalogue.select_with(any_of)


def with_columns(columns: Any, catalogue: Any) -> Any:
    return catalogue.with_columns(columns._catalogue)


def read_field(kind: str, any_of: List[str], memory: int, catalogue: Any) -> Iterator[Any]:
    """One field of every sample, in the data set's own order."""
    recipe = {**DEFAULTS, "memory": memory, "batch": BATCH, "fields": [dict(kind=kind, any_of=any_of, name="field")]}
    take = _core.Loader(catalogue, _core.Recipe(recipe)).take
    while (columns := take()) is not None:
        yield from columns[0]


def select_by(any_of: List[str], memory: int, keep: Callable[[bytes], bool], catalogue: Any) -> Any:
    catalogue = catalogue.select_with(any_of)
    values = read_field("bytes", any_of, memory, catalogue)
    return catalogue.select([number for number, value in enumerate(values) if keep(value)])
