"""Shards as endless or single passes of decoded samples.

Names are Millrace's: counts imagenet-@001000.tgz, ranges, globs, http, s3 and mr addresses. Every sample carries
__key__, __source__ (its shard) and __epoch__.
"""
from __future__ import annotations

import random
from typing import Any, Callable, Iterable, Iterator, List, Optional, Sequence, Union

from .. import _core
from ..errors import CorruptError, Error
from ..webdataset import autodecode, handlers, tariterators, writer
from ..webdataset import filters as stages
from ..webdataset.gopen import gopen

# What decode= may say about images, and the specification that means.
_IMAGES = {True: "rgb", "gray": "l", "rgb": "rgb", "rgba": "rgba", "gray8": "l8", "rgb8": "rgb8", "rgba8": "rgba8",
           "PIL": "pil"}

__all__ = ["WebLoader", "find_shards", "gopen", "open_source", "sharditerator", "sharditerator_once", "shardwriter", "tariterator",
           "test_shards", "test_url"]


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
    """All samples once."""
    return sharditerator_once(url, decode=decode)


def test_url(url: str, size: int = 17) -> bool:
    """Whether the first `size` bytes can be read; why not is a warning."""
    try:
        with gopen(url) as stream:
            return len(stream.read(size)) == size
    except (Error, OSError, ValueError) as error:
        return not handlers.warn_and_continue(error)


def test_shards(url: Union[str, List[str]], size: int = 17, complete: bool = False) -> bool:
    """Whether the first shard can be read, or all of them."""
    shards = _shards(url)
    return all(test_url(shard, size) for shard in (shards if complete else shards[:1]))


def find_shards(urls: Iterable[str], size: int = 17, complete: bool = False) -> Optional[str]:
    """The first of several places that has the shards; None where none has."""
    return next((url for url in urls if test_shards(url, size, complete)), None)


class WebLoader:
    """Tuples of the fields `keys` of all samples, through a pipeline of filters and a function for each of the first two:
    what a training loop of dlinputs iterates over. `length` is what len() says."""

    def __init__(self, url: Union[str, List[str]], keys: Union[str, Sequence[str]], length: Optional[int] = None,
                 pipeline: Optional[Callable] = None, transform: Optional[Callable] = None,
                 target_transform: Optional[Callable] = None, **kw: Any) -> None:
        self.url, self.pipeline, self.length, self.kw = url, pipeline, length, {"epochs": 1, **kw}
        self.keys = keys.split() if isinstance(keys, str) else list(keys)
        self.transforms = (transform, target_transform)

    def __len__(self) -> int:
        if self.length is None:
            raise TypeError("how many samples there are was not said: WebLoader(…, length=n)")
        return self.length

    def __iter__(self) -> Iterator[tuple]:
        samples: Any = sharditerator(self.url, **self.kw)
        samples = samples if self.pipeline is None else self.pipeline(samples)
        for row in stages.to_tuple(*self.keys)(samples):
            row = list(row)
            for at, transform in enumerate(self.transforms[:len(row)]):
                row[at] = row[at] if transform is None else transform(row[at])
            yield tuple(row)


# Their names begin as those of tests do, and they are none.
test_url.__test__ = test_shards.__test__ = False  # type: ignore[attr-defined]


def shardwriter(pattern: str, **kw: Any) -> writer.ShardWriter:
    """A writer of numbered shards; see millrace.webdataset.ShardWriter."""
    return writer.ShardWriter(pattern, **{"verbose": 0, **kw})
