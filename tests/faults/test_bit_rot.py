"""Bytes that change while nobody looks: never served as good, found on reading and by one cycle of the scrubber, and
nothing else suffers (I1, I2, I3)."""
import http.client
import json
import subprocess
import time

import pytest

from conftest import binary
from nodes import Node
from payload import make
from store_client import begin_upload
from workload import PART, Client, upload

PAGE = 4096
FOOTER = 48
# key -> size. Inline, one file of three blocks whose last page is padded, and a multipart object of two pieces.
OBJECTS = {"small": 9_000, "large": 2_500_000, "parts": PART + 1_500_000}
OTHERS = {f"other{number}": size for number, size in enumerate([500, 12_000, 40_000, 1_300_000])}


class Damaged:
    """A stopped node with known objects, to be damaged and started."""

    def __init__(self, directory):
        self.node = Node(directory, "--set", "scrub_rate=1GiB")
        with self.node as node:
            assert node.ask("PUT", "/rot").status == 200
            before = set()
            self.files = {}
            for key, size in {**OTHERS, **OBJECTS}.items():
                if key == "parts":
                    assert upload(Client(node.port), "/rot/parts", make(key, 1, size)) == 200
                else:
                    assert node.put(f"/rot/{key}", make(key, 1, size)).status == 200
                now = set(self.drive.glob("data/*/*"))
                self.files[key] = sorted(now - before, key=lambda path: path.name)
                before = now

    @property
    def drive(self):
        return next(self.node.directory.glob("data/**/millrace.json")).parent

    def file_of(self, key, kind):
        """The object file, a piece by number, or the head."""
        if kind == "head":
            return next(path for path in self.files[key] if path.stat().st_size < 65536)
        return [path for path in self.files[key] if path.stat().st_size >= 65536][kind]

    def read(self, key):
        """The whole bytes with a status of success; None for an error or an answer that was cut."""
        try:
            answer = self.node.get(f"/rot/{key}")
        except (OSError, http.client.HTTPException):
            return None
        return answer.body if answer.status == 200 else None

    def scrub(self):
        cycles = self.node.get("/-/scrub").json["cycles"]
        assert self.node.ask("POST", "/-/scrub").status == 200
        until = time.monotonic() + 60
        while True:
            found = self.node.get("/-/scrub").json
            if found["cycles"] > cycles:
                return found["found"]
            assert time.monotonic() < until
            time.sleep(0.05)

    def assert_whole(self, keys):
        for key in keys:
            assert self.read(key) == make(key, 1, {**OTHERS, **OBJECTS}[key]), key


@pytest.fixture
def damaged(tmp_path):
    holder = Damaged(tmp_path)
    yield holder
    if holder.node.process.poll() is None:
        holder.node.kill()


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0x10]))


def place_in(path, where, data_size):
    """The offset of a byte of the file by what it belongs to."""
    size = path.stat().st_size
    padded = (data_size + PAGE - 1) // PAGE * PAGE
    return {"first block": 17, "middle block": (1 << 20) + 5000, "last byte": data_size - 1, "padding": data_size + 1, "body": padded + 30,
            "checksums": size - FOOTER - 6, "footer": size - FOOTER + 13, "magic": size - FOOTER}[where]


LARGE_PLACES = {"first block": 0, "middle block": 1, "last byte": 2, "padding": None, "body": 0, "checksums": 0, "footer": 0, "magic": 0}


@pytest.mark.parametrize("where", LARGE_PLACES)
def test_object_file(damaged, where):
    path = damaged.file_of("large", 0)
    flip(path, place_in(path, where, OBJECTS["large"]))
    with damaged.node:
        body = damaged.read("large")
        found = damaged.scrub()
        damaged.assert_whole([*OTHERS, "small", "parts"])
    if LARGE_PLACES[where] is None:
        # Bytes that belong to nothing: the object is whole.
        assert body == make("large", 1, OBJECTS["large"])
        return
    assert body is None
    assert ("large", LARGE_PLACES[where]) in {(one["key"], one["block"]) for one in found}, found
    assert {one["key"] for one in found} == {"large"}, found


