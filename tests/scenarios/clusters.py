"""A real cluster for a test: several nodes on loopback that share a registry, killed and restarted by pid."""
import hashlib
import http.client
import json
import time

from nodes import Node, lasting_port
from store_client import wait_until

LEASE_SECONDS = 6
# After a loss, writes go on within this time.
RECOVERY_SECONDS = LEASE_SECONDS + 2


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
        assert self.living[0].ask("PUT", f"/{name}").status == 200
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
