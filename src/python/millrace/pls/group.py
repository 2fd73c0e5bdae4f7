"""Groups of ranks: exchanges small values between them, and finds which of them share a store."""
from __future__ import annotations

import json
from typing import Any, Callable, List, Optional

from .. import _core

_world: Optional[Any] = None


def world() -> Any:
    """The ranks that mpirun started together, or this process alone. MPI is started at the first call."""
    global _world
    if _world is None:
        _world = _core.PlsGroup()
    return _world


def share(group: Any, value: Any) -> List[Any]:
    """What every rank of the group gave, by rank. Small things that JSON can say; tuples arrive as lists."""
    return [json.loads(one) for one in group.gather(json.dumps(value).encode())]


def agree(group: Optional[Any], failure: Optional[BaseException]) -> None:
    """Raises on all ranks where one failed: nobody goes on alone. No group: this process alone."""
    if group is None:
        if failure is not None:
            raise failure
        return
    for rank, said in enumerate(share(group, None if failure is None else f"{type(failure).__name__}: {failure}")):
        if said is not None:
            raise failure if rank == group.rank and failure is not None else RuntimeError(f"rank {rank}: {said}")


def together(group: Optional[Any], call: Callable[[], Any]) -> Any:
    """What the call gives, which asks no other rank for anything; where it fails on one rank, an exception on all."""
    found, failure = None, None
    try:
        found = call()
    except Exception as problem:
        failure = problem
    agree(group, failure)
    return found


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
