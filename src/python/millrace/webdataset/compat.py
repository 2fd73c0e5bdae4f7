"""WebDataset, WebLoader and the methods that put stages behind them."""
from __future__ import annotations

import os
import random
import sys
import warnings
from typing import Any, Callable, Iterable, Iterator, Optional
from urllib.parse import urlparse

from .. import arguments
from ..errors import InvalidTypeError
from . import autodecode, cache, filters, shardlists, tariterators
from .filters import default_collation_fn
from .handlers import reraise_exception
from .pipeline import DataPipeline
from .pytorch import DataLoader, IterableDataset
from .utils import PipelineStage, is_iterable


class FluidInterface:
    """Each method is the stage of its name, put behind a copy of the pipeline."""

    compose: Callable[..., Any]

    def batched(self, batchsize: int, collation_fn: Optional[Callable] = default_collation_fn, partial: bool = True):
        arguments.count("batchsize", batchsize)
        return self.compose(filters.batched(batchsize, collation_fn=collation_fn, partial=partial))

    def unbatched(self):
        return self.compose(filters.unbatched())

    def listed(self, batchsize: int, partial: bool = True):
        arguments.count("batchsize", batchsize)
        return self.compose(filters.listed(batchsize, partial=partial))

    def unlisted(self):
        return self.compose(filters.unlisted())

    def log_keys(self, logfile: Optional[str] = None):
        return self.compose(filters.log_keys(logfile))

    def shuffle(self, size: int, **kw: Any):
        if size is True:
            raise InvalidTypeError("shuffle(True) does not say how many samples to shuffle among",
                                   hint="give their number, such as shuffle(1000); 0 or False for none")
        return self if size is None or size < 1 else self.compose(filters.shuffle(size, **kw))

    def map(self, f: Callable, handler: Callable = reraise_exception):
        return self.compose(filters.map(f, handler=handler))

    def decode(self, *args: Any, pre: Any = None, post: Any = None, only: Any = None, partial: bool = False,
               handler: Callable = reraise_exception):
        decoders = [autodecode.ImageHandler(x) if isinstance(x, str) else x for x in args]
        return self.map(autodecode.Decoder(decoders, pre=pre, post=post, only=only, partial=partial), handler=handler)

    def map_dict(self, handler: Callable = reraise_exception, **kw: Callable):
        return self.compose(filters.map_dict(handler=handler, **kw))

    def select(self, predicate: Callable[[Any], bool], **kw: Any):
        return self.compose(filters.select(predicate, **kw))

    def to_tuple(self, *args: Any, **kw: Any):
        return self.compose(filters.to_tuple(*args, **kw))

    def map_tuple(self, *args: Optional[Callable], handler: Callable = reraise_exception):
        return self.compose(filters.map_tuple(*args, handler=handler))

    def slice(self, *args: Any):
        return self.compose(filters.slice(*args))

    def rename(self, **kw: Any):
        return self.compose(filters.rename(**kw))

    def rsample(self, p: float = 0.5):
        arguments.real("p", p)
        return self.compose(filters.rsample(p))

    def rename_keys(self, *args: Any, **kw: Any):
        return self.compose(filters.rename_keys(*args, **kw))

    def extract_keys(self, *args: Any, **kw: Any):
        return self.compose(filters.extract_keys(*args, **kw))

    def xdecode(self, *args: Any, **kw: Any):
        return self.compose(filters.xdecode(*args, **kw))

    def mcached(self):
        return self.compose(filters.Cached())

    def lmdb_cached(self, *args: Any, **kw: Any):
        return self.compose(filters.LMDBCached(*args, **kw))


def check_empty(source: Iterable) -> Iterator:
    """An error rather than an epoch of nothing."""
    empty = True
    for sample in source:
        empty = False
        yield sample
    if empty:
        raise ValueError("No samples found in dataset; perhaps there are fewer shards than workers. "
                         "WebDataset(..., empty_check=False) permits that")


class ShardReader(PipelineStage):
    """{"url": …} to samples: the engine reads, or Python where select_files or rename_files look at each name."""

    def __init__(self, handler: Callable, select_files: Optional[Callable] = None,
                 rename_files: Optional[Callable] = None, cached: Optional[cache.FileCache] = None,
                 verbose: bool = False) -> None:
        self.handler, self.cached, self.verbose = handler, cached, verbose
        self.select_files, self.rename_files = select_files, rename_files

    def run(self, src: Iterable[Any]) -> Iterator[dict]:
        if self.select_files is None and self.rename_files is None:
            return self._samples(src)
        opener = self.cached or cache.StreamingOpen(handler=self.handler)
        files = tariterators.tar_file_expander(opener(src), handler=self.handler, select_files=self.select_files,
                                               rename_files=self.rename_files)
        return tariterators.group_by_keys(files, handler=self.handler)

    def _samples(self, src: Iterable[Any]) -> Iterator[dict]:
        for source in src:
            url = source["url"] if isinstance(source, dict) else source
            if self.verbose:
                print(f"# reading {url}", file=sys.stderr)
            try:
                path = self.cached.get_file(url) if self.cached else tariterators.local_path_of(url)
            except Exception as exn:
                if self.handler(exn):
                    continue
                return
            tags = None if path is None else {"__local_path__": path}
            goes_on = yield from tariterators.shard_samples(url, self.handler, tags, name=path)
            if not goes_on:
                return


