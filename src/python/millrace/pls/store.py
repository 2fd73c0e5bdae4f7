"""Store: the samples that this rank holds on local storage; see millrace.pls."""
from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from .. import _core, arguments
from ..dataset import Dataset as EngineDataset
from ..errors import InvalidError
from .group import Pool, share, together, world
from .ingest import take_in


class Sample(NamedTuple):
    id: int                         # in the whole data set
    label: int                      # -1: none
    key: str
    fields: Dict[str, memoryview]   # views of the mapped file: nothing is copied


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
        self._snapshot = together(pool.group if pool is not None else None, lambda: _core.PlsStore(self.directory))
        # Samples that every rank has for itself: exchanges do not change how many.
        self.held = [len(self._snapshot)] if pool is None else share(pool.group, len(self._snapshot) // pool.local_size)
        self.least = min(self.held)

    @classmethod
    def open(cls, path: Union[str, os.PathLike], *, group: Optional[Any] = None, node_pool: bool = False, ranks_per_node: int = 0,
             timeout: float = 600.0, redeal: bool = False) -> "Store":
        """This rank's store below `path`. Where another number of ranks made it, that is an error; with `redeal` the samples
        are dealt anew, moving as few as possible; all stores must then be visible to rank 0. Every rank calls it."""
        pool = Pool(group if group is not None else world(), arguments.whole("ranks_per_node", ranks_per_node), node_pool)

        def deal_anew() -> None:
            if pool.group.rank != 0:
                return
            made_for = _core.PlsStore(_core.pls_rank_directory(str(path), 0)).world
            if made_for == pool.stores:
                return
            if not redeal:
                raise InvalidError(f"{path}: the samples were dealt to {made_for} rank{'s' if made_for > 1 else ''}, and this is "
                                   f"rank 0 of {pool.stores}", hint=f"was mpirun -n {made_for} forgotten? redeal=True, or millrace "
                                   f"pls redeal {path} --ranks {pool.stores}, deals the samples anew")
            _core.pls_redeal(str(path), pool.stores, exchange_options(timeout=timeout))

        together(pool.group, deal_anew)
        return cls(_core.pls_rank_directory(str(path), pool.number), pool)

    @classmethod
    def ingest(cls, source: Union[str, Sequence[str]], path: Union[str, os.PathLike], *, partition: str = "random", seed: int = 0,
               classes: Optional[Sequence[str]] = None, label: str = "cls", extensions: Sequence[str] = (), shared: Optional[bool] = True,
               group: Optional[Any] = None, node_pool: bool = False, ranks_per_node: int = 0, redeal: bool = False) -> "Store":
        """Takes in samples: from shards (any names and addresses that a Dataset takes), or from a directory with a
        directory per class, where every file, or every one with one of the `extensions`, is a sample. Every rank calls
        it. `shared`: all ranks see the same samples, and each gets its part of them; False: each has samples of its own;
        None: ranks compare, and those that see the same share it. A store that is there is opened instead, as by open()."""
        seed = arguments.whole("seed", seed)
        pool = Pool(group if group is not None else world(), arguments.whole("ranks_per_node", ranks_per_node), node_pool)
        directory = _core.pls_rank_directory(str(path), pool.number)
        if share(pool.group, os.path.exists(os.path.join(directory, "CURRENT")))[0]:
            return cls.open(path, group=pool.group, node_pool=node_pool, ranks_per_node=ranks_per_node, redeal=redeal)
        names = [str(source)] if isinstance(source, (str, os.PathLike)) else [str(one) for one in source]
        take_in(pool, names, str(path), list(classes or []), list(extensions), shared,
                {"partition": partition, "world": pool.stores, "seed": seed, "ranks": [pool.number], "label": label})
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
            if slot < 0:
                raise IndexError("there is no such slot")
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
    arguments.no_truth("fraction", fraction)
    if isinstance(fraction, str):
        schedule = fraction
    elif isinstance(fraction, dict):
        schedule = ",".join(f"{arguments.real('fraction', q)}@{epoch}" if epoch else str(arguments.real("fraction", q))
                            for epoch, q in sorted(fraction.items()))
    else:
        schedule = str(arguments.real("fraction", fraction))
    return {"fraction": schedule, "policy": policy, "select": "callback" if callable(select) else select,
            "seed": arguments.whole("seed", seed), "partners": arguments.whole("partners", partners, most=(1 << 32) - 1),
            "timeout": arguments.real("timeout", timeout), "slack": arguments.byte_count("slack", slack),
            "choose": select if callable(select) else None}
