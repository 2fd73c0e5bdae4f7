"""The published interface: programs written for it run with another import.

    import millrace.pls as PLS
    from millrace.pls import DistributedSampler

    train_dataset = PLS.ImageFolder(train_dir, class_file, transformations)
    train_sampler = DistributedSampler(train_dataset, size, rank=rank)
    scheduler     = PLS.Scheduler(train_dataset, batch_size=b, fraction=Q)
    # per epoch: scheduler.scheduling(epoch); training loop;
    # send_req, rcv_req = scheduler.communicate(); scheduler.synchronize(send_req, rcv_req); scheduler.clean_local_storage()

What differs from the published code: samples travel as the stored files, not as pixels; nothing is lost in a crash; the
exchange runs in a thread from scheduling() on, whenever communicate() is called; clean_local_storage() ends the epoch.
"""
from __future__ import annotations

import os
from typing import Any, Callable, List, Optional, Tuple

from .. import _core
from .shuffle import IMAGE_FIELDS, Dataset, LocalSampler, PartialShuffle, decode_image
from .group import together, world
from .store import Store


class ImageFolder(Dataset):
    """The images of this rank: a directory per class. Where every rank has images of its own, those are its part; where
    ranks see the same ones, each takes its part of them; `shared` says which it is where they cannot tell. The class file
    numbers the classes: by the second column, or else by name. The samples are kept in `store` (default: the directory's
    name with .pls), which is opened where it is there already."""

    def __init__(self, root: str, class_file: Optional[str] = None, transform: Optional[Callable[[Any], Any]] = None,
                 target_transform: Optional[Callable[[int], Any]] = None, loader: Callable[[Any], Any] = decode_image, *,
                 store: Optional[str] = None, partition: str = "random", seed: int = 0, shared: Optional[bool] = None, **options: Any):
        root = os.path.normpath(str(root))
        classes = together(options.get("group") or world(),
                           lambda: class_file and _core.pls_read_classes(str(class_file), sort=True))
        opened = Store.ingest(root, store or root + ".pls", partition=partition, seed=seed, classes=classes, extensions=IMAGE_FIELDS,
                              shared=shared, **options)
        super().__init__(opened, loader, transform, target_transform)
        self.root = root

    @property
    def classes(self) -> List[str]:
        return self.store.classes

    @property
    def class_to_idx(self) -> dict:
        return {name: number for number, name in enumerate(self.classes)}

    @property
    def targets(self) -> List[int]:
        return self.store.labels.tolist()

    @property
    def samples(self) -> List[Tuple[str, int]]:
        return [(sample.key, sample.label) for sample in self.store]

    def next_epoch(self) -> None:
        """The store follows by itself."""


class DistributedSampler(LocalSampler):
    """Over the samples of this rank, with torch's parameters: size and rank are the group's own and taken as said."""

    def __init__(self, dataset: Any, num_replicas: Optional[int] = None, rank: Optional[int] = None, shuffle: bool = True, seed: int = 0,
                 drop_last: bool = False):
        super().__init__(dataset, seed)
        self.shuffle = shuffle

    def __iter__(self) -> Any:
        return super().__iter__() if self.shuffle else iter(range(len(self)))


class Scheduler:
    """`fraction` of the samples in every epoch; other settings are PartialShuffle's."""

    def __init__(self, dataset: ImageFolder, batch_size: int = 1, fraction: Any = 0.1, seed: int = 0, non_blocking: bool = True,
                 local_batch_size: Optional[int] = None, **options: Any):
        self.dataset = dataset
        self.shuffle = PartialShuffle(dataset.store, fraction, seed=seed, **options)
        self._skipped = False

    def scheduling(self, epoch: int) -> None:
        """Begins the epoch's exchange; nothing where it was committed before a restart."""
        self._skipped = epoch < self.shuffle.next_epoch
        if not self._skipped:
            self.shuffle.begin()

    def communicate(self, step: Optional[int] = None) -> Tuple[List[Any], List[Any]]:
        """Once or in every step: the exchange runs already. The lists are for synchronize()."""
        return [], []

    def synchronize(self, send_requests: List[Any], receive_requests: List[Any]) -> None:
        """Nothing is waited for before the end of the epoch."""

    def clean_local_storage(self) -> None:
        """Waits for the exchange; from here on the next epoch's samples are the dataset's."""
        if not self._skipped:
            self.shuffle.commit()

    def get_clean_list(self) -> List[int]:
        return []
