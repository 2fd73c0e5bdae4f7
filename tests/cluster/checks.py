"""What a history must fulfil. Pure: from operations to a list of violations, each a dict with `kind`, `key` and `text`.

Kinds: lost (an acknowledged write is not there), stale (an older one is), resurrected (a deleted one is), torn (bytes of no
whole write), order (no order of the operations explains the answers in another way), list, counter, and those of the run.
"""
import dataclasses

from linearisable import GaveUp, find_order

WRITES = ("put", "put-absent", "put-match", "delete", "delete-match")


def violation(kind, key, text):
    return {"kind": kind, "key": key, "text": text}


def is_write(operation):
    return operation.kind in WRITES and operation.outcome in ("done", "unknown")


def until(operations, moment):
    """What was known at that moment: what had not returned has an unknown outcome, and nobody had seen what it saw."""
    known = []
    for one in operations:
        if one.called > moment:
            continue
        if one.returned <= moment:
            known.append(one)
        elif is_write(one):
            known.append(dataclasses.replace(one, outcome="unknown"))
    return known


def first_contradiction(operations):
    """The operation with whose return the history stopped being possible."""
    returns = sorted(one.returned for one in operations if one.outcome != "unknown")
    low, high = 0, len(returns) - 1  # at returns[high] it is impossible
    while low < high:
        middle = (low + high) // 2
        if find_order(until(operations, returns[middle])) is None:
            high = middle
        else:
            low = middle + 1
    return next(one for one in operations if one.returned == returns[high] and one.outcome != "unknown")


def last_writes(operations, before):
    """Those writes that were done before the moment and may be the last of them."""
    done = [one for one in operations if is_write(one) and one.outcome == "done" and one.returned < before]
    return [one for one in done if not any(other.called > one.returned for other in done)]


def describe(one):
    what = {"get": f"saw {one.seen}"}.get(one.kind, f"wrote {one.value}" if one.value is not None else "")
    expected = f" expecting {one.expected}" if one.expected is not None else ""
    return f"{one.kind} {what}{expected} {one.outcome} [{one.called:.3f}, {one.returned:.3f}]"


def check_key(key, operations):
    """Whether one order explains what all clients saw of the key."""
    try:
        if find_order(operations) is not None:
            return []
        culprit = first_contradiction(operations)
    except GaveUp as reason:
        return [violation("undecided", key, str(reason))]
    kind = "order"
    if culprit.kind == "get":
        last = last_writes(operations, culprit.called)
        if last and all(one.kind.startswith("delete") for one in last):
            kind = "resurrected"
        else:
            kind = "lost" if culprit.seen is None else "stale"
    near = sorted((one for one in operations if one.called <= culprit.returned), key=lambda one: one.returned)[-8:]
    return [violation(kind, key, f"impossible: {describe(culprit)}; before: " + "; ".join(describe(one) for one in near if one is not culprit))]


def settled(operations, called, returned):
    """True: the object was there all the time between; False: it was not. None: nobody can say."""
    writes = [one for one in operations if is_write(one) and one.called < returned]
    if any(one.outcome == "unknown" or one.returned > called for one in writes):
        return None
    if not writes:
        return False
    removed = {one.kind.startswith("delete") for one in last_writes(writes, called)}
    return None if len(removed) != 1 else not removed.pop()


def check_lists(lists, operations):
    """Violations, and how many times a key's presence could be judged."""
    found, judged = [], 0
    by_bucket = {}
    for name in operations:
        bucket, key = name.split("/", 1)
        by_bucket.setdefault(bucket, []).append((key, operations[name]))
    for bucket, prefix, keys, called, returned in lists:
        for key, history in by_bucket.get(bucket, []):
            if not key.startswith(prefix):
                continue
            there = settled(history, called, returned)
            judged += there is not None
            if there is not None and there != (key in keys):
                found.append(violation("list", f"{bucket}/{key}", f"a list [{called:.3f}, {returned:.3f}] "
                                       + ("lacks the object" if there else "has an object that is not there")))
        unknown = keys - {key for key, _ in by_bucket.get(bucket, [])}
        found += [violation("list", f"{bucket}/{key}", "a list has a key that nobody wrote") for key in sorted(unknown)]
    return found, judged


def count_of(version):
    return version >> 32


def check_counter(key, operations):
    """Every count has one winner at most, and nobody sees less than was acknowledged before."""
    found, winners = [], {}
    for one in operations:
        if one.kind == "put-match" and one.outcome == "done" or one.kind == "put" and one.outcome == "done":
            winners.setdefault(count_of(one.value), []).append(one)
    for count, several in sorted(winners.items()):
        if len(several) > 1:
            found.append(violation("counter", key, f"count {count} was won {len(several)} times: " + "; ".join(map(describe, several))))
    for one in operations:
        if one.kind != "get":
            continue
        seen = count_of(one.seen) if one.seen is not None else -1
        missed = [count for count, several in winners.items() for other in several if other.returned < one.called and count > seen]
        if missed:
            found.append(violation("lost" if seen < 0 else "stale", key, f"count {seen} was seen at [{one.called:.3f}, {one.returned:.3f}], after {max(missed)} was acknowledged"))
    return found


def check(history):
    """All violations of a history, and figures that show what was judged."""
    found = list(history.violations)
    for key, operations in sorted(history.operations.items()):
        found += check_key(key, operations)
    for key, operations in sorted(history.counters.items()):
        found += check_counter(key, operations)
    lists, judged = check_lists(history.lists, history.operations)
    longest = max(map(len, history.operations.values()), default=0)
    return found + lists, {"keys": len(history.operations), "longest_history": longest, "lists": len(history.lists), "list_entries_judged": judged}
