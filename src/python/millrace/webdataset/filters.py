"""The stages. Each `_name(source, …)` is a generator; `name(…)` is the same with its source still to come.

Stages with a `handler` give it the exceptions of one sample: True drops the sample, False ends the stream.
"""
from __future__ import annotations

import fnmatch
import functools
import io
import itertools
import os
import random
import re
import sys
import time
from typing import Any, Callable, Iterable, Iterator, List, Optional, Sequence

import numpy as np

from .. import arguments
from ..errors import MissingFieldError
from . import autodecode, utils
from .handlers import reraise_exception
from .lmdb_cache import LMDBCached  # noqa: F401: the place where WebDataset has it
from .pytorch import is_tensor
from .utils import PipelineStage, identity

Handler = Callable[[BaseException], bool]


class FilterFunction:
    """A stage with its arguments, waiting for the source. Can be pickled if they can."""

    def __init__(self, f: Callable, *args: Any, **kw: Any) -> None:
        self.f, self.args, self.kw = f, args, kw

    def __call__(self, data: Iterable) -> Iterator:
        return self.f(data, *self.args, **self.kw)

    def __repr__(self) -> str:
        words = [repr(arg) for arg in self.args] + [f"{name}={value!r}" for name, value in self.kw.items()]
        return f"{self.f.__name__.lstrip('_')}({', '.join(words)})"


class RestCurried:
    def __init__(self, f: Callable) -> None:
        self.f = f
        functools.update_wrapper(self, f, updated=())

    def __call__(self, *args: Any, **kw: Any) -> FilterFunction:
        return FilterFunction(self.f, *args, **kw)

    def __reduce__(self) -> tuple:
        return RestCurried, (self.f,)


def pipelinefilter(f: Callable) -> RestCurried:
    """f(source, …) as a stage maker: all arguments but the first are given now."""
    return RestCurried(f)


def compose2(f: Callable, g: Callable) -> Callable:
    return lambda x: g(f(x))


def compose(*args: Callable) -> Callable:
    return functools.reduce(compose2, args, identity)


def pipeline(source: Any, *args: Callable) -> Any:
    return compose(*args)(source)


def no_such_field(sample: dict, *wanted: str) -> MissingFieldError:
    return MissingFieldError(f"sample {sample.get('__key__')!r} of {sample.get('__url__')} has no field "
                             f"{' or '.join(wanted)}; it has {', '.join(str(name) for name in sample)}", shard=sample.get("__url__"))


def getfirst(a: dict, keys: Any, default: Any = None, missing_is_error: bool = True) -> Any:
    """The value of the first of "a;b;c" (or a list) that is there."""
    if isinstance(keys, str):
        assert " " not in keys, f"{keys!r}: alternatives are parted by ; without blanks"
        keys = keys.split(";")
    for key in keys:
        if key in a:
            return a[key]
    if missing_is_error:
        raise no_such_field(a, *keys)
    return default


def parse_field_spec(fields: Any) -> List[List[str]]:
    """ "jpg;png cls" -> [["jpg", "png"], ["cls"]] """
    return [field.split(";") for field in (fields.split() if isinstance(fields, str) else fields)]


def transform_with(sample: Sequence, transformers: Optional[Sequence[Optional[Callable]]]) -> Sequence:
    if not transformers:
        return sample
    assert len(transformers) <= len(sample), f"{len(transformers)} functions for {len(sample)} values"
    return [value if f is None else f(value)
            for value, f in itertools.zip_longest(sample, transformers)]


def _each(data: Iterable, f: Callable, handler: Handler) -> Iterator:
    """f of every sample, exceptions to the handler: the loop that most stages are."""
    for sample in data:
        try:
            result = f(sample)
        except Exception as exn:
            if handler(exn):
                continue
            return
        yield result


# -- looking -------------------------------------------------------------------------------------------------

