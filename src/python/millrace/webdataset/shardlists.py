"""Lists of shards as {"url": …}, their order, and the stages that divide them among ranks and workers."""
from __future__ import annotations

import glob
import itertools
import os
import random
import re
import sys
import time
from typing import Any, Callable, Iterable, Iterator, List, NamedTuple, Optional

from .. import arguments
from . import utils
from .filters import pipelinefilter
from .pytorch import IterableDataset
from .shard_queue import DirectoryShardList, archives_in  # noqa: F401: WebDataset has it here
from .utils import is_iterable

_MOST_SUBSTITUTIONS = 10


def envlookup(m: "re.Match[str]") -> str:
    name = "WDS_" + m.group(1)
    assert name in os.environ, f"{m.group(0)}: the environment has no {name}"
    return os.environ[name]


def envsubst(s: str) -> str:
    """${x} becomes the value of WDS_x."""
    return re.sub(r"\$\{(\w+)\}", envlookup, s)


def _expand_one(url: str) -> List[str]:
    for _ in range(_MOST_SUBSTITUTIONS):
        before, url = url, envsubst(url)
        if url == before:
            break
    names = []
    for name in [url] if url.startswith("pipe:") and "{" not in url else utils.expand_braces(url):
        is_pattern = "://" not in name and not name.startswith("pipe:") and re.search(r"[*?\[]", name)
        if is_pattern and not os.path.exists(name):
            found = sorted(glob.glob(name))
            if not found:
                raise ValueError(f"no file matches {name}")
            names += found
        else:
            names.append(name)
    return names


def expand_urls(urls: Any) -> List[str]:
    """"a-{00..99}.tar::b.tar" to its names; a list is expanded name by name. Globs find local files."""
    if isinstance(urls, str):
        return [name for url in urls.split("::") for name in _expand_one(url)]
    return [name for url in urls for name in expand_urls(os.fspath(url))]


def expand_source(source: Any, max_urls: int = int(1e9)) -> List[str]:
    """A string is expanded, anything else is taken as a list of names."""
    if isinstance(source, str):
        return expand_urls(source)
    if is_iterable(source):
        return list(itertools.islice(source, max_urls))
    raise ValueError(f"urls are a string or a list of strings, not {type(source).__name__}")


# -- lists ---------------------------------------------------------------------------------------------------

class SimpleShardList(IterableDataset):
    """The shards one after the other; with a seed in a random order, a new one every pass."""

    def __init__(self, urls: Any, seed: Any = None) -> None:
        super().__init__()
        self.urls = expand_source(urls)
        if self.urls and isinstance(self.urls[0], dict):  # of another list of shards
            self.urls = [source["url"] for source in self.urls]
        if not self.urls or not isinstance(self.urls[0], str):
            raise ValueError(f"no shards: {urls!r} names none")
        self.seed = time.time_ns() if seed is True else seed
        self._count = utils.EpochCount()

    def __len__(self) -> int:
        return len(self.urls)

    def __iter__(self) -> Iterator[dict]:
        epoch = self._count.begin(self.seed)
        urls = list(self.urls)
        if self.seed is not None:
            random.Random(self.seed if epoch == 0 else f"{self.seed} {epoch}").shuffle(urls)
        return ({"url": url} for url in urls)


class ResampledShards(IterableDataset):
    """Shards drawn at random with replacement, without end (or `nshards` of them). With `deterministic` the draws
    are a function of seed, epoch and worker; otherwise they are different every time."""

    def __init__(self, urls: Any, nshards: int = sys.maxsize, seed: Any = 0,
                 worker_seed: Optional[Callable[[], int]] = None, deterministic: bool = False,
                 max_urls: int = int(1e6), empty_check: bool = True) -> None:
        super().__init__()
        self.urls = expand_source(urls, max_urls)
        if empty_check and not self.urls:
            raise ValueError(f"no shards: {urls!r} names none")
        self.nshards = arguments.no_truth("nshards", nshards)
        self.worker_seed = utils.pytorch_worker_seed if worker_seed is None else worker_seed
        self.deterministic = deterministic
        self.seed = seed
        self.epoch = -1

    def __iter__(self) -> Iterator[dict]:
        self.epoch += 1
        facts = [self.worker_seed(), self.epoch, self.seed]
        if not self.deterministic:
            facts += [os.getpid(), time.time_ns(), os.urandom(4)]
        rng = random.Random(utils.make_seed(*facts))
        for _ in range(self.nshards if self.urls else 0):
            yield {"url": rng.choice(self.urls)}


ResampledShardList = ResampledShards


class _Source(NamedTuple):
    name: str
    urls: List[str]
    choose: int  # so many in a pass, without repetition; 0: all
    resample: int  # so many in a pass, drawn with replacement; 0: not


