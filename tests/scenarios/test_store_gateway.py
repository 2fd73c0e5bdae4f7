"""What a request says is done or refused, never passed over: conditions, checksums, hosts, documents, connections."""
import base64
import email.utils
import hashlib
import http.client
import os
import pwd
import re
import stat
import subprocess
import urllib.parse

import pytest

from conftest import Millrace
from nodes import Node
from store_client import CHECKSUMS, MIB, Signer, Wire, base64_of, begin_upload, complete, complete_xml, exchange, parse, put_part, texts

PART = os.urandom(5 * MIB)


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with Node(tmp_path_factory.mktemp("gateway")) as running:
        assert running.ask("PUT", "/box").status == 200
        yield running


# Copies name their source as S3 reads it.

def copy(node, target, source, headers=None):
    return node.ask("PUT", target, None, {"x-amz-copy-source": source, **(headers or {})})


def test_a_plus_in_a_copy_source_is_a_blank(node):
    node.put("/box/a%20b", b"blank")
    node.put("/box/a+b", b"plus")
    for source, body in (("/box/a+b", b"blank"), ("box/a%20b", b"blank"), ("/box/a%2Bb", b"plus"), ("/box/a%2bb?versionId=null", b"plus")):
        assert copy(node, "/box/moved", source).status == 200
        assert node.get("/box/moved").body == body, source
    for source, status in (("/box/a+b?versionId=7", 501), ("/box/a+b?part=1", 400), ("/box/%zz", 400), ("/box", 400), ("/box/", 400), ("//box/x", 400)):
        assert copy(node, "/box/never", source).status == status, source
    assert node.get("/box/never").status == 404


def test_our_own_copies_and_moves_keep_every_key(node, tmp_path):
    millrace = Millrace(tmp_path)
    env = {"MILLRACE_ENDPOINT": node.url}
    for key in ("p+q", "p q", "p%2Bq", "pé q+", "p#q", "p&q=r"):
        (tmp_path / "in").write_bytes(key.encode())
        millrace("put", "in", f"mr://box/own/{key}", env=env)
        millrace("cp", f"mr://box/own/{key}", f"mr://box/copies/{key}", env=env)
        assert millrace("cat", f"mr://box/copies/{key}", env=env).out == key.encode()
    for key in ("%01bell", "%EF%BF%BF", "tab%09", "line%0D%0A"):
        assert node.put(f"/box/own/{key}", b"x").status == 200
    millrace("rm", "-r", "mr://box/own/", env=env)
    assert node.keys("box", "own/") == [] and len(node.keys("box", "copies/")) == 6


# Conditions of deletes.

def test_a_delete_is_made_only_where_its_conditions_hold(node):
    for name, right, wrong in (("x-amz-if-match-size", "4", "5"), ("If-Match", f'"{hashlib.md5(b"body").hexdigest()}"', '"other"'),
                               ("x-amz-if-match-last-modified-time", None, "Sun, 15 Nov 2020 22:50:34 GMT")):
        node.put("/box/held", b"body")
        right = right or node.ask("HEAD", "/box/held").headers["last-modified"]
        refused = node.ask("DELETE", "/box/held", None, {name: wrong})
        assert (refused.status, refused.code) == (412, "PreconditionFailed"), name
        assert node.get("/box/held").body == b"body"
        assert node.ask("DELETE", "/box/held", None, {name: right}).status == 204 and node.get("/box/held").status == 404
    node.put("/box/held", b"body")
    for headers in ({"x-amz-if-match-size": "4", "If-Match": '"other"'}, {"x-amz-if-match-size": "four"}, {"x-amz-if-match-last-modified-time": "today"},
                    {"x-amz-if-match-colour": "red"}, {"If-None-Match": "*"}, {"If-Unmodified-Since": email.utils.formatdate(0, usegmt=True)}):
        assert node.ask("DELETE", "/box/held", None, headers).status in (400, 412, 501), headers
    assert node.get("/box/held").body == b"body"


