"""The checkers find every fault that they are there for, and take what is possible."""
import pytest

import flood

from checks import check_counter, check_key, check_lists, settled
from history import History
from linearisable import GaveUp, Operation, find_order
from payload import make


def op(kind, called, returned, **rest):
    return Operation(kind, called, returned, **rest)


PUT = op("put", 0, 1, value=1)
DELETED = op("delete", 2, 3)


def kinds(*operations):
    return [one["kind"] for one in check_key("b/k", operations)]


def test_what_is_possible_is_taken():
    assert kinds(PUT, op("get", 2, 3, seen=1)) == []
    assert kinds(PUT, op("put", 2, 3, value=2, outcome="unknown"), op("get", 4, 5, seen=1), op("get", 6, 7, seen=2)) == []
    assert kinds(PUT, op("put", 2, 9, value=2), op("get", 3, 4, seen=2), op("get", 5, 6, seen=2)) == []
    assert kinds(PUT, DELETED, op("get", 4, 5, seen=None)) == []
    # A delete that would change nothing now changes something later.
    assert kinds(op("put-absent", 0, 3, value=1), op("delete", 1, 4), op("get", 5, 6, seen=None)) == []
    # Nobody saw the PUT without an answer, but it explains why the condition failed.
    assert kinds(op("put", 0, 1, value=1, outcome="unknown"), op("put-absent", 2, 3, value=2, outcome="refused")) == []


@pytest.mark.parametrize("kind, operations", [
    ("lost", [PUT, op("get", 2, 3, seen=None)]),
    ("stale", [PUT, op("put", 2, 3, value=2), op("get", 4, 5, seen=1)]),
    ("stale", [PUT, op("put", 2, 3, value=2, outcome="unknown"), op("get", 4, 5, seen=2), op("get", 6, 7, seen=1)]),
    ("resurrected", [PUT, DELETED, op("get", 4, 5, seen=1)]),
    ("order", [op("put-absent", 0, 1, value=1), op("put-absent", 0, 1, value=2)]),
    ("order", [PUT, op("put-match", 2, 3, value=2, expected=1), op("put-match", 2, 3, value=3, expected=1)]),
    ("order", [op("put-absent", 0, 1, value=1, outcome="refused")]),
    ("order", [PUT, op("delete-match", 2, 3, expected=1, outcome="refused")]),
])
def test_each_fault_has_its_name(kind, operations):
    assert kinds(*operations) == [kind]


def test_the_first_contradiction_is_named_and_not_what_follows_from_it():
    fault, = check_key("b/k", [PUT, op("get", 2, 3, seen=None), op("get", 4, 5, seen=1), op("get", 6, 7, seen=None)])
    assert fault["text"].startswith("impossible: get saw None done [2.000, 3.000]")


def test_a_search_that_is_too_long_says_so():
    puts = [op("put", 0, 100, value=number) for number in range(12)]
    with pytest.raises(GaveUp):
        find_order([*puts, op("get", 101, 102, seen=None)], most_tries=500)


def test_the_presence_of_a_key_is_judged_only_where_it_is_certain():
    assert settled([PUT], 2, 3) is True
    assert settled([PUT, DELETED], 4, 5) is False
    assert settled([], 4, 5) is False
    assert settled([PUT], 0.5, 3) is None
    assert settled([PUT, op("delete", 2, 3, outcome="unknown")], 4, 5) is None
    assert settled([PUT, op("delete", 0.5, 1.5)], 4, 5) is None
    assert settled([PUT, op("delete-match", 2, 3, outcome="refused")], 4, 5) is True


def listed(keys, called=10, returned=11):
    return check_lists([("b", "k", frozenset(keys), called, returned)], {"b/k1": [PUT], "b/k2": [PUT, DELETED], "b/other": [PUT]})


def test_lists_with_holes_and_with_ghosts_are_found():
    assert listed(["k1"]) == ([], 2)
    hole, = listed([])[0]
    assert hole["key"] == "b/k1" and "lacks" in hole["text"]
    ghost, = listed(["k1", "k2"])[0]
    assert ghost["key"] == "b/k2" and "not there" in ghost["text"]
    stranger, = listed(["k1", "k3"])[0]
    assert "nobody wrote" in stranger["text"]
    assert listed([], called=0.5) == ([], 0), "both were touched meanwhile"


def counted(count, called, returned, outcome="done", serial=0):
    return op("put-match", called, returned, value=count << 32 | serial, outcome=outcome)


def test_a_count_that_two_won_and_one_that_was_lost_are_found():
    assert check_counter("b/c", [counted(1, 0, 1), counted(2, 2, 3), op("get", 4, 5, seen=2 << 32)]) == []
    twice, = check_counter("b/c", [counted(1, 0, 1, serial=7), counted(1, 0, 1, serial=8)])
    assert twice["kind"] == "counter"
    assert check_counter("b/c", [counted(1, 0, 1, serial=7), counted(1, 0, 1, "unknown", serial=8)]) == []
    assert check_counter("b/c", [counted(2, 0, 1), op("get", 2, 3, seen=1 << 32)])[0]["kind"] == "stale"
    assert check_counter("b/c", [counted(2, 0, 1), op("get", 2, 3, seen=None)])[0]["kind"] == "lost"


def test_bytes_of_two_writes_and_of_none_are_torn():
    history = History()
    first, second = history.begin("b/k", 9000), history.begin("b/k", 9000)
    old, new = history.body("b/k", first), history.body("b/k", second)
    assert history.seen_in("b/k", old) == first
    assert history.seen_in("b/k", new[4096:8192], 4096, 9000) == second
    assert history.violations == []
    for data, rest in ((old[:4096] + new[4096:], ()), (old[:-1], ()), (bytes(9000), ()), (make("b/other", first, 9000), ()),
                       (old[4096:8191] + b"?", (4096, 9000)), (old[4096:8192], (0, 9000)), (old[:100], (0, 8999))):
        history.violations.clear()
        assert history.seen_in("b/k", data, *rest) is None
        assert [one["kind"] for one in history.violations] == ["torn"]
    history.violations.clear()
    history.know_etag("b/k", first, '"a"')
    history.know_etag("b/k", first, '"b"')
    assert history.violations[0]["kind"] == "torn"


@pytest.mark.parametrize("kind, versions, there", [("", [1], 1), ("", [None], None), ("", [1, 2], 1), ("", [1, 2], 2), ("", [1, None], None),
                                                   ("lost", [1], None), ("stale", [2], 1), ("resurrected", [None], 1), ("lost", [1, 2], None)])
def test_the_keys_of_a_flood_are_what_may_be_there(kind, versions, there):
    history = History()
    flood.judge({"p0/1": versions}, {} if there is None else {"p0/1": flood.etag_of("p0/1", there)[0]}, "n0", history)
    assert [one["kind"] for one in history.violations] == ([kind] if kind else [])


def test_a_key_that_no_flood_wrote_is_a_violation():
    history = History()
    flood.judge({}, {"p0/1": "etag"}, "n0", history)
    assert [one["kind"] for one in history.violations] == ["list"]
