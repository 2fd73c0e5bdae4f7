"""Damaged slices that readers or the scrubber of a cluster find are made again from the others, and told of."""
import re

import pytest
from clusters import Cluster, Objects, flip, pattern, put_and_find
from store_client import MIB, wait_until

BUCKETS = {"pairs": "copies=2", "stripes": "2+1"}
BODY = pattern("rotten", 5 * MIB)


@pytest.fixture
def cluster(tmp_path):
    with Cluster(tmp_path, 4) as running:
        for bucket, redundancy in BUCKETS.items():
            running.make_bucket(bucket, redundancy=redundancy)
        running.make_bucket("alone")
        yield running


@pytest.fixture
def objects():
    return Objects()


def node_at(cluster, address):
    return next(node for node in cluster.nodes if node.listen == address)


def scrub(node):
    return node.get("/-/scrub").json


def metric(node, name):
    return float(re.search(rf"^millrace_cluster_{name} (\S+)$", node.get("/-/metrics").body.decode(), re.M)[1])


def wait_until_repaired(node, key):
    def repairs():
        return [one for one in scrub(node)["repaired"] if one["key"] == key]

    wait_until(lambda: repairs() and not scrub(node)["found"], f"{key} was never made again: {scrub(node)}")
    (repair,) = repairs()
    return repair


def check_repaired(millrace, cluster, objects, path, holder, slot, block):
    """It is told of with all names, and the slice is whole: the first look of a verification finds nothing."""
    bucket, key = path.strip("/").split("/")
    node = node_at(cluster, holder["address"])
    repair = wait_until_repaired(node, key)
    assert (repair["bucket"], repair["slot"], repair["block"]) == (bucket, slot, block)
    assert (repair["drive"], repair["address"]) == (holder["drive"], holder["address"])
    assert metric(node, "repaired_slices_total") == 1 and metric(node, "damaged_slices") == 0
    totals = millrace.json("cluster", "verify", cluster.nodes[0].url)[-1]
    assert totals["clean"] and totals["handed_over"] == 0
    objects.check_all(cluster.nodes)


@pytest.mark.parametrize("bucket", BUCKETS)
def test_a_reader_that_meets_damage_gets_whole_bytes_and_the_slice_is_made_again(millrace, cluster, objects, bucket):
    path = f"/{bucket}/read"
    file, holder = put_and_find(cluster, objects, path, BODY)[0]
    flip(file, MIB + 1000)
    # Through the holder itself, which reads its own slice first.
    objects.check(node_at(cluster, holder["address"]), ranged=False)
    check_repaired(millrace, cluster, objects, path, holder, 0, 1)


@pytest.mark.parametrize("damage", ["flipped", "missing"])
def test_the_scrubber_finds_damage_that_nobody_reads(millrace, cluster, objects, damage):
    path = "/stripes/scrubbed"
    file, holder = put_and_find(cluster, objects, path, BODY)[2]
    if damage == "flipped":
        flip(file, 10)
    else:
        file.unlink()
    assert node_at(cluster, holder["address"]).ask("POST", "/-/scrub").status == 200
    check_repaired(millrace, cluster, objects, path, holder, 2, 0)


def test_parts_of_uploads_are_repaired_too(millrace, cluster):
    from store_client import put_in_parts
    bodies = [pattern(("part", number), 5 * MIB) for number in (1, 2)]
    put_in_parts(cluster.nodes[1], "/stripes/parts", bodies)
    for node in cluster.nodes:
        for file in node.directory.glob("data/**/data/*/*"):
            flip(file, 100)
            break
        else:
            continue
        assert node.ask("POST", "/-/scrub").status == 200
        wait_until(lambda: scrub(node)["repaired"] and not scrub(node)["found"], f"never made again: {scrub(node)}")
        assert scrub(node)["repaired"][0]["of_bucket"] == "stripes"
        break
    assert cluster.nodes[2].get("/stripes/parts").body == b"".join(bodies)
    assert millrace.json("cluster", "verify", cluster.nodes[0].url)[-1]["clean"]


def test_what_cannot_be_made_again_stays_named_and_is_never_served(millrace, cluster, objects):
    file, holder = put_and_find(cluster, objects, "/alone/rotten", BODY)[0]
    flip(file, 10)
    node = node_at(cluster, holder["address"])
    answer = node.get("/alone/rotten", Range="bytes=0-100")
    assert answer.status in (500, 503), answer.status
    wait_until(lambda: metric(node, "damaged_slices") == 1, "the damage was never counted")
    told = scrub(node)
    assert told["repaired"] == [] and len(told["found"]) == 1
    said = millrace("cluster", "status", cluster.nodes[0].url)
    assert "1 damaged slice" in said.text
    # Another object in its place ends the matter.
    objects.put(cluster.nodes[0], "/alone/rotten", pattern("new", 100_000))
    objects.check_all(cluster.nodes)
