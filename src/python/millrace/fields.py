"""The bytes of one field as a Python object, by kind. Nothing here runs code from the data."""
from __future__ import annotations

import io
import json
from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np

from . import _core

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


# A whole column: functions of the module, so that the description of a data set can be pickled.

def load_each(kind: str, may_be_packed: bool, column: Sequence[bytes]) -> List[Any]:
    load = LOADERS[kind]
    return [load(unpacked(value) if may_be_packed else value) for value in column]


def stacked(column: Sequence[np.ndarray]) -> Any:
    """One array where all shapes and types are equal, as the engine gives it; else the list."""
    first = column[0]
    alike = all(value.shape == first.shape and value.dtype == first.dtype for value in column)
    return np.stack(column) if alike else list(column)


def padded(fill: Any, column: Sequence[np.ndarray]) -> Tuple[np.ndarray, np.ndarray]:
    """One array, filled up to the largest shape, and the shapes: (N, …) and int64 (N, dimensions)."""
    shapes = np.array([value.shape for value in column], dtype=np.int64)
    if shapes.ndim != 2:
        raise ValueError("arrays of one, two and more dimensions cannot be padded to one shape")
    result = np.full((len(column), *shapes.max(axis=0)), fill, dtype=np.result_type(*column))
    for place, value in zip(result, column):
        place[tuple(slice(0, length) for length in value.shape)] = value
    return result, shapes
