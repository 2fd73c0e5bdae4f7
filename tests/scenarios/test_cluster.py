"""Nodes of one cluster that are all up: what one of them took, every other gives, lists and judges at once."""
import contextlib
import functools
import json
import threading
import time

import pytest

from clusters import Cluster, pattern, put_chunked, serving
from nodes import Node, lasting_port
from store_client import MIB, in_threads

SIZES = [0, 1, 16384, 16385, 131072, 131073, MIB - 1, MIB, MIB + 1, 5_000_000]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"), 3) as running:
        running.make_bucket("copies", redundancy="copies=3")
        yield running


def ranges(size):
    """Ranges at the ends, over the middle and over the borders of pieces of usual sizes."""
    found = {(0, 0), (0, size - 1), (size - 1, size - 1), (size // 3, 2 * size // 3)}
    for border in (16384, 65536, 131072, MIB):
        if border < size:
            found |= {(border - 1, border), (border, min(size - 1, border + 10))}
    return sorted(one for one in found if 0 <= one[0] <= one[1] < size)


def check_object(node, path, body):
    """The object, its head and its ranges are these bytes; its ETag."""
    whole = node.get(path)
    assert (whole.status, len(whole.body)) == (200, len(body)) and whole.body == body, path
    head = node.ask("HEAD", path)
    assert (head.status, head.headers["content-length"], head.headers["etag"]) == (200, str(len(body)), whole.headers["etag"])
    for first, last in ranges(len(body)):
        part = node.get(path, Range=f"bytes={first}-{last}")
        assert part.status == 206 and part.body == body[first:last + 1], (path, first, last)
    if body:
        assert node.get(path, Range="bytes=-7").body == body[-7:]
    assert node.get(path, Range=f"bytes={len(body)}-").status == 416
    return whole.headers["etag"]


# Objects.

@pytest.mark.parametrize("size", SIZES)
def test_what_one_node_took_every_node_gives(cluster, size):
    for number, writer in enumerate(cluster.nodes):
        path, body = f"/copies/size/{size}.{number}", pattern((size, number), size)
        put = writer.put(path, body, Content_Type="image/x-test", x_amz_meta_colour="green", x_amz_tagging="a=1&b=two")
        assert put.status == 200, put.body
        assert {check_object(reader, path, body) for reader in cluster.nodes} == {put.headers["etag"]}
        for reader in cluster.nodes:
            head = reader.ask("HEAD", path).headers
            assert (head["content-type"], head["x-amz-meta-colour"], head["x-amz-tagging-count"]) == ("image/x-test", "green", "2")
            assert b"<Key>b</Key><Value>two</Value>" in reader.get(path + "?tagging").body


def test_an_object_that_does_not_say_its_size_is_the_same(cluster):
    for size in (0, 131072, 131073, 3 * MIB + 5):
        body = pattern(size, size)
        assert put_chunked(cluster.nodes[0], "/copies/chunked", body) == 200
        for reader in cluster.nodes:
            check_object(reader, "/copies/chunked", body)


def test_an_overwrite_is_seen_through_every_node_at_once(cluster):
    for turn, size in enumerate([10, 200_000, 20, 131073, 0, 16385] * 3):
        body = pattern(turn, size)
        assert cluster.nodes[turn % 3].put("/copies/overwritten", body).status == 200
        for reader in cluster.nodes:
            assert reader.get("/copies/overwritten").body == body, turn


def test_a_delete_is_seen_through_every_node_at_once(cluster):
    for turn, size in enumerate([10, 200_000] * 3):
        path = f"/copies/deleted/{size}"
        assert cluster.nodes[(turn + 1) % 3].put(path, bytes(size)).status == 200
        assert cluster.nodes[turn % 3].ask("DELETE", path).status == 204
        for reader in cluster.nodes:
            assert (reader.get(path).status, reader.ask("HEAD", path).status) == (404, 404)
            assert reader.keys("copies", "deleted/") == []
    assert cluster.nodes[0].ask("DELETE", "/copies/never-there").status == 204


def test_new_tags_are_seen_through_every_node_and_keep_the_object(cluster):
    for size in (100, 200_000):
        body = pattern(size, size)
        assert cluster.nodes[0].put("/copies/tagged", body).status == 200
        tags = b"<Tagging><TagSet><Tag><Key>k</Key><Value>%d</Value></Tag></TagSet></Tagging>" % size
        assert cluster.nodes[1].ask("PUT", "/copies/tagged?tagging", tags).status == 200
        for reader in cluster.nodes:
            assert b"<Value>%d</Value>" % size in reader.get("/copies/tagged?tagging").body
            assert reader.get("/copies/tagged").body == body


def test_a_body_that_is_not_what_its_digest_says_changes_nothing(cluster):
    for size in (100, 200_000, 3 * MIB):
        assert cluster.nodes[0].put("/copies/digest", b"old").status == 200
        wrong = cluster.nodes[1].ask("PUT", "/copies/digest", bytes(size), {"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="})
        assert (wrong.status, wrong.code) == (400, "BadDigest")
        assert [reader.get("/copies/digest").body for reader in cluster.nodes] == [b"old"] * 3


def test_a_copy_on_the_servers_is_seen_through_every_node(cluster):
    for size in (100, 3 * MIB):
        body = pattern(size, size)
        assert cluster.nodes[0].put("/copies/source", body, x_amz_meta_colour="red").status == 200
        copied = cluster.nodes[1].ask("PUT", "/copies/copied", None, {"x-amz-copy-source": "/copies/source"})
        assert copied.status == 200, copied.body
        for reader in cluster.nodes:
            answer = reader.get("/copies/copied")
            assert answer.body == body and answer.headers["x-amz-meta-colour"] == "red"


def test_buckets_are_those_of_all_nodes(cluster):
    first, second, third = cluster.nodes
    assert first.ask("PUT", "/short-lived").status == 200
    assert second.put("/short-lived/x", b"x").status == 200
    assert (third.ask("DELETE", "/short-lived").status, third.ask("DELETE", "/short-lived/x").status) == (409, 204)
    assert third.ask("DELETE", "/short-lived").status == 204
    for node in cluster.nodes:
        assert node.ask("HEAD", "/short-lived").status == 404


def test_no_write_is_acknowledged_into_a_bucket_that_is_removed(cluster):
    """Writers and one who removes the bucket, through different nodes: either something was acknowledged and the bucket stays, or nothing was."""
    for turn in range(12):
        bucket = f"/contested{turn}"
        assert cluster.nodes[turn % 3].ask("PUT", bucket).status == 200
        begin = threading.Barrier(4)

        def write(number, bucket=bucket, begin=begin):
            begin.wait()
            size = (50, 40_000, 300_000)[number]
            return [number for _ in range(8) if cluster.nodes[number].put(f"{bucket}/k{number}", bytes(size)).status == 200]

        def remove(bucket=bucket, begin=begin, turn=turn):
            begin.wait()
            time.sleep(0.004 * (turn % 4))
            return cluster.nodes[turn % 3].ask("DELETE", bucket).status

        answers = in_threads(4, lambda number: write(number) if number < 3 else remove())
        written = {number for answer in answers[:3] for number in answer}
        if answers[3] == 204:
            assert not written, "acknowledged, and gone with the bucket"
        else:
            assert answers[3] in (409, 503)
            # A write that was answered 503 may have happened.
            for node in cluster.nodes:
                assert {f"k{number}" for number in written} <= set(node.keys(bucket[1:])) <= {"k0", "k1", "k2"}


def test_a_redundancy_that_cannot_be_is_refused(cluster):
    cluster.make_bucket("fixed", redundancy="copies=2")
    assert cluster.nodes[1].put("/fixed/x", b"x").status == 200
    refused = cluster.nodes[2].ask("PUT", "/-/buckets/fixed", json.dumps({"redundancy": "8+4"}))
    assert refused.status == 400 and b"drives can hold slices" in refused.body, refused.body
    for redundancy in ("copies=0", "0+2", "4+", "a+b", "4+2+1", "copies=1000"):
        assert cluster.nodes[0].ask("PUT", "/-/buckets/fixed", json.dumps({"redundancy": redundancy})).status == 400, redundancy


# Lists.

@functools.lru_cache
def s3_client(node):
    boto3 = pytest.importorskip("boto3")
    from botocore import UNSIGNED
    from botocore.config import Config
    return boto3.client("s3", endpoint_url=node.url, region_name="us-east-1",
                        config=Config(signature_version=UNSIGNED, s3={"addressing_style": "path"}, retries={"max_attempts": 1}))


def reference_list(keys, prefix, delimiter):
    """Keys and common prefixes, as S3 describes them."""
    contents, groups = [], []
    for key in sorted(keys, key=str.encode):
        if not key.startswith(prefix):
            continue
        at = key.find(delimiter, len(prefix)) if delimiter else -1
        if at < 0:
            contents.append(key)
        elif key[:at + len(delimiter)] not in groups:
            groups.append(key[:at + len(delimiter)])
    return contents, groups


def listed(client, page, **options):
    contents, groups, sizes = [], [], []
    for answer in client.get_paginator("list_objects_v2").paginate(**options, PaginationConfig={"PageSize": page}):
        contents += [one["Key"] for one in answer.get("Contents", [])]
        groups += [one["Prefix"] for one in answer.get("CommonPrefixes", [])]
        sizes.append(answer["KeyCount"])
    assert all(size == page for size in sizes[:-1]) and sizes[-1] <= page, "a page in the middle is not full"
    return contents, groups


def test_lists_of_2500_keys_are_the_same_through_every_node_however_they_are_paged(cluster):
    cluster.make_bucket("many", redundancy="copies=2")
    keys = [f"{'abc'[number % 3]}/{number % 41:02d}/{number:04d}" for number in range(2400)] + [f"top{number:03d}é" for number in range(100)]

    clients = [s3_client(node) for node in cluster.nodes]  # made by one thread: boto3 asks for that

    def write(thread):
        client = clients[thread % 3]
        for key in keys[thread::12]:
            client.put_object(Bucket="many", Key=key, Body=key.encode())

    in_threads(12, write)
    gone = set(keys[::50])
    for number, key in enumerate(sorted(gone)):
        clients[number % 3].delete_object(Bucket="many", Key=key)
    keys = [key for key in keys if key not in gone]
    for node, page in zip(cluster.nodes, (1000, 333, 97)):
        client = s3_client(node)
        for prefix, delimiter in (("", ""), ("", "/"), ("b/", "/"), ("b/1", "/"), ("a/07/", ""), ("top", ""), ("a/", "0"), ("none", "/")):
            found = listed(client, page, Bucket="many", Prefix=prefix, Delimiter=delimiter)
            assert found == reference_list(keys, prefix, delimiter), (page, prefix, delimiter)
        after = client.list_objects_v2(Bucket="many", StartAfter="b/20/")["Contents"]
        assert [one["Key"] for one in after] == [key for key in reference_list(keys, "", "")[0] if key > "b/20/"][:1000]


def test_a_list_after_a_write_or_a_delete_through_another_node_shows_it(cluster):
    there = set()
    for turn in range(24):
        writer, key = cluster.nodes[turn % 3], f"fresh/{turn * 7 % 12}"
        if key in there:
            assert writer.ask("DELETE", f"/copies/{key}").status == 204
        else:
            assert writer.put(f"/copies/{key}", bytes(turn * 10_000)).status == 200
        there ^= {key}
        for reader in cluster.nodes:
            assert reader.keys("copies", "fresh/") == sorted(there), turn


def test_a_list_tells_size_and_etag_of_the_newest_write(cluster):
    for size in (10, 300_000, 0):
        put = cluster.nodes[size % 3].put("/copies/facts/x", bytes(size))
        for reader in cluster.nodes:
            entry = s3_client(reader).list_objects_v2(Bucket="copies", Prefix="facts/")["Contents"][0]
            assert (entry["Size"], entry["ETag"]) == (size, put.headers["etag"])


# Conditions.

@pytest.mark.parametrize("size", [30, 150_000])
def test_of_conditional_puts_through_three_nodes_at_once_exactly_one_wins(cluster, size):
    for turn in range(20):
        path = f"/copies/once/{size}/{turn}"
        answers = in_threads(3, lambda number: cluster.nodes[number].put(path, pattern((turn, number), size), If_None_Match="*"))
        statuses = sorted(answer.status for answer in answers)
        assert statuses == [200, 412, 412], (turn, statuses)
        winner = [answer.status for answer in answers].index(200)
        for reader in cluster.nodes:
            answer = reader.get(path)
            assert answer.body == pattern((turn, winner), size) and answer.headers["etag"] == answers[winner].headers["etag"]


def test_a_chain_of_if_match_loses_no_change(cluster):
    assert cluster.nodes[0].put("/copies/counter", b"0").status == 200

    def count(number):
        node, done = cluster.nodes[number % 3], 0
        while done < 10:
            seen = node.get("/copies/counter")
            answer = node.put("/copies/counter", str(int(seen.body) + 1).encode(), If_Match=seen.headers["etag"])
            assert answer.status in (200, 412), answer.body
            done += answer.status == 200

    in_threads(6, count)
    assert [reader.get("/copies/counter").body for reader in cluster.nodes] == [b"60"] * 3


def test_conditions_are_judged_by_the_newest_object(cluster):
    first, second, third = cluster.nodes
    old = first.put("/copies/judged", b"old").headers["etag"]
    new = second.put("/copies/judged", b"new").headers["etag"]
    assert third.put("/copies/judged", b"x", If_Match=old).status == 412
    assert third.get("/copies/judged", If_None_Match=new).status == 304
    assert third.get("/copies/judged", If_Match=old).status == 412
    assert first.ask("DELETE", "/copies/judged", None, {"If-Match": old}).status == 412
    assert first.ask("DELETE", "/copies/judged", None, {"If-Match": new}).status == 204
    assert second.put("/copies/judged", b"x", If_Match=new).status == 404
    assert third.put("/copies/judged", b"again", If_None_Match="*").status == 200


# What a cluster refuses.

def test_messages_between_nodes_need_a_seal(cluster):
    for node in cluster.nodes:
        for method, headers in (("POST", {}), ("GET", {}), ("PUT", {}), ("POST", {"Authorization": "x"}), ("POST", {"x-millrace-seal": "1 a b c d e"})):
            answer = node.ask(method, "/-/peer", b"x" if method != "GET" else None, headers)
            assert answer.status in (403, 405) and (method != "POST" or answer.status == 403), (method, answer.status, answer.body)
    assert [len(serving(node)) for node in cluster.nodes] == [3, 3, 3]


def refused(node):
    """What a node says that does not come up."""
    with contextlib.ExitStack() as stack:
        node.start(wait=False)
        stack.callback(lambda: node.process.poll() is None and node.kill())
        node.process.wait(timeout=60)
    assert node.process.returncode in (1, 2), node.said()
    return node.said()


def test_a_second_node_with_the_same_directory_is_refused(cluster):
    first = cluster.nodes[0]
    twin = Node(first.directory, *first.flags, port=lasting_port())
    said = first.said()
    text = refused(twin).removeprefix(said)
    assert "in use" in text or "another" in text, text
    assert len(serving(first)) == 3 and first.put("/copies/still", b"x").status == 200


def test_a_node_of_another_cluster_is_refused_and_named(cluster, tmp_path):
    node = Node(tmp_path, "--registry", tmp_path / "registry", port=lasting_port())
    with node:
        own = node.get("/-/cluster").json["cluster"]
    other = cluster.nodes[0].get("/-/cluster").json["cluster"]
    node.flags = ["--registry", str(cluster.directory / "registry")]
    text = refused(node)
    assert f"belongs to cluster {own}" in text and other in text, text
    node.flags = ["--registry", str(tmp_path / "empty")]
    assert f"belongs to cluster {own}" in refused(node)
    assert len(serving(cluster.nodes[0])) == 3


def test_a_node_alone_refuses_a_redundancy_that_it_cannot_give(tmp_path):
    with Node(tmp_path) as node:
        assert node.ask("PUT", "/box").status == 200
        for settings in ({"redundancy": "copies=3"}, {"redundancy": "4+2"}):
            answer = node.ask("PUT", "/-/buckets/box", json.dumps(settings))
            assert answer.status in (400, 501), (settings, answer.body)
        assert node.put("/box/x", b"x").status == 200 and node.get("/-/cluster").status == 404


def test_a_directory_serves_a_node_alone_or_one_of_a_cluster(tmp_path):
    node = Node(tmp_path, port=lasting_port())
    with node:
        assert node.ask("PUT", "/own").status == 200
    node.flags = ["--registry", str(tmp_path / "registry")]
    assert "holds bucket" in refused(node)
    node.flags = []
    with node:
        assert node.ask("HEAD", "/own").status == 200
    (tmp_path / "member").mkdir()
    member = Node(tmp_path / "member", "--registry", tmp_path / "registry", port=lasting_port())
    with member:
        assert len(serving(member)) == 1
    member.flags = []
    assert "belongs to a node of cluster" in refused(member)
