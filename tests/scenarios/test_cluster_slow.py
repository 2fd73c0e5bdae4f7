"""Nodes that stand still or answer late, and are not called away: others are read in their place, and people are told."""
import os
import signal
import threading

import pytest
from clusters import Cluster, Objects, pattern
from store_client import MIB, wait_until

SIZES = [100, 20_000, 200_000, 5 * MIB]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"), 4) as running:
        yield running


def metric(node, name):
    lines = node.get("/-/metrics").body.decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def passed_over(node):
    """Reads that did not wait for a holder: it was overtaken, or known to be slow and not asked."""
    return metric(node, "millrace_requests_hedged_total") + metric(node, "millrace_requests_degraded_total")


def number_of(node):
    return node.get("/-/cluster").json["self"]


class Stutter:
    """Lets a node run for a tenth of a second, then stand still for nine: it keeps its lease, and answers late."""

    def __init__(self, node):
        self.node, self.over = node, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.over.is_set():
            os.kill(self.node.process.pid, signal.SIGSTOP)
            self.over.wait(0.9)
            os.kill(self.node.process.pid, signal.SIGCONT)
            self.over.wait(0.1)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


@pytest.mark.parametrize("bucket, redundancy", [("copied", "copies=2"), ("coded", "2+1")])
def test_a_holder_that_stands_still_is_overtaken(cluster, bucket, redundancy):
    cluster.make_bucket(bucket, redundancy=redundancy)
    objects = Objects()
    for number, size in enumerate(SIZES * 8):
        objects.put(cluster.nodes[number % 4], f"/{bucket}/o{number}", pattern((bucket, number), size))
    still, others = cluster.nodes[3], cluster.nodes[:3]
    before = passed_over(others[0])
    os.kill(still.process.pid, signal.SIGSTOP)
    try:
        # The same answers, whoever is asked; some of them without the slices of the node that stands still.
        objects.check(others[0], ranged=False)
        assert passed_over(others[0]) > before
    finally:
        os.kill(still.process.pid, signal.SIGCONT)
    cluster.wait_until_serving(cluster.nodes)
    objects.check_all(cluster.nodes, ranged=False)


def test_a_node_that_answers_late_is_passed_over_told_of_and_taken_back(cluster, millrace):
    cluster.make_bucket("late", redundancy="copies=2")
    objects = Objects()
    # So many that some of them would be read from the late node first: each is with a chance of one in six.
    for number in range(60):
        objects.put(cluster.nodes[number % 4], f"/late/o{number}", pattern(("late", number), 150_000))
    late, others = cluster.nodes[3], cluster.nodes[:3]
    number = number_of(late)
    grey = f'millrace_peer_grey{{node="{number}"}}'
    with Stutter(late):
        wait_until(lambda: all(metric(node, grey) == 1 for node in others), "it was never found to be late")
        before = passed_over(others[0])
        objects.check(others[0], ranged=False)
        assert passed_over(others[0]) > before
        # It still serves: nobody took its lease, and nothing is healed.
        told = others[0].get("/-/cluster").json
        assert {node["state"] for node in told["nodes"]} == {"serving"}
        said = millrace("cluster", "status", others[0].url)
        assert f"node {number} serves badly" in said.text and "others are read first" in said.text.lower()
    wait_until(lambda: all(metric(node, grey) == 0 for node in others), "it was never taken back")
    assert "serves badly" not in millrace("cluster", "status", others[0].url).text
    objects.check_all(cluster.nodes, ranged=False)
