"""A bucket in front of an S3 server or of another Millrace, with keys: lists, writes, rights, secrets."""
import hashlib
import json
import random
import re

import pytest

from conftest import Millrace
from nodes import Node
from store_client import MIB, Signer, in_threads, put_in_parts, wait_until
from upstreams import Proxy, give_upstream, set_upstream


def some_bytes(size, seed=1):
    return random.Random(seed).randbytes(size)


def make_node(tmp_path, name, *flags):
    directory = tmp_path / name
    directory.mkdir()
    return Node(directory, *flags)


@pytest.fixture
def origin(tmp_path):
    """Open to all who reach it."""
    with make_node(tmp_path, "origin") as node:
        assert node.ask("PUT", "/data").status == 200
        yield node


@pytest.fixture
def node(tmp_path):
    with make_node(tmp_path, "node", "--set", "upstream_timeout=3") as running:
        yield running


def wait_until_cached(node, path):
    wait_until(lambda: node.ask("HEAD", path).headers.get("x-millrace-cached") == "yes", f"{path} was never stored")


def listed(node, bucket, query=""):
    """Key and cached state of a bucket's objects."""
    text = node.ask("GET", f"/{bucket}?list-type=2{query}").body.decode()
    return re.findall(r"<Key>(.*?)</Key>.*?<Cached>(\w+)</Cached>", text, re.S)


@pytest.mark.parametrize("scheme", ["s3", "mr", "mr with endpoint"])
def test_objects_below_the_prefix_are_read_and_stored(origin, node, scheme):
    content = some_bytes(20 * MIB)
    assert origin.put("/data/train/a.tar", content).status == 200
    assert origin.put("/data/other", b"not below the prefix").status == 200
    if scheme == "mr":
        give_upstream(node, "cache", f"mr://127.0.0.1:{origin.port}/data/train")
    else:
        give_upstream(node, "cache", scheme[:2] + "://data/train/", endpoint=origin.url)
    answer = node.get("/cache/a.tar")
    assert answer.body == content and answer.headers["etag"] == origin.ask("HEAD", "/data/train/a.tar").headers["etag"]
    wait_until_cached(node, "/cache/a.tar")
    assert node.get("/cache/a.tar").body == content
    assert node.get("/cache/other").status == 404


def test_lists_show_the_upstream_and_what_is_stored(origin, node, millrace):
    for name in ("train/a", "train/b", "train/sub/c", "train/sub/d", "elsewhere"):
        assert origin.put(f"/data/{name}", name.encode()).status == 200
    give_upstream(node, "cache", "s3://data/train", endpoint=origin.url)
    assert node.get("/cache/b").body == b"train/b"
    assert node.get("/cache/sub/c").status == 200
    wait_until_cached(node, "/cache/b")
    wait_until_cached(node, "/cache/sub/c")
    assert listed(node, "cache") == [("a", "false"), ("b", "true"), ("sub/c", "true"), ("sub/d", "false")]
    assert listed(node, "cache", "&prefix=sub/") == [("sub/c", "true"), ("sub/d", "false")]
    assert listed(node, "cache", "&delimiter=/") == [("a", "false"), ("b", "true")]
    assert "<Prefix>sub/</Prefix>" in node.ask("GET", "/cache?list-type=2&delimiter=/").body.decode()
    assert node.keys("cache") == ["a", "b", "sub/c", "sub/d"]
    rows = millrace.json("ls", "-r", "--cached", f"{node.url}/cache/")
    assert [(row["key"], row["cached"]) for row in rows] == [("a", False), ("b", True), ("sub/c", True), ("sub/d", False)]
    assert re.search(r"  cached  b$", millrace("ls", "--cached", f"{node.url}/cache/").text, re.M)


def test_pages_of_a_list_lack_nothing(origin, node):
    names = [f"{number:03}" for number in range(25)]
    for name in names:
        assert origin.put(f"/data/{name}", b"x").status == 200
    give_upstream(node, "cache", "s3://data", endpoint=origin.url)
    for name in names[::3]:
        assert node.get(f"/cache/{name}").status == 200
    pages, token = [], ""
    while True:
        text = node.ask("GET", f"/cache?list-type=2&max-keys=7{token}").body.decode()
        pages.append(re.findall("<Key>(.*?)</Key>", text))
        if "<IsTruncated>true" not in text:
            break
        token = "&continuation-token=" + text.split("<NextContinuationToken>")[1].split("<")[0]
    assert sum(pages, []) == names and [len(page) for page in pages] == [7, 7, 7, 4]


def test_without_the_upstream_a_list_is_an_error_that_names_it(origin, node):
    assert origin.put("/data/here", b"stored").status == 200
    give_upstream(node, "cache", "s3://data", endpoint=origin.url)
    assert node.get("/cache/here").body == b"stored"
    wait_until_cached(node, "/cache/here")
    origin.stop()
    assert node.get("/cache/here").body == b"stored"
    answer = node.ask("GET", "/cache?list-type=2")
    assert answer.status == 503 and b"s3://data" in answer.body


