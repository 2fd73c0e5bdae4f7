"""Clients that write, read, list and remove through all nodes, and note what they were told.

Each key is used for a limited number of operations; then another takes its place. So a history stays short enough for the
search of an order, and many keys are there for the audit.
"""
import http.client
import random
import threading
import time

from fleet import NotSent
from history import outcome_of, write
from linearisable import Operation
from payload import BLOCK, version_of
from store_client import complete_xml, parse, texts

# Inline, copied, coded with small cells, and several stripes.
SIZES = {300: 4, 5_000: 3, 16_385: 2, 100_000: 4, 131_073: 2, 1_500_000: 2, 4_700_017: 1}
KINDS = {"put": 10, "put-absent": 4, "put-match": 5, "delete": 3, "delete-match": 2, "get": 12, "range": 6, "list": 3, "upload": 2, "count": 5}
PART = 5 << 20
ACTIVE_KEYS = 12      # of a bucket
GROUPS = 3            # prefixes of a bucket
MOST_OPERATIONS = 50  # of a key
COUNTERS = 2          # of a bucket
COUNTER_SIZE = 3_000
TIMEOUT = 20
BROKEN = (OSError, http.client.HTTPException)


class Keys:
    """The keys in use. Any thread."""

    def __init__(self, buckets):
        self.lock = threading.Lock()
        self.serial = 0
        self.active = {bucket: [self._new(number) for number in range(ACTIVE_KEYS)] for bucket in buckets}

    def _new(self, group):
        self.serial += 1
        return [f"g{group % GROUPS}/k{self.serial:05d}", 0]

    def take(self, rng, bucket):
        with self.lock:
            at = rng.randrange(ACTIVE_KEYS)
            entry = self.active[bucket][at]
            entry[1] += 1
            if entry[1] >= MOST_OPERATIONS:
                self.active[bucket][at] = self._new(at)
            return f"{bucket}/{entry[0]}"


