"""S3's own words: listings, multipart uploads, copies, many deletes, tags, and what is not here."""
import hashlib
import os
import random
import threading
import urllib.parse

import pytest

from nodes import Node
from store_client import CHECKSUMS, MIB, base64_of, begin_upload, complete, complete_xml, exchange, md5_header, new_files, parse, put_in_parts, put_part, stored_files, texts, wait_until

PART = os.urandom(5 * MIB)


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with Node(tmp_path_factory.mktemp("s3")) as running:
        assert running.ask("PUT", "/box").status == 200
        # What is compared here is the MD5 that S3 clients get.
        assert running.ask("PUT", "/-/buckets/box", '{"etag": "md5"}').status == 200
        yield running


def fill(node, bucket, keys):
    node.ask("PUT", f"/{bucket}")
    for key in keys:
        assert node.put(f"/{bucket}/{urllib.parse.quote(key)}", key.encode()).status == 200


def page(node, bucket, **query):
    return node.get(f"/{bucket}?" + urllib.parse.urlencode({name.replace("_", "-"): value for name, value in query.items()}))


def walk(node, bucket, version, size, **query):
    """Keys and common prefixes through all pages of at most `size`."""
    keys, prefixes, sizes, after = [], [], [], {}
    while True:
        listing = {"list_type": 2} if version == 2 else {}
        root = parse(page(node, bucket, max_keys=size, **listing, **query, **after))
        found, common = texts(root, "Contents/Key"), texts(root, "CommonPrefixes/Prefix")
        keys, prefixes, sizes = keys + found, prefixes + common, sizes + [len(found) + len(common)]
        if version == 2:
            assert texts(root, "KeyCount") == [str(sizes[-1])]
        if texts(root, "IsTruncated") != ["true"]:
            assert all(count == size for count in sizes[:-1]), sizes
            return keys, prefixes
        if version == 2:
            after = {"continuation_token": texts(root, "NextContinuationToken")[0]}
        else:
            after = {"marker": texts(root, "NextMarker")[0]}


# Listing.

TREE = sorted(["a", "a/1", "a/2", "a/b/3", "a-", "a0", "b/1", "b/2", "c", "d/e/f/g", "B", "~", "é", "日本", "z z", "z+z", "10", "9"], key=str.encode)


@pytest.fixture(scope="module")
def tree(node):
    fill(node, "tree", TREE)


def expected(prefix="", delimiter="", after=""):
    keys, prefixes = [], []
    for key in TREE:
        if not key.startswith(prefix):
            continue
        rest = key[len(prefix):]
        if delimiter and delimiter in rest:
            common = prefix + rest.split(delimiter)[0] + delimiter
            if common not in prefixes and common.encode() > after.encode():
                prefixes.append(common)
        elif key.encode() > after.encode():
            keys.append(key)
    return keys, prefixes


@pytest.mark.parametrize("version", [1, 2])
def test_every_page_size_gives_every_key_once_in_the_order_of_bytes(node, tree, version):
    for size in range(1, len(TREE) + 2):
        assert walk(node, "tree", version, size) == (TREE, []), size
        assert walk(node, "tree", version, size, delimiter="/") == expected(delimiter="/"), size


@pytest.mark.parametrize("version", [1, 2])
def test_prefixes_and_delimiters(node, tree, version):
    for prefix in ("", "a", "a/", "a/b", "b/1", "d/", "d/e/", "x", "é", "z "):
        for delimiter in ("", "/", "b", "/e", "1"):
            assert walk(node, "tree", version, 1000, prefix=prefix, delimiter=delimiter) == expected(prefix, delimiter), (prefix, delimiter)
            assert walk(node, "tree", version, 2, prefix=prefix, delimiter=delimiter) == expected(prefix, delimiter), (prefix, delimiter)


def test_start_after_and_marker_need_not_exist(node, tree):
    for after in ("", "a", "a/", "a/1", "a/11", "zzz", "\U0010ffff"):
        keys, _ = expected(after=after)
        assert walk(node, "tree", 2, 3, start_after=after)[0] == keys, after
        assert texts(parse(page(node, "tree", marker=after)), "Contents/Key") == keys, after


