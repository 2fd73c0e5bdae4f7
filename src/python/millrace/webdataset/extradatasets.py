"""MockDataset, and epochs and lengths for datasets that have none of their own."""
from __future__ import annotations

from typing import Any, Iterable, Iterator

from .. import arguments
from .pytorch import IterableDataset


class MockDataset(IterableDataset):
    """The same sample, `length` times: how fast is what comes behind?"""

    def __init__(self, sample: Any, length: int) -> None:
        self.sample, self.length = sample, arguments.whole("length", length)

    def __iter__(self) -> Iterator:
        for _ in range(self.length):
            yield self.sample


class with_epoch(IterableDataset):
    """Epochs of `length` samples out of a dataset that is repeated as needed; each goes on where the last ended."""

    def __init__(self, dataset: Iterable, length: int) -> None:
        super().__init__()
        self.dataset, self.length, self.source = dataset, length, None

    def __getstate__(self) -> dict:
        return {**self.__dict__, "source": None}

    def __iter__(self) -> Iterator:
        for _ in range(self.length):
            if self.source is None:
                self.source = iter(self.dataset)
            try:
                sample = next(self.source)
            except StopIteration:
                self.source = iter(self.dataset)
                try:
                    sample = next(self.source)
                except StopIteration:
                    return
            yield sample


class with_length(IterableDataset):
    """A dataset with a len()."""

    def __init__(self, dataset: Iterable, length: int) -> None:
        super().__init__()
        self.dataset, self.length = dataset, length

    def __iter__(self) -> Iterator:
        return iter(self.dataset)

    def __len__(self) -> int:
        return self.length
