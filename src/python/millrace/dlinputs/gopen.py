"""Shards as endless or single passes of decoded samples.

Names are Millrace's: counts imagenet-@001000.tgz, ranges, globs, http, s3 and mr addresses. Every sample carries
__key__, __source__ (its shard) and __epoch__.
"""
from __future__ import annotations

import random
from typing import Any, Callable, Iterator, List, Optional, Union

from .. import _core
from ..errors import CorruptError, Error
from ..webdataset import autodecode, handlers, tariterators, writer
from ..webdataset.gopen import gopen

# What decode= may say about images, and the specification that means.
_IMAGES = {True: "rgb", "gray": "l", "rgb": "rgb", "rgba": "rgba", "gray8": "l8", "rgb8": "rgb8", "rgba8": "rgba8",
           "PIL": "pil"}

__all__ = ["gopen", "open_source", "sharditerator", "sharditerator_once", "shardwriter", "tariterator"]


def _decoder(decode: Any) -> Callable[[dict], dict]:
    if decode is False or decode is None:
        return lambda sample: sample
    if callable(decode):
        return decode
    if decode not in _IMAGES and decode not in autodecode.imagespecs:
        raise ValueError(f"decode={decode!r}: True, False, a function or one of "
                         f"{', '.join(str(name) for name in _IMAGES)}")
    spec = _IMAGES.get(decode, decode)
    return autodecode.Decoder([autodecode.imagehandler(spec)])


def tariterator(url: str, check_sorted: bool = False, keys: Optional[Callable[[str], tuple]] = None,
                decode: Any = True, source: Optional[str] = None, lcase: bool = True) -> Iterator[dict]:
    """One shard's samples. `keys` splits names in a way of its own; check_sorted refuses keys out of order."""
    decoder = _decoder(decode)
    source = url if source is None else source
    last = None
    for sample in _raw(url, keys, lcase):
        key = sample["__key__"]
        if check_sorted and last is not None and key < last:
            raise CorruptError(f"{url}: key {key!r} comes behind {last!r}: the shard is not sorted", shard=url)
        last = key
        sample = decoder(sample)
        del sample["__url__"]
        sample["__source__"] = source
        yield sample


def _raw(url: str, keys: Optional[Callable], lcase: bool) -> Iterator[dict]:
    if keys is None and lcase:
        return tariterators.shard_samples(url)
    files = tariterators.tar_file_expander(tariterators.url_opener([{"url": url}]))
    return tariterators.group_by_keys(files, keys=keys or tariterators.base_plus_ext, lcase=lcase)


def _shards(url: Union[str, List[str]]) -> List[str]:
    return _core.expand_names(url)


def sharditerator_once(url: Union[str, List[str]], **kw: Any) -> Iterator[dict]:
    """Every sample of every shard, in order."""
    for shard in _shards(url):
        yield from tariterator(shard, **kw)


def sharditerator(url: Union[str, List[str]], epochs: int = 1000000, shuffle: bool = True, maxerrs: int = 10,
                  seed: Any = None, **kw: Any) -> Iterator[dict]:
    """The shards again and again, in a new order each time. A shard that fails is left with a warning; more than
    `maxerrs` failures, less the shards that went well in between, are raised."""
    shards = _shards(url)
    rng = random.Random(seed)
    failures = 0
    for epoch in range(epochs):
        order = list(shards)
        if shuffle:
            rng.shuffle(order)
        for shard in order:
            try:
                for sample in tariterator(shard, **kw):
                    sample["__epoch__"] = epoch
                    yield sample
                failures = max(0, failures - 1)
            except (Error, OSError, ValueError, autodecode.DecodingError) as error:
                failures += 1
                if failures > maxerrs:
                    raise
                handlers.warn_and_continue(error)


def open_source(url: str, decode: Any = True) -> Iterator[dict]:
    return sharditerator_once(url, decode=decode)


def shardwriter(pattern: str, **kw: Any) -> writer.ShardWriter:
    """A writer of numbered shards; see millrace.webdataset.ShardWriter."""
    return writer.ShardWriter(pattern, **{"verbose": 0, **kw})
