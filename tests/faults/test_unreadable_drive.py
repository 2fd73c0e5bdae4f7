"""A drive whose reads fail (EIO): its objects are errors and never something else, the other drive serves, it is reported, and
when it can be read again so can they."""
import json

import pytest

from conftest import needs_root
from lossy import Lossy
from nodes import Node
from payload import make
from store_client import wait_until

pytestmark = needs_root()
SIZE = 300_000
KEYS = [f"k{number}" for number in range(24)]


def states(node):
    return [drive["state"] for drive in node.get("/-/drives").json["drives"]]


def read_all(node):
    """The keys that are served; each other one is an error that says why."""
    served = []
    for key in KEYS:
        answer = node.get(f"/data/{key}")
        if answer.status == 200:
            assert answer.body == make(key, 1, SIZE), key
            served.append(key)
            continue
        assert (answer.status, answer.code) == (500, "InternalError"), (key, answer.body)
        assert b"Input/output error" in answer.body and f"data/{key}".encode() in answer.body, answer.body
    return served


@pytest.mark.parametrize("verify", ["scrub", "read"])
def test_reads_that_fail_mark_the_drive_until_they_succeed(tmp_path, verify):
    with Lossy(tmp_path / "volume") as lossy:
        with Node(tmp_path, "--drive", lossy.path / "drive", "--set", "cache=1MiB") as node:
            node.ask("PUT", "/data")
            node.ask("PUT", "/-/buckets/data", f'{{"verify": "{verify}"}}')
            for key in KEYS:
                assert node.put(f"/data/{key}", make(key, 1, SIZE)).status == 200
            assert node.ask("POST", "/-/drives", json.dumps({"action": "add", "path": str(tmp_path / "other")})).status == 200
            with lossy.unreadable():
                assert read_all(node) == []
                assert states(node) == ["failed", "serving"]
                assert "Input/output error" in node.get("/-/drives").json["drives"][0]["reason"]
                # It stays out while only its writes succeed, and the other takes what is new.
                for number in range(20):
                    assert node.put(f"/data/new{number}", make("new", 1, SIZE)).status == 200
                    assert node.get(f"/data/new{number}").body == make("new", 1, SIZE)
                assert states(node) == ["failed", "serving"]
                copied = node.ask("PUT", "/data/copy", None, {"x-amz-copy-source": "/data/k0"})
                assert copied.status == 500 and node.get("/data/copy").status == 404
            wait_until(lambda: states(node) == ["serving", "serving"])
            assert read_all(node) == KEYS
