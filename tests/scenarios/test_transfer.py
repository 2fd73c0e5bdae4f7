"""Objects to and from a node of our own: the verbs as people use them, interrupted too."""
import os
import re
import signal
import subprocess
import time

import pytest


@pytest.fixture
def node(millrace, tmp_path, monkeypatch):
    """A node on a free port, and the environment that leads to it."""
    running = millrace.popen("up", "--data", tmp_path / "node", "--listen", "127.0.0.1:0",
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    line = running.stdout.readline().decode()
    address = re.search(r"http://127\.0\.0\.1:\d+", line).group(0)
    monkeypatch.setenv("MILLRACE_ENDPOINT", address)
    for name in ("MILLRACE_ACCESS_KEY", "MILLRACE_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
    yield address
    running.send_signal(signal.SIGTERM)
    running.wait(timeout=60)


def write(path, size):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(size))
    return path.read_bytes()


def test_what_is_put_can_be_listed_fetched_and_removed(millrace, node, tmp_path):
    content = {name: write(tmp_path / name, 20_000) for name in ("a-000.bin", "a-001.bin", "odd é+% name.bin")}
    millrace("mb", "mr://train")
    millrace("put", "a-{000..001}.bin", "odd é+% name.bin", "mr://train/p/")
    rows = millrace.json("ls", "mr://train/p/")
    assert {row["key"]: row["size"] for row in rows} == {"p/" + name: 20_000 for name in content}
    assert millrace.json("du", "mr://train")[0]["bytes"] == 60_000
    assert millrace("cat", "mr://train/p/odd é+% name.bin").out == content["odd é+% name.bin"]
    millrace("get", "mr://train/p/a-*.bin", "out/")
    for name in ("a-000.bin", "a-001.bin"):
        assert (tmp_path / "out" / name).read_bytes() == content[name]
    millrace("cp", "mr://train/p/a-000.bin", f"{node}/train/copy.bin")
    assert millrace("cat", f"{node}/train/copy.bin").out == content["a-000.bin"]
    millrace("rb", "mr://train", code=1)
    millrace("rm", "-r", "mr://train/p")
    millrace("rm", "mr://train/copy.bin")
    assert millrace.json("ls", "-r", "mr://train") == []
    millrace("rb", "mr://train")


def test_sync_copies_only_what_differs(millrace, node, tmp_path):
    write(tmp_path / "tree/a.bin", 1000)
    write(tmp_path / "tree/deep/b.bin", 2000)
    millrace("mb", "mr://mirror")
    assert millrace.json("sync", "tree", "mr://mirror/t")[0]["copied"] == 2
    assert millrace.json("sync", "tree", "mr://mirror/t")[0]["copied"] == 0
    (tmp_path / "tree/a.bin").unlink()
    assert millrace.json("sync", "--delete", "tree", "mr://mirror/t")[0]["removed"] == 1
    millrace("sync", "mr://mirror/t", "back")
    assert [path.name for path in (tmp_path / "back").rglob("*.bin")] == ["b.bin"]
    assert millrace.json("sync", "mr://mirror/t", "back")[0]["copied"] == 0


def test_interrupted_transfers_go_on(millrace, node, tmp_path):
    content = write(tmp_path / "big.bin", 150_000_000)
    millrace("mb", "mr://train")
    upload = millrace.popen("-q", "put", "-j", "1", "big.bin", "mr://train/big.bin")
    wait_until(lambda: part_count(millrace, node) >= 1 or upload.poll() is not None)
    upload.kill()
    upload.wait()
    done = millrace.json("put", "big.bin", "mr://train/big.bin")[0]
    assert done["bytes"] == len(content)
    download = millrace.popen("-q", "get", "-j", "1", "mr://train/big.bin", "got.bin")
    state = tmp_path / "got.bin.part.state"
    wait_until(lambda: (state.exists() and state.read_text().count("\n") > 1) or download.poll() is not None)
    download.kill()
    download.wait()
    millrace("get", "mr://train/big.bin", "got.bin")
    assert (tmp_path / "got.bin").read_bytes() == content
    assert not state.exists()


def part_count(millrace, node):
    done = subprocess.run(["curl", "-s", f"{node}/train?uploads"], capture_output=True, text=True)
    upload = re.search("<UploadId>([^<]+)</UploadId>", done.stdout)
    if not upload:
        return 0
    done = subprocess.run(["curl", "-s", f"{node}/train/big.bin?uploadId={upload.group(1)}"], capture_output=True, text=True)
    return done.stdout.count("<PartNumber>")


def wait_until(condition):
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never became true")


def test_shards_are_made_in_a_store_and_read_from_it(millrace, node, tmp_path):
    for number in range(60):
        write(tmp_path / f"photos/{number:03}.jpg", 50_000)
        (tmp_path / f"photos/{number:03}.cls").write_text(str(number))
    millrace("mb", "mr://train")
    millrace("shard", "photos", "-o", "mr://train/s-%03d.tar", "--max-bytes", "1MB")
    shards = [row["key"] for row in millrace.json("ls", "mr://train/")]
    assert len(shards) > 1 and all(name.endswith(".tar") for name in shards)
    assert all(row["ok"] for row in millrace.json("tar", "verify", "mr://train/s-*.tar"))
    millrace("tar", "sort", "--reverse", "mr://train/s-*.tar", "-o", f"{node}/train/sorted.tar.zst")
    rows = millrace.json("tar", "ls", "mr://train/sorted.tar.zst")
    assert [row["key"] for row in rows] == [f"{number:03}" for number in reversed(range(60))]
    refused = millrace("tar", "index", "mr://train/sorted.tar.zst", code=2)
    assert "store makes" in refused.err
    millrace("tar", "cat", "mr://train/s-000.tar", "-o", "mr://train/s-000.tar", code=2)


def test_errors_say_what_to_do(millrace, node):
    millrace("mb", "mr://train")
    missing = millrace("get", "mr://train/nothing.tar", ".", code=1)
    assert "does not exist" in missing.err and "millrace ls" in missing.err
    refused = millrace("ls", "http://127.0.0.1:1/train", code=1)
    assert "Connection refused" in refused.err and "running" in refused.err
    millrace("put", "nothing.bin", "mr://train/", code=1)
    millrace("put", "-", "mr://train/", code=2, stdin=b"x")


def test_a_load_is_measured(millrace, node):
    report = millrace.json("bench", "store", "mr://bench", "--duration", "300ms", "--streams", "2", "--sizes", "4KiB",
                           "--objects", "4", "--put-share", "0.3")[0]
    assert report["get"]["requests"] > 0 and report["put"]["requests"] > 0
    assert report["get"]["errors"] == report["put"]["errors"] == 0
    assert report["get"]["p50_us"] <= report["get"]["p99_us"] <= report["get"]["max_us"]
    assert millrace.json("ls", "-r", "mr://bench") == []