class MultiShardSample(IterableDataset):
    """Shards of several data sets, from a description in YAML or the same as a dict:

        {"prefix": "data/", "datasets": [{"name": "a", "shards": "a-{00..99}.tar", "choose": 10}, …]}

    Of each data set a pass takes all shards, or `choose` of them, or `resample` draws with replacement; all of them
    together come in random order. set_epoch(n) makes the order of the next passes a function of n."""

    _KEYS = {"prefix", "datasets", "buckets"}
    _SOURCE_KEYS = {"name", "shards", "buckets", "choose", "resample"}

    def __init__(self, fname: Any) -> None:
        super().__init__()
        self.rng = random.Random()
        self.sources = self.parse_spec(fname)
        if not any(source.urls for source in self.sources):
            raise ValueError(f"no shards: {fname!r} names none")

    def parse_spec(self, fname: Any) -> List[_Source]:
        spec = fname
        if not isinstance(fname, dict):
            if not os.path.exists(fname):
                raise ValueError(f"{fname}: there is no such description of shards")
            import yaml

            with open(fname) as stream:
                spec = yaml.safe_load(stream)
        if not isinstance(spec, dict) or "datasets" not in spec:
            raise ValueError(f"{fname}: a description of shards has a list of datasets")
        self._check_keys(spec, self._KEYS)
        return [self._source(spec, one) for one in spec["datasets"]]

    @staticmethod
    def _check_keys(given: dict, known: set) -> None:
        for key in given:
            if key not in known:
                raise ValueError(f"{key!r} means nothing in a description of shards: there are {', '.join(sorted(known))}")

    def _source(self, spec: dict, one: dict) -> _Source:
        self._check_keys(one, self._SOURCE_KEYS)
        buckets = one.get("buckets", spec.get("buckets", [])) or [""]
        buckets = [buckets] if isinstance(buckets, str) else buckets
        if len(buckets) != 1:
            raise ValueError(f"{buckets}: a data set has one bucket")
        shards = [one["shards"]] if isinstance(one["shards"], str) else one["shards"]
        place = envsubst(spec.get("prefix", "")) + os.path.join(envsubst(buckets[0]), "")
        urls = [place + name for shard in shards for name in utils.expand_braces(envsubst(shard))]
        name = one.get("name", "@" + buckets[0])
        choose, resample = (arguments.whole(key, max(one.get(key, 0), 0)) for key in ("choose", "resample"))
        if choose and resample:
            raise ValueError(f"{name}: choose and resample exclude each other")
        if choose > len(urls):
            raise ValueError(f"{name}: {choose} of {len(urls)} shards cannot be chosen")
        return _Source(name, urls, choose, resample)

    def set_epoch(self, seed: Any) -> None:
        self.rng = random.Random(seed)

    def get_shards_for_epoch(self) -> List[str]:
        shards: List[str] = []
        for source in self.sources:
            if source.resample:
                shards += self.rng.choices(source.urls, k=source.resample)
            else:
                shards += self.rng.sample(source.urls, source.choose) if source.choose else source.urls
        self.rng.shuffle(shards)
        return shards

    def __iter__(self) -> Iterator[dict]:
        return ({"url": url} for url in self.get_shards_for_epoch())


def shardspec(spec: str) -> IterableDataset:
    return MultiShardSample(spec) if spec.endswith((".yaml", ".yml")) else SimpleShardList(spec)


# -- stages --------------------------------------------------------------------------------------------------

def split_by_node(src: Iterable, group: Any = None) -> Iterator:
    rank, world_size, _, _ = utils.pytorch_worker_info(group=group)
    return itertools.islice(src, rank, None, world_size)


def single_node_only(src: Iterable, group: Any = None) -> Iterator:
    """Passes everything on, unless there are several ranks: they would all train on the same."""
    _, world_size, _, _ = utils.pytorch_worker_info(group=group)
    if world_size > 1:
        raise ValueError(f"{world_size} ranks would all read the same shards: you need to add an explicit "
                         "nodesplitter, such as nodesplitter=split_by_node")
    yield from src


def split_by_worker(src: Iterable) -> Iterator:
    _, _, worker, num_workers = utils.pytorch_worker_info()
    return itertools.islice(src, worker, None, num_workers)


def resampled_(src: Iterable, n: int = sys.maxsize) -> Iterator:
    """n random draws, with replacement, of what the source gives."""
    items = list(src)
    rng = random.Random(os.urandom(16))
    for _ in range(n if items else 0):
        yield rng.choice(items)


resampled = pipelinefilter(resampled_)


def non_empty(src: Iterable) -> Iterator:
    empty = True
    for item in src:
        empty = False
        yield item
    if empty:
        raise ValueError("nothing came through the pipeline, and non_empty was asked for")
