#!/usr/bin/python3
"""The loader against WebDataset with torch's DataLoader and torchvision: the same shards, page cache hot, by turns.

    ./dev bench loader_images       JPEGs to random resized crops, float32: rate, first batch, CPU time, memory, and the
                                    share of decoding alone
    ./dev bench loader_decoded      the same from the second epoch on, with the decoded cache
    ./dev bench loader_raw          1 KB and 110 KB samples as they are, to batches
    ./dev bench loader_handover     next() when a batch is ready; GB/s of batches made from pixels in memory, against
                                    DataLoader with samples that are ready
    ./dev bench loader_http         receive and untar per core, and a simulated accelerator, from a store on this machine
    bench/loader.py --rounds 2 images raw     the same for a quick look

Each run is a process of its own (bench/peers/millrace_load.py, webdataset_load.py), timed inside, without imports. The
peer has the worker count, of 0, 1 and 2, with which it was fastest in a first run. A ratio is Millrace's figure through
the peer's within one round, so for times and memory less is better; shown are its median and its spread.

Memory is the highest sum over the process and its workers of the proportional set size: pages that workers share with
their parent count once. Looking at it slows a process down, so it has runs of its own. CPU time is that of the process
and its workers.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import tarfile
import time
import urllib.request

import photos
import verdicts

ROOT = pathlib.Path(__file__).resolve().parent.parent
MILLRACE = str(ROOT / "build/release/millrace")
DECODE_BENCH = ROOT / "build/release/bench/decode_bench"
PEERS = ROOT / "bench/peers"
PEER_PYTHON = ROOT / "build/peers/webdataset/bin/python"
DATA = ROOT / "build/bench-data"
WORK = ROOT / "build/bench-loader"
STORE_PORT = 9472
WORKERS = (0, 1, 2)
BATCH = 64
PASSES = 2  # over the photographs in one run
MEMORY_LOOK_SECONDS = 0.1


# ---- data ------------------------------------------------------------------------------------------------------

def warm(paths):
    for path in paths:
        with open(path, "rb") as file:
            while file.read(1 << 20):
                pass
    return [str(path) for path in paths]


def photo_shards(name):
    directory = DATA / "photo-shards"
    if not (directory / "complete").exists():
        photos.make(directory)
        (directory / "complete").touch()
    return warm(sorted(directory.glob(f"{name}-*.tar")))


def photo_files(name):
    """The same images as files, for decode_bench."""
    directory = DATA / f"photo-files-{name}"
    if directory.exists():
        return directory
    part = directory.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for shard in photo_shards(name):
        with tarfile.open(shard) as tar:
            for member in tar:
                if member.name.endswith(".jpg"):
                    (part / member.name).write_bytes(tar.extractfile(member).read())
    part.rename(directory)
    return directory


def write_shards(name, shards, samples, make_fields):
    """`shards` of `samples` each, unless they are there."""
    directory = DATA / name
    if not directory.exists():
        import millrace
        part = directory.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        writer = millrace.ShardWriter(str(part / "s-%06d.tar"), max_samples=samples, max_bytes=1 << 40)
        for number in range(shards * samples):
            writer.add(f"{number:08}", {**make_fields(number), "cls": str(number % 1000).encode()})
        writer.finish()
        part.rename(directory)
    return warm(sorted(directory.glob("*.tar")))


def noise_shards(name, shards, samples, size):
    dice = random.Random(size)
    noise = dice.randbytes(4 * size)

    def make_fields(_):
        start = dice.randrange(3 * size)
        return {"jpg": noise[start : start + size]}
    return write_shards(name, shards, samples, make_fields)


def square_shards():
    """256 images that are 224 x 224 already: what is kept of them needs no resampling."""
    cuts = photos.crops(256, seed=2)
    return write_shards("squares", 1, 256, lambda _: {"jpg": photos.encode(next(cuts).crop((0, 0, 224, 224)), 90)})


# ---- contenders ------------------------------------------------------------------------------------------------

def family(pid):
    """A process and all that descend from it."""
    found = [pid]
    for one in found:
        try:
            found += map(int, pathlib.Path(f"/proc/{one}/task/{one}/children").read_text().split())
        except OSError:
            pass  # it has ended
    return found


def resident_bytes(pid):
    total = 0
    for one in family(pid):
        try:
            lines = pathlib.Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue  # it has ended
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def run_json(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"bench/loader.py: {' '.join(command[:3])} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def run_watched(command):
    """The most memory that the command and its children held."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    most = 0
    while process.poll() is None:
        most = max(most, resident_bytes(process.pid))
        time.sleep(MEMORY_LOOK_SECONDS)
    if process.returncode != 0:
        raise SystemExit(f"bench/loader.py: {' '.join(command[:3])} failed")
    return {"memory": most}


