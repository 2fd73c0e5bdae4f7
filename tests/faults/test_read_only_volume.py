"""A file system that is mounted read-only and again writable: refused while the drive is in use; a drive that is found so at
the start is out of service and says why, nothing on it is lost, and it comes back without a restart.

What a running node does when its drive turns read-only under it, as the kernel does after errors, is in
test_refusing_drive.py: `mount -o remount,ro` cannot bring it about, because the node holds files open for writing."""
import json
import subprocess

import pytest

from conftest import needs_root
from nodes import Node
from payload import make
from store_client import wait_until
from volumes import ext4, xfs

pytestmark = [needs_root(), pytest.mark.parametrize("kind", [ext4, xfs])]
SIZES = {f"k{number}": 3000 if number % 2 else 300_000 for number in range(24)}


def remount(volume, how):
    return subprocess.run(["mount", "-o", f"remount,{how}", str(volume.path)], capture_output=True, text=True)


def put_all(node):
    assert node.ask("PUT", "/data").status == 200
    for key, size in SIZES.items():
        assert node.put(f"/data/{key}", make(key, 1, size)).status == 200


def served(node):
    """The keys that are there, each whole; the others are not said to be gone."""
    found = []
    for key, size in SIZES.items():
        answer = node.get(f"/data/{key}")
        assert answer.status in (200, 503), (key, answer.body)
        if answer.status == 200:
            assert answer.body == make(key, 1, size), key
            found.append(key)
    return found


def test_a_drive_in_use_is_not_made_read_only_and_nothing_is_disturbed(tmp_path, kind):
    with kind(tmp_path) as volume, Node(tmp_path, "--drive", volume.path / "drive") as node:
        put_all(node)
        refused = remount(volume, "ro")
        assert refused.returncode != 0 and "busy" in refused.stderr
        assert served(node) == list(SIZES)
        assert node.put("/data/after", b"x" * 50_000).status == 200


def test_a_read_only_drive_waits_until_it_is_writable_and_keeps_everything(tmp_path, kind):
    with kind(tmp_path) as volume:
        drive = volume.path / "drive"
        node = Node(tmp_path, "--drive", drive)
        with node:
            put_all(node)
        node.flags += ["--drive", str(tmp_path / "other")]
        with node:
            assert served(node) == list(SIZES)
        done = remount(volume, "ro")
        assert done.returncode == 0, done.stderr
        with node:
            row = node.get("/-/drives").json["drives"][-1]
            assert (row["path"], row["state"]) == (str(drive), "missing") and "Read-only" in row["reason"]
            assert served(node) == []
            hidden = "k0"
            refused = node.put(f"/data/{hidden}", b"overwritten", If_None_Match="*")
            assert refused.status == 503 and b"Read-only" in refused.body
            assert node.get("/data").status == 503
            for number in range(20):
                assert node.put(f"/data/new{number}", make("new", 1, 50_000)).status == 200
            again = node.ask("POST", "/-/drives", json.dumps({"action": "add", "path": str(drive)}))
            assert again.status >= 400 and "Read-only" in again.json["message"]
            done = remount(volume, "rw")
            assert done.returncode == 0, done.stderr
            assert node.ask("POST", "/-/drives", json.dumps({"action": "add", "path": str(drive)})).status == 200
            assert served(node) == list(SIZES)
            assert node.keys("data") == sorted([*SIZES, *(f"new{number}" for number in range(20))])
            assert node.ask("DELETE", f"/data/{hidden}").status == 204
            assert node.put(f"/data/{hidden}", make(hidden, 1, SIZES[hidden])).status == 200
        with node:
            wait_until(lambda: node.get("/-/ready").json == {"ready": True})
            assert served(node) == list(SIZES)