@pytest.fixture
def locked(tmp_path):
    """Wants keys: a reader's and a writer's."""
    directory = tmp_path / "locked"
    directory.mkdir()
    tool = Millrace(directory)
    keys = {right: tool.json("keys", "create", "--data", directory / "data", *words)[0]
            for right, words in {"admin": ["--admin"], "read": ["--bucket", "data:read"], "both": ["--bucket", "data:read-write"]}.items()}
    with Node(directory) as running:
        running.keys_by_right = keys
        running.admin = Signer(running, keys["admin"]["access_key"], keys["admin"]["secret_key"])
        assert running.admin.ask("PUT", "/data").status == 200
        assert running.admin.ask("PUT", "/data/object", b"behind keys" * 3000).status == 200
        yield running


def keys_file(tmp_path, key):
    path = tmp_path / "upstream-keys"
    path.write_text(f"[default]\naws_access_key_id = {key['access_key']}\naws_secret_access_key = {key['secret_key']}\n")
    return path


def test_requests_are_signed_and_keys_are_never_shown(locked, node, tmp_path, millrace):
    key = locked.keys_by_right["read"]
    millrace("mb", f"{node.url}/cache")
    words = ["bucket", f"{node.url}/cache", "--upstream", "s3://data", "--upstream-endpoint", locked.url]
    shown = [millrace(*words, "--keys", keys_file(tmp_path, key), "--dry-run")]
    shown.append(millrace(*words, "--keys", keys_file(tmp_path, key)))
    assert node.get("/cache/object").body == b"behind keys" * 3000
    shown += [millrace("bucket", "--endpoint", node.url), millrace("--json", "bucket", f"{node.url}/cache")]
    texts = [outcome.text + outcome.err for outcome in shown]
    texts += [node.ask("GET", path).body.decode() for path in ("/-/buckets", "/-/buckets/cache", "/-/status", "/-/metrics")]
    texts.append(set_upstream(node, "cache", check="wrong").body.decode())
    locked.stop()
    texts.append(node.get("/cache/other").body.decode())
    texts.append(node.said())
    for text in texts:
        assert key["secret_key"] not in text and key["access_key"] not in text
    assert "signed=yes" in texts[2]


def test_wrong_keys_are_told_as_the_upstreams_refusal(locked, node):
    wrong = {**locked.keys_by_right["read"], "secret_key": "not-the-secret"}
    give_upstream(node, "cache", "s3://data", endpoint=locked.url, access_key=wrong["access_key"], secret_key=wrong["secret_key"])
    answer = node.get("/cache/object")
    assert answer.status == 502 and b"s3://data" in answer.body and b"--keys" in answer.body
    give_upstream(node, "unsigned", "s3://data", endpoint=locked.url)
    assert node.get("/unsigned/object").status == 502


def test_another_address_does_not_get_the_keys_of_the_first(locked, origin, node):
    key = locked.keys_by_right["read"]
    give_upstream(node, "cache", "s3://data", endpoint=locked.url, access_key=key["access_key"], secret_key=key["secret_key"])
    assert set_upstream(node, "cache", check=5).status == 200
    assert node.ask("GET", "/-/buckets/cache").json["upstream"]["signed"] is True
    assert set_upstream(node, "cache", url="s3://data", endpoint=origin.url).status == 200
    assert node.ask("GET", "/-/buckets/cache").json["upstream"]["signed"] is False


def test_only_administrators_set_an_upstream(locked, origin):
    for right in ("read", "both"):
        key = locked.keys_by_right[right]
        signer = Signer(locked, key["access_key"], key["secret_key"])
        body = json.dumps({"upstream": {"url": "s3://data", "endpoint": origin.url}}).encode()
        assert signer.ask("PUT", "/-/buckets/data", body).status == 403


def test_a_write_is_acknowledged_when_the_upstream_has_it(origin, node):
    give_upstream(node, "cache", "s3://data/in", endpoint=origin.url, write="through")
    for size in (0, 1, 20_000, 9 * MIB):
        content = some_bytes(size, size)
        answer = node.ask("PUT", "/cache/object", content, {"content-type": "image/png", "x-amz-meta-who": "me"})
        assert answer.status == 200, answer.body
        there = origin.get("/data/in/object")
        assert there.body == content and there.headers["content-type"] == "image/png" and there.headers["x-amz-meta-who"] == "me"
        here = node.get("/cache/object")
        assert here.body == content and here.headers["etag"] == there.headers["etag"] == answer.headers["etag"]
        assert here.headers["x-millrace-cached"] == "yes"
    assert node.ask("DELETE", "/cache/object").status == 204
    assert origin.get("/data/in/object").status == 404 and node.get("/cache/object").status == 404


