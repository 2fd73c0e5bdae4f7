"""A node that stands still: others answer in its place before anybody calls it away."""
import os
import signal

import pytest
from clusters import Cluster, Objects, pattern
from store_client import MIB

SIZES = [100, 20_000, 200_000, 5 * MIB]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"), 4) as running:
        yield running


def metric(node, name):
    lines = node.get("/-/metrics").body.decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


@pytest.mark.parametrize("bucket, redundancy", [("copied", "copies=2"), ("coded", "2+1")])
def test_a_holder_that_stands_still_is_overtaken(cluster, bucket, redundancy):
    cluster.make_bucket(bucket, redundancy=redundancy)
    objects = Objects()
    for number, size in enumerate(SIZES * 3):
        objects.put(cluster.nodes[number % 4], f"/{bucket}/o{number}", pattern((bucket, number), size))
    still, others = cluster.nodes[3], cluster.nodes[:3]
    hedged = metric(others[0], "millrace_requests_hedged_total")
    os.kill(still.process.pid, signal.SIGSTOP)
    try:
        # The same answers, whoever is asked; some of them without the slices of the node that stands still.
        objects.check(others[0], ranged=False)
        assert metric(others[0], "millrace_requests_hedged_total") > hedged
    finally:
        os.kill(still.process.pid, signal.SIGCONT)
    cluster.wait_until_serving(cluster.nodes)
    objects.check_all(cluster.nodes, ranged=False)
