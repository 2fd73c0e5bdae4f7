"""A bucket in front of a plain HTTP server: a real nginx, and a server that misbehaves as told."""
import contextlib
import hashlib
import http.client
import io
import json
import random
import tarfile
import threading

import pytest

from nodes import Node, free_port
from store_client import MIB, in_threads, wait_until
from upstreams import Misbehaving, Nginx, Proxy, give_upstream, nginx, set_upstream


def some_bytes(size, seed=1):
    return random.Random(seed).randbytes(size)


def shard(samples, padding=0):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for number in range(samples):
            member = tarfile.TarInfo(f"{number:04}.txt")
            content = f"sample {number}".encode() + b" " * padding
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def upstream(tmp_path):
    if nginx() is None:
        pytest.skip("there is no nginx: apt install nginx-light")
    with Nginx(tmp_path) as server:
        yield server


@pytest.fixture
def node(tmp_path):
    directory = tmp_path / "node"
    directory.mkdir()
    with Node(directory, "--set", "upstream_timeout=3") as running:
        yield running


def wait_until_cached(node, path):
    wait_until(lambda: node.ask("HEAD", path).headers.get("x-millrace-cached") == "yes", f"{path} was never stored")


def test_a_miss_is_given_and_stored_and_the_upstream_is_not_asked_again(upstream, node):
    content = some_bytes(3 * MIB + 17)
    upstream.put("train/a.tar", content)
    give_upstream(node, "cache", upstream.url)
    cold = node.get("/cache/train/a.tar")
    assert cold.status == 200 and cold.body == content
    assert cold.headers["x-millrace-cached"] == "no"
    wait_until_cached(node, "/cache/train/a.tar")
    asked = len(upstream.requests())
    hot = node.get("/cache/train/a.tar")
    assert hot.body == content and hot.headers["x-millrace-cached"] == "yes"
    assert hot.headers["etag"] == cold.headers["etag"]
    assert len(upstream.requests()) == asked == 1


@pytest.mark.parametrize("size", [0, 1, 16 << 10, (16 << 10) + 1, MIB, 8 * MIB, 8 * MIB + 1, 40 * MIB + 3])
def test_objects_of_all_sizes_are_whole(upstream, node, size):
    content = some_bytes(size, size)
    upstream.put("object", content)
    give_upstream(node, "cache", upstream.url)
    assert node.get("/cache/object").body == content
    wait_until_cached(node, "/cache/object")
    again = node.get("/cache/object")
    assert again.headers["x-millrace-cached"] == "yes" and again.body == content


def test_many_readers_of_one_missing_object_cause_one_fetch(upstream, node):
    content = some_bytes(6 * MIB)
    upstream.put("slow/object", content)
    upstream.put("object", content)
    give_upstream(node, "cache", upstream.url)
    bodies = in_threads(12, lambda _: node.get("/cache/object").body)
    assert all(body == content for body in bodies)
    assert len(upstream.requests("GET")) == 1


def test_a_large_object_comes_in_parts_and_no_byte_twice(upstream, node):
    content = some_bytes(70 * MIB)
    upstream.put("large", content)
    give_upstream(node, "cache", upstream.url)
    bodies = in_threads(3, lambda _: hashlib.sha256(node.get("/cache/large").body).hexdigest())
    assert set(bodies) == {hashlib.sha256(content).hexdigest()}
    answers = upstream.requests("GET")
    assert len(answers) == 9 and {status for _, status, _ in answers} == {206}
    assert sum(size for _, _, size in answers) == len(content)


def test_ranges_of_a_missing_object_are_answered_and_it_is_stored(upstream, node):
    content = some_bytes(30 * MIB)
    upstream.put("object", content)
    give_upstream(node, "cache", upstream.url)
    for begin, end in ((20 * MIB + 5, 20 * MIB + 104), (0, 9), (len(content) - 7, len(content) - 1)):
        answer = node.get("/cache/object", range=f"bytes={begin}-{end}")
        assert answer.status == 206 and answer.body == content[begin : end + 1]
        assert answer.headers["content-range"] == f"bytes {begin}-{end}/{len(content)}"
    wait_until_cached(node, "/cache/object")
    assert node.get("/cache/object").body == content