def test_a_listing_describes_each_object(node, tree):
    root = parse(page(node, "tree", list_type=2, prefix="a/1", fetch_owner="true"))
    assert texts(root, "Contents/Size") == ["3"] and texts(root, "Contents/ETag") == [f'"{hashlib.md5(b"a/1").hexdigest()}"']
    assert texts(root, "Contents/StorageClass") == ["STANDARD"] and texts(root, "Contents/Owner/ID")
    assert texts(root, "Name") == ["tree"] and texts(root, "Prefix") == ["a/1"] and texts(root, "MaxKeys") == ["1000"]


def test_url_encoding_carries_keys_that_xml_cannot(node):
    keys = ["plain", "a&b<c>", "new\nline", "\x01bell", "per%cent", "sp ace+plus"]
    fill(node, "encoded", keys)
    root = parse(page(node, "encoded", list_type=2, encoding_type="url"))
    assert texts(root, "EncodingType") == ["url"]
    assert [urllib.parse.unquote(key) for key in texts(root, "Contents/Key")] == sorted(keys)
    plain = page(node, "encoded", list_type=2)
    assert plain.status == 200 and len(texts(parse(plain), "Contents/Key")) == len(keys)


def test_listing_arguments_that_make_no_sense(node, tree):
    for query in ("max-keys=x", "max-keys=-1", "list-type=2&continuation-token=%21"):
        answer = node.get(f"/tree?{query}")
        assert (answer.status, answer.code) == (400, "InvalidArgument"), query
    root = parse(node.get("/tree?list-type=2&max-keys=0"))
    assert texts(root, "Contents/Key") == [] and texts(root, "IsTruncated") == ["false"]
    assert texts(parse(node.get("/tree?max-keys=5000")), "MaxKeys") == ["1000"]
    assert node.get("/no-such-bucket?list-type=2").code == "NoSuchBucket"


def test_a4_paging_under_writes_loses_no_stable_key_and_repeats_none(node):
    stable = [f"k{number:04}" for number in range(0, 600, 2)]
    fill(node, "moving", stable)
    stopped = threading.Event()

    def churn(seed):
        dice = random.Random(seed)
        while not stopped.is_set():
            key = f"/moving/k{dice.randrange(1, 600, 2):04}"
            node.put(key, b"x") if dice.random() < 0.5 else node.ask("DELETE", key)

    writers = [threading.Thread(target=churn, args=(seed,)) for seed in range(3)]
    for writer in writers:
        writer.start()
    try:
        for size in (3, 7, 13, 50, 299, 1000) * 3:
            keys, _ = walk(node, "moving", 2, size)
            assert len(keys) == len(set(keys)) and keys == sorted(keys)
            assert set(stable) <= set(keys)
    finally:
        stopped.set()
        for writer in writers:
            writer.join()


# Buckets.

def test_buckets_are_made_listed_and_removed_when_empty(node):
    assert node.ask("PUT", "/pail").status == 200
    assert node.ask("PUT", "/pail").code == "BucketAlreadyOwnedByYou"
    assert "pail" in texts(parse(node.get("/")), "Buckets/Bucket/Name")
    assert node.ask("HEAD", "/pail").status == 200 and node.ask("HEAD", "/no-pail").status == 404
    node.put("/pail/x", b"x")
    assert (node.ask("DELETE", "/pail").status, node.ask("DELETE", "/pail").code) == (409, "BucketNotEmpty")
    node.ask("DELETE", "/pail/x")
    assert node.ask("DELETE", "/pail").status == 204
    assert node.ask("DELETE", "/pail").code == "NoSuchBucket"
    assert node.get("/pail/x").code == "NoSuchBucket"
    assert node.ask("PUT", "/pail-2", "<CreateBucketConfiguration><LocationConstraint>eu-1</LocationConstraint></CreateBucketConfiguration>").status == 200
    assert node.ask("PUT", "/pail-3", "<broken").code == "MalformedXML"


# Multipart.

