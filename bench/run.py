#!/usr/bin/python3
"""Measures Millrace against its peers and prints ratios, page cache hot.

    ./dev bench                 everything
    ./dev bench tar512 shard    some of it

Machines are noisy, so contenders run by turns in the same minutes, at least five times; a ratio is taken within
each round, and the table shows the median of the rounds and their spread (lowest to highest).
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import io
import time

import cluster
import cluster_latency
import cluster_recovery
import cluster_scale
import exchange
import http_client
import jobs
import loader
import ring_trial
import store_get
import store_put
import transform
import upstream
import verdicts

ROOT = pathlib.Path(__file__).resolve().parent.parent
MILLRACE = str(ROOT / "build/release/millrace")
TAR_BENCH = str(ROOT / "build/release/bench/tar_bench")
DECODE_BENCH = str(ROOT / "build/release/bench/decode_bench")
STRIPE_BENCH = str(ROOT / "build/release/bench/stripe_bench")
PEERS = ROOT / "bench/peers"
DATA = ROOT / "build/bench-data"


# ---- data ------------------------------------------------------------------------------------------------------

def make_shard(path, samples, size, label, seed):
    """A ustar shard of `samples` times `size` random bytes, with a cls field if `label`."""
    if path.exists():
        return path
    generator = random.Random(seed)
    noise = generator.randbytes(4 * size + 4096)
    part = path.with_suffix(".part")
    with tarfile.open(part, "w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(samples):
            start = generator.randrange(3 * size + 4096)
            fields = [("jpg", noise[start : start + size])]
            if label:
                fields.insert(0, ("cls", str(i % 1000).encode()))
            for field, data in fields:
                member = tarfile.TarInfo(f"{i:08d}.{field}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
            tar.members = []
    part.rename(path)
    return path


def make_text_gzip(path):
    """A tar of this machine's C headers (real text, some 6:1), compressed by gzip itself."""
    if path.exists():
        return path
    headers = sorted(found for found in pathlib.Path("/usr/include").rglob("*.h") if found.is_file())
    plain = path.with_suffix(".plain")
    with tarfile.open(plain, "w", format=tarfile.USTAR_FORMAT) as tar:
        for i, header in enumerate(headers):
            data = header.read_bytes()
            member = tarfile.TarInfo(f"{i:06d}.txt")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    part = path.with_suffix(".part")
    with open(part, "wb") as out:
        subprocess.run(["gzip", "-6", "-c", str(plain)], stdout=out, check=True)
    plain.unlink()
    part.rename(path)
    return path


def make_tree(path, samples, size, seed):
    """A flat directory of `samples` pairs of files."""
    if path.exists():
        return path
    generator = random.Random(seed)
    part = path.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    noise = generator.randbytes(4 * size)
    for i in range(samples):
        start = generator.randrange(3 * size)
        (part / f"{i:08d}.jpg").write_bytes(noise[start : start + size])
        (part / f"{i:08d}.cls").write_bytes(str(i % 1000).encode())
    part.rename(path)
    return path


def make_photos(path, count, quality, seed):
    """JPEGs of 500 x 375, cut from the desktop backgrounds that Debian ships, with the grain of a camera: drawn
    pictures alone are a third as large as photographs."""
    if path.exists():
        return path
    import numpy
    from PIL import Image
    grain = numpy.random.default_rng(seed)
    generator = random.Random(seed)
    backgrounds = [Image.open(found).convert("RGB")
                   for found in sorted(pathlib.Path("/usr/share/backgrounds/gnome").glob("*.webp"))]
    backgrounds = [image for image in backgrounds if image.width >= 2000]
    part = path.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for i in range(count):
        image = generator.choice(backgrounds)
        scale = generator.choice([1, 2])
        x, y = generator.randrange(image.width - 500 * scale), generator.randrange(image.height - 375 * scale)
        cut = numpy.asarray(image.crop((x, y, x + 500 * scale, y + 375 * scale)).resize((500, 375)))
        cut = numpy.clip(cut + grain.normal(0, 7, (375, 500, 1)) + grain.normal(0, 3, cut.shape), 0, 255)
        Image.fromarray(cut.astype(numpy.uint8)).save(part / f"{i:06d}.jpg", quality=quality)
    part.rename(path)
    return path


def warm(*paths):
    """Into the page cache, as reading from the drive leaves it: pages that writing left there are smaller."""
    for path in paths:
        for file in [path] if path.is_file() else path.iterdir():
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            while os.read(descriptor, 1 << 20):
                pass
            os.close(descriptor)