def _info(data: Iterable, fmt: Optional[str] = None, n: int = 3, every: int = -1, width: int = 50,
          stream: Any = None, name: str = "") -> Iterator:
    """Prints the first n samples, then one of `every`."""
    for number, sample in enumerate(data):
        if number < n or (every > 0 and (number + 1) % every == 0):
            out = stream or sys.stderr
            if fmt is not None:
                print(fmt.format(**sample), file=out)
            else:
                print(f"--- {name}", *(f"{key} {repr(value)[:width]}" for key, value in sample.items()),
                      sep="\n", file=out)
        yield sample


def _log_keys(data: Iterable, logfile: Optional[str] = None) -> Iterator:
    """A line per sample: number, worker, rank, key. Several processes may share the file."""
    if not logfile:
        yield from data
        return
    with open(logfile, "ab", buffering=0) as log:
        for number, sample in enumerate(data):
            words = (number, sample.get("__worker__"), sample.get("__rank__"), sample.get("__key__"))
            log.write(("\t".join(str(word) for word in words) + "\n").encode())
            yield sample


# -- order ---------------------------------------------------------------------------------------------------

def pick(buf: list, rng: random.Random) -> Any:
    """Takes a random element out of the buffer; the last one moves to its place."""
    at = rng.randint(0, len(buf) - 1)
    buf[at], last = buf[-1], buf[at]
    buf.pop()
    return last


def _shuffle(data: Iterable, bufsize: int = 1000, initial: int = 100, rng: Optional[random.Random] = None,
             seed: Any = None, handler: Any = None) -> Iterator:
    """A buffer from which random samples leave. It starts at `initial` and grows by one a sample up to `bufsize`,
    so the first sample comes soon."""
    if bufsize is None or arguments.no_truth("bufsize", bufsize) < 1:
        yield from data
        return
    if seed is not None:
        assert rng is None, "shuffle: give rng or seed, not both"
        rng = random.Random(seed)
    elif rng is None:
        rng = random.Random(f"{os.getpid()} {time.time_ns()}")
    start = min(initial, bufsize)
    source, buffer = iter(data), []
    for sample in source:
        buffer.append(sample)
        if len(buffer) < bufsize:
            buffer.extend(itertools.islice(source, 1))
        if len(buffer) >= start:
            yield pick(buffer, rng)
    while buffer:
        yield pick(buffer, rng)


def _epoch_seed(seed: Any, epoch: int) -> Any:
    """Epoch 0 is the seed itself, as for WebDataset; every later one has an order of its own. Workers of a
    DataLoader are started anew for each epoch: there torch's seed of that epoch tells them apart."""
    torch_data = sys.modules.get("torch.utils.data")
    worker = torch_data.get_worker_info() if torch_data is not None else None
    if worker is not None:
        return f"{seed} {epoch} {worker.seed - worker.id}"
    return seed if epoch == 0 else f"{seed} {epoch}"


class shuffle(PipelineStage):
    """_shuffle as a stage. With a seed, each pass is the next epoch and has its own reproducible order."""

    def __init__(self, bufsize: int = 1000, initial: int = 100, rng: Optional[random.Random] = None,
                 seed: Any = None, handler: Any = None) -> None:
        assert rng is None or seed is None, "shuffle: give rng or seed, not both"
        arguments.no_truth("bufsize", bufsize), arguments.no_truth("initial", initial)
        self.bufsize, self.initial, self.rng, self.seed, self._count = bufsize, initial, rng, seed, utils.EpochCount()

    def run(self, src: Iterable) -> Iterator:
        epoch = self._count.begin(self.seed)
        seed = None if self.seed is None else _epoch_seed(self.seed, epoch)
        return _shuffle(src, self.bufsize, self.initial, rng=self.rng, seed=seed)

    def __call__(self, data: Iterable) -> Iterator:
        return self.run(data)


