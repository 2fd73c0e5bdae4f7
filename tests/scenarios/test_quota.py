"""Quotas of buckets: on a node alone exact, in a cluster as exact as the documentation says."""
import json
import threading

import pytest

from clusters import Cluster, put_chunked
from nodes import Node
from store_client import MIB, in_threads, put_in_parts, wait_until


@pytest.fixture
def node(tmp_path):
    with Node(tmp_path) as node:
        assert node.ask("PUT", "/box").status == 200
        yield node


def limit(node, **quota):
    answer = node.ask("PUT", "/-/buckets/box", json.dumps(quota))
    assert answer.status == 200, answer.body


def refused(answer):
    assert answer.status == 507 and answer.code == "QuotaExceeded", (answer.status, answer.body)
    return True


def test_a_bucket_takes_its_quota_of_bytes_and_no_more(node):
    limit(node, quota_bytes=10 * MIB)
    for number in range(10):
        assert node.put(f"/box/k{number}", bytes(MIB)).status == 200
    assert refused(node.put("/box/more", b"x"))
    assert put_chunked(node, "/box/more", bytes(100_000)) == 507
    assert node.get("/box/more").status == 404
    # What is there is read, replaced by what is no larger, and removed.
    assert node.get("/box/k3").status == 200
    assert node.put("/box/k3", bytes(MIB)).status == 200
    assert refused(node.put("/box/k3", bytes(MIB + 1)))
    assert node.ask("DELETE", "/box/k3").status == 204
    assert node.put("/box/more", bytes(MIB)).status == 200
    # Other buckets know nothing of it.
    assert node.ask("PUT", "/other").status == 200 and node.put("/other/k", bytes(20 * MIB)).status == 200
    assert 'millrace_quota_refused_total' in node.get("/-/metrics").body.decode()


def test_objects_are_counted_too_and_several_writers_do_not_exceed_it(node):
    limit(node, quota_objects=25)
    answers = in_threads(8, lambda number: [node.put(f"/box/{number}.{turn}", b"x").status for turn in range(6)])
    assert {status for statuses in answers for status in statuses} == {200, 507}
    while node.put(f"/box/last{len(node.keys('box'))}", b"x").status == 200:
        pass
    assert len(node.keys("box")) == 25


def test_uploads_in_parts_and_copies_are_judged(node):
    limit(node, quota_bytes=11 * MIB)
    put_in_parts(node, "/box/a", [bytes(5 * MIB), bytes(MIB)])
    assert refused(node.ask("PUT", "/box/copy", None, {"x-amz-copy-source": "/box/a"}))
    started = node.ask("POST", "/box/b?uploads")
    upload = started.body.split(b"<UploadId>")[1].split(b"<")[0].decode()
    tags = [node.put(f"/box/b?partNumber={number}&uploadId={upload}", bytes(5 * MIB)).headers["etag"] for number in (1,)]
    assert refused(node.put(f"/box/b?partNumber=2&uploadId={upload}", bytes(6 * MIB)))
    assert node.put("/box/c", bytes(MIB)).status == 200
    parts = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>" for number, tag in enumerate(tags, 1))
    assert refused(node.ask("POST", f"/box/b?uploadId={upload}", f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>"))
    # Nothing was lost of it: with room it is completed.
    assert node.ask("DELETE", "/box/c").status == 204
    assert node.ask("POST", f"/box/b?uploadId={upload}", f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>").status == 200
    assert sorted(node.keys("box")) == ["a", "b"]


def test_the_command_sets_shows_and_lifts_a_quota(node, millrace):
    def run(*words, code=0):
        return millrace("bucket", "box", *words, "--endpoint", node.url, code=code)

    assert "quota=10.0 MB" in run("--quota", "10MB", "--quota-objects", "100").text
    told, = millrace.json("bucket", "box", "--endpoint", node.url)
    assert told["quota_bytes"] == 10_000_000 and told["quota_objects"] == 100
    assert node.put("/box/k", b"x" * 1000).status == 200
    assert "quota-objects=100 (1 used)" in run().text
    assert "quota" not in run("--quota", "none", "--quota-objects", "none").text
    for words in (["--quota", "0"], ["--quota", "much"], ["--quota-objects", "-1"], ["--quota-objects", "0"], ["--quota-objects", "1.5"]):
        run(*words, code=2)
    for body in ({"quota_bytes": -1}, {"quota_bytes": "10GB"}, {"quota_objects": 1.5}, {"quota": 3}):
        assert node.ask("PUT", "/-/buckets/box", json.dumps(body)).status == 400
    assert millrace("mb", node.url + "/limited", "--quota", "1GiB").code == 0
    assert node.get("/-/buckets/limited").json["quota_bytes"] == 1 << 30


def test_the_quota_is_there_after_a_restart(node):
    limit(node, quota_bytes=1000)
    assert node.put("/box/k", bytes(900)).status == 200
    node.kill()
    node.start()
    assert refused(node.put("/box/l", bytes(200)))
    assert node.put("/box/l", bytes(100)).status == 200


def test_a_cluster_exceeds_a_quota_by_little_and_only_at_once(tmp_path):
    with Cluster(tmp_path, 3) as cluster:
        cluster.make_bucket("box", redundancy="copies=2", quota_bytes=100 * 20_000)
        # One after the other, through all nodes: not at all.
        taken = 0
        for number in range(150):
            answer = cluster.nodes[number % 3].put(f"/box/k{number}", bytes(20_000))
            taken += answer.status == 200
            assert answer.status == 200 or refused(answer)
        assert 90 <= taken <= 100, taken
        assert all(refused(node.put("/box/more", bytes(2_000_001))) for node in cluster.nodes)
        # Removals through any node make room at every other.
        for number in range(50):
            assert cluster.nodes[0].ask("DELETE", f"/box/k{number}").status == 204
        wait_until(lambda: cluster.nodes[1].put("/box/again", bytes(20_000)).status == 200, "no room")
        # At once through all nodes.
        barrier = threading.Barrier(6)

        def write(number):
            barrier.wait()
            return sum(cluster.nodes[number % 3].put(f"/box/many{number}.{turn}", bytes(20_000)).status == 200 for turn in range(25))

        in_threads(6, write)
        # At worst by what two of three nodes might still take by a count from before: their shares of the room then.
        assert len(cluster.nodes[2].keys("box")) <= 100 + 34
