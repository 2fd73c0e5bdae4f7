"""Objects to and from a node of our own: the verbs as people use them, interrupted too."""
import os
import re
import signal
import stat
import subprocess
import time
import urllib.request

import pytest

from archives import small_shard
from store_client import wait_until


@pytest.fixture
def node(millrace, tmp_path, monkeypatch):
    """A node on a free port, and the environment that leads to it."""
    running = millrace.popen("up", "--data", tmp_path / "node", "--listen", "127.0.0.1:0", "--set", "short_names=on",
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
    assert done["bytes"] == len(content) and (done["resumed_bytes"] > 0 or upload.returncode == 0)
    download = millrace.popen("-q", "get", "-j", "1", "mr://train/big.bin", "got.bin")
    state = tmp_path / "got.bin.millrace-part.state"
    wait_until(lambda: (state.exists() and state.read_text().count("\n") > 1) or download.poll() is not None)
    download.kill()
    download.wait()
    done = millrace.json("get", "mr://train/big.bin", "got.bin")[0]
    assert done["resumed_bytes"] > 0 or download.returncode == 0
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


# Names that look like something else.

def test_a_key_that_ends_in_part_is_an_object_like_any_other(millrace, node, tmp_path):
    large, small = write(tmp_path / "tree/x", 40_000_000), write(tmp_path / "tree/x.part", 16)
    millrace("mb", "mr://b")
    assert millrace.json("sync", "tree", "mr://b/t")[0]["copied"] == 2
    assert millrace.json("sync", "--delete", "tree", "mr://b/t")[0]["removed"] == 0
    millrace("get", "-r", "mr://b/t", "back")
    assert (tmp_path / "back/x").read_bytes() == large and (tmp_path / "back/x.part").read_bytes() == small
    assert sorted(os.listdir(tmp_path / "back")) == ["x", "x.part"]


def test_an_object_cannot_pass_for_the_half_of_another(millrace, node, tmp_path):
    write(tmp_path / "a", 1000)
    millrace("mb", "mr://b")
    for key in ("x", "x.millrace-part", "x.millrace-part.state"):
        millrace("put", "a", f"mr://b/{key}")
    failed = millrace("get", "-r", "mr://b", "back", code=1)
    assert "would pass for an unfinished download" in failed.err
    assert os.listdir(tmp_path / "back") == ["x"]


def test_counts_and_unions_are_no_part_of_an_objects_address(millrace, node, tmp_path):
    content = {name: write(tmp_path / name, 100) for name in ("run@3.tar", "run0.tar", "run1.tar", "a::b", "photo@2x.png")}
    millrace("mb", "mr://b")
    for name in content:
        millrace("put", name, f"mr://b/{name}")
        assert millrace("cat", f"mr://b/{name}").out == content[name]
    millrace("rm", "mr://b/run@3.tar")
    assert [row["key"] for row in millrace.json("ls", "mr://b")] == ["a::b", "photo@2x.png", "run0.tar", "run1.tar"]


def test_removing_what_is_not_there_is_told(millrace, node, tmp_path):
    write(tmp_path / "a", 10)
    millrace("mb", "mr://b")
    for number in (1, 3):
        millrace("put", "a", f"mr://b/k{number}")
    assert "5 of 5 objects do not exist; the first: mr://b/none1" in millrace("rm", "mr://b/none{1..5}", code=1).err
    told = millrace("rm", "mr://b/k{1..4}", code=1)
    assert "removed 2 objects" in told.err and "2 of 4 objects do not exist; the first: mr://b/k2" in told.err
    assert millrace.json("rm", "-f", "mr://b/k{1..4}") == [{"removed": 0}]


def test_listing_and_sums_take_brace_ranges(millrace, node, tmp_path):
    write(tmp_path / "f", 10)
    millrace("mb", "mr://b")
    for key in ("a/1", "b/1", "c/1"):
        millrace("put", "f", f"mr://b/{key}")
    assert [row["key"] for row in millrace.json("ls", "-r", "mr://b/{a,c}/")] == ["a/1", "c/1"]
    assert [row["objects"] for row in millrace.json("du", "mr://b/{a,c}/")] == [1, 1]
    assert "nothing begins with mr://b/d" in millrace("du", "mr://b/d", code=1).err


def test_keys_that_no_directory_can_hold_fail_alone(millrace, node, tmp_path):
    write(tmp_path / "f", 10)
    millrace("mb", "mr://b")
    for key in ("a", "a/b", "c", "%2e%2e/up"):
        subprocess.run(["curl", "-sf", "--path-as-is", "-T", str(tmp_path / "f"), f"{node}/b/{key}"], check=True, stdout=subprocess.DEVNULL)
    told = millrace("sync", "mr://b", "back", code=1).err
    assert "2 of 4 could not be copied" in told and "cannot be a file name below a directory" in told
    assert (tmp_path / "back/c").exists() and not (tmp_path / "up").exists()
    assert [path.name for path in (tmp_path / "back").rglob("*millrace-part*")] == []


def test_shards_of_a_stream_go_where_the_only_name_says(millrace, node, tmp_path):
    for number in range(3):
        write(tmp_path / f"data/{number}.bin", 100)
    stream = subprocess.run(["tar", "-cf", "-", "data"], cwd=tmp_path, check=True, capture_output=True).stdout
    millrace("mb", "mr://b")
    millrace("shard", f"{node}/b/train-%06d.tar", stdin=stream)
    millrace("shard", "here-%03d.tar", stdin=stream)
    assert [row["key"] for row in millrace.json("ls", "mr://b")] == ["train-000000.tar"]
    assert millrace.json("tar", "stat", "here-000.tar")[0]["samples"]["count"] == 3
    assert "--output says where the shards go" in millrace("shard", "data", code=2).err


# What was damaged on the way or on the drive.

def damage(directory, size):
    """Flips a byte in the stored files of at least this size."""
    for path in directory.rglob("*"):
        if path.is_file() and path.stat().st_size >= size and "data" in path.parts:
            with open(path, "r+b") as file:
                file.seek(size // 2)
                byte = file.read(1)
                file.seek(size // 2)
                file.write(bytes([byte[0] ^ 1]))


@pytest.mark.parametrize("size", [1000, 200_000])
def test_sync_by_content_sees_what_size_and_time_hide(millrace, node, tmp_path, size):
    (tmp_path / "tree").mkdir()
    write(tmp_path / "tree" / "a", size)
    millrace("mb", "mr://b")
    millrace("sync", "tree", "mr://b/tree")
    (tmp_path / "tree" / "a").write_bytes(b"x" * size)
    os.utime(tmp_path / "tree" / "a", (1, 1))
    millrace("sync", "tree", "mr://b/tree")
    assert millrace("cat", "mr://b/tree/a").out != b"x" * size
    millrace("sync", "--checksum", "tree", "mr://b/tree")
    assert millrace("cat", "mr://b/tree/a").out == b"x" * size


@pytest.mark.parametrize("size", [3_000_000, 70_000_000], ids=["one piece", "parts"])
def test_damaged_objects_are_not_fetched_as_good(millrace, node, tmp_path, size):
    content = write(tmp_path / "good", size)
    millrace("mb", "mr://b")
    millrace("put", "good", "mr://b/k")
    assert millrace("cat", "mr://b/k").out == content
    millrace("get", "mr://b/k", "copy")
    assert (tmp_path / "copy").read_bytes() == content
    damage(tmp_path / "node", 1_000_000)
    # The store refuses; where it is told to leave that to the scrubber, the client finds out.
    for setting, told in (("first", "its checksum is wrong"), ("scrub", "do not have the checksum")):
        millrace("bucket", "b", "--verify", setting)
        for words in (("get", "mr://b/k", "bad"), ("cat", "mr://b/k")):
            assert told in millrace(*words, code=1).err
    assert not (tmp_path / "bad").exists()


def test_large_copies_inside_a_store_are_made_in_parts(millrace, node, tmp_path):
    size = (1 << 30) + 5
    with open(tmp_path / "large", "wb") as file:
        file.truncate(size)
        file.seek(size - 5)
        file.write(b"there")
    millrace("mb", "mr://b")
    millrace("put", "--content-type", "x/y", "--metadata", "made=today", "large", "mr://b/one")
    millrace("cp", "mr://b/one", "mr://b/two")
    row = millrace.json("stat", "mr://b/two")[0]
    assert row["size"] == size and row["etag"].endswith('-5"')
    assert row["headers"]["content-type"] == "x/y" and row["headers"]["x-amz-meta-made"] == "today"
    tail = subprocess.run(["curl", "-sf", "-r", "-8", f"{node}/b/two"], check=True, capture_output=True).stdout
    assert tail == b"\0\0\0there"


# -- uploads under way, dry runs, watching, aliases ----------------------------------------------------------

def begin_upload(address, key, part=b""):
    with urllib.request.urlopen(urllib.request.Request(f"{address}/train/{key}?uploads", method="POST")) as answer:
        upload = re.search(rb"<UploadId>(.*)</UploadId>", answer.read()).group(1).decode()
    if part:
        urllib.request.urlopen(urllib.request.Request(f"{address}/train/{key}?partNumber=1&uploadId={upload}", data=part, method="PUT")).close()
    return upload


def test_uploads_under_way_are_listed_and_aborted(millrace, node, tmp_path):
    millrace("mb", "mr://train")
    write(tmp_path / "whole", 10)
    millrace("put", "whole", "mr://train/a/one")
    uploads = {key: begin_upload(node, key, part) for key, part in [("a/one", b"x" * 1000), ("a/two", b""), ("b/three", b"")]}
    rows = millrace.json("ls", "--incomplete", "mr://train")
    assert {row["key"]: row["upload"] for row in rows} == uploads and rows[0]["size"] == 1000 and rows[0]["parts"] == 1
    assert [row["key"] for row in millrace.json("ls", "--incomplete", "mr://train/a/t*")] == ["a/two"]
    assert "a/one" in millrace("ls", "--incomplete", node).text
    assert "add -r" in millrace("rm", "--incomplete", "mr://train", code=2).err
    assert "no upload is under way" in millrace("rm", "--incomplete", "mr://train/a", code=1).err
    assert millrace("rm", "-n", "--incomplete", "-r", "mr://train/a/").text.count("would abort the upload of") == 2
    millrace("rm", "--incomplete", "mr://train/a/one")
    assert [row["key"] for row in millrace.json("ls", "--incomplete", "mr://train")] == ["a/two", "b/three"]
    assert millrace.json("rm", "-r", "--incomplete", "mr://train")[0] == {"aborted": 2}
    assert millrace.json("ls", "--incomplete", "mr://train") == []
    assert millrace("cat", "mr://train/a/one").out == (tmp_path / "whole").read_bytes()


def test_a_dry_run_says_what_would_be_done_and_does_nothing(millrace, node, tmp_path):
    write(tmp_path / "d" / "x", 10)
    millrace("mb", "mr://train")
    millrace("put", "d/x", "mr://train/there")
    before = millrace("ls", "-r", "mr://train").text
    for words, said in [(["put", "-n", "d/x", "mr://train/new"], "would copy d/x to mr://train/new"),
                        (["get", "-n", "mr://train/there", "back"], "would copy mr://train/there to back"),
                        (["cp", "--dry-run", "mr://train/there", "mr://train/copy"], "would copy mr://train/there to mr://train/copy"),
                        (["sync", "-n", "--delete", "d", "mr://train"], "would copy x\nwould remove there"),
                        (["rm", "-n", "mr://train/there"], "would remove mr://train/there"),
                        (["rb", "-n", "--force", "mr://train"], "would remove mr://train/there\nwould remove mr://train\n"),
                        (["mb", "-n", "mr://other"], "would make mr://other"),
                        (["bucket", "-n", "train", "--anonymous-read", "on"], "would change train"),
                        (["drives", "drain", "-n", "/mnt/a"], "would drain the drive /mnt/a"),
                        (["keys", "create", "-n", "--admin", "--data", "keys"], "would make a key")]:
        assert said in millrace(*words).text
    assert millrace("ls", "-r", "mr://train").text == before and not (tmp_path / "back").exists()
    assert [row["bucket"] for row in millrace.json("ls")] == ["train"]
    assert not (tmp_path / "keys" / "keys.json").exists()


def test_sync_goes_on_watching(millrace, node, tmp_path):
    write(tmp_path / "tree" / "first", 10)
    millrace("mb", "mr://train")
    watching = millrace.popen("sync", "--watch", "--interval", "0.1", "--delete", "tree", "mr://train/t", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def keys():
            return [row["key"] for row in millrace.json("ls", "-r", "mr://train")]
        wait_until(lambda: keys() == ["t/first"])
        write(tmp_path / "tree" / "sub" / "second", 20)
        wait_until(lambda: keys() == ["t/first", "t/sub/second"])
        (tmp_path / "tree" / "first").unlink()
        wait_until(lambda: keys() == ["t/sub/second"])
        assert watching.poll() is None
    finally:
        watching.terminate()
        watching.wait(timeout=60)


@pytest.fixture
def aliases(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "millrace" / "aliases"


def test_an_alias_stands_for_a_store_wherever_addresses_do(millrace, node, aliases, tmp_path, monkeypatch):
    monkeypatch.setenv("MILLRACE_ENDPOINT", "http://127.0.0.1:1")
    millrace("alias", "set", "prod", node)
    assert stat.S_IMODE(aliases.stat().st_mode) == 0o600
    assert millrace.json("alias", "list") == [{"alias": "prod", "endpoint": node + "/", "access_key": ""}]
    millrace("mb", "prod/train")
    write(tmp_path / "odd %41+ name", 100)
    millrace("put", "odd %41+ name", "prod/train/p/")
    assert "p/odd %41+ name" in millrace("ls", "-r", "prod/train").text and "train" in millrace("ls", "prod").text
    small_shard(tmp_path / "s.tar", 4)
    millrace("tar", "split", "s.tar", "--max-samples", "2", "-o", "prod/train/s-%06d.tar")
    assert len(millrace.json("tar", "ls", "prod/train/s-{000000..000001}.tar")) == 4
    millrace("load", "prod/train/s-*.tar", "--batch", "2")
    millrace("sync", "prod/train/p", "copied")
    assert (tmp_path / "copied" / "odd %41+ name").exists()
    assert "train" in millrace("bucket", "--endpoint", "prod").text
    assert "mr+prod://train/nothing does not exist" in millrace("rm", "prod/train/nothing", code=1).err
    (tmp_path / "prod").mkdir()
    refused = millrace("put", "prod/x", "prod/train/", code=2).err
    assert "may be a file here or an object of the store prod" in refused and "./prod/x" in refused
    millrace("ls", "prod/train")
    millrace("alias", "remove", "prod")
    assert "there is no alias" in millrace("alias", "remove", "prod", code=1).err and millrace.json("alias", "list") == []


def test_the_keys_of_an_alias_are_its_own_and_nobody_elses_to_read(millrace, aliases, tmp_path, monkeypatch):
    for name in ("MILLRACE_ACCESS_KEY", "MILLRACE_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
    made = dict(line.split("=", 1) for line in millrace("keys", "create", "--admin", "--data", "locked").text.splitlines())
    locked = millrace.popen("up", "--data", tmp_path / "locked", "--listen", "127.0.0.1:0", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        address = re.search(r"http://127\.0\.0\.1:\d+", locked.stdout.readline().decode()).group(0)
        millrace("alias", "set", "mine", address, made["MILLRACE_ACCESS_KEY"], stdin=made["MILLRACE_SECRET_KEY"].encode() + b"\n")
        millrace("alias", "set", "nobody", address)
        millrace("mb", "mine/train")
        assert millrace("ls", "nobody/train", code=None).code != 0 and millrace("ls", address, code=None).code != 0
        assert made["MILLRACE_SECRET_KEY"] not in millrace("alias", "list").text
        aliases.chmod(0o644)
        assert "other users can read" in millrace("ls", "mine/train", code=None).err
    finally:
        locked.send_signal(signal.SIGTERM)
        locked.wait(timeout=60)


@pytest.mark.parametrize("words, said", [
    (["set", "Prod", "http://h"], '"Prod" cannot be an alias'), (["set", "a/b", "http://h"], "cannot be an alias"),
    (["set", "prod", "mr://x"], "is not the address of a store"), (["set", "prod", "http://h/bucket"], "is not the address of a store"),
    (["set", "prod", "http://h", "KEY"], "the secret key of KEY is missing")])
def test_an_alias_that_cannot_be_one_is_refused(millrace, aliases, words, said):
    assert said in millrace("alias", *words, code=2).err and not aliases.exists()


# -- colours -------------------------------------------------------------------------------------------------

def seen_on_a_terminal(millrace, *words, **env):
    """What a person would see, escape sequences and all."""
    master, slave = os.openpty()
    done = subprocess.run([millrace.binary, *map(str, words)], stdout=slave, stderr=slave, cwd=millrace.directory,
                          env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **env})
    os.close(slave)
    seen = b""
    try:
        while piece := os.read(master, 65536):
            seen += piece
    except OSError:  # the other end is closed
        pass
    os.close(master)
    assert done.returncode is not None
    return seen.decode()


def test_colours_are_for_terminals_without_no_color(millrace, tmp_path):
    small_shard(tmp_path / "s.tar", 2)
    assert "\x1b[32mok\x1b[0m" in seen_on_a_terminal(millrace, "tar", "verify", "s.tar")
    assert "\x1b[1;31mmillrace:\x1b[0m" in seen_on_a_terminal(millrace, "tar", "verify", "none.tar")
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b[3" not in seen_on_a_terminal(millrace, "tar", "verify", "s.tar", **env)
    assert "\x1b" not in millrace("tar", "verify", "s.tar").text + millrace("tar", "verify", "none.tar", code=1).err
