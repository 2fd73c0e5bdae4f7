#!/usr/bin/python3
"""Measures the exchange of samples between ranks: against raw messages of the same bytes, the published pattern, and a copy.

    ./dev bench exchange                everything
    bench/exchange.py messages training shuffle [--rounds 5]

Ratios are taken within one round, between contenders that ran one after the other; the median of the rounds counts.
"""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import verdicts

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
MILLRACE = ROOT / "build" / "release" / "millrace"
WORK = ROOT / "build" / "bench" / "exchange"
MPIRUN = ["mpirun", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "--mca", "btl", "self,vader", "--mca", "pml", "ob1"]
if os.geteuid() == 0:
    MPIRUN.insert(1, "--allow-run-as-root")


def run_json(ranks, *words):
    done = subprocess.run([*MPIRUN, "-n", str(ranks), *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"bench/exchange.py: {words[0]} failed:\n{done.stderr}")
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))


def messages(table):
    """In the page cache: raw large messages, ours, and the published pattern; 250 samples a rank of 110 KB, or 5000 of 784 bytes."""
    for ranks in (2, 4, 8):
        # Rounds of small samples take milliseconds: more of them.
        for size, samples, rounds in ((110_000, 250, 5), (784, 5000, 25)):
            ours = [run_json(ranks, MILLRACE, "--json", "pls", "bench", "--sample-bytes", size, "--samples", samples, "--rounds", rounds)
                    for _ in range(table.rounds)]
            peer = [run_json(ranks, "/usr/bin/python3", HERE / "peers" / "published_exchange.py", samples, size, 3) for _ in range(table.rounds)]
            print(f"\n{ranks} ranks, {samples} samples of {size} bytes sent by each: {statistics.median(o['gigabytes_per_s'] for o in ours):.2f} GB/s, "
                  f"{statistics.median(o['microseconds_per_sample'] for o in ours):.2f} us a sample; raw "
                  f"{statistics.median(o['raw_gigabytes_per_s'] for o in ours):.2f} GB/s; published pattern "
                  f"{statistics.median(p['microseconds_per_sample'] for p in peer):.1f} us a sample")
            goal = verdicts.at_least if ranks == 4 else lambda _: None
            verdicts.judge(table, "share of raw large messages", [o["share_of_raw"] for o in ours], goal(0.85))
            verdicts.judge(table, "the same with everything sent, as between machines", [o["sent_share_of_raw"] for o in ours], None)
            for title, figure, wanted in (("times the published pattern", "microseconds_per_sample", goal(10)),
                                          ("the same with everything sent", "sent_microseconds_per_sample", None)):
                verdicts.judge(table, title, [p["microseconds_per_sample"] / o[figure] for o, p in zip(ours, peer)], wanted)


def make_stores(ranks, samples, size):
    """Stores of `samples` each, from noise."""
    sys.path.insert(0, str(ROOT / "build" / "python"))
    import millrace
    directory = WORK / f"stores-{ranks}-{samples}-{size}"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    noise = os.urandom(2 * size)
    with millrace.ShardWriter(str(directory / "s-%04d.tar"), max_bytes=200_000_000) as writer:
        for number in range(ranks * samples):
            start = number % size
            writer.add(f"{number:08}", {"jpg": noise[start:start + size], "cls": str(number % 10).encode()})
    subprocess.run([MILLRACE, "-q", "pls", "ingest", str(directory / "s-*.tar"), "-o", str(directory / "stores"), "--ranks", str(ranks)], check=True)
    return directory / "stores"


def training(table):
    """The whole engine, with files and commits, beside a trainer whose steps take 50 ms."""
    ranks, samples, steps = 4, 2500, 100
    root = make_stores(ranks, samples, 110_000)
    runs = [run_json(ranks, MILLRACE, "--json", "pls", "bench", root, "--q", "0.1", "--steps", steps, "--step-ms", 50, "--rounds", 2)
            for _ in range(table.rounds)]
    print(f"\n{ranks} ranks with {samples} samples of 110 KB, {steps} steps of 50 ms an epoch, a tenth exchanged and committed")
    verdicts.judge(table, "slower than without an exchange, in percent", [100 * run["slowdown"] for run in runs], verdicts.at_most(2))
    verdicts.judge(table, "seconds per epoch that the trainer waited", [run["exposed_seconds"] / 2 for run in runs])
    shutil.rmtree(root.parent)


def timed(command):
    os.sync()
    start = time.perf_counter()
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def shuffle(table):
    """2 GB of shards: copied, and shuffled by four ranks; both in the page cache, both flushed at the end."""
    source = WORK / "source"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    sys.path.insert(0, str(ROOT / "build" / "python"))
    import millrace
    noise = os.urandom(220_000)
    with millrace.ShardWriter(str(source / "s-%04d.tar"), max_bytes=125_000_000) as writer:
        for number in range(17_900):
            writer.add(f"{number:08}", {"jpg": noise[number % 110_000:number % 110_000 + 110_000], "cls": b"1"})
    ratios = []
    for _ in range(table.rounds):
        seconds = {}
        for name, command in (("copy", ["sh", "-c", f"cp {source}/*.tar {WORK}/copy/ && sync -d {WORK}/copy/*.tar"]),
                              ("shuffle", [*MPIRUN, "-n", "4", MILLRACE, "-q", "tar", "shuffle", "--seed", "1", "--max-bytes", "125MB",
                                           f"{source}/s-*.tar", "-o", f"{WORK}/shuffle/o-%04d.tar"])):
            shutil.rmtree(WORK / name, ignore_errors=True)
            (WORK / name).mkdir(parents=True)
            seconds[name] = timed(command)
            shutil.rmtree(WORK / name)
        ratios.append(seconds["copy"] / seconds["shuffle"])
    print(f"\n2 GB in shards of 125 MB: shuffled by 4 ranks in {seconds['shuffle']:.2f} s, copied in {seconds['copy']:.2f} s (the last round)")
    verdicts.judge(table, "speed of mpirun -n 4 millrace tar shuffle, of cp and sync", ratios, verdicts.at_least(0.7))
    shutil.rmtree(source)


CASES = {call.__name__: call for call in (messages, training, shuffle)}


if __name__ == "__main__":
    verdicts.main(__doc__, CASES)
