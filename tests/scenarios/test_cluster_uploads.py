"""Multipart uploads in a cluster: every request may go to another node, and nodes may die between any two of them."""
import functools
import os
import subprocess
import time

import pytest

from clusters import Cluster, EveryNode, pattern, until_answered
from conftest import HANG_SECONDS, binary
from store_client import MIB, begin_upload, complete, in_threads, parse, put_in_parts, put_part, stored_files, texts, wait_until
# The rules of uploads are those of a node alone: the same tests, with the `node` of this file.
from test_store_s3 import (  # noqa: F401
    test_a_conditional_complete, test_a_multipart_object_is_its_parts_in_order_whatever_order_they_came_in,
    test_a_part_sent_again_replaces_the_first_and_an_unnamed_part_is_left_out, test_parts_and_uploads_are_listed_in_pages,
    test_parts_are_verified_and_give_a_composite_checksum, test_parts_may_be_copies_of_ranges, test_single_parts_are_had_by_number_also_empty_ones,
    test_uploads_that_do_not_exist, test_what_complete_refuses_and_that_the_upload_survives_it)

BUCKETS = {"pairs": "copies=2", "triples": "copies=3", "stripes": "2+1"}
# Parts that end inside a cell, at its end, and in the drive's index.
SIZES = [5 * MIB, 5 * MIB + 1, 6 * MIB - 65537, 7777]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("uploads"), 4) as running:
        make_buckets(running)
        yield running


@pytest.fixture(scope="module")
def node(cluster):
    cluster.make_bucket("box", redundancy="2+1", etag="md5")
    return EveryNode(cluster)


def make_buckets(cluster):
    for name, redundancy in BUCKETS.items():
        cluster.make_bucket(name, redundancy=redundancy)


def bodies_of(seed, sizes=SIZES):
    return [pattern((seed, number), size) for number, size in enumerate(sizes)]


