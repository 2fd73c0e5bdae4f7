"""The options of the engine's Recipe and of images, with their defaults."""
from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from . import arguments
from .errors import InvalidError

DEFAULTS: Dict[str, Any] = dict(
    seed=0, window=0, batch=1, end="exact", weights=[], bucket_by=[], bucket_batches=32, fields=[], on_error="fail",
    most_errors=100, threads=0, fetch_threads=0, memory=2 << 30, cache="", cache_note="", cache_bytes=100 << 30)

_NORMALIZE = {"imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), "none": ((0.0,), (1.0,)),
              "half": ((0.5,), (0.5,))}
_CHANNELS = {"gray": 1, "rgb": 3, "rgba": 4}
_CROPS = ("random_resized", "random", "center", "none")


def _by_channel(name: str, values: Any, channels: str) -> Tuple[float, ...]:
    """One value is for all channels, as in torchvision."""
    alone = isinstance(values, (tuple, list)) and len(values) == 1
    return arguments.reals(name, values, 1 if alone else _CHANNELS[channels])


def _mean_and_deviation(normalize: Any, channels: str) -> Tuple[Tuple[float, ...], Tuple[float, ...]]:
    if normalize is None:
        return _NORMALIZE["none"]
    if isinstance(normalize, str):
        return _NORMALIZE[arguments.one_of("normalize", normalize, tuple(_NORMALIZE))]
    try:
        mean, deviation = normalize
    except (TypeError, ValueError):
        raise InvalidError(f"normalize is {', '.join(_NORMALIZE)} or (mean, std), not {normalize!r}") from None
    return _by_channel("normalize: mean", mean, channels), _by_channel("normalize: std", deviation, channels)


def image_options(*, size: Any, crop: Optional[str], resize: Any, flip: Any, normalize: Any, layout: str,
                  dtype: Optional[str], channels: str, scale: Any, ratio: Any) -> Dict[str, Any]:
    sides = (0, 0) if size is None else tuple(size) if isinstance(size, (tuple, list)) else (size, size)
    if len(sides) != 2:
        raise InvalidError(f"size is a side or (height, width), not {size!r}")
    height, width = (arguments.whole("size", side, 0 if size is None else 1, arguments.MOST_SIDE) for side in sides)
    if crop is None:
        crop = "none" if size is None else "center"
    resize = arguments.whole("resize", resize, most=arguments.MOST_SIDE)
    if crop == "center" and size is not None and resize == 0:
        resize = min(height, width)
    channels = arguments.one_of("channels", channels, tuple(_CHANNELS))
    mean, deviation = _mean_and_deviation(normalize, channels)
    if dtype is None:
        dtype = "uint8" if normalize is None else "float32"
    return dict(crop=arguments.one_of("crop", crop, _CROPS), resize=resize, width=width, height=height, flip=bool(flip),
                mean=list(mean), std=list(deviation), layout=arguments.one_of("layout", layout, ("HWC", "CHW")),
                dtype=arguments.one_of("dtype", dtype, ("uint8", "float32", "float16")), channels=channels,
                scale=arguments.reals("scale", scale, 2), ratio=arguments.reals("ratio", ratio, 2))
