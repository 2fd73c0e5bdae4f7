"""Store: the samples that this rank holds on local storage; see millrace.pls."""
from __future__ import annotations

import os
import pickle
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from .. import _core
from ..dataset import Dataset as EngineDataset
from ..errors import InvalidError

_world: Optional[Any] = None


def world() -> Any:
    """The ranks that mpirun started together, or this process alone. MPI is started at the first call."""
    global _world
    if _world is None:
        _world = _core.PlsGroup()
    return _world


def share(group: Any, value: Any) -> List[Any]:
    """What every rank of the group gave, by rank. Small things only."""
    return [pickle.loads(one) for one in group.gather(pickle.dumps(value))]


def agree(group: Any, failure: Optional[BaseException]) -> None:
    """Raises on all ranks where one failed: nobody goes on alone."""
    for rank, said in enumerate(share(group, None if failure is None else f"{type(failure).__name__}: {failure}")):
        if said is not None:
            raise failure if rank == group.rank and failure is not None else RuntimeError(f"rank {rank}: {said}")


def read_classes(path: Optional[Union[str, os.PathLike]]) -> List[str]:
    """Names of classes, one a line; of a table the first column."""
    if path is None:
        return []
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\r\n").split("\t")[0] for line in file if line.strip()]


class Sample(NamedTuple):
    id: int                         # in the whole data set
    label: int                      # -1: none
    key: str
    fields: Dict[str, memoryview]   # views of the mapped file: nothing is copied