class detshuffle(PipelineStage):
    """shuffle whose order is a function of seed and epoch; every pass is the next epoch."""

    def __init__(self, bufsize: int = 1000, initial: int = 100, seed: Any = 0, epoch: int = -1) -> None:
        arguments.no_truth("bufsize", bufsize), arguments.no_truth("initial", initial)
        self.bufsize, self.initial, self.seed, self.epoch = bufsize, initial, seed, arguments.no_truth("epoch", epoch)

    def run(self, src: Iterable) -> Iterator:
        self.epoch += 1
        seed = self.seed + self.epoch if isinstance(self.seed, int) else f"{self.seed} {self.epoch}"
        return _shuffle(src, self.bufsize, self.initial, random.Random(seed))


def _rsample(data: Iterable, p: float = 0.5) -> Iterator:
    """Each sample with probability p."""
    assert 0.0 <= arguments.real("p", p) <= 1.0, f"rsample: {p} is no probability"
    return (sample for sample in data if random.uniform(0.0, 1.0) < p)


# -- one sample at a time --------------------------------------------------------------------------------------

def _select(data: Iterable, predicate: Callable[[Any], bool], handler: Handler = reraise_exception) -> Iterator:
    for sample, wanted in _each(data, lambda sample: (sample, predicate(sample)), handler):
        if wanted:
            yield sample


def _decode(data: Iterable, *args: Any, handler: Handler = reraise_exception, **kw: Any) -> Iterator:
    decoder = autodecode.Decoder([autodecode.imagehandler(x) if isinstance(x, str) else x for x in args], **kw)
    return _each(data, decoder, handler)


def _map(data: Iterable, f: Callable, handler: Handler = reraise_exception) -> Iterator:
    """f(sample); None drops the sample, and a dict out of a dict keeps its key."""
    for sample, result in _each(data, lambda sample: (sample, f(sample)), handler):
        if result is None:
            continue
        if isinstance(sample, dict) and isinstance(result, dict):
            result["__key__"] = sample.get("__key__")
        yield result


def _map_dict(data: Iterable, handler: Handler = reraise_exception, **kw: Callable) -> Iterator:
    assert len(kw) > 0, "map_dict: name at least one field and its function"

    def change(sample: dict) -> dict:
        for key, f in kw.items():
            if key not in sample:
                raise no_such_field(sample, key)
            sample[key] = f(sample[key])
        return sample

    return _each(data, change, handler)


def _map_tuple(data: Iterable, *args: Optional[Callable], handler: Handler = reraise_exception) -> Iterator:
    functions = [identity if f is None else f for f in args]
    assert all(callable(f) for f in functions), f"map_tuple: not all of {args} are functions"

    def change(sample: Sequence) -> tuple:
        assert isinstance(sample, (list, tuple)), f"map_tuple: {type(sample)} is no tuple"
        changed = [f(value) for f, value in zip(functions, sample)]
        return (*changed, *sample[len(changed):])

    return _each(data, change, handler)


def _to_tuple(data: Iterable, *args: Any, handler: Handler = reraise_exception, missing_is_error: bool = True,
              none_is_error: Optional[bool] = None) -> Iterator:
    """The fields "jpg;png cls" (or one argument each) as a tuple."""
    if none_is_error is None:
        none_is_error = missing_is_error
    if len(args) == 1 and isinstance(args[0], str) and " " in args[0]:
        args = tuple(args[0].split())

    def extract(sample: dict) -> tuple:
        values = tuple(getfirst(sample, f, missing_is_error=missing_is_error) for f in args)
        if none_is_error and any(value is None for value in values):
            raise ValueError(f"to_tuple{args}: None in sample {sample.get('__key__')!r}, which has {list(sample)}")
        return values

    return _each(data, extract, handler)


def _rename(data: Iterable, handler: Handler = reraise_exception, keep: bool = True, **kw: Any) -> Iterator:
    """rename(image="jpg;png"): the first that is there gets the new name, all old names go."""
    old = {name for names in kw.values() for name in (names.split(";") if isinstance(names, str) else names)}

    def change(sample: dict) -> dict:
        renamed = {name: value for name, value in sample.items() if keep and name not in old}
        renamed.update((new, getfirst(sample, names)) for new, names in kw.items())
        return renamed

    return _each(data, change, handler)


