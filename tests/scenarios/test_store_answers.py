"""Answers as S3 gives them: lists, versions, parts, repeated completions, ranges."""
import os
import urllib.parse

import pytest

from nodes import Node
from store_client import MIB, begin_upload, complete, make_tar, parse, put_part, texts

PART = os.urandom(5 * MIB)


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with Node(tmp_path_factory.mktemp("answers")) as running:
        assert running.ask("PUT", "/box").status == 200
        yield running


def test_a_range_that_cannot_be_says_how_large_the_object_is(node):
    for size, wanted in ((0, "bytes=0-"), (0, "bytes=0-8388607"), (0, "bytes=-1"), (10, "bytes=10-20")):
        node.put("/box/ranged", b"x" * size)
        answer = node.get("/box/ranged", Range=wanted)
        root = parse(answer)
        assert (answer.status, answer.code) == (416, "InvalidRange")
        assert texts(root, "ActualObjectSize") == [str(size)] and texts(root, "RangeRequested") == [wanted]
        assert answer.headers["content-range"] == f"bytes */{size}"


def test_an_upload_completed_again_is_answered_alike(node):
    upload = begin_upload(node, "/box/again")
    parts = [(number, put_part(node, "/box/again", upload, number, body).headers["etag"]) for number, body in ((1, PART), (2, b"tail"))]
    first = complete(node, "/box/again", upload, parts)
    second = complete(node, "/box/again", upload, parts)
    assert (first.status, second.status) == (200, 200) and first.body == second.body
    assert complete(node, "/box/again", upload, parts[:1]).code == "NoSuchUpload"
    assert complete(node, "/box/again", "0" * 32, parts).code == "NoSuchUpload"
    node.stop()
    node.start()
    assert complete(node, "/box/again", upload, parts).body == first.body
    head = node.ask("HEAD", "/box/again").headers
    assert not [name for name in head if "upload" in name]
    # A copy was not made by the upload, nor was what replaces the object.
    assert node.ask("PUT", "/box/again-copy", None, {"x-amz-copy-source": "/box/again"}).status == 200
    assert complete(node, "/box/again-copy", upload, parts).code == "NoSuchUpload"
    node.put("/box/again", b"replaced")
    assert complete(node, "/box/again", upload, parts).code == "NoSuchUpload" and node.get("/box/again").body == b"replaced"


def test_the_parts_of_an_object_are_counted_even_if_it_is_one(node):
    upload = begin_upload(node, "/box/one-part")
    etag = put_part(node, "/box/one-part", upload, 1, b"only").headers["etag"]
    assert complete(node, "/box/one-part", upload, [(1, etag)]).status == 200
    assert node.get("/box/one-part?partNumber=1").headers["x-amz-mp-parts-count"] == "1"
    node.put("/box/whole", b"x" * 100_000)
    assert "x-amz-mp-parts-count" not in node.get("/box/whole?partNumber=1").headers


def test_buckets_are_listed_by_prefix_and_in_pages(node):
    for name in ("list-a", "list-b", "list-c", "other"):
        node.ask("PUT", f"/{name}")
    names, token = [], ""
    while True:
        root = parse(node.get(f"/?prefix=list-&max-buckets=2{token}"))
        names += texts(root, "Buckets/Bucket/Name")
        assert texts(root, "Prefix") == ["list-"]
        if not texts(root, "ContinuationToken"):
            break
        token = "&continuation-token=" + urllib.parse.quote(texts(root, "ContinuationToken")[0])
    assert names == ["list-a", "list-b", "list-c"]
    for query in ("max-buckets=0", "max-buckets=x", "max-buckets=10001", "continuation-token=%21"):
        assert node.get(f"/?{query}").code == "InvalidArgument", query
    assert texts(parse(node.get("/?bucket-region=eu-1")), "Buckets/Bucket/Name") == []


def test_uploads_are_listed_with_delimiter_encoding_and_owner(node):
    node.ask("PUT", "/under-way")
    keys = ["a", "b c/1", "b c/2", "d/1", "e+"]
    uploads = {key: begin_upload(node, "/under-way/" + urllib.parse.quote(key), {"x-amz-checksum-algorithm": "CRC32C"}) for key in keys}
    root = parse(node.get("/under-way?uploads&delimiter=/&encoding-type=url"))
    assert texts(root, "Upload/Key") == ["a", "e%2B"] and texts(root, "CommonPrefixes/Prefix") == ["b%20c/", "d/"]
    assert texts(root, "EncodingType") == ["url"] and texts(root, "Delimiter") == ["/"]
    assert texts(root, "Upload/Owner/ID") == ["millrace"] * 2 and texts(root, "Upload/Initiator/ID") == ["millrace"] * 2
    assert texts(root, "Upload/ChecksumAlgorithm") == ["CRC32C"] * 2
    assert texts(parse(node.get("/under-way?uploads&delimiter=/&prefix=b%20c/")), "Upload/Key") == ["b c/1", "b c/2"]
    found, query = [], ""
    while True:
        root = parse(node.get(f"/under-way?uploads&delimiter=/&max-uploads=1{query}"))
        found += texts(root, "Upload/Key") + texts(root, "CommonPrefixes/Prefix")
        if texts(root, "IsTruncated") != ["true"]:
            break
        query = "&key-marker=" + urllib.parse.quote(texts(root, "NextKeyMarker")[0]) + "&upload-id-marker=" + texts(root, "NextUploadIdMarker")[0]
    assert found == ["a", "b c/", "d/", "e+"]
    assert node.get("/under-way?uploads&encoding-type=morse").code == "InvalidArgument"
    listed = parse(node.get(f"/under-way/a?uploadId={uploads['a']}"))
    assert texts(listed, "Owner/ID") == ["millrace"] and texts(listed, "ChecksumAlgorithm") == ["CRC32C"]