def test_a_multipart_object_is_its_parts_in_order_whatever_order_they_came_in(node):
    upload = begin_upload(node, "/box/multi", {"Content-Type": "text/parts", "x-amz-meta-m": "v"})
    bodies = {7: PART, 2: PART[::-1], 10000: b"tail"}
    etags = {number: put_part(node, "/box/multi", upload, number, body).headers["etag"] for number, body in bodies.items()}
    assert node.get("/box/multi").status == 404
    assert complete(node, "/box/multi", upload, sorted(etags.items())).status == 200
    got = node.get("/box/multi")
    assert got.body == PART[::-1] + PART + b"tail" and got.headers["content-type"] == "text/parts" and got.headers["x-amz-meta-m"] == "v"
    digest = hashlib.md5(b"".join(hashlib.md5(bodies[number]).digest() for number in sorted(bodies))).hexdigest()
    assert got.headers["etag"] == f'"{digest}-3"'


def test_single_parts_are_had_by_number_also_empty_ones(node):
    upload = begin_upload(node, "/box/numbered")
    bodies = [PART, PART[::-1], b""]
    etags = [put_part(node, "/box/numbered", upload, number, body).headers["etag"] for number, body in enumerate(bodies, 1)]
    assert complete(node, "/box/numbered", upload, list(enumerate(etags, 1))).status == 200
    for number, body in enumerate(bodies, 1):
        for method in ("GET", "HEAD"):
            answer = node.ask(method, f"/box/numbered?partNumber={number}")
            assert answer.headers["content-length"] == str(len(body)) and answer.headers["x-amz-mp-parts-count"] == "3"
            assert answer.status == (206 if body else 200) and ("content-range" in answer.headers) == bool(body)
        assert node.get(f"/box/numbered?partNumber={number}").body == body
    assert node.get("/box/numbered?partNumber=4").code == "InvalidRange"
    node.put("/box/nothing", b"")
    answer = node.get("/box/nothing?partNumber=1")
    assert (answer.status, answer.body, answer.headers.get("content-range")) == (200, b"", None)


def test_a_part_sent_again_replaces_the_first_and_an_unnamed_part_is_left_out(node):
    upload = begin_upload(node, "/box/again")
    put_part(node, "/box/again", upload, 1, b"first")
    put_part(node, "/box/again", upload, 2, b"left out")
    etag = put_part(node, "/box/again", upload, 1, b"second").headers["etag"]
    assert complete(node, "/box/again", upload, [(1, etag)]).status == 200
    assert node.get("/box/again").body == b"second"


def test_what_complete_refuses_and_that_the_upload_survives_it(node):
    upload = begin_upload(node, "/box/rules")
    etag = {number: put_part(node, "/box/rules", upload, number, body).headers["etag"] for number, body in ((1, b"small"), (2, PART), (3, b"end"))}
    cases = [([(2, etag[2]), (1, etag[1])], "InvalidPartOrder"), ([(2, etag[2]), (2, etag[2])], "InvalidPartOrder"),
             ([(1, etag[1]), (2, etag[2])], "EntityTooSmall"), ([(2, '"0123456789abcdef0123456789abcdef"')], "InvalidPart"),
             ([(2, etag[2]), (9, etag[3])], "InvalidPart"), ([], "MalformedXML"), ([(0, etag[1])], "InvalidPart"), ([(10001, etag[1])], "InvalidPart")]
    for parts, code in cases:
        answer = complete(node, "/box/rules", upload, parts)
        assert (answer.status, answer.code) == (400, code), parts
    for text in ("", "<CompleteMultipartUpload>", "junk", "<Other/>", "<CompleteMultipartUpload><Part><PartNumber>x</PartNumber></Part></CompleteMultipartUpload>"):
        assert node.ask("POST", f"/box/rules?uploadId={upload}", text).status == 400, text
    assert node.get("/box/rules").status == 404
    assert complete(node, "/box/rules", upload, [(2, etag[2]), (3, etag[3])]).status == 200
    assert node.get("/box/rules").body == PART + b"end"
    assert complete(node, "/box/rules", upload, [(2, etag[2])]).code == "NoSuchUpload"