def test_a_range_does_not_wait_for_the_bytes_before_it(upstream, node):
    content = some_bytes(64 * MIB)
    upstream.put("object", content)
    # 2 MiB/s: the whole object takes far longer than the test's patience for one range.
    give_upstream(node, "cache", upstream.url + "/slow")
    begin = 60 * MIB
    answer = node.ask("GET", "/cache/object", None, {"range": f"bytes={begin}-{begin + 99}"}, timeout=25)
    assert answer.status == 206 and answer.body == content[begin : begin + 100]
    assert node.ask("HEAD", "/cache/object").headers["x-millrace-cached"] == "no"


def test_a_head_does_not_fetch(upstream, node):
    upstream.put("object", b"x" * 1000)
    give_upstream(node, "cache", upstream.url)
    for _ in range(3):
        head = node.ask("HEAD", "/cache/object")
        assert head.status == 200 and head.headers["content-length"] == "1000" and head.headers["x-millrace-cached"] == "no"
    assert upstream.requests("GET") == []
    assert node.ask("GET", "/cache/object", None, {"if-none-match": head.headers["etag"]}).status == 304
    assert upstream.requests("GET") == []


def test_a_plain_server_has_no_list_so_a_list_shows_what_is_stored(upstream, node, millrace):
    for name in ("a", "b", "c"):
        upstream.put(name, name.encode())
    give_upstream(node, "cache", upstream.url)
    assert node.keys("cache") == []
    assert node.get("/cache/b").body == b"b"
    wait_until(lambda: node.keys("cache") == ["b"], "the object never appeared in the list")
    rows = millrace.json("ls", "--cached", f"{node.url}/cache/")
    assert [(row["key"], row["cached"]) for row in rows] == [("b", True)]


def test_members_and_samples_of_a_missing_shard(upstream, node):
    content = shard(50)
    upstream.put("s.tar", content)
    give_upstream(node, "cache", upstream.url)
    assert node.get("/cache/s.tar?member=0017.txt").body == b"sample 17"
    with tarfile.open(fileobj=io.BytesIO(node.get("/cache/s.tar?samples=3-5").body)) as samples:
        assert samples.getnames() == ["0003.txt", "0004.txt", "0005.txt"]
    assert node.get("/cache/s.tar").headers["x-millrace-samples"] == "50"


def test_what_the_upstream_does_not_have_is_missing_and_names_it(upstream, node):
    give_upstream(node, "cache", upstream.url)
    answer = node.get("/cache/nothing")
    assert answer.status == 404 and answer.code == "NoSuchKey"
    assert upstream.url.encode() in answer.body


def test_a_redirect_is_followed(upstream, node):
    upstream.put("object", b"behind a redirect" * 5000)
    give_upstream(node, "cache", upstream.url + "/moved")
    assert node.get("/cache/object").body == b"behind a redirect" * 5000
    wait_until_cached(node, "/cache/object")


def test_while_the_upstream_is_down_what_is_stored_is_served(upstream, node):
    upstream.put("here", b"stored")
    upstream.put("there", b"not stored")
    give_upstream(node, "cache", upstream.url, check=0)
    assert node.get("/cache/here").body == b"stored"
    wait_until_cached(node, "/cache/here")
    upstream.stop()
    assert node.get("/cache/here").body == b"stored"
    answer = node.get("/cache/there")
    assert answer.status == 503 and upstream.url.encode() in answer.body and b"<Hint>" in answer.body
    upstream.start()
    assert node.get("/cache/there").body == b"not stored"


def test_an_upstream_that_says_nothing_is_told_as_a_timeout(node):
    release = threading.Event()
    with Misbehaving(b"x", lambda _: release.wait(60)) as server:
        give_upstream(node, "cache", server.url)
        answer = node.get("/cache/object")
        release.set()
    assert answer.status == 504 and server.url.encode() in answer.body


