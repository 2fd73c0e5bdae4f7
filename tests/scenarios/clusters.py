"""A real cluster for a test: several nodes on loopback that share a registry, killed and restarted by pid."""
import hashlib
import http.client
import itertools
import json
import os
import re
import time

from nodes import Node, lasting_port
from store_client import MIB, in_threads, put_in_parts, wait_until

LEASE_SECONDS = 6
# After a loss, writes go on within this time.
RECOVERY_SECONDS = LEASE_SECONDS + 2
KIB64 = 64 << 10


class Cluster:
    def __init__(self, directory, count, *flags):
        self.directory = directory
        self.nodes = []
        for number in range(count):
            (directory / f"n{number}").mkdir()
            self.nodes.append(Node(directory / f"n{number}", "--registry", directory / "registry", *flags, port=lasting_port()))

    @property
    def living(self):
        return [node for node in self.nodes if is_running(node)]

    def make_bucket(self, name, **settings):
        headers = {f"x-millrace-{word}": str(settings.pop(word)) for word in ("redundancy", "floor") if word in settings}
        assert self.living[0].ask("PUT", f"/{name}", None, headers).status == 200
        if settings:
            answer = self.living[0].ask("PUT", f"/-/buckets/{name}", json.dumps(settings))
            assert answer.status == 200, answer.body
        return name

    def wait_until_serving(self, nodes, seconds=60):
        """Until every running node has a map in which exactly these nodes serve."""
        wanted = sorted(node.listen for node in nodes)
        wait_until(lambda: all(serving(node) == wanted for node in self.living), f"never served together: {wanted}", seconds)

    def start(self):
        for node in self.nodes:
            node.start(wait=False)
        for node in self.nodes:
            node.wait_until_ready()
        self.wait_until_serving(self.nodes)
        return self

    def kill(self, *nodes):
        for node in nodes:
            node.process.kill()
        for node in nodes:
            node.process.wait()

    def restart(self, *nodes):
        for node in nodes:
            node.start(wait=False)
        for node in nodes:
            node.wait_until_ready()

    def make_whole(self):
        """Those that were killed serve again."""
        self.restart(*(node for node in self.nodes if node not in self.living))
        self.wait_until_serving(self.nodes)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.kill(*self.living)
            raise

    def __exit__(self, kind, *_):
        try:
            for node in self.living if kind is None else ():
                node.stop()
        finally:
            self.kill(*self.living)


# Copies, slices, and objects that came in parts.
SHARD_BUCKETS = {"pairs": "copies=2", "stripes": "2+1", "uploads": "2+1"}


def fill_with_shards(cluster, shards):
    """Puts these files into each of SHARD_BUCKETS, through one node after the other."""
    for bucket, redundancy in SHARD_BUCKETS.items():
        cluster.make_bucket(bucket, redundancy=redundancy)
        for node, shard in zip(itertools.cycle(cluster.nodes), shards):
            body, path = shard.read_bytes(), f"/{bucket}/{shard.name}"
            if bucket == "uploads":
                put_in_parts(node, path, [body[:5 * MIB], body[5 * MIB:]])
            else:
                assert node.put(path, body).status == 200


class EveryNode(Node):
    """Asks another node of a cluster with each request."""

    def __init__(self, cluster):
        self.nodes = itertools.cycle(cluster.nodes)

    def ask(self, *words, **options):
        return next(self.nodes).ask(*words, **options)


def is_running(node):
    return node.process is not None and node.process.poll() is None


def serving(node):
    """The addresses of the nodes that serve, as this node knows them."""
    return sorted(one["address"] for one in node.get("/-/cluster").json["nodes"] if one["state"] == "serving")


def until_answered(ask, seconds=RECOVERY_SECONDS):
    """The first answer that is not 503. One that is not there `seconds` after the first request fails the test."""
    until = time.monotonic() + seconds
    while True:
        answer = ask()
        if answer.status != 503:
            return answer
        assert time.monotonic() < until, f"503 for more than {seconds} s: {answer.body}"
        time.sleep(0.05)


