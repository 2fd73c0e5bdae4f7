"""Drives that refuse writes for a while (EROFS, EIO): an error or another drive meanwhile, reads go on, and when the drive
is well again so does the same process; nothing acknowledged is lost by it, also where it is killed in between."""
import itertools
import os
import random
import time

import pytest

from conftest import needs_root
from lossy import REFUSALS, Lossy
from nodes import Node
from payload import History, make
from workload import Writers, audit

pytestmark = [needs_root(), pytest.mark.parametrize("how", REFUSALS)]
SIZES = [300, 5_000, 16_384, 16_385, 70_000, 1_100_000]
STILL = {"inline": 3000, "file": 300_000}


def pick_seed():
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 30))
    print(f"SEED={seed}")
    return seed


def wait_for(what, seconds=30):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, f"it did not happen: {what()}"
        time.sleep(0.02)


def states(node):
    return [drive["state"] for drive in node.get("/-/drives").json["drives"]]


def put_still(node):
    """Objects that nobody changes, to be read whatever happens."""
    assert node.ask("PUT", "/data").status == 200
    for key, size in STILL.items():
        assert node.put(f"/data/{key}", make(key, 1, size)).status == 200


def assert_still(node):
    for key, size in STILL.items():
        answer = node.get(f"/data/{key}")
        assert answer.status == 200 and answer.body == make(key, 1, size), (key, answer.status)


def assert_audit(node, history, seed):
    found = audit(node, "data", history)
    assert not found["faults"], (seed, found["faults"][:10])
    assert found["verified"] > 10
    assert_still(node)


def wait_for_acks(history, more):
    enough = history.acks + more
    wait_for(lambda: history.acks >= enough, 60)


def test_same_process_writes_again(tmp_path, how):
    """Whatever it was that was refused: files of objects, the log of the index, both, again and again."""
    seed = pick_seed()
    history = History()
    with Lossy(tmp_path / "volume", seed=seed) as lossy, Node(tmp_path, "--drive", lossy.path / "drive", "--set", "cache=1MiB") as node:
        put_still(node)
        for turn in range(4):
            with Writers(node.port, "data", history, seed + turn, count=8, sizes=SIZES, endure=True):
                wait_for_acks(history, 50)
                lossy.refuse(how)
                wait_for(lambda: states(node) == ["failed"])
                assert node.get("/-/drives").json["drives"][0]["reason"]
                assert_still(node)
                refused = [node.put(f"/data/new{size}", make("new", 1, size)).status for size in (3000, 300_000)]
                assert set(refused) <= {500, 503}, refused
                lossy.mend()
                wait_for_acks(history, 50)
            assert node.process.poll() is None
            assert_audit(node, history, seed)
        node.kill()
        lossy.cut_power()
        node.start()
        assert_audit(node, history, seed)
        node.stop()
        node.start()
        assert_audit(node, history, seed)


def test_killed_while_it_goes_on(tmp_path, how):
    """The index is closed and opened again: cut short anywhere, it opens and has all that was acknowledged."""
    seed = pick_seed()
    rng = random.Random(seed)
    history = History()
    with Lossy(tmp_path / "volume", sync_ms=5, seed=seed) as lossy:
        node = Node(tmp_path, "--drive", lossy.path / "drive", "--set", "cache=1MiB").start()
        try:
            put_still(node)
            for turn in range(8):
                with Writers(node.port, "data", history, seed + turn, count=8, sizes=SIZES, endure=True):
                    wait_for_acks(history, 20)
                    assert node.put("/data/victim", b"victim").status == 200
                    lossy.refuse(how)
                    assert node.ask("DELETE", "/data/victim").status in (500, 503)
                    files = set(os.listdir(lossy.path / "drive/index"))
                    lossy.mend()
                    # Opening shows in new files: killed from there on.
                    wait_for(lambda: set(os.listdir(lossy.path / "drive/index")) != files)
                    time.sleep(rng.choice([0, rng.uniform(0, 0.1)]))
                    node.kill()
                if turn % 2 == 0:
                    lossy.cut_power(torn=turn % 4 == 0)
                node.start()
                assert_audit(node, history, (seed, turn))
        finally:
            node.kill()


def test_deletion_that_nobody_can_note_is_refused(tmp_path, how):
    """A PUT that was refused may turn up when the drive is well again: until then nobody can say that it is gone."""
    with Lossy(tmp_path / "volume") as lossy, Node(tmp_path, "--drive", lossy.path / "drive") as node:
        put_still(node)
        lossy.refuse(how)
        assert node.put("/data/perhaps", b"x").status in (500, 503)
        wait_for(lambda: states(node) == ["failed"])
        assert node.ask("DELETE", "/data/perhaps").status == 503
        assert node.ask("DELETE", "/data/never").status == 503
        lossy.mend()
        wait_for(lambda: states(node) == ["serving"])
        assert node.ask("DELETE", "/data/perhaps").status == 204
        assert node.get("/data/perhaps").status == 404