def _associate(data: Iterable, associator: Any, **kw: Any) -> Iterator:
    """More fields for each sample, from a dict or a function of its key."""
    for sample in data:
        key = sample["__key__"]
        sample.update(associator(key) if callable(associator) else associator.get(key, {}))
        yield sample


def _extract_keys(source: Iterable, *patterns: Any, duplicate_is_error: bool = True,
                  ignore_missing: bool = False) -> Iterator:
    """A tuple of the fields that match each glob ("*.jpg;*.png" or a list of alternatives)."""
    choices = [pattern.split(";") if isinstance(pattern, str) else pattern for pattern in patterns]
    for sample in source:
        values = []
        for choice in choices:
            found = [key for key in sample
                     if any(fnmatch.fnmatch(key, glob) or fnmatch.fnmatch("." + key, glob) for glob in choice)]
            if len(found) > 1 and duplicate_is_error:
                raise ValueError(f"sample {sample.get('__key__')!r}: {choice} matches {found}")
            if not found and not ignore_missing:
                raise ValueError(f"sample {sample.get('__key__')!r}: nothing matches {choice} in {list(sample)}")
            values += [sample[key] for key in found[:1]]
        yield tuple(values)


def _rename_keys(source: Iterable, *args: tuple, keep_unselected: bool = False, must_match: bool = True,
                 duplicate_is_error: bool = True, **kw: str) -> Iterator:
    """rename_keys(image="*.jpg"): new names for what matches; of several rules the last counts."""
    rules = [*args, *kw.items()]
    for sample in source:
        renamed: dict = {}
        used = set()
        for path, value in sample.items():
            last_part = path.rsplit("/", 1)[-1].lower()
            rule = next((rule for rule in reversed(rules) if fnmatch.fnmatch(last_part, rule[1])), None)
            if rule is not None:
                used.add(rule[1])
            elif not keep_unselected:
                continue
            name = path if rule is None else rule[0]
            if rule is not None and name in renamed:
                if duplicate_is_error:
                    raise ValueError(f"sample {sample.get('__key__')!r}: two fields would be called {name!r}")
                continue
            renamed[name] = value
        unused = [glob for _, glob in rules if glob not in used]
        if must_match and unused:
            raise ValueError(f"sample {sample.get('__key__')!r}: nothing matches {unused} in {list(sample)}")
        yield renamed


# -- batches -------------------------------------------------------------------------------------------------

def combine_values(b: Sequence, combine_tensors: bool = True, combine_scalars: bool = True) -> Any:
    """Numbers become an array, arrays and tensors of one shape are stacked, anything else stays a list."""
    first = b[0]
    if isinstance(first, (int, float)):
        return np.array(list(b)) if combine_scalars else b
    if not (isinstance(first, np.ndarray) or is_tensor(first)):
        return list(b)
    if not combine_tensors:
        return b
    shapes = {tuple(value.shape) for value in b}
    assert len(shapes) == 1, f"a batch needs one shape, here are {sorted(shapes)}"
    return np.array(list(b)) if isinstance(first, np.ndarray) else sys.modules["torch"].stack(list(b))


def default_collation_fn(samples: Sequence, combine_tensors: bool = True, combine_scalars: bool = True) -> Any:
    """Samples (dicts or tuples) to one dict or tuple of columns."""
    def column(key: Any) -> Any:
        return combine_values([sample[key] for sample in samples], combine_tensors, combine_scalars)

    first = samples[0]
    if isinstance(first, (list, tuple)):
        assert all(len(sample) == len(first) for sample in samples), "samples of a batch differ in length"
        return tuple(column(at) for at in range(len(first)))
    for sample in samples:
        assert sample.keys() == first.keys(), (
            f"samples of a batch have different fields: {sorted(first)} and {sorted(sample)}")
    return {key: column(key) for key in first}


def _batched(data: Iterable, batchsize: int = 20, collation_fn: Optional[Callable] = default_collation_fn,
             partial: bool = True) -> Iterator:
    batchsize = arguments.count("batchsize", batchsize)
    source = iter(data)
    while True:
        batch = list(itertools.islice(source, batchsize))
        if not batch or (len(batch) < batchsize and not partial):
            return
        yield batch if collation_fn is None else collation_fn(batch)


