"""Decodes the engine's columns in Python, sample by sample. A sample that cannot be decoded is treated as one that the
engine cannot use."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy

from .errors import DeniedError, Error, UnavailableError, make_error

# What says nothing about the sample: leaving samples out would not help.
NOT_THE_SAMPLES_FAULT = (ImportError, MemoryError)
SOURCE_IS_GONE = (UnavailableError, DeniedError)


class Finisher(NamedTuple):
    """Both may be None: the value, and the column, as they come."""

    each: Optional[Callable[[Any], Any]] = None  # of one sample's value
    whole: Optional[Callable[[Sequence[Any]], Any]] = None  # of the column of them


class Unusable(NamedTuple):
    column: int
    cause: Exception


def decode_each(columns: Sequence[Any], finishers: Sequence[Optional[Finisher]]) -> Tuple[List[Any], Dict[int, Unusable]]:
    """The columns with every value decoded, and which samples (by their place in the batch) could not be."""
    unusable: Dict[int, Unusable] = {}
    decoded = [column if finisher is None or finisher.each is None else _decode(finisher.each, number, column, unusable)
               for number, (column, finisher) in enumerate(zip(columns, finishers))]
    return decoded, unusable


def _decode(each: Callable[[Any], Any], number: int, column: Sequence[Any], unusable: Dict[int, Unusable]) -> List[Any]:
    values: List[Any] = []
    rest = iter(column)
    while len(values) < len(column):
        try:
            for value in rest:
                values.append(each(value))
        except NOT_THE_SAMPLES_FAULT:
            raise
        except Exception as error:
            unusable.setdefault(len(values), Unusable(number, error))
            values.append(None)
    return values


def whole_columns(columns: Sequence[Any], finishers: Sequence[Optional[Finisher]]) -> List[Any]:
    return [column if finisher is None or finisher.whole is None else finisher.whole(column)
            for column, finisher in zip(columns, finishers)]


def stand_ins(size: int, unusable: Dict[int, Unusable], on_error: str) -> List[int]:
    """Which sample stands at each place of the batch: skipping leaves only good ones, substituting takes the next good
    one; none where there is no good one."""
    good = [place for place in range(size) if place not in unusable]
    if on_error == "skip" or not good:
        return good
    return [next((other for other in good if other >= place), good[0]) for place in range(size)]


def rearranged(column: Any, places: List[int]) -> Any:
    if isinstance(column, tuple):  # memory and the samples' places in it
        return column[0], column[1][places]
    if isinstance(column, numpy.ndarray):
        # Over the same memory, aligned as it was.
        column[:len(places)] = column[places]
        return column[:len(places)]
    return [column[place] for place in places]


def error_at(place: str, cause: Exception, code: str) -> Error:
    """The error that says where, to be raised from its cause."""
    if isinstance(cause, Error):
        return make_error(cause.code, f"{place}: {': '.join(map(str, cause.args))}", cause.hint)
    return make_error(code, f"{place}: {type(cause).__name__}: {cause}")
