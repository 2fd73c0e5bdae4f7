"""Objects over plain HTTP: round trips, ranges, conditions, framing, odd keys, headers and digests."""
import hashlib
import os
import re

import pytest

from nodes import Node
from store_client import CHECKSUMS, MIB, Wire, base64_of, exchange, md5_header, new_files, put_in_parts, stored_files, wait_until

LONG_AGO, FAR_OFF = "Mon, 01 Jan 2001 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with Node(tmp_path_factory.mktemp("http")) as running:
        assert running.ask("PUT", "/box").status == 200
        yield running


def head(node, path, **headers):
    return node.ask("HEAD", path, None, {name.replace("_", "-"): value for name, value in headers.items()})


# Round trips.

@pytest.mark.parametrize("size", [0, 1, 16 << 10, (16 << 10) + 1, MIB - 1, MIB, MIB + 1, 5 * MIB])
def test_an_object_comes_back_as_it_was_put_and_is_gone_when_deleted(node, size):
    body = os.urandom(size)
    put = node.put(f"/box/size-{size}", body)
    assert put.status == 200
    got = node.get(f"/box/size-{size}")
    assert got.status == 200 and got.body == body and got.headers["etag"] == put.headers["etag"]
    assert int(got.headers["content-length"]) == size
    assert node.ask("DELETE", f"/box/size-{size}").status == 204
    assert node.get(f"/box/size-{size}").code == "NoSuchKey"
    assert node.ask("DELETE", f"/box/size-{size}").status == 204


def test_head_says_what_get_says_and_sends_no_body(node):
    for path, body in (("/box/inline", b"x" * 100), ("/box/file", b"y" * 70_000)):
        node.put(path, body, Content_Type="text/plain", x_amz_meta_a="b")
        with Wire(node) as wire:
            answer = wire.send(f"HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\nGET {path} HTTP/1.1\r\nHost: x\r\n\r\n").answer("HEAD")
            got = wire.answer()
        assert got.body == body
        assert {**answer.headers, "date": ""} == {**got.headers, "date": ""}


def test_an_overwrite_replaces_bytes_and_headers(node):
    node.put("/box/twice", b"first" * 10_000, Content_Type="text/first", x_amz_meta_old="1")
    node.put("/box/twice", b"second")
    got = node.get("/box/twice")
    assert got.body == b"second" and "x-amz-meta-old" not in got.headers and got.headers["content-type"] != "text/first"


# Ranges.

BIG = os.urandom(3 * MIB + 5)


