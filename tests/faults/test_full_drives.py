"""Drives that are full, out of inodes or given up by the kernel: a clear error, the old objects intact, and service goes
on (R1, R2)."""
import contextlib
import fcntl
import functools
import http.client
import os
import struct
import threading
import time

import pytest

from conftest import needs_root
from nodes import Node
from payload import make
from volumes import ext4, run, xfs
from workload import PART, Client, upload

pytestmark = needs_root()
KINDS = {"ext4": ext4, "xfs": xfs}
RESERVE = 256 << 20  # the default


@contextlib.contextmanager
def node_on(volume, directory, left=None):
    """A running node that may write some `left` bytes before its drive counts as full."""
    with Node(directory, "--drive", volume.path / "drive", "--set", "cache=4MiB") as node:
        # Only now: the log of the index has room set aside for it.
        if left is not None:
            volume.leave(RESERVE + left)
        yield node


def drive_of(node):
    return node.get("/-/drives").json["drives"][0]


def fill(node, prefix, size, most=20_000):
    """Puts until the node refuses; gives the keys that it took. Any other refusal is a fault."""
    numbers = iter(range(most))
    lock = threading.Lock()
    keys, refusals = [], []

    def put():
        client = Client(node.port)
        while not refusals:
            with lock:
                key = f"{prefix}{next(numbers)}"
            status, body, _ = client.ask("PUT", f"/full/{key}", make(key, 1, size))
            if status == 200:
                keys.append(key)
            else:
                refusals.append((status, body))

    in_parallel([put] * 8)
    assert refusals and all(status == 507 for status, _ in refusals), (refusals, len(keys))
    return keys


def in_parallel(calls):
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def assert_whole(node, keys, size, version=1):
    client = Client(node.port)
    for key in keys:
        status, body, _ = client.ask("GET", f"/full/{key}")
        assert status == 200 and body == make(key, version, size), (key, status, len(body))


def free_bytes(volume):
    facts = os.statvfs(volume.path)
    return facts.f_bavail * facts.f_frsize


def wait_for(what, seconds=30):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.1)