# ---- contenders ------------------------------------------------------------------------------------------------

def inside(*command):
    """Seconds as the program itself measured them: no process start."""
    def run():
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return json.loads(done.stdout)["seconds"]
    return run


def outside(command, clean=()):
    """Seconds of a whole command, run by a shell; `clean` is removed before each run."""
    def run():
        for path in clean:
            for found in pathlib.Path(path).parent.glob(pathlib.Path(path).name):
                shutil.rmtree(found) if found.is_dir() else found.unlink()
        os.sync()
        start = time.perf_counter()
        subprocess.run(["bash", "-c", "set -o pipefail; " + command], check=True, capture_output=True)
        return time.perf_counter() - start
    return run


class Table:
    def __init__(self, rounds):
        self.rounds = rounds
        self.missed = []

    def measure(self, title, ours, peers, work, goals=None):
        """`peers`: name -> contender. `work`: (amount, unit) done by every contender."""
        goals = goals or {}
        contenders = {"millrace": ours, **peers}
        for run in contenders.values():
            run()  # once to warm up
        seconds = {name: [] for name in contenders}
        for _ in range(self.rounds):
            for name, run in contenders.items():
                seconds[name].append(run())
        amount, unit = work
        print(f"\n{title}")
        rate = amount / statistics.median(seconds["millrace"])
        print(f"  {'millrace':<34} {rate:12,.2f} {unit}/s")
        for name in peers:
            ratios = [theirs / mine for theirs, mine in zip(seconds[name], seconds["millrace"])]
            median = statistics.median(ratios)
            goal = goals.get(name)
            verdict = "" if goal is None else f"   goal {goal}: " + ("reached" if median >= goal else "MISSED")
            if goal is not None and median < goal:
                self.missed.append(f"{title}: {name}: {median:.2f}, goal {goal}")
            print(f"  {'vs ' + name:<34} {amount / statistics.median(seconds[name]):12,.2f} {unit}/s   "
                  f"ratio {median:8.2f}  [{min(ratios):.2f} to {max(ratios):.2f}]{verdict}")
        sys.stdout.flush()
        return rate


# ---- what is measured ------------------------------------------------------------------------------------------

def bench_tar512(table):
    count = 300_000
    shard = make_shard(DATA / "s512.tar", count, 512, False, 1)
    warm(shard)
    work = (count / 1e6, "M samples")
    python = {"python tarfile r|": inside("/usr/bin/python3", str(PEERS / "tarfile_stream.py"), str(shard))}
    rate = table.measure("512-byte samples, grouped, mapped file", inside(TAR_BENCH, "mapped", str(shard)), python, work,
                         {"python tarfile r|": 100})
    if rate < 3:
        table.missed.append(f"512-byte samples, mapped: {rate:.2f} M samples/s, goal 3")
    table.measure("512-byte samples, grouped, from a descriptor", inside(TAR_BENCH, "stream", str(shard)),
                  {"libarchive": inside(TAR_BENCH, "libarchive", str(shard))}, work)
    table.measure("512-byte samples, listing as a command (millrace tar stat)", outside(f"{MILLRACE} -q tar stat {shard}"),
                  {"tar -t": outside(f"tar -tf {shard}"), "bsdtar -t": outside(f"bsdtar -tf {shard}")}, work)


def bench_tar4k(table):
    count = 100_000
    shard = make_shard(DATA / "s4k.tar", count, 4096, False, 2)
    warm(shard)
    table.measure("4 KB samples, grouped, from a descriptor", inside(TAR_BENCH, "stream", str(shard)),
                  {"python tarfile r|": inside("/usr/bin/python3", str(PEERS / "tarfile_stream.py"), str(shard)),
                   "libarchive": inside(TAR_BENCH, "libarchive", str(shard))},
                  (shard.stat().st_size / 1e9, "GB"), {"python tarfile r|": 60, "libarchive": 2.5})


