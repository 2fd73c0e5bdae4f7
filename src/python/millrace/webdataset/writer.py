"""TarWriter and ShardWriter: samples to shards, values encoded by their extension.

A file appears under its name when it is whole, with its index beside it; where an exception leaves the `with` block,
the shard under way leaves no trace. Owner, mode and time are fixed, so the same samples give the same bytes, unless
they are asked for: then Python's tarfile writes, without an index.
"""
from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import tempfile
import weakref
from typing import Any, Callable, Dict, Optional, Union
from urllib.parse import urlparse

import numpy as np

from .. import _core, arguments
from ..writers import Unfinished
from . import gopen


# -- values to bytes -------------------------------------------------------------------------------------------

def imageencoder(image: Any, format: str = "PNG") -> bytes:
    """A PIL image or an array (uint8, or float from 0 to 1) as an image file."""
    import PIL.Image

    if isinstance(image, np.ndarray):
        image = PIL.Image.fromarray(_to_uint8(image))
    if not isinstance(image, PIL.Image.Image):
        raise ValueError(f"an image is a PIL image or a numpy array, not {type(image).__name__}")
    format = {"JPG": "JPEG", "IMG": "PPM", "IMAGE": "PPM", "PBM": "PPM", "PGM": "PPM", "TIF": "TIFF"}.get(
        format.upper(), format.upper())
    with io.BytesIO() as stream:
        image.save(stream, format=format, **({"quality": 100} if format in ("JPEG", "TIFF") else {}))
        return stream.getvalue()


def _to_uint8(pixels: np.ndarray) -> np.ndarray:
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in (1, 3, 4)):
        raise ValueError(f"an array of shape {pixels.shape} is no image: HW, HWC with 1, 3 or 4 channels are")
    if pixels.dtype.kind == "f":
        low, high = float(np.amin(pixels)), float(np.amax(pixels))
        if low <= -0.001 or high >= 1.001:
            raise ValueError(f"image values out of range: {low} to {high}, not 0 to 1")
        pixels = (np.clip(pixels, 0.0, 1.0) * 255.0).astype("uint8")
    return pixels[:, :, 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels


def torch_dumps(data: Any) -> bytes:
    import torch

    stream = io.BytesIO()
    torch.save(data, stream)
    return stream.getvalue()


def numpy_dumps(data: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(data), allow_pickle=False)
    return stream.getvalue()


def numpy_npz_dumps(data: Dict[str, np.ndarray]) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **data)
    return stream.getvalue()


def tenbin_dumps(x: Any) -> bytes:
    from . import tenbin

    return tenbin.encode_buffer(x if isinstance(x, list) else [x])


def cbor_dumps(x: Any) -> bytes:
    try:
        import cbor
    except ModuleNotFoundError:
        import cbor2 as cbor
    return cbor.dumps(x)


def mp_dumps(x: Any) -> bytes:
    import msgpack

    return msgpack.packb(x)


def _pickle_dumps(x: Any) -> bytes:
    import pickle

    return pickle.dumps(x)


def bytestr(data: Any) -> bytes:
    return data if isinstance(data, bytes) else str(data).encode("ascii")


def _text(x: Any) -> bytes:
    return x.encode("utf-8")


def add_handlers(d: dict, keys: Any, value: Callable) -> None:
    d.update(dict.fromkeys(keys.split() if isinstance(keys, str) else keys, value))


def make_handlers() -> Dict[str, Callable[[Any], bytes]]:
    handlers: Dict[str, Callable[[Any], bytes]] = {}
    for extensions, encode in [
            ("cls cls2 class count index inx id", bytestr),
            ("txt text transcript html htm", _text),
            ("pyd pickle pkl", _pickle_dumps),
            ("pth", torch_dumps), ("npy", numpy_dumps), ("npz", numpy_npz_dumps),
            ("ten tenbin tb", tenbin_dumps),
            ("json jsn", lambda x: json.dumps(x).encode("utf-8")),
            ("mp msgpack msg", mp_dumps), ("cbor", cbor_dumps),
            ("jpg jpeg img image", lambda x: imageencoder(x, "JPEG")),
            ("png", lambda x: imageencoder(x, "PNG")), ("webp", lambda x: imageencoder(x, "WEBP")),
            ("pbm pgm ppm", lambda x: imageencoder(x, "PPM")), ("tiff tif", lambda x: imageencoder(x, "TIFF"))]:
        add_handlers(handlers, extensions, encode)
    return handlers


default_handlers = make_handlers()


