"""Course: where a data set stands, shared by the views that give the same batches in another form.

Each iteration begins a new epoch at its start: the one behind the epoch that was begun last, whether that was finished
or broken off. Only a state that was loaded lets the next iteration begin in the middle of an epoch.
"""
from __future__ import annotations

import weakref
from typing import Any, Dict, List, Optional, Tuple

from . import _core
from .errors import UnsupportedError


def unknown_behind_workers() -> UnsupportedError:
    return UnsupportedError("worker processes run ahead: which batch was handed out last is not known here",
                            hint="use num_workers=0, where the threads of the engine do the work")


class Course:
    """`position` is that of the first batch that was not handed out. Worker processes of a DataLoader count the epochs
    they begin in `passes` (torch_bridge.Passes), which lies in shared memory; without it they are counted here."""

    def __init__(self) -> None:
        self.position = _core.Position()
        self.passes: Optional[Any] = None
        self.last_text = ""
        self.last_faults: List[Dict[str, Any]] = []
        self.running: Optional["weakref.ref[Any]"] = None
        self._next = (0, 0)
        self._by_workers = 0  # passes of workers that had begun when this process last moved

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "running": None}

    def __copy__(self) -> "Course":
        """Begins where this one stands, and goes its own way from here."""
        other = Course()
        other.position = _core.Position(self.position.epoch, self.position.batch)
        other.position.world = self.position.world
        other.last_text, other.last_faults = self.last_text, self.last_faults
        other._next = self.upcoming
        return other

    @property
    def upcoming(self) -> Tuple[int, int]:
        """Epoch and batch at which the next iteration begins."""
        return self._next if self.passes is None else self.passes.upcoming

    def _go_to(self, epoch: int, batch: int) -> None:
        self._next = (epoch, batch)
        if self.passes is not None:
            self.passes.restart(epoch, batch)
            self._by_workers = self.passes.by_workers

    def begin(self) -> Tuple[int, int]:
        """Epoch and first batch of the iteration that begins in this process."""
        epoch, batch = self._next
        if self.passes is not None:
            epoch, batch = self.passes.begin(0, 0)
            self._by_workers = self.passes.by_workers
        self._next = (epoch + 1, 0)
        world = self.position.world if batch > 0 else 0
        self.position.epoch, self.position.batch, self.position.world = epoch, batch, world
        return epoch, batch

    def note_begun(self, last_epoch: int) -> None:
        """Somebody begins epochs of his choice; the next iteration is the one behind the last of them."""
        self._go_to(last_epoch + 1, 0)

    def resume(self, epoch: int, batch: int, world: int = 0) -> None:
        """The next iteration begins here."""
        self.position.epoch, self.position.batch, self.position.world = epoch, batch, world
        self._go_to(epoch, batch)

    def check_known(self) -> None:
        if self.passes is not None and self.passes.by_workers != self._by_workers:
            raise unknown_behind_workers()

    def note_end(self, text: str, faults: List[Dict[str, Any]]) -> None:
        self.last_text, self.last_faults = text, faults