def delete_many(node, objects, headers=None):
    return node.ask("POST", "/box?delete", f"<Delete>{objects}</Delete>".encode(), headers)


def test_each_of_many_deletes_has_its_own_conditions(node):
    keys = ["size", "time", "etag", "free"]
    for key in keys:
        node.put(f"/box/cond/{key}", b"body")
    modified = parse(node.get("/box?prefix=cond/time")).find("Contents/LastModified").text

    def objects(size, time, etag):
        return (f"<Object><Key>cond/size</Key><Size>{size}</Size></Object><Object><Key>cond/time</Key><LastModifiedTime>{time}</LastModifiedTime></Object>"
                f"<Object><Key>cond/etag</Key><ETag>{etag}</ETag></Object>")

    root = parse(delete_many(node, objects(5, "2020-01-01T00:00:00Z", "other") + "<Object><Key>cond/free</Key></Object>"))
    assert texts(root, "Deleted/Key") == ["cond/free"] and texts(root, "Error/Code") == ["PreconditionFailed"] * 3
    assert node.keys("box", "cond/") == ["cond/etag", "cond/size", "cond/time"]
    unknown = delete_many(node, "<Object><Key>cond/size</Key><IfMatchColour>red</IfMatchColour></Object>")
    assert (unknown.status, unknown.code) == (501, "NotImplemented")
    root = parse(delete_many(node, objects(4, modified, f"&quot;{hashlib.md5(b'body').hexdigest()}&quot;")))
    assert len(texts(root, "Deleted/Key")) == 3 and node.keys("box", "cond/") == []


@pytest.mark.parametrize("text, gone", [("a<!-- x -->b", "ab"), ("<![CDATA[a]]>b", "ab"), ("a&#0;b", None), ("a&#4294967296;b", None), ("a&b", None),
                                        ("a</Key><Key>b", None), ("a<x>b</x>", None)])
def test_a_delete_removes_the_key_that_is_written_and_no_other(node, text, gone):
    for key in ("a", "b", "ab"):
        node.put(f"/box/{key}", b"x")
    answer = delete_many(node, f"<Object><Key>{text}</Key></Object>")
    left = {key for key in ("a", "b", "ab") if node.ask("HEAD", f"/box/{key}").status == 200}
    assert left == {"a", "b", "ab"} - {gone}, answer.body
    assert answer.status == (200 if gone else 400)
    if not gone:
        assert answer.code == "MalformedXML"


def test_a_document_type_is_refused_everywhere(node):
    node.put("/box/typed", b"x")
    for path, method, document in (("/box?delete", "POST", "<Delete><Object><Key>typed</Key></Object></Delete>"), ("/box/typed?tagging", "PUT", "<Tagging><TagSet/></Tagging>"),
                                   ("/typed", "PUT", "<CreateBucketConfiguration/>")):
        assert node.ask(method, path, "<!DOCTYPE x>" + document).code == "MalformedXML", path
    assert node.get("/box/typed").body == b"x"


# Checksums.

NEWER = {"md5": lambda data: hashlib.md5(data).digest(), "sha512": lambda data: hashlib.sha512(data).digest()}


@pytest.mark.parametrize("kind", ["md5", "sha512", "xxhash64", "xxhash3", "xxhash128"])
def test_the_newer_checksums_are_compared_too(node, kind):
    header, sizes = f"x-amz-checksum-{kind}", {"xxhash64": 8, "xxhash3": 8, "xxhash128": 16}
    wrong = base64_of(NEWER[kind](b"other") if kind in NEWER else bytes(sizes[kind]))
    refused = node.put("/box/newer", b"body", **{header: wrong})
    assert (refused.status, refused.code) == (400, "BadDigest") and node.get("/box/newer").status == 404
    # The answer says what the checksum is, so that a right one can be had without a library.
    right = re.search(rb"has \S+ (\S+), not", refused.body)[1].decode()
    assert kind not in NEWER or right == base64_of(NEWER[kind](b"body"))
    assert node.put("/box/newer", b"body", **{header: right}).headers[header] == right
    assert node.ask("HEAD", "/box/newer", None, {"x-amz-checksum-mode": "ENABLED"}).headers[header] == right
    node.ask("DELETE", "/box/newer")


