"""millrace cluster verify: what it reads, what it finds, and that what it found is made again."""
import itertools
import threading

import pytest
from clusters import Cluster, Objects, flip, pattern, put_and_find
from store_client import MIB, in_threads, put_in_parts, wait_until

BLOCK = MIB
BUCKETS = {"pairs": "copies=2", "stripes": "2+1"}
SIZES = [0, 100, 16_385, 200_000, 3 * MIB + 17]


@pytest.fixture
def cluster(tmp_path):
    with Cluster(tmp_path, 4) as running:
        for bucket, redundancy in BUCKETS.items():
            running.make_bucket(bucket, redundancy=redundancy)
        yield running


@pytest.fixture
def objects(cluster):
    written = Objects()
    for bucket in BUCKETS:
        for number, size in enumerate(SIZES):
            written.put(cluster.nodes[number % 4], f"/{bucket}/o{number}", pattern((bucket, number), size))
    return written


def verify(millrace, node, *words, code=0):
    """Findings, and the totals."""
    *findings, totals = millrace.json("cluster", "verify", node.url, *words, code=code)
    return findings, totals


def wait_until_clean(millrace, node):
    def clean():
        rows = millrace.json("cluster", "verify", node.url, code=None)
        return rows[-1]["clean"]

    wait_until(clean, "what was found was never made again")


def test_everything_is_counted_where_nothing_is_wrong(millrace, cluster, objects):
    put_in_parts(cluster.nodes[1], "/stripes/parts", [pattern(("part", number), 5 * MIB) for number in (1, 2)])
    told = [verify(millrace, node) for node in cluster.nodes]
    assert [findings for findings, _ in told] == [[]] * 4
    totals = told[0][1]
    assert all(one == totals for _, one in told)
    # Objects, the one of parts, and its two parts. The row of the upload may be there still.
    assert totals["objects"] >= len(objects.bodies) + 3
    pairs = sum(len(body) for path, body in objects.bodies.items() if path.startswith("/pairs/"))
    assert verify(millrace, cluster.nodes[0], "--bucket", "pairs")[1]["bytes"] == 2 * pairs
    assert verify(millrace, cluster.nodes[0], "--bucket", "pairs")[1]["slices"] == 2 * len(SIZES)
    assert totals["bytes"] > 2 * pairs + 1.5 * 10 * MIB


@pytest.mark.parametrize("bucket", BUCKETS)
def test_damaged_and_missing_slices_are_named_and_made_again(millrace, cluster, objects, bucket):
    rotten = put_and_find(cluster, objects, f"/{bucket}/rotten", pattern("rotten", 5 * MIB))
    lost = put_and_find(cluster, objects, f"/{bucket}/lost", pattern("lost", 5 * MIB))
    rotten_file, rotten_slot = rotten[1]
    lost_file, lost_slot = lost[0]
    flip(rotten_file, BLOCK + 1000)
    lost_file.unlink()
    findings, totals = verify(millrace, cluster.nodes[2], code=1)
    assert (totals["damaged"], totals["missing"], totals["below_redundancy"], totals["unseen"]) == (1, 1, 2, 0)
    by_kind = {finding["found"]: finding for finding in findings}
    damaged, missing = by_kind["damaged"], by_kind["missing"]
    assert (damaged["bucket"], damaged["key"], damaged["slot"], damaged["block"]) == (bucket, "rotten", 1, 1)
    assert (damaged["address"], damaged["drive"]) == (rotten_slot["address"], rotten_slot["drive"])
    assert (missing["bucket"], missing["key"], missing["slot"]) == (bucket, "lost", 0)
    assert (missing["address"], missing["drive"]) == (lost_slot["address"], lost_slot["drive"])
    assert totals["handed_over"] == 2
    wait_until_clean(millrace, cluster.nodes[1])
    objects.check_all(cluster.nodes)
    # The slices that were made again are enough to read from.
    keeps = {rotten_slot["address"], lost_slot["address"]}
    other = next(node for node in cluster.nodes if node.listen not in keeps)
    cluster.kill(other)
    for node in cluster.living:
        objects.check(node, [f"/{bucket}/rotten", f"/{bucket}/lost"], ranged=False)


def test_what_is_beyond_repair_stays_named(millrace, cluster, objects):
    files = put_and_find(cluster, objects, "/stripes/beyond", pattern("beyond", 5 * MIB))
    for slot in (0, 1):
        flip(files[slot][0], 10)
    for _ in range(2):
        findings, totals = verify(millrace, cluster.nodes[0], code=1)
        assert {(finding["found"], finding["key"], finding["slot"], finding["block"]) for finding in findings} == {
            ("damaged", "beyond", 0, 0), ("damaged", "beyond", 1, 0)}
        assert totals["handed_over"] == 0
    said = millrace("cluster", "verify", cluster.nodes[0].url, code=1)
    assert "damaged: stripes/beyond slot 0 block 0 on node " in said.text
    assert "2 damaged" in said.err


def test_slices_of_a_node_that_is_away_could_not_be_looked_at(millrace, cluster, objects):
    cluster.kill(cluster.nodes[3])
    cluster.wait_until_serving(cluster.nodes[:3])
    findings, totals = verify(millrace, cluster.nodes[0], code=1)
    assert {finding["found"] for finding in findings} == {"unseen"}
    assert {finding["address"] for finding in findings} == {cluster.nodes[3].listen}
    assert totals["unseen"] == len(findings) > 0 and totals["damaged"] == totals["missing"] == 0
    cluster.restart(cluster.nodes[3])
    cluster.wait_until_serving(cluster.nodes)
    wait_until_clean(millrace, cluster.nodes[0])


def test_objects_that_change_meanwhile_are_no_findings(millrace, cluster, objects):
    """Writes, overwrites and removals go on while everything is verified, several times."""
    stop = threading.Event()

    def change(number):
        for turn in itertools.count():
            if stop.is_set():
                return
            path = f"/stripes/changing{number}-{turn % 5}"
            if turn % 3 == 2:
                assert cluster.nodes[turn % 4].ask("DELETE", path).status == 204
            else:
                assert cluster.nodes[turn % 4].put(path, pattern((number, turn), 300_000)).status == 200

    def look():
        try:
            return [verify(millrace, cluster.nodes[turn % 4])[0] for turn in range(10)]
        finally:
            stop.set()

    *_, found = in_threads(3, lambda number: look() if number == 2 else change(number))
    assert found == [[]] * 10


def test_requests_that_make_no_sense_are_refused(millrace, cluster, objects):
    node = cluster.nodes[0]
    for body in ("{}", '{"bucket": 3}', '{"bucket": "pairs/parts"}', '{"bucket": "pairs", "prefix": "a"}', '{"bucket": "pairs", "next": 1}',
                 '{"bucket": "pairs", "next": {"bucket": "stripes", "after": "", "write": "", "block": 0, "settled": [], "below": false}}',
                 '{"bucket": "pairs", "next": {"bucket": "pairs", "after": "xx", "write": "", "block": 0, "settled": [], "below": false}}',
                 '{"bucket": "pairs", "next": {"bucket": "pairs", "after": "", "write": "", "block": 0, "settled": [-1], "below": false}}'):
        assert node.ask("POST", "/-/cluster/verify", body).status == 400, body
    assert node.ask("POST", "/-/cluster/verify", '{"bucket": "nothing"}').status == 404
    assert node.ask("GET", "/-/cluster/verify").status == 404
    millrace("cluster", "verify", node.url, "--bucket", "nothing", code=2)
