#!/usr/bin/python3
"""Jobs of four nodes on this machine against the tools of one process, and what many small tasks cost.

    ./dev bench jobs

Four nodes and the one-process tool share the same cores and take turns. A ratio above 1 means that the job is faster.
"""
import hashlib
import os
import shutil
import subprocess
import time

import verdicts
from cluster import MILLRACE, ROOT, Node
from verdicts import at_least, judge

WORK = ROOT / "build/bench-data/jobs"
NODES = 4
# 2 GB in all.
SHARDS, SAMPLES, SAMPLE_BYTES = 16, 1136, 110_000
SMALL_TASKS = 100_000
COMMAND = "sha256sum sample.jpg > sample.sha; rm sample.cls"


class Cluster:
    def __init__(self, directory):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        self.registry = directory / "registry"
        self.nodes = [Node(directory / f"n{number}", self.registry, "--set", "job_slots=1") for number in range(NODES)]
        self.url = f"http://127.0.0.1:{self.nodes[0].port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.process.terminate()
        for node in self.nodes:
            node.process.wait()

    def bucket(self, name):
        # As many copies as the tools write.
        self.run("mb", f"mr://{name}", "--redundancy", "copies=1")

    def run(self, *words):
        environment = {**os.environ, "MILLRACE_ENDPOINT": self.url}
        return subprocess.run([MILLRACE, "--quiet", *map(str, words)], check=True, capture_output=True, text=True, env=environment).stdout

    def revision(self):
        return int((self.registry / "revision").read_text().split()[-1])


def make_shards(directory):
    if directory.exists():
        return sorted(directory.iterdir())
    part = directory.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    import run  # which imports this
    whole = run.make_shard(WORK / "whole.tar", SHARDS * SAMPLES, SAMPLE_BYTES, True, 6)
    subprocess.run([MILLRACE, "--quiet", "tar", "split", whole, "--no-index", "--max-samples", str(SAMPLES), "-o", part / "s-%03d.tar"], check=True)
    whole.unlink()
    part.rename(directory)
    return sorted(directory.iterdir())


def seconds(work):
    os.sync()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def clean(*patterns):
    for pattern in patterns:
        for path in WORK.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def run_map(table, cluster, shards):
    def alone():
        subprocess.run([MILLRACE, "--quiet", "tar", "map", *shards, "-o", WORK / "alone-%03d.tar", "-j", str(os.cpu_count()), "-c", COMMAND], check=True)

    ratios, rates = [], []
    size = sum(path.stat().st_size for path in shards)
    for turn in range(table.rounds + 1):
        tool = seconds(alone)
        clean("alone-*")
        cluster.bucket(f"mapped{turn}")
        job = seconds(lambda: cluster.run("job", "start", "map", "mr://shards/*.tar", "-o", f"mr://mapped{turn}/", "-c", COMMAND))
        cluster.run("rb", "--force", f"mr://mapped{turn}")
        if turn > 0:
            ratios.append(tool / job)
            rates.append(size / job / 1e6)
    judge(table, f"map of {size / 1e9:.1f} GB by {NODES} nodes / tar map", ratios, at_least(0.85))
    judge(table, "  MB/s of the job", rates)


def run_shuffle(table, cluster, shards):
    def copy():
        (WORK / "copied").mkdir()
        subprocess.run(f"cp {' '.join(map(str, shards))} {WORK}/copied && sync", shell=True, check=True)

    ratios, rates = [], []
    size = sum(path.stat().st_size for path in shards)
    for turn in range(table.rounds + 1):
        cp = seconds(copy)
        clean("copied")
        cluster.bucket(f"shuffled{turn}")
        job = seconds(lambda: cluster.run("job", "start", "shuffle", "--seed", turn, "--max-bytes", "125MB", "mr://shards/*.tar",
                                          "-o", f"mr://shuffled{turn}/part-%03d.tar"))
        cluster.run("rb", "--force", f"mr://shuffled{turn}")
        if turn > 0:
            ratios.append(cp / job)
            rates.append(size / job / 1e6)
    judge(table, f"shuffle of {size / 1e9:.1f} GB by {NODES} nodes / cp and sync", ratios, at_least(0.5))
    judge(table, "  MB/s of the job", rates)


def run_small(table, cluster):
    """Copies of tiny objects: how many changes the registry sees for a task."""
    small = WORK / "small"
    if not small.exists():
        small.mkdir(parents=True)
        for number in range(SMALL_TASKS):
            (small / f"{number:06d}").write_bytes(hashlib.sha256(b"%d" % number).digest())
    cluster.bucket("small")
    cluster.bucket("small-copied")
    cluster.run("put", "-r", small, "mr://small/")
    before = cluster.revision()
    took = seconds(lambda: cluster.run("job", "start", "copy", "-r", "mr://small/", "-o", "mr://small-copied/"))
    changes = cluster.revision() - before
    judge(table, f"tasks a second of {SMALL_TASKS} copies of 32 bytes", [SMALL_TASKS / took])
    judge(table, "  changes of the registry a second, leases included", [changes / took])


def run(table, cases=("map", "shuffle", "small")):
    WORK.mkdir(parents=True, exist_ok=True)
    print(f"\njobs of {NODES} nodes, each with one slot", flush=True)
    with Cluster(WORK / "cluster") as cluster:
        if "map" in cases or "shuffle" in cases:
            shards = make_shards(WORK / "shards")
            cluster.bucket("shards")
            cluster.run("put", *shards, "mr://shards/")
        if "map" in cases:
            run_map(table, cluster, shards)
        if "shuffle" in cases:
            run_shuffle(table, cluster, shards)
        if "small" in cases:
            run_small(table, cluster)


CASES = {name: (lambda table, name=name: run(table, (name,))) for name in ("map", "shuffle", "small")}

if __name__ == "__main__":
    verdicts.main(__doc__, CASES)
