"""Histories of many clients of a few keys: everything that was acknowledged can have happened in one order."""
import http.client
import random
import threading
import time

import pytest

from clusters import Cluster
from linearisable import Operation, find_order
from nodes import Node
from store_client import begin_upload, complete_xml, in_threads, put_part

CLIENTS = 64
STEPS = 24
KEYS = 32
SIZES = [100, 100, 100_000]  # inside the index, and a file of its own
SMALL_PART = 20_000  # the only one of an upload may be as small


def op(kind, called, returned, **rest):
    return Operation(kind, called, returned, **rest)


def test_the_checker_takes_what_is_possible_and_nothing_else():
    possible = [op("put", 0, 3, value="a"), op("put-absent", 1, 2, value="b"), op("get", 4, 5, seen="a")]
    assert find_order(possible) == [1, 0, 2]
    # A plain PUT that was acknowledged and is gone beside a conditional one.
    assert find_order([*possible[:2], op("get", 4, 5, seen="b")]) is None
    assert find_order([op("put", 0, 1, value="a"), op("get", 2, 3, seen=None)]) is None
    assert find_order([op("put", 0, 1, value="a"), op("delete", 2, 9), op("get", 3, 4, seen=None), op("get", 5, 6, seen="a")]) is None
    assert find_order([op("put", 0, 1, value="a", outcome="unknown"), op("get", 2, 3, seen=None), op("get", 4, 5, seen="a")]) is not None
    assert find_order([op("put", 0, 1, value="a"), op("put-match", 2, 3, value="b", expected="x", outcome="refused"), op("get", 4, 5, seen="a")]) is not None
    assert find_order([op("put", 0, 1, value="a"), op("put-match", 2, 3, value="b", expected="a", outcome="refused")]) is None
    assert find_order([op("put-match", 0, 1, value="b", expected="a", outcome="absent"), op("delete-match", 2, 3, expected="b", outcome="refused")]) is None


class Clients:
    """Threads that write and read a few keys, each through one of the nodes, and note what they saw."""

    def __init__(self, nodes, seed):
        self.nodes, self.seed = nodes, seed
        self.lock = threading.Lock()
        self.histories = {f"k{number}": [] for number in range(KEYS)}
        self.etags = {key: {} for key in self.histories}  # value -> etag, as far as an answer told it

    def body(self, value, size):
        return (f"{value} ".encode() * (size // (len(value) + 1) + 1))[:size]

    def known(self, rng, key):
        with self.lock:
            return rng.choice(sorted(self.etags[key].items()) or [("none", '"0123"')])

    def note(self, key, operation, etag=None):
        with self.lock:
            self.histories[key].append(operation)
            if etag:
                self.etags[key][operation.value] = etag

    def write(self, connection, key, kind, value, rng):
        headers, expected = {}, None
        if kind == "put-absent":
            headers["If-None-Match"] = "*"
        elif kind == "put-match":
            expected, headers["If-Match"] = self.known(rng, key)
        target, method, body = f"/box/{key}", "PUT", self.body(value, rng.choice(SIZES))
        if rng.random() < 0.2:
            upload = begin_upload(rng.choice(self.nodes), target)
            part = put_part(rng.choice(self.nodes), target, upload, 1, self.body(value, SMALL_PART))
            target, method = f"{target}?uploadId={upload}", "POST"
            body = complete_xml([(1, part.headers["etag"])]).encode()
        called = time.monotonic()
        connection.request(method, target, body, headers)
        answer = connection.getresponse()
        text = answer.read()
        returned = time.monotonic()
        etag = answer.headers["etag"]
        if method == "POST" and answer.status == 200:
            etag = text.split(b"<ETag>")[1].split(b"</ETag>")[0].decode().replace("&quot;", '"')
        self.note(key, Operation(kind, called, returned, outcome_of(answer.status, text), value, expected), etag if answer.status == 200 else None)

    def remove(self, connection, key, kind, rng):
        headers, expected = {}, None
        if kind == "delete-match":
            expected, headers["If-Match"] = self.known(rng, key)
        called = time.monotonic()
        connection.request("DELETE", f"/box/{key}", None, headers)
        answer = connection.getresponse()
        text = answer.read()
        self.note(key, Operation(kind, called, time.monotonic(), outcome_of(answer.status, text), None, expected))

    def read(self, connection, key):
        called = time.monotonic()
        connection.request("GET", f"/box/{key}", headers={"x-millrace-redirect": "no"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status in (200, 404), (answer.status, body)
        seen = body.split(b" ")[0].decode() if answer.status == 200 else None
        assert seen is None or body == self.body(seen, len(body)), "a mixed or cut body"
        self.note(key, Operation("get", called, time.monotonic(), seen=seen))

    def run(self, number):
        rng = random.Random(self.seed * 1000 + number)
        connection = http.client.HTTPConnection("127.0.0.1", self.nodes[number % len(self.nodes)].port, timeout=60)
        for step in range(STEPS):
            key = rng.choice(sorted(self.histories))
            kind = rng.choice(["put", "put", "put-absent", "put-match", "delete", "delete-match", "get", "get", "get"])
            if kind == "get":
                self.read(connection, key)
            elif kind.startswith("delete"):
                self.remove(connection, key, kind, rng)
            else:
                self.write(connection, key, kind, f"v{number}.{step}", rng)
        connection.close()


def outcome_of(status, text):
    outcomes = {200: "done", 204: "done", 412: "refused", 404: "absent", 503: "unknown", 500: "unknown"}
    assert status in outcomes, (status, text)
    return outcomes[status]


def check_histories(nodes):
    seed = time.time_ns() % 1_000_000
    print("seed", seed)
    clients = Clients(nodes, seed)
    in_threads(CLIENTS, clients.run)
    assert sum(len(history) for history in clients.histories.values()) == CLIENTS * STEPS
    for key, history in clients.histories.items():
        assert find_order(history) is not None, (seed, key, sorted(history, key=lambda one: one.called))


@pytest.mark.parametrize("drives", [1, 2])
def test_what_64_clients_saw_can_have_happened_in_one_order(tmp_path, drives):
    flags = [word for number in range(drives) for word in ("--drive", tmp_path / f"d{number}")]
    with Node(tmp_path, *flags) as node:
        assert node.ask("PUT", "/box").status == 200
        check_histories([node])


@pytest.mark.parametrize("redundancy", ["copies=2", "2+1"])
def test_what_64_clients_of_three_nodes_saw_can_have_happened_in_one_order(tmp_path, redundancy):
    with Cluster(tmp_path, 3) as cluster:
        cluster.make_bucket("box", redundancy=redundancy)
        check_histories(cluster.nodes)