def test_uploads_that_do_not_exist(node):
    upload = begin_upload(node, "/box/exists")
    for name in ("0123456789abcdef", "..", "../../etc", "", "x" * 2000):
        quoted = urllib.parse.quote(name, safe="")
        assert node.ask("PUT", f"/box/exists?partNumber=1&uploadId={quoted}", b"x").code == "NoSuchUpload", name
        assert node.ask("POST", f"/box/exists?uploadId={quoted}", complete_xml([(1, "x")])).code == "NoSuchUpload", name
        assert node.ask("DELETE", f"/box/exists?uploadId={quoted}").code == "NoSuchUpload", name
        assert node.get(f"/box/exists?uploadId={quoted}").code == "NoSuchUpload", name
    assert put_part(node, "/box/other-key", upload, 1, b"x").code == "NoSuchUpload"
    for number in ("0", "10001", "-1", "x", ""):
        assert put_part(node, "/box/exists", upload, number, b"x").code == "InvalidArgument", number
    node.ask("DELETE", f"/box/exists?uploadId={upload}")


def test_d4_an_abort_frees_the_space_of_all_parts(node):
    before = stored_files(node)
    upload = begin_upload(node, "/box/aborted")
    for number in range(1, 4):
        put_part(node, "/box/aborted", upload, number, os.urandom(100_000))
    assert new_files(node, before)
    assert node.ask("DELETE", f"/box/aborted?uploadId={upload}").status == 204
    wait_until(lambda: not new_files(node, before))
    assert node.ask("DELETE", f"/box/aborted?uploadId={upload}").code == "NoSuchUpload"
    assert node.get("/box/aborted").status == 404


def test_parts_and_uploads_are_listed_in_pages(node):
    node.ask("PUT", "/uploads-box")
    uploads = {key: begin_upload(node, f"/uploads-box/{key}") for key in ("a", "b/1", "b/2", "c")}
    for number in range(1, 8):
        put_part(node, "/uploads-box/a", uploads["a"], number, b"x" * number)
    found, marker = [], 0
    while True:
        root = parse(node.get(f"/uploads-box/a?uploadId={uploads['a']}&max-parts=3&part-number-marker={marker}"))
        found += list(zip(texts(root, "Part/PartNumber"), texts(root, "Part/Size")))
        marker = texts(root, "NextPartNumberMarker")[0]
        if texts(root, "IsTruncated") != ["true"]:
            break
    assert found == [(str(number), str(number)) for number in range(1, 8)]
    assert texts(parse(node.get("/uploads-box?uploads&prefix=b/")), "Upload/Key") == ["b/1", "b/2"]
    keys, query = [], ""
    while True:
        root = parse(node.get(f"/uploads-box?uploads&max-uploads=1{query}"))
        keys += texts(root, "Upload/Key")
        if texts(root, "IsTruncated") != ["true"]:
            break
        query = f"&key-marker={texts(root, 'NextKeyMarker')[0]}&upload-id-marker={texts(root, 'NextUploadIdMarker')[0]}"
    assert keys == ["a", "b/1", "b/2", "c"]
    for key, upload in uploads.items():
        assert node.ask("DELETE", f"/uploads-box/{key}?uploadId={upload}").status == 204


def test_parts_are_verified_and_give_a_composite_checksum(node):
    upload = begin_upload(node, "/box/composite", {"x-amz-checksum-algorithm": "SHA256"})
    bodies, parts, digests = [PART, b"tail"], [], []
    for number, body in enumerate(bodies, 1):
        digest = CHECKSUMS["sha256"](body)
        refused = put_part(node, "/box/composite", upload, number, body, {"x-amz-checksum-sha256": base64_of(digest[::-1])})
        assert refused.code == "BadDigest"
        assert put_part(node, "/box/composite", upload, number, body, {"Content-MD5": md5_header(b"no")}).code == "BadDigest"
        put = put_part(node, "/box/composite", upload, number, body, {"x-amz-checksum-sha256": base64_of(digest)})
        parts.append((number, put.headers["etag"]))
        digests.append(digest)
    assert complete(node, "/box/composite", upload, parts).status == 200
    got = node.ask("HEAD", "/box/composite", None, {"x-amz-checksum-mode": "ENABLED"})
    assert got.headers["x-amz-checksum-sha256"] == base64_of(hashlib.sha256(b"".join(digests)).digest()) + "-2"