def bench_tar110k(table):
    shard = make_shard(DATA / "s110k.tar", 9000, 110_000, True, 3)
    warm(shard)
    work = (shard.stat().st_size / 1e9, "GB")
    python = inside("/usr/bin/python3", str(PEERS / "tarfile_stream.py"), str(shard))
    table.measure("110 KB + label samples, grouped, from a descriptor", inside(TAR_BENCH, "stream", str(shard)),
                  {"python tarfile r|": python, "libarchive": inside(TAR_BENCH, "libarchive", str(shard))}, work,
                  {"python tarfile r|": 8, "libarchive": 1.2})
    table.measure("110 KB + label samples, grouped, mapped file", inside(TAR_BENCH, "mapped", str(shard)),
                  {"python tarfile r|": python}, work)
    table.measure("110 KB + label samples, listing as a command (millrace tar stat)",
                  outside(f"{MILLRACE} -q tar stat {shard}"),
                  {"tar -t": outside(f"tar -tf {shard}"), "bsdtar -t": outside(f"bsdtar -tf {shard}")}, work)


def bench_gzip(table):
    archive = make_text_gzip(DATA / "headers.tar.gz")
    warm(archive)
    done = subprocess.run([TAR_BENCH, "inflate-ours", str(archive)], check=True, capture_output=True, text=True)
    size = json.loads(done.stdout)["bytes"]
    table.measure("gzip input, text (C headers)", inside(TAR_BENCH, "inflate-ours", str(archive)),
                  {"zlib": inside(TAR_BENCH, "inflate-zlib", str(archive))}, (size / 1e9, "GB"), {"zlib": 2.5})


def bench_shard(table):
    shard = make_shard(DATA / "s110k.tar", 9000, 110_000, True, 3)
    tree = make_tree(DATA / "tree", 6000, 110_000, 4)
    warm(shard, tree)
    out = DATA / "out"
    out.mkdir(exist_ok=True)
    clean = [str(out / "*")]
    gigabytes = shard.stat().st_size / 1e9
    table.measure("shard from a tar stream, durable, with indexes",
                  outside(f"cat {shard} | {MILLRACE} -q shard - -o {out}/s-%06d.tar", clean),
                  {"cat, then fsync": outside(f"cat {shard} | cat > {out}/c.tar && sync {out}/c.tar", clean),
                   "cat, not durable": outside(f"cat {shard} | cat > {out}/c.tar", clean)},
                  (gigabytes, "GB"), {"cat, then fsync": 0.8})
    table.measure("shard from a directory of 12 000 files, durable, with indexes",
                  outside(f"{MILLRACE} -q shard {tree} --max-bytes 200MB -o {out}/s-%06d.tar", clean),
                  {"tar -cf, then fsync": outside(f"tar -cf {out}/t.tar -C {tree} . && sync {out}/t.tar", clean),
                   "tar -cf, not durable": outside(f"tar -cf {out}/t.tar -C {tree} .", clean)},
                  (0.66, "GB"))


def bench_shuffle(table):
    shards = [make_shard(DATA / f"big-{i}.tar", 4500, 110_000, True, 10 + i) for i in range(4)]
    # Keys differ between the shards, as they do in a real set.
    prepared = [DATA / f"set-{i}.tar" for i in range(4)]
    for i, (shard, target) in enumerate(zip(shards, prepared)):
        if not target.exists():
            subprocess.run([MILLRACE, "-q", "tar", "cat", str(shard), "--rekey", f"{i}%07d", "-o", str(target)], check=True)
    warm(*prepared)
    out = DATA / "out"
    out.mkdir(exist_ok=True)
    clean = [str(out / "*")]
    names = " ".join(map(str, prepared))
    table.measure("shuffle 2 GB with --memory 256M, durable",
                  outside(f"{MILLRACE} -q tar shuffle --memory 256M {names} -o {out}/s-%06d.tar", clean),
                  {"tar -x | shuf | tar -c, fsync": outside(f"{PEERS}/extract_shuf_tar.sh {out}/t.tar {out}/scratch {names}", clean)},
                  (sum(path.stat().st_size for path in prepared) / 1e9, "GB"))


def bench_image(table):
    for quality, goal in [(95, 2.4), (80, 2.4)]:
        photos = make_photos(DATA / f"photos-{quality}", 200, quality, 5)
        mean = sum(found.stat().st_size for found in photos.iterdir()) / 200 / 1000
        table.measure(f"500 x 375 JPEGs of quality {quality} ({mean:.0f} KB) to 224 x 224 float32 crops, one core",
                      inside(DECODE_BENCH, "rrc", str(photos), "2"),
                      {"PIL and torchvision": inside("/usr/bin/python3", str(PEERS / "torchvision_crops.py"), str(photos), "2")},
                      (400, "images"), {"PIL and torchvision": goal})


