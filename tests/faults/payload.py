"""Self-describing payloads: every 4 KiB block names its key, version and number, so that any mix of two versions, any
torn or misplaced block is seen in the bytes alone (A1)."""
import random
import struct
import threading
import zlib

BLOCK = 4096
_MAGIC = b"MRblock1"
_FILL = random.Random(7).randbytes(1 << 20)


def _block(key, version, number, size):
    name = key.encode()
    head = struct.pack("<8sQQH", _MAGIC, version, number, len(name)) + name
    room = size - len(head) - 4
    if room < 0:  # too short to describe itself: a piece of the description
        return (head + b"\0" * 4)[:size]
    start = (version * 7919 + number * 104729) % (len(_FILL) - BLOCK)
    body = head + _FILL[start:start + room]
    return body + struct.pack("<I", zlib.crc32(body))


def make(key, version, size):
    """The bytes of one version of a key."""
    blocks = [_block(key, version, at // BLOCK, min(BLOCK, size - at)) for at in range(0, size, BLOCK)]
    return b"".join(blocks)


def version_of(data):
    """The version that the first block names; none where it names nothing."""
    if len(data) < 26 or data[:8] != _MAGIC:
        return None
    return struct.unpack_from("<Q", data, 8)[0]


def fault_of(key, data, versions):
    """Why the bytes are none of `versions` ({version: size}) of the key, whole; empty where they are one."""
    version = version_of(data)
    if version is None:
        return f"{key}: {len(data)} bytes that name no version"
    if version not in versions:
        return f"{key}: version {version}, not one of {sorted(versions)}"
    if len(data) != versions[version]:
        return f"{key}: version {version} with {len(data)} of {versions[version]} bytes"
    if data == make(key, version, len(data)):
        return ""
    for at in range(0, len(data), BLOCK):
        block = data[at:at + BLOCK]
        if block != _block(key, version, at // BLOCK, len(block)):
            other = version_of(block)
            return f"{key}: version {version}, but block {at // BLOCK} is " + ("damaged" if other in (None, version) else f"of version {other}")
    return f"{key}: damaged"


class History:
    """What writers were promised. Per key: the last acknowledged version, and those begun after it, which may be there
    or not. A version is a size; 0 stands for no object. Any thread."""

    def __init__(self):
        self.lock = threading.Lock()
        self.acked = {}    # key -> (version, size)
        self.begun = {}    # key -> {version: size}, since the last acknowledged one
        self.acks = 0
        self.next_version = 0

    def begin(self, key, size):
        with self.lock:
            self.next_version += 1
            self.begun.setdefault(key, {})[self.next_version] = size
            return self.next_version

    def ack(self, key, version):
        """One writer per key: what it began earlier is overwritten by now, or never happened."""
        with self.lock:
            self.acked[key] = (version, self.begun[key][version])
            self.begun[key] = {}
            self.acks += 1

    def refuse(self, key, version):
        """The writer was told that nothing happened."""
        with self.lock:
            del self.begun[key][version]

    def verify(self, get):
        """Compares with get(key) -> (status, bytes). Gives counters; `faults` has a sentence for each fault."""
        found = {"acked": self.acks, "verified": 0, "lost": 0, "torn": 0, "resurrected": 0, "faults": []}
        for key in sorted(set(self.acked) | set(self.begun)):
            version, size = self.acked.get(key, (0, 0))
            allowed = dict(self.begun.get(key, {}))
            if size > 0:
                allowed[version] = size
            may_be_absent = size == 0 or 0 in self.begun.get(key, {}).values()
            allowed = {number: bytes_ for number, bytes_ in allowed.items() if bytes_ > 0}
            status, data = get(key)
            if status == 404:
                if not may_be_absent:
                    found["lost"] += 1
                    found["faults"].append(f"{key}: version {version} of {size} bytes is lost")
                    continue
            elif status != 200:
                found["lost"] += 1
                found["faults"].append(f"{key}: status {status}")
                continue
            else:
                fault = fault_of(key, data, allowed)
                if fault:
                    kind = "lost" if version_of(data) not in (None, *allowed) else "torn"
                    if size == 0 and kind == "lost":
                        kind = "resurrected"
                    found[kind] += 1
                    found["faults"].append(fault)
                    continue
            found["verified"] += 1
            # What is seen now is what counts from here on.
            seen = version_of(data) if status == 200 else None
            self.acked[key] = (seen, len(data)) if seen is not None else (version if size == 0 else self.next_version, 0)
            self.begun[key] = {}
        return found
