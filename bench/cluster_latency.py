"""How long readers wait while a cluster heals, and while one of its nodes answers late.

    ./dev bench cluster_latency

Five nodes on loopback with copies=2. Readers ask the nodes in turns for objects of 64 KB, 100 a second in all, whether answers come or not; the
time of an answer counts from the moment at which it was due. Healing: one node is lost in both cases, and its slices, of objects of 16 MB, are
made anew in one of them. Grey: a node runs for a tenth of the time (SIGSTOP), and the first 5 s of that do not count.
"""
import concurrent.futures
import json
import os
import random
import shutil
import signal
import statistics
import threading
import time

import verdicts
from cluster import WORK, Cluster
from cluster_recovery import wait_until_serving

READ_BYTES = 64_000
OBJECTS = 200
BULK_BYTES = 16_000_000
BULK = 24
RATE = 100
SECONDS = 6
DETECTION_SECONDS = 5
READERS = 16


def p99(times):
    return statistics.quantiles(times, n=100)[98]


def read_while(nodes, goes_on):
    """Seconds of the answers that were due while `goes_on()`."""
    rng, times, began = random.Random(5), [], time.monotonic()

    def read(due, number):
        try:
            status, data = nodes[number % len(nodes)].request("GET", f"/bench/o{rng.randrange(OBJECTS)}", headers={"x-millrace-redirect": "no"})
        except OSError:
            status, data = 0, b""
        if status != 200 or len(data) != READ_BYTES:
            raise SystemExit(f"a read was answered {status}")
        times.append(time.monotonic() - due)

    with concurrent.futures.ThreadPoolExecutor(READERS) as readers:
        asked, number = [], 0
        while goes_on():
            due = began + number / RATE
            time.sleep(max(0, due - time.monotonic()))
            asked.append(readers.submit(read, due, number))
            number += 1
        for one in asked:
            one.result()
    return times


def for_seconds(seconds):
    until = time.monotonic() + seconds
    return lambda: time.monotonic() < until


def make_cluster(name, *flags):
    group = Cluster(name, 5, *flags)
    group.make_bucket("bench", "copies=2")
    group.make_bucket("bulk", "copies=2")
    wait_until_serving(group.nodes, 5)
    for number in range(OBJECTS):
        group.nodes[number % 5].must("PUT", f"/bench/o{number}", os.urandom(READ_BYTES))
    return group


def built(nodes):
    return sum(one.get("progress", {}).get("slices_built", 0) for one in json.loads(nodes[0].must("GET", "/-/cluster"))["nodes"])


def lose_a_node(name, heal_after):
    """p99 of reads from the others while its slices are made, or wait."""
    group = make_cluster(name, "--set", f"heal_after={heal_after}")
    try:
        body = random.Random(3).randbytes(BULK_BYTES)
        for number in range(BULK):
            group.nodes[number % 5].must("PUT", f"/bulk/o{number}", body)
        left = group.nodes[:4]
        group.nodes[4].process.kill()
        group.nodes[4].process.wait()
        wait_until_serving(left, 4)
        if heal_after == "1s":
            while built(left) == 0:
                time.sleep(0.01)
        before = built(left)
        times = read_while(left, for_seconds(SECONDS))
        if heal_after == "1s" and built(left) == before:
            raise SystemExit("nothing was healed while readers were timed")
        return p99(times)
    finally:
        group.stop()


def healing(table):
    ratios = []
    for number in range(table.rounds):
        quiet = lose_a_node(f"quiet{number}", "1h")
        ratios.append(lose_a_node(f"heals{number}", "1s") / quiet)
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
    verdicts.judge(table, "p99 of reads while healing / while nothing heals", ratios, verdicts.at_most(1.3))


def stutter(node, stopping):
    while not stopping.is_set():
        os.kill(node.process.pid, signal.SIGSTOP)
        time.sleep(0.9)
        os.kill(node.process.pid, signal.SIGCONT)
        time.sleep(0.1)


def grey(table):
    ratios = []
    group = make_cluster("grey")
    try:
        left = group.nodes[:4]
        for _ in range(table.rounds):
            normal = p99(read_while(left, for_seconds(SECONDS)))
            stopping = threading.Event()
            late = threading.Thread(target=stutter, args=(group.nodes[4], stopping))
            late.start()
            try:
                time.sleep(DETECTION_SECONDS)
                ratios.append(p99(read_while(left, for_seconds(SECONDS))) / normal)
            finally:
                stopping.set()
                late.join()
            time.sleep(3)
    finally:
        group.stop()
    verdicts.judge(table, "p99 of reads with a node that answers late / without", ratios, verdicts.at_most(3.0))


def run(table):
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    print("\nhow long readers of a cluster wait")
    try:
        healing(table)
        grey(table)
    finally:
        shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    verdicts.main(__doc__, {"cluster_latency": run})