class Traffic:
    """`nodes()`: whom to ask now. A client asks a random one with each request."""

    def __init__(self, nodes, buckets, history, seed, clients=10, timeout=TIMEOUT):
        self.nodes, self.buckets, self.history, self.timeout = nodes, list(buckets), history, timeout
        self.keys = Keys(buckets)
        self.stopping = threading.Event()
        for bucket in buckets:
            for number in range(COUNTERS):
                history.counters[f"{bucket}/counter{number}"] = []
        self.failures = []
        self.threads = [threading.Thread(target=self.run, args=(random.Random(seed * 1000 + number),), daemon=True) for number in range(clients)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, kind, *_):
        self.stopping.set()
        if kind is not None:
            return  # the nodes end now, and with them all requests
        for thread in self.threads:
            thread.join(300)
        assert not any(thread.is_alive() for thread in self.threads), "a client hangs"

    def run(self, rng):
        try:
            while not self.stopping.is_set():
                self.step(rng)
        except BaseException as failure:
            self.failures.append(repr(failure))
            raise

    def step(self, rng):
        kind = rng.choices(list(KINDS), KINDS.values())[0]
        bucket = rng.choice(self.buckets)
        if kind == "list":
            return self.list(rng, bucket)
        if kind == "count":
            return self.count(rng, f"{bucket}/counter{rng.randrange(COUNTERS)}")
        name = self.keys.take(rng, bucket)
        if kind == "get":
            return self.get(rng, name)
        if kind == "range":
            return self.get(rng, name, ranged=True)
        if kind == "upload":
            return self.upload(rng, name)
        if kind.startswith("delete"):
            return self.remove(rng, name, kind)
        return self.put(rng, name, kind)

    def ask(self, rng, method, target, body=None, headers=None):
        """The answer; None where none came. NotSent: nothing can have happened."""
        node = rng.choice(self.nodes())
        try:
            answer = node.ask(method, target, body, headers, timeout=self.timeout)
        except NotSent:
            # As many requests as before would only find the same closed door.
            self.stopping.wait(0.05)
            raise
        except BROKEN:
            return None
        self.history.count(f"status {answer.status}")
        if answer.status == 503:
            self.stopping.wait(0.05)
        return answer

    def note_write(self, name, operation, answer):
        if operation.outcome is None:
            self.history.violate("unexpected", name, f"{operation.kind} was answered {answer.status}: {answer.body[:300]!r}")
            return
        told = {} if answer is None else {"status": answer.status}
        if answer is not None and answer.status >= 500:
            told["text"] = answer.body[:200].decode(errors="replace")
        self.history.note(name, operation, **told)

    def put(self, rng, name, kind):
        headers, expected = {}, None
        if kind == "put-absent":
            headers["if-none-match"] = "*"
        elif kind == "put-match":
            expected, headers["if-match"] = self.history.some_etag(rng, name)
        size = rng.choices(list(SIZES), SIZES.values())[0]
        version = self.history.begin(name, size)
        self.send(rng, name, write(kind, time.monotonic(), "unknown", version, expected), headers)

    def send(self, rng, name, planned, headers):
        """A PUT of the planned value; what it was answered."""
        body = self.history.body(name, planned.value)
        called = time.monotonic()
        try:
            answer = self.ask(rng, "PUT", f"/{name}", body, headers)
        except NotSent:
            return None
        outcome = "unknown" if answer is None else outcome_of(answer.status)
        self.note_write(name, write(planned.kind, called, outcome, planned.value, planned.expected), answer)
        if outcome == "done":
            self.history.know_etag(name, planned.value, answer.headers["etag"])
        return outcome

    def remove(self, rng, name, kind):
        headers, expected = {}, None
        if kind == "delete-match":
            expected, headers["if-match"] = self.history.some_etag(rng, name)
        called = time.monotonic()
        try:
            answer = self.ask(rng, "DELETE", f"/{name}", None, headers)
        except NotSent:
            return
        self.note_write(name, write(kind, called, "unknown" if answer is None else outcome_of(answer.status), None, expected), answer)

    def upload(self, rng, name):
        """In parts, each through another node. Only the completion shows: it is the write."""
        size = PART + rng.choice([1, 200_000])
        version = self.history.begin(name, size)
        body = self.history.body(name, version)
        try:
            begun = self.ask(rng, "POST", f"/{name}?uploads")
            if begun is None or begun.status != 200:
                return
            upload, parts = texts(parse(begun), "UploadId")[0], []
            for number, at in enumerate(range(0, size, PART), 1):
                part = self.ask(rng, "PUT", f"/{name}?partNumber={number}&uploadId={upload}", body[at:at + PART])
                if part is None or part.status != 200:
                    return
                parts.append((number, part.headers["etag"]))
        except NotSent:
            return
        self.complete(rng, name, version, f"/{name}?uploadId={upload}", complete_xml(parts).encode())

    def complete(self, rng, name, version, target, body):
        called, unknown = time.monotonic(), False
        for _ in range(3):
            try:
                answer = self.ask(rng, "POST", target, body)
            except NotSent:
                continue
            # Part of the protocol: an unknown completion may be sent again. If the upload is gone by then, it was completed or not.
            if answer is not None and answer.status == 200 and b"<ETag>" in answer.body:
                self.note_write(name, write("put", called, "done", version), answer)
                self.history.know_etag(name, version, texts(parse(answer), "ETag")[0])
                return
            if answer is not None and answer.status not in (200, 404, 409, 500, 503):
                self.note_write(name, write("put", called, None, version), answer)
                return
            unknown = True
        if unknown:
            self.note_write(name, write("put", called, "unknown", version), None)

    def get(self, rng, name, ranged=False):
        headers = {}
        if ranged:
            first = rng.choice([0, 1, 4, 16, 31, 32, 100, 256, 300, 1100]) * BLOCK
            headers["range"] = f"bytes={first}-{first + rng.choice([100, BLOCK, 60_000, 1_200_000]) - 1}"
        called = time.monotonic()
        try:
            answer = self.ask(rng, "GET", f"/{name}", None, headers)
        except NotSent:
            return None
        if answer is None or answer.status in (416, 500, 503):
            self.history.count("get unanswered" if answer is None or answer.status != 416 else "get beyond the end")
            return None
        return self.seen(name, answer, called, ranged)

    def seen(self, name, answer, called, ranged=False):
        """Notes what a GET gave. Gives the operation; None where the answer was none of a store."""
        returned, seen = time.monotonic(), None
        if answer.status == 200:
            seen = self.history.seen_in(name, answer.body)
        elif answer.status == 206 and ranged:
            first, total = answer.headers["content-range"].removeprefix("bytes ").split("/")
            first = int(first.split("-")[0])
            if len(answer.body) < 30:
                return None  # the end of the object: too short to name its version
            seen = self.history.seen_in(name, answer.body, first, int(total))
        elif answer.status != 404 or answer.code != "NoSuchKey":
            self.history.violate("unexpected", name, f"a GET was answered {answer.status}: {answer.body[:300]!r}")
            return None
        if answer.status != 404:
            if seen is None:
                return None
            self.history.know_etag(name, seen, answer.headers["etag"])
        operation = Operation("get", called, returned, seen=seen)
        self.history.note(name, operation, etag=answer.headers.get("etag"))
        return operation

    def list(self, rng, bucket):
        prefix = f"g{rng.randrange(GROUPS)}/"
        called, node = time.monotonic(), rng.choice(self.nodes())
        keys = list_all(node, bucket, prefix, page=rng.choice([7, 1000]))
        if keys is None:
            self.history.count("list unanswered")
            return
        self.history.note_list(bucket, prefix, keys, called, time.monotonic())

    def count(self, rng, name):
        """One more than what is there, if it is still there."""
        called = time.monotonic()
        try:
            answer = self.ask(rng, "GET", f"/{name}")
        except NotSent:
            return
        if answer is None or answer.status not in (200, 404):
            return
        operation = self.seen(name, answer, called)
        if operation is None:
            return
        if operation.seen is None:
            kind, headers, count = "put", {"if-none-match": "*"}, 1
        else:
            kind, headers, count = "put-match", {"if-match": answer.headers["etag"]}, (version_of(answer.body) >> 32) + 1
        version = self.history.begin(name, COUNTER_SIZE, count)
        self.send(rng, name, write(kind, called, "unknown", version, operation.seen), headers)


def list_all(node, bucket, prefix="", page=1000, timeout=TIMEOUT):
    """Every key below the prefix, through all pages; None where a page did not come."""
    keys, token = [], None
    while True:
        target = f"/{bucket}?list-type=2&prefix={prefix.replace('/', '%2F')}&max-keys={page}" + (f"&continuation-token={token}" if token else "")
        try:
            answer = node.ask("GET", target, timeout=timeout)
        except BROKEN:
            return None
        if answer.status != 200:
            return None
        root = parse(answer)
        keys += texts(root, "Contents/Key")
        if texts(root, "IsTruncated") != ["true"]:
            return keys
        token = texts(root, "NextContinuationToken")[0]
