"""Decoding fields by their extension.

A decoder is f(key, bytes) with the key as ".seg.png"; it gives a value, None (not mine), or Continue(key, bytes) for
the decoders behind it. Decoder puts them in a row. Pickle is refused unless MILLRACE_ALLOW_PICKLE=1.
"""
from __future__ import annotations

import functools
import gzip
import io
import json
import os
import tempfile
from typing import Any, Callable, Iterable, List, Optional

import numpy as np

from .. import _core, errors, fields
from . import utils

pytorch_weights_only = os.environ.get("WDS_PYTORCH_WEIGHTS_ONLY", "0") == "1"

IMAGE_EXTENSIONS = (
    "blp bmp dib bufr cur pcx dcx dds ps eps fit fits fli flc ftc ftu gbr gif grib h5 hdf png apng jp2 j2k jpc jpf "
    "jpx j2c icns ico im iim tif tiff jfif jpe jpg jpeg mpg mpeg msp pcd pxr pbm pgm ppm pnm psd bw rgb rgba sgi ras "
    "tga icb vda vst webp wmf emf xbm xpm").split()

# A .gz field may not become more than this: a few kilobytes can claim gigabytes.
MOST_GZIP_BYTES = 2 << 30


def _extension(key: str) -> str:
    return key.rsplit(".", 1)[-1]


# -- plain values ----------------------------------------------------------------------------------------------

def unpickle_loads(data: bytes) -> Any:
    utils.check_security("Unpickling is not allowed for security reasons when enforce_security is set")
    if not utils.allowed("pickle"):
        raise errors.DeniedError("a pickle can run any program: it is not loaded",
                          hint="set MILLRACE_ALLOW_PICKLE=1 if you trust who wrote the shards")
    import pickle

    return pickle.loads(data)


def torch_loads(data: bytes) -> Any:
    """Tensors and plain containers; anything more is a pickle."""
    utils.check_security("torch.loads is not allowed for security reasons when enforce_security is set")
    import torch

    stream = io.BytesIO(data)
    if utils.allowed("pickle") and not pytorch_weights_only:
        return torch.load(stream, map_location="cpu")
    try:
        return torch.load(stream, map_location="cpu", weights_only=True)
    except Exception as error:
        raise errors.DeniedError(f"a .pth field does not load as plain tensors: {error}",
                          hint="set MILLRACE_ALLOW_PICKLE=1 if you trust who wrote the shards") from error


decoders = {
    **dict.fromkeys(["txt", "text", "transcript"], fields.text),
    **dict.fromkeys(["cls", "cls2", "index", "inx", "id"], int),
    **dict.fromkeys(["json", "jsn"], json.loads),
    **dict.fromkeys(["pkl", "pickle", "pyd"], unpickle_loads),
    **dict.fromkeys(["ten", "tb"], fields.tenbin),
    **dict.fromkeys(["mp", "msg"], fields.msgpack),
    "pth": torch_loads, "npy": fields.npy, "npz": fields.npz, "cbor": fields.cbor,
}


def basichandlers(key: str, data: bytes) -> Any:
    decoder = decoders.get(_extension(key))
    return None if decoder is None else decoder(data)


def call_extension_handler(key: str, data: bytes, f: Callable, extensions: Iterable[str]) -> Any:
    parts = key.lower().split(".")
    for extension in extensions:
        wanted = extension.split(".")
        if parts[-len(wanted):] == wanted:
            return f(data)
    return None


def handle_extension(extensions: str, f: Callable) -> Callable:
    """f for the extensions "jpg jpeg" or "seg.png", whatever their case."""
    return functools.partial(call_extension_handler, f=f, extensions=extensions.lower().split())


# -- images ----------------------------------------------------------------------------------------------------

imagespecs = {
    prefix + mode + suffix: (container, number, mode)
    for prefix, container in (("", "numpy"), ("torch", "torch"))
    for mode in ("l", "rgb", "rgba")
    for suffix, number in (("8", "uint8"), ("", "float"))
}
imagespecs.update({"torch": ("torch", "float", "rgb"), "pil": ("pil", None, "rgb"), "pill": ("pil", None, "l"),
                   "pilrgb": ("pil", None, "rgb"), "pilrgba": ("pil", None, "rgba")})


def _by_engine(data: bytes, mode: str) -> Optional[np.ndarray]:
    """The same pixels as PIL's, without holding the interpreter; None for what PIL alone reads, or reads otherwise: other
    formats, damage that it passes over, and 16 bits a sample."""
    is_png = data[:8] == b"\x89PNG\r\n\x1a\n"
    if is_png and data[24:25] == b"\x10":
        return None
    try:
        return _core.decode_image(data, {"l": 1, "rgb": 3, "rgba": 4}[mode])
    except errors.Error:
        return None


def _by_pil(data: bytes, mode: str) -> Any:
    import PIL.Image

    with io.BytesIO(data) as stream:
        return PIL.Image.open(stream).convert(mode.upper())


