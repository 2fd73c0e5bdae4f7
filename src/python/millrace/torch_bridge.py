"""Batches for PyTorch: tensors over the loader's memory, and data sets that a DataLoader takes.

    loader = torch.utils.data.DataLoader(as_iterable(ds), batch_size=None, num_workers=2)

Without worker processes nothing is gained or lost: the threads are in the engine. With them each worker makes every
n-th batch of its rank, so that together they give the same batches, once each. Each iteration over the loader begins a
new epoch at its start; only after load_state_dict() it goes on in the middle.
"""
from __future__ import annotations

import sys
from typing import Any, Dict, Iterator, Optional, Tuple

import numpy
import torch
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset, get_worker_info

from . import arguments
from .course import Course, unknown_behind_workers
from .dataset import Dataset, _rank_and_world
from .errors import InvalidError


def to_torch(column: Any) -> Any:
    if isinstance(column, numpy.ndarray):
        if column.dtype == numpy.uint64 and column.size and column.max() > numpy.iinfo(numpy.int64).max:
            raise InvalidError(f"torch has no uint64, and {column.max()} is no int64")
        if not column.flags.writeable or column.dtype in (numpy.uint16, numpy.uint32, numpy.uint64):
            column = column.astype(numpy.int64) if column.dtype.kind == "u" and column.dtype != numpy.uint8 else column.copy()
        tensor = torch.from_numpy(column)
        return tensor.pin_memory() if torch.cuda.is_available() else tensor
    if isinstance(column, tuple):  # padded with shapes, or memory with places
        return tuple(to_torch(one) for one in column)
    if isinstance(column, list) and column and isinstance(column[0], numpy.ndarray):
        return [to_torch(one) for one in column]
    return column


class Passes:
    """Which pass over the data comes next, and where the first of them begins, known alike to all worker processes: to
    those that stay and to those that are started anew for each pass.

    Every process writes only its own places, so nothing needs a lock. One row for each number of workers, because loaders
    with other numbers of workers may have come before: they are counted by their first worker. A worker that comes late to
    a pass takes what the others of it began with, whatever was begun elsewhere meanwhile."""

    MOST_WORKERS = 128

    def __init__(self) -> None:
        # Epoch and batch of a pass, and how many passes came before it.
        self._first = torch.zeros(3, dtype=torch.int64).share_memory_()
        self._begun = torch.zeros(self.MOST_WORKERS + 1, self.MOST_WORKERS, dtype=torch.int64).share_memory_()
        # Epoch and batch of the pass that each worker began last.
        self._last = torch.zeros(self.MOST_WORKERS + 1, self.MOST_WORKERS, 2, dtype=torch.int64).share_memory_()

    def restart(self, epoch: int, batch: int) -> None:
        """The next pass begins here."""
        self._first[:] = torch.tensor([epoch, batch, int(self._begun[:, 0].sum())])

    @property
    def by_workers(self) -> int:
        """How many passes worker processes have begun, each worker counted."""
        return int(self._begun[1:].sum())

    @property
    def upcoming(self) -> Tuple[int, int]:
        """Epoch and first batch of the pass that begins next."""
        return self._behind(int(self._begun[:, 0].sum()))

    def _behind(self, counted: int) -> Tuple[int, int]:
        epoch, batch, before = self._first.tolist()
        return epoch + counted - before, batch if counted == before else 0

    def _of_the_others(self, worker: int, workers: int) -> Optional[Tuple[int, int]]:
        """What another worker began this pass with."""
        ahead = (self._begun[workers] > self._begun[workers, worker]).nonzero()
        return tuple(self._last[workers, int(ahead[0])].tolist()) if len(ahead) else None

    def begin(self, worker: int, workers: int) -> Tuple[int, int]:
        """Epoch and first batch of the pass that begins here; without worker processes, 0 of 0."""
        if workers > self.MOST_WORKERS:
            raise InvalidError(f"at most {self.MOST_WORKERS} workers can share a data set, not {workers}")
        counts = self._begun[:, 0].clone()
        counts[workers] = self._begun[workers, worker]  # its first worker may be counting just now
        epoch, batch = self._of_the_others(worker, workers) or self._behind(int(counts.sum()))
        self._last[workers, worker] = torch.tensor([epoch, batch])
        self._begun[workers, worker] += 1
        return epoch, batch

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        for tensor in (self._first, self._begun, self._last):
            tensor.share_memory_()  # a copy's own; what a worker received is shared already


class IterableBatches(IterableDataset):
    """Batches of a Dataset; give it to a DataLoader with batch_size=None. It shares the position of the Dataset: each
    iteration begins the epoch behind the one that was begun last, at its start; only after load_state_dict() it goes on
    in the middle."""

    def __init__(self, dataset: Dataset):
        super().__init__()
        self.dataset = dataset.torch()
        if self._course.passes is None:
            passes = Passes()
            passes.restart(*self._course.upcoming)
            self._course.passes = passes

    @property
    def _course(self) -> Course:
        return self.dataset._course

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch, from its beginning; also in workers that are already there."""
        self._course.resume(arguments.whole("epoch", epoch, most=arguments.MOST_EPOCH), 0)

    def __len__(self) -> int:
        return len(self.dataset)

    def __iter__(self) -> Iterator[Any]:
        caller = sys._getframe(1)
        if caller.f_globals.get("__name__", "").startswith("torch.utils.data") and caller.f_locals.get("auto_collation"):
            raise InvalidError("a DataLoader with a batch_size would stack whole batches into batches of batches",
                               hint="DataLoader(as_iterable(ds), batch_size=None); ds.batch(size) says how large a batch is")
        worker = get_worker_info()
        if worker is None:
            return iter(self.dataset)
        # Counted here and not in a generator, which begins only when a batch is asked for: an iteration that is broken
        # off must count for every worker or for none.
        epoch, start = self._course.passes.begin(worker.id, worker.num_workers)
        rank, world = _rank_and_world()
        return self.dataset.every(epoch, start + worker.id, worker.num_workers, rank=rank, world=world)

    def state_dict(self) -> Dict[str, Any]:
        """As Dataset.state_dict(): behind the last batch that the DataLoader gave."""
        if get_worker_info() is not None:
            raise unknown_behind_workers()
        return self.dataset.state_dict()

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The next iteration goes on behind that batch, with any number of workers."""
        self.dataset.load_state_dict(state)


class IndexedSamples(TorchDataset):
    """Samples of a Dataset by number, for map-style use with a sampler."""

    def __init__(self, dataset: Dataset):
        self.dataset = dataset

    def __len__(self) -> int:
        return self.dataset.samples

    def __getitem__(self, number: int) -> Any:
        return self.dataset[number]


def as_iterable(dataset: Dataset) -> IterableBatches:
    return IterableBatches(dataset)


def as_map(dataset: Dataset) -> IndexedSamples:
    return IndexedSamples(dataset)