def _listed(data: Iterable, batchsize: int = 20, partial: bool = True) -> Iterator:
    return _batched(data, batchsize, collation_fn=None, partial=partial)


def _unlisted(data: Iterable) -> Iterator:
    for batch in data:
        assert isinstance(batch, list), f"unlisted: {type(batch)} is no list"
        yield from batch


def _unbatched(data: Iterable) -> Iterator:
    """Columns back to samples."""
    for batch in data:
        if isinstance(batch, (list, tuple)):
            for at in range(len(batch[0])):
                yield tuple(column[at] for column in batch)
        elif isinstance(batch, dict):
            lengths = {len(column) for column in batch.values()}
            assert len(lengths) == 1, f"columns of a batch differ in length: {sorted(lengths)}"
            for at in range(lengths.pop()):
                yield {key: column[at] for key, column in batch.items()}
        else:
            raise ValueError(f"unbatched: {type(batch)} is neither dict nor tuple")


# -- decoding by glob ------------------------------------------------------------------------------------------

def decode_bin(stream: Any) -> bytes:
    return stream.read()


def decode_text(stream: Any) -> str:
    return stream.read().decode("utf-8")


def decode_pickle(stream: Any) -> Any:
    return autodecode.unpickle_loads(stream.read())


default_decoders = [("*.bin", decode_bin), ("*.txt", decode_text), ("*.pyd", decode_pickle)]


def find_decoder(decoders: Sequence[tuple], path: str) -> Optional[Callable]:
    name = re.sub(r".*/", "", path).lower()
    if name.startswith("__"):
        return identity
    return next((f for glob, f in reversed(decoders)
                 if fnmatch.fnmatch(name, glob) or fnmatch.fnmatch("." + name, glob)), None)


def _xdecode(source: Iterable, *args: tuple, must_decode: bool = True, defaults: Sequence[tuple] = default_decoders,
             **kw: Callable) -> Iterator:
    """Fields through f(stream) by glob or extension; the last rule that matches counts, False leaves as is."""
    decoders = [*defaults, *args, *(("*." + extension, f) for extension, f in kw.items())]
    for sample in source:
        decoded = {}
        for path, value in sample.items():
            decoder = identity if path.startswith("__") else find_decoder(decoders, path)
            if decoder is None and must_decode:
                raise ValueError(f"sample {sample.get('__key__')!r}: no decoder for {path}")
            if decoder and decoder is not identity:
                value = decoder(io.BytesIO(value) if isinstance(value, bytes) else value)
            decoded[path] = value
        yield decoded


class Cached(PipelineStage):
    """Keeps the first whole pass in memory; later passes come from there."""

    def __init__(self) -> None:
        self.cached: Optional[list] = None

    def run(self, source: Iterable) -> Iterator:
        if self.cached is not None:
            yield from self.cached
            return
        seen = []
        for sample in source:
            seen.append(sample)
            yield sample
        self.cached = seen


info = pipelinefilter(_info)
log_keys = pipelinefilter(_log_keys)
rsample = pipelinefilter(_rsample)
select = pipelinefilter(_select)
decode = pipelinefilter(_decode)
map = pipelinefilter(_map)
map_dict = pipelinefilter(_map_dict)
map_tuple = pipelinefilter(_map_tuple)
to_tuple = pipelinefilter(_to_tuple)
rename = pipelinefilter(_rename)
associate = pipelinefilter(_associate)
extract_keys = pipelinefilter(_extract_keys)
rename_keys = pipelinefilter(_rename_keys)
batched = pipelinefilter(_batched)
listed = pipelinefilter(_listed)
unlisted = pipelinefilter(_unlisted)
unbatched = pipelinefilter(_unbatched)
slice = pipelinefilter(itertools.islice)
xdecode = pipelinefilter(_xdecode)
