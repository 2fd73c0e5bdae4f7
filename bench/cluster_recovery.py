"""How soon a cluster goes on after a node is killed, how fast a lost drive is made anew, how fast it lists.

    ./dev bench cluster_recovery

Five nodes on loopback. A client asks the others in turns until it is answered: the time from kill -9 to the first good read and the first good
write of objects of the killed node. A lost node's slices are made anew with `heal_share` 100; the peer is writing as many bytes to the
same drive in sequence, flushed. 20 000 keys are listed by pages of 1 000 from four nodes with copies=2, and from a node alone.
"""
import http.client
import json
import os
import random
import shutil
import time
import urllib.parse

import cluster
import verdicts
from cluster import WORK, Cluster, Node

BYTES = 64_000_000
OBJECTS = 8
KEYS = 20_000
PAGE = 1000
LEASE = 6


def first_answer(nodes, ask):
    """Seconds until one of the nodes, asked in turns, answers well."""
    began = time.monotonic()
    while True:
        for node in nodes:
            try:
                if ask(node)[0] in (200, 204):
                    return time.monotonic() - began
            except OSError:
                pass
        time.sleep(0.01)


def holders(node, path):
    bucket, key = path.strip("/").split("/", 1)
    slots = json.loads(node.must("GET", f"/-/cluster/where?bucket={bucket}&key={key}"))["slots"]
    return [slot["address"] for slot in slots if slot["alive"]]


def wait_until_serving(nodes, count):
    while sum(one["state"] == "serving" for one in json.loads(nodes[0].must("GET", "/-/cluster"))["nodes"]) != count:
        time.sleep(0.05)


def survive(table):
    """kill -9 of the home of an object."""
    reads, writes = [], []
    for number in range(table.rounds):
        group = Cluster(f"killed{number}", 5)
        try:
            group.make_bucket("bench", "copies=3")
            wait_until_serving(group.nodes, 5)
            group.nodes[0].must("PUT", "/bench/key", os.urandom(200_000))
            home = holders(group.nodes[0], "/bench/key")[0]
            victim = next(node for node in group.nodes if home.endswith(f":{node.port}"))
            left = [node for node in group.nodes if node is not victim]
            victim.process.kill()
            reads.append(first_answer(left, lambda node: node.request("GET", "/bench/key")))
            writes.append(reads[-1] + first_answer(left, lambda node: node.request("PUT", "/bench/key", b"new")))
            victim.process.wait()
        finally:
            group.stop()
    verdicts.judge(table, "seconds from kill to the first read", reads, verdicts.at_most(1.0))
    verdicts.judge(table, "seconds from kill to the first write", writes, verdicts.at_most(LEASE + 2))


def write_in_sequence(path, size):
    """Bytes a second of writing so many bytes to the drive, flushed."""
    block = os.urandom(1 << 20)
    began = time.monotonic()
    with open(path, "wb", buffering=0) as file:
        for _ in range(size >> 20):
            file.write(block)
        os.fsync(file.fileno())
    took = time.monotonic() - began
    path.unlink()
    return size / took


def rebuild(table):
    """A lost node's slices, from the moment at which they are waited for no longer."""
    ratios = []
    body = random.Random(3).randbytes(BYTES)
    for number in range(table.rounds):
        group = Cluster(f"rebuilt{number}", 4, "--set", "heal_after=1s", "--set", "heal_share=100")
        try:
            group.make_bucket("bench", "copies=2")
            wait_until_serving(group.nodes, 4)
            paths = [f"/bench/o{i}" for i in range(OBJECTS)]
            for path in paths:
                group.nodes[0].must("PUT", path, body)
            victim, left = group.nodes[3], group.nodes[:3]
            lost = sum(any(one.endswith(f":{victim.port}") for one in holders(left[0], path)) for path in paths)
            if lost == 0:
                continue
            victim.process.kill()
            victim.process.wait()
            def built():
                nodes = json.loads(left[0].must("GET", "/-/cluster"))["nodes"]
                return sum(one.get("progress", {}).get("slices_built", 0) for one in nodes)

            while built() == 0:
                time.sleep(0.005)
            began = time.monotonic()
            while built() < lost:
                time.sleep(0.005)
            took = time.monotonic() - began
            # The first one was finished when the time began.
            rate = (lost - 1) * BYTES / took if lost > 1 else None
            if rate:
                ratios.append(rate / write_in_sequence(WORK / "sequence", BYTES * (lost - 1)))
        finally:
            group.stop()
            shutil.rmtree(WORK, ignore_errors=True)
            WORK.mkdir(parents=True)
    verdicts.judge(table, "a lost node made anew / writing in sequence", ratios, verdicts.at_least(0.6))


def list_all(node):
    began, token, found = time.monotonic(), "", 0
    while True:
        query = {"list-type": "2", "max-keys": PAGE, **({"continuation-token": token} if token else {})}
        text = node.must("GET", "/bench?" + urllib.parse.urlencode(query)).decode()
        found += text.count("<Key>")
        if "<IsTruncated>true" not in text:
            return found / (time.monotonic() - began), found
        token = text.split("<NextContinuationToken>")[1].split("<")[0]


def fill(node):
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=60)
    for number in range(KEYS):
        connection.request("PUT", f"/bench/prefix/{number:08}", b"x")
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise SystemExit(f"a PUT was answered {answer.status}")
    connection.close()


def lists(table):
    (WORK / "alone").mkdir(exist_ok=True)
    alone = Node(WORK / "alone")
    group = Cluster("listed", 4)
    try:
        alone.must("PUT", "/bench")
        group.make_bucket("bench", "copies=2")
        wait_until_serving(group.nodes, 4)
        fill(alone)
        fill(group.nodes[0])
        ratios = []
        for number in range(table.rounds):
            one, many = list_all(alone), list_all(group.nodes[number % 4])
            if one[1] != KEYS or many[1] != KEYS:
                raise SystemExit(f"lists have {one[1]} and {many[1]} keys, not {KEYS}")
            ratios.append(many[0] / one[0])
    finally:
        group.stop()
        alone.process.terminate()
        alone.process.wait()
    verdicts.judge(table, "keys listed a second, 4 nodes / a node alone", ratios, verdicts.at_least(0.5))


def run(table):
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    print("\na cluster after losses, and its lists")
    try:
        survive(table)
        rebuild(table)
        lists(table)
    finally:
        shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    verdicts.main(__doc__, {"cluster_recovery": run})
