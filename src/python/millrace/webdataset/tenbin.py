"""tenbin: numpy arrays as bytes. Each array is two chunks: a header (type, name, shape) and the numbers.

A chunk is the magic ~TenBin~, a length, and the bytes padded to 64. All integers are 64 bits, little endian. Lengths
and shapes are checked against the bytes that are there before anything is made of them.
"""
from __future__ import annotations

import struct
import sys
from typing import Any, Iterable, List, Optional, Sequence, Tuple, Union

import numpy as np

magic_bytes = b"~TenBin~"
_PADDING = 64
_MOST_DIMENSIONS = 32
_NAMES = {"float16": "f2", "float32": "f4", "float64": "f8", "int8": "i1", "int16": "i2", "int32": "i4",
          "int64": "i8", "uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8"}
_TYPES = {short: np.dtype(long).newbyteorder("<") for long, short in _NAMES.items()}


def roundup(n: int, k: int = _PADDING) -> int:
    return -(-n // k) * k


def _word(text: str) -> bytes:
    word = text.encode("ascii")
    if len(word) > 8:
        raise ValueError(f"tenbin: {text!r} is longer than 8 letters")
    return word.ljust(8, b"\0")


def encode_header(a: np.ndarray, info: str = "") -> bytes:
    if a.ndim > _MOST_DIMENSIONS or a.dtype.name not in _NAMES:
        raise ValueError(f"tenbin: cannot keep arrays of {a.ndim} dimensions of {a.dtype}")
    return _word(_NAMES[a.dtype.name]) + _word(info) + struct.pack(f"<q{a.ndim}q", a.ndim, *a.shape)


def decode_header(h: bytes) -> Tuple[tuple, np.dtype, str]:
    if len(h) < 24:
        raise ValueError(f"tenbin: a header of {len(h)} bytes is too short")
    kind, info = (h[at:at + 8].rstrip(b"\0").decode("ascii", "replace") for at in (0, 8))
    ndim = struct.unpack_from("<q", h, 16)[0]
    if kind not in _TYPES or not 0 <= ndim <= _MOST_DIMENSIONS or len(h) < 24 + 8 * ndim:
        raise ValueError(f"tenbin: no array of type {kind!r} with {ndim} dimensions in {len(h)} bytes of header")
    shape = struct.unpack_from(f"<{ndim}q", h, 24)
    if any(size < 0 for size in shape):
        raise ValueError(f"tenbin: shape {shape} has a negative size")
    return shape, _TYPES[kind], info


def _infos(arrays: Sequence, infos: Any) -> List[str]:
    if not infos:
        return [""] * len(arrays)
    infos = [infos] if isinstance(infos, str) else list(infos)
    if len(infos) != len(arrays):
        raise ValueError(f"tenbin: {len(infos)} names for {len(arrays)} arrays")
    return infos


def encode_list(l: Sequence[np.ndarray], infos: Any = None) -> List[bytes]:  # noqa: E741
    chunks = []
    for array, info in zip(l, _infos(l, infos)):
        array = np.asarray(array)
        chunks += [encode_header(array, info),
                   np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()]
    return chunks


def decode_list(l: Sequence[bytes], infos: Any = False) -> Any:  # noqa: E741
    if len(l) % 2:
        raise ValueError("tenbin: a header without its numbers")
    arrays, names = [], []
    for header, numbers in zip(l[::2], l[1::2]):
        shape, kind, name = decode_header(bytes(header))
        count = 1
        for size in shape:
            count *= size
        if count * kind.itemsize != len(numbers):
            raise ValueError(f"tenbin: shape {shape} of {kind} wants {count * kind.itemsize} bytes, "
                             f"there are {len(numbers)}")
        arrays.append(np.frombuffer(numbers, dtype=kind).reshape(shape))
        names.append(name)
    if infos is False:
        return arrays
    if infos is True:
        return arrays, names
    if names != _infos(arrays, infos):
        raise ValueError(f"tenbin: arrays are called {names}, not {infos}")
    return arrays


def encode_chunks(l: Iterable[bytes]) -> bytes:  # noqa: E741
    return b"".join(magic_bytes + struct.pack("<q", len(chunk)) + bytes(chunk).ljust(roundup(len(chunk)), b"\0")
                    for chunk in l)


def decode_chunks(buf: Union[bytes, bytearray, memoryview]) -> List[memoryview]:
    view, chunks, at = memoryview(buf), [], 0
    while at < len(view):
        if bytes(view[at:at + 8]) != magic_bytes or at + 16 > len(view):
            raise ValueError(f"tenbin: no chunk at byte {at}")
        size = struct.unpack_from("<q", view, at + 8)[0]
        if not 0 <= size <= len(view) - at - 16:
            raise ValueError(f"tenbin: the chunk at byte {at} claims {size} bytes, {len(view) - at - 16} are there")
        chunks.append(view[at + 16:at + 16 + size])
        at += 16 + roundup(size)
    return chunks


def encode_buffer(l: Sequence[np.ndarray], infos: Any = None) -> bytes:  # noqa: E741
    if not isinstance(l, (list, tuple)):
        raise ValueError("tenbin: wants a list of arrays")
    return encode_chunks(encode_list(l, infos))


def decode_buffer(buf: bytes, infos: Any = False) -> Any:
    return decode_list(decode_chunks(buf), infos)


def write(stream: Any, l: Sequence[np.ndarray], infos: Any = None) -> None:  # noqa: E741
    stream.write(encode_buffer(l, infos))


def read(stream: Any, n: int = sys.maxsize, infos: Any = False) -> Any:
    return decode_list(decode_chunks(stream.read())[:2 * n], infos)


def save(fname: str, *args: np.ndarray, infos: Any = None, nocheck: bool = False) -> None:
    if not nocheck and not fname.endswith(".ten"):
        raise ValueError(f"{fname}: tenbin files end in .ten")
    with open(fname, "wb") as stream:
        write(stream, args, infos)


def load(fname: str, infos: Optional[bool] = False, nocheck: bool = False) -> Any:
    if not nocheck and not fname.endswith(".ten"):
        raise ValueError(f"{fname}: tenbin files end in .ten")
    with open(fname, "rb") as stream:
        return read(stream, infos=infos)