def bench_stripe(table):
    """Our code and ISA-L itself by turns in one process, on the same buffers: between processes the placing of their pages
    alone makes more difference."""
    done = subprocess.run([STRIPE_BENCH, str(table.rounds)], check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    print("\n4+2 in cells of 1 MiB, one core, against ISA-L called directly")
    for case, title in (("encode", "parity of a stripe"), ("decode", "two lost cells of a stripe")):
        ours, isal = found[case]["ours"], found[case]["isal"]
        verdicts.judge(table, f"{title}: GB/s of data", [found["bytes"] / 1e9 / seconds for seconds in ours])
        verdicts.judge(table, f"{title}: ratio", [theirs / mine for theirs, mine in zip(isal, ours)], verdicts.at_least(0.85))


def bench_get(table):
    store_get.run(table, store_get.CASES)


def bench_ring(table):
    ring_trial.run(table)


def bench_get_bbr(table):
    store_get.run(table, store_get.BBR_CASES, namespace=False)


def bench_get_https(table):
    store_get.run(table, store_get.HTTPS_CASES, https=True)


def bench_get_beside(table):
    store_get.beside(table)


def bench_http_client(table):
    http_client.run(table)


def bench_http_client_https(table):
    http_client.run(table, https=True)


def bench_transform(table):
    transform.run(table)


def bench_jobs(table):
    jobs.run(table)


def bench_upstream(table):
    upstream.run(table)


def bench_put(table):
    store_put.put_large(table)


def bench_put_small(table):
    store_put.put_small(table)


def bench_put_packed(table):
    store_put.put_packed(table)


def bench_cold(table):
    store_put.cold(table)


def bench_verify(table):
    store_put.verify(table)


def bench_put_etag(table):
    store_put.put_etag(table)


def bench_cluster(table):
    cluster.run(table)


def bench_cluster_scale(table):
    cluster_scale.run(table)


def bench_cluster_recovery(table):
    cluster_recovery.run(table)


def bench_cluster_latency(table):
    cluster_latency.run(table)


def bench_million(table):
    store_put.million(table)


def bench_webdataset(table):
    """The same program with either import. bench/peers/webdataset.sh installs the peer."""
    peer = ROOT / "build/peers/webdataset/bin/python"
    if not peer.exists():
        subprocess.run([str(PEERS / "webdataset.sh")], check=True)
    script = str(PEERS / "webdataset_read.py")
    ours = ["env", f"PYTHONPATH={ROOT / 'build/python'}", "/usr/bin/python3", script, "millrace.webdataset"]
    for title, shard, count, goal in [
            ("1 KB + label samples through WebDataset's interface, to batches",
             make_shard(DATA / "s1k.tar", 50_000, 1000, True, 5), 50_000, 15),
            ("110 KB + label samples through WebDataset's interface, to batches",
             make_shard(DATA / "s110k.tar", 9000, 110_000, True, 3), 9000, 2)]:
        warm(shard)
        table.measure(title, inside(*ours, str(shard)), {"webdataset": inside(str(peer), script, "webdataset", str(shard))},
                      (count, "samples"), {"webdataset": goal})


def bench_loader_images(table):
    loader.images(table)


def bench_loader_decoded(table):
    loader.decoded(table)


def bench_loader_raw(table):
    loader.raw(table)


def bench_loader_handover(table):
    loader.handover(table)


def bench_loader_http(table):
    loader.http(table)


def bench_exchange(table):
    for case in exchange.CASES.values():
        case(table)


BENCHES = {name[6:]: call for name, call in globals().items() if name.startswith("bench_")}


def main():
    parser = argparse.ArgumentParser(description="Measures Millrace against its peers and prints ratios.")
    parser.add_argument("names", nargs="*", help="which (default: all)")
    parser.add_argument("--rounds", type=int, default=7, help="at least 5 (default 7)")
    arguments = parser.parse_args()
    if arguments.rounds < 5:
        parser.error("fewer than 5 rounds say nothing")
    DATA.mkdir(parents=True, exist_ok=True)
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    print(f"{os.cpu_count()} cores of {cpu}, kernel {os.uname().release}; {arguments.rounds} rounds, median [lowest to highest]; "
          "a ratio above 1 means millrace is faster")
    table = Table(arguments.rounds)
    for name in arguments.names:
        if name not in BENCHES:
            parser.error(f"{name} is none of: {chr(32).join(BENCHES)}")
    for name in arguments.names or BENCHES:
        BENCHES[name](table)
    verdicts.conclude(table)


if __name__ == "__main__":
    main()
