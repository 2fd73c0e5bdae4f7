"""Transforms of a cluster: registered at one node, known at once to all; run by the node that is asked, or by the one that has the bytes."""
import json

import pytest

from archives import Sample, write_shard
from clusters import Cluster
from store_client import read_tar

SAMPLES = [Sample(f"{n:04d}", {"cls": b"%d" % n, "bin": bytes([n]) * 60_000}) for n in range(40)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    place = tmp_path_factory.mktemp("cluster")
    with Cluster(place, 2) as cluster:
        cluster.make_bucket("train")
        shard = write_shard(place / "s.tar", SAMPLES).read_bytes()
        for number in range(8):
            assert cluster.nodes[number % 2].put(f"/train/{number}.tar", shard).status == 200
        yield cluster


def register(node, name, **description):
    answer = node.ask("PUT", f"/-/transforms/{name}", json.dumps(description))
    assert answer.status == 200, answer.body
    return answer.json


def test_every_node_knows_a_change_when_it_was_answered(cluster):
    one, other = cluster.nodes
    for round in range(5):
        field = f"label{round}"
        register(one, "labels", kind="images", select=f"cls={field}")
        answer = other.get("/train/0.tar?transform=labels")
        assert [name for name, _ in read_tar(answer.body)] == [f"{sample.key}.{field}" for sample in SAMPLES]
        assert one.get("/-/transforms/labels").json["version"] == other.get("/-/transforms/labels").json["version"] == round + 1
    assert other.ask("DELETE", "/-/transforms/labels").status == 200
    assert one.get("/train/0.tar?transform=labels").code == "NoSuchTransform"


def test_a_reader_is_sent_to_the_node_that_has_the_bytes_with_his_transform(cluster):
    register(cluster.nodes[0], "same", kind="filter", command=["cat"])
    redirected = 0
    for number in range(8):
        here = cluster.nodes[0].get(f"/train/{number}.tar?transform=same")
        assert here.status == 200
        answer = cluster.nodes[0].ask("GET", f"/train/{number}.tar?transform=same", None, {"x-millrace-redirect": "yes"})
        if answer.status == 307:
            redirected += 1
            target = answer.headers["location"]
            assert cluster.nodes[1].listen in target and "transform=same" in target
            answer = cluster.nodes[1].ask("GET", target.split(cluster.nodes[1].listen)[1])
        assert answer.status == 200 and answer.body == here.body
        assert answer.headers["etag"] == here.headers["etag"]
    assert 0 < redirected < 8
