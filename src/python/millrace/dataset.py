"""Dataset: tar shards to batches, made by C++ threads in this process.

    ds = (Dataset("train-{000000..000127}.tar", seed=1)
            .shuffle(window=20_000)
            .image("jpg;png", size=224, crop="random_resized", flip=True, normalize="imagenet", layout="CHW")
            .label("cls").batch(256))
    for images, labels in ds.epoch(0, rank=0, world=1):
        ...

A Dataset is a description: every method gives a new one, and nothing is opened before it is needed. The order of an
epoch is a pure function of the data, the seed, the epoch, the batch and the window: the number of threads and ranks
does not change what a global batch holds, and a run that goes on from `state_dict()` gives the identical batches.
"""
from __future__ import annotations

import copy
import json
import os
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from . import _core
from . import fields as fields_
from .errors import InvalidError
from .placement import available_memory, choose_cache
from .watching import ProgressLine

Urls = Union[str, Sequence[str]]

# What a forked process inherited: its threads are not here, so it is neither used nor taken apart.
_left_behind: List[Any] = []

MOST_CACHED = "100GiB"
_NORMALIZE = {"imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), "none": ((0.0,) * 4, (1.0,) * 4),
              "half": ((0.5,) * 4, (0.5,) * 4)}


def _each(function: Callable[[Any], Any], values: Sequence[Any]) -> List[Any]:
    return [function(value) for value in values]


# Ways to choose samples of a catalogue; functions of the module, so that a description can be pickled.

def _select(numbers: List[int], catalogue: Any) -> Any:
    return catalogue.select(numbers)


def _select_with(any_of: List[str], catalogue: Any) -> Any:
    return catalogue.select_with(any_of)


def _with_columns(columns: "Dataset", catalogue: Any) -> Any:
    return catalogue.with_columns(columns._catalogue)


def _select_by(any_of: List[str], memory: int, keep: Callable[[bytes], bool], catalogue: Any) -> Any:
    catalogue = catalogue.select_with(any_of)
    options = {**Dataset("", memory=memory)._options, "batch": 256, "fields": [dict(kind="bytes", any_of=any_of, name="field")]}
    reader = _core.Loader(catalogue, _core.Recipe(options))
    numbers: List[int] = []
    count = 0
    while (found := reader.next()) is not None:
        for value in found[2][0]:
            if keep(value):
                numbers.append(count)
            count += 1
    return catalogue.select(numbers)


def _bytes(size: Union[int, str]) -> int:
    return size if isinstance(size, int) else _core.parse_bytes(size)


def _words(fields: Union[str, Sequence[str]]) -> List[str]:
    words = fields.split(";") if isinstance(fields, str) else list(fields)
    return [word.strip().lstrip(".").lower() for word in words if word.strip()]


def _may_be_packed(fields: Union[str, Sequence[str]]) -> bool:
    return any(word.endswith(".gz") for word in _words(fields))


def _in_turn(first: Callable[[Any], Any], second: Callable[[Any], Any], value: Any) -> Any:
    return second(first(value))


def _rank_and_world() -> Tuple[int, int]:
    """As the launcher says, or torch.distributed where it is in use."""
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    import sys
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