@pytest.mark.parametrize("status, answered", [(403, 502), (401, 502), (500, 503), (405, 502)])
def test_what_the_upstream_refuses_is_told_with_its_name_and_the_next_step(node, status, answered):
    with Misbehaving(b"x", lambda handler: handler.refuse(status)) as server:
        give_upstream(node, "cache", server.url)
        answer = node.get("/cache/object")
    assert answer.status == answered
    assert server.url.encode() in answer.body and str(status).encode() in answer.body and b"<Hint>" in answer.body


def test_a_cut_connection_is_taken_up_where_it_was(upstream, node):
    content = some_bytes(20 * MIB)
    upstream.put("object", content)
    with Proxy(upstream.port, cuts=5, after=3 * MIB) as proxy:
        give_upstream(node, "cache", f"http://127.0.0.1:{proxy.port}")
        answer = node.get("/cache/object")
        assert answer.body == content and proxy.cuts == 0
        wait_until_cached(node, "/cache/object")


def test_versions_are_never_mixed(node):
    one, two = some_bytes(40 * MIB, 1), some_bytes(40 * MIB, 2)
    changed = threading.Event()

    def answer(handler):
        if handler.command == "GET" and (handler.headers.get("Range") or "").startswith("bytes=16777216-"):
            changed.set()
        return handler.give(two, '"two"') if changed.is_set() else handler.give(one, '"one"')

    with Misbehaving(one, answer) as server:
        give_upstream(node, "cache", server.url)
        # Where bytes of the first version are out already, only a cut answer is right.
        with contextlib.suppress(http.client.IncompleteRead, ConnectionError):
            assert node.get("/cache/object").status == 503
        assert changed.is_set()
        assert wait_until(lambda: node.get("/cache/object").body == two)
        wait_until_cached(node, "/cache/object")
        assert node.get("/cache/object").headers["etag"] == '"two"'


def test_a_server_without_etags_and_ranges_is_read_in_one_stream(node):
    content = some_bytes(12 * MIB)

    def answer(handler):
        del handler.headers["Range"]
        return handler.give(content, "", headers={"Last-Modified": "Sun, 15 Nov 2026 22:50:34 GMT", "Accept-Ranges": "none"})

    with Misbehaving(content, answer) as server:
        give_upstream(node, "cache", server.url)
        first = node.get("/cache/object")
        assert first.body == content
        wait_until_cached(node, "/cache/object")
        assert server.count("GET") == 1
        assert node.get("/cache/object").headers["etag"] == first.headers["etag"]


def test_a_wrong_length_is_an_error_and_nothing_is_stored(node):
    content = some_bytes(MIB)

    def answer(handler):
        if handler.command == "HEAD":
            return handler.give(content + b"more", '"one"')
        return handler.give(content, '"one"')

    with Misbehaving(content, answer) as server:
        give_upstream(node, "cache", server.url)
        answered = node.get("/cache/object")
        assert answered.status in (502, 503) and server.url.encode() in answered.body
        assert node.ask("HEAD", "/cache/object").headers["x-millrace-cached"] == "no"


def test_a_wrong_checksum_is_an_error_and_nothing_is_stored(node):
    content = some_bytes(MIB)
    wrong = {"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="}
    with Misbehaving(content, lambda handler: handler.give(content, '"one"', headers=wrong)) as server:
        give_upstream(node, "cache", server.url)
        answer = node.get("/cache/object")
        assert answer.status >= 500 and b"content-md5" in answer.body
        assert node.ask("HEAD", "/cache/object").headers["x-millrace-cached"] == "no"


def test_a_checked_object_is_fetched_again_when_it_changed(upstream, node):
    upstream.put("object", b"first version")
    give_upstream(node, "cache", upstream.url, check=0)
    assert node.get("/cache/object").body == b"first version"
    wait_until_cached(node, "/cache/object")
    upstream.put("object", b"the second one")
    assert node.get("/cache/object").body == b"the second one"
    wait_until_cached(node, "/cache/object")
    assert node.get("/cache/object").body == b"the second one"


def test_an_object_that_is_never_checked_stays_as_it_was(upstream, node):
    upstream.put("object", b"first version")
    give_upstream(node, "cache", upstream.url)
    assert node.get("/cache/object").body == b"first version"
    wait_until_cached(node, "/cache/object")
    upstream.put("object", b"the second one")
    assert node.get("/cache/object").body == b"first version"


