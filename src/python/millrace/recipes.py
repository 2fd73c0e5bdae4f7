"""The options of the engine's Recipe and of images, with their defaults."""
from __future__ import annotations

from typing import Any, Dict, Iterator, Optional, Tuple

from . import _core, arguments
from .errors import InvalidError

DEFAULTS: Dict[str, Any] = dict(
    seed=0, window=0, batch=1, end="exact", weights=[], bucket_by=[], bucket_batches=32, fields=[], on_error="fail",
    most_errors=100, threads=0, fetch_threads=0, memory=2 << 30, cache="", cache_note="", cache_bytes=100 << 30)

IMAGE_DEFAULTS: Dict[str, Any] = _core.image_defaults()


def _words(*, size: Any, crop: Optional[str], resize: Any, flip: Any, layout: str, dtype: Optional[str], channels: str) -> Iterator[Tuple[str, Any]]:
    """What was said, as `millrace load` has it: the engine knows the words and what follows from them."""
    if size is not None:
        sides = tuple(size) if isinstance(size, (tuple, list)) else (size, size)
        if len(sides) != 2:
            raise InvalidError(f"size is a side or (height, width), not {size!r}")
        height, width = (arguments.whole("size", side, 1, arguments.MOST_SIDE) for side in sides)
        yield "size", f"{width}x{height}"
    if arguments.whole("resize", resize, most=arguments.MOST_SIDE):
        yield "resize", resize
    if flip:
        yield "flip", ""
    for name, word in (("crop", crop), ("dtype", dtype)):
        if word is not None:
            yield name, word
    yield "layout", layout
    yield "channels", channels


def image_options(*, normalize: Any, scale: Any, ratio: Any, **said: Any) -> Dict[str, Any]:
    """What the engine makes an image field of; what it refuses is an error here already."""
    words = {name: str(word) for name, word in _words(**said)}
    options: Dict[str, Any] = dict(words=words, scale=arguments.reals("scale", scale, 2), ratio=arguments.reals("ratio", ratio, 2))
    if isinstance(normalize, str):
        words["normalize"] = normalize
    elif normalize is not None:
        try:
            mean, deviation = normalize
        except (TypeError, ValueError):
            raise InvalidError(f"normalize is a name or (mean, std), not {normalize!r}") from None
        options.update(mean=list(arguments.reals("normalize: mean", mean)), std=list(arguments.reals("normalize: std", deviation)))
    _core.check_image(options)
    return dict(image=options)