def test_a_conditional_complete(node):
    node.put("/box/taken", b"taken")
    upload = begin_upload(node, "/box/taken")
    etag = put_part(node, "/box/taken", upload, 1, b"new").headers["etag"]
    assert complete(node, "/box/taken", upload, [(1, etag)], {"If-None-Match": "*"}).status == 412
    assert node.get("/box/taken").body == b"taken"
    assert complete(node, "/box/taken", upload, [(1, etag)]).status == 200 and node.get("/box/taken").body == b"new"


# Copies.

def test_metadata_without_a_value_is_kept(node):
    node.put("/box/plain", b"x", x_amz_meta_empty="")
    assert node.get("/box/plain").headers["x-amz-meta-empty"] == ""


def test_an_answer_to_an_impossible_range_says_how_much_there_is(node):
    node.put("/box/ten", b"0123456789")
    answer = node.get("/box/ten", Range="bytes=10-")
    assert (answer.status, answer.code, answer.headers["content-range"]) == (416, "InvalidRange", "bytes */10")
    assert answer.headers["x-amz-request-id"].encode() in answer.body


def copy(node, target, source, **headers):
    return node.ask("PUT", target, None, {"x-amz-copy-source": source, **{name.replace("_", "-"): value for name, value in headers.items()}})


def test_a_copy_has_the_bytes_and_the_headers_of_its_source(node):
    for size in (10, 200_000):
        body = os.urandom(size)
        node.put(f"/box/from {size}".replace(" ", "%20"), body, Content_Type="text/x", x_amz_meta_a="1", x_amz_tagging="t=1")
        answer = copy(node, f"/box/to-{size}", f"/box/from%20{size}")
        assert answer.status == 200 and texts(parse(answer), "ETag") == [f'"{hashlib.md5(body).hexdigest()}"']
        got = node.get(f"/box/to-{size}")
        assert got.body == body and got.headers["content-type"] == "text/x" and got.headers["x-amz-meta-a"] == "1"
        assert got.headers["x-amz-tagging-count"] == "1"
        replaced = copy(node, f"/box/to-{size}", f"box/from%20{size}", x_amz_metadata_directive="REPLACE", x_amz_meta_b="2",
                        x_amz_tagging_directive="REPLACE", x_amz_tagging="")
        assert replaced.status == 200
        got = node.get(f"/box/to-{size}").headers
        assert "x-amz-meta-a" not in got and got["x-amz-meta-b"] == "2" and "x-amz-tagging-count" not in got


def test_copies_keep_conditions_and_refuse_nonsense(node):
    etag = node.put("/box/source", b"source").headers["etag"]
    cases = [({"x_amz_copy_source_if_match": etag}, 200), ({"x_amz_copy_source_if_match": '"no"'}, 412),
             ({"x_amz_copy_source_if_none_match": etag}, 412), ({"x_amz_copy_source_if_none_match": '"no"'}, 200),
             ({"x_amz_copy_source_if_modified_since": "Fri, 01 Jan 2100 00:00:00 GMT"}, 412),
             ({"x_amz_copy_source_if_unmodified_since": "Mon, 01 Jan 2001 00:00:00 GMT"}, 412),
             ({"x_amz_copy_source_if_match": etag, "x_amz_copy_source_if_unmodified_since": "Mon, 01 Jan 2001 00:00:00 GMT"}, 200)]
    for headers, status in cases:
        node.ask("DELETE", "/box/target")
        assert copy(node, "/box/target", "/box/source", **headers).status == status, headers
        assert node.get("/box/target").status == (200 if status == 200 else 404), headers
    for source, code in (("/box/none", "NoSuchKey"), ("/no-bucket/x", "NoSuchBucket"), ("box", "InvalidArgument"), ("/box/", "InvalidArgument"),
                         ("/box/%zz", "InvalidArgument"), ("/box/source?versionId=7", "NotImplemented"), ("/../etc/passwd", "NoSuchBucket")):
        assert copy(node, "/box/target", source).code == code, source
    assert copy(node, "/box/source", "/box/source").code == "InvalidRequest"
    assert copy(node, "/box/target", "/box/source", x_amz_metadata_directive="MOVE").code == "InvalidArgument"
    assert copy(node, "/box/source", "/box/source", x_amz_metadata_directive="REPLACE", x_amz_meta_z="1").status == 200
    assert node.get("/box/source").headers["x-amz-meta-z"] == "1" and node.get("/box/source").body == b"source"
    assert copy(node, "/box/source2", "/box/source", If_None_Match="*").status == 200
    assert copy(node, "/box/source2", "/box/source", If_None_Match="*").status == 412


