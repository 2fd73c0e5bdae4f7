"""A home that others have replaced while it was cut off or stood still: it takes no writes and gives nothing old.

Clients reach the old home all the time. What they saw of the key is judged as in a long run: one order must explain it.
"""
import random
import signal
import threading
import time

import pytest

from checks import check
from clusters import LEASE_SECONDS, serving, where
from etcd import has_etcd
from fleet import Fleet
from history import History, write
from network import missing
from store_client import in_threads, wait_until
from traffic import Traffic, list_all

needs_cuts = pytest.mark.skipif(bool(missing()), reason=missing() or "cuts can be made")
needs_etcd = pytest.mark.skipif(not has_etcd(), reason="etcd is not installed")
KEY = "copies/g0/contended"
# A node that is cut off may take long to refuse. No answer says as little as 503.
PATIENCE_SECONDS = 4


class Told:
    """A history, and clients of single nodes that write to it."""

    def __init__(self, fleet):
        self.fleet, self.history = fleet, History()

    def by(self, *nodes):
        return Traffic(lambda: list(nodes), [], self.history, 0, 0, PATIENCE_SECONDS)

    def put(self, node, size=5_000, key=KEY):
        """The outcome; None where no connection came about."""
        version = self.history.begin(key, size)
        return self.by(node).send(random.Random(0), key, write("put", 0, "unknown", version), {})

    def get(self, node, key=KEY):
        return self.by(node).get(random.Random(0), key)

    def get_at_last(self, node, key=KEY):
        return wait_until(lambda: self.get(node, key), f"{node.name} never answered")

    def put_until_done(self, node):
        wait_until(lambda: self.put(node) == "done", "no write was taken")
        return self.history.operations[KEY][-1].value

    def judge(self):
        found, _ = check(self.history)
        assert found == [], found


def home_of(fleet, key=KEY):
    address = where(fleet.nodes[0], key)["slots"][0]["address"]
    return next(node for node in fleet.nodes if node.listen == address)


def cut_off(fleet, node, peers=True, registry=True):
    others = [one.name for one in fleet.nodes if one is not node and peers]
    others += [member.place.name for member in fleet.etcd.members if registry]
    fleet.network.set_cuts({pair for other in others for pair in ((other, node.name), (node.name, other))})


@needs_cuts
@needs_etcd
def test_a_home_that_is_cut_off_refuses_writes_and_gives_nothing_old(tmp_path):
    with Fleet(tmp_path, 4, "etcd") as fleet:
        fleet.make_bucket("copies", redundancy="copies=3")
        told = Told(fleet)
        told.put_until_done(fleet.nodes[0])
        old = home_of(fleet)
        others = [node for node in fleet.nodes if node is not old]
        cut_off(fleet, old)
        told.put_until_done(others[0])
        # From here on the other side has a newer object: whoever asks the old home must not get the one before.
        asked = [lambda: told.put(old) == "unknown", lambda: told.get(old) is None, lambda: list_all(old, "copies", timeout=PATIENCE_SECONDS) is None]
        assert all(in_threads(12, lambda number: asked[number % 3]()))
        newest = told.put_until_done(others[1])
        assert {told.get_at_last(node).seen for node in others} == {newest}
        fleet.network.set_cuts(set())
        wait_until(lambda: told.get(old), "the old home never came back", 60)
        fleet.wait_until_serving(fleet.nodes)
        for node in fleet.nodes:
            told.get_at_last(node)
        told.judge()


def test_a_home_that_stood_still_for_longer_than_its_lease_gives_nothing_old(tmp_path):
    """Requests wait in its sockets when it goes on: the first thing that it does is to answer them."""
    with Fleet(tmp_path, 4, "files") as fleet:
        fleet.make_bucket("copies", redundancy="copies=3")
        told = Told(fleet)
        told.put_until_done(fleet.nodes[0])
        old = home_of(fleet)
        others = [node for node in fleet.nodes if node is not old]
        before = told.history.operations[KEY][-1].value
        old.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        try:
            told.put_until_done(others[0])
            asked = [threading.Thread(target=told.get if number % 3 else told.put, args=(old,)) for number in range(12)]
            for thread in asked:
                thread.start()
            # The lease must be over when the process goes on, or the test says nothing.
            wait_until(lambda: time.monotonic() - began > LEASE_SECONDS + 2)
        finally:
            old.process.send_signal(signal.SIGCONT)
        for thread in asked:
            thread.join()
        for _ in range(50):
            told.get(old)
        fleet.wait_until_serving(fleet.nodes)
        last = {told.get_at_last(node).seen for node in fleet.nodes}
        assert len(last) == 1 and before not in last
        told.judge()


@needs_cuts
@needs_etcd
def test_a_node_without_the_registry_stops_acting_and_the_others_go_on(tmp_path):
    with Fleet(tmp_path, 4, "etcd") as fleet:
        fleet.make_bucket("copies", redundancy="copies=3")
        told = Told(fleet)
        told.put_until_done(fleet.nodes[1])
        alone, others = fleet.nodes[0], fleet.nodes[1:]
        cut_off(fleet, alone, peers=False)
        # Until the others have a map without it, it may answer, and what it acknowledges counts.
        while any(alone.listen in serving(node) for node in others):
            told.put(alone)
            told.get(alone)
        asked = [lambda: told.put(alone) == "unknown", lambda: told.get(alone) is None, lambda: list_all(alone, "copies", timeout=PATIENCE_SECONDS) is None]
        assert all(in_threads(3, lambda number: asked[number]()))
        newest = told.put_until_done(others[0])
        assert {told.get_at_last(node).seen for node in others} == {newest}
        fleet.network.set_cuts(set())
        wait_until(lambda: alone.ask("GET", "/-/ready").status == 200, "the node never came back")
        wait_until(lambda: told.get(alone), "the node never answered again")
        told.judge()


def test_of_conditional_puts_while_a_node_is_killed_one_wins_at_most(tmp_path):
    with Fleet(tmp_path, 4, "files") as fleet:
        fleet.make_bucket("copies", redundancy="copies=3")
        told = Told(fleet)
        keys = [f"copies/g0/once{number}" for number in range(40)]
        victim, began = fleet.nodes[2], threading.Event()

        def race(number):
            rng, node = random.Random(number), fleet.nodes[number % 4]
            for at, key in enumerate(keys):
                if at == 10:
                    began.set()
                version = told.history.begin(key, 3_000 if at % 2 else 40_000)
                told.by(node).send(rng, key, write("put-absent", 0, "unknown", version), {"if-none-match": "*"})

        threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        began.wait()
        victim.kill()
        for thread in threads:
            thread.join()
        fleet.restart(victim)
        fleet.wait_until_serving(fleet.nodes)
        for key in keys:
            winners = [one.value for one in told.history.operations[key] if one.outcome == "done"]
            assert len(winners) <= 1, key
            seen = {told.get_at_last(node, key).seen for node in fleet.nodes}
            assert len(seen) == 1 and (not winners or seen == set(winners)), (key, winners, seen)
        told.judge()
        assert sum(one.outcome == "done" for key in keys for one in told.history.operations[key] if one.kind == "put-absent") > len(keys) // 2