def assert_goes_on(node, keys, size):
    """After a refusal: reads, deletes, overwrites and new objects all work."""
    assert_whole(node, keys, size)
    # An overwrite that is refused leaves the old object.
    answer = node.put(f"/full/{keys[0]}", make(keys[0], 2, 4 << 20))
    assert answer.status == 507, answer.body
    assert_whole(node, keys[:1], size)
    gone, kept = keys[: len(keys) // 2], keys[len(keys) // 2:]
    for key in gone:
        assert node.ask("DELETE", f"/full/{key}").status == 204, key
    for key in gone:
        assert node.get(f"/full/{key}").status == 404
    # Files go after the answer, and the space is looked at ten times a second.
    wait_for(lambda: node.put("/full/again", make("again", 1, size)).status == 200)
    for key in kept[:10]:
        assert node.put(f"/full/{key}", make(key, 2, size)).status == 200, key
    assert_whole(node, kept[:10], size, version=2)
    assert_whole(node, kept[10:], size)
    assert drive_of(node)["state"] == "serving"


@pytest.mark.parametrize("kind", KINDS)
def test_full_of_bytes(tmp_path, kind):
    size = 300_000
    with KINDS[kind](tmp_path / "fs") as volume, node_on(volume, tmp_path, 40 << 20) as node:
        assert node.ask("PUT", "/full").status == 200
        keys = fill(node, "f", size)
        assert len(keys) > 20
        assert_goes_on(node, keys, size)
        fill(node, "g", size)  # and once more
        assert node.ask("DELETE", "/full/again").status == 204
        node.stop()
        node.start()
        assert_whole(node, keys[len(keys) // 2 + 10:], size)


@pytest.mark.parametrize("kind", KINDS)
def test_full_of_small_objects(tmp_path, kind):
    """Inside the index: it must neither stop for good nor lose what it took."""
    size = 16_000
    with KINDS[kind](tmp_path / "fs") as volume, node_on(volume, tmp_path, 172 << 20) as node:
        assert node.ask("PUT", "/full").status == 200
        large = [f"l{number}" for number in range(20)]
        data = make("l", 1, 8 << 20)
        for key in large:
            assert node.put(f"/full/{key}", data).status == 200
        keys = fill(node, "s", size)
        assert_whole(node, keys[::10], size)
        for key in large + keys[:100]:
            assert node.ask("DELETE", f"/full/{key}").status == 204, key
        wait_for(lambda: node.put("/full/again", make("again", 1, size)).status == 200)
        node.stop()
        node.start()
        assert_whole(node, keys[100:] + ["again"], size)


def test_out_of_inodes(tmp_path):
    size = 20_000
    with ext4(tmp_path / "fs", "-N", "1600") as volume, node_on(volume, tmp_path) as node:
        assert node.ask("PUT", "/full").status == 200
        keys = fill(node, "f", size)
        assert len(keys) > 100
        assert free_bytes(volume) > RESERVE + (1 << 30), "it was the bytes that ended"
        assert_whole(node, keys, size)
        assert node.put("/full/f0", make("f0", 2, size)).status == 507
        assert_whole(node, keys[:1], size)
        for key in keys[:100]:
            assert node.ask("DELETE", f"/full/{key}").status == 204, key
        wait_for(lambda: node.put("/full/again", make("again", 1, size)).status == 200)
        assert_whole(node, keys[100:], size)
        assert drive_of(node)["state"] == "serving"


@pytest.mark.parametrize("kind", KINDS)
def test_filled_by_someone_else(tmp_path, kind):
    """The reserve is gone too: what the file system refuses in the middle of things is survived (R1)."""
    size = 300_000
    with KINDS[kind](tmp_path / "fs") as volume, node_on(volume, tmp_path) as node:
        assert node.ask("PUT", "/full").status == 200
        for number in range(20):
            assert node.put(f"/full/k{number}", make(f"k{number}", 1, size)).status == 200
        volume.leave(0)
        for number in range(20):
            answer = node.put(f"/full/k{number}", make(f"k{number}", 2, size))
            assert answer.status in (500, 503, 507), answer.status
            assert node.put(f"/full/s{number}", b"small" * 2000).status in (200, 500, 503, 507)
        assert_whole(node, [f"k{number}" for number in range(20)], size)
        volume.give_back()
        wait_for(lambda: node.put("/full/again", make("again", 1, size)).status == 200)
        assert_whole(node, [f"k{number}" for number in range(20)], size)
        assert node.ask("DELETE", "/full/k0").status == 204
        wait_for(lambda: drive_of(node)["state"] == "serving")


def test_full_in_the_middle_of_streams(tmp_path):
    """Many at once whose sizes are not known beforehand: no more is taken than fits, and nothing is left of the rest."""
    with ext4(tmp_path / "fs") as volume, node_on(volume, tmp_path, 10 << 20) as node:
        assert node.ask("PUT", "/full").status == 200
        size = 32 << 20  # together more than the reserve, too
        before = free_bytes(volume)
        statuses = {}

        def put(number):
            key = f"c{number}"
            data = make(key, 1, size)
            connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=120)
            try:
                connection.request("PUT", f"/full/{key}", body=iter([data[at:at + 65536] for at in range(0, size, 65536)]), encode_chunked=True,
                                   headers={"Transfer-Encoding": "chunked"})
                statuses[key] = connection.getresponse().status
            except (OSError, http.client.HTTPException):
                statuses[key] = "broken"  # refused while the body was on its way
            finally:
                connection.close()

        in_parallel([functools.partial(put, number) for number in range(12)])
        assert set(statuses.values()) <= {200, 507, "broken"}, statuses
        taken = [key for key, status in statuses.items() if status == 200]
        assert 0 < len(taken) < 12, statuses
        assert_whole(node, taken, size)
        for key in set(statuses) - set(taken):
            assert node.get(f"/full/{key}").status == 404
        client = Client(node.port)
        assert upload(client, "/full/parts", make("parts", 1, 12 * PART)) == 507
        for key in taken:
            assert node.ask("DELETE", f"/full/{key}").status == 204
        assert_freed(node, volume, before)


def assert_freed(node, volume, before):
    """All but what the index and the open upload hold comes back (R5)."""
    listed = node.get("/full?uploads").body.decode()
    for part in listed.split("<Upload>")[1:]:
        key, number = part.split("<Key>")[1].split("<")[0], part.split("<UploadId>")[1].split("<")[0]
        assert node.ask("DELETE", f"/full/{key}?uploadId={number}").status == 204
    wait_for(lambda: free_bytes(volume) > before - (4 << 20))


def test_file_system_that_gave_up(tmp_path):
    """After an error of its own the kernel fails every write, and every read that needs the device."""
    with ext4(tmp_path / "fs") as volume:
        node = Node(tmp_path, "--drive", volume.path / "drive").start()
        try:
            assert node.ask("PUT", "/full").status == 200
            assert node.put("/full/large", make("large", 1, 300_000)).status == 200
            assert node.put("/full/small", make("small", 1, 3000)).status == 200
            shut_down(volume)
            for size in (300_000, 3000):
                answer = node.put("/full/new", make("new", 1, size))
                assert answer.status in (500, 503, 507), (size, answer.status)
            for key, size in (("large", 300_000), ("small", 3000)):
                with contextlib.suppress(http.client.IncompleteRead):  # cut off: an error, too
                    answer = node.get(f"/full/{key}")
                    assert answer.status in (500, 503) or answer.body == make(key, 1, size), key
            assert drive_of(node)["state"] == "failed"
            assert node.get("/-/live").status == 200
        finally:
            node.kill()


def shut_down(volume):
    """EXT4_IOC_SHUTDOWN with the log flushed."""
    descriptor = os.open(volume.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(descriptor, 0x8004587D, struct.pack("I", 1))
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_drive_opens_after_a_kill_and_deletes(tmp_path, kind):
    """The log of the index does not fit into what others left: recovery has room of its own."""
    size = 16_000
    keys = [f"s{number}" for number in range(3000)]
    with KINDS[kind](tmp_path / "fs") as volume, node_on(volume, tmp_path) as node:
        assert node.ask("PUT", "/full").status == 200

        def put(mine):
            client = Client(node.port)
            for key in mine:
                assert client.ask("PUT", f"/full/{key}", make(key, 1, size))[0] == 200

        in_parallel([functools.partial(put, keys[start::8]) for start in range(8)])
        volume.leave(0)
        node.kill()
        volume.leave(0)
        node.start()
        assert_whole(node, keys[::50], size)
        assert node.put("/full/new", make("new", 1, size)).status in (503, 507)
        for key in keys[:1000]:
            assert node.ask("DELETE", f"/full/{key}").status == 204, key
        # And what was given up for the deletes is taken back once there is room.
        node.kill()
        node.start()
        assert node.get("/full/s0").status == 404
        assert_whole(node, keys[1000::50], size)
        volume.give_back()
        wait_for(lambda: node.put("/full/new", make("new", 1, size)).status == 200)
        reserve = volume.path / "drive" / "reserve"
        wait_for(lambda: reserve.stat().st_blocks * 512 > 64 << 20)


def test_a_drive_that_is_unmounted_fails_and_others_take_its_objects(tmp_path):
    """umount --lazy leaves an empty directory, and everything that was open still works."""
    size = 300_000
    keys = [f"k{number}" for number in range(16)]
    with ext4(tmp_path / "fs") as volume:
        with Node(tmp_path, "--drive", volume.path / "drive", "--drive", tmp_path / "other", "--set", "cache=1MiB") as node:
            assert node.ask("PUT", "/full").status == 200
            for key in keys:
                assert node.put(f"/full/{key}", make(key, 1, size)).status == 200
            loop = run("findmnt", "-n", "-o", "SOURCE", volume.path).strip()
            # Held open, so that the device does not go with the mount.
            with open(loop, "rb"):
                run("umount", "--lazy", volume.path)
                for key in keys:
                    answer = node.get(f"/full/{key}")
                    assert answer.status == 503 or (answer.status == 200 and answer.body == make(key, 1, size)), (key, answer.status, answer.body[:300])
                # Objects whose files are open are still served; without a question to the drive it is found out within a second.
                wait_for(lambda: [drive["state"] for drive in node.get("/-/drives").json["drives"]] == ["failed", "serving"])
                for key in keys:
                    assert node.put(f"/full/{key}", make(key, 2, size)).status == 200, key
                    assert node.put(f"/full/small-{key}", b"small").status == 200, key
                assert_whole(node, keys, size, version=2)
                assert not (volume.path / "drive").exists()
                run("mount", loop, volume.path)
                wait_for(lambda: all(drive["state"] == "serving" for drive in node.get("/-/drives").json["drives"]))
                assert_whole(node, keys, size, version=2)
