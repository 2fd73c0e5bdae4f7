"""Epoch: the batches of one rank as they come from the engine, finished by Python (decoders, map)."""
from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from . import finishing
from .errors import CorruptError, InUseError
from .watching import ProgressLine

if TYPE_CHECKING:
    from .dataset import Dataset


def _nothing() -> None:
    """What an iterator that has ended takes."""


class Epoch:
    """The batches of one rank, from any batch on. Ends its threads when it is exhausted, closed or forgotten."""

    def __init__(self, dataset: "Dataset", loader: Any, line: Optional[ProgressLine] = None):
        self._dataset = dataset
        self._line = line
        self._loader = loader
        self._take = loader.take
        # Then the columns are handed over as they come; after a training step every further line costs microseconds.
        self._as_it_comes = line is None and dataset._is_plain
        self._finishing = threading.Lock()  # held while Python finishes a batch
        self._own_faults: List[Dict[str, Any]] = []  # of what Python makes of the columns
        self._last_report: Optional[Dict[str, Any]] = None
        self._last_faults: List[Dict[str, Any]] = []

    def __iter__(self) -> "Epoch":
        return self

    def __next__(self) -> Any:
        if not self._as_it_comes:
            return self._next_finished()
        try:
            columns = self._take()
        except InUseError:
            raise  # the thread that was here first goes on
        except BaseException:
            self.close()
            raise
        if columns is None:
            self.close()
            raise StopIteration
        return columns

    def _next_finished(self) -> Any:
        if not self._finishing.acquire(blocking=False):
            raise InUseError()
        try:
            return self._take_and_finish()
        finally:
            self._finishing.release()

    def _take_and_finish(self) -> Any:
        position = self._dataset._course.position
        before = position.epoch, position.batch, position.world
        try:
            columns = self._take()
            if columns is not None:
                begun = time.perf_counter_ns()
                finished = self._finish(columns)
                if self._dataset._runs_python:
                    self._loader.note_python(time.perf_counter_ns() - begun)
                if self._line is not None:
                    self._line.step(self.report)
                return finished
        except BaseException:
            # A batch that was not handed out is the next one for whoever goes on from the state.
            position.epoch, position.batch, position.world = before
            self.close()
            raise
        self.close()
        raise StopIteration

    def _finish(self, columns: Tuple[Any, ...]) -> Any:
        dataset = self._dataset
        values, unusable = finishing.decode_each(columns, dataset._finishers)
        if unusable:
            values = self._settle(values, unusable)
        if self._own_faults:
            self._check_faults()
        doing = "columns"
        try:
            result: Any = dataset._complete(values)
            doing = "map"
            result = dataset._mapped(result)
        except Exception as error:
            raise finishing.error_at(f"{self._place()}: {doing}", error, "error") from error
        return result[0] if isinstance(result, tuple) and len(result) == 1 else result

    def _taken(self) -> Tuple[int, int]:
        """Epoch and number of the batch that was taken last."""
        position = self._dataset._course.position
        if position.batch > 0:
            return position.epoch, position.batch - 1
        return position.epoch - 1, len(self._dataset) - 1

    def _place(self) -> str:
        epoch, number = self._taken()
        return f"batch {number} of epoch {epoch}"

    def _settle(self, values: List[Any], unusable: Dict[int, finishing.Unusable]) -> List[Any]:
        """Fails, skips or substitutes, as the engine does."""
        on_error = self._dataset._options["on_error"]
        epoch, number = self._taken()
        for place in sorted(unusable):
            error = self._dataset._sample_error(self._loader.place(place), unusable[place])
            self._own_faults.append(dict(shard=error.shard, what=str(error), stage="python", epoch=epoch, batch=number))
            if on_error == "fail" or isinstance(error, finishing.SOURCE_IS_GONE):
                raise error from unusable[place].cause
        decoded = values[unusable[min(unusable)].column]  # a list of all samples
        places = finishing.stand_ins(len(decoded), unusable, on_error)
        if not places and on_error == "substitute":
            raise CorruptError(f"{self._place()} has no good sample to stand for the others; the last: "
                               f"{self._own_faults[-1]['what']}")
        return [finishing.rearranged(column, places) for column in values]

    def _check_faults(self) -> None:
        """The engine knows only its own."""
        most = self._dataset._options["most_errors"]
        count = len(self._loader.faults()) + len(self._own_faults)
        if count > most:
            raise CorruptError(f"{count} samples could not be used, more than {most} are not accepted; the last: "
                               f"{self._own_faults[-1]['what']}")

    def close(self) -> None:
        loader, self._loader, self._take = self._loader, None, _nothing
        if self._line is not None:
            self._line.close()
        if loader is None:
            return
        self._last_report = self._report_of(loader)
        self._last_faults = self._faults_of(loader)
        text = loader.report()
        if self._own_faults:
            text += f"{len(self._own_faults)} samples could not be decoded in Python\n"
        self._dataset._course.note_end(text, self._last_faults)
        loader.stop()

    def _report_of(self, loader: Any) -> Dict[str, Any]:
        report = json.loads(loader.report_json())
        report["faults"] += len(self._own_faults)
        return report

    def _faults_of(self, loader: Any) -> List[Dict[str, Any]]:
        names = ("shard", "what", "stage", "epoch", "batch")
        found = [dict(zip(names, fault)) for fault in loader.faults()] + self._own_faults
        return sorted(found, key=lambda fault: (fault["epoch"], fault["batch"]))

    def report(self) -> Dict[str, Any]:
        """Stages, their rates and waits, and which of them limits; see also Dataset.report()."""
        if self._loader is not None:
            return self._report_of(self._loader)
        return self._last_report or {}

    def faults(self) -> List[Dict[str, Any]]:
        """Samples that could not be used so far; see Dataset.faults()."""
        return self._faults_of(self._loader) if self._loader is not None else self._last_faults

    def __enter__(self) -> "Epoch":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