class WebDataset(DataPipeline, FluidInterface):
    """Samples of shards: url source, nodesplitter, workersplitter, shard shuffle, reading, check for emptiness.

    `extensions`, `decoder` and `transforms` are those of the first versions: WebDataset(urls, extensions="jpg;png cls")
    gives tuples of decoded fields.
    """

    def __init__(self, urls: Any, handler: Callable = reraise_exception, mode: Optional[str] = None,
                 resampled: bool = False, repeat: bool = False, shardshuffle: Any = None, cache_size: float = -1,
                 cache_dir: Optional[str] = None, url_to_name: Callable[[str], str] = cache.pipe_cleaner,
                 detshuffle: bool = False, nodesplitter: Optional[Callable] = shardlists.single_node_only,
                 workersplitter: Optional[Callable] = shardlists.split_by_worker,
                 select_files: Optional[Callable[[str], bool]] = None,
                 rename_files: Optional[Callable[[str], str]] = None, empty_check: bool = True, verbose: bool = False,
                 seed: Any = None, *, extensions: Any = None, decoder: Any = "rgb", transforms: Any = None) -> None:
        super().__init__()
        resampled = resampled or mode == "resampled"
        shardshuffle = self._check_shardshuffle(shardshuffle, resampled)
        self.seed = os.environ.get("WDS_SEED", random.randint(0, 1_000_000)) if seed is None else seed
        # Without a seed every run draws other shards; with one, the same.
        self.append(self._shards(urls, resampled, deterministic=seed is not None))
        for splitter in (nodesplitter, workersplitter):
            if splitter:
                self.append(splitter)
        if shardshuffle and not resampled:
            shuffle = filters.detshuffle if detshuffle else filters.shuffle
            self.append(shuffle(shardshuffle, seed=self.seed))
        self.append(ShardReader(handler, select_files, rename_files, self._cache(
            cache_dir, cache_size, url_to_name, handler, verbose), verbose))
        if empty_check:
            self.append(check_empty)
        if extensions is not None:
            self._append_fields(extensions, decoder, transforms, handler)
        if repeat:
            self.repeat()

    @staticmethod
    def _check_shardshuffle(shardshuffle: Any, resampled: bool) -> Any:
        if resampled and shardshuffle not in (False, None):
            warnings.warn("WebDataset(shardshuffle=...) is ignored for resampled datasets", stacklevel=3)
        elif shardshuffle is None and not resampled:
            warnings.warn("WebDataset(shardshuffle=...) is None; set explicitly to False or a number", stacklevel=3)
        elif shardshuffle is True:
            warnings.warn("set WebDataset(shardshuffle=...) to a positive integer or 0 or False", stacklevel=3)
            return 100
        return shardshuffle

    def _shards(self, urls: Any, resampled: bool, deterministic: bool) -> Any:
        if isinstance(urls, IterableDataset):
            return urls  # a list of shards already, in an order of its own
        if isinstance(urls, dict) or (isinstance(urls, str) and urls.endswith((".yaml", ".yml"))):
            return shardlists.MultiShardSample(urls)
        if isinstance(urls, str) and urls.endswith(".json"):
            raise ValueError(f"{urls!r}: this kind of dataset description is not read; name the shards")
        if isinstance(urls, os.PathLike):
            urls = os.fspath(urls)
        if isinstance(urls, str) and urlparse(urls).scheme in ("", "file") and urls.endswith("/"):
            urls = shardlists.archives_in(urlparse(urls).path)
        if not isinstance(urls, str) and not is_iterable(urls):
            raise ValueError(f"urls are a string or a list of strings, not {type(urls).__name__}")
        if resampled:
            return shardlists.ResampledShards(urls, seed=self.seed, deterministic=deterministic)
        return shardlists.SimpleShardList(urls)

    @staticmethod
    def _cache(cache_dir: Optional[str], cache_size: float, url_to_name: Callable, handler: Callable,
               verbose: bool) -> Optional[cache.FileCache]:
        cache_dir = os.environ.get("WDS_CACHE", cache_dir)
        cache_size = float(os.environ.get("WDS_CACHE_SIZE", cache_size))
        if cache_dir is None or cache_size == 0:
            return None
        cache_dir = os.path.expanduser(cache_dir)
        if not os.path.isdir(cache_dir):
            raise ValueError(f"cache directory {cache_dir} does not exist")
        return cache.FileCache(cache_dir, url_to_name=url_to_name, verbose=verbose, handler=handler,
                               cache_size=cache_size)

    def _append_fields(self, extensions: Any, decoder: Any, transforms: Any, handler: Callable) -> None:
        if isinstance(extensions, (list, tuple)):
            extensions = " ".join(extensions)
        if decoder:
            self.append(filters.decode(decoder, handler=handler))
        self.append(filters.to_tuple(*extensions.split(), handler=handler))
        if transforms:
            self.append(filters.map_tuple(*transforms, handler=handler))

    def __enter__(self) -> "WebDataset":
        return self

    def __exit__(self, *args: Any) -> None:
        self.close()


class FluidWrapper(DataPipeline, FluidInterface):
    """Anything iterable, with the methods."""

    def __init__(self, initial: Any) -> None:
        super().__init__()
        self.append(initial)


class WebLoader(DataPipeline, FluidInterface):
    """A torch DataLoader, with the methods."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(DataLoader(*args, **kw))
