"""Which fault happens when: a pure function of a seed and the faults that are possible.

An event has a start and an end in seconds, a kind, and names of nodes. At no moment more than `most_down` nodes are down,
stopped or cut off, so that the redundancy allows for all of it.
"""
import dataclasses
import random

from clusters import LEASE_SECONDS

# kind -> how often.
WEIGHTS = {"kill": 8, "crash": 4, "stop": 5, "partition": 5, "slow": 2, "line": 4, "volume": 4, "registry": 2, "member": 3, "skew": 2, "drive": 1, "membership": 1}
KINDS = tuple(WEIGHTS)
BUSY = ("kill", "crash", "stop", "partition", "skew", "line", "volume")  # a node that one of these has is down, slow to answer, or cut off


@dataclasses.dataclass(frozen=True)
class Event:
    start: float
    end: float
    kind: str
    nodes: tuple = ()
    detail: object = None

    def __str__(self):
        detail = "" if self.detail is None else f" {self.detail}"
        return f"{self.start:7.2f} to {self.end:7.2f} s: {self.kind} {','.join(self.nodes)}{detail}"


def length_of(rng, kind):
    if kind == "stop":
        # Longer than a lease: the node wakes up and others have taken over.
        return rng.choice([rng.uniform(0.3, 3), rng.uniform(LEASE_SECONDS + 1, LEASE_SECONDS + 5)])
    if kind in ("kill", "crash", "skew"):
        return rng.choice([rng.uniform(0.1, 2), rng.uniform(LEASE_SECONDS + 1, LEASE_SECONDS + 8)])
    if kind in ("partition", "registry"):
        return rng.choice([rng.uniform(0.5, 4), rng.uniform(LEASE_SECONDS, LEASE_SECONDS + 6)])
    if kind in ("drive", "membership"):
        return 25.0
    return rng.uniform(2, 10)


def detail_of(rng, kind):
    if kind == "partition":
        return rng.choice(["both ways", "to it", "from it"]), rng.choice(["peers", "registry", "peers and registry"])
    if kind == "slow":
        return rng.choice(["500kbit", "4mbit", "30mbit"])
    if kind == "line":
        return rng.choice([("delay", 0.02), ("delay", 0.2), ("flip", 20), ("flip", 300), ("sever", 50), ("half-open", 0)])
    if kind == "volume":
        return rng.choice(["failing", "read-only", "unreadable", "stuck", "power lost", "power lost, torn"])
    if kind == "crash":
        return rng.randrange(1, 60)
    if kind == "skew":
        return rng.choice([-600, -45, 45, 600])
    if kind == "member":
        return rng.choice(["leader", "any"])
    return None


def overlap(one, start, end):
    return one.start < end and start < one.end


def make_schedule(seed, seconds, names, kinds=KINDS, most_down=2):
    """Events in the order of their start; the last one ends before `seconds` are over."""
    rng = random.Random(seed)
    kinds = [kind for kind in KINDS if kind in kinds]
    events, at = [], rng.uniform(0.5, 2)
    while kinds:
        kind = rng.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
        length, detail = length_of(rng, kind), detail_of(rng, kind)
        count = rng.randrange(1, most_down + 1) if kind in ("kill", "stop", "partition") else 1
        start = at
        at += rng.uniform(0.3, 6)
        if start + length > seconds:
            if at > seconds:
                return events
            continue
        busy = {name for one in events if overlap(one, start, start + length) for name in one.nodes}
        down = {name for one in events if overlap(one, start, start + length) and one.kind in BUSY for name in one.nodes}
        if kind in BUSY:
            count = min(count, most_down - len(down))
        if any(one.kind == kind for one in events if overlap(one, start, start + length) and kind not in BUSY):
            continue
        free = [name for name in names if name not in busy]
        if kind in ("registry", "member"):
            chosen = ()
        else:
            # What loses bytes for good, or changes who is there, gets the nodes that nothing else has.
            if count < 1 or len(free) < count:
                continue
            chosen = tuple(rng.sample(free, count))
        events.append(Event(start, start + length, kind, chosen, detail))
    return events
