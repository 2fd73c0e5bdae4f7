"""Decodes the bytes of one field to a Python object, by kind. Nothing here runs code from the data."""
from __future__ import annotations

import io
import json
from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np

from . import _core
from .errors import CorruptError, InvalidError

MOST_UNPACKED = 1 << 30


def unpacked(data: bytes) -> bytes:
    """Without gzip, where it is gzip."""
    return _core.gunzip(data, MOST_UNPACKED) if data[:2] == b"\x1f\x8b" else data


def text(data: bytes) -> str:
    return data.decode("utf-8")


def npy(data: bytes) -> np.ndarray:
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)


def npz(data: bytes) -> Dict[str, np.ndarray]:
    return dict(np.load(io.BytesIO(data), allow_pickle=False))


def tenbin(data: bytes) -> List[np.ndarray]:
    from .webdataset.tenbin import decode_buffer

    return decode_buffer(data)


def msgpack(data: bytes) -> Any:
    import msgpack as library

    return library.unpackb(data)


def cbor(data: bytes) -> Any:
    try:
        import cbor as library
    except ModuleNotFoundError:
        import cbor2 as library
    return library.loads(data)


LOADERS: Dict[str, Callable[[bytes], Any]] = {"text": text, "json": json.loads, "npy": npy, "npz": npz, "tenbin": tenbin,
                                              "msgpack": msgpack, "cbor": cbor}


# Of one sample, and of a whole column: functions of the module, so that the description of a data set can be pickled.

def load(kind: str, may_be_packed: bool, value: bytes) -> Any:
    return LOADERS[kind](unpacked(value) if may_be_packed else value)


def stacked(column: Sequence[np.ndarray]) -> Any:
    """One array where all shapes and types are equal, as the engine gives it; else the list."""
    alike = all(value.shape == column[0].shape and value.dtype == column[0].dtype for value in column)
    if len(column) == 0:
        return np.empty(0, np.uint8)
    return np.stack(column) if alike else list(column)


def padded(fill: Any, column: Sequence[np.ndarray]) -> Tuple[np.ndarray, np.ndarray]:
    """One array, filled up to the largest shape, and the shapes: (N, …) and int64 (N, dimensions)."""
    if len(column) == 0:
        return np.full((0, 0), fill), np.zeros((0, 0), np.int64)
    dimensions = sorted({value.ndim for value in column})
    if len(dimensions) > 1:
        raise CorruptError(f"arrays of {dimensions[0]} and of {dimensions[-1]} dimensions cannot be padded to one shape")
    kind = np.result_type(*column)
    if not _holds(kind, fill):
        raise InvalidError(f"pad={fill!r} cannot be in an array of {kind}")
    shapes = np.array([value.shape for value in column], dtype=np.int64)
    result = np.full((len(column), *shapes.max(axis=0, initial=0)), fill, dtype=kind)
    for number, value in enumerate(column):
        result[(number, *(slice(0, length) for length in value.shape))] = value
    return result, shapes


def _holds(kind: np.dtype, fill: Any) -> bool:
    """Whether the value stays what it is; a floating point number may be rounded."""
    if kind.kind in "fc":
        return True
    with np.errstate(invalid="ignore"):
        return bool(np.asarray(fill).astype(kind) == fill)
