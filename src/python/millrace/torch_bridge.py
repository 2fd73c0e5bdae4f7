"""Batches for PyTorch: tensors over the loader's memory, and data sets that a DataLoader takes.

    loader = torch.utils.data.DataLoader(as_iterable(ds), batch_size=None, num_workers=2)

Without worker processes nothing is gained or lost: the threads are in the engine. With them each worker makes every
n-th batch of its rank, so that together they give the same batches, once each.
"""
from __future__ import annotations

from typing import Any, Iterator

import numpy
import torch
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset, get_worker_info

from .dataset import Dataset, _rank_and_world


def to_torch(column: Any) -> Any:
    if isinstance(column, numpy.ndarray):
        if not column.flags.writeable or column.dtype in (numpy.uint16, numpy.uint32, numpy.uint64):
            column = column.astype(numpy.int64) if column.dtype.kind == "u" and column.dtype != numpy.uint8 else column.copy()
        tensor = torch.from_numpy(column)
        return tensor.pin_memory() if torch.cuda.is_available() else tensor
    if isinstance(column, list) and column and isinstance(column[0], numpy.ndarray):
        return [to_torch(one) for one in column]
    return column


class IterableBatches(IterableDataset):
    """Batches of a Dataset, one epoch after the other; give it to a DataLoader with batch_size=None."""

    def __init__(self, dataset: Dataset):
        super().__init__()
        self.dataset = dataset.torch()
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.dataset)

    def __iter__(self) -> Iterator[Any]:
        rank, world = _rank_and_world()
        worker = get_worker_info()
        if worker is None:
            with self.dataset.epoch(self.epoch, rank=rank, world=world) as batches:
                yield from batches
            self.epoch += 1
            return
        yield from self.dataset.every(self.epoch, worker.id, worker.num_workers, rank=rank, world=world)
        self.epoch += 1


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