def test_a_write_that_the_upstream_does_not_take_changes_nothing(origin, node):
    give_upstream(node, "cache", "s3://data", endpoint=origin.url, write="through")
    assert node.put("/cache/object", b"first").status == 200
    origin.stop()
    answer = node.put("/cache/object", b"second")
    assert answer.status == 503 and b"s3://data" in answer.body
    assert node.get("/cache/object").body == b"first"
    assert node.ask("DELETE", "/cache/object").status == 503
    origin.start()
    assert origin.get("/data/object").body == b"first" and node.get("/cache/object").body == b"first"


def test_a_body_that_fails_its_checks_never_reaches_the_upstream(origin, node):
    give_upstream(node, "cache", "s3://data", endpoint=origin.url, write="through")
    content = some_bytes(3 * MIB)
    answer = node.ask("PUT", "/cache/object", content, {"content-md5": "AAAAAAAAAAAAAAAAAAAAAA=="})
    assert answer.status == 400
    assert origin.get("/data/object").status == 404 and node.get("/cache/object").status == 404


def test_conditions_of_writes_are_judged_by_the_upstream(origin, node):
    give_upstream(node, "cache", "s3://data", endpoint=origin.url, write="through")
    assert origin.put("/data/object", b"there already").status == 200
    assert node.ask("PUT", "/cache/object", b"x", {"if-none-match": "*"}).status == 412
    etag = origin.ask("HEAD", "/data/object").headers["etag"]
    assert node.ask("PUT", "/cache/object", b"replaced", {"if-match": '"other"'}).status == 412
    assert node.ask("PUT", "/cache/object", b"replaced", {"if-match": etag}).status == 200
    assert origin.get("/data/object").body == b"replaced" and node.get("/cache/object").body == b"replaced"


def test_concurrent_writes_of_one_key_end_alike_on_both_sides(origin, node):
    give_upstream(node, "cache", "s3://data", endpoint=origin.url, write="through")
    contents = [some_bytes(200_000, seed) for seed in range(8)]
    for _ in range(3):
        statuses = in_threads(8, lambda number: node.put("/cache/object", contents[number]).status)
        assert set(statuses) == {200}
        assert origin.get("/data/object").body == node.get("/cache/object").body


def test_a_cut_upload_leaves_nothing(origin, node):
    import socket
    give_upstream(node, "cache", "s3://data", endpoint=origin.url, write="through")
    with socket.create_connection((node.host, node.port)) as connection:
        connection.sendall(b"PUT /cache/object HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5000000\r\n\r\n" + b"x" * 3_000_000)
    assert origin.get("/data/object").status == 404 and node.get("/cache/object").status == 404
    assert node.put("/cache/object", b"whole").status == 200


def test_a_cut_upstream_is_read_on_where_it_was(origin, node):
    content = some_bytes(30 * MIB)
    assert origin.put("/data/object", content).status == 200
    with Proxy(origin.port, cuts=4, after=2 * MIB) as proxy:
        give_upstream(node, "cache", "s3://data", endpoint=f"http://127.0.0.1:{proxy.port}")
        assert hashlib.sha256(node.get("/cache/object").body).digest() == hashlib.sha256(content).digest()
        assert proxy.cuts == 0


def test_copies_from_a_bucket_with_an_upstream_are_ordinary_objects(origin, node):
    assert origin.put("/data/object", b"copied" * 10_000).status == 200
    give_upstream(node, "cache", "s3://data", endpoint=origin.url)
    assert node.ask("PUT", "/own").status == 200
    for _ in range(2):  # while it is fetched, and when it is stored
        assert node.ask("PUT", "/own/copy", None, {"x-amz-copy-source": "/cache/object", "content-length": "0"}).status == 200
        copy = node.get("/own/copy")
        assert copy.body == b"copied" * 10_000
        assert not [name for name in copy.headers if name in ("x-millrace-cached", "x-millrace-upstream-version")]
        wait_until_cached(node, "/cache/object")


def test_a_millrace_command_copies_through(origin, node, millrace, tmp_path):
    give_upstream(node, "cache", "s3://data", endpoint=origin.url, write="through")
    (tmp_path / "a.tar").write_bytes(some_bytes(2 * MIB))
    millrace("put", tmp_path / "a.tar", f"{node.url}/cache/")
    assert origin.get("/data/a.tar").body == some_bytes(2 * MIB)
    millrace("get", f"{node.url}/cache/a.tar", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == some_bytes(2 * MIB)


def test_an_upload_in_parts_goes_through_when_it_is_complete(origin, node):
    give_upstream(node, "cache", "s3://data", endpoint=origin.url, write="through")
    parts = [some_bytes(5 * MIB, 1), some_bytes(5 * MIB, 2), some_bytes(1000, 3)]
    put_in_parts(node, "/cache/object", parts)
    assert origin.get("/data/object").body == b"".join(parts)
    assert node.get("/cache/object").body == b"".join(parts)
    assert node.ask("HEAD", "/cache/object").headers["etag"] == origin.ask("HEAD", "/data/object").headers["etag"]
