"""Several datasets as one: by turns, or at random."""
from __future__ import annotations

import bisect
import itertools
import random
from typing import Any, Iterable, Iterator, List, Optional, Sequence

from .pytorch import IterableDataset


def round_robin_shortest(*sources: Iterator) -> Iterator:
    """By turns, until one whose turn it is has no more."""
    for source in itertools.cycle(sources):
        try:
            sample = next(source)
        except StopIteration:
            return
        yield sample


def round_robin_longest(*sources: Iterator) -> Iterator:
    """By turns, until all are empty."""
    waiting: List[Iterator] = list(sources)
    turn = 0
    while waiting:
        turn %= len(waiting)
        try:
            sample = next(waiting[turn])
        except StopIteration:
            del waiting[turn]
            continue
        turn += 1
        yield sample


class RoundRobin(IterableDataset):
    def __init__(self, datasets: Sequence[Iterable], longest: bool = False) -> None:
        self.datasets, self.longest = datasets, longest

    def __iter__(self) -> Iterator:
        by_turns = round_robin_longest if self.longest else round_robin_shortest
        return by_turns(*(iter(dataset) for dataset in self.datasets))


def random_samples(sources: Sequence[Iterator], probs: Optional[Sequence[float]] = None, longest: bool = False,
                   rng: Any = random) -> Iterator:
    """Each next sample from a source drawn by weight; the end of one is the end, or with `longest` that of all."""
    waiting = list(sources)
    weights = [1.0] * len(waiting) if probs is None else list(probs)
    while waiting:
        bounds = list(itertools.accumulate(weights))
        at = min(bisect.bisect_left(bounds, rng.random() * bounds[-1]), len(waiting) - 1)
        try:
            sample = next(waiting[at])
        except StopIteration:
            if not longest:
                return
            del waiting[at], weights[at]
            continue
        yield sample


class RandomMix(IterableDataset):
    """With a seed every pass is the next epoch, with an order of its own."""

    def __init__(self, datasets: Sequence[Iterable], probs: Optional[Sequence[float]] = None, longest: bool = False,
                 seed: Any = None) -> None:
        self.datasets, self.probs, self.longest, self.seed, self.epoch = datasets, probs, longest, seed, -1

    def __iter__(self) -> Iterator:
        self.epoch += 1
        rng = random if self.seed is None else random.Random(f"{self.seed} {self.epoch}")
        return random_samples([iter(dataset) for dataset in self.datasets], self.probs, self.longest, rng)