def encode_based_on_extension1(data: Any, tname: str, handlers: dict) -> Any:
    """One value for the field `tname`; bytes and strings stay what they are. A field x.gz is compressed."""
    if tname.startswith("_"):
        if not isinstance(data, str):
            raise ValueError(f"{tname}: the values of metadata must be of string type")
        return data
    compressed = tname.endswith(".gz")
    extension = (tname[:-3] if compressed else tname).rsplit(".", 1)[-1].lower()
    if isinstance(data, str):
        data = data.encode("utf-8")
    elif not isinstance(data, bytes):
        if extension not in handlers:
            raise ValueError(f"no handler found for {extension}: {type(data).__name__} does not become bytes by itself")
        data = handlers[extension](data)
    return gzip.compress(data, mtime=0) if compressed else data


def encode_based_on_extension(sample: dict, handlers: dict) -> dict:
    return {key: encode_based_on_extension1(value, key, handlers) for key, value in sample.items()}


def make_encoder(spec: Union[None, bool, dict, Callable]) -> Callable[[dict], dict]:
    """True: by extension; False or None: values are bytes already; a dict: other handlers; a function: that."""
    if spec is None or spec is False:
        return lambda sample: sample
    if callable(spec):
        return spec
    if spec is True or isinstance(spec, dict):
        handlers = default_handlers if spec is True else spec
        return lambda sample: encode_based_on_extension(sample, handlers)
    raise ValueError(f"{spec!r} is no encoder: True, False, a dict of functions or a function are")


# -- where the bytes go ------------------------------------------------------------------------------------------

class _EngineFile:
    def __init__(self, path: str, compress: Any) -> None:
        compression = None if compress is None else {True: "gzip", "gz": "gzip", False: "none"}.get(compress, compress)
        self.file = _core.ShardFile(path, compression=compression)

    def add(self, key: str, fields: Dict[str, Any]) -> None:
        self.file.add(key, {name.lower(): value for name, value in fields.items()})

    def finish(self) -> None:
        self.file.finish()

    def abandon(self) -> None:
        self.file.abandon()


class _TarfileFile:
    """For streams, for owners, modes and times, and for what the engine does not write."""

    def __init__(self, target: Any, compress: Any, facts: Dict[str, Any], format: Any) -> None:
        self.facts, self.path, self.own, self.part = facts, None, None, None
        if isinstance(target, str):
            if "://" in target:
                raise ValueError(f"{target}: owner, mode, time, format, bz2 and xz are for files and streams only")
            if target.startswith("pipe:") or target == "-":
                self.own = target = gopen.gopen(target, "wb")
            else:
                self.path = target
                self.part = tempfile.NamedTemporaryFile(dir=os.path.dirname(target) or ".", prefix=".part-", delete=False)
                os.fchmod(self.part.fileno(), 0o644)
                target = self.own = self.part
        format = getattr(tarfile, format) if isinstance(format, str) else format
        self.tar = tarfile.open(fileobj=target, mode=f"w|{compress or ''}",
                                format=tarfile.PAX_FORMAT if format is None else format)

    def add(self, key: str, fields: Dict[str, Any]) -> None:
        for field, value in fields.items():
            entry = tarfile.TarInfo(f"{key}.{field}")
            entry.size = len(value)
            for fact, wanted in self.facts.items():
                setattr(entry, fact, wanted)
            self.tar.addfile(entry, io.BytesIO(value))

    def finish(self) -> None:
        self.tar.close()
        if self.part is not None:
            self.part.flush()
            os.fsync(self.part.fileno())
            os.replace(self.part.name, self.path)
        if self.own is not None:
            self.own.close()

    def abandon(self) -> None:
        self.tar.close()
        if self.part is not None:
            os.unlink(self.part.name)
        if self.own is not None:
            self.own.close()


# -- writers -----------------------------------------------------------------------------------------------------

