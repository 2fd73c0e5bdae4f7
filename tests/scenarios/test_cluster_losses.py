"""Nodes of a cluster that are killed and come back: nothing acknowledged is lost, nothing wrong is ever given."""
import http.client
import re
import threading
import time

import pytest

from clusters import KIB64, RECOVERY_SECONDS, Cluster, Objects, pattern, put_chunked, until_answered
from linearisable import Operation, find_order
from store_client import MIB, in_threads, wait_until

# No request hangs for longer, whatever has died.
ANSWER_SECONDS = 20
# Around the ends of what is kept as copies, of cells and of stripes of four cells.
CODED_SIZES = [0, 1, 16385, 131072, 131073, 4 * KIB64 - 1, 4 * KIB64, 4 * KIB64 + 1, MIB, 4 * MIB - KIB64 - 1, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1,
               5 * MIB, 5 * MIB + 1, 8 * MIB + 3]
# Their cells are of the largest size, however few bytes there are.
CHUNKED_SIZES = [131073, MIB - 1, MIB + 1, 4 * MIB, 4 * MIB + 1]


# Two of six.

def test_two_of_six_nodes_may_die_in_a_bucket_of_4_and_2(tmp_path):
    with Cluster(tmp_path, 6) as cluster:
        cluster.make_bucket("coded", redundancy="4+2", floor=4)
        cluster.make_bucket("strict", redundancy="4+2")
        objects = write_coded_objects(cluster)
        objects.check_all(cluster.nodes)
        lost = [cluster.nodes[1], cluster.nodes[4]]
        cluster.kill(*lost)
        killed = time.monotonic()
        in_threads(4, lambda number: write_again(cluster.living[number], objects, number, killed + RECOVERY_SECONDS))
        # What was whole before, and what was written since.
        objects.check_all(cluster.living)
        assert [node.keys("coded") for node in cluster.living] == [objects.keys("coded")] * 4
        # Four drives are left, and the floor of this bucket is five.
        refused = cluster.living[0].put("/strict/x", bytes(300_000))
        assert refused.status == 503 and b"at least 5" in refused.body, refused.body
        cluster.restart(*lost)
        cluster.wait_until_serving(cluster.nodes)
        objects.check_all(cluster.nodes)
        assert [node.keys("coded") for node in cluster.nodes] == [objects.keys("coded")] * 6
        objects.put(lost[0], "/strict/x", bytes(300_000))


def write_coded_objects(cluster):
    objects = Objects()
    for number, size in enumerate(CODED_SIZES):
        objects.put(cluster.nodes[number % 6], f"/coded/sized/{size}", pattern(size, size))
    for number, size in enumerate(CHUNKED_SIZES):
        path = f"/coded/chunked/{size}"
        objects.bodies[path] = pattern(path, size)
        assert put_chunked(cluster.nodes[number % 6], path, objects.bodies[path]) == 200
    return objects


def write_again(node, objects, number, until):
    """A small and a large new object, and one that replaces another, each at the latest at `until`."""
    for path, size in ((f"/coded/after/{number}", 300_000), (f"/coded/small/{number}", 100), (f"/coded/sized/{CODED_SIZES[number]}", MIB + number)):
        body = pattern((path, "after"), size)
        answer = until_answered(lambda: node.ask("PUT", path, body, timeout=ANSWER_SECONDS), max(until - time.monotonic(), 0))
        assert answer.status == 200, (path, answer.body)
        objects.bodies[path] = body


def test_objects_are_read_at_once_after_two_of_six_nodes_died(tmp_path):
    with Cluster(tmp_path, 6) as cluster:
        cluster.make_bucket("coded", redundancy="4+2")
        objects = write_coded_objects(cluster)
        cluster.kill(cluster.nodes[0], cluster.nodes[5])
        # The map still calls them alive. A reader needs no home where nothing is in flight.
        in_threads(4, lambda number: objects.check(cluster.living[number], ranged=number == 0))


# Histories.

