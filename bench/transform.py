#!/usr/bin/python3
"""Transforms at the store: a resize against decoding alone, and a sandboxed program against the same program outside.

    ./dev bench transform

The resize makes 224 x 224 uint8 arrays of 500 x 375 JPEGs of 103 KB. It is asked for by one curl, shard after shard, against decode_bench with
a thread for each core, which has its files in memory and sends nothing. The program is cat, on a shard of 100 MB: from the store with
?transform, against a plain GET through a pipe into cat; and a command for each sample against `millrace tar map`. Everything by turns on the
same cores, page cache hot.
"""
import json
import os
import pathlib
import shutil
import subprocess
import time
import urllib.request

import loader
import verdicts
from verdicts import at_least, at_most, judge

ROOT = pathlib.Path(__file__).resolve().parent.parent
MILLRACE = str(ROOT / "build/release/millrace")
DECODE_BENCH = str(ROOT / "build/release/bench/decode_bench")
WORK = ROOT / "build/bench-transform"
PORT = 9486
URL = f"http://127.0.0.1:{PORT}"
SHARD_SAMPLES, SAMPLE_BYTES = 1000, 100_000  # 100 MB
COMMAND_SAMPLES = 200


def verb(*words):
    subprocess.run([MILLRACE, *words], env={**os.environ, "MILLRACE_ENDPOINT": URL}, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def cpu_seconds():
    """Of the node."""
    with urllib.request.urlopen(f"{URL}/-/status", timeout=60) as response:
        return json.load(response)["cpu_seconds"]


def seconds_of(command):
    start = time.monotonic()
    subprocess.run(command, shell=True, check=True, executable="/bin/bash")
    return time.monotonic() - start


class Node:
    def __enter__(self):
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        self.process = subprocess.Popen([MILLRACE, "up", "--data", str(WORK / "data"), "--listen", f"127.0.0.1:{PORT}", "--set", "scrub_rate=0"],
                                        stdout=subprocess.DEVNULL, stderr=open(WORK / "log", "a"))
        while subprocess.run(["curl", "-sf", "-o", "/dev/null", f"{URL}/-/ready"]).returncode:
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(WORK, ignore_errors=True)


def resize(table):
    shards = loader.photo_shards("large")
    files = loader.photo_files("large")
    images = len(list(files.iterdir()))
    for number, shard in enumerate(shards):
        subprocess.run(["curl", "-sf", "-T", shard, f"{URL}/photos/{number}.tar"], check=True)
    verb("transform", "add", "resize", "--image", "jpg:size=224", "--to", "npy")
    urls = " ".join(f"'{URL}/photos/{number}.tar?transform=resize'" for number in range(len(shards)))
    threads = os.cpu_count()
    alone, store, alone_cpu, store_cpu = [], [], [], []
    for _ in range(table.rounds):
        found = json.loads(subprocess.run([DECODE_BENCH, "resize", str(files), "1", str(threads)], capture_output=True, text=True, check=True).stdout)
        alone.append(found["images"] / found["wall"])
        alone_cpu.append(found["seconds"] / found["images"])
        before = cpu_seconds()
        store.append(images / seconds_of(f"curl -sf {urls} > /dev/null"))
        store_cpu.append((cpu_seconds() - before) / images)
    print(f"\nresize of {images} JPEGs, {threads} cores\n  decode_bench {sorted(alone)[len(alone) // 2]:8.0f} images/s\n  the store    {sorted(store)[len(store) // 2]:8.0f} images/s")
    judge(table, "resize at the store / decoding alone, rate", [ours / theirs for ours, theirs in zip(store, alone)], at_least(0.9))
    judge(table, "decoding alone / resize at the store, CPU time", [theirs / ours for ours, theirs in zip(store_cpu, alone_cpu)], at_least(0.9))


def programs(table):
    (shard,) = loader.noise_shards("transform-noise", 1, SHARD_SAMPLES, SAMPLE_BYTES)
    subprocess.run(["curl", "-sf", "-T", shard, f"{URL}/noise/shard.tar"], check=True)
    subprocess.run(["curl", "-sf", "-T", "-", f"{URL}/noise/empty.tar"], input=bytes(1024), check=True)
    verb("transform", "add", "same", "--filter", "--", "cat")
    inside, outside, plain, begun = [], [], [], []
    get = f"curl -sf {URL}/noise/shard.tar"
    for turn in range(table.rounds + 1):
        found = (seconds_of(f"curl -sf '{URL}/noise/shard.tar?transform=same' > /dev/null"), seconds_of(f"{get} | cat > /dev/null"), seconds_of(f"{get} > /dev/null"))
        empty = seconds_of(f"curl -sf '{URL}/noise/empty.tar?transform=same' > /dev/null") - seconds_of(f"curl -sf {URL}/noise/empty.tar > /dev/null")
        if turn:  # the first warms up
            for times, seconds in zip((inside, outside, plain), found):
                times.append(seconds)
            begun.append(empty * 1e3)
    print("\na filter (cat) over 100 MB")
    for who, times in (("in a sandbox of the store", inside), ("GET | cat", outside), ("plain GET", plain)):
        print(f"  {who:<26} {sorted(times)[len(times) // 2] * 1e3:8.1f} ms")
    judge(table, "sandboxed - outside, ms for a 100 MB shard", [(ours - theirs) * 1e3 for ours, theirs in zip(inside, outside)], at_most(50))
    judge(table, "one run of nothing - a plain GET of nothing, ms", begun)


def commands(table):
    (shard,) = loader.noise_shards("transform-commands", 1, COMMAND_SAMPLES, SAMPLE_BYTES)
    subprocess.run(["curl", "-sf", "-T", shard, f"{URL}/noise/commands.tar"], check=True)
    verb("transform", "add", "touch", "--command", "--", "true")
    inside, outside = [], []
    for turn in range(table.rounds + 1):
        found = (seconds_of(f"curl -sf '{URL}/noise/commands.tar?transform=touch' > /dev/null"), seconds_of(f"{MILLRACE} -q tar map {shard} -o - -- true > /dev/null"))
        if turn:
            inside.append(found[0])
            outside.append(found[1])
    print(f"\na command (true) for each of {COMMAND_SAMPLES} samples\n  in a sandbox of the store {sorted(inside)[len(inside) // 2] * 1e3:8.1f} ms\n  millrace tar map          {sorted(outside)[len(outside) // 2] * 1e3:8.1f} ms")
    judge(table, "commands at the store / tar map, time", [ours / theirs for ours, theirs in zip(inside, outside)])


def run(table):
    with Node():
        resize(table)
        programs(table)
        commands(table)


if __name__ == "__main__":
    verdicts.main(__doc__, {"transform": run})