def test_parts_may_be_copies_of_ranges(node):
    whole = os.urandom(6 * MIB)
    node.put("/box/whole", whole)
    upload = begin_upload(node, "/box/pieced")

    def part(number, text):
        headers = {"x-amz-copy-source": "/box/whole", **({"x-amz-copy-source-range": text} if text else {})}
        return put_part(node, "/box/pieced", upload, number, None, headers)

    etags = [(number, texts(parse(part(number, text)), "ETag")[0]) for number, text in ((1, f"bytes=1-{5 * MIB}"), (2, None))]
    for text in ("bytes=0-99999999999", "bytes=5-1", "nonsense"):
        assert part(3, text).status in (400, 416), text
    assert complete(node, "/box/pieced", upload, etags).status == 200
    assert node.get("/box/pieced").body == whole[1 : 5 * MIB + 1] + whole


# Many deletes.

def delete_many(node, keys, quiet=False, headers=None):
    objects = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
    return node.ask("POST", "/many?delete", f"<Delete>{'<Quiet>true</Quiet>' if quiet else ''}{objects}</Delete>", headers)


def test_many_objects_are_deleted_at_once(node):
    keys = [f"k{number}" for number in range(1000)]
    fill(node, "many", keys[:20] + ["a&b"])
    answer = delete_many(node, keys)
    assert answer.status == 200 and texts(parse(answer), "Deleted/Key") == keys
    assert texts(parse(delete_many(node, ["a&amp;b"], quiet=True)), "Deleted/Key") == []
    assert node.keys("many") == []


@pytest.mark.parametrize("kind", CHECKSUMS)
def test_deletes_are_compared_with_their_checksum(node, kind):
    node.put("/many/kept", b"x")
    document = b"<Delete><Object><Key>kept</Key></Object></Delete>"
    for wrong in (base64_of(CHECKSUMS[kind](b"another")), "nonsense"):
        refused = node.ask("POST", "/many?delete", document, {f"x-amz-checksum-{kind}": wrong})
        assert (refused.status, refused.code) == (400, "InvalidDigest" if wrong == "nonsense" else "BadDigest") and node.get("/many/kept").status == 200
    assert node.ask("POST", "/many?delete", document, {f"x-amz-checksum-{kind}": base64_of(CHECKSUMS[kind](document))}).status == 200
    assert node.get("/many/kept").status == 404


def test_deletes_that_are_refused_delete_nothing(node):
    fill(node, "many", ["kept"])
    for answer in (delete_many(node, ["kept"] + [f"k{number}" for number in range(1000)]), delete_many(node, []), delete_many(node, ["kept", ""]),
                   node.ask("POST", "/many?delete", "<Delete><Object><Key>kept</Key></Object>"), node.ask("POST", "/many?delete", "no xml"),
                   node.ask("POST", "/many?delete", "<Delete><Object><Key>kept</Key></Object></Deleted>")):
        assert (answer.status, answer.code) == (400, "MalformedXML"), answer.body
    assert delete_many(node, ["kept"], headers={"Content-MD5": md5_header(b"no")}).code == "BadDigest"
    bomb = "<!DOCTYPE d [<!ENTITY a 'kept'><!ENTITY b '&a;&a;'>]><Delete><Object><Key>&b;</Key></Object></Delete>"
    node.ask("POST", "/many?delete", bomb)
    outside = "<!DOCTYPE d [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><Delete><Object><Key>&a;</Key></Object></Delete>"
    assert b"root:" not in node.ask("POST", "/many?delete", outside).body
    assert node.keys("many") == ["kept"]
    conditional = node.ask("POST", "/many?delete", '<Delete><Object><Key>kept</Key><ETag>"no"</ETag></Object></Delete>')
    assert texts(parse(conditional), "Error/Code") == ["PreconditionFailed"] and node.keys("many") == ["kept"]
    assert delete_many(node, ["x" * 1025]).status in (200, 400)


