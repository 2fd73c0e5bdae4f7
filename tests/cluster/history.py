"""What clients did and saw: every operation with its times and its outcome. Any thread."""
import json
import threading
import time

from linearisable import Operation
from payload import fault_of, make, version_of

# An answer says what happened; none, or one of these, says nothing.
UNKNOWN = (500, 503)


class History:
    """`path`: every operation is also written there as a line of JSON, so that it can be looked at afterwards."""

    def __init__(self, path=None):
        self.lock = threading.Lock()
        self.file = open(path, "w") if path else None
        self.operations = {}  # "bucket/key" -> [Operation]
        self.lists = []       # (bucket, prefix, keys, called, returned)
        self.counters = {}    # "bucket/key" -> [Operation]; values are count << 32 | serial
        self.sizes = {}       # "bucket/key" -> {version: size}
        self.etags = {}       # "bucket/key" -> {version: etag}
        self.counts = {}      # "put done" -> how often
        self.violations = []  # seen at once, in an answer
        self.next_version = 0

    def begin(self, name, size, count=None):
        """A version that no other write has."""
        with self.lock:
            self.next_version += 1
            version = self.next_version if count is None else count << 32 | self.next_version
            self.sizes.setdefault(name, {})[version] = size
            return version

    def body(self, name, version):
        return make(name, version, self.sizes[name][version])

    def know_etag(self, name, version, etag):
        with self.lock:
            known = self.etags.setdefault(name, {}).setdefault(version, etag)
            if known != etag:
                self._violate("torn", name, f"version {version} has the etags {known} and {etag}")

    def some_etag(self, rng, name):
        with self.lock:
            known = sorted(self.etags.get(name, {}).items())
        # Conditions that hold are rarer than others, so the newest versions are preferred.
        return rng.choice(known[-3:] or [(0, '"0123"')])

    def note(self, name, operation, **more):
        with self.lock:
            of_counter = name in self.counters
            (self.counters if of_counter else self.operations).setdefault(name, []).append(operation)
            kind = ("counter " if of_counter else "") + operation.kind
            self._count(f"{kind} {operation.outcome}")
            self._write({"key": name, **vars(operation), **more})

    def note_list(self, bucket, prefix, keys, called, returned, **more):
        with self.lock:
            self.lists.append((bucket, prefix, frozenset(keys), called, returned))
            self._count("list done")
            self._write({"list": f"{bucket}/{prefix}", "called": called, "returned": returned, "keys": sorted(keys), **more})

    def count(self, what):
        with self.lock:
            self._count(what)

    def violate(self, kind, name, text):
        with self.lock:
            self._violate(kind, name, text)

    def seen_in(self, name, data, first=0, total=None):
        """The version of which these bytes are; a violation where they are of none, or not whole. `first`: where they begin."""
        with self.lock:
            sizes = dict(self.sizes.get(name, {}))
        if total is None:
            fault = fault_of(name, data, sizes)
            if fault:
                self.violate("torn", name, fault)
                return None
            return version_of(data)
        version = version_of(data)
        if version not in sizes or sizes[version] != total:
            self.violate("torn", name, f"bytes from {first} of {total} name version {version}")
            return None
        if data != make(name, version, total)[first:first + len(data)]:
            self.violate("torn", name, f"{len(data)} bytes from {first} are not those of version {version}")
            return None
        return version

    def event(self, text):
        """What was done to the cluster, among what clients saw."""
        with self.lock:
            self._write({"event": text, "at": time.monotonic()})

    def close(self):
        if self.file:
            self.file.close()

    def _violate(self, kind, name, text):
        self.violations.append({"kind": kind, "key": name, "text": text, "at": time.monotonic()})
        self._write({"violation": kind, "key": name, "text": text, "at": time.monotonic()})

    def _count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def _write(self, row):
        if self.file:
            self.file.write(json.dumps(row) + "\n")
            self.file.flush()


def outcome_of(status):
    """Of a write; None: no store answers so."""
    return {200: "done", 204: "done", 412: "refused", 409: "refused", 404: "absent", **dict.fromkeys(UNKNOWN, "unknown")}.get(status)


def write(kind, called, outcome, value=None, expected=None):
    return Operation(kind, called, time.monotonic(), outcome, value, expected)