def borders(sizes):
    """Ranges over the ends of parts, within parts, and over whole parts."""
    total, at = sum(sizes), 0
    found = {(0, 0), (0, total - 1), (total - 1, total - 1), (total // 3, total - 100)}
    for size in sizes[:-1]:
        at += size
        found |= {(at - 1, at), (at - 1, at - 1), (at, at), (at - MIB - 5, at + MIB + 5)}
    return sorted((first, min(last, total - 1)) for first, last in found)


def check(node, path, bodies):
    body = b"".join(bodies)
    whole = node.get(path)
    assert (whole.status, len(whole.body)) == (200, len(body)) and whole.body == body, (path, whole.status, whole.body[:300])
    head = node.ask("HEAD", path)
    assert (head.status, head.headers["content-length"], head.headers["etag"]) == (200, str(len(body)), whole.headers["etag"])
    # Parts lie in different places, so nobody is sent to one of them.
    assert "x-millrace-where" not in head.headers and "x-millrace-where" not in whole.headers
    assert node.listen in head.headers["x-millrace-nodes"].split(",")
    for first, last in borders([len(one) for one in bodies]):
        part = node.get(path, Range=f"bytes={first}-{last}")
        assert part.status == 206 and part.body == body[first:last + 1], (path, first, last, part.status)
    for number, one in enumerate(bodies, 1):
        part = node.get(f"{path}?partNumber={number}")
        assert part.status == 206 and part.body == one and part.headers["x-amz-mp-parts-count"] == str(len(bodies))


class Upload:
    """One upload, whose every request goes to the next of the nodes that live."""

    def __init__(self, cluster, path, bodies, headers=None):
        self.cluster, self.path, self.bodies, self.parts, self.turn = cluster, path, bodies, [], 0
        self.id = begin_upload(self.next_node(), path, headers)

    def next_node(self):
        self.turn += 1
        return self.cluster.living[self.turn % len(self.cluster.living)]

    def send(self, numbers):
        for number in numbers:
            answer = until_answered(lambda: put_part(self.next_node(), self.path, self.id, number, self.bodies[number - 1]))
            assert answer.status == 200, answer.body
            self.parts.append((number, answer.headers["etag"]))

    def complete(self, node=None, headers=None):
        return complete(node or self.next_node(), self.path, self.id, sorted(self.parts), headers)

    def abort(self, node=None):
        return (node or self.next_node()).ask("DELETE", f"{self.path}?uploadId={self.id}")


def uploaded(cluster, path, bodies, headers=None):
    upload = Upload(cluster, path, bodies, headers)
    upload.send(range(1, len(bodies) + 1))
    return upload


# All nodes are up.

@pytest.mark.parametrize("bucket", BUCKETS)
def test_parts_and_completion_through_different_nodes_are_one_object_through_every_node(cluster, bucket):
    bodies = bodies_of(bucket)
    upload = Upload(cluster, f"/{bucket}/whole", bodies, {"Content-Type": "image/x-test", "x-amz-meta-colour": "green", "x-amz-tagging": "a=1"})
    upload.send([3, 1, 4, 2])
    for node in cluster.nodes:
        assert node.get(upload.path).status == 404 and node.keys(bucket, "whole") == []
        assert texts(parse(node.get(f"/{bucket}?uploads")), "Upload/UploadId") == [upload.id]
        listed = parse(node.get(f"{upload.path}?uploadId={upload.id}"))
        assert texts(listed, "Part/PartNumber") == ["1", "2", "3", "4"]
        assert texts(listed, "Part/ETag") == [etag for _, etag in sorted(upload.parts)]
    assert upload.complete().status == 200
    for node in cluster.nodes:
        check(node, upload.path, bodies)
        head = node.ask("HEAD", upload.path).headers
        assert (head["content-type"], head["x-amz-meta-colour"], head["x-amz-tagging-count"]) == ("image/x-test", "green", "1")
        assert texts(parse(node.get(f"/{bucket}?uploads")), "Upload/UploadId") == []
        assert node.keys(bucket, "whole") == ["whole"]
    assert cluster.nodes[0].ask("DELETE", upload.path).status == 204
    assert [node.get(upload.path).status for node in cluster.nodes] == [404] * 4


def test_a_completion_that_is_sent_again_has_the_same_answer_until_the_object_is_replaced(cluster):
    upload = uploaded(cluster, "/pairs/again", bodies_of("again"))
    answers = [upload.complete(node) for node in cluster.nodes * 2]
    assert [answer.status for answer in answers] == [200] * 8, [answer.body for answer in answers]
    assert len({texts(parse(answer), "ETag")[0] for answer in answers}) == 1
    check(cluster.nodes[0], upload.path, upload.bodies)
    assert cluster.nodes[1].put(upload.path, b"other").status == 200
    assert upload.complete().code == "NoSuchUpload"
    assert cluster.nodes[2].get(upload.path).body == b"other"


def test_conditions_of_a_completion_are_judged_by_all_nodes_alike(cluster):
    path = "/stripes/judged"
    first = cluster.nodes[0].put(path, b"first").headers["etag"]
    upload = uploaded(cluster, path, [b"second"])
    for headers, status in (({"If-None-Match": "*"}, 412), ({"If-Match": '"0123"'}, 412), ({"If-Match": first}, 200)):
        assert upload.complete(headers=headers).status == status, headers
    assert [node.get(path).body for node in cluster.nodes] == [b"second"] * 4
    absent = uploaded(cluster, "/stripes/judged-absent", [b"x"])
    assert absent.complete(headers={"If-Match": first}).status == 404
    assert absent.complete(headers={"If-None-Match": "*"}).status == 200


def test_tags_and_copies_of_an_object_in_parts(cluster):
    bodies = bodies_of("copied")
    put_in_parts(EveryNode(cluster), "/stripes/source", bodies)
    tags = b"<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>"
    assert cluster.nodes[1].ask("PUT", "/stripes/source?tagging", tags).status == 200
    assert cluster.nodes[2].ask("PUT", "/pairs/copied", None, {"x-amz-copy-source": "/stripes/source"}).status == 200
    for node in cluster.nodes:
        check(node, "/stripes/source", bodies)
        assert b"<Value>v</Value>" in node.get("/stripes/source?tagging").body
        assert node.get("/pairs/copied").body == b"".join(bodies)


def test_two_completions_at_once_make_one_object(cluster):
    for turn in range(10):
        upload = uploaded(cluster, f"/triples/twice{turn}", [pattern(turn, 300_000)])
        answers = in_threads(4, lambda number: upload.complete(cluster.nodes[number]))
        assert [answer.status for answer in answers] == [200] * 4, [answer.body for answer in answers]
        check(cluster.nodes[turn % 4], upload.path, upload.bodies)


@pytest.mark.parametrize("bucket", BUCKETS)
def test_of_a_completion_and_an_abort_one_wins(cluster, bucket):
    won = {}
    for turn in range(20):
        upload = uploaded(cluster, f"/{bucket}/raced{turn}", [pattern((bucket, turn), 300_000)])
        # By turns one of them has a start.
        calls = [upload.complete, upload.abort]

        def call(number):
            time.sleep(turn % 5 * 0.004 if number == turn % 2 else 0)
            return calls[number](cluster.nodes[(turn + number) % 4])

        completed, aborted = in_threads(2, call)
        outcome = (completed.status, aborted.status)
        assert outcome in ((200, 404), (404, 204)), (outcome, completed.body, aborted.body)
        won[outcome] = upload
        for node in cluster.nodes:
            if completed.status == 200:
                check(node, upload.path, upload.bodies)
            else:
                assert node.get(upload.path).status == 404
    print({outcome[0] for outcome in won})


def test_a_bucket_with_uploads_under_way_can_be_removed_and_ends_them(cluster):
    cluster.make_bucket("brief", redundancy="2+1")
    upload = uploaded(cluster, "/brief/x", [pattern("brief", 300_000)])
    assert cluster.nodes[1].put("/brief/object", b"x").status == 200
    assert cluster.nodes[2].ask("DELETE", "/brief").code == "BucketNotEmpty"
    assert texts(parse(cluster.nodes[3].get("/brief?uploads")), "Upload/UploadId") == [upload.id]
    assert cluster.nodes[1].ask("DELETE", "/brief/object").status == 204
    assert cluster.nodes[2].ask("DELETE", "/brief").status == 204
    assert upload.complete().code == "NoSuchBucket"
    cluster.make_bucket("brief", redundancy="2+1")
    for node in cluster.nodes:
        assert texts(parse(node.get("/brief?uploads")), "Upload/UploadId") == []
        assert upload.complete(node).code == "NoSuchUpload"
        assert put_part(node, upload.path, upload.id, 1, b"x").code == "NoSuchUpload"
    assert cluster.nodes[0].ask("DELETE", "/brief").status == 204


def test_cluster_where_tells_where_each_part_is(cluster, tmp_path):
    bodies = bodies_of("where")
    put_in_parts(EveryNode(cluster), "/stripes/where", bodies)
    told = cluster.nodes[3].get("/-/cluster/where?bucket=stripes&key=where").json
    assert [(part["size"], part["k"], part["m"], len(part["slots"])) for part in told["parts"]] == [
        (SIZES[0], 2, 1, 3), (SIZES[1], 2, 1, 3), (SIZES[2], 2, 1, 3), (SIZES[3], 1, 1, 2)]
    done = subprocess.run([binary(), "cluster", "where", f"{cluster.nodes[0].url}/stripes/where"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "in 4 parts" in done.stdout and "part 4: " in done.stdout, done.stdout + done.stderr


# Nothing stays behind.

def stored_bytes(cluster):
    sizes = 0
    for node in cluster.nodes:
        for path in stored_files(node):
            try:
                sizes += path.stat().st_size
            except FileNotFoundError:
                pass
    return sizes


def test_what_nobody_needs_any_more_goes_from_all_drives(tmp_path):
    with Cluster(tmp_path, 3, "--set", "keep_replaced=3s") as cluster:
        cluster.make_bucket("box", redundancy="2+1")
        kept = uploaded(cluster, "/box/kept", bodies_of("kept"))
        # Sent twice, and a part that the completion does not name.
        kept.parts.clear()
        kept.send(range(1, 5))
        put_part(cluster.nodes[0], kept.path, kept.id, 9, bytes(MIB))
        assert kept.complete().status == 200
        gone = [uploaded(cluster, f"/box/{name}", bodies_of(name)) for name in ("aborted", "overwritten", "deleted", "again")]
        assert gone[0].abort().status == 204
        for upload in gone[1:]:
            assert upload.complete().status == 200
        assert cluster.nodes[1].put("/box/overwritten", b"x").status == 200
        assert cluster.nodes[2].ask("DELETE", "/box/deleted").status == 204
        again = uploaded(cluster, "/box/again", bodies_of("new"))
        assert again.complete().status == 200
        # Two objects of 2+1, and what files have beside the bytes.
        most = 2 * sum(SIZES) * 3 // 2 + 4 * MIB
        assert stored_bytes(cluster) > 2 * most
        wait_until(lambda: stored_bytes(cluster) < most, "parts stay behind", 240)
        check(cluster.nodes[0], kept.path, kept.bodies)
        check(cluster.nodes[1], again.path, again.bodies)


# Nodes die.

@pytest.mark.parametrize("bucket", BUCKETS)
@pytest.mark.parametrize("lost", range(2))
def test_a_node_may_die_between_parts_and_after_the_completion(tmp_path, bucket, lost):
    with Cluster(tmp_path, 4) as cluster:
        make_buckets(cluster)
        before = uploaded(cluster, f"/{bucket}/before", bodies_of("before"))
        assert before.complete().status == 200
        between = Upload(cluster, f"/{bucket}/between", bodies_of("between"))
        between.send([1, 2])
        ready = uploaded(cluster, f"/{bucket}/ready", bodies_of("ready"))
        cluster.kill(cluster.nodes[lost])
        answer = until_answered(ready.complete, 30)
        assert answer.status == 200, answer.body
        between.send([3, 4])
        listed = until_answered(lambda: between.next_node().get(f"{between.path}?uploadId={between.id}"), 30)
        assert texts(parse(listed), "Part/PartNumber") == ["1", "2", "3", "4"]
        answer = until_answered(between.complete, 30)
        assert answer.status == 200, answer.body
        for node in cluster.living:
            for upload in (before, between, ready):
                check(node, upload.path, upload.bodies)
        aborted = uploaded(cluster, f"/{bucket}/aborted", [b"x"])
        assert until_answered(aborted.abort, 30).status == 204
        cluster.restart(cluster.nodes[lost])
        cluster.wait_until_serving(cluster.nodes)
        for node in cluster.nodes:
            for upload in (before, between, ready):
                check(node, upload.path, upload.bodies)
            assert node.get(aborted.path).status == 404
        assert sorted(cluster.nodes[lost].keys(bucket)) == ["before", "between", "ready"]


def test_a_completion_whose_node_dies_happens_once_or_can_be_sent_again(tmp_path):
    """The node that completes an upload is killed at any moment: another one gives the object, or lets the upload be completed."""
    with Cluster(tmp_path, 4) as cluster:
        make_buckets(cluster)
        for turn in range(4):
            upload = uploaded(cluster, f"/triples/killed{turn}", [pattern(turn, 5 * MIB), b"tail"])
            victim = cluster.nodes[turn]

            def call(number):
                if number == 1:
                    time.sleep(turn * 0.003)
                    return cluster.kill(victim)
                try:
                    return upload.complete(victim)
                except OSError:
                    return None

            in_threads(2, call)
            # A row that stays closed is taken over after 40 s.
            answer = until_answered(upload.complete, 180)
            assert answer.status == 200, answer.body
            for node in cluster.living:
                check(node, upload.path, upload.bodies)
            cluster.restart(victim)
            cluster.wait_until_serving(cluster.nodes)


# Clients as they are.

@functools.lru_cache
def s3_client(node):
    boto3 = pytest.importorskip("boto3")
    from botocore import UNSIGNED
    from botocore.config import Config
    return boto3.client("s3", endpoint_url=node.url, region_name="us-east-1", config=Config(signature_version=UNSIGNED, s3={"addressing_style": "path"}))


@pytest.mark.parametrize("bucket", BUCKETS)
def test_boto3_sends_and_fetches_in_parts(cluster, tmp_path, bucket):
    body = pattern(("boto3", bucket), 20 * MIB + 5)
    (tmp_path / "big").write_bytes(body)
    s3_client(cluster.nodes[1]).upload_file(str(tmp_path / "big"), bucket, "boto3")
    for node in cluster.nodes:
        s3_client(node).download_file(bucket, "boto3", str(tmp_path / "back"))
        assert (tmp_path / "back").read_bytes() == body


def run(*words, env=None):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=HANG_SECONDS, env={**os.environ, **(env or {})})
    assert done.returncode == 0, f"{words}: {done.stdout[-1000:]} {done.stderr[-3000:]}"
    return done.stdout


def test_aws_s3_cp_of_40_mb(cluster, tmp_path):
    body = pattern("aws", 40_000_000)
    (tmp_path / "big").write_bytes(body)

    def aws(node, *words):
        return run("aws", "--no-sign-request", "--region", "us-east-1", "--endpoint-url", node.url, "s3", *words, env={"AWS_CONFIG_FILE": "/nonexistent"})

    aws(cluster.nodes[0], "cp", "--quiet", tmp_path / "big", "s3://stripes/aws")
    for node in cluster.nodes:
        aws(node, "cp", "--quiet", "s3://stripes/aws", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == body


@pytest.mark.parametrize("bucket", BUCKETS)
def test_millrace_put_and_get_beyond_64_mib(cluster, tmp_path, bucket):
    body = pattern(("put", bucket), 70 * MIB + 11)
    (tmp_path / "big").write_bytes(body)
    run(binary(), "put", tmp_path / "big", f"{cluster.nodes[2].url}/{bucket}/put")
    head = cluster.nodes[0].ask("HEAD", f"/{bucket}/put?partNumber=1").headers
    assert int(head["x-amz-mp-parts-count"]) > 1, "it was not sent in parts"
    for node in cluster.nodes:
        run(binary(), "get", f"{node.url}/{bucket}/put", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == body
