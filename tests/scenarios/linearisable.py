"""Whether what clients saw of one key can have happened one after the other (Wing and Gong's search, with what was
tried remembered).

An operation has a call and a return time, and is one of
    put VALUE            plain, or the completion of an upload
    put-absent VALUE     If-None-Match: *
    put-match VALUE      If-Match of the value `expected`
    delete               plain
    delete-match         If-Match of the value `expected`
    get                  saw `seen`; None: there was no object
with an outcome: "done", "refused" (the condition did not hold), "absent" (there was no object), or "unknown": no answer
came, so that it may have happened at any time after its call, or never.
"""
import dataclasses
import math

NEVER = math.inf


@dataclasses.dataclass(frozen=True)
class Operation:
    kind: str
    called: float
    returned: float
    outcome: str = "done"
    value: object = None
    expected: object = None
    seen: object = None


def apply(operation, state):
    """The state after it, and whether its outcome is possible in this state; nothing where it is not."""
    kind, outcome = operation.kind, operation.outcome
    if kind == "get":
        return (state,) if state == operation.seen else None
    after = None if kind.startswith("delete") else operation.value
    if kind in ("put", "delete"):
        holds, refusal = True, None
    elif kind == "put-absent":
        holds, refusal = state is None, "refused"
    else:
        holds, refusal = state is not None and state == operation.expected, "refused" if state is not None else "absent"
    if outcome == "unknown":
        return (after,) if holds else (state,)
    if holds:
        return (after,) if outcome == "done" else None
    return (state,) if outcome == refusal else None


class GaveUp(Exception):
    """There are too many orders to try."""


def find_order(operations, most_tries=2_000_000):
    """An order of them that explains everything, as positions; None where there is none.

    Operations of unknown outcome multiply the orders. So it is first tried without any of them, then with those whose value somebody met:
    an order that needs no others is an order.
    """
    operations = list(operations)
    met = {one.seen for one in operations if one.kind == "get"} | {one.expected for one in operations if one.outcome != "unknown"}
    known = [at for at, one in enumerate(operations) if one.outcome != "unknown"]
    likely = [at for at, one in enumerate(operations) if one.outcome != "unknown" or one.value in met]
    for some in (known, likely):
        if len(some) < len(operations) and (order := search([operations[at] for at in some], most_tries)) is not None:
            return [some[at] for at in order]
    return search(operations, most_tries)


def search(operations, most_tries):
    everything = (1 << len(operations)) - 1
    optional = sum(1 << at for at, one in enumerate(operations) if one.outcome == "unknown")
    tried = set()
    stack = [(0, None, ())]
    while stack:
        done, state, order = stack.pop()
        if done | optional == everything:
            return list(order)
        if (done, state) in tried:
            continue
        tried.add((done, state))
        if len(tried) > most_tries:
            raise GaveUp(f"{len(operations)} operations, {most_tries} tries")
        left = [at for at in range(len(operations)) if not done >> at & 1]
        # What was called after another had returned comes behind it.
        first_return = min(operations[at].returned if operations[at].outcome != "unknown" else NEVER for at in left)
        ready = [at for at in left if operations[at].called <= first_return]
        follow = [(at, after[0]) for at in ready if (after := apply(operations[at], state)) is not None]
        # What never changes anything can stand here if it can stand anywhere later: no other choice needs to be tried.
        idle = next((at for at, _ in follow if operations[at].kind == "get" or operations[at].outcome in ("refused", "absent")), None)
        if idle is not None:
            stack.append((done | 1 << idle, state, order + (idle,)))
            continue
        # Last in, first tried: what is known to have happened comes before what may have, in the order of its return.
        follow.sort(key=lambda one: (optional >> one[0] & 1, operations[one[0]].returned), reverse=True)
        stack.extend((done | 1 << at, after, order + (at,)) for at, after in follow)
    return None
