"""Checks arguments where they are given, so that an error names the argument and not a value inside the engine."""
from __future__ import annotations

import math
import operator
import os
import re
from typing import Any, Iterable, List, Optional, Sequence, Tuple, Union

import numpy

from . import _core
from .errors import InvalidError, InvalidTypeError

MOST = (1 << 64) - 1
MOST_SIDE = (1 << 32) - 1
MOST_THREADS = 256
MOST_EPOCH = 1 << 62  # what tensors count to, with room for those that follow

Names = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


def no_truth(name: str, value: Any) -> Any:
    """True and False are numbers to Python: what takes a number would take them for 1 and 0."""
    if isinstance(value, (bool, numpy.bool_)):
        raise InvalidTypeError(f"{name} is a number, not {value!r}")
    return value


def whole(name: str, value: Any, least: Optional[int] = 0, most: int = MOST) -> int:
    """A whole number, of Python or numpy."""
    no_truth(name, value)
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidTypeError(f"{name} is a whole number, not {value!r}") from None
    if least is not None and number < least:
        raise InvalidError(f"{name} is {least} or more, not {number}")
    if number > most:
        raise InvalidError(f"{name} is at most {most}, not {number}")
    return number


def count(name: str, value: Any, least: int = 1) -> int:
    """How many, rounded up: quotients such as 16 / 1 are floats."""
    if isinstance(value, (float, numpy.floating)) and math.isfinite(value):
        value = math.ceil(value)
    return whole(name, value, least)


def real(name: str, value: Any) -> float:
    no_truth(name, value)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"{name}: {value!r} is not a number") from None


def reals(name: str, values: Any, count: Optional[int] = None) -> Tuple[float, ...]:
    """So many numbers; without `count`, one or more."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidTypeError(f"{name} is a row of numbers, not {values!r}")
    found = tuple(real(name, value) for value in values)
    if not found or (count is not None and len(found) != count):
        raise InvalidError(f"{name} has {count or 'one or more'} numbers, not {len(found)}")
    return found


def byte_count(name: str, value: Any) -> int:
    """Bytes as a number, or as "2GiB"."""
    if not isinstance(value, str):
        return whole(name, value)
    try:
        return _core.parse_bytes(value)
    except InvalidError as error:
        raise InvalidError(f"{name}: {error.args[0]}", hint=error.hint) from None


def one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    if value not in choices:
        raise InvalidError(f"{name} is {', '.join(choices[:-1])} or {choices[-1]}, not {value!r}")
    return value


def path(name: str, value: Any) -> str:
    try:
        return os.fsdecode(value)
    except TypeError:
        raise InvalidTypeError(f"{name} is a path, not {value!r}") from None


def addresses(name: str, value: Any) -> List[str]:
    """One name or several, each a string or a path."""
    one_name = (str, os.PathLike)
    found = [value] if isinstance(value, one_name) else list(value) if isinstance(value, Iterable) else [value]
    if not all(isinstance(one, one_name) for one in found):
        raise InvalidTypeError(f"{name} are paths or addresses, one or several, not {value!r}")
    return [path(name, one) for one in found]


def words(fields: Any) -> List[str]:
    """The alternatives of "jpg;png", or of a list."""
    found = fields.split(";") if isinstance(fields, str) else fields
    try:
        return [word.strip().lstrip(".").lower() for word in found if word.strip()]
    except (AttributeError, TypeError):
        raise InvalidTypeError(f'fields are "jpg;png" or a list of names, not {fields!r}') from None


def row(name: str, values: Any) -> numpy.ndarray:
    """Whole numbers or truths, as an array."""
    try:
        found = numpy.asarray(values if hasattr(values, "__array__") else list(values))
    except (TypeError, ValueError):
        raise InvalidTypeError(f"{name} is a row of whole numbers, not {values!r}") from None
    if found.size == 0:
        return numpy.zeros(0, numpy.int64)
    if found.ndim != 1 or found.dtype.kind not in "iub":
        raise InvalidTypeError(f"{name} is a row of whole numbers, not an array of {found.ndim} dimensions and {found.dtype}")
    return found


def transform_name(name: str, value: Optional[str]) -> str:
    """The name of a transform, or an empty text for none."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidTypeError(f"{name} is the name of a transform, not {value!r}")
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", value):
        raise InvalidError(f"{name} {value!r} is not the name of a transform", hint="millrace transform list shows them")
    return value


def transformed(names: List[str], transform: str) -> List[str]:
    """Addresses of what the store makes of these shards."""
    if not transform:
        return names
    for name in names:
        if "://" not in name or name.startswith(("file:", "pipe:")):
            raise InvalidError(f"transform needs shards in a store, and {name} is a file", hint="millrace transform test NAME FILE -o RESULT runs it on a file")
    return [f"{name}{'&' if '?' in name else '?'}transform={transform}" for name in names]
