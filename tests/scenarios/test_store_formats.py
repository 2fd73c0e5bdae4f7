"""A drive that the version before wrote (data/drive-format-1.tar.xz) is opened, converted and served."""
import json
import pathlib
import subprocess
import tarfile

import pytest

from conftest import binary
from nodes import Node

OLD_DRIVE = pathlib.Path(__file__).parent / "data/drive-format-1.tar.xz"


def pattern(size, seed):
    return bytes((i * seed + seed) & 0xFF for i in range(256)) * (size // 256) + bytes(size % 256)


@pytest.fixture
def old(tmp_path):
    """The state directory of a node of the version before, and a node over it that is not started."""
    with tarfile.open(OLD_DRIVE) as archive:
        archive.extractall(tmp_path)
    (tmp_path / "state").rename(tmp_path / "data")
    node = Node(tmp_path)
    yield node
    node.stop()


def identity(node):
    return json.loads((node.directory / "data/drive/millrace.json").read_text())


def check_objects(node):
    assert node.keys("train") == ["empty", "large.bin", "overwritten", "parts.bin", "shard.tar", "small.txt"]
    small = node.get("/train/small.txt")
    assert (small.body, small.headers["content-type"], small.headers["x-amz-meta-colour"]) == (b"a small object", "text/plain", "blue")
    assert b"<Value>small</Value>" in node.get("/train/small.txt?tagging").body
    assert node.get("/train/empty").body == b""
    assert node.get("/train/large.bin").body == pattern(300_000, 3)
    assert b"<Value>b</Value>" in node.get("/train/large.bin?tagging").body
    assert node.get("/train/overwritten").body == b"second"
    assert node.get("/train/parts.bin").body == pattern(5 << 20, 1) + pattern(1000, 2)
    assert b"sample 17" in node.get("/train/shard.tar?sample=17").body
    assert node.get("/train/gone").status == 404


def test_an_old_drive_is_converted_and_everything_is_there(old):
    assert identity(old)["format"] == 1
    old.start()
    assert identity(old)["format"] == 2
    check_objects(old)
    old.stop()
    checked = subprocess.run([binary(), "fsck", str(old.directory / "data/drive")], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    old.start()
    check_objects(old)


def test_uploads_of_an_old_drive_go_on(old):
    old.start()
    listed = old.get("/train?uploads").body.decode()
    upload = listed.split("<UploadId>")[1].split("<")[0]
    parts = old.get(f"/train/unfinished.bin?uploadId={upload}").body.decode()
    etag = parts.split("<ETag>")[1].split("<")[0].replace("&quot;", '"')
    done = old.ask("POST", f"/train/unfinished.bin?uploadId={upload}",
                   f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>")
    assert done.status == 200, done.body
    assert old.get("/train/unfinished.bin").body == pattern(40_000, 7)


def test_objects_of_an_old_drive_are_replaced_and_deleted_like_new_ones(old):
    old.start()
    assert old.ask("PUT", "/train/small.txt", b"newer", {"if-none-match": "*"}).status == 412
    assert old.put("/train/small.txt", b"newer").status == 200
    assert old.ask("DELETE", "/train/large.bin").status == 204
    old.stop()
    old.start()
    assert old.get("/train/small.txt").body == b"newer"
    assert old.get("/train/large.bin").status == 404


def test_a_lost_index_of_an_old_drive_is_rebuilt_from_its_files(old):
    for file in (old.directory / "data/drive/index").iterdir():
        file.unlink()
    rebuilt = subprocess.run([binary(), "fsck", "--rebuild", str(old.directory / "data/drive")], capture_output=True, text=True)
    assert rebuilt.returncode in (0, 1), rebuilt.stderr
    old.start()
    # Small objects are in the index alone.
    assert old.get("/train/large.bin").body == pattern(300_000, 3)
    assert old.get("/train/parts.bin").body == pattern(5 << 20, 1) + pattern(1000, 2)


def test_a_drive_of_a_newer_version_is_refused_with_a_hint(old):
    path = old.directory / "data/drive/millrace.json"
    path.write_text(json.dumps({**identity(old), "format": 3}))
    old.start(wait=False)
    assert old.process.wait(timeout=60) != 0
    assert "format 3 is not known here" in old.said()
    assert identity(old)["format"] == 3