def test_checksums_that_are_not_known_are_refused_and_nothing_is_stored(node):
    for headers in ({"x-amz-checksum-blake3": "AAAA"}, {"x-amz-sdk-checksum-algorithm": "BLAKE3"}, {"x-amz-trailer": "x-amz-checksum-blake3"},
                    {"Content-Digest": "sha-256=:AAAA:"}, {"If-Unmodified-Since": "Sun, 15 Nov 2026 22:50:34 GMT"}, {"x-amz-if-match-size": "1"},
                    {"x-amz-copy-source-if-match": "x"}, {"x-amz-copy-source-if-colour": "red", "x-amz-copy-source": "/box/a"}):
        answer = node.ask("PUT", "/box/unknown", b"body", headers)
        assert (answer.status, answer.code) == (501, "NotImplemented"), headers
    assert node.ask("PUT", "/box/unknown", b"body", {"Content-Encoding": "aws-chunked"}).status == 400
    assert node.ask("PUT", "/box/unknown?x-amz-checksum-crc32c=" + urllib.parse.quote(base64_of(CHECKSUMS["crc32c"](b"other"))), b"body").code == "BadDigest"
    assert node.get("/box/unknown").status == 404
    assert node.ask("GET", "/box", None, {"x-amz-expected-bucket-owner": "123456789012"}).status == 403


def put_chunked(node, path, body, trailer, announced="x-amz-checksum-crc32c"):
    headers = {"x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "x-amz-decoded-content-length": str(len(body)), "x-amz-trailer": announced,
               "Content-Encoding": "aws-chunked"}
    return node.ask("PUT", path, b"%x\r\n%s\r\n0\r\n" % (len(body), body) + trailer, headers)


def test_the_trailer_of_minio_go_is_read(node):
    crc = base64_of(CHECKSUMS["crc32c"](b"body")).encode()
    good = b"x-amz-checksum-crc32c:" + crc + b"\n\r\n\r\n"
    assert put_chunked(node, "/box/minio", b"body", good).status == 200 and node.get("/box/minio").body == b"body"
    for trailer in (b"x-amz-checksum-crc32c:AAAAAA==\n\r\n\r\n", good + b"\r\n", good + b"x", b"x-amz-checksum-crc32c:" + crc + b"\n\n",
                    b"x-amz-checksum-crc32c:" + crc + b"\nx-amz-checksum-sha512:AAAA\n\r\n\r\n"):
        assert put_chunked(node, "/box/minio-bad", b"body", trailer).status == 400, trailer
    assert node.get("/box/minio-bad").status == 404


def test_a_composite_checksum_may_come_without_its_number(node):
    for name, claim in (("crc32c", "short"), ("sha256", "short"), ("crc32c", "long"), ("crc32c", "whole"), ("crc32", "wrong")):
        upload = begin_upload(node, "/box/joined", {"x-amz-checksum-algorithm": name.upper()})
        header, bodies = f"x-amz-checksum-{name}", [PART, b"tail"]
        digests = [CHECKSUMS["sha256"](body) if name == "sha256" else b"" for body in bodies]
        parts = []
        for number, body in enumerate(bodies, 1):
            sums = {header: base64_of(digests[number - 1])} if name == "sha256" else {header: crc_of(node, name, body)}
            digests[number - 1] = base64.b64decode(sums[header])
            parts.append((number, put_part(node, "/box/joined", upload, number, body, sums).headers["etag"]))
        value = base64_of(CHECKSUMS[name](b"".join(digests)))
        claimed = {"short": value, "long": value + "-2", "wrong": base64_of(CHECKSUMS[name](b"")), "whole": crc_of(node, name, PART + b"tail") if name != "sha256" else ""}[claim]
        answer = complete(node, "/box/joined", upload, parts, {header: claimed})
        if claim == "wrong":
            assert answer.code == "BadDigest"
            assert node.ask("DELETE", f"/box/joined?uploadId={upload}").status == 204
            continue
        assert answer.status == 200, answer.body
        root = parse(answer)
        assert texts(root, f"Checksum{name.upper()}") == [value + "-2"] and texts(root, "ChecksumType") == ["COMPOSITE"]
        head = node.ask("HEAD", "/box/joined", None, {"x-amz-checksum-mode": "ENABLED"}).headers
        assert (head[header], head["x-amz-checksum-type"]) == (value + "-2", "COMPOSITE") and "x-amz-checksum-algorithm" not in head
        # A copy is whole, and so is its checksum.
        copied = parse(copy(node, "/box/joined-copy", "/box/joined"))
        assert texts(copied, "ChecksumType") == ["FULL_OBJECT"] and "-" not in texts(copied, f"Checksum{name.upper()}")[0]


