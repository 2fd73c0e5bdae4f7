"""The redundancy of a bucket is changed while it holds objects: they are encoded anew, and can be read and written meanwhile."""
import http.client
import json

import pytest
from archives import Sample, write_shard
from clusters import Cluster, Objects, pattern, until_answered, where
from store_client import MIB, in_threads, put_in_parts, wait_until

NODES = 6
SIZES = [0, 100, 20_000, 131_072, 131_073, 3 * MIB + 17]
HEAL_SOON = ("--set", "heal_after=1s", "--set", "heal_share=100")
# Copies to stripes and back; another k; another m alone, up and down.
CHANGES = ["2+1", "copies=3", "4+1", "4+2", "4+1", "copies=2", "none"]


def slots(redundancy, size):
    """k and m of an object of this size."""
    k, m = {"none": (1, 0), "copies=2": (1, 1), "copies=3": (1, 2)}.get(redundancy) or map(int, redundancy.split("+"))
    return (k, m) if size > 131_072 else (1, m)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"), NODES, *HEAL_SOON) as running:
        yield running


def change(node, bucket, redundancy):
    answer = node.ask("PUT", f"/-/buckets/{bucket}", json.dumps({"redundancy": redundancy}))
    assert answer.status == 200 and answer.json["redundancy"] == redundancy, answer.body


def is_spread(node, objects, redundancy):
    for path, body in objects.bodies.items():
        found = where(node, path)
        k, m = slots(redundancy, len(body))
        if (found["k"], found["m"], sum(slot["alive"] for slot in found["slots"])) != (k, m, k + m):
            return False
    return True


def test_objects_are_encoded_anew_and_stay_what_they_are(cluster):
    objects = Objects()
    cluster.make_bucket("changing", redundancy="copies=2")
    for number, size in enumerate(SIZES * 2):
        objects.put(cluster.nodes[number % NODES], f"/changing/o{number}", pattern(number, size))
    shown = {path: cluster.nodes[0].ask("HEAD", path).headers for path in objects.bodies}
    for turn, redundancy in enumerate(CHANGES):
        change(cluster.nodes[turn % NODES], "changing", redundancy)
        objects.check(cluster.nodes[(turn + 1) % NODES], ranged=False)
        wait_until(lambda: is_spread(cluster.nodes[0], objects, redundancy), f"never {redundancy}", 120)
        objects.check(cluster.nodes[(turn + 2) % NODES], ranged=turn == 2)
        for path in objects.bodies:
            now = cluster.nodes[turn % NODES].ask("HEAD", path).headers
            assert all(now[name] == shown[path][name] for name in ("etag", "last-modified", "content-length")), path


def test_an_upload_in_parts_and_a_shards_index_come_along(cluster, tmp_path):
    body = pattern("parts", 11 * MIB)
    cluster.make_bucket("parted", redundancy="copies=2")
    put_in_parts(cluster.nodes[0], "/parted/whole", [body[:6 * MIB], body[6 * MIB:]])
    objects = Objects()
    objects.bodies["/parted/whole"] = body
    shard = write_shard(tmp_path / "s.tar", [Sample(f"{number:04}", {"bin": pattern(number, 3000)}) for number in range(100)])
    objects.put(cluster.nodes[1], "/parted/s.tar", shard.read_bytes())
    index = until_answered(lambda: cluster.nodes[2].get("/parted/s.tar?index")).body
    for redundancy in ("4+2", "none", "2+1"):
        change(cluster.nodes[1], "parted", redundancy)
        for node in cluster.nodes:
            objects.check(node, ranged=False)
            assert node.get("/parted/s.tar?index").body == index

    def verified():
        """Every slice of every part and index, by the word of those who hold them."""
        count, page = 0, {"bucket": "parted"}
        while page:
            told = cluster.nodes[0].ask("POST", "/-/cluster/verify", json.dumps(page)).json
            if (told["findings"], told["below_redundancy"]) != ([], 0):
                return False
            count, page = count + told["objects"], told.get("next") and {"bucket": "parted", "next": told["next"]}
        return count >= 5

    wait_until(verified, "never whole", 60)
    objects.check_all(cluster.nodes, ranged=False)


def test_writes_and_reads_go_on_while_objects_are_encoded_anew(cluster):
    cluster.make_bucket("busy", redundancy="copies=3")
    objects = Objects()
    for number in range(40):
        objects.put(cluster.nodes[number % NODES], f"/busy/o{number:02}", pattern(("first", number), 300_000))

    def work(worker):
        """Each has keys of its own, so that it knows what it wrote last."""
        node = cluster.nodes[worker]
        for turn in range(20):
            path = f"/busy/o{worker + NODES * (turn % 6):02}"
            assert node.get(path).body == objects.bodies[path], (worker, turn)
            if turn % 3 == 0:
                objects.put(node, path, pattern((worker, turn), 250_000 + turn))
            if turn % 7 == 6:
                assert until_answered(lambda: node.ask("DELETE", path)).status == 204
                assert node.get(path).status == 404
                objects.put(cluster.nodes[(worker + 1) % NODES], path, pattern((worker, turn, "again"), 400_000))

    def work_or_change(number):
        if number < NODES:
            return work(number)
        for redundancy in ("4+2", "copies=2", "2+1"):
            change(cluster.nodes[0], "busy", redundancy)

    in_threads(NODES + 1, work_or_change)
    wait_until(lambda: is_spread(cluster.nodes[0], objects, "2+1"), "never 2+1", 120)
    objects.check_all(cluster.nodes, ranged=False)
    cluster.kill(cluster.nodes[5])
    try:
        objects.check(cluster.nodes[1], ranged=False)
    finally:
        cluster.restart(cluster.nodes[5])
        cluster.wait_until_serving(cluster.nodes)


def test_a_reader_goes_on_when_its_object_is_encoded_anew(cluster):
    body = pattern("slow", 24 * MIB)
    objects = Objects()
    cluster.make_bucket("slow", redundancy="copies=2")
    objects.put(cluster.nodes[0], "/slow/o", body)
    connection = http.client.HTTPConnection("127.0.0.1", cluster.nodes[1].port, timeout=60)
    connection.request("GET", "/slow/o", headers={"x-millrace-redirect": "no"})
    answer = connection.getresponse()
    begun = answer.read(MIB)
    for redundancy in ("4+2", "2+1"):
        change(cluster.nodes[2], "slow", redundancy)
        wait_until(lambda: is_spread(cluster.nodes[0], objects, redundancy), f"never {redundancy}", 60)
    assert begun + answer.read() == body
    connection.close()
