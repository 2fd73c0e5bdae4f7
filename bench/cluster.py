"""What a cluster costs beside a node alone: CPU time of all nodes per byte, everything on loopback.

    ./dev bench cluster

A node alone and nodes of clusters run at the same time and are asked by turns; every figure is a ratio within a round.
CPU time is that of all nodes of a contender added up; the client's is not counted. Large objects have 100 MB.
"""

import http.client
import json
import pathlib
import random
import shutil
import socket
import subprocess
import time

import store_get
import verdicts

ROOT = pathlib.Path(__file__).resolve().parent.parent
MILLRACE = str(ROOT / "build/release/millrace")
WORK = ROOT / "build/bench-data/cluster"
LARGE = 100_000_000
SMALL = 1 << 20
SMALLS = 64


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Node:
    def __init__(self, directory, registry=None, *flags):
        self.port = free_port()
        command = [MILLRACE, "up", "--data", str(directory), "--listen", f"127.0.0.1:{self.port}", "--set", "scrub_rate=0"]
        if registry:
            command += ["--registry", str(registry)]
        command += flags
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(f"{directory}.log", "wb"))
        self.wait()

    def wait(self):
        for _ in range(300):
            try:
                if self.request("GET", "/-/ready")[0] == 200:
                    return
            except OSError:
                pass
            if self.process.poll() is not None:
                raise SystemExit(f"a node ended with {self.process.returncode}")
            time.sleep(0.1)
        raise SystemExit("a node is not ready after 30 s")

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, data

    def must(self, method, path, body=None, headers=None):
        status, data = self.request(method, path, body, headers)
        if status >= 300:
            raise SystemExit(f"{method} {path}: {status} {data[:300]}")
        return data

    def fetch(self, path):
        """Reads and drops a body through this node, by curl: Python would be slower than the nodes."""
        subprocess.run(["curl", "-sf", "-H", "x-millrace-redirect: no", "-o", "/dev/null", f"http://127.0.0.1:{self.port}{path}"], check=True)

    def send(self, path, file):
        subprocess.run(["curl", "-sf", "-o", "/dev/null", "-T", str(file), f"http://127.0.0.1:{self.port}{path}"], check=True)


class Cluster:
    def __init__(self, name, nodes, *flags):
        registry = WORK / f"{name}-registry"
        self.nodes = [Node(WORK / f"{name}-{i}", registry, *flags) for i in range(nodes)]

    def make_bucket(self, name, redundancy):
        self.nodes[0].must("PUT", f"/{name}", None, {"x-millrace-redundancy": redundancy})

    def holder_of(self, bucket, key):
        found = json.loads(self.nodes[0].must("GET", f"/-/cluster/where?bucket={bucket}&key={key}"))
        port = int(found["slots"][0]["address"].rsplit(":", 1)[1])
        return next(node for node in self.nodes if node.port == port)

    def stop(self):
        for node in self.nodes:
            if node.process.poll() is None:
                node.process.terminate()
        for node in self.nodes:
            node.process.wait()


def cpu(nodes, work):
    alive = [node for node in nodes if node.process.poll() is None]
    before = sum(store_get.cpu_seconds(node.process.pid) for node in alive)
    work()
    return sum(store_get.cpu_seconds(node.process.pid) for node in alive) - before


def run(table):
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    large, small = WORK / "large", WORK / "small"
    large.write_bytes(random.Random(1).randbytes(LARGE))
    small.write_bytes(random.Random(2).randbytes(SMALL))
    alone = Node(WORK / "alone")
    alone.must("PUT", "/bench")
    alone.send("/bench/large", large)
    alone.send("/bench/small", small)
    pair, six = Cluster("pair", 2), Cluster("six", 6)
    try:
        pair.make_bucket("bench", "none")
        pair.nodes[0].send("/bench/small", small)
        pair.nodes[0].send("/bench/large", large)
        six.make_bucket("bench", "4+2")
        six.nodes[0].send("/bench/large", large)
        measure(table, alone, pair, six, large)
    finally:
        pair.stop()
        six.stop()
        alone.process.terminate()
        alone.process.wait()
        shutil.rmtree(WORK, ignore_errors=True)


def measure(table, alone, pair, six, large):
    print("\na cluster beside a node alone: CPU time of all nodes, ratios")
    holder = pair.holder_of("bench", "large")
    other = next(node for node in pair.nodes if node is not holder)
    names = ["GET 100 MB of the holder / of a node alone", "GET 100 MB relayed / of the holder",
             "GET 1 MiB relayed / of the holder", "PUT 100 MB 4+2 over 6 nodes / of a node alone",
             "GET 100 MB 4+2, all up / relayed", "GET 100 MB 4+2, two nodes lost / relayed"]
    ratios = {name: [] for name in names}
    small_holder = pair.holder_of("bench", "small")
    small_other = next(node for node in pair.nodes if node is not small_holder)
    relayed_costs = []
    for _ in range(table.rounds):
        base_get = cpu([alone], lambda: [alone.fetch("/bench/large") for _ in range(5)])
        direct = cpu(pair.nodes, lambda: [holder.fetch("/bench/large") for _ in range(5)])
        relayed = cpu(pair.nodes, lambda: [other.fetch("/bench/large") for _ in range(5)])
        relayed_costs.append(relayed)
        small_direct = cpu(pair.nodes, lambda: [small_holder.fetch("/bench/small") for _ in range(SMALLS)])
        small_relayed = cpu(pair.nodes, lambda: [small_other.fetch("/bench/small") for _ in range(SMALLS)])
        base_put = cpu([alone], lambda: [alone.send(f"/bench/put{i}", large) for i in range(3)])
        put = cpu(six.nodes, lambda: [six.nodes[i].send(f"/bench/put{i}", large) for i in range(3)])
        striped = cpu(six.nodes, lambda: [six.nodes[1].fetch("/bench/large") for _ in range(5)])
        for name, value in zip(names, [direct / base_get, relayed / direct, small_relayed / small_direct,
                                       put / base_put, striped / relayed]):
            ratios[name].append(value)
    for node in six.nodes[4:]:
        node.process.kill()
        node.process.wait()
    six.nodes[0].fetch("/bench/large")
    for relayed in relayed_costs:
        degraded = cpu(six.nodes, lambda: [six.nodes[1].fetch("/bench/large") for _ in range(5)])
        ratios[names[5]].append(degraded / relayed)
    goals = [verdicts.at_most(1.03), None, verdicts.at_most(3.0), verdicts.at_most(3.0), verdicts.at_most(1.3), verdicts.at_most(1.7)]
    for name, goal in zip(names, goals):
        verdicts.judge(table, name, ratios[name], goal)
