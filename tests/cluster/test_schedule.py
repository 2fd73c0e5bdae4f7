"""One seed gives one schedule, and no schedule asks for more than the redundancy allows."""
from schedule import BUSY, KINDS, make_schedule

NAMES = [f"n{number}" for number in range(6)]


def test_one_seed_gives_one_schedule():
    assert make_schedule(7, 300, NAMES) == make_schedule(7, 300, NAMES)
    assert make_schedule(7, 300, NAMES) != make_schedule(8, 300, NAMES)


def test_never_more_nodes_are_down_than_allowed_and_no_node_has_two_faults_at_once():
    for seed in range(300):
        events = make_schedule(seed, 120, NAMES, most_down=2)
        for one in events:
            assert 0 <= one.start < one.end <= 120
            there = [other for other in events if other.start <= one.start < other.end]
            names = [name for other in there for name in other.nodes]
            assert len(names) == len(set(names)), (seed, list(map(str, there)))
            assert len({name for other in there if other.kind in BUSY for name in other.nodes}) <= 2, seed


def test_every_kind_comes_and_only_those_that_were_asked_for():
    everything = {one.kind for seed in range(20) for one in make_schedule(seed, 300, NAMES)}
    assert everything == set(KINDS)
    assert {one.kind for one in make_schedule(1, 300, NAMES, ["kill", "stop"])} == {"kill", "stop"}
    assert make_schedule(1, 300, NAMES, []) == []