@pytest.mark.parametrize("where", ["first block", "middle block", "last byte"])
def test_a_copy_of_a_damaged_object_is_refused(damaged, where):
    """New checksums over old damage would hide it for good."""
    path = damaged.file_of("large", 0)
    flip(path, place_in(path, where, OBJECTS["large"]))
    with damaged.node as node:
        assert node.ask("PUT", "/-/buckets/rot", '{"verify": "scrub"}').status == 200
        source = {"x-amz-copy-source": "/rot/large"}
        refused = node.ask("PUT", "/rot/copy", None, source)
        assert (refused.status, refused.code) == (500, "InternalError"), refused.body
        assert f"rot/large on drive {damaged.drive}: block {LARGE_PLACES[where]}".encode() in refused.body, refused.body
        assert node.get("/rot/copy").status == 404
        upload = begin_upload(node, "/rot/parted")
        target = f"/rot/parted?partNumber=1&uploadId={upload}"
        assert node.ask("PUT", target, None, source).status == 500
        assert b"<Part>" not in node.get(f"/rot/parted?uploadId={upload}").body
        # Blocks that are whole may be copied.
        whole = {"first block": (1 << 20, (2 << 20) - 1), "middle block": (0, 999_999), "last byte": (0, 999_999)}[where]
        assert node.ask("PUT", target, None, {**source, "x-amz-copy-source-range": "bytes=%d-%d" % whole}).status == 200


@pytest.mark.parametrize("start,status", [(0, 500), (1 << 20, 206)])
def test_damage_in_the_first_window_is_an_error_and_not_a_cut_answer(damaged, start, status):
    damaged.node.flags += ["--set", "read_window=1MiB"]
    flip(damaged.file_of("large", 0), 17)
    with damaged.node as node:
        answer = node.get("/rot/large", Range=f"bytes={start}-")
        assert answer.status == status, answer.body[:500]
        assert status == 206 or (answer.code == "InternalError" and b"block 0" in answer.body)
        assert node.get("/rot/large").status == 500 and node.ask("HEAD", "/rot/large").status == 200


@pytest.mark.parametrize("piece,where,block", [(0, "first block", 0), (0, "footer", 0), (1, "middle block", 6), (1, "checksums", 5), ("head", "footer", 0), ("head", "body", 0)])
def test_multipart_object(damaged, piece, where, block):
    path = damaged.file_of("parts", piece)
    size = 0 if piece == "head" else [PART, OBJECTS["parts"] - PART][piece]
    flip(path, place_in(path, where, size))
    with damaged.node:
        body = damaged.read("parts")
        found = damaged.scrub()
        damaged.assert_whole([*OTHERS, "small", "large"])
    # The record of a head is in the index too: the bytes are good, the copy of the record is not.
    assert body is None or (piece == "head" and body == make("parts", 1, OBJECTS["parts"]))
    assert ("parts", block) in {(one["key"], one["block"]) for one in found}, found


@pytest.mark.parametrize("how", ["empty", "cut", "gone", "swapped"])
def test_file_that_is_not_what_it_was(damaged, how):
    path, other = damaged.file_of("large", 0), damaged.file_of("other3", 0)
    if how == "empty":
        path.write_bytes(b"")
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:1_000_000])
    elif how == "gone":
        path.unlink()
    else:
        path.write_bytes(other.read_bytes())
    with damaged.node:
        assert damaged.read("large") is None
        found = damaged.scrub()
        damaged.assert_whole([*OTHERS, "small", "parts"])
    assert "large" in {one["key"] for one in found}, found


def test_without_checks_on_reading_the_scrubber_finds_it(damaged):
    path = damaged.file_of("large", 0)
    flip(path, 5)
    with damaged.node:
        assert damaged.node.put("/-/buckets/rot", b'{"verify": "scrub"}').status == 200
        assert [("large", 0)] == [(one["key"], one["block"]) for one in damaged.scrub()]


def index_files(damaged, pattern):
    return [path for path in sorted((damaged.drive / "index").glob(pattern)) if path.stat().st_size > 0]