# Tags.

def tag_xml(tags):
    return "<Tagging><TagSet>" + "".join(f"<Tag><Key>{key}</Key><Value>{value}</Value></Tag>" for key, value in tags) + "</TagSet></Tagging>"


def tags_of(node, path):
    root = parse(node.get(f"{path}?tagging"))
    return list(zip(texts(root, "TagSet/Tag/Key"), texts(root, "TagSet/Tag/Value")))


def test_tags_are_set_read_and_removed_without_touching_the_object(node):
    etag = node.put("/box/tagged", b"x" * 30_000, x_amz_tagging="a=1&b=two%20words").headers["etag"]
    assert tags_of(node, "/box/tagged") == [("a", "1"), ("b", "two words")]
    assert node.ask("PUT", "/box/tagged?tagging", tag_xml([("c", "&lt;3")])).status == 200
    assert tags_of(node, "/box/tagged") == [("c", "<3")]
    refused = [[("k" * 129, "")], [("k", "v" * 257)], [("k", "1"), ("k", "2")], [("", "v")], [(str(number), "") for number in range(11)]]
    for tags in refused:
        assert node.ask("PUT", "/box/tagged?tagging", tag_xml(tags)).code == "InvalidTag", tags
    assert node.ask("PUT", "/box/tagged?tagging", "<Tagging").code == "MalformedXML"
    assert tags_of(node, "/box/tagged") == [("c", "<3")]
    assert node.ask("DELETE", "/box/tagged?tagging").status == 204 and tags_of(node, "/box/tagged") == []
    got = node.get("/box/tagged")
    assert got.body == b"x" * 30_000 and got.headers["etag"] == etag
    assert node.get("/box/no-such?tagging").code == "NoSuchKey"
    assert node.ask("PUT", "/box/no-such?tagging", tag_xml([("a", "b")])).code == "NoSuchKey"


# What is not here.

UNSUPPORTED = ["accelerate", "analytics", "cors", "encryption", "inventory", "lifecycle", "logging", "metrics", "notification", "object-lock",
               "ownershipControls", "publicAccessBlock", "replication", "requestPayment", "website"]


def test_what_is_not_supported_says_so_and_does_nothing_else(node):
    fill(node, "plain-box", ["x"])
    for name in UNSUPPORTED:
        for method in ("GET", "PUT", "DELETE"):
            answer = node.ask(method, f"/plain-box?{name}", b"<x/>" if method == "PUT" else None)
            assert (answer.status, answer.code) == (501, "NotImplemented"), (method, name, answer.body)
    for method, query in (("GET", "torrent"), ("PUT", "retention"), ("PUT", "legal-hold"), ("POST", "restore"), ("POST", "select&select-type=2"),
                          ("PUT", "acl"), ("GET", "attributes"), ("GET", "versionId=abc")):
        answer = node.ask(method, f"/plain-box/x?{query}", b"<x/>" if method != "GET" else None)
        assert (answer.status, answer.code) == (501, "NotImplemented"), (method, query)
    for method, query in (("PUT", "policy"), ("PUT", "tagging"), ("PUT", "versioning"), ("PUT", "acl"), ("DELETE", "policy")):
        assert node.ask(method, f"/plain-box?{query}", b"<x/>" if method == "PUT" else None).status == 501, (method, query)
    assert node.keys("plain-box") == ["x"] and node.get("/plain-box/x").body == b"x"


def test_what_clients_only_ask_for_has_an_answer(node):
    fill(node, "plain-box", ["x"])
    for query in ("location", "versioning", "acl"):
        assert node.get(f"/plain-box?{query}").status == 200 and parse(node.get(f"/plain-box?{query}")) is not None
    assert node.get("/plain-box?policy").code == "NoSuchBucketPolicy" and node.get("/plain-box?tagging").code == "NoSuchTagSet"
    assert node.get("/plain-box/x?acl").status == 200 and node.get("/plain-box/x?versionId=null").body == b"x"