def test_refused_twice_with_nothing_in_between(tmp_path, how):
    """Each time the index needs a new log, also where the last one is empty."""
    with Lossy(tmp_path / "volume") as lossy, Node(tmp_path, "--drive", lossy.path / "drive") as node:
        put_still(node)
        for turn in range(3):
            lossy.refuse(how)
            assert node.ask("PUT", f"/bucket{turn}").status == 503
            assert states(node) == ["failed"]
            assert_still(node)
            lossy.mend()
            wait_for(lambda: states(node) == ["serving"])
        assert node.put("/data/after", make("after", 1, 3000)).status == 200
        node.kill()
        lossy.cut_power()
        node.start()
        assert_still(node)
        assert node.get("/data/after").body == make("after", 1, 3000)


def test_stops_in_order_while_it_is_refused(tmp_path, how):
    with Lossy(tmp_path / "volume") as lossy, Node(tmp_path, "--drive", lossy.path / "drive") as node:
        put_still(node)
        lossy.refuse(how)
        assert node.ask("DELETE", "/data/inline").status in (500, 503)
        node.stop()
        lossy.mend()
        node.start()
        assert node.get("/data/inline").status in (200, 404)  # a deletion that failed may have happened
        assert node.get("/data/file").body == make("file", 1, STILL["file"])


def test_other_drive_takes_writes_meanwhile(tmp_path, how):
    """Overwritten and deleted there, nothing comes back with the drive; it gets the buckets it missed."""
    seed = pick_seed()
    history = History()
    with Lossy(tmp_path / "volume", seed=seed) as lossy:
        drives = [lossy.path / "drive", tmp_path / "other"]
        node = Node(tmp_path, "--drive", drives[0], "--drive", drives[1], "--set", "cache=1MiB").start()
        try:
            put_still(node)
            for turn in range(3):
                with Writers(node.port, "data", history, seed + turn, count=8, sizes=SIZES, endure=True):
                    wait_for_acks(history, 50)
                    lossy.refuse(how)
                    wait_for(lambda: sorted(states(node)) == ["failed", "serving"])
                    wait_for_acks(history, 100)
                    assert node.ask("PUT", f"/bucket{turn}").status == 200
                    assert_still(node)
                    lossy.mend()
                    wait_for(lambda: states(node) == ["serving", "serving"])
                    wait_for_acks(history, 50)
                assert_audit(node, history, seed)
            node.kill()
            lossy.cut_power()
            node.start()
            assert_audit(node, history, seed)
            # All of it is on the drive that was away.
            node.stop()
            (tmp_path / "other").rename(tmp_path / "elsewhere")
            node.start()
            for turn in range(3):
                assert node.ask("HEAD", f"/bucket{turn}").status == 200
            (tmp_path / "elsewhere").rename(tmp_path / "other")
        finally:
            node.kill()


def test_refused_overwrite_leaves_the_old_object_of_another_drive(tmp_path, how):
    """The old one goes after the new one is there: not at all where that was refused."""
    with Lossy(tmp_path / "volume") as lossy:
        node = Node(tmp_path, "--drive", lossy.path / "drive", "--drive", tmp_path / "other", "--set", "cache=1MiB").start()
        try:
            put_still(node)
            lossy.refuse(how)
            # Which drive a key goes to depends on the drives' numbers, which are random: enough keys for either.
            fresh = itertools.count()
            wait_for(lambda: node.put(f"/data/fill{next(fresh)}", b"x").status and "failed" in states(node))
            keys = [f"k{number}" for number in range(60)]
            for key in keys:
                assert node.put(f"/data/{key}", make(key, 1, 3000)).status == 200
            refused = 0
            for key in keys:
                if refused == 3:
                    break
                lossy.mend()
                wait_for(lambda: states(node) == ["serving", "serving"])
                lossy.refuse(how)
                status = node.put(f"/data/{key}", make(key, 2, 3000)).status
                refused += status != 200
                answer = node.get(f"/data/{key}")
                allowed = [make(key, 2, 3000)] if status == 200 else [make(key, 1, 3000), make(key, 2, 3000)]
                assert answer.status == 200 and answer.body in allowed, (key, status, answer.status)
            assert refused > 0, "not one went to the drive that refuses"
        finally:
            node.kill()
