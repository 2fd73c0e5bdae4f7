"""Reads everything back when all faults are over: every byte through every node, and once from the drives."""
import http.client
import time

import raw_slices
from history import UNKNOWN
from payload import fault_of, version_of
from store_client import in_threads
from traffic import Traffic, list_all

SERVING_SECONDS = 60
HEALED_SECONDS = 120
ANSWER_SECONDS = 30


def audit(fleet, buckets, history, note, flood):
    """Figures; what is wrong becomes a violation of the history."""
    try:
        for node in fleet.nodes:
            node.wait_until_ready()
        fleet.wait_until_serving(fleet.nodes, SERVING_SECONDS)
    except AssertionError as reason:
        history.violate("not serving", "", str(reason)[:500])
    figures = {"verified": 0, "verified_bytes": 0, "raw_verified": 0, "raw_bytes": 0}
    names = sorted([*history.operations, *history.counters])
    began = time.monotonic()
    seen = read_through_all(fleet, names, history, figures)
    for bucket in buckets:
        compare_lists(fleet, bucket, seen, history)
    figures.update(flood.check(history))
    try:
        fleet.wait_until_clean(HEALED_SECONDS)
    except AssertionError as reason:
        told = fleet.told() or {}
        rows = [{what: one[what] for what in ("number", "state", "progress") if what in one} for one in told.get("nodes", [])]
        history.violate("not healed", "", f"{reason}: epoch {told.get('epoch')}, {rows}")
    figures["audit_seconds"] = round(time.monotonic() - began, 1)
    why = raw_slices.why_not()
    if why:
        note(f"nothing was read from the drives themselves: {why}")
        return figures
    stop_all(fleet, history)
    read_raw([drive for node in fleet.nodes for drive in node.drives], seen, history, figures)
    return figures


def get_at_last(node, name):
    """An answer that is not 503, or the last one of a minute."""
    until = time.monotonic() + ANSWER_SECONDS
    while True:
        called = time.monotonic()
        try:
            answer = node.ask("GET", f"/{name}")
        except (OSError, http.client.HTTPException):
            answer = None
        if answer is not None and answer.status not in UNKNOWN or time.monotonic() > until:
            return answer, called
        time.sleep(0.2)


def read_through_all(fleet, names, history, figures):
    """What is there, {name: version or None}; every node must say the same."""
    nodes, reader = list(fleet.nodes), Traffic(lambda: [], [], history, 0, 0)
    found = {name: {} for name in names}

    def read(number):
        node = nodes[number]
        for name in names:
            answer, called = get_at_last(node, name)
            if answer is None or answer.status in UNKNOWN:
                text = "no answer" if answer is None else f"{answer.status}: {answer.body[:300]!r}"
                history.violate("unavailable", name, f"through {node.name} after everything was healed: {text}")
                continue
            operation = reader.seen(name, answer, called)
            if operation is not None:
                found[name][node.name] = operation.seen

    in_threads(len(nodes), read)
    for name, by_node in found.items():
        if len(set(by_node.values())) > 1:
            history.violate("stale", name, f"nodes differ: {by_node}")
        elif len(by_node) == len(nodes):
            figures["verified"] += 1
            version = next(iter(by_node.values()))
            figures["verified_bytes"] += history.sizes[name][version] * len(nodes) if version is not None else 0
    return {name: next(iter(by_node.values())) for name, by_node in found.items() if len(set(by_node.values())) == 1}


def compare_lists(fleet, bucket, seen, history):
    there = {name.split("/", 1)[1] for name, version in seen.items() if version is not None and name.startswith(bucket + "/")}
    judged = {name.split("/", 1)[1] for name in seen if name.startswith(bucket + "/")}
    for node in fleet.nodes:
        keys, until = None, time.monotonic() + ANSWER_SECONDS
        while keys is None and time.monotonic() < until:
            keys = list_all(node, bucket)
        if keys is None:
            history.violate("unavailable", bucket, f"no list through {node.name}")
            continue
        if len(keys) != len(set(keys)):
            history.violate("list", bucket, f"a list through {node.name} has keys twice")
        for key in sorted(there ^ (set(keys) & judged)):
            history.violate("list", f"{bucket}/{key}", f"the last list through {node.name} " + ("lacks it" if key in there else "has it, and it is not there"))


def stop_all(fleet, history):
    for node in fleet.nodes:
        try:
            node.stop()
        except Exception as reason:
            history.violate("ended", node.name, f"did not stop in order: {reason}"[:1500])
            node.kill()


def read_raw(drives, seen, history, figures):
    """Compares what lies on the drives with what nodes gave."""
    raw = raw_slices.Drives(drives)
    for name, version in seen.items():
        bucket, key = name.split("/", 1)
        try:
            found = raw.read(bucket, key)
        except raw_slices.Damaged as fault:
            history.violate("raw", name, str(fault))
            continue
        if (found is None) != (version is None):
            history.violate("raw", name, f"nodes gave version {version}, on the drives is {'nothing' if found is None else version_of(found[0])}")
            continue
        if found is not None:
            data, there, wanted = found
            fault = fault_of(name, data, {version: history.sizes[name][version]})
            if fault:
                history.violate("raw", name, fault)
                continue
            if there < wanted:
                history.violate("raw", name, f"{there} of {wanted} slices are on the drives")
                continue
        figures["raw_verified"] += 1
    for fault in raw.faults:
        history.violate("raw", "", fault)
    figures["raw_bytes"] = raw.verified_bytes