@pytest.fixture(scope="module")
def ranged(node):
    node.put("/box/ranged", BIG)
    put_in_parts(node, "/box/parted", [BIG[: 5 * MIB // 2] * 3, BIG * 2, b"tail"])
    node.put("/box/tiny", b"0123456789")
    return {"/box/ranged": BIG, "/box/parted": BIG[: 5 * MIB // 2] * 3 + BIG * 2 + b"tail", "/box/tiny": b"0123456789"}


def check_range(node, ranged, path, first, last):
    got = node.get(path, Range=f"bytes={first}-{last}")
    whole = ranged[path]
    end = min(last + 1, len(whole))
    assert got.status == 206 and got.body == whole[first:end]
    assert got.headers["content-range"] == f"bytes {first}-{end - 1}/{len(whole)}"


@pytest.mark.parametrize("path", ["/box/ranged", "/box/parted", "/box/tiny"])
def test_ranges_give_exactly_their_bytes(node, ranged, path):
    whole = ranged[path]
    size = len(whole)
    for first, last in ((0, 0), (0, 3), (3, 5), (size // 2, size // 2 + 4), (size - 1, size - 1), (size - 3, size + 100), (0, size - 1)):
        check_range(node, ranged, path, first, last)
    assert node.get(path, Range="bytes=-3").body == whole[-3:]
    assert node.get(path, Range=f"bytes=-{size + 10}").body == whole
    assert node.get(path, Range=f"bytes={size - 4}-").body == whole[-4:]
    answer = head(node, path, Range="bytes=2-4")
    assert answer.status == 206 and answer.headers["content-length"] == "3"


def test_ranges_cross_blocks_and_parts(node, ranged):
    first_part = 3 * (5 * MIB // 2)
    for edge in (first_part, first_part + 2 * len(BIG)):
        for first, last in ((edge - 1, edge), (edge, edge), (edge - MIB - 1, edge + 2)):
            check_range(node, ranged, "/box/parted", first, last)
    for edge in (MIB, 2 * MIB, 3 * MIB):
        check_range(node, ranged, "/box/ranged", edge - 1, edge)
    part = node.get("/box/parted?partNumber=3")
    assert part.status == 206 and part.body == b"tail"
    assert node.get("/box/parted?partNumber=4").status == 416


@pytest.mark.parametrize("text", ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=99999999999999999999-"])
def test_a_range_beyond_the_end_is_refused_with_the_size(node, ranged, text):
    if "999" in text:
        assert node.get("/box/tiny", Range=text).status in (200, 416)
        return
    answer = node.get("/box/tiny", Range=text)
    assert (answer.status, answer.code) == (416, "InvalidRange")
    assert answer.headers["content-range"] == "bytes */10"


def test_no_range_of_an_empty_object_can_be_satisfied(node):
    node.put("/box/empty", b"")
    for text in ("bytes=0-", "bytes=0-0", "bytes=-1"):
        assert node.get("/box/empty", Range=text).status == 416
    assert node.get("/box/empty").body == b""


@pytest.mark.parametrize("text", ["bytes=0-1,3-4", "bytes=5-2", "bytes=a-b", "bytes=--3", "items=0-1", "bytes=", "0-1"])
def test_ranges_that_are_lists_or_nonsense_mean_the_whole(node, ranged, text):
    answer = node.get("/box/tiny", Range=text)
    assert answer.status == 200 and answer.body == b"0123456789"


# Conditions.

def test_conditions_on_get_and_head(node):
    etag = node.put("/box/conditional", b"content").headers["etag"]
    modified = node.get("/box/conditional").headers["last-modified"]
    cases = [({"If-Match": etag}, 200), ({"If-Match": "*"}, 200), ({"If-Match": '"other"'}, 412), ({"If-Match": f'"a", {etag}'}, 200),
             ({"If-None-Match": etag}, 304), ({"If-None-Match": "*"}, 304), ({"If-None-Match": '"other"'}, 200),
             ({"If-None-Match": f"W/{etag}"}, 304),
             ({"If-Modified-Since": modified}, 304), ({"If-Modified-Since": LONG_AGO}, 200), ({"If-Modified-Since": "nonsense"}, 200),
             ({"If-Unmodified-Since": modified}, 200), ({"If-Unmodified-Since": LONG_AGO}, 412), ({"If-Unmodified-Since": "nonsense"}, 200),
             # An etag is worth more than a date, and a failed If-Match more than an If-None-Match.
             ({"If-Match": etag, "If-Unmodified-Since": LONG_AGO}, 200), ({"If-None-Match": '"other"', "If-Modified-Since": FAR_OFF}, 200),
             ({"If-Match": '"other"', "If-None-Match": etag}, 412)]
    for headers, status in cases:
        for method in ("GET", "HEAD"):
            answer = node.ask(method, "/box/conditional", None, headers)
            assert answer.status == status, (method, headers, answer.status)
            if status == 304:
                assert answer.body == b"" and answer.headers["etag"] == etag
    assert node.ask("GET", "/box/nothing", None, {"If-None-Match": "*"}).status == 404


def test_if_range_gives_the_part_only_of_the_same_version(node):
    etag = node.put("/box/if-range", b"0123456789").headers["etag"]
    modified = node.get("/box/if-range").headers["last-modified"]
    for condition, status in ((etag, 206), ('"other"', 200), (modified, 206), (LONG_AGO, 200), (f"W/{etag}", 200), ("nonsense", 200)):
        answer = node.get("/box/if-range", Range="bytes=2-3", If_Range=condition)
        assert (answer.status, answer.body) == (status, b"23" if status == 206 else b"0123456789"), condition


def test_conditional_puts(node):
    assert node.put("/box/cas", b"one", If_None_Match="*").status == 200
    refused = node.put("/box/cas", b"two", If_None_Match="*")
    assert (refused.status, refused.code) == (412, "PreconditionFailed")
    etag = node.get("/box/cas").headers["etag"]
    assert node.put("/box/cas", b"three", If_Match='"0123"').status == 412
    assert node.get("/box/cas").body == b"one"
    assert node.put("/box/cas", b"three", If_Match=etag).status == 200
    assert node.put("/box/cas", b"four", If_Match=etag).status == 412
    assert node.get("/box/cas").body == b"three"
    assert node.put("/box/not-there", b"x", If_Match=etag).status in (404, 412)
    assert node.get("/box/not-there").status == 404
    assert node.put("/box/cas", b"x", If_None_Match=etag).status == 501
    assert node.ask("DELETE", "/box/cas", None, {"If-Match": etag}).status == 412
    assert node.get("/box/cas").body == b"three"


# Framing.

def test_chunked_uploads_of_any_chunk_size(node):
    for number, sizes in enumerate(((1, 2, 3), (70_000, 1), (MIB, MIB + 1), ())):
        chunks = [os.urandom(size) for size in sizes]
        assert node.ask("PUT", f"/box/chunked-{number}", iter(chunks)).status == 200
        assert node.get(f"/box/chunked-{number}").body == b"".join(chunks)


def test_the_head_of_a_chunked_request_outlives_its_body(node):
    """Conditions and digests of requests with small documents are looked at after the body has come."""
    document = b"<Delete><Object><Key>never</Key></Object></Delete>" + b" " * 30_000
    chunks = [document[at : at + 500] for at in range(0, len(document), 500)]
    answer = node.ask("POST", "/box?delete", iter(chunks), {"Content-MD5": md5_header(b"another")})
    assert (answer.status, answer.code) == (400, "BadDigest")
    refused = node.ask("PUT", "/box/wrong-digest", iter(chunks), {"Content-MD5": md5_header(b"another")})
    assert (refused.status, refused.code) == (400, "BadDigest")
    assert b"<Resource>/box/wrong-digest</Resource>" in refused.body


@pytest.mark.parametrize("body", ["5\r\nab", "x\r\n", "5\r\nabcde0\r\n\r\n", "-1\r\n", "FFFFFFFFFFFFFFFFFF\r\n", "3 \r\nabc\r\n0\r\nnope"])
def test_a_broken_chunked_body_stores_nothing(node, body):
    with Wire(node) as wire:
        wire.send(f"PUT /box/broken HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{body}")
        wire.socket.shutdown(1)
        received = wire.socket.recv(100)
    assert received == b"" or received.startswith(b"HTTP/1.1 400")
    assert node.get("/box/broken").status == 404


def test_expect_continue_is_answered_before_the_body(node):
    with Wire(node) as wire:
        wire.send("PUT /box/expected HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert wire.socket.recv(25, 0x100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert wire.send("hello").answer().status == 200
    assert node.get("/box/expected").body == b"hello"


def test_a_refused_expectation_gets_its_answer_without_the_body(node):
    answer = exchange(node, "PUT /no-such-name_/x HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\nExpect: 100-continue\r\n\r\n")
    assert answer.status == 400 and answer.headers["connection"] == "close"


def test_requests_follow_each_other_on_one_connection(node):
    node.put("/box/kept", b"kept")
    with Wire(node) as wire:
        for _ in range(5):
            assert wire.send("GET /box/kept HTTP/1.1\r\nHost: x\r\n\r\n").answer().body == b"kept"
        assert wire.send("PUT /box/kept2 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nnew").answer().status == 200
        assert wire.send("GET /box/none HTTP/1.1\r\nHost: x\r\n\r\n").answer().status == 404
        last = wire.send("GET /box/kept2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").answer()
        assert last.body == b"new" and last.headers["connection"] == "close" and wire.is_closed()


def test_pipelined_requests_are_answered_in_order(node):
    count = 40
    for number in range(count):
        node.put(f"/box/line-{number}", b"%d" % number * 3000)
    with Wire(node) as wire:
        wire.send("".join(f"GET /box/line-{number} HTTP/1.1\r\nHost: x\r\n\r\n" for number in range(count)))
        for number in range(count):
            assert wire.answer().body == b"%d" % number * 3000
        wire.send("PUT /box/piped HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbodyGET /box/piped HTTP/1.1\r\nHost: x\r\n\r\n")
        assert wire.answer().status == 200 and wire.answer().body == b"body"


def test_empty_lines_between_requests_are_passed_over(node):
    node.put("/box/blank", b"blank")
    with Wire(node) as wire:
        for lines in ("\r\n", "\r\n\r\n", "\r\n\r\n\r\n"):
            assert wire.send(f"{lines}GET /box/blank HTTP/1.1\r\nHost: x\r\n\r\n").answer().body == b"blank"


def test_http_1_0_closes_unless_asked_not_to(node):
    node.put("/box/old", b"old")
    with Wire(node) as wire:
        assert wire.send("GET /box/old HTTP/1.0\r\n\r\n").answer().body == b"old" and wire.is_closed()


# Keys.

ODD_KEYS = ["a", "a/b", "a/b/", "..", "../../etc/passwd", ".", "./x", "/", "//", "/lead", "double//slash", " space ", "%2e%2e/x", "plus+sign",
            "question?mark", "hash#mark", "semi;colon", "&amp;<xml>", "quote'\"", "back\\slash", "tab\tnew\nline\rreturn", "\x01\x02\x1f\x7f",
            "ünïcödé", "日本語", "🙂", "e\u0301", "k" * 1024, "a" * 255 + "/" + "b" * 700, "x.tmp", "lock", "-/status"]


def quoted(key):
    return "/odd/" + "".join(f"%{byte:02X}" for byte in key.encode())


def test_odd_keys_are_just_names_and_nothing_is_written_outside_the_drive(node):
    node.ask("PUT", "/odd")
    before = {path for path in node.directory.rglob("*") if "drive" not in path.parts}
    for number, key in enumerate(ODD_KEYS):
        body = (key.encode() + b"\0") * (1 if number % 2 else 2000)
        assert node.put(quoted(key), body).status == 200, key
    for number, key in enumerate(ODD_KEYS):
        assert node.get(quoted(key)).body == (key.encode() + b"\0") * (1 if number % 2 else 2000), key
    assert node.keys("odd") == sorted(ODD_KEYS, key=lambda key: key.encode())
    assert {path for path in node.directory.rglob("*") if "drive" not in path.parts} == before
    assert not [path for path in stored_files(node) if not re.fullmatch("[0-9a-f]{16}", path.name)]
    for key in ODD_KEYS:
        assert node.ask("DELETE", quoted(key)).status == 204
    assert node.keys("odd") == []


def test_keys_that_cannot_be(node):
    node.ask("PUT", "/odd")
    for path, code in (("/odd/" + "k" * 1025, "KeyTooLongError"), ("/odd/%ff%fe", None), ("/odd/a%00b", None), ("/odd/%c3", None), ("/odd/%zz", "InvalidURI"),
                       ("/odd/%ed%a0%80", None)):
        for method, body in (("PUT", b"x"), ("GET", None), ("DELETE", None)):
            answer = node.ask(method, path, body)
            assert answer.status == 400 and answer.code and code in (None, answer.code), (method, path, answer.body)
    assert node.keys("odd") == []


@pytest.mark.parametrize("name", ["A-bucket", "under_score", "-lead", "trail-", "a..b", ".dot", "x" * 64, "A%2fb", "%2e%2e", "na%20me", "d%C3%A9j"])
def test_bucket_names_that_cannot_be(node, name):
    for path, body in ((f"/{name}", None), (f"/{name}/key", b"x")):
        answer = node.ask("PUT", path, body)
        assert answer.status == 400 or answer.status == 404, (path, answer.body)
    assert name not in [bucket["name"] for bucket in node.get("/-/buckets").json["buckets"]]


def test_a_plain_upload_makes_its_bucket(node):
    assert node.put("/fresh-bucket/x", b"x").status == 200
    assert node.ask("HEAD", "/fresh-bucket").status == 200


# Headers and digests.

def test_standard_headers_and_metadata_come_back(node):
    sent = {"Content-Type": "image/x-test", "Content-Encoding": "br", "Content-Disposition": 'attachment; filename="x"', "Content-Language": "de",
            "Cache-Control": "max-age=5", "Expires": "Thu, 01 Dec 2094 16:00:00 GMT", "x-amz-meta-Colour": "green", "x-amz-meta-empty-not": "a b  c"}
    node.ask("PUT", "/box/described", b"x", sent)
    got = node.get("/box/described").headers
    for name, value in sent.items():
        assert got[name.lower()] == value
    changed = node.get("/box/described?response-content-type=text/other&response-content-disposition=inline")
    assert changed.headers["content-type"] == "text/other" and changed.headers["content-disposition"] == "inline"
    injected = node.get("/box/described?response-content-type=a%0d%0aX-Injected:%20yes")
    assert "x-injected" not in injected.headers


def test_metadata_has_a_limit(node):
    assert node.ask("PUT", "/box/meta", b"x", {"x-amz-meta-a": "v" * 2000}).status == 200
    refused = node.ask("PUT", "/box/meta2", b"x", {"x-amz-meta-a": "v" * 2000, "x-amz-meta-b": "v" * 100})
    assert (refused.status, refused.code) == (400, "MetadataTooLarge")
    assert node.get("/box/meta2").status == 404


@pytest.mark.parametrize("size", [0, 100, 64 << 10, (64 << 10) + 1, 3_000_000])
def test_a_checksum_comes_with_every_object_and_md5_only_for_who_may_look_at_it(node, size):
    body = (b"checked " * (size // 8 + 1))[:size]
    put = node.put(f"/box/sum-{size}", body)
    got = node.get(f"/box/sum-{size}")
    crc = base64_of(CHECKSUMS["crc32c"](body))
    assert got.headers["x-millrace-crc32c"] == crc and "x-amz-checksum-crc32c" not in got.headers
    asked = node.ask("HEAD", f"/box/sum-{size}", None, {"x-amz-checksum-mode": "ENABLED"})
    assert (asked.headers["x-amz-checksum-crc32c"], asked.headers["x-amz-checksum-type"]) == (crc, "FULL_OBJECT")
    md5 = f'"{hashlib.md5(body).hexdigest()}"'
    assert (put.headers["etag"] == md5) == (size <= 64 << 10)
    # S3 clients sign; those that send a checksum of their own need no MD5.
    signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=x/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"}
    assert node.put(f"/box/signed-{size}", body, **{"Authorization": signed["Authorization"]}).headers["etag"] == md5
    assert (node.ask("PUT", f"/box/own-{size}", body, {**signed, "x-amz-checksum-crc32c": crc}).headers["etag"] == md5) == (size <= 64 << 10)
    assert node.ask("PUT", f"/box/asked-{size}", body, {"Content-MD5": md5_header(body)}).headers["etag"] == md5


@pytest.mark.parametrize("size", [10, 100_000])
def test_content_md5_is_checked_before_anything_is_stored(node, size):
    body = os.urandom(size)
    assert node.put(f"/box/md5-{size}", body, Content_MD5=md5_header(body)).status == 200
    before = stored_files(node)
    refused = node.put(f"/box/md5-bad-{size}", body, Content_MD5=md5_header(b"other"))
    assert (refused.status, refused.code) == (400, "BadDigest")
    assert node.get(f"/box/md5-bad-{size}").status == 404
    refused = node.put(f"/box/md5-{size}", b"other", Content_MD5=md5_header(body))
    assert refused.status == 400 and node.get(f"/box/md5-{size}").body == body
    for text in ("short", "", "!!!!"):
        assert node.put("/box/md5-form", body, Content_MD5=text).code == "InvalidDigest"
    wait_until(lambda: not new_files(node, before))


@pytest.mark.parametrize("kind", sorted(CHECKSUMS))
def test_checksums_are_verified_kept_and_given_back_for_whole_objects_only(node, kind):
    for size in (11, 40_000):
        body, header = os.urandom(size), f"x-amz-checksum-{kind}"
        right = base64_of(CHECKSUMS[kind](body))
        path = f"/box/sum-{kind}-{size}"
        assert node.ask("PUT", path, body, {header: right}).headers[header] == right
        got = node.ask("GET", path, None, {"x-amz-checksum-mode": "ENABLED"})
        assert got.body == body and got.headers[header] == right
        assert header not in node.get(path).headers
        assert header not in node.ask("GET", path, None, {"x-amz-checksum-mode": "ENABLED", "Range": "bytes=0-3"}).headers
        refused = node.ask("PUT", path + "-bad", body, {header: base64_of(CHECKSUMS[kind](b"other"))})
        assert (refused.status, refused.code) == (400, "BadDigest")
        assert node.ask("PUT", path + "-bad", body, {header: "AAA"}).status == 400
        assert node.get(path + "-bad").status == 404


def chunked_body(chunks, trailers=()):
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n" + b"".join(
        f"{name}:{value}\r\n".encode() for name, value in trailers) + b"\r\n"


def put_trailing(node, path, chunks, announced, trailers, size=None):
    return node.ask("PUT", path, chunked_body(chunks, trailers), {
        "x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "Content-Encoding": "aws-chunked", "x-amz-trailer": announced,
        "x-amz-decoded-content-length": str(sum(map(len, chunks)) if size is None else size)})


@pytest.mark.parametrize("kind", sorted(CHECKSUMS))
def test_checksums_in_trailers_are_verified(node, kind):
    chunks, header = [os.urandom(8192), os.urandom(20_000), b"tail"], f"x-amz-checksum-{kind}"
    right = base64_of(CHECKSUMS[kind](b"".join(chunks)))
    put = put_trailing(node, f"/box/trailed-{kind}", chunks, header, [(header, right)])
    assert put.status == 200 and put.headers[header] == right
    got = node.get(f"/box/trailed-{kind}")
    assert got.body == b"".join(chunks) and "content-encoding" not in got.headers
    bad = f"/box/trailed-bad-{kind}"
    assert put_trailing(node, bad, chunks, header, [(header, base64_of(CHECKSUMS[kind](b"")))]).code == "BadDigest"
    assert put_trailing(node, bad, chunks, header, []).status == 400
    assert put_trailing(node, bad, chunks, header, [(header, right)], size=5).code == "IncompleteBody"
    assert put_trailing(node, bad, chunks, header, [(header, right)], size=50_000).code == "IncompleteBody"
    assert put_trailing(node, bad, chunks, "x-amz-checksum-md99", [(header, right)]).status == 501
    assert node.get(bad).status == 404


def test_a_put_needs_to_say_where_its_body_ends(node):
    answer = exchange(node, "PUT /box/endless HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (answer.status, answer.code) == (411, "MissingContentLength")