class ImageHandler:
    """Images as the specification says: numpy (HWC), torch (CHW) or PIL; uint8 or float from 0 to 1; l, rgb, rgba."""

    def __init__(self, imagespec: str, extensions: Iterable[str] = IMAGE_EXTENSIONS) -> None:
        if imagespec not in imagespecs:
            raise ValueError(f"Unknown imagespec: {imagespec}; there are {', '.join(sorted(imagespecs))}")
        self.imagespec = imagespec
        self.extensions = set(extensions)

    def __call__(self, key: str, data: bytes) -> Any:
        if _extension(key).lower() not in self.extensions:
            return None
        container, number, mode = imagespecs[self.imagespec]
        if container == "pil":
            return _by_pil(data, mode)
        pixels = _by_engine(data, mode)
        if pixels is None:
            pixels = np.asarray(_by_pil(data, mode))
        if number == "float":
            pixels = pixels.astype(np.float32) / 255.0
        if container == "numpy":
            return pixels
        import torch

        return torch.from_numpy((pixels.transpose(2, 0, 1) if pixels.ndim == 3 else pixels).copy())


def imagehandler(imagespec: str, extensions: Iterable[str] = IMAGE_EXTENSIONS) -> ImageHandler:
    return ImageHandler(imagespec, extensions)


# -- sound and moving pictures, by libraries that read only files ------------------------------------------------

def _through_file(extension: str, data: bytes, load: Callable[[str], Any]) -> Any:
    with tempfile.NamedTemporaryFile(suffix=f".{extension}") as file:
        file.write(data)
        file.flush()
        return load(file.name)


def torch_video(key: str, data: bytes) -> Any:
    extension = _extension(key)
    if extension not in "mp4 ogv mjpeg avi mov h264 mpg webm wmv".split():
        return None
    import torchvision.io

    return _through_file(extension, data, lambda name: torchvision.io.read_video(name, pts_unit="sec"))


def torch_audio(key: str, data: bytes) -> Any:
    extension = _extension(key)
    if extension not in "flac mp3 sox wav m4a ogg wma".split():
        return None
    import torchaudio

    return _through_file(extension, data, torchaudio.load)


# -- in a row --------------------------------------------------------------------------------------------------

class Continue:
    """Not done: the decoders behind go on with this key and these bytes."""

    def __init__(self, key: str, data: bytes) -> None:
        self.key, self.data = key, data


def gzfilter(key: str, data: bytes) -> Optional[Continue]:
    if not key.endswith(".gz"):
        return None
    with gzip.open(io.BytesIO(data)) as stream:
        plain = stream.read(MOST_GZIP_BYTES + 1)
    if len(plain) > MOST_GZIP_BYTES:
        raise ValueError(f"{key} holds more than {MOST_GZIP_BYTES} bytes")
    return Continue(key[:-3], plain)


default_pre_handlers: List[Callable] = [gzfilter]
default_post_handlers: List[Callable] = [basichandlers]


class DecodingError(Exception):
    """A field that could not be decoded: shard `url`, sample `key`, field `k`, the `sample` itself; the reason is
    the exception's cause."""

    def __init__(self, url: Any = None, key: Any = None, k: Any = None, sample: Any = None,
                 reason: Optional[BaseException] = None) -> None:
        super().__init__(url, key, k, sample)
        self.url, self.key, self.k, self.sample, self.reason = url, key, k, sample, reason

    def __str__(self) -> str:
        place = f"cannot decode field {self.k!r} of sample {self.key!r} in {self.url}"
        return place if self.reason is None else f"{place}: {type(self.reason).__name__}: {self.reason}"

    def __repr__(self) -> str:
        return f"DecodingError({str(self)!r})"


class Decoder:
    """Every field through the decoders, in the order pre, handlers, post; the first that has a value wins."""

    def __init__(self, handlers: List[Callable], pre: Optional[List[Callable]] = None,
                 post: Optional[List[Callable]] = None, only: Any = None, partial: bool = False) -> None:
        assert isinstance(handlers, list), f"handlers = {handlers} must be a list"
        self.handlers = [*(default_pre_handlers if pre is None else pre), *handlers,
                         *(default_post_handlers if post is None else post)]
        for f in self.handlers:
            assert callable(f), f"decoder {f!r} is no function"
        self.only = None if only is None else set(only.split() if isinstance(only, str) else only)
        self.partial = partial

    def decode1(self, key: str, data: bytes) -> Any:
        key = "." + key
        for f in self.handlers:
            result = f(key, data)
            if isinstance(result, Continue):
                key, data = result.key, result.data
            elif result is not None:
                return result
        return data

    def _field(self, key: str, value: Any) -> Any:
        if key.startswith("__"):
            return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        if self.only is not None and key not in self.only:
            return value
        if not isinstance(value, bytes):
            if self.partial:
                return value
            raise TypeError(f"is {type(value).__name__}, not bytes; partial=True leaves it as it is")
        return self.decode1(key, value)

    def decode(self, sample: dict) -> dict:
        assert isinstance(sample, dict), sample
        decoded = {}
        for key, value in sample.items():
            try:
                decoded[key] = self._field(key, value)
            except Exception as error:
                raise DecodingError(sample.get("__url__"), sample.get("__key__"), key, sample, error) from error
        return decoded

    def __call__(self, sample: dict) -> dict:
        return self.decode(sample)