def test_methods_that_make_no_sense(node):
    for method, path in (("POST", "/box/x"), ("PATCH", "/box/x"), ("OPTIONS", "/box/x"), ("PUT", "/"), ("DELETE", "/")):
        answer = node.ask(method, path, b"" if method in ("POST", "PATCH", "PUT") else None)
        assert answer.status in (403, 405, 501) and answer.code, (method, path, answer.status)


def test_every_error_is_xml_with_a_code_a_message_and_an_id(node):
    answer = node.get("/box/none%3Cx%3E")
    root = parse(answer)
    assert root.tag == "Error" and texts(root, "Code") == ["NoSuchKey"] and texts(root, "Message")[0]
    assert texts(root, "RequestId") == [answer.headers["x-amz-request-id"]]
    assert node.ask("HEAD", "/box/none").body == b""


def test_what_is_echoed_is_always_valid_xml(node):
    for query in ("prefix=%ff", "delimiter=%c3", "marker=%fe", "list-type=2&start-after=%ed%a0%80", "uploads&prefix=%ff", "prefix=%ef%bf%bf", "prefix=%00%01"):
        answer = node.get(f"/box?{query}")
        assert answer.status in (200, 400) and parse(answer) is not None, query
    answer = exchange(node, b"GET /box/\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.status == 400 and texts(parse(answer), "Code")
    parse(node.ask("POST", "/box?delete", b"<Delete><Object><Key>\xff</Key></Object></Delete>"))
    node.put("/box/%ef%bf%bf", b"x")
    assert parse(node.get("/box?prefix=%ef")) is not None
    node.ask("DELETE", "/box/%ef%bf%bf")


def test_an_overwritten_multipart_object_leaves_no_files(node):
    before = stored_files(node)
    put_in_parts(node, "/box/replaced", [PART, b"x" * 20_000])
    node.put("/box/replaced", b"small")
    assert node.get("/box/replaced").body == b"small"
    node.ask("DELETE", "/box/replaced")
    wait_until(lambda: not new_files(node, before))


# What is not here.

UNSUPPORTED_HEADERS = [("x-amz-write-offset-bytes", "3"), ("x-amz-rename-source", "/box/other"), ("x-amz-server-side-encryption", "AES256"),
                       ("x-amz-server-side-encryption-customer-algorithm", "AES256"), ("x-amz-acl", "public-read"), ("x-amz-grant-read", "id=x"),
                       ("x-amz-storage-class", "GLACIER"), ("x-amz-object-lock-mode", "COMPLIANCE"), ("x-amz-website-redirect-location", "/elsewhere")]


def test_a_put_that_asks_for_more_than_a_put_changes_nothing(node):
    node.put("/box/kept", b"kept")
    for target in ("renameObject", "unknown-sub", "legal-hold", "retention", "partNumber=1", "acl", "restore", "x-amz-meta-hoisted=1", "x-amz-acl=public-read"):
        refused = node.put(f"/box/kept?{target}", b"lost")
        assert (refused.status, refused.code) == (501, "NotImplemented"), (target, refused.body)
    for name, value in UNSUPPORTED_HEADERS:
        for method, path, headers in (("PUT", "/box/kept", {}), ("POST", "/box/kept?uploads", {}), ("PUT", "/box/kept", {"x-amz-copy-source": "/box/kept"})):
            refused = node.ask(method, path, b"lost" if method == "PUT" else None, {name: value, **headers})
            assert (refused.status, refused.code) == (501, "NotImplemented") and name.encode() in refused.body, (name, refused.body)
    assert node.get("/box/kept").body == b"kept"


def test_what_clients_send_without_meaning_much_is_taken(node):
    for headers in ({"x-amz-acl": "private"}, {"x-amz-acl": "bucket-owner-full-control"}, {"x-amz-storage-class": "STANDARD"}):
        assert node.ask("PUT", "/box/usual", b"usual", headers).status == 200, headers
    assert node.put("/box/usual?x-id=PutObject", b"usual").status == 200
    assert node.get("/box/usual?x-id=GetObject&response-content-type=a/b&cache=7").headers["content-type"] == "a/b"
    assert node.ask("PUT", "/box-by-id?x-id=CreateBucket").status == 200
    assert node.ask("DELETE", "/box-by-id?x-id=DeleteBucket").status == 204