def crc_of(node, name, body):
    """As the node computes it: a wrong one is answered with the right one. In Python it takes seconds."""
    wrong = base64_of(b"\1" * len(CHECKSUMS[name](b"")))
    return re.search(rb"has \S+ (\S+), not", node.put("/box/probe", body, **{f"x-amz-checksum-{name}": wrong}).body)[1].decode()


def test_a_copy_gets_the_checksum_that_is_asked_for(node):
    node.put("/box/plain-source", b"body")
    root = parse(copy(node, "/box/summed", "/box/plain-source", {"x-amz-checksum-algorithm": "SHA256"}))
    assert texts(root, "ChecksumSHA256") == [base64_of(CHECKSUMS["sha256"](b"body"))] and texts(root, "ChecksumType") == ["FULL_OBJECT"]
    upload = begin_upload(node, "/box/part-copy", {"x-amz-checksum-algorithm": "CRC32"})
    part = node.ask("PUT", f"/box/part-copy?partNumber=1&uploadId={upload}", None, {"x-amz-copy-source": "/box/plain-source"})
    assert texts(parse(part), "ChecksumCRC32") == [base64_of(CHECKSUMS["crc32"](b"body"))]
    assert texts(parse(complete(node, "/box/part-copy", upload, [(1, texts(parse(part), "ETag")[0])])), "ChecksumType") == ["COMPOSITE"]


def test_what_a_completion_claims_must_be_comparable(node):
    upload = begin_upload(node, "/box/claims")
    etag = put_part(node, "/box/claims", upload, 1, b"body").headers["etag"]
    path = f"/box/claims?uploadId={upload}"
    refused = node.ask("POST", path, complete_xml([(1, etag)]).replace("</Part>", "<ChecksumSHA256>AAAA</ChecksumSHA256></Part>"))
    assert refused.code == "InvalidPart"
    for headers in ({"x-amz-checksum-sha256": base64_of(CHECKSUMS["sha256"](b"body"))}, {"x-amz-mp-object-size": "5"}, {"x-amz-mp-object-size": "x"}):
        assert complete(node, "/box/claims", upload, [(1, etag)], headers).status == 400, headers
    assert complete(node, "/box/claims", upload, [(1, etag)], {"x-amz-mp-object-size": "4"}).status == 200


# Hosts.

def at_host(node, host, method, path, body=None, headers=None):
    return node.ask(method, path, body, {"Host": f"{host}:{node.port}", **(headers or {})})


def test_a_bucket_may_stand_in_the_host(node):
    node.ask("PUT", "/train")
    node.put("/openup3/x", b"another bucket")
    assert at_host(node, "train.localhost", "PUT", "/openup3", b"mine").status == 200
    assert at_host(node, "train.localhost", "PUT", "/-/status", b"a key").status == 200
    assert at_host(node, "train.localhost", "PUT", "//inner//x", b"slashes").status == 200
    assert texts(parse(at_host(node, "TRAIN.localhost", "GET", "/?list-type=2")), "Contents/Key") == ["-/status", "/inner//x", "openup3"]
    assert node.get("/train/openup3").body == b"mine"
    assert at_host(node, "train.localhost", "DELETE", "/openup3").status == 204
    assert node.get("/openup3/x").body == b"another bucket" and node.get("/train/openup3").status == 404
    assert at_host(node, "none-such.localhost", "GET", "/?list-type=2").code == "NoSuchBucket"
    assert at_host(node, "made.localhost", "PUT", "/").status == 200 and node.ask("HEAD", "/made").status == 200
    assert at_host(node, "made.localhost", "DELETE", "/").status == 204


