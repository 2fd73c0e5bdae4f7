#!/usr/bin/python3
"""A real cluster under faults: processes, namespaces, clients, and the proof that nothing acknowledged was lost.

./dev chaos runs it; docs/chaos.md says what it does and how to read what it prints.
"""
import argparse
import json
import pathlib
import random
import shutil
import sys
import tempfile
import time

import conftest  # noqa: F401 (finds the modules of other folders)
from audit import audit
from checks import check
from etcd import has_etcd
from fleet import FASTEST_HEALING, Fleet, can_mount
from flood import BUCKET as FLOOD_BUCKET, Flood
from history import History
from nemesis import Nemesis, possible_kinds
from schedule import KINDS, make_schedule
from traffic import Traffic

BUCKETS = {"coded": "4+2", "copies": "copies=3"}
SMALL_BUCKETS = {"coded": "2+1", "copies": "copies=3"}
# What a lost node costs is tried with healing at once, with healing that comes late, and with none.
HEALING = [FASTEST_HEALING, ("--set", "heal_after=20s"), ()]
FAULTS_OF_A_VIOLATION = ("lost", "torn", "stale", "resurrected")


def say(text):
    print(text, file=sys.stderr, flush=True)


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10, help="how long faults happen; the audit comes after that (default 10)")
    parser.add_argument("--seed", type=int, help="one seed, one schedule (default: a random one, which is printed)")
    parser.add_argument("--registry", choices=["files", "etcd"], help="default: the seed decides")
    parser.add_argument("--nodes", type=int, default=6, choices=range(4, 7), help="4 to 6 (default 6)")
    parser.add_argument("--clients", type=int, default=24, help="threads that ask (default 24)")
    parser.add_argument("--flood", type=int, default=0, metavar="N", help="processes that write small objects as fast as they can (default 0)")
    parser.add_argument("--faults", default=",".join(KINDS), help=f"of {','.join(KINDS)} (default: all)")
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of words")
    parser.add_argument("--keep", action="store_true", help="keep the directory of the run where nothing was wrong, too")
    parser.add_argument("--schedule", action="store_true", help="print the schedule and end")
    arguments = parser.parse_args(words)
    unknown = set(arguments.faults.split(",")) - set(KINDS) - {""}
    if unknown:
        parser.error(f"there is no fault {', '.join(sorted(unknown))}: known are {', '.join(KINDS)}")
    return arguments


class Run:
    """One run, from an empty directory to a verdict."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 30)
        rng = random.Random(f"run {self.seed}")
        self.registry = arguments.registry or (rng.choice(["files", "etcd"]) if has_etcd() else "files")
        self.flags = rng.choice(HEALING)
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="millrace-chaos-"))
        self.history = History(self.directory / "history.jsonl")
        self.notes, self.counts = [], {}
        self.most_down = 2 if arguments.nodes == 6 else 1

    def note(self, text):
        self.notes.append(text)
        say(f"note: {text}")

    def go(self):
        seconds = self.arguments.minutes * 60
        say(f"seed {self.seed}, registry {self.registry}, {' '.join(self.flags) or 'usual healing'}, {self.directory}")
        faults = self.arguments.faults.split(",")
        special = [what for what, kind in (("lines", "line"), ("volumes", "volume")) if kind in faults]
        if "volumes" in special and not can_mount():
            special.remove("volumes")
        fleet = Fleet(self.directory, self.arguments.nodes, self.registry, self.flags, special)
        try:
            if not fleet.network.has_cuts:
                self.note(f"all nodes are on loopback: {fleet.network.why}")
            kinds, left_out = possible_kinds(fleet, [kind for kind in self.arguments.faults.split(",") if kind])
            for kind, why in left_out.items():
                self.note(f"no fault {kind}: {why}")
            events = make_schedule(self.seed, seconds, [node.name for node in fleet.nodes], kinds, self.most_down)
            (self.directory / "schedule.txt").write_text("".join(f"{event}\n" for event in events))
            if self.arguments.schedule:
                print(*events, sep="\n")
                return None
            fleet.start()
            return self.under_faults(fleet, events, seconds)
        finally:
            fleet.close()
            self.history.close()

    def under_faults(self, fleet, events, seconds):
        for bucket, redundancy in (BUCKETS if self.arguments.nodes == 6 else SMALL_BUCKETS).items():
            fleet.make_bucket(bucket, redundancy=redundancy)
        nemesis = Nemesis(fleet, self.history, self.note)
        fleet.make_bucket(FLOOD_BUCKET, redundancy="copies=3")
        flood = Flood(fleet, self.arguments.flood, self.seed)
        with flood, Traffic(lambda: list(fleet.nodes), BUCKETS, self.history, self.seed, self.arguments.clients) as traffic:
            nemesis.run(events, seconds)
            nemesis.heal()
        self.counts = nemesis.counts
        for failure in traffic.failures:
            self.history.violate("harness", "traffic", failure)
        say(f"{seconds:.0f} s are over: reading everything back")
        audited = audit(fleet, list(BUCKETS), self.history, self.note, flood)
        found, judged = check(self.history)
        return self.verdict(found, {**judged, **audited})

    def verdict(self, found, figures):
        by_kind = {}
        for one in found:
            by_kind[one["kind"]] = by_kind.get(one["kind"], 0) + 1
        (self.directory / "violations.json").write_text(json.dumps(found, indent=1))
        return {"seed": self.seed, "minutes": self.arguments.minutes, "nodes": self.arguments.nodes, "registry": self.registry,
                "acknowledged": {what.removesuffix(" done"): count for what, count in sorted(self.history.counts.items()) if what.endswith(" done")},
                "unknown": sum(count for what, count in self.history.counts.items() if what.endswith(" unknown")),
                "faults": self.counts, **figures, **{kind: by_kind.get(kind, 0) for kind in FAULTS_OF_A_VIOLATION},
                "violations": len(found), "by_kind": by_kind, "notes": self.notes, "first": [f"{one['kind']} {one['key']}: {one['text'][:400]}" for one in found[:10]]}


def in_words(told):
    words = [f"seed={told['seed']}", f"minutes={told['minutes']}", f"registry={told['registry']}",
             f"acknowledged={sum(told['acknowledged'].values())}", f"unknown={told['unknown']}"]
    words += [f"flood_{what.replace(' ', '_')}={count}" for what, count in sorted(told["flood"].items())]
    words += [f"{what.replace(' ', '_')}={count}" for what, count in sorted(told["faults"].items())]
    words += [f"{what}={told[what]}" for what in ("keys", "verified", "raw_verified", *FAULTS_OF_A_VIOLATION, "violations")]
    return " ".join(words)


def main():
    run = Run(parse_arguments())
    keeps = True
    try:
        told = run.go()
        keeps = told is not None and (told["violations"] > 0 or run.arguments.keep)
    finally:
        if keeps:
            say(f"histories, logs and drives are kept in {run.directory}")
        else:
            shutil.rmtree(run.directory, ignore_errors=True)
    if told is None:
        return 0
    for line in told["first"]:
        say(line)
    print(json.dumps(told) if run.arguments.json else in_words(told), flush=True)
    return 1 if told["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
