"""Small writes by the hundred thousand: processes that put, replace and remove small objects, and a check of every key at the end.

Each process has keys of its own, so it knows for each what may be there: the last acknowledged write, or a later one whose outcome
nobody knows. A key with such a write is left alone from then on. The final lists of all nodes must name for every key the ETag (the
MD5, for objects this small) of a write that may be there.
"""
import hashlib
import http.client
import json
import multiprocessing
import random
import time
import types

from history import outcome_of
from payload import make
from store_client import Signer, parse

BUCKET = "flood"
TIMEOUT = 20
NEW, REPLACE = 85, 10  # in a hundred; the rest is removed
MOST_RECENT = 2000     # keys that may be replaced or removed
BROKEN = (OSError, http.client.HTTPException)


def etag_of(name, version):
    size = 100 + (version * 131) % 800
    return hashlib.md5(make(name, version, size)).hexdigest(), size


class Writer:
    """One process's part. `possible` of a key: the versions that may be there; None: no object."""

    def __init__(self, number, nodes, key, seed):
        self.number, self.nodes, self.key = number, nodes, key
        self.rng = random.Random(f"flood {seed} {number}")
        self.connections = {}
        self.version = 0
        self.possible, self.recent = {}, []
        self.counts = {"put": 0, "delete": 0, "unknown": 0, "not sent": 0}

    def run(self, stopping):
        while not stopping.is_set():
            kind = self.rng.randrange(100)
            if kind < NEW or not self.recent:
                self.put(f"p{self.number}/{len(self.possible):07d}")
                continue
            at = self.rng.randrange(len(self.recent))
            name = self.recent[at]
            if kind < NEW + REPLACE:
                self.put(name)
            else:
                self.write("DELETE", name, None, None)

    def put(self, name):
        self.version += 1
        _, size = etag_of(name, self.version)
        self.write("PUT", name, make(name, self.version, size), self.version)

    def write(self, method, name, body, version):
        outcome = self.ask(method, f"/{BUCKET}/{name}", body)
        if outcome == "not sent":
            self.counts[outcome] += 1
            return
        is_new = name not in self.possible
        if outcome == "unknown":
            self.counts["unknown"] += 1
            self.possible[name] = [*self.possible.get(name, [None]), version]
            if not is_new:
                self.recent.remove(name)
            return
        self.counts["put" if version else "delete"] += 1
        self.possible[name] = [version]
        if is_new:
            self.recent.append(name)
            del self.recent[:-MOST_RECENT]

    def ask(self, method, path, body):
        host, port = node = self.rng.choice(self.nodes)
        connection = self.connections.get(node)
        if connection is None:
            connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
            try:
                connection.connect()
            except OSError:
                time.sleep(0.02)
                return "not sent"
            self.connections[node] = connection
        headers = {"x-millrace-redirect": "no"}
        if self.key:
            signer = Signer(types.SimpleNamespace(host=host, port=port, listen=f"{host}:{port}"), *self.key)
            headers = signer.headers(method, path, b"", headers, payload="UNSIGNED-PAYLOAD")
        try:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            response.read()
        except BROKEN:
            connection.close()
            del self.connections[node]
            return "unknown"
        if response.will_close:
            connection.close()
            del self.connections[node]
        outcome = outcome_of(response.status)
        if outcome not in ("done", "unknown"):
            raise AssertionError(f"{method} {path} was answered {response.status}")
        if outcome == "unknown":
            time.sleep(0.02)
        return outcome


def write_until(stopping, writer, path):
    told = {"failure": None}
    try:
        writer.run(stopping)
    except BaseException as failure:
        told["failure"] = repr(failure)
    with open(path, "w") as file:
        json.dump({**told, "counts": writer.counts, "possible": writer.possible}, file)


class Flood:
    """`processes` of them write between entering and leaving."""

    def __init__(self, fleet, processes, seed):
        self.fleet, self.counts, self.failures, self.possible = fleet, {}, [], {}
        nodes = [(node.host, node.port) for node in fleet.nodes]
        context = multiprocessing.get_context("fork")
        self.stopping = context.Event()
        self.paths = [fleet.directory / f"flood-{number}.json" for number in range(processes)]
        self.processes = [context.Process(target=write_until, args=(self.stopping, Writer(number, nodes, fleet.key, seed), path), daemon=True)
                          for number, path in enumerate(self.paths)]

    def __enter__(self):
        for process in self.processes:
            process.start()
        return self

    def __exit__(self, kind, *_):
        self.stopping.set()
        for process in self.processes:
            process.join(300)
        if kind is not None:
            return
        for path in self.paths:
            told = json.loads(path.read_text())
            self.failures += [told["failure"]] if told["failure"] else []
            self.possible.update(told["possible"])
            for what, count in told["counts"].items():
                self.counts[what] = self.counts.get(what, 0) + count

    def check(self, history):
        """Figures; what is wrong becomes a violation of the history."""
        for failure in self.failures:
            history.violate("unexpected", BUCKET, failure)
        for node in self.fleet.nodes:
            there = list_etags(node)
            if there is None:
                history.violate("unavailable", BUCKET, f"no list through {node.name}")
                continue
            judge(self.possible, there, node.name, history)
        return {"flood": {**self.counts, "keys": len(self.possible), "lists": len(self.fleet.nodes)}}


def judge(possible, there, node, history):
    for name, versions in possible.items():
        etag = there.get(name)
        may_be = [None if version is None else etag_of(name, version)[0] for version in versions]
        if etag in may_be:
            continue
        kind = "lost" if etag is None else "resurrected" if may_be == [None] else "stale"
        history.violate(kind, f"{BUCKET}/{name}", f"through {node}: {etag}, and it may be one of versions {versions}: {may_be}")
    for name in there.keys() - possible.keys():
        history.violate("list", f"{BUCKET}/{name}", f"through {node}: nobody wrote it")


def list_etags(node, seconds=600):
    """{key: etag}; None where a page did not come within the time."""
    found, token, until = {}, None, time.monotonic() + seconds
    while time.monotonic() < until:
        target = f"/{BUCKET}?list-type=2&max-keys=1000" + (f"&continuation-token={token}" if token else "")
        try:
            answer = node.ask("GET", target, timeout=TIMEOUT)
        except BROKEN:
            continue
        if answer.status != 200:
            time.sleep(0.1)
            continue
        root = parse(answer)
        for entry in root.findall("Contents"):
            found[entry.findtext("Key")] = entry.findtext("ETag").strip('"')
        if root.findtext("IsTruncated") != "true":
            return found
        token = root.findtext("NextContinuationToken")
    return None