def test_a_host_that_could_hold_a_bucket_is_refused_unless_it_is_configured(node, tmp_path):
    node.ask("PUT", "/train")
    node.put("/openup3/x", b"x")
    for method, path in (("GET", "/"), ("HEAD", "/"), ("GET", "/?list-type=2"), ("DELETE", "/openup3"), ("GET", "/openup3/x"), ("PUT", "/new/y"), ("POST", "/-/scrub")):
        answer = at_host(node, "train.store.example", method, path, b"" if method in ("PUT", "POST") else None)
        assert answer.status == 400, (method, path)
        if method != "HEAD":
            assert b"domains=train.store.example" in answer.body
    assert at_host(node, "train.store.example", "GET", "/-/ready").status == 200
    # Other nodes call this one as their map does. It belongs to no cluster, so nobody is there to answer.
    assert at_host(node, "train.store.example", "POST", "/-/peer", b"").status == 404
    assert node.get("/openup3/x").body == b"x" and node.ask("HEAD", "/new").status == 404
    # A name that holds no bucket is this node's, but for what would make a bucket.
    assert at_host(node, "store.example", "GET", "/openup3/x").body == b"x" and at_host(node, "store.example", "GET", "/").status == 200
    assert at_host(node, "store.example", "PUT", "/openup3/y", b"y").status == 200
    assert at_host(node, "store.example", "DELETE", "/openup3/y").status == 204
    assert at_host(node, "store.example", "PUT", "/new/y", b"y").status == 400 and at_host(node, "store.example", "PUT", "/new").status == 400
    with Node(tmp_path, "--set", "domains=store.example,localhost") as other:
        assert at_host(other, "store.example", "PUT", "/train/x", b"x").status == 200
        assert at_host(other, "train.store.example", "GET", "/x").body == b"x"
        assert at_host(other, "train.localhost", "GET", "/x").body == b"x"


