#!/usr/bin/python3
"""Durable PUTs, cold reads, listing and starting, each against the plainest thing that does the same job.

    ./dev bench put          100 MB objects: recv + write + fdatasync + rename, one connection
    ./dev bench put_small    4 KB objects: create + fdatasync + rename with 64 threads on the same drive
    ./dev bench put_packed   .tgz and .tar.zst, unpacked on their way for the index: the same bytes under a name without suffix
    ./dev bench cold         a cold object: nginx' sendfile of a cold file
    ./dev bench verify       GETs that compare blocks when they come from the drive: the same without comparing
    ./dev bench put_etag     1 MiB objects by plain HTTP: the same with an MD5 for each
    ./dev bench million      listing and starting with a million objects

Contenders run by turns; ratios are taken within a round; median and spread are shown.
"""

import contextlib
import io
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

import verdicts
from store_get import MILLRACE, NGINX, ROOT, WORK, cpu_seconds
from verdicts import at_least, at_most, judge

PUT = str(ROOT / "build/release/bench/http_put")
STORE_PORT, PEER_PORT = 9472, 9473


class Process:
    def __init__(self, command, log):
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=open(WORK / log, "w"))

    def __enter__(self):
        return self.process.pid

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=120)


def node(name="data", *flags):
    running = Process([MILLRACE, "--quiet", "up", "--data", WORK / name, "--listen", f"127.0.0.1:{STORE_PORT}", "--set", "scrub_rate=0", *flags],
                      "millrace.log")
    wait_ready()
    return running


def wait_ready():
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{STORE_PORT}/-/ready").read()
        except OSError:
            time.sleep(0.005)
    raise SystemExit("the node did not start: " + (WORK / "millrace.log").read_text())


def fresh():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)


def make_bucket(name):
    urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{STORE_PORT}/{name}", method="PUT"))


