"""Ingests samples on many ranks: finds which ranks see the same files, and agrees on the classes. See Store.ingest."""
from __future__ import annotations

import hashlib
import os
import socket
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .. import _core
from ..errors import InvalidError
from .group import Pool, share, together


class Seen(NamedTuple):
    """What a rank has of a source: enough to find out who has the same."""
    fingerprint: int
    host: str
    place: str  # which directory it is there; "" for shards
    samples: int


def look_at(names: List[str], opened: Any) -> Seen:
    place = ""
    if os.path.isdir(names[0]):
        facts = os.stat(names[0])
        place = f"{facts.st_dev} {facts.st_ino}"
    return Seen(opened.fingerprint, socket.gethostname(), place, opened.samples)


def sharers(seen: Sequence[Seen]) -> List[List[int]]:
    """Ranks in groups that have the same samples."""
    groups: Dict[int, List[int]] = {}
    places: Dict[Tuple[int, str], int] = {}
    for rank, one in enumerate(seen):
        groups.setdefault(one.fingerprint, []).append(rank)
        other = places.setdefault((one.fingerprint, one.host), rank)
        if seen[other].place != one.place:
            raise InvalidError(f"ranks {other} and {rank} have the same files in different directories: say with shared=False that each "
                               "rank has samples of its own, or with shared=True that all have the same")
    return list(groups.values())


def part_of_whole(rank: int, seen: Sequence[Seen], shared: Optional[bool]) -> Dict[str, Any]:
    """Which ranks get the samples that this one sees, and which numbers these have in the whole data set."""
    if shared:
        return {"sharers": [], "first_id": 0, "all": 0}
    part: Dict[str, Any] = {}
    first = 0
    for group in sharers(seen) if shared is None else [[one] for one in range(len(seen))]:
        if rank in group:
            part = {"sharers": group, "first_id": first}
        first += seen[group[0]].samples
    return {**part, "all": first}


def all_classes(group: Any, own: List[str]) -> List[str]:
    """Those that any rank has, in one order."""
    if len(set(share(group, hashlib.sha256("\n".join(own).encode()).hexdigest()))) == 1:  # lists of all ranks can be large
        return own
    return sorted({name for names in share(group, own) for name in names})


def take_in(pool: Pool, names: List[str], path: str, classes: List[str], extensions: List[str], shared: Optional[bool],
            options: Dict[str, Any]) -> None:
    """Makes the stores of all ranks. In a node pool only those that exchange take in; the others wait."""
    takers = pool.exchangers
    opened = together(pool.group, lambda: takers and _core.PlsSource(names, classes, extensions))
    mine = together(pool.group, lambda: takers and look_at(names, opened))
    seen = [Seen(*one) for one in share(takers, mine)] if takers else []
    part = together(pool.group, lambda: takers and part_of_whole(pool.number, seen, shared))
    known = all_classes(takers, opened.classes) if takers and not classes else []
    # A rank that lacks some numbers the others as all do.
    opened = together(pool.group, lambda: _core.PlsSource(names, known, extensions) if known and known != opened.classes else opened)
    made = together(pool.group, lambda: takers and _core.pls_ingest(opened, path, {**options, **part, "classes": classes})) or []
    most = max(share(pool.group, max((one.classes for one in made), default=0)))
    together(pool.group, lambda: made and _core.pls_finish_ingest(path, made, most))