def millrace_command(case, shards, passes, batch=BATCH):
    return ["/usr/bin/python3", str(PEERS / "millrace_load.py"), case, str(batch), str(passes), *shards]


def peer_command(case, shards, passes, workers, batch=BATCH):
    return [str(PEER_PYTHON), str(PEERS / "webdataset_load.py"), case, str(workers), str(batch), str(passes), *shards]


def rate(run):
    return run["samples"] / run["seconds"]


def best_peer_command(case, shards, passes, batch=BATCH):
    """With the worker count that is fastest here."""
    if not PEER_PYTHON.exists():
        subprocess.run([str(PEERS / "webdataset.sh")], check=True)
    rates = {workers: rate(run_json(peer_command(case, shards, passes, workers, batch))) for workers in WORKERS}
    best = max(rates, key=rates.get)
    print("  peer, samples/s by workers: " + ", ".join(f"{workers}: {found:,.0f}" for workers, found in rates.items()))
    return peer_command(case, shards, passes, best, batch)


def by_turns(rounds, contenders, run=run_json):
    """name -> a result of every round; each runs once before, to warm up. A contender is a command or a function."""
    results = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, contender in contenders.items():
            result = contender() if callable(contender) else run(contender)
            if number > 0:
                results[name].append(result)
    return results


# ---- figures ---------------------------------------------------------------------------------------------------

def judge_ratio(table, title, ours, theirs, figure, goal):
    """`figure` of ours through that of theirs, round by round, and the medians of both."""
    mine, other = [figure(run) for run in ours], [figure(run) for run in theirs]
    shown = f"{title} ({statistics.median(mine):,.4g} / {statistics.median(other):,.4g})"
    verdicts.judge(table, shown, [a / b for a, b in zip(mine, other)], goal)


# ---- what is measured ------------------------------------------------------------------------------------------

def images(table):
    for name, goal in [("large", 2.6), ("small", 2.6)]:
        shards = photo_shards(name)
        print(f"\nJPEGs of 500 x 375, {mean_kilobytes(shards):.0f} KB with its headers, to 224 x 224 float32 crops")
        contenders = {"ours": millrace_command("images", shards, PASSES), "peer": best_peer_command("images", shards, PASSES)}
        results = by_turns(table.rounds, contenders)
        pair = (results["ours"], results["peer"])
        judge_ratio(table, f"{name}: images/s", *pair, rate, verdicts.at_least(goal))
        judge_ratio(table, f"{name}: seconds to the first batch", *pair, lambda run: run["first"], verdicts.at_most(0.3))
        judge_ratio(table, f"{name}: CPU seconds per 1000 images", *pair, lambda run: run["cpu"] / run["samples"] * 1000, verdicts.at_most(0.4))
        watched = by_turns(min(table.rounds, 3), contenders, run_watched)
        judge_ratio(table, f"{name}: peak memory, MB", watched["ours"], watched["peer"], lambda run: run["memory"] / 1e6, verdicts.at_most(0.5))
        share_of_decoding(table, name, shards)


def mean_kilobytes(shards):
    return sum(os.path.getsize(shard) for shard in shards) / (len(shards) * photos.PER_SHARD) / 1000


def decode_alone(directory, passes):
    """decode_bench with a thread for each core, timed inside from their common start: images/s and CPU seconds."""
    def run():
        command = [str(DECODE_BENCH), "rrc", str(directory), str(passes), str(os.cpu_count())]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        return {"seconds": found["wall"], "samples": found["images"], "cpu": found["seconds"]}
    return run


def share_of_decoding(table, name, shards):
    if not DECODE_BENCH.exists():
        table.missed.append(f"{name}: share of decoding alone: not measured, {DECODE_BENCH} is not built")
        return
    directory = photo_files(name)
    results = by_turns(table.rounds, {"ours": millrace_command("images", shards, 2 * PASSES), "alone": decode_alone(directory, PASSES)})
    pair = (results["ours"], results["alone"])
    judge_ratio(table, f"{name}: images/s, of decode_bench on all cores", *pair, rate, verdicts.at_least(0.92))
    judge_ratio(table, f"{name}: images per CPU second, of decode_bench", *pair, lambda run: run["samples"] / run["cpu"], None)


def decoded(table):
    for name in ("large", "small"):
        shards = photo_shards(name)
        print(f"\nthe same {name} images from the second epoch on, kept decoded with sides of at most 256")
        results = by_turns(table.rounds, {"ours": millrace_command("decoded", shards, 4), "peer": best_peer_command("images", shards, 1)})
        judge_ratio(table, f"{name}, kept: images/s", results["ours"], results["peer"], rate, verdicts.at_least(8))