def test_hosts_and_paths_that_mean_nothing(node):
    node.put("/box/slashes", b"x")
    for path in ("//box/slashes", "//", "///", "/%2Fbox/slashes"):
        answer = node.get(path)
        assert (answer.status, answer.code) == (400, "InvalidURI") and b"<Hint>" in answer.body, path
    node.put("/box/a//b", b"inner")
    assert node.get("/box/a//b").body == b"inner"
    for query in ("list-type=2", "delete", "versions", "uploads", "x"):
        assert node.get(f"/?{query}").status == 501, query
    assert exchange(node, "GET / HTTP/1.1\r\n\r\n").status == 400
    assert exchange(node, "GET / HTTP/1.0\r\n\r\n").status == 200
    assert exchange(node, f"GET http://box.localhost:{node.port}/slashes HTTP/1.1\r\nHost: box.localhost:{node.port}\r\n\r\n").body == b"x"
    assert exchange(node, "GET http://box.localhost/slashes HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 400


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("keyed")
    keys = Millrace(directory).json("keys", "create", "--data", directory / "data", "--admin")[0]
    with Node(directory) as running:
        running.signer = Signer(running, keys["access_key"], keys["secret_key"])
        assert running.signer.ask("PUT", "/signed").status == 200
        yield running


BOTO3 = """
import socket, sys, urllib.request, boto3
from botocore.client import Config
look_up = socket.getaddrinfo
# Names under localhost are this machine, whether its resolver knows that or not.
socket.getaddrinfo = lambda host, *rest, **more: look_up("127.0.0.1" if str(host).endswith(".localhost") else host, *rest, **more)
url, access, secret = sys.argv[1:]
def client(**options):
    return boto3.client("s3", endpoint_url=url, aws_access_key_id=access, aws_secret_access_key=secret, region_name="us-east-1", config=Config(**options))
virtual = client(s3={"addressing_style": "virtual"}, signature_version="s3v4")
virtual.create_bucket(Bucket="virtual")
virtual.put_object(Bucket="virtual", Key="a b/c+d", Body=b"x")
assert [o["Key"] for o in virtual.list_objects_v2(Bucket="virtual")["Contents"]] == ["a b/c+d"]
assert virtual.get_object(Bucket="virtual", Key="a b/c+d")["Body"].read() == b"x"
virtual.copy_object(Bucket="virtual", Key="e", CopySource={"Bucket": "virtual", "Key": "a b/c+d"})
virtual.delete_objects(Bucket="virtual", Delete={"Objects": [{"Key": "a b/c+d"}, {"Key": "e"}]})
virtual.delete_bucket(Bucket="virtual")
for style in ("path", "virtual"):
    for version in ("s3", "s3v4"):
        links = client(s3={"addressing_style": style}, signature_version=version)
        for params, headers in (({}, {}), ({"ContentType": "text/x"}, {"Content-Type": "text/x"})):
            link = links.generate_presigned_url("put_object", Params={"Bucket": "signed", "Key": "by link", **params})
            body = (style + version).encode()
            # urllib adds a Content-Type of its own where there is none.
            request = urllib.request.Request(link, body, headers or {"Content-Type": ""}, method="PUT")
            assert urllib.request.urlopen(request).status == 200
            read = links.generate_presigned_url("get_object", Params={"Bucket": "signed", "Key": "by link"})
            assert urllib.request.urlopen(read).read() == body
            listed = links.generate_presigned_url("list_objects_v2", Params={"Bucket": "signed"})
            assert b"<KeyCount>1</KeyCount>" in urllib.request.urlopen(listed).read()
            for bad in (urllib.request.Request(link, b"y", {**headers, "x-amz-meta-a": "b", "Content-Type": ""}, method="PUT"), urllib.request.Request(link, method="DELETE")):
                try:
                    urllib.request.urlopen(bad)
                    raise SystemExit("a changed link was served")
                except urllib.error.HTTPError as refused:
                    assert refused.code in (400, 403), refused.code
print("done")
"""


def test_boto3_with_buckets_in_the_host_and_links_of_both_versions(keyed):
    done = subprocess.run(["/usr/bin/python3", "-c", BOTO3, f"http://localhost:{keyed.port}", keyed.signer.access, keyed.signer.secret], capture_output=True, text=True, timeout=120)
    assert "done" in done.stdout, done.stderr[-3000:]


# Connections.

def test_a_refusal_before_the_body_says_that_the_connection_ends(node):
    huge = "PUT /box/huge HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000000000000\r\n\r\n"
    for head in (huge, huge.replace("4000000000000000", "300000").replace("/box", "/no_bucket"), "PUT /no_bucket/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"):
        with Wire(node) as wire:
            answer = wire.send(head).answer()
            assert answer.status >= 400 and answer.headers.get("connection") == "close", head
            wire.socket.shutdown(1)
            assert wire.is_closed()
    with Wire(node) as wire:
        for _ in range(3):
            answer = wire.send("PUT /no_bucket/x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nsmall").answer()
            assert answer.status == 400 and "connection" not in answer.headers


def test_every_request_of_a_reused_connection_is_answered_on_a_full_drive(node):
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=30)
    for _ in range(4):
        connection.putrequest("PUT", "/box/full")
        connection.putheader("Content-Length", str(4 << 40))
        connection.endheaders()
        answer = connection.getresponse()
        assert answer.status == 507 and answer.will_close
        answer.read()
    connection.close()