def test_a_deleted_object_is_told_after_the_check_and_goes(upstream, node):
    upstream.put("object", b"here for a while")
    give_upstream(node, "cache", upstream.url, check=0)
    assert node.get("/cache/object").status == 200
    wait_until_cached(node, "/cache/object")
    (upstream.files / "object").unlink()
    answer = node.get("/cache/object")
    assert answer.status == 404 and upstream.url.encode() in answer.body
    assert node.keys("cache") == []


def test_a_bucket_without_writes_refuses_them_with_the_next_step(upstream, node):
    give_upstream(node, "cache", upstream.url)
    for method in ("PUT", "DELETE"):
        answer = node.ask(method, "/cache/object", b"x" if method == "PUT" else None)
        assert answer.status == 403 and upstream.url.encode() in answer.body and b"<Hint>" in answer.body


def test_settings_that_make_no_sense_are_refused(upstream, node):
    assert node.ask("PUT", "/cache").status == 200
    for settings in ({"url": "ftp://host/"}, {"url": "http://user:secret@host/"}, {"url": "http://host/?key=secret"},
                     {"url": "mr://bucket"}, {"url": upstream.url, "write": "through"}, {"url": upstream.url, "check": -1},
                     {"url": upstream.url, "unknown": 1}, {"check": 5}, {"url": upstream.url, "access_key": "a"},
                     {"url": upstream.url, "access_key": "a", "secret_key": "b"}):
        answer = set_upstream(node, "cache", **settings)
        assert answer.status == 400, (settings, answer.body)
        assert b"secret@" not in answer.body and b"key=secret" not in answer.body
    assert "upstream" not in node.ask("GET", "/-/buckets/cache").json


def test_a_bucket_with_objects_of_its_own_takes_no_upstream(upstream, node):
    assert node.put("/cache/own", b"mine").status == 200
    answer = set_upstream(node, "cache", url=upstream.url)
    assert answer.status == 412 and b"cache" in answer.body
    assert node.get("/cache/own").body == b"mine"


def test_removing_the_bucket_removes_its_copies(upstream, node):
    upstream.put("object", b"x" * 100_000)
    give_upstream(node, "cache", upstream.url)
    assert node.get("/cache/object").status == 200
    wait_until_cached(node, "/cache/object")
    assert node.ask("DELETE", "/cache").status == 204
    assert node.get("/cache/object").code == "NoSuchBucket"
    assert (upstream.files / "object").exists()


def test_settings_survive_a_restart(upstream, tmp_path):
    directory = tmp_path / "again"
    directory.mkdir()
    upstream.put("object", b"content")
    node = Node(directory)
    with node:
        give_upstream(node, "cache", upstream.url, check=60, pin=["val/"])
        assert node.get("/cache/object").body == b"content"
        wait_until_cached(node, "/cache/object")
    with node:
        shown = node.ask("GET", "/-/buckets/cache").json["upstream"]
        assert shown == {"url": upstream.url, "signed": False, "write": "none", "check": 60, "pin": ["val/"]}
        assert node.get("/cache/object").headers["x-millrace-cached"] == "yes"


def test_prefetch_stores_what_is_named_with_progress(upstream, node, millrace):
    for number in range(12):
        upstream.put(f"{number:06}.tar", some_bytes(MIB, number))
    give_upstream(node, "cache", upstream.url)
    rows = millrace.json("prefetch", f"{node.url}/cache/{{000000..000011}}.tar")
    assert rows[-1]["objects"] == 12 and rows[-1]["fetched_bytes"] == 12 * MIB and rows[-1]["failed"] == 0
    assert sorted(node.keys("cache")) == [f"{number:06}.tar" for number in range(12)]
    again = millrace.json("prefetch", f"{node.url}/cache/{{000000..000011}}.tar")
    assert again[-1]["were_there"] == 12
    missing = millrace("prefetch", f"{node.url}/cache/{{000011..000013}}.tar", code=1)
    assert "2 of 3 objects" in missing.err and upstream.url in missing.err