def raw(table):
    for title, shards, batch, goal in [("1 KB", noise_shards("records-1k", 4, 25_000, 1000), 256, 25),
                                       ("110 KB", noise_shards("records-110k", 4, 1000, 110_000), 64, 5)]:
        print(f"\n{title} + label samples as they are, batches of {batch}")
        results = by_turns(table.rounds, {
            "ragged": millrace_command("ragged", shards, 8, batch), "bytes": millrace_command("bytes", shards, 8, batch),
            "peer": best_peer_command("raw", shards, 1, batch)})
        judge_ratio(table, f"{title}: samples/s, as one array", results["ragged"], results["peer"], rate, verdicts.at_least(goal))
        judge_ratio(table, f"{title}: samples/s, as a list of bytes", results["bytes"], results["peer"], rate, None)


def handover(table):
    print("\nbatches of 64 x 3 x 224 x 224 float32, 38.5 MB")
    command = millrace_command("handover", photo_shards("small")[:2], 1)
    ready = [statistics.median(run_json(command)["next_us"]) for _ in range(table.rounds)]
    verdicts.judge(table, "next() of a batch that is ready, microseconds", ready, verdicts.at_most(50))
    shards = square_shards()
    results = by_turns(table.rounds, {"ours": millrace_command("kept", shards, 40), "peer": best_peer_command("ready", [], 10)})
    judge_ratio(table, "GB/s of batches, from pixels in memory", results["ours"], results["peer"],
                lambda run: run["bytes"] / run["seconds"] / 1e9, verdicts.at_least(5))


class Store:
    """A node of this machine that holds a set of shards."""

    def __init__(self, shards):
        self.shards = shards

    def __enter__(self):
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        self.log = open(WORK / "node.log", "w")
        self.node = subprocess.Popen([MILLRACE, "up", "--data", str(WORK / "data"), "--listen", f"127.0.0.1:{STORE_PORT}", "--set",
                                      "scrub_rate=0"], stdout=subprocess.DEVNULL, stderr=self.log)
        try:
            self.fill()
        except BaseException:
            self.__exit__()
            raise
        return f"http://127.0.0.1:{STORE_PORT}/bench/s-{{000000..{len(self.shards) - 1:06}}}.tar"

    def fill(self):
        deadline = time.monotonic() + 30
        for number, shard in enumerate(self.shards):
            url = f"http://127.0.0.1:{STORE_PORT}/bench/s-{number:06}.tar"
            while subprocess.run(["curl", "-sf", "-T", shard, url], stdout=subprocess.DEVNULL).returncode != 0:
                if time.monotonic() > deadline:
                    raise SystemExit(f"bench/loader.py: the store takes no shards; see {WORK}/node.log")
                time.sleep(0.1)
            with urllib.request.urlopen(url) as answer:  # into the page cache
                while answer.read(1 << 20):
                    pass

    def __exit__(self, *_):
        self.node.send_signal(signal.SIGTERM)
        self.node.wait(timeout=60)
        self.log.close()
        shutil.rmtree(WORK / "data", ignore_errors=True)


def load(*arguments):
    """millrace load: its own report, and the CPU seconds of the process."""
    process = subprocess.Popen([MILLRACE, "-q", "--json", "load", *arguments], stdout=subprocess.PIPE, text=True)
    out = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"bench/loader.py: millrace load {' '.join(arguments)} failed")
    return {**json.loads(out), "cpu": used.ru_utime + used.ru_stime}


def http(table):
    shards = noise_shards("records-resnet", 8, 1251, 114_660)
    size = sum(os.path.getsize(shard) for shard in shards) / 1e9
    epochs = 4
    print(f"\n{size:.2f} GB of 114 660-byte samples in a store on this machine, over HTTP")
    with Store(shards) as urls:
        for title, spec, goal in [("receive and untar", "key", verdicts.at_least(5)), ("receive, untar, into batches", "bytes:jpg label:cls", None)]:
            load(urls, "--spec", spec)
            runs = [load(urls, "--spec", spec, "--epochs", str(epochs)) for _ in range(table.rounds)]
            verdicts.judge(table, f"{title}: GB per CPU second", [epochs * size / run["cpu"] for run in runs], goal)
        runs = [load(urls, "--spec", "bytes:jpg label:cls", "--shuffle", "2000", "--au", "resnet50-h100") for _ in range(table.rounds)]
        verdicts.judge(table, "accelerator utilisation, resnet50-h100", [run["accelerator_utilisation"] for run in runs], verdicts.at_least(0.95))


CASES = {call.__name__: call for call in (images, decoded, raw, handover, http)}


if __name__ == "__main__":
    verdicts.main(__doc__, CASES)