def pattern(seed, size):
    """Bytes that no other seed has, and that no shift of them has."""
    return hashlib.shake_128(str(seed).encode()).digest(size)


def put_chunked(node, path, body):
    """A PUT that does not say its size."""
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=60)
    try:
        connection.request("PUT", path, iter([body[at:at + 50_000] for at in range(0, len(body), 50_000)]), encode_chunked=True,
                           headers={"Transfer-Encoding": "chunked"})
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def coded_ranges(size):
    """Ranges within and across cells of every size that such an object can have."""
    found = {(0, 0), (size - 1, size - 1), (size // 3, size // 3 + 5), (size // 2, size - 1)}
    for cell in (KIB64, 2 * KIB64, MIB - KIB64, MIB):
        for border in (cell, 3 * cell, 4 * cell):
            found |= {(border - 1, border), (border - 10, border + cell + 10), (border, border + cell - 1)}
    return sorted({(first, min(last, size - 1)) for first, last in found if 0 <= first < size and first <= last})


class Objects:
    """What was written, so that it can be compared through any node."""

    def __init__(self):
        self.bodies = {}

    def put(self, node, path, body):
        answer = until_answered(lambda: node.put(path, body))
        assert answer.status == 200, (path, answer.body)
        self.bodies[path] = body

    def check(self, node, paths=None, ranged=True):
        for path in paths or self.bodies:
            body = self.bodies[path]
            answer = node.get(path)
            assert (answer.status, len(answer.body)) == (200, len(body)) and answer.body == body, (path, answer.status, answer.body[:300])
            for first, last in coded_ranges(len(body)) if ranged else ():
                part = node.get(path, Range=f"bytes={first}-{last}")
                assert part.status == 206 and part.body == body[first:last + 1], (path, first, last, part.status)

    def check_all(self, nodes, **options):
        in_threads(len(nodes), lambda number: self.check(nodes[number], **options))

    def keys(self, bucket):
        return sorted(path.removeprefix(f"/{bucket}/") for path in self.bodies if path.startswith(f"/{bucket}/"))


def where(node, path):
    """Where the slices of an object lie, as the node knows it."""
    bucket, key = path.strip("/").split("/", 1)
    answer = node.get(f"/-/cluster/where?bucket={bucket}&key={key}")
    assert answer.status == 200, answer.body
    return answer.json


def slice_files(cluster):
    """The files of slices, by address of their node."""
    return {node.listen: set(node.directory.glob("data/**/data/*/*")) for node in cluster.nodes}


def put_and_find(cluster, objects, path, body):
    """Writes an object, and says which file of which node is the slice of which slot."""
    before = slice_files(cluster)
    objects.put(cluster.nodes[0], path, body)
    now = slice_files(cluster)
    files = {}
    for slot in where(cluster.nodes[0], path)["slots"]:
        # The newest: a PUT that was answered 503 may have left others.
        file = max(now[slot["address"]] - before[slot["address"]], key=lambda one: one.stat().st_mtime_ns)
        files[slot["slot"]] = (file, slot)
    return files


def flip(file, offset):
    with open(file, "r+b") as opened:
        opened.seek(offset)
        byte = opened.read(1)
        opened.seek(offset)
        opened.write(bytes([byte[0] ^ 0x40]))
        os.fsync(opened.fileno())


def holders(node, path):
    """The addresses of the nodes that hold slices of an object and can be reached, by slot."""
    return [slot["address"] for slot in where(node, path)["slots"] if slot["alive"]]


def progress(node):
    """What the walks of each node found, by address."""
    return {one["address"]: one.get("progress") for one in node.get("/-/cluster").json["nodes"]}


def sent(nodes):
    """Bytes of answers that these nodes have sent so far."""
    return sum(float(count) for node in nodes
               for count in re.findall(r"^millrace_request_sent_bytes_total\S* (\S+)$", node.get("/-/metrics").body.decode(), re.M))