class Pool:
    """Which ranks share a store. Without a node pool every rank has its own."""

    def __init__(self, group: Any, per_node: int = 0, node_pool: bool = False):
        self.group = group
        self.node: Optional[Any] = None
        self.exchangers: Optional[Any] = group  # those that exchange; None on ranks that only read
        self.number, self.stores, self.local_rank, self.local_size = group.rank, group.size, 0, 1
        if not node_pool:
            return
        self.node = group.split(group.rank // per_node if per_node else group.node())
        leads = self.node.rank == 0
        leaders = group.split(0 if leads else 1)
        self.exchangers = leaders if leads else None
        self.local_rank, self.local_size = self.node.rank, self.node.size
        self.number, self.stores = share(self.node, (leaders.rank, leaders.size))[0]


class Store:
    """The samples of this rank, by slot. Follows the store on the drive: after an exchange, in this process or in
    another (a DataLoader's worker), it shows the new epoch.

        store = Store.ingest("train-{000000..000127}.tar", "/local/pls", partition="random")
        store = Store.open("/local/pls")
        store[3].fields["jpg"]
    """

    def __init__(self, directory: str, pool: Optional[Pool] = None):
        self.directory = str(directory)
        self.pool = pool
        self._snapshot = _core.PlsStore(self.directory)
        # Samples that every rank has for itself: exchanges do not change it.
        self.least = len(self._snapshot) if pool is None else min(share(pool.group, len(self._snapshot) // pool.local_size))

    @classmethod
    def open(cls, path: Union[str, os.PathLike], *, group: Optional[Any] = None, node_pool: bool = False, ranks_per_node: int = 0,
             timeout: float = 600.0) -> "Store":
        """This rank's store below `path`. Where another number of ranks made it, the samples are dealt anew, moving as
        few as possible; all stores must then be visible to rank 0. Every rank calls it."""
        pool = Pool(group if group is not None else world(), ranks_per_node, node_pool)
        failure: Optional[BaseException] = None
        if pool.group.rank == 0:
            try:
                if _core.PlsStore(_core.pls_rank_directory(str(path), 0)).world != pool.stores:
                    _core.pls_redeal(str(path), pool.stores, exchange_options(timeout=timeout))
            except Exception as problem:  # told to all ranks
                failure = problem
        agree(pool.group, failure)
        return cls(_core.pls_rank_directory(str(path), pool.number), pool)

    @classmethod
    def ingest(cls, source: Union[str, Sequence[str]], path: Union[str, os.PathLike], *, partition: str = "random", seed: int = 0,
               classes: Optional[Sequence[str]] = None, label: str = "cls", own_share: bool = False, group: Optional[Any] = None,
               node_pool: bool = False, ranks_per_node: int = 0) -> "Store":
        """Takes in samples: from shards (any names and addresses that a Dataset takes), or from a directory with a
        directory per class. Every rank calls it and gets its part of the whole; with `own_share` the source is this
        rank's own part already. A store that is there is opened instead."""
        pool = Pool(group if group is not None else world(), ranks_per_node, node_pool)
        directory = _core.pls_rank_directory(str(path), pool.number)
        takes_in = pool.exchangers is not None
        failure: Optional[BaseException] = None
        made: Any = []
        if share(pool.group, os.path.exists(os.path.join(directory, "CURRENT")))[0]:
            return cls.open(path, group=pool.group, node_pool=node_pool, ranks_per_node=ranks_per_node)
        try:
            names = [str(source)] if isinstance(source, (str, os.PathLike)) else [str(one) for one in source]
            opened = _core.PlsSource(names, list(classes or [])) if takes_in else None
        except Exception as problem:
            failure = problem
        agree(pool.group, failure)
        counts = share(pool.exchangers, opened.samples) if takes_in and opened is not None else []
        try:
            if opened is not None:
                made = _core.pls_ingest(opened, str(path), {
                    "partition": partition, "world": pool.stores, "seed": seed, "ranks": [pool.number], "classes": list(classes or []),
                    "label": label, "first_id": sum(counts[:pool.number]) if own_share else 0, "all": sum(counts) if own_share else 0})
        except Exception as problem:
            failure = problem
        agree(pool.group, failure)
        most = max(share(pool.group, max((one.classes for one in made), default=0)))
        try:
            if made:
                _core.pls_finish_ingest(str(path), made, most)
        except Exception as problem:
            failure = problem
        agree(pool.group, failure)
        return cls(directory, pool)

    @property
    def snapshot(self) -> Any:
        """What is on the drive now; looks whether it is another epoch than before."""
        if not self._snapshot.is_current:
            self._snapshot = _core.PlsStore(self.directory)
        return self._snapshot

    def __len__(self) -> int:
        return len(self.snapshot)

    def __getitem__(self, slot: int) -> Sample:
        return self.sample(slot)

    def sample(self, slot: int, check: bool = False) -> Sample:
        """With `check` the sample is compared with its checksum first."""
        snapshot = self.snapshot
        if slot < 0:
            slot += len(snapshot)
        return Sample(*snapshot.sample(slot, check))

    def __iter__(self) -> Iterator[Sample]:
        return (self[slot] for slot in range(len(self)))

    @property
    def epoch(self) -> int:
        """Exchanges that all ranks committed."""
        return self.snapshot.epoch

    @property
    def ids(self) -> Any:
        return self.snapshot.ids()

    @property
    def labels(self) -> Any:
        return self.snapshot.labels()

    @property
    def classes(self) -> List[str]:
        return self.snapshot.class_names.splitlines()

    @property
    def samples(self) -> int:
        """Of the whole data set, over all ranks."""
        return self.snapshot.samples

    def dataset(self, **options: Any) -> EngineDataset:
        """The samples of this epoch as a millrace.Dataset: decode, augment and batch as ever, in the engine's threads.
        After an exchange ask for it again."""
        snapshot = self.snapshot
        if len(snapshot) == 0:
            raise InvalidError("this rank holds no samples")
        return EngineDataset(snapshot.segment_paths, **options).select(snapshot.numbers)

    def __getstate__(self) -> Tuple[str]:
        return (self.directory,)

    def __setstate__(self, state: Tuple[str]) -> None:
        self.__init__(*state)  # type: ignore[misc]


def exchange_options(*, fraction: Any = 0.1, policy: str = "shift", select: Any = "oldest", seed: int = 0, partners: int = 32,
                     timeout: float = 600.0, slack: Union[int, str] = "64MiB") -> Dict[str, Any]:
    """The settings of an exchange as the engine takes them."""
    schedule = fraction if isinstance(fraction, str) else ",".join(
        f"{float(q)}@{epoch}" if epoch else str(float(q)) for epoch, q in sorted(fraction.items())) if isinstance(fraction, dict) else str(
        float(fraction))
    return {"fraction": schedule, "policy": policy, "select": "callback" if callable(select) else select, "seed": int(seed),
            "partners": int(partners), "timeout": float(timeout), "slack": slack if isinstance(slack, int) else _core.parse_bytes(slack),
            "choose": select if callable(select) else None}