def test_a_bucket_with_uploads_under_way_can_be_removed_and_they_end_with_it(node):
    upload = begin_upload(node, "/ending/x")
    assert put_part(node, "/ending/x", upload, 1, b"x").status == 200
    assert node.ask("DELETE", "/ending").status == 204
    assert put_part(node, "/ending/x", upload, 2, b"x").code == "NoSuchBucket"
    assert node.ask("PUT", "/ending").status == 200
    assert texts(parse(node.get("/ending?uploads")), "Upload/Key") == []
    assert put_part(node, "/ending/x", upload, 2, b"x").code == "NoSuchUpload"
    upload = begin_upload(node, "/ending/y")
    node.put("/ending/kept", b"x")
    assert node.ask("DELETE", "/ending").code == "BucketNotEmpty"
    assert put_part(node, "/ending/y", upload, 1, b"x").status == 200


def test_versions_are_listed_as_null(node):
    keys = ["a", "b c", "d/1", "d/2", "e"]
    for key in keys:
        node.put("/versioned/" + urllib.parse.quote(key), key.encode())
    root = parse(node.get("/versioned?versions"))
    assert texts(root, "Version/Key") == keys and set(texts(root, "Version/VersionId")) == {"null"} and set(texts(root, "Version/IsLatest")) == {"true"}
    root = parse(node.get("/versioned?versions&delimiter=/&encoding-type=url"))
    assert texts(root, "Version/Key") == ["a", "b%20c", "e"] and texts(root, "CommonPrefixes/Prefix") == ["d/"]
    found, query = [], ""
    while True:
        root = parse(node.get(f"/versioned?versions&max-keys=2{query}"))
        found += texts(root, "Version/Key")
        if texts(root, "IsTruncated") != ["true"]:
            break
        query = "&key-marker=" + urllib.parse.quote(texts(root, "NextKeyMarker")[0]) + "&version-id-marker=" + texts(root, "NextVersionIdMarker")[0]
    assert found == keys
    assert node.get("/versioned?versions&key-marker=a&version-id-marker=7").code == "InvalidArgument"
    assert texts(parse(node.get("/versioned?versions&prefix=d/")), "Version/Key") == ["d/1", "d/2"]


def test_an_empty_continuation_token_is_given_back(node):
    assert texts(parse(node.get("/box?list-type=2&continuation-token=")), "ContinuationToken") == [""]
    assert texts(parse(node.get("/box?list-type=2")), "ContinuationToken") == []


def test_checksums_come_with_their_type(node):
    put = node.put("/box/typed", b"", x_amz_checksum_crc32="AAAAAA==")
    assert put.headers["x-amz-checksum-type"] == "FULL_OBJECT"
    assert node.ask("HEAD", "/box/typed", None, {"x-amz-checksum-mode": "ENABLED"}).headers["x-amz-checksum-type"] == "FULL_OBJECT"
    assert "x-amz-checksum-type" not in node.ask("HEAD", "/box/typed").headers


def test_the_encoding_of_an_object_stays_as_it_was_sent(node):
    for sent, kept in (("deflate, gzip", "deflate, gzip"), ("gzip,deflate", "gzip,deflate"), ("gzip", "gzip")):
        node.put("/box/encoded", b"x", Content_Encoding=sent)
        assert node.ask("HEAD", "/box/encoded").headers["content-encoding"] == kept


def test_conditions_hold_for_members_and_indexes_too(node):
    node.put("/box/shard.tar", make_tar([("a.txt", b"1"), ("b.txt", b"2")]))
    etag = node.ask("HEAD", "/box/shard.tar").headers["etag"]
    for query in ("member=a.txt", "sample=0", "index"):
        assert node.get(f"/box/shard.tar?{query}", If_Match='"other"').status == 412, query
        assert node.get(f"/box/shard.tar?{query}", If_Match=etag).status == 200, query
        assert node.get(f"/box/shard.tar?{query}", If_None_Match=etag).status == 304, query