def test_a_put_that_fails_its_condition_is_answered_before_its_body(node):
    node.put("/box/taken", b"taken")
    for headers in ("If-None-Match: *", 'If-Match: "other"'):
        head = f"PUT /box/taken HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\nExpect: 100-continue\r\n{headers}\r\n\r\n"
        assert exchange(node, head).status == 412, headers
    head = 'PUT /box/not-there HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\nExpect: 100-continue\r\nIf-Match: "x"\r\n\r\n'
    assert exchange(node, head).status == 404
    assert node.ask("POST", "/box/taken?uploads", None, {"If-None-Match": "*"}).status == 412


@pytest.mark.parametrize("body", ["5;x\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n0;a\nb\r\n\r\n", "5\r\nhello\r\n0\r\na: b\n\r\n", "5\r\nhello\r\n0\r\na: b\nc: d\r\n\r\n", "5\r\nhello\r\n0\r\n\n"])
def test_a_bare_line_feed_ends_no_line_of_a_chunked_body(node, body):
    with Wire(node) as wire:
        wire.send("PUT /box/bare HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
        wire.socket.shutdown(1)
        assert wire.answer().status == 400
    assert node.get("/box/bare").status == 404


def test_pages_of_other_sites_change_nothing_under_administration(node):
    for site in ("cross-site", "same-site"):
        assert node.ask("POST", "/-/scrub", b"{}", {"Sec-Fetch-Site": site}).status == 403
        assert node.ask("PUT", "/-/buckets/box", b'{"anonymous_read": true}', {"Sec-Fetch-Site": site}).status == 403
    assert node.get("/-/buckets/box").json["anonymous_read"] is False


# Names, buckets and keys.

def test_names_are_those_of_s3_unless_short_ones_are_allowed(tmp_path):
    with Node(tmp_path, "--set", "short_names=off") as strict:
        for name in ("b", "ab", "192.168.5.4", "xn--abc", "a-.b", "box-s3alias"):
            answer = strict.ask("PUT", f"/{name}")
            assert (answer.status, answer.code) == (400, "InvalidBucketName") and b"short_names" in answer.body, name
            assert strict.put(f"/{name}/x", b"x").code == "InvalidBucketName", name
        assert strict.ask("PUT", "/abc").status == 200
        strict.stop()
        strict.flags = ["--set", "short_names=on"]
        strict.start()
        assert strict.put("/b/x", b"x").status == 200
        strict.stop()
        strict.flags = ["--set", "short_names=off"]
        strict.start()
        assert strict.get("/b/x").body == b"x" and strict.put("/b/y", b"y").status == 200


def test_the_first_object_makes_its_bucket_whatever_its_size(node, tmp_path):
    millrace, env = Millrace(tmp_path), {"MILLRACE_ENDPOINT": node.url}
    with open(tmp_path / "large", "wb") as large:
        large.truncate(65 * MIB)
    millrace("put", "large", "mr://first-large/x", env=env)
    assert node.ask("HEAD", "/first-large/x").headers["content-length"] == str(65 * MIB)
    assert copy(node, "/first-copy/x", "/first-large/x").status == 200
    upload = begin_upload(node, "/first-parts/x")
    assert put_part(node, "/first-parts/x", upload, 1, b"x").status == 200
    assert node.ask("PUT", "/first-none/x?partNumber=1&uploadId=0", b"x").code == "NoSuchBucket"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")
def test_keys_that_root_makes_belong_to_the_node(tmp_path):
    nobody = pwd.getpwnam("nobody")
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    os.chown(data, nobody.pw_uid, nobody.pw_gid)
    for _ in range(2):
        Millrace(tmp_path).json("keys", "create", "--data", data, "--admin")
        for name in ("keys.json", "keys.json.lock"):
            facts = os.stat(data / name)
            assert (facts.st_uid, facts.st_gid, stat.S_IMODE(facts.st_mode)) == (nobody.pw_uid, nobody.pw_gid, 0o600), name
    os.chmod(data / "keys.json", 0o400)
    Millrace(tmp_path).json("keys", "create", "--data", data, "--admin")
    assert stat.S_IMODE(os.stat(data / "keys.json").st_mode) == 0o400
