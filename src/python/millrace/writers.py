"""ShardFile and ShardWriter: samples to shards that appear under their names when they are whole."""
from __future__ import annotations

import contextlib
import os
import sys
import warnings
import weakref
from typing import Any, Dict, Iterator, List, Optional, Union

from . import _core, arguments



def _last_failure() -> int:
    """Tells the exceptions apart that nobody caught; 0 before the first."""
    failure = getattr(sys, "last_value", None)
    return 0 if failure is None else id(failure)


class Unfinished:
    """What is being written, and that it ends once. Where its owner dies, or the interpreter exits, before it was ended, it
    is finished. It is not where the last sample was refused, or where an exception that nobody caught ends the program:
    samples may be missing then, and a warning says so. A forked process leaves it to the one that began it.

    `target` has finish() and abandon(); `numbered` says that it cuts shards by itself, of which the whole ones stay."""

    def __init__(self, owner: Any, name: str, target: Any, numbered: bool = False) -> None:
        self.name, self.target, self.samples, self.numbered = name, target, 0, numbered
        self.finished = False
        self._process = os.getpid()
        self._known_failure = _last_failure()
        self._refused = ""
        self._at_death = weakref.finalize(owner, self.end_forgotten)

    @property
    def open(self) -> bool:
        return self.target is not None

    @contextlib.contextmanager
    def adding(self) -> Iterator[Any]:
        """Around what adds one sample."""
        try:
            yield self.target
        except BaseException as error:
            self._refused = f"its last sample was refused: {type(error).__name__}: {error}"
            raise
        self.samples += 1
        self._known_failure, self._refused = _last_failure(), ""

    def finish(self) -> Any:
        summary = self._take().finish()
        self.finished = True
        return summary

    def abandon(self) -> None:
        if self.target is not None:
            self._take().abandon()

    def _take(self) -> Any:
        self._at_death.detach()
        target, self.target = self.target, None
        return target

    def end_forgotten(self) -> None:
        if self.target is None or self._process != os.getpid():
            return
        if self.samples == 0:
            self.abandon()
        elif _last_failure() != self._known_failure:
            self.abandon()
            self._warn(f"the program ended by {type(sys.last_value).__name__}")
        elif self._refused:
            self.abandon()
            self._warn(self._refused)
        else:
            try:
                self.finish()
            except Exception as error:
                self._warn(f"{type(error).__name__}: {error}")

    def _warn(self, why: str) -> None:
        lost = f"{self.samples} sample{'s' if self.samples > 1 else ''}"
        lost = f"of its {lost} those of the last shard are" if self.numbered else f"its {lost} are"
        warnings.warn(f"{self.name} was not finished, and {lost} lost: {why}; write in a `with` block, or close the writer",
                      RuntimeWarning, stacklevel=3)


class _Writer:
    """What both writers share."""

    _unfinished: Unfinished

    def _begin(self, name: str, target: Any, numbered: bool = False) -> None:
        self._target = target
        self._unfinished = Unfinished(self, name, target, numbered)

    def add(self, key: str, fields: Dict[str, Any]) -> None:
        """One sample: fields are bytes by name."""
        with self._unfinished.adding():
            self._target.add(key, fields)

    def finish(self) -> Any:
        """Flushes, gives the shard its name, and says what was written."""
        return self._unfinished.finish() if self._unfinished.open else self._target.finish()

    def abandon(self) -> None:
        """Ends without a trace of what is not finished."""
        self._unfinished.abandon()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.finish()
        else:
            self.abandon()


class ShardFile(_Writer):
    """One shard, visible only when it is whole. One that is forgotten is finished when it dies or the interpreter exits."""

    def __init__(self, path: Union[str, "os.PathLike[str]"], *, compression: Optional[str] = None, index: bool = True,
                 key_rule: str = "first-dot") -> None:
        path = arguments.path("path", path)
        self._begin(path, _core.ShardFile(path, compression=compression, index=index, key_rule=key_rule))

    @property
    def samples(self) -> int:
        return self._target.samples

    @property
    def tar_bytes(self) -> int:
        return self._target.tar_bytes

    def finish(self) -> Dict[str, Any]:
        return super().finish()


class ShardWriter(_Writer):
    """Samples to numbered shards; a full one is flushed while the next fills. One that is forgotten is finished when it dies
    or the interpreter exits."""

    def __init__(self, pattern: Union[str, "os.PathLike[str]"], *, max_bytes: Union[None, int, str] = None,
                 max_samples: Optional[int] = None, compression: Optional[str] = None, index: bool = True,
                 key_rule: str = "first-dot") -> None:
        pattern = arguments.path("pattern", pattern)
        limits = {}
        if max_bytes is not None:
            limits["max_bytes"] = arguments.byte_count("max_bytes", max_bytes)
        if max_samples is not None:
            limits["max_samples"] = arguments.whole("max_samples", max_samples)
        self._begin(pattern, _core.ShardWriter(pattern, **limits, compression=compression, index=index, key_rule=key_rule),
                    numbered=True)

    def finish(self) -> List[Dict[str, Any]]:
        return super().finish()
