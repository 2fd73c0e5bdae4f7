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


def find_order(operations):
    """An order of them that explains everything, as positions; None where there is none."""
    operations = list(operations)
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
        left = [at for at in range(len(operations)) if not done >> at & 1]
        # What was called after another had returned comes behind it.
        first_return = min(operations[at].returned if operations[at].outcome != "unknown" else NEVER for at in left)
        for at in left:
            if operations[at].called > first_return:
                continue
            after = apply(operations[at], state)
            if after is not None:
                stack.append((done | 1 << at, after[0], order + (at,)))
    return None