class Epoch:
    """The batches of one rank, from any batch on. Ends its threads when it is exhausted, closed or forgotten."""

    def __init__(self, dataset: "Dataset", loader: Any, end: int, line: Optional[ProgressLine] = None):
        self._dataset = dataset
        self._line = line
        self._end = end  # the first epoch behind these
        self._batches = len(dataset) if dataset._indexed else None
        self._loader = loader
        self._last_report: Optional[Dict[str, Any]] = None

    def __iter__(self) -> "Epoch":
        return self

    def __next__(self) -> Any:
        if self._loader is None:
            raise StopIteration
        try:
            found = self._loader.next()
        except BaseException:
            self.close()
            raise
        if found is None:
            self._dataset._position = (self._end, 0)
            self.close()
            raise StopIteration
        epoch, number, columns = found
        last = self._batches is not None and number + 1 >= self._batches
        self._dataset._position = (epoch + 1, 0) if last else (epoch, number + 1)
        if self._line is not None:
            self._line.step(self.report)
        return self._dataset._finish(columns)

    def close(self) -> None:
        loader, self._loader = self._loader, None
        if self._line is not None:
            self._line.close()
        if loader is not None:
            self._last_report = json.loads(loader.report_json())
            self._dataset._last_report = self._last_report
            self._text = loader.report()
            self._dataset._last_text = self._text
            self._dataset._last_faults = loader.faults()
            loader.stop()

    def report(self) -> Dict[str, Any]:
        """Stages, their rates and waits, and which of them limits; see also Dataset.report()."""
        if self._loader is not None:
            return json.loads(self._loader.report_json())
        return self._last_report or {}

    def __enter__(self) -> "Epoch":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Dataset:
    def __init__(self, urls: Urls, *, seed: int = 0, mirrors: Sequence[Urls] = (), memory: Union[int, str] = "2GiB",
                 threads: int = 0, fetch_threads: int = 0, on_error: str = "fail", max_errors: int = 100,
                 index_cache: str = "", indexed: bool = True):
        """`urls`: paths or http, s3 and mr addresses with ranges {000..127}, lists {a,b}, counts @000128, unions ::
        and globs. `mirrors`: the same shards elsewhere, asked when the first place fails. `memory` bounds everything
        that is held ahead. `on_error`: fail, skip or substitute a sample that cannot be read or decoded, at most
        `max_errors` times. `indexed=False` streams shards that have no index and are not worth making one: each rank
        reads shards of its own once, forwards, through a shuffle buffer; no len(), no samples by number."""
        self._urls = [urls] if isinstance(urls, str) else list(urls)
        self._mirrors = [[one] if isinstance(one, str) else list(one) for one in mirrors]
        self._index_cache = index_cache
        self._indexed = indexed
        self._options: Dict[str, Any] = dict(
            seed=seed, window=0, batch=1, end="exact", weights=[], bucket_by=[], bucket_batches=32, fields=[], on_error=on_error, most_errors=max_errors,
            threads=threads, fetch_threads=fetch_threads, memory=_bytes(memory), cache="", cache_note="", cache_bytes=100 << 30)
        self._finishers: List[Optional[Callable[[Any], Any]]] = []
        self._maps: List[Callable[..., Any]] = []
        self._choices: List[Callable[[Any], Any]] = []
        self._parts: List["Dataset"] = []
        self._keep_options: Optional[Tuple[int, int, str]] = None
        self._auto_cache = False
        self._as_torch = False
        self._shared: Dict[str, Any] = {}
        self._process = os.getpid()
        self._position: Tuple[int, int] = (0, 0)
        self._last_report: Optional[Dict[str, Any]] = None
        self._last_text = ""
        self._last_faults: List[Any] = []

    # Describing.

    def _with(self, **changes: Any) -> "Dataset":
        other = copy.copy(self)
        other._options = {**self._options, "fields": list(self._options["fields"]), **changes}
        other._finishers = list(self._finishers)
        other._maps = list(self._maps)
        other._choices = list(self._choices)
        other._shared = {name: self._open[name] for name in ("catalogue",) if name in self._open}
        other._process = os.getpid()
        return other

    def _field(self, kind: str, fields: Union[str, Sequence[str]], name: Optional[str],
               finish: Optional[Callable[[Any], Any]] = None, **options: Any) -> "Dataset":
        any_of = _words(fields)
        other = self._with()
        other._options["fields"].append(dict(kind=kind, any_of=any_of, name=name or (any_of[0] if any_of else "__key__"), **options))
        other._finishers.append(finish)
        return other

    def _loaded(self, kind: str, fields: Union[str, Sequence[str]], name: Optional[str],
                finish: Optional[Callable[[Any], Any]] = None) -> "Dataset":
        """What Python makes of the bytes; members that end in .gz are unpacked first."""
        load = partial(fields_.load_each, kind, _may_be_packed(fields))
        return self._field("bytes", fields, name, partial(_in_turn, load, finish) if finish else load)

    def shuffle(self, window: int = 20_000) -> "Dataset":
        """Shards in random order, samples displaced within `window` of them (over all ranks). 0: the order of the
        shards as given."""
        return self._with(window=int(window))

    def batch(self, size: int, end: str = "exact") -> "Dataset":
        """`size` samples over all ranks. `end`: what becomes of samples that do not fill the last batch: exact (a
        shorter one), drop, pad (filled up from the beginning of the epoch)."""
        return self._with(batch=int(size), end=end)

    def image(self, fields: Union[str, Sequence[str]] = "jpg;jpeg;png;webp", *, size: Union[None, int, Tuple[int, int]] = None,
              crop: Optional[str] = None, resize: int = 0, flip: bool = False, normalize: Union[None, str, Tuple] = None,
              layout: str = "HWC", dtype: Optional[str] = None, channels: str = "rgb",
              scale: Tuple[float, float] = (0.08, 1.0), ratio: Tuple[float, float] = (3 / 4, 4 / 3),
              name: Optional[str] = None) -> "Dataset":
        """A decoded image. `size`: side, or (height, width); without it images keep their own sizes and come as a list.
        `crop`: random_resized (torchvision's RandomResizedCrop), random, center, none; `resize`: the shorter side
        first. `normalize`: imagenet, half, or (mean, std); makes it float32 unless `dtype` says float16."""
        height, width = (0, 0) if size is None else (size, size) if isinstance(size, int) else size
        if crop is None:
            crop = "none" if size is None else "center"
        if crop == "center" and size is not None and resize == 0:
            resize = min(height, width)
        if isinstance(normalize, str):
            if normalize not in _NORMALIZE:
                raise InvalidError(f"normalize is {', '.join(_NORMALIZE)} or (mean, std), not {normalize}")
            normalize = _NORMALIZE[normalize]
        mean, std = normalize or _NORMALIZE["none"]
        if dtype is None:
            dtype = "float32" if normalize else "uint8"
        return self._field("image", fields, name, crop=crop, resize=resize, width=width, height=height, flip=flip,
                           mean=list(mean), std=list(std), layout=layout, dtype=dtype, channels=channels,
                           scale=tuple(scale), ratio=tuple(ratio))

    def label(self, fields: Union[str, Sequence[str]] = "cls", *, name: Optional[str] = None) -> "Dataset":
        """A whole number written as text: int64."""
        return self._field("label", fields, name)

    def array(self, fields: Union[str, Sequence[str]] = "npy", *, pad: Any = None, name: Optional[str] = None) -> "Dataset":
        """A .npy: one array for the batch where all shapes are equal, a list of arrays where not; with `pad` always
        (array, shapes), smaller ones filled up with it."""
        pad_column = None if pad is None else partial(fields_.padded, pad)
        if not _may_be_packed(fields):
            return self._field("array", fields, name, pad_column)
        return self._loaded("npy", fields, name, pad_column or fields_.stacked)

    def bytes(self, fields: Union[str, Sequence[str]], *, name: Optional[str] = None) -> "Dataset":
        """As stored: a list of bytes."""
        return self._field("bytes", fields, name)

    def ragged(self, fields: Union[str, Sequence[str]], *, name: Optional[str] = None) -> "Dataset":
        """As stored, without a copy: (memory, places), one uint8 array and for each sample (offset, size) in it."""
        return self._field("bytes", fields, name, ragged=True)

    def text(self, fields: Union[str, Sequence[str]] = "txt", *, name: Optional[str] = None) -> "Dataset":
        return self._loaded("text", fields, name)

    def json(self, fields: Union[str, Sequence[str]] = "json", *, name: Optional[str] = None) -> "Dataset":
        return self._loaded("json", fields, name)

    def npz(self, fields: Union[str, Sequence[str]] = "npz", *, name: Optional[str] = None) -> "Dataset":
        """A list of dicts of arrays."""
        return self._loaded("npz", fields, name)

    def tenbin(self, fields: Union[str, Sequence[str]] = "ten;tb", *, name: Optional[str] = None) -> "Dataset":
        """WebDataset's tensors: a list of lists of arrays."""
        return self._loaded("tenbin", fields, name)

    def msgpack(self, fields: Union[str, Sequence[str]] = "mp;msg", *, name: Optional[str] = None) -> "Dataset":
        """Needs the package msgpack."""
        return self._loaded("msgpack", fields, name)

    def cbor(self, fields: Union[str, Sequence[str]] = "cbor", *, name: Optional[str] = None) -> "Dataset":
        """Needs the package cbor or cbor2."""
        return self._loaded("cbor", fields, name)

    def field(self, fields: Union[str, Sequence[str]], decode: Callable[[bytes], Any], *, name: Optional[str] = None) -> "Dataset":
        """`decode(bytes)` for each sample, in Python, under its lock: what has no place in the engine."""
        return self._field("bytes", fields, name, partial(_each, decode))

    def key(self, *, name: str = "__key__") -> "Dataset":
        return self._field("key", [], name)

    def map(self, function: Callable[..., Any]) -> "Dataset":
        """`function(*columns)` of each batch, in Python."""
        other = self._with()
        other._maps.append(function)
        return other

    def cache(self, directory: Optional[str] = None, *, max_bytes: Union[None, int, str] = None, decoded: bool = False,
              max_side: int = 256, where: str = "ram") -> "Dataset":
        """`directory`: blocks of remote shards stay on a local drive, shared by all processes of the machine; "auto"
        chooses: memory for a data set that takes a quarter of what is free there, the drive of ~/.cache for one that
        takes half of what is free there, nothing for a larger one; the report says what was chosen.
        `decoded`: images stay after the first epoch, made smaller to `max_side`: `where` is "ram" or a directory on a
        local drive. What no longer fits into `max_bytes` is decoded again.
        `max_bytes`: 100GiB, in memory half of what is free there."""
        if decoded:
            in_memory = where == "ram"
            most = available_memory() // 2 if in_memory and max_bytes is None else _bytes(max_bytes or MOST_CACHED)
            other = self._with()
            other._keep_options = (most, int(max_side), "" if in_memory else os.fspath(where))
            return other
        if directory is None:
            raise InvalidError("cache needs a directory, or decoded=True")
        if directory == "auto":
            other = self._with()
            other._auto_cache = True
            return other
        return self._with(cache=str(directory), cache_bytes=_bytes(max_bytes or MOST_CACHED))

    # Choosing samples.

    def _choosing(self, choose: Callable[[Any], Any]) -> "Dataset":
        other = self._with()
        other._choices.append(choose)
        other._shared = {}
        return other

    def select(self, numbers: Sequence[int]) -> "Dataset":
        """Only these samples, by their numbers in the data set's own order; or a mask of one truth for each sample."""
        chosen = list(numbers)
        if chosen and (isinstance(chosen[0], bool) or type(chosen[0]).__name__ == "bool_"):
            chosen = [number for number, wanted in enumerate(chosen) if wanted]
        return self._choosing(partial(_select, sorted(int(number) for number in chosen)))

    def where(self, fields: Union[str, Sequence[str]]) -> "Dataset":
        """Only samples that have one of these fields: known from the index, without reading."""
        return self._choosing(partial(_select_with, _words(fields)))

    def filter(self, fields: Union[str, Sequence[str]], keep: Callable[[bytes], bool]) -> "Dataset":
        """Only samples for which `keep(bytes of the field)` is true. The field is read once, when the data set is
        first used; samples without it are left out."""
        return self._choosing(partial(_select_by, _words(fields), self._options["memory"], keep))

    def join(self, columns: "Dataset") -> "Dataset":
        """The same samples with the fields of another data set beside their own, found by key: its n-th shard must hold
        every key of the n-th shard here. Choose and mix first, join last."""
        return self._choosing(partial(_with_columns, columns))

    def bucket_by(self, fields: Union[str, Sequence[str]], *, batches: int = 32) -> "Dataset":
        """Samples of similar size (of the field's bytes) come in one batch: the samples of `batches` batches together
        are sorted by size, and the batches made of them come in random order."""
        return self._with(bucket_by=_words(fields), bucket_batches=int(batches))

    @staticmethod
    def mix(datasets: Sequence["Dataset"], weights: Sequence[float]) -> "Dataset":
        """Several data sets in exact proportions, each going through epochs of its own. Fields, batch and window are
        the first one's. An epoch is as many whole batches as all samples together would fill."""
        if len(datasets) != len(weights) or not datasets:
            raise InvalidError(f"{len(datasets)} data sets need as many weights, not {len(weights)}")
        mixed = datasets[0]._with(weights=[float(weight) for weight in weights])
        mixed._parts = list(datasets)
        mixed._choices = []
        mixed._shared = {}
        return mixed

    def torch(self) -> "Dataset":
        """Batches as torch tensors over the same memory, pinned where CUDA is there."""
        other = self._with()
        other._as_torch = True
        return other

    # What is there.

    @property
    def _open(self) -> Dict[str, Any]:
        """What is open in this process."""
        if self._process != os.getpid():
            _left_behind.append(self._shared)
            self._process, self._shared = os.getpid(), {}
        return self._shared

    @property
    def _catalogue(self) -> Any:
        if "catalogue" not in self._open and self._parts:
            self._open["catalogue"] = self._chosen(_core.Catalogue.join([part._catalogue for part in self._parts]))
        if "catalogue" not in self._open:
            names = _core.expand_names(self._urls)
            mirrors = [_core.expand_names(one) for one in self._mirrors]
            self._open["catalogue"] = self._chosen(_core.Catalogue(names, mirrors, self._index_cache, self._indexed))
        return self._open["catalogue"]

    def _chosen(self, catalogue: Any) -> Any:
        for choose in self._choices:
            catalogue = choose(catalogue)
        return catalogue

    @property
    def _recipe(self) -> Any:
        if "recipe" not in self._open:
            chosen = choose_cache(self._catalogue.bytes, self._catalogue.is_local) if self._auto_cache else {}
            self._open["recipe"] = _core.Recipe({**self._options, **chosen})
        return self._open["recipe"]

    @property
    def _keep(self) -> Any:
        if self._keep_options is None:
            return None
        if "keep" not in self._open:
            self._open["keep"] = _core.PixelKeep(*self._keep_options)
        return self._open["keep"]

    @property
    def samples(self) -> int:
        """In one epoch, over all ranks."""
        return self._catalogue.samples

    @property
    def fields(self) -> List[str]:
        """The names of the columns of a batch, in order."""
        return [field["name"] for field in self._options["fields"]]

    def __len__(self) -> int:
        """Batches in one epoch: the same on every rank."""
        return self._catalogue.batches(self._recipe)

    def __getitem__(self, number: int) -> Any:
        """One sample by its number in the data set's own order: a tuple of its fields."""
        if number < 0:
            number += self.samples
        if not 0 <= number < self.samples:
            raise IndexError(f"there is no sample {number}: the data set has {self.samples}")
        if "access" not in self._open:
            self._open["access"] = _core.RandomAccess(self._catalogue, self._recipe)
        columns = self._finish(self._open["access"].get([number]), mapped=False)
        one = tuple(column[0] for column in (columns if isinstance(columns, tuple) else (columns,)))
        return one if len(one) > 1 else one[0]

    # Going through it.

    def epoch(self, epoch: int, *, rank: int = 0, world: int = 1, start: int = 0, epochs: int = 1, step: int = 1,
              progress: bool = False) -> Epoch:
        """The batches of one rank, from batch `start` on, every `step`-th; `epochs` of them without a pause.
        `progress` draws a line on a terminal's standard error."""
        loader = _core.Loader(self._catalogue, self._recipe, epoch=epoch, batch=start, epochs=epochs, rank=rank,
                              world=world, step=step, keep=self._keep)
        total = epochs * len(self) - start if progress and self._indexed else None
        return Epoch(self, loader, epoch + epochs, ProgressLine(total) if progress else None)

    def every(self, epoch: int, first: int, step: int, *, rank: int = 0, world: int = 1) -> Iterator[Any]:
        """Batches first, first + step, … of an epoch: the share of one of several workers."""
        with self.epoch(epoch, rank=rank, world=world, start=first, step=step) as batches:
            yield from batches

    def __iter__(self) -> Iterator[Any]:
        """One epoch from where the last ended, for the rank that the launcher or torch.distributed names."""
        epoch, start = self._position
        if self._indexed and start >= len(self):
            epoch, start = epoch + 1, 0
        rank, world = _rank_and_world()
        with self.epoch(epoch, rank=rank, world=world, start=start) as batches:
            yield from batches

    def state_dict(self) -> Dict[str, Any]:
        """Where the last batch that was handed out stands; small, and the same on every rank."""
        return json.loads(self._catalogue.format_state(self._recipe, *self._position))

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The next iteration goes on behind that batch. A state of other data or another order is refused."""
        self._position = self._catalogue.parse_state(self._recipe, json.dumps(state))

    def report(self) -> str:
        """Of the iteration that ended last: a table of the stages and the sentence that says what limits."""
        return self._last_text

    def shuffle_quality(self, epoch: int = 0, labels: Optional[Sequence[int]] = None) -> Dict[str, Dict[str, float]]:
        """How well an epoch is shuffled, each number beside its ideal; see docs/guide/loading.md."""
        return json.loads(self._catalogue.shuffle_quality(self._recipe, epoch, list(labels or [])))

    def _finish(self, columns: Tuple[Any, ...], mapped: bool = True) -> Any:
        finished = [column if finish is None else finish(column) for column, finish in zip(columns, self._finishers)]
        if self._as_torch:
            from .torch_bridge import to_torch
            finished = [to_torch(column) for column in finished]
        result: Any = tuple(finished)
        for function in self._maps if mapped else ():
            result = function(*result) if isinstance(result, tuple) else function(result)
        return result[0] if isinstance(result, tuple) and len(result) == 1 else result

    def __getstate__(self) -> Dict[str, Any]:
        """Without what is open: a process that receives it opens its own."""
        return {**self.__dict__, "_shared": {}}