class TarWriter:
    """Samples (dicts with a __key__) to one archive: a path, the address of an object, or an open stream."""

    def __init__(self, fileobj: Any, user: Optional[str] = None, group: Optional[str] = None,
                 mode: Optional[int] = None, compress: Union[None, bool, str] = None,
                 encoder: Union[None, bool, dict, Callable] = True, keep_meta: bool = False,
                 mtime: Optional[float] = None, format: Any = None) -> None:
        target = os.fspath(fileobj) if isinstance(fileobj, os.PathLike) else fileobj
        self.encoder, self.keep_meta = make_encoder(encoder), keep_meta
        facts = {"uname": user, "gname": group, "mode": mode, "mtime": mtime}
        facts = {name: value for name, value in facts.items() if value is not None}
        if compress is None and isinstance(target, str):
            compress = next((kind for kind in ("bz2", "xz") if target.endswith(kind)), None)
        by_engine = (isinstance(target, str) and urlparse(target).scheme != "pipe" and not facts and format is None
                     and compress in (None, True, False, "gz", "zst", "zstd"))
        if isinstance(target, str) and not by_engine and compress is None and target.endswith("gz"):
            compress = "gz"
        self.stream = fileobj
        file: Any = (_EngineFile(target, compress) if by_engine else
                     _TarfileFile(target, "gz" if compress is True else compress, facts, format))
        self._unfinished = Unfinished(self, target if isinstance(target, str) else repr(target), file)

    def write(self, obj: dict) -> int:
        """Adds a sample; how many bytes its fields have."""
        if not self._unfinished.open:
            raise ValueError("the TarWriter is closed")
        with self._unfinished.adding() as target:
            return self._write(obj, target)

    def _write(self, obj: dict, target: Any) -> int:
        encoded = self.encoder(obj)
        if "__key__" not in encoded:
            raise ValueError("object must contain a __key__")
        fields = {}
        for name in sorted(encoded):
            value = encoded[name]
            if name == "__key__" or (name.startswith("_") and not self.keep_meta):
                continue
            value = value.encode("utf-8") if isinstance(value, str) and name.startswith("_") else value
            if not isinstance(value, (bytes, bytearray, memoryview)):
                raise ValueError(f"{name} doesn't map to a bytes after encoding ({type(value)})")
            fields[name] = value
        target.add(encoded["__key__"], fields)
        return sum(len(value) for value in fields.values())

    def close(self) -> None:
        if self._unfinished.open:
            self._unfinished.finish()

    def abandon(self) -> None:
        """Ends without a trace (a stream keeps what it has got)."""
        self._unfinished.abandon()

    def __enter__(self) -> "TarWriter":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


class _UnderWay:
    """The shard that a ShardWriter fills: ended with its writer, as a TarWriter is."""

    def __init__(self, fname: str, tarstream: TarWriter, opened: Any, post: Optional[Callable[[str], Any]]) -> None:
        self.fname, self.tarstream, self.opened, self.post = fname, tarstream, opened, post

    def finish(self) -> None:
        self.tarstream.close()
        if hasattr(self.opened, "close"):
            self.opened.close()
        if callable(self.post):
            self.post(self.fname)

    def end_forgotten(self) -> None:
        unfinished = self.tarstream._unfinished
        unfinished.end_forgotten()
        if unfinished.finished:
            self.finish()


class ShardWriter:
    """Samples to numbered shards ("train-%06d.tar"): the next begins once one has maxcount samples or maxsize bytes. One
    that is forgotten is finished when it dies or the interpreter exits."""

    def __init__(self, pattern: str, maxcount: int = 100000, maxsize: float = 3e9,
                 post: Optional[Callable[[str], Any]] = None, start_shard: int = 0, verbose: int = 1,
                 opener: Optional[Callable[[str], Any]] = None, **kw: Any) -> None:
        for name, value in (("maxcount", maxcount), ("maxsize", maxsize), ("start_shard", start_shard)):
            arguments.no_truth(name, value)
        self.pattern, self.maxcount, self.maxsize, self.post = os.fspath(pattern), maxcount, maxsize, post
        self.verbose, self.opener, self.kw = verbose, opener, kw
        self.shard, self.total, self.count, self.size = start_shard, 0, 0, 0
        self.fname: Optional[str] = None
        self._under_way: Optional[_UnderWay] = None
        self._at_death: Any = None
        self.next_stream()

    @property
    def tarstream(self) -> Optional[TarWriter]:
        return None if self._under_way is None else self._under_way.tarstream

    def next_stream(self) -> None:
        self.finish()
        self.fname = self.pattern % self.shard
        if self.verbose:
            print(f"# writing {self.fname} {self.count} {self.size / 1e9:.1f} GB {self.total}")
        self.shard += 1
        opened = self.opener(self.fname) if self.opener else None
        tarstream = TarWriter(opened if self.opener else self.fname, **self.kw)
        self._under_way = _UnderWay(self.fname, tarstream, opened, self.post)
        self._at_death = weakref.finalize(self, self._under_way.end_forgotten)
        self.count = self.size = 0

    def write(self, obj: dict) -> None:
        if self.tarstream is None or self.count >= self.maxcount or self.size >= self.maxsize:
            self.next_stream()
        assert self.tarstream is not None
        self.size += self.tarstream.write(obj)
        self.count += 1
        self.total += 1

    def finish(self) -> None:
        """Completes the shard under way."""
        under_way = self._take()
        if under_way is not None:
            under_way.finish()

    def _take(self) -> Optional[_UnderWay]:
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            self._at_death.detach()
        return under_way

    def close(self) -> None:
        self.finish()

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()
            return
        under_way = self._take()
        if under_way is not None:
            under_way.tarstream.abandon()
