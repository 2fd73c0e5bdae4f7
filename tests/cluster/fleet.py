"""A cluster as it is run for real: every node at an address of its own, in a zone, with keys and several drives."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import subprocess
import sys

import clusters
import network
from etcd import Etcd
from lossy import Lossy, program as lossy_program
from nodes import Answer, Node
from program import Millrace
from store_client import Signer, wait_until

DRIVES = 2
NODES_PER_ZONE = 2
FASTEST_HEALING = ("--set", "heal_after=1s", "--set", "heal_share=100")


class NotSent(OSError):
    """No connection came about, so that nothing can have happened."""


class FleetNode(Node):
    """Signs its requests with the fleet's key."""

    def __init__(self, fleet, name, zone, place):
        super().__init__(fleet.directory / name, "--registry", fleet.registry, "--zone", zone, *fleet.flags,
                         host=place.host, port=place.port(9400))
        self.name, self.place, self.fleet, self.before = name, place, fleet, place.before
        self.directory.mkdir()
        self.address, self.line = self.listen, None
        if fleet.has_lines:
            self.line = Line(self, place.port(9401))
            self.address = self.line.address
            self.flags += ["--set", f"advertise={self.address}"]
        self.drives = [self.directory / f"drive{number}" for number in range(DRIVES)]
        for drive in self.drives:
            self.flags += ["--drive", str(drive)]
        # The file system of the last drive can be made to fail, to stand still, and to lose what was not flushed.
        self.volume = Lossy(self.drives[-1]).__enter__() if fleet.has_volumes else None

    def ask(self, method, path, body=None, headers=None, timeout=30):
        signed = {"x-millrace-redirect": "no", **(headers or {})}
        if self.fleet.key is not None:
            signed = Signer(self, *self.fleet.key).headers(method, path, b"", signed, payload="UNSIGNED-PAYLOAD")
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            try:
                connection.connect()
            except OSError as error:
                raise NotSent(str(error)) from error
            connection.request(method, path, body=body, headers=signed)
            response = connection.getresponse()
            return Answer(response, response.read())
        finally:
            connection.close()

    @property
    def is_running(self):
        return clusters.is_running(self)


class Line:
    """What other nodes send to a node passes through a program that can be told to spoil it (proxy.py)."""

    def __init__(self, node, port):
        self.address = f"{node.host}:{port}"
        self.control = node.directory / "line"
        self.spoil("pass", 0)
        self.process = subprocess.Popen([*node.before, sys.executable, pathlib.Path(__file__).with_name("proxy.py"), node.host, str(port), str(node.port),
                                         self.control], stderr=subprocess.DEVNULL)

    def spoil(self, mode, number):
        self.control.write_text(f"{mode} {number}\n")

    def close(self):
        self.process.kill()
        self.process.wait()


class Fleet(clusters.Cluster):
    """`registry`: "files" or "etcd". Everything that it starts ends with close(), whatever state it is in."""

    def __init__(self, directory, count, registry="files", flags=FASTEST_HEALING, special=()):
        """`special`: "lines" between nodes that can be spoiled, "volumes" that can be made to fail."""
        self.has_lines, self.has_volumes = "lines" in special, "volumes" in special
        self.directory, self.flags, self.key, self.etcd, self.nodes, self.former = directory, flags, None, None, [], []
        self.network = network.open_network()
        try:
            self.registry = directory / "registry"
            if registry == "etcd":
                self.etcd = Etcd(directory / "etcd", self.network)
                self.registry = self.etcd.address
            for _ in range(count):
                self.add_node()
        except BaseException:
            self.close()
            raise

    def add_node(self):
        number = len(self.nodes) + len(self.former)
        node = FleetNode(self, f"n{number}", f"z{number // NODES_PER_ZONE}", self.network.add(f"n{number}"))
        self.nodes.append(node)
        return node

    def start(self):
        if self.etcd:
            self.etcd.start()
        first = self.nodes[0]
        (first.directory / "data").mkdir(mode=0o700)
        made, = Millrace(self.directory).json("keys", "create", "--data", first.directory / "data", "--admin")
        self.key = made["access_key"], made["secret_key"]
        first.start()
        for node in self.nodes[1:]:
            self.join(node)
        for node in self.nodes:
            node.wait_until_ready()
        self.wait_until_serving(self.nodes)
        return self

    def join(self, node):
        """Starts a node that was never a part of the cluster."""
        if self.etcd:
            told = clusters.until_answered(lambda: self.living[0].ask("POST", "/-/cluster", '{"action": "token", "valid_seconds": 3600}'))
            assert told.status == 200, told.body
            node.flags += ["--join", told.json["token"]]
        node.start(wait=False)

    def told(self):
        """The cluster as the first node says that answers; None where none does."""
        for node in self.living:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                answer = node.ask("GET", "/-/cluster", timeout=5)
                if answer.status == 200:
                    return answer.json
        return None

    def number_of(self, node):
        return next(one["number"] for one in self.told()["nodes"] if one["address"] == node.address)

    def change(self, action, node):
        """Drains or removes a node through any other that answers."""
        asked = next(one for one in self.living if one is not node)
        return asked.ask("POST", "/-/cluster", json.dumps({"action": action, "node": self.number_of(node)}))

    def is_clean(self):
        """Every node that serves found all its objects in order by the newest map."""
        told = self.told()
        if told is None:
            return False
        rows = [one for one in told["nodes"] if one["state"] in ("serving", "draining")]
        return all(one.get("progress") and one["progress"]["clean"] == told["epoch"] for one in rows)

    def wait_until_clean(self, seconds):
        wait_until(self.is_clean, "not everything was found in order", seconds)

    def wait_until_serving(self, nodes, seconds=60):
        """Until every running node has a map in which these nodes serve or drain, and no other does."""
        wanted = sorted(node.address for node in nodes)

        def together():
            for node in self.living:
                with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError):
                    if sorted(one["address"] for one in node.get("/-/cluster").json["nodes"] if one["state"] in ("serving", "draining")) == wanted:
                        continue
                return False
            return True

        wait_until(together, f"never served together: {wanted}", seconds)

    def close(self):
        for node in self.nodes + self.former:
            if node.is_running:
                node.process.kill()
                node.process.wait()
            if node.line:
                node.line.close()
        if self.etcd:
            self.etcd.close()
        # Last: every process in a namespace has the mounts of the moment at which it began, and keeps them busy.
        for node in self.nodes + self.former:
            if node.volume:
                node.volume.__exit__()
        self.network.close()

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind, *_):
        self.close()
        if kind is None:
            # Each drive keeps some hundred MB in reserve; what failed stays to be looked at.
            shutil.rmtree(self.directory, ignore_errors=True)


def can_mount():
    return os.geteuid() == 0 and os.path.exists(lossy_program())


def skewed(seconds):
    """The environment of a process whose wall clock is off, while the clocks that measure time are right; None without libfaketime."""
    library = next((path for path in ("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1")
                    if os.path.exists(path)), None)
    if library is None:
        return None
    return {"LD_PRELOAD": library, "FAKETIME": f"{seconds:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1", "FAKETIME_NO_CACHE": "0"}