class History:
    """Clients of one key through all nodes, and what they saw."""

    def __init__(self, cluster, path, size):
        self.cluster, self.path, self.size = cluster, path, size
        self.lock, self.stop = threading.Lock(), threading.Event()
        self.operations, self.acknowledged, self.trouble = [], {}, []

    def body(self, value):
        return (f"{value} ".encode() * (self.size // (len(value) + 1) + 1))[:self.size]

    def note(self, operation, node=None):
        with self.lock:
            self.operations.append(operation)
            if node is not None:
                self.acknowledged[node] = self.acknowledged.get(node, 0) + 1

    def write(self, node, value):
        called = time.monotonic()
        try:
            answer = node.ask("PUT", self.path, self.body(value), timeout=ANSWER_SECONDS)
        except ConnectionRefusedError:
            return  # nothing was sent
        except (OSError, http.client.HTTPException):
            return self.note(Operation("put", called, time.monotonic(), "unknown", value))
        assert answer.status in (200, 503), (answer.status, answer.body)
        done = answer.status == 200
        self.note(Operation("put", called, time.monotonic(), "done" if done else "unknown", value), node if done else None)

    def read(self, node):
        called = time.monotonic()
        try:
            answer = node.get(self.path)
        except (OSError, http.client.HTTPException):
            return
        if answer.status == 503:
            return
        assert answer.status == 200, (answer.status, answer.body)
        seen = answer.body.split(b" ")[0].decode()
        assert answer.body == self.body(seen), "a mixed or cut body"
        self.note(Operation("get", called, time.monotonic(), seen=seen))

    def run(self, number):
        node, turn = self.cluster.nodes[number % len(self.cluster.nodes)], 0
        try:
            while not self.stop.wait(0.03):  # so that the history stays short enough for the search
                turn += 1
                self.read(node) if number >= len(self.cluster.nodes) else self.write(node, f"v{number}.{turn}")
        except BaseException as failure:
            self.trouble.append(failure)

    def wait_for_writes(self, node, seconds):
        """Until this node has acknowledged five more."""
        enough = self.acknowledged.get(node, 0) + 5
        wait_until(lambda: self.trouble or self.acknowledged.get(node, 0) >= enough, "no write was acknowledged in time", seconds)

    def is_possible(self):
        # A write that nobody saw and nobody acknowledged needs no place in the order.
        seen = {one.seen for one in self.operations if one.kind == "get"}
        needed = [one for one in self.operations if one.outcome != "unknown" or one.value in seen]
        # The search tries the last of the list first.
        return find_order(sorted(needed, key=lambda one: one.returned, reverse=True)) is not None


@pytest.mark.parametrize("redundancy, size", [("copies=3", 100), ("copies=3", 150_000), ("2+1", 150_000)])
def test_what_clients_of_one_key_saw_while_a_node_died_and_came_back_has_an_order(tmp_path, redundancy, size):
    with Cluster(tmp_path, 3) as cluster:
        cluster.make_bucket("box", redundancy=redundancy, floor=2)
        history = History(cluster, "/box/key", size)
        history.write(cluster.nodes[0], "v.first")
        threads = [threading.Thread(target=history.run, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        try:
            for victim in (cluster.nodes[1], cluster.nodes[2]):
                history.wait_for_writes(victim, 60)
                cluster.kill(victim)
                history.wait_for_writes(cluster.nodes[0], RECOVERY_SECONDS)
                cluster.restart(victim)
                history.wait_for_writes(victim, 60)
        finally:
            history.stop.set()
            for thread in threads:
                thread.join()
        assert not history.trouble, history.trouble[0]
        for node in cluster.nodes:
            history.read(node)
        assert history.operations[-1].seen == history.operations[-2].seen == history.operations[-3].seen
        assert history.is_possible(), sorted(history.operations, key=lambda one: one.called)


# More than the redundancy allows.

def test_beyond_the_redundancy_reads_fail_and_nothing_wrong_is_given(tmp_path):
    with Cluster(tmp_path, 3) as cluster:
        cluster.make_bucket("pairs", redundancy="copies=2")
        objects, stays = Objects(), cluster.nodes[0]
        for number in range(12):
            objects.put(cluster.nodes[number % 3], f"/pairs/{number}", pattern(number, 200_000 if number % 2 else 500))
        lost = cluster.nodes[1:]
        cluster.kill(*lost)
        for _ in ("while the map calls them alive", "when the map calls them away"):
            answers = in_threads(len(objects.bodies), lambda number: read_or_fail(stays, f"/pairs/{number}"))
            for number, body in enumerate(answers):
                assert body in (None, objects.bodies[f"/pairs/{number}"]), number
            assert None in answers, "no key had both of its holders on the lost nodes"
            cluster.wait_until_serving([stays])
        not_ready = stays.get("/-/cluster/ready")
        assert not_ready.status == 503 and b"bucket pairs takes no writes: 1 drives serve, and its floor is 2" in not_ready.body, not_ready.body
        assert stays.put("/pairs/new", b"x").status == 503
        assert stays.ask("GET", "/pairs").status == 503, "a list with holes"
        assert stays.ask("DELETE", "/pairs/1").status == 503
        cluster.restart(*lost)
        cluster.wait_until_serving(cluster.nodes)
        assert all(node.get("/-/cluster/ready").json["serving"] == 3 for node in cluster.nodes)
        objects.check_all(cluster.nodes, ranged=False)
        assert [node.keys("pairs") for node in cluster.nodes] == [objects.keys("pairs")] * 3


def read_or_fail(node, path):
    """The object's bytes; None where the answer is 503. A break in the middle of the body counts as that."""
    try:
        answer = node.get(path)
    except http.client.IncompleteRead:
        return None
    assert answer.status in (200, 503), (path, answer.status, answer.body)
    return answer.body if answer.status == 200 else None


def test_a_cluster_that_was_killed_whole_has_everything_again(tmp_path):
    with Cluster(tmp_path, 3) as cluster:
        cluster.make_bucket("box", redundancy="copies=3")
        objects = Objects()
        for number in range(12):
            objects.put(cluster.nodes[number % 3], f"/box/{number}", pattern(number, [10, 20_000, 200_000][number % 3]))
        assert cluster.nodes[0].ask("DELETE", "/box/0").status == 204
        del objects.bodies["/box/0"]
        cluster.kill(*cluster.nodes)
        cluster.restart(*cluster.nodes)
        cluster.wait_until_serving(cluster.nodes)
        objects.check_all(cluster.nodes, ranged=False)
        assert [node.get("/box/0").status for node in cluster.nodes] == [404] * 3
        assert [node.keys("box") for node in cluster.nodes] == [objects.keys("box")] * 3


def test_a_registry_that_is_gone_is_out_of_reach_and_no_missing_object(tmp_path):
    with Cluster(tmp_path, 1) as cluster:
        (tmp_path / "registry").rename(tmp_path / "elsewhere")
        answer = cluster.nodes[0].ask("PUT", "/bucket")
        assert answer.status == 503 and b"registry is gone" in answer.body, answer.body
        (tmp_path / "elsewhere").rename(tmp_path / "registry")
        wait_until(lambda: cluster.nodes[0].ask("PUT", "/bucket").status == 200, "never back")


def listed_sizes(node, bucket):
    """404 and 503 are not lists: a node that has just come back may say so for a moment."""
    answer = until_answered(lambda: node.get(f"/{bucket}?list-type=2"))
    assert answer.status == 200, answer.body
    text = answer.body.decode()
    return {key: int(size) for key, size in re.findall(r"<Key>([^<]*)</Key>.*?<Size>(\d+)</Size>", text)}


@pytest.mark.parametrize("redundancy", ["copies=2", "2+1"])
def test_a_list_is_right_while_a_node_that_missed_something_is_back_and_not_healed(tmp_path, redundancy):
    """Each key is listed by some of its holders only, and the one that is asked first may know an old object."""
    with Cluster(tmp_path, 4) as cluster:
        cluster.make_bucket("listed", redundancy=redundancy)
        keys = [f"k{number:03}" for number in range(120)]
        for number, key in enumerate(keys):
            assert cluster.nodes[number % 4].put(f"/listed/{key}", bytes(1000)).status == 200
        away = cluster.nodes[1]
        cluster.kill(away)
        node = cluster.living[0]
        there = {key: 1000 for key in keys}
        for number, key in enumerate(keys):
            if number % 3 == 0:
                assert until_answered(lambda key=key: node.ask("DELETE", f"/listed/{key}")).status == 204
                del there[key]
            elif number % 3 == 1:
                there[key] = 2000 if number % 2 else 200_000
                assert until_answered(lambda key=key: node.put(f"/listed/{key}", bytes(there[key]))).status == 200
        for reader in cluster.living:
            assert listed_sizes(reader, "listed") == there
        cluster.restart(away)
        for reader in cluster.nodes * 3:
            assert listed_sizes(reader, "listed") == there
        cluster.wait_until_serving(cluster.nodes)
        for reader in cluster.nodes:
            assert listed_sizes(reader, "listed") == there


def test_a_bucket_that_is_made_again_has_nothing_of_the_one_before(tmp_path):
    """A node that was away when the objects were deleted and the bucket was removed still has them."""
    with Cluster(tmp_path, 4) as cluster:
        cluster.make_bucket("again", redundancy="copies=3")
        sizes = {"small": 100, "middle": 100_000, "large": 3 * MIB}
        for key, size in sizes.items():
            assert cluster.nodes[0].put(f"/again/{key}", pattern(key, size)).status == 200
        away = cluster.nodes[2]
        cluster.kill(away)
        node = cluster.living[0]
        for key in sizes:
            assert until_answered(lambda key=key: node.ask("DELETE", f"/again/{key}")).status == 204
        assert until_answered(lambda: node.ask("DELETE", "/again")).status == 204
        cluster.restart(away)
        cluster.wait_until_serving(cluster.nodes)
        cluster.make_bucket("again", redundancy="copies=3")
        for reader in cluster.nodes:
            assert listed_sizes(reader, "again") == {}
            assert [until_answered(lambda key=key, reader=reader: reader.get(f"/again/{key}")).status for key in sizes] == [404] * 3
        assert until_answered(lambda: away.put("/again/small", b"new")).status == 200
        for reader in cluster.nodes:
            assert reader.get("/again/small").body == b"new"
            assert listed_sizes(reader, "again") == {"small": 3}


@pytest.mark.parametrize("redundancy", ["copies=2", "2+1"])
def test_a_put_waits_until_the_map_says_who_is_left(tmp_path, redundancy):
    """Clients that send a file once and give up at a 503 get through, up to a stripe."""
    with Cluster(tmp_path, 4) as cluster:
        cluster.make_bucket("once", redundancy=redundancy)
        cluster.kill(cluster.nodes[3])
        sizes = [100, 100_000, 300_000, MIB, 2 * MIB if redundancy == "2+1" else MIB - 1]
        answers = in_threads(16, lambda number: cluster.nodes[number % 3].put(f"/once/k{number}", pattern(number, sizes[number % 5])))
        assert [(number, answer.body) for number, answer in enumerate(answers) if answer.status != 200] == []
        for number in range(16):
            assert cluster.nodes[(number + 1) % 3].get(f"/once/k{number}").body == pattern(number, sizes[number % 5])