def assert_never_wrong(damaged):
    """Whatever the index says now: no read gives wrong bytes. Gives what was wrong with the drive or the objects."""
    try:
        damaged.node.start()
    except AssertionError as error:
        assert "not one drive can be served" in str(error), error
        return {"drive": True}
    wrong, missing = [], []
    for key, size in {**OTHERS, **OBJECTS}.items():
        body = damaged.read(key)
        if body is None:
            missing.append(key)
        elif body != make(key, 1, size):
            wrong.append(key)
    assert not wrong
    found = damaged.scrub()
    state = damaged.node.get("/-/drives").json["drives"]
    damaged.node.kill()
    return {"missing": missing, "found": found, "drive": any(one["state"] != "serving" for one in state)}


def test_inline_object_in_a_table(damaged):
    data = make("small", 1, OBJECTS["small"])
    [(path, at)] = [(path, path.read_bytes().find(data[1000:2000])) for path in index_files(damaged, "*.sst") if data[1000:2000] in path.read_bytes()]
    flip(path, at + 100)
    seen = assert_never_wrong(damaged)
    assert seen["drive"] is True or "small" in seen["missing"], seen
    assert seen["drive"] is True or seen["found"], seen


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("pattern", ["*.sst", "MANIFEST-*", "CURRENT", "OPTIONS-*"])
def test_index_file(damaged, pattern, share):
    """Each file of the kind, one byte. RocksDB's options are not read on opening."""
    for path in index_files(damaged, pattern):
        flip(path, int(path.stat().st_size * share))
    seen = assert_never_wrong(damaged)
    said = seen["drive"] or seen["found"] or not seen["missing"]
    assert said, f"objects are missing, and nothing says why: {seen}"


@pytest.mark.parametrize("pattern", ["CURRENT", "MANIFEST-*", "*"])
def test_index_file_that_is_gone(damaged, pattern):
    """A drive without its index is not an empty drive: its files must not be taken for litter."""
    before = sorted(damaged.drive.glob("data/*/*"))
    for path in (damaged.drive / "index").glob(pattern):
        path.unlink()
    for _ in range(2):
        seen = assert_never_wrong(damaged)
        assert seen["drive"] is True, seen
    assert sorted(damaged.drive.glob("data/*/*")) == before


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_log_of_the_index(damaged, share):
    """After kill -9 the last changes are in RocksDB's log alone. A log damaged in the middle must not be served as if it
    ended there: what follows was acknowledged."""
    with damaged.node as node:
        for number in range(50):
            assert node.put(f"/rot/late{number}", make(f"late{number}", 1, 8000)).status == 200
        node.kill()
    log = max(index_files(damaged, "*.log"), key=lambda path: path.stat().st_mtime)
    used = len(log.read_bytes().rstrip(b"\0"))
    flip(log, int(used * share))
    seen = assert_never_wrong(damaged)
    if seen["drive"]:
        return
    files = sorted(damaged.drive.glob("data/*/*"))
    damaged.node.start()
    lost = [number for number in range(50) if damaged.read(f"late{number}") != make(f"late{number}", 1, 8000)]
    found = damaged.node.ask("GET", "/-/scrub").json["found"]
    damaged.node.kill()
    assert not lost or any("log is damaged" in damage["what"] for damage in found), f"{len(lost)} acknowledged objects are gone, and nobody says so"
    assert sorted(damaged.drive.glob("data/*/*")) == files  # nothing is taken for litter


def test_files_behind_a_damaged_log_are_taken_back(damaged):
    """Their records are lost with the log; the files say themselves what they are."""
    late = {f"late{number}": 40_000 + number for number in range(50)}
    with damaged.node as node:
        for key, size in late.items():
            assert node.put(f"/rot/{key}", make(key, 1, size)).status == 200
        node.kill()
    log = max(index_files(damaged, "*.log"), key=lambda path: path.stat().st_mtime)
    flip(log, int(len(log.read_bytes().rstrip(b"\0")) * 0.3))
    drive = str(damaged.drive)
    rebuilt = subprocess.run([binary(), "--json", "fsck", "--rebuild", drive], capture_output=True, text=True)
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert json.loads(rebuilt.stdout)["restored_objects"] > 0  # the others are in what is left of the log
    with damaged.node:
        for key, size in late.items():
            assert damaged.read(key) == make(key, 1, size), key
        damaged.assert_whole(["large", "parts"])
        assert damaged.scrub() == []
    checked = subprocess.run([binary(), "--json", "fsck", drive], capture_output=True, text=True)
    assert checked.returncode == 0 and json.loads(checked.stdout)["clean"], checked.stdout
