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
import sys
import warnings
import weakref
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from . import _core, arguments, choosing, finishing
from . import fields as fields_
from .course import Course
from .epoch import Epoch
from .errors import Error, InvalidError, InvalidTypeError
from .finishing import Finisher
from .placement import available_memory, choose_cache
from .recipes import DEFAULTS, IMAGE_DEFAULTS, image_options
from .watching import ProgressLine

Urls = arguments.Names

# What a forked process inherited: its threads are not here, so it is neither used nor taken apart.
_left_behind: List[Any] = []

MOST_CACHED = "100GiB"


def _may_be_packed(fields: Union[str, Sequence[str]]) -> bool:
    return any(word.endswith(".gz") for word in arguments.words(fields))


def _rank_and_world() -> Tuple[int, int]:
    """As the launcher says, or torch.distributed where it is in use."""
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


class Dataset:
    """Tar shards to batches: a description of what to read, in which order, and what to make of it.

    Every method gives a new data set and leaves this one as it was. Nothing is opened before it is needed. Say first what
    to read, then the order (`shuffle`, `batch`, `bucket_by`), the fields (`image`, `label`, `array`, `text`, …) and what to
    make of batches (`map`, `torch`):

        ds = Dataset("train-{000000..000127}.tar", seed=1).shuffle().image("jpg", size=224).label("cls").batch(256)
        for images, labels in ds:   # a new epoch at its start, each time
            ...
        len(ds), ds.samples         # batches and samples in an epoch
        ds[7]                       # one sample, by its number
        ds.state_dict()             # where it stands; load_state_dict() goes on there
        ds.report()                 # what limited the last iteration
    """

    def __init__(self, urls: Urls, *, seed: int = 0, mirrors: Sequence[Urls] = (), memory: Union[int, str] = "2GiB",
                 threads: int = 0, fetch_threads: int = 0, on_error: str = "fail", max_errors: int = 100,
                 index_cache: str = "", indexed: bool = True, key_rule: str = "first-dot", transform: Optional[str] = None):
        """`urls`: paths (also below ~) or http, s3 and mr addresses with ranges {000..127}, lists {a,b}, counts @000128, unions ::
        and globs. `mirrors`: the same shards elsewhere, asked when the first place fails. `memory` bounds everything
        that is held ahead. `on_error`: fail, skip or substitute a sample that cannot be read or decoded, at most
        `max_errors` times. `indexed=False` streams shards that have no index and are not worth making one: each rank
        reads shards of its own once, forwards, through a shuffle buffer; no len(), no samples by number. `transform`: the
        store sends what this registered transform makes of each shard; such a data set is streamed, as with indexed=False."""
        self._urls = arguments.addresses("urls", urls)
        if isinstance(mirrors, (str, os.PathLike)):
            raise InvalidTypeError(f"mirrors has one entry for each mirror: [{mirrors!r}], not {mirrors!r}")
        self._mirrors = [arguments.addresses("mirrors", one) for one in mirrors]
        if self._mirrors and (not indexed or transform):
            raise InvalidError("mirrors need an index: a data set that is streamed reads each shard from one place")
        self._index_cache = arguments.path("index_cache", index_cache)
        self._transform = arguments.transform_name("transform", transform)
        self._indexed = bool(indexed) and not self._transform
        self._key_rule = arguments.one_of("key_rule", key_rule, ("first-dot", "last-dot"))
        self._options: Dict[str, Any] = {
            **DEFAULTS, "fields": [], "seed": arguments.whole("seed", seed), "memory": arguments.byte_count("memory", memory),
            "threads": arguments.whole("threads", threads, most=arguments.MOST_THREADS),
            "fetch_threads": arguments.whole("fetch_threads", fetch_threads, most=arguments.MOST_THREADS),
            "on_error": arguments.one_of("on_error", on_error, ("fail", "skip", "substitute")),
            "most_errors": arguments.whole("max_errors", max_errors)}
        self._finishers: List[Optional[Finisher]] = []
        self._maps: List[Callable[..., Any]] = []
        self._choices: List[Callable[[Any], Any]] = []
        self._parts: List["Dataset"] = []
        self._keep_options: Optional[Tuple[int, int, str]] = None
        self._auto_cache = False
        self._as_torch = False
        self._shared: Dict[str, Any] = {}
        self._process = os.getpid()
        self._course = Course()

    # Describing.

    def __copy__(self) -> "Dataset":
        """Begins where this one stands, and goes its own way from here."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__getstate__(), _course=copy.copy(self._course))
        return other

    def _with(self, **changes: Any) -> "Dataset":
        other = copy.copy(self)
        other._options = {**self._options, "fields": list(self._options["fields"]), **changes}
        other._finishers = list(self._finishers)
        other._maps = list(self._maps)
        other._choices = list(self._choices)
        other._shared = {name: self._open[name] for name in ("catalogue",) if name in self._open}
        other._process = os.getpid()
        return other

    def _view(self) -> "Dataset":
        """The same batches in another form: it shares the position."""
        other = self._with()
        other._course = self._course
        return other

    def _field(self, kind: str, fields: Union[str, Sequence[str]], name: Optional[str],
               finisher: Optional[Finisher] = None, **options: Any) -> "Dataset":
        any_of = arguments.words(fields)
        other = self._with()
        other._options["fields"].append(dict(kind=kind, any_of=any_of, name=name or (any_of[0] if any_of else "__key__"), **options))
        other._finishers.append(finisher)
        return other

    def _loaded(self, kind: str, fields: Union[str, Sequence[str]], name: Optional[str],
                whole: Optional[Callable[[Any], Any]] = None) -> "Dataset":
        """What Python makes of the bytes; members that end in .gz are unpacked first."""
        load = partial(fields_.load, kind, _may_be_packed(fields))
        return self._field("bytes", fields, name, Finisher(load, whole))

    def shuffle(self, window: int = 20_000) -> "Dataset":
        """Shards in random order, samples displaced within `window` of them (over all ranks). 0: the order of the
        shards as given."""
        if isinstance(window, bool):
            raise InvalidTypeError(f"window is a number of samples, not {window}", hint="shuffle() takes 20000, shuffle(0) none")
        return self._with(window=arguments.whole("window", window))

    def batch(self, size: int, end: str = "exact") -> "Dataset":
        """`size` samples over all ranks. `end`: what becomes of samples that do not fill the last batch: exact (a
        shorter one), drop, pad (filled up from the beginning of the epoch)."""
        return self._with(batch=arguments.whole("batch", size, least=1),
                          end=arguments.one_of("end", end, ("exact", "drop", "pad")))

    def image(self, fields: Union[str, Sequence[str]] = "jpg;jpeg;png;webp", *, size: Union[None, int, Tuple[int, int]] = None,
              crop: Optional[str] = None, resize: int = 0, flip: bool = False, normalize: Union[None, str, Tuple] = None,
              layout: str = IMAGE_DEFAULTS["layout"], dtype: Optional[str] = None, channels: str = IMAGE_DEFAULTS["channels"],
              scale: Tuple[float, float] = IMAGE_DEFAULTS["scale"], ratio: Tuple[float, float] = IMAGE_DEFAULTS["ratio"],
              name: Optional[str] = None) -> "Dataset":
        """A decoded image. `size`: side, or (height, width); without it images keep their own sizes and come as a list.
        `crop`: random_resized (torchvision's RandomResizedCrop), random, center (usual where a size is given: the shorter side is
        resized to it first), none; `resize`: the shorter side first. `normalize`: imagenet, half, or (mean, std); makes it float32 unless `dtype` says float16."""
        options = image_options(size=size, crop=crop, resize=resize, flip=flip, normalize=normalize, layout=layout,
                                dtype=dtype, channels=channels, scale=scale, ratio=ratio)
        return self._field("image", fields, name, **options)

    def label(self, fields: Union[str, Sequence[str]] = "cls", *, name: Optional[str] = None) -> "Dataset":
        """A whole number written as text: int64."""
        return self._field("label", fields, name)

    def array(self, fields: Union[str, Sequence[str]] = "npy", *, pad: Any = None, name: Optional[str] = None) -> "Dataset":
        """A .npy: one array for the batch where all shapes are equal, a list of arrays where not; with `pad` always
        (array, shapes), smaller ones filled up with it."""
        pad_column = None if pad is None else partial(fields_.padded, pad)
        if not _may_be_packed(fields):
            return self._field("array", fields, name, Finisher(whole=pad_column) if pad_column else None)
        return self._loaded("npy", fields, name, pad_column or fields_.stacked)

    def bytes(self, fields: Union[str, Sequence[str]], *, name: Optional[str] = None) -> "Dataset":
        """As stored: a list of bytes."""
        return self._field("bytes", fields, name)

    def ragged(self, fields: Union[str, Sequence[str]], *, name: Optional[str] = None) -> "Dataset":
        """As stored, without a copy: (memory, places), one uint8 array and for each sample (offset, size) in it."""
        return self._field("bytes", fields, name, ragged=True)

    def text(self, fields: Union[str, Sequence[str]] = "txt", *, name: Optional[str] = None) -> "Dataset":
        """UTF-8: a list of str."""
        return self._loaded("text", fields, name)

    def json(self, fields: Union[str, Sequence[str]] = "json", *, name: Optional[str] = None) -> "Dataset":
        """A list of what the JSON of each sample means."""
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
        return self._field("bytes", fields, name, Finisher(decode))

    def key(self, *, name: str = "__key__") -> "Dataset":
        """The sample's key: a list of str."""
        return self._field("key", [], name)

    def map(self, function: Callable[..., Any]) -> "Dataset":
        """`function(*columns)` of each batch, in Python. The data set that this gives shares the position."""
        other = self._view()
        other._maps.append(function)
        return other

    def cache(self, directory: Optional[str] = None, *, max_bytes: Union[None, int, str] = None, decoded: bool = False,
              max_side: int = 256, where: str = "ram") -> "Dataset":
        """`directory`: blocks of remote shards stay on a local drive, shared by all processes of the machine; "auto"
        chooses: memory for a data set that takes a quarter of what is free there, the drive of ~/.cache for one that
        takes half of what is free there, nothing for a larger one; the report says what was chosen.
        `decoded`: images stay after the first epoch, made smaller to `max_side`: `where` is "ram" or a directory on a
        local drive, where a later run on the same data finds them. What no longer fits into `max_bytes` is decoded again.
        `max_bytes`: 100GiB, in memory half of what is free there."""
        if decoded:
            in_memory = where == "ram"
            most = available_memory() // 2 if in_memory and max_bytes is None else self._most_cached(max_bytes)
            side = arguments.whole("max_side", max_side, least=1, most=arguments.MOST_SIDE)
            other = self._view()
            other._keep_options = (most, side, "" if in_memory else arguments.path("where", where))
            return other
        if directory is None:
            raise InvalidError("cache needs a directory, or decoded=True")
        if directory == "auto":
            other = self._view()
            other._auto_cache = True
            return other
        other = self._view()
        other._options.update(cache=arguments.path("directory", directory), cache_bytes=self._most_cached(max_bytes))
        return other

    @staticmethod
    def _most_cached(max_bytes: Union[None, int, str]) -> int:
        return arguments.byte_count("max_bytes", MOST_CACHED if max_bytes is None else max_bytes)

    # Choosing samples.

    def _choosing(self, choose: Callable[[Any], Any]) -> "Dataset":
        other = self._with()
        other._choices.append(choose)
        other._shared = {}
        return other

    def select(self, numbers: Sequence[int]) -> "Dataset":
        """Only these samples, by their numbers in the data set's own order; or a mask of one truth for each sample."""
        chosen = arguments.row("numbers", numbers)
        if chosen.dtype.kind == "b":
            return self._choosing(partial(choosing.select_mask, chosen))
        rising = sorted(chosen.tolist())
        if rising:
            arguments.whole("numbers", rising[0])
        for number, following in zip(rising, rising[1:]):
            if number == following:
                raise InvalidError(f"numbers: sample {number} is chosen twice")
        return self._choosing(partial(choosing.select, rising))

    def where(self, fields: Union[str, Sequence[str]]) -> "Dataset":
        """Only samples that have one of these fields: known from the index, without reading."""
        return self._choosing(partial(choosing.select_with, arguments.words(fields)))

    def filter(self, fields: Union[str, Sequence[str]], keep: Callable[[bytes], bool]) -> "Dataset":
        """Only samples for which `keep(bytes of the field)` is true. The field is read once, when the data set is
        first used; samples without it are left out."""
        return self._choosing(partial(choosing.select_by, arguments.words(fields), self._options["memory"], keep))

    def join(self, columns: "Dataset") -> "Dataset":
        """The same samples with the fields of another data set beside their own, found by key: its n-th shard must hold
        every key of the n-th shard here. Choose and mix first, join last."""
        return self._choosing(partial(choosing.with_columns, columns))

    def bucket_by(self, fields: Union[str, Sequence[str]], *, batches: int = 32) -> "Dataset":
        """Samples of similar size (of the field's bytes) come in one batch: the samples of `batches` batches together
        are sorted by size, and the batches made of them come in random order."""
        if not self._indexed:
            raise InvalidError("bucket_by needs an index, which knows the sizes: leave out indexed=False")
        return self._with(bucket_by=arguments.words(fields), bucket_batches=arguments.whole("batches", batches, least=1))

    @staticmethod
    def mix(datasets: Sequence["Dataset"], weights: Sequence[float]) -> "Dataset":
        """Several data sets in exact proportions, each going through epochs of its own. Fields, batch, window and seed are
        the first one's. An epoch is as many whole batches as all samples together would fill. A mixture among them
        is its parts, which share its weight as they did."""
        if len(datasets) != len(weights) or not datasets:
            raise InvalidError(f"{len(datasets)} data sets need as many weights, not {len(weights)}")
        parts: List[Dataset] = []
        shares: List[float] = []
        for one, weight in zip(datasets, (arguments.real("weights", weight) for weight in weights)):
            if one._parts and one._choices:
                raise InvalidError("a mixture that was filtered cannot be mixed again: filter its parts before")
            inner = one._options["weights"] if one._parts else [1.0]
            parts += one._parts or [one]
            shares += [weight * share / (sum(inner) or 1) for share in inner]
        mixed = datasets[0]._with(weights=shares)
        mixed._parts = parts
        mixed._choices = []
        mixed._shared = {}
        return mixed

    def torch(self) -> "Dataset":
        """Batches as torch tensors over the same memory, pinned where CUDA is there. The data set that this gives shares
        the position."""
        other = self._view()
        other._as_torch = True
        return other

    # What is there.

    def __repr__(self) -> str:
        """What was described; opens nothing."""
        if self._parts:
            what = " + ".join(f"{weight:g} x {part!r}" for part, weight in zip(self._parts, self._options["weights"]))
        else:
            names = [repr(name) for name in self._urls]
            what = ", ".join(names[:3]) + (f", … {len(names)} names" if len(names) > 3 else "")
        options = self._options
        told = [f"Dataset({what}, seed={options['seed']}{f', transform={self._transform!r}' if self._transform else '' if self._indexed else ', indexed=False'})"]
        told += [f"shuffle({options['window']})"] if options["window"] else []
        told += [f"{field['kind']}({';'.join(field['any_of'])!r})" if field["any_of"] else f"{field['kind']}()" for field in options["fields"]]
        told += [f"bucket_by({';'.join(options['bucket_by'])!r})"] if options["bucket_by"] else []
        told += ["chosen"] if self._choices else []
        told += [f"batch({options['batch']}, end={options['end']!r})"]
        told += ["map"] * len(self._maps) + (["torch()"] if self._as_torch else [])
        return f"<{'.'.join(told)}>"

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
            names = arguments.transformed(_core.expand_names(self._urls), self._transform)
            mirrors = [_core.expand_names(one) for one in self._mirrors]
            self._open["catalogue"] = self._chosen(_core.Catalogue(names, mirrors, self._index_cache, self._indexed, self._key_rule))
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
            self._open["keep"] = _core.PixelKeep(*self._keep_options, self._catalogue, self._recipe)
        return self._open["keep"]

    @property
    def samples(self) -> int:
        """In one epoch, over all ranks."""
        self._need_index("how many samples it has")
        return self._catalogue.samples

    def _need_index(self, what: str) -> None:
        if not self._indexed:
            raise InvalidTypeError(f"a streamed data set does not know {what}", hint="leave out indexed=False")

    @property
    def fields(self) -> List[str]:
        """The names of the columns of a batch, in order."""
        return [field["name"] for field in self._options["fields"]]

    def __len__(self) -> int:
        """Batches in one epoch: the same on every rank."""
        self._need_index("how many batches it has")
        return self._catalogue.batches(self._recipe)

    def __getitem__(self, number: int) -> Any:
        """One sample by its number in the data set's own order: a tuple of its fields."""
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.startswith("torch.utils.data") and len(self) != self.samples:
            # It would ask for as many samples as there are batches, and never see the others.
            raise InvalidError("a DataLoader cannot take this data set as it is: len(ds) counts batches, ds[i] is a sample",
                               hint="from millrace.torch_bridge: as_iterable(ds) with batch_size=None, or as_map(ds)")
        number = wanted = arguments.whole("number", number, least=None)
        if number < 0:
            number += self.samples
        if not 0 <= number < self.samples:
            raise IndexError(f"there is no sample {wanted}: the data set has {self.samples}")
        if "access" not in self._open:
            self._open["access"] = _core.RandomAccess(self._catalogue, self._recipe)
        columns = self._open["access"].get([number])
        values, unusable = finishing.decode_each(columns, self._finishers)
        if unusable:
            raise self._sample_error(self._open["access"].place(0), unusable[0]) from unusable[0].cause
        one = tuple(column[0] for column in self._as_wanted(values))
        return one if len(one) > 1 else one[0]

    # Going through it.

    def epoch(self, epoch: int, *, rank: int = 0, world: int = 1, start: int = 0, epochs: int = 1, step: int = 1,
              progress: bool = False) -> Epoch:
        """The batches of one rank, from batch `start` on, every `step`-th; `epochs` of them without a pause.
        `progress` draws a line on a terminal's standard error."""
        batches = self._batches(epoch, rank=rank, world=world, start=start, epochs=epochs, step=step, progress=progress)
        self._course.note_begun(int(epoch) + int(epochs) - 1)
        return batches

    def _batches(self, epoch: int, *, rank: int, world: int, start: int, epochs: int = 1, step: int = 1,
                 progress: bool = False) -> Epoch:
        epoch, rank, start, epochs = (arguments.whole(name, value) for name, value in (
            ("epoch", epoch), ("rank", rank), ("start", start), ("epochs", epochs)))
        world, step = arguments.whole("world", world, least=1), arguments.whole("step", step, least=1)
        if self._parts and self._options["end"] != "drop" and len(self) == 0:
            raise InvalidError(f"a batch of {self._options['batch']} is more than the {self.samples} samples of the mixture")
        if self._indexed and self.samples > 0 and len(self) == 0:
            warnings.warn(f"a batch of {self._options['batch']} is more than the {self.samples} samples: with end=\"drop\" an epoch has "
                          "no batch", stacklevel=3)
        if epoch + epochs > arguments.MOST_EPOCH:
            raise InvalidError(f"epochs={epochs} from epoch {epoch} on are too many")
        loader = _core.Loader(self._catalogue, self._recipe, epoch=epoch, batch=start, epochs=epochs, rank=rank,
                              world=world, step=step, keep=self._keep, position=self._course.position)
        total = None
        if progress and self._indexed:
            total = -(-max(len(self) - start, 0) // step) + (epochs - 1) * -(-len(self) // step)
        batches = Epoch(self, loader, ProgressLine(total) if progress else None)
        self._course.running = weakref.ref(batches)
        return batches

    def every(self, epoch: int, first: int, step: int, *, rank: int = 0, world: int = 1) -> Iterator[Any]:
        """Batches first, first + step, … of an epoch: the share of one of several workers."""
        with self._batches(epoch, rank=rank, world=world, start=first, step=step) as batches:
            yield from batches

    def __iter__(self) -> Iterator[Any]:
        """A new epoch from its start, the one behind the epoch that was begun last; after load_state_dict() the rest
        of the epoch that the state is in. For the rank that the launcher or torch.distributed names."""
        epoch, start = self._course.begin()
        rank, world = _rank_and_world()
        with self._batches(epoch, rank=rank, world=world, start=start) as batches:
            yield from batches

    def state_dict(self) -> Dict[str, Any]:
        """Where the last batch that was handed out stands; small, and the same on every rank."""
        self._course.check_known()
        return json.loads(self._catalogue.format_state(self._recipe, self._course.position))

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The next iteration goes on behind that batch. A state of other data or another order is refused."""
        found = self._catalogue.parse_state(self._recipe, json.dumps(state))
        at_end = self._indexed and 0 < len(self) <= found.batch
        self._course.resume(*((found.epoch + 1, 0) if at_end else (found.epoch, found.batch)), world=found.world)

    def report(self) -> str:
        """Of the iteration that ended last: a table of the stages and the sentence that says what limits."""
        return self._course.last_text

    def faults(self) -> List[Dict[str, Any]]:
        """Samples that could not be used, of the iteration under way or the last one: dicts of `shard`,
        `what`, `stage`, and the `epoch` and `batch` they belong to."""
        running = self._course.running() if self._course.running is not None else None
        return running.faults() if running is not None else self._course.last_faults

    def shuffle_quality(self, epoch: int = 0, labels: Union[None, str, Sequence[int]] = None) -> Dict[str, Dict[str, float]]:
        """How well an epoch is shuffled, each number beside its ideal; see docs/guide/loading.md. `labels`: one for each
        sample in the data set's own order, or the field that has them, which is then read once."""
        self._need_index("its order")
        if self._parts:
            raise InvalidError("the quality of a mixture is that of its parts")
        if isinstance(labels, str):
            labels = list(choosing.read_field("label", arguments.words(labels), self._options["memory"], self._catalogue))
        known = [] if labels is None else arguments.row("labels", labels).tolist()
        return json.loads(self._catalogue.shuffle_quality(self._recipe, arguments.whole("epoch", epoch), known))

    @property
    def _is_plain(self) -> bool:
        """Whether batches are what the engine gives."""
        return not (self._as_torch or self._runs_python) and len(self._finishers) != 1

    @property
    def _runs_python(self) -> bool:
        """Whether functions of Python have a part in every batch."""
        return bool(self._maps) or any(finisher is not None for finisher in self._finishers)

    def _as_wanted(self, columns: Sequence[Any]) -> Sequence[Any]:
        if not self._as_torch:
            return columns
        from .torch_bridge import to_torch
        return [to_torch(column) for column in columns]

    def _complete(self, values: Sequence[Any]) -> Tuple[Any, ...]:
        """Columns of decoded values as they are handed over."""
        return tuple(self._as_wanted(finishing.whole_columns(values, self._finishers)))

    def _mapped(self, result: Any) -> Any:
        for function in self._maps:
            result = function(*result) if isinstance(result, tuple) else function(result)
        return result

    def _sample_error(self, place: Tuple[str, str], unusable: finishing.Unusable) -> Error:
        field = ";".join(self._options["fields"][unusable.column]["any_of"])
        shard, where = place
        error = finishing.error_at(f"{where}: field {field}", unusable.cause, "corrupt")
        error.shard, error.stage = shard or None, "python"
        return error

    def __getstate__(self) -> Dict[str, Any]:
        """Without what is open: a process that receives it opens its own."""
        return {**self.__dict__, "_shared": {}}