def client(port, prefix, size, connections, count):
    done = subprocess.run([PUT, "client", str(port), prefix, str(size), str(connections), str(count)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit("http_put: " + done.stderr)
    return json.loads(done.stdout)


def measured(pid, port, prefix, size, connections, count):
    before = cpu_seconds(pid)
    result = client(port, prefix, size, connections, count)
    result["cpu_per_gb"] = (cpu_seconds(pid) - before) / (result["bytes"] / 1e9)
    result["rate"] = result["requests"] / result["seconds"]
    return result


def put_large(table):
    """100 MB, one stream at a time."""
    fresh()
    (WORK / "peer").mkdir()
    ours, theirs = [], []
    with node() as store, Process([PUT, "server", PEER_PORT, WORK / "peer"], "peer.log") as peer:
        make_bucket("bench")
        time.sleep(0.3)
        for number in range(table.rounds + 1):
            a = measured(store, STORE_PORT, f"/bench/{number}-", 100_000_000, 1, 5)
            b = measured(peer, PEER_PORT, f"/bench/{number}-", 100_000_000, 1, 5)
            if number > 0:
                ours.append(a)
                theirs.append(b)
            for path in (WORK / "peer").iterdir():
                path.unlink()
    gb = [run["bytes"] / run["seconds"] / 1e9 for run in ours]
    print(f"\ndurable PUT of 100 MB: {statistics.median(gb):.2f} GB/s, {statistics.median(a['cpu_per_gb'] for a in ours):.2f} CPU s/GB "
          f"(peer {statistics.median(b['cpu_per_gb'] for b in theirs):.2f})")
    judge(table, "durable PUT of 100 MB: rate, ratio", [a["rate"] / b["rate"] for a, b in zip(ours, theirs)], at_least(1.4))
    judge(table, "durable PUT of 100 MB: CPU per GB, ratio", [a["cpu_per_gb"] / b["cpu_per_gb"] for a, b in zip(ours, theirs)], at_most(0.7))


def files_with_threads(directory, size, threads, count):
    """create + fdatasync + rename per object: what a store of plain files would do."""
    done = subprocess.run([PUT, "files", str(directory), str(size), str(threads), str(count)], capture_output=True, text=True, check=True)
    return count / json.loads(done.stdout)["seconds"]


def put_small(table):
    fresh()
    ratios, rates, slow = [], [], []
    with node() as store:
        make_bucket("bench")
        client(STORE_PORT, "/bench/warm-", 4096, 64, 2000)
        for number in range(table.rounds):
            directory = WORK / f"files{number}"
            directory.mkdir()
            theirs = files_with_threads(directory, 4096, 64, 4000)
            ours = measured(store, STORE_PORT, f"/bench/{number}-", 4096, 64, 20000)
            shutil.rmtree(directory)
            ratios.append(ours["rate"] / theirs)
            rates.append(ours["rate"])
            slow.append(ours["p99"])
    print(f"\ndurable PUT of 4 KB, 64 connections: {statistics.median(rates):.0f} /s, p99 {statistics.median(slow) * 1e3:.1f} ms")
    judge(table, "durable PUT of 4 KB: rate, of create+fdatasync+rename", ratios, at_least(3))


def make_packed():
    """A tar of images and texts, a tenth of the bytes text, as gzip and as zstd."""
    rng = random.Random(1)
    words = [rng.randbytes(rng.randint(2, 6)).hex() for _ in range(4000)]
    with tarfile.open(WORK / "plain.tar", "w") as out:
        for number in range(1000):
            for name, data in (("jpg", rng.randbytes(100_000)), ("txt", " ".join(rng.choices(words, k=1500)).encode())):
                member = tarfile.TarInfo(f"{number:06}.{name}")
                member.size = len(data)
                out.addfile(member, io.BytesIO(data))
    packed = {"tgz": WORK / "shard.tgz", "tar.zst": WORK / "shard.tar.zst"}
    with open(packed["tgz"], "wb") as out:
        subprocess.run(["gzip", "-c", WORK / "plain.tar"], stdout=out, check=True)
    subprocess.run(["zstd", "-q", WORK / "plain.tar", "-o", packed["tar.zst"]], check=True)
    return packed


def put_packed(table):
    """Unpacking against storing; the answer comes when both are done."""
    fresh()
    packed = make_packed()
    with node() as store:
        make_bucket("bench")

        def send(path, key):
            before, begun = cpu_seconds(store), time.monotonic()
            subprocess.run(["curl", "-sf", "-T", path, f"http://127.0.0.1:{STORE_PORT}/bench/{key}"], check=True, stdout=subprocess.DEVNULL)
            size = path.stat().st_size
            return size / (time.monotonic() - begun), (cpu_seconds(store) - before) / size * 1e9

        for suffix, path in packed.items():
            ours, plain = [], []
            for number in range(table.rounds + 1):
                a, b = send(path, f"shard.{suffix}"), send(path, "object")
                if number > 0:
                    ours.append(a)
                    plain.append(b)
            title = f"durable PUT of a .{suffix} of {path.stat().st_size / 1e6:.0f} MB, indexed"
            print(f"\n{title}: {statistics.median(a[0] for a in ours) / 1e6:.0f} MB/s, {statistics.median(a[1] for a in ours):.2f} CPU s/GB "
                  f"(not indexed {statistics.median(b[1] for b in plain):.2f})")
            judge(table, f"{title}: rate, ratio", [a[0] / b[0] for a, b in zip(ours, plain)])
            judge(table, f"{title}: CPU, ratio", [a[1] / b[1] for a, b in zip(ours, plain)])


def drop(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def fetch_seconds(port, path):
    begun = time.monotonic()
    subprocess.run(["curl", "-sf", "-o", "/dev/null", f"http://127.0.0.1:{port}{path}"], check=True)
    return time.monotonic() - begun


@contextlib.contextmanager
def reading_ahead(kib):
    """With so much of the kernel's reading ahead on the drive of WORK; None leaves what the machine has. Gives what it is."""
    device = os.stat(WORK).st_dev
    queue = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    setting = next(path for path in (queue / "queue/read_ahead_kb", queue / "../queue/read_ahead_kb", queue / "bdi/read_ahead_kb") if path.exists())
    before = setting.read_text()
    try:
        if kib is not None:
            setting.write_text(str(kib))
        yield int(setting.read_text())
    finally:
        setting.write_text(before)


def cold(table, size=1_000_000_000):
    fresh()
    (WORK / "files/bench").mkdir(parents=True)
    (WORK / "nginx-tmp").mkdir()
    (WORK / "nginx.conf").write_text(NGINX.format(work=WORK, port=PEER_PORT, tls="", certificate=""))
    plain = WORK / "files/bench/object"
    with open(plain, "wb") as out:
        for _ in range(size // 10_000_000):
            out.write(os.urandom(10_000_000))
        out.flush()
        os.fsync(out.fileno())
    with node(), Process(["nginx", "-c", WORK / "nginx.conf", "-p", WORK], "nginx.log"):
        make_bucket("bench")
        subprocess.run([MILLRACE, "--quiet", "put", str(plain), f"http://127.0.0.1:{STORE_PORT}/bench/object"], check=True)
        stored = [path for path in (WORK / "data/drive/data").rglob("*") if path.is_file()]
        for wanted in (128, None):  # the kernel's own, and what this machine was given
            ratios, rates = [], []
            with reading_ahead(wanted) as kib:
                for _ in range(table.rounds):
                    for path in stored:
                        drop(path)
                    ours = fetch_seconds(STORE_PORT, "/bench/object")
                    drop(plain)
                    theirs = fetch_seconds(PEER_PORT, "/bench/object")
                    ratios.append(theirs / ours)
                    rates.append(size / ours / 1e9)
            print(f"\ncold GET of {size / 1e9:.0f} GB, the drive reads {kib} KiB ahead: {statistics.median(rates):.2f} GB/s")
            judge(table, f"cold GET, {kib} KiB ahead: rate, of nginx' sendfile", ratios, at_least(1.5))


def set_bucket(name, settings):
    address = f"http://127.0.0.1:{STORE_PORT}/-/buckets/{name}"
    urllib.request.urlopen(urllib.request.Request(address, data=json.dumps(settings).encode(), method="PUT"))


def verify(table, size=1_000_000_000):
    """What comparing costs: cold, and hot when everything was compared before."""
    fresh()
    plain = WORK / "object"
    with open(plain, "wb") as out:
        for _ in range(size // 10_000_000):
            out.write(os.urandom(10_000_000))
    with node() as store:
        make_bucket("bench")
        subprocess.run([MILLRACE, "--quiet", "put", str(plain), f"http://127.0.0.1:{STORE_PORT}/bench/object"], check=True)
        stored = [path for path in (WORK / "data/drive/data").rglob("*") if path.is_file()]
        times = {"cold": {"first": [], "scrub": []}, "hot": {"first": [], "scrub": []}}
        cpu = {"cold": {"first": [], "scrub": []}, "hot": {"first": [], "scrub": []}}
        for number in range(table.rounds + 1):
            for mode in ("first", "scrub") if number % 2 else ("scrub", "first"):
                set_bucket("bench", {"verify": mode})
                for path in stored:
                    drop(path)
                for state in ("cold", "hot"):
                    before = cpu_seconds(store)
                    seconds = fetch_seconds(STORE_PORT, "/bench/object")
                    if number > 0:
                        times[state][mode].append(seconds)
                        cpu[state][mode].append((cpu_seconds(store) - before) / (size / 1e9))
    for state in times:
        print(f"\n{state} GET of {size / 1e9:.0f} GB: {size / statistics.median(times[state]['first']) / 1e9:.2f} GB/s compared, "
              f"{statistics.median(cpu[state]['first']):.3f} CPU s/GB; not compared {statistics.median(cpu[state]['scrub']):.3f} CPU s/GB")
        judge(table, f"{state} GET, compared with its checksums: rate, of not comparing",
              [theirs / ours for ours, theirs in zip(times[state]["first"], times[state]["scrub"])], at_least(0.97))


def put_etag(table):
    """1 MiB by 16 connections, without Content-MD5."""
    fresh()
    runs = {"auto": [], "md5": []}
    with node() as store:
        for mode in runs:
            make_bucket(f"bench-{mode}")
            set_bucket(f"bench-{mode}", {"etag": mode})
        for number in range(table.rounds + 1):
            for mode in runs:
                result = measured(store, STORE_PORT, f"/bench-{mode}/{number}-", 1 << 20, 16, 1000)
                if number > 0:
                    runs[mode].append(result)
    rate = [run["bytes"] / run["seconds"] / 1e9 for run in runs["auto"]]
    print(f"\nPUT of 1 MiB, 16 connections: {statistics.median(rate):.2f} GB/s, {statistics.median(run['cpu_per_gb'] for run in runs['auto']):.2f} CPU s/GB "
          f"(with MD5 {statistics.median(run['cpu_per_gb'] for run in runs['md5']):.2f})")
    judge(table, "PUT of 1 MiB: rate, of the same with MD5", [a["rate"] / b["rate"] for a, b in zip(runs["auto"], runs["md5"])], at_least(1.3))
    judge(table, "PUT of 1 MiB: CPU s/GB", [run["cpu_per_gb"] for run in runs["auto"]], at_most(0.6))


def million(table, count=1_000_000):
    fresh()
    with node():
        make_bucket("bench")
        begun = time.monotonic()
        client(STORE_PORT, "/bench/object-", 16, 64, count)
        filled = time.monotonic() - begun
        rates = []
        for _ in range(table.rounds):
            begun = time.monotonic()
            out = subprocess.run([MILLRACE, "ls", "-r", f"http://127.0.0.1:{STORE_PORT}/bench/"], capture_output=True, check=True).stdout
            rates.append(out.count(b"\n") / (time.monotonic() - begun))
            if out.count(b"\n") != count:
                raise SystemExit(f"the list has {out.count(b'chr(10)')} of {count} keys")
    print(f"\nfilled with {count} objects in {filled:.0f} s")
    judge(table, "listing through HTTP, keys/s", rates, at_least(200_000))
    starts = []
    for _ in range(table.rounds):
        begun = time.monotonic()
        running = node()
        starts.append(time.monotonic() - begun)
        running.__exit__()
    killed = []
    for _ in range(2):
        running = node()
        client(STORE_PORT, "/bench/more-", 16, 64, 20000)
        running.process.kill()
        running.process.wait()
        begun = time.monotonic()
        running = node()
        killed.append(time.monotonic() - begun)
        running.__exit__()
    judge(table, f"start with {count} objects, seconds", starts, at_most(3))
    judge(table, f"start with {count} objects after kill -9, seconds", killed, at_most(3))


if __name__ == "__main__":
    verdicts.main(__doc__, {"put": put_large, "put_small": put_small, "put_packed": put_packed, "cold": cold, "million": million})