def test_prefetch_of_a_bucket_without_upstream_is_refused(node, millrace):
    assert node.ask("PUT", "/own").status == 200
    assert "in front of no other storage" in millrace("prefetch", f"{node.url}/own/a", code=1).err
    answer = node.ask("POST", "/own?prefetch", json.dumps({"names": ["a"]}))
    assert answer.status == 400


def test_full_drives_make_room_with_what_was_not_read_for_longest(upstream, tmp_path):
    for name in ("old", "pinned/old", "new"):
        upstream.put(name, some_bytes(MIB, 3))
    directory = tmp_path / "evicting"
    directory.mkdir()
    node = Node(directory)
    with node:
        give_upstream(node, "cache", upstream.url, pin=["pinned/"])
        for name in ("old", "pinned/old", "new"):
            assert node.get(f"/cache/{name}").status == 200
            wait_until_cached(node, f"/cache/{name}")
        assert node.put("/own/object", b"no upstream has this").status == 200
    # Any drive is fuller than one percent: all goes that may go.
    node.flags += ["--set", "evict_above=1", "--set", "evict_to=0"]
    with node:
        wait_until(lambda: node.keys("cache") == ["pinned/old"], "nothing was evicted")
        assert node.get("/own/object").body == b"no upstream has this"
        assert node.get("/cache/old").status == 200


def test_a_damaged_copy_is_fetched_again(upstream, tmp_path):
    content = some_bytes(5 * MIB)
    upstream.put("object", content)
    directory = tmp_path / "damaged"
    directory.mkdir()
    node = Node(directory)
    with node:
        give_upstream(node, "cache", upstream.url)
        assert node.get("/cache/object").body == content
        wait_until_cached(node, "/cache/object")
    files = [path for path in (directory / "data").rglob("data/*/*") if path.is_file() and path.stat().st_size > MIB]
    assert len(files) == 1
    with open(files[0], "r+b") as file:
        file.seek(2 * MIB + 100)
        file.write(b"damage")
    with node:
        assert node.get("/cache/object").body == content
        wait_until(lambda: len(upstream.requests("GET")) >= 2)
        wait_until(lambda: node.get("/cache/object").body == content)


def test_the_bucket_verb_shows_and_changes_the_upstream(upstream, node, millrace):
    upstream.put("object", b"content")
    millrace("mb", f"{node.url}/cache")
    shown = millrace("bucket", f"{node.url}/cache", "--upstream", upstream.url, "--check", "30", "--pin", "val/").text
    assert f"upstream={upstream.url}" in shown and "check=30s" in shown and "pin=val/" in shown
    assert node.get("/cache/object").body == b"content"
    assert "check=never" in millrace("bucket", f"{node.url}/cache", "--check", "never").text
    assert "upstream" not in millrace("bucket", f"{node.url}/cache", "--upstream", "none").text
    # What was fetched is an object like any other now.
    assert node.get("/cache/object").headers.get("x-millrace-cached") is None


def test_an_upstream_where_nobody_listens_is_told(node):
    give_upstream(node, "cache", f"http://127.0.0.1:{free_port()}")
    answer = node.get("/cache/object")
    assert answer.status == 503 and b"127.0.0.1" in answer.body and b"<Hint>" in answer.body


def test_the_loader_names_the_shards_that_it_will_read_next(upstream, node, millrace, tmp_path):
    for number in range(8):
        upstream.put(f"s-{number}.tar", shard(40, padding=16 << 10))
    # Slow, so that reading takes longer than naming.
    give_upstream(node, "cache", upstream.url + "/slow")
    environment = {"XDG_CACHE_HOME": str(tmp_path / "xdg")}
    report = millrace.json("load", f"{node.url}/cache/s-{{0..7}}.tar", "--stream", "--spec", "bytes:txt", "--batch", "16", env=environment)[-1]
    assert report["samples"] == 320
    named = [line for line in node.ask("GET", "/-/metrics").body.decode().splitlines() if 'operation="prefetch"' in line and "_count" in line]
    assert named and float(named[0].split()[-1]) >= 1
    wait_until(lambda: node.keys("cache") == [f"s-{number}.tar" for number in range(8)], "not all shards were stored")
    assert len(upstream.requests("GET")) == 8
