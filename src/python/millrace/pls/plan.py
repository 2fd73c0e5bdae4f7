"""Plans without data: what an exchange will do, for any number of ranks, before it is run."""
from __future__ import annotations

from typing import Any, Dict, List, Sequence

from .. import _core, arguments
from .store import exchange_options

local_order = _core.pls_local_order


class Simulation:
    """All ranks of an exchange in one process, without a byte of data. Sample i has label labels[i].

        simulation = Simulation(labels, ranks=64, fraction="0.1")
        figures = simulation.step()     # one epoch's exchange: moved, label_distance, home_share, owner_hash, …
        simulation.ids()[3]             # the samples that rank 3 holds now, by slot
    """

    def __init__(self, labels: Sequence[int], ranks: int, *, fraction: Any = 0.1, policy: str = "shift", select: str = "oldest",
                 seed: int = 0, partners: int = 32, partition: str = "contiguous"):
        options = exchange_options(fraction=fraction, policy=policy, select=select, seed=seed, partners=partners)
        self._simulation = _core.PlsSimulation([int(label) for label in labels], arguments.whole("ranks", ranks, least=1), {
            **{name: options[name] for name in ("policy", "select", "seed", "partners", "fraction")}, "partition": partition})

    def step(self) -> Dict[str, Any]:
        return self._simulation.step()

    def figures(self) -> Dict[str, Any]:
        return self._simulation.figures()

    def ids(self) -> List[Any]:
        return self._simulation.ids()
