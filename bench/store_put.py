#!/usr/bin/python3
"""Durable PUTs, cold reads, listing and starting, each against the plainest thing that does the same job.

    ./dev bench put          100 MB objects: recv + write + fdatasync + rename, one connection
    ./dev bench put_small    4 KB objects: create + fdatasync + rename with 64 threads on the same drive
    ./dev bench cold         a cold object: nginx' sendfile of a cold file
    ./dev bench million      listing and starting with a million objects

Contenders run by turns; ratios are taken within a round; median and spread are shown.
"""

import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import time
import urllib.request

from store_get import LOAD, MILLRACE, NGINX, ROOT, WORK, cpu_seconds, spread

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


def put_large(rounds):
    """100 MB, one stream at a time."""
    fresh()
    (WORK / "peer").mkdir()
    ours, theirs = [], []
    with node() as store, Process([PUT, "server", PEER_PORT, WORK / "peer"], "peer.log") as peer:
        make_bucket("bench")
        time.sleep(0.3)
        for number in range(rounds + 1):
            a = measured(store, STORE_PORT, f"/bench/{number}-", 100_000_000, 1, 5)
            b = measured(peer, PEER_PORT, f"/bench/{number}-", 100_000_000, 1, 5)
            if number > 0:
                ours.append(a)
                theirs.append(b)
            for path in (WORK / "peer").iterdir():
                path.unlink()
    gb = [run["bytes"] / run["seconds"] / 1e9 for run in ours]
    print(f"durable PUT of 100 MB: {statistics.median(gb):.2f} GB/s, rate x{spread([a['rate'] / b['rate'] for a, b in zip(ours, theirs)])}, "
          f"CPU per GB x{spread([a['cpu_per_gb'] / b['cpu_per_gb'] for a, b in zip(ours, theirs)])} "
          f"({statistics.median(a['cpu_per_gb'] for a in ours):.2f} s/GB, peer {statistics.median(b['cpu_per_gb'] for b in theirs):.2f})", flush=True)


def files_with_threads(directory, size, threads, count):
    """create + fdatasync + rename per object: what a store of plain files would do."""
    done = subprocess.run([PUT, "files", str(directory), str(size), str(threads), str(count)], capture_output=True, text=True, check=True)
    return count / json.loads(done.stdout)["seconds"]


def put_small(rounds):
    fresh()
    ratios, rates, slow = [], [], []
    with node() as store:
        make_bucket("bench")
        client(STORE_PORT, "/bench/warm-", 4096, 64, 2000)
        for number in range(rounds):
            directory = WORK / f"files{number}"
            directory.mkdir()
            theirs = files_with_threads(directory, 4096, 64, 4000)
            ours = measured(store, STORE_PORT, f"/bench/{number}-", 4096, 64, 20000)
            shutil.rmtree(directory)
            ratios.append(ours["rate"] / theirs)
            rates.append(ours["rate"])
            slow.append(ours["p99"])
    print(f"durable PUT of 4 KB, 64 connections: {statistics.median(rates):.0f} /s, x{spread(ratios)} of create+fdatasync+rename, "
          f"p99 {statistics.median(slow) * 1e3:.1f} ms", flush=True)


def drop(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def fetch_seconds(port, path):
    begun = time.monotonic()
    subprocess.run(["curl", "-sf", "-o", "/dev/null", f"http://127.0.0.1:{port}{path}"], check=True)
    return time.monotonic() - begun


def cold(rounds, size=1_000_000_000):
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
    ratios, rates = [], []
    with node(), Process(["nginx", "-c", WORK / "nginx.conf", "-p", WORK], "nginx.log"):
        make_bucket("bench")
        subprocess.run([MILLRACE, "--quiet", "put", str(plain), f"http://127.0.0.1:{STORE_PORT}/bench/object"], check=True)
        stored = [path for path in (WORK / "data/drive/data").rglob("*") if path.is_file()]
        for _ in range(rounds):
            for path in stored:
                drop(path)
            ours = fetch_seconds(STORE_PORT, "/bench/object")
            drop(plain)
            theirs = fetch_seconds(PEER_PORT, "/bench/object")
            ratios.append(theirs / ours)
            rates.append(size / ours / 1e9)
    print(f"cold GET of {size / 1e9:.0f} GB: {statistics.median(rates):.2f} GB/s, x{spread(ratios)} of nginx", flush=True)


def million(rounds, count=1_000_000):
    fresh()
    with node():
        make_bucket("bench")
        begun = time.monotonic()
        client(STORE_PORT, "/bench/object-", 16, 64, count)
        filled = time.monotonic() - begun
        rates = []
        for _ in range(rounds):
            begun = time.monotonic()
            out = subprocess.run([MILLRACE, "ls", "-r", f"http://127.0.0.1:{STORE_PORT}/bench/"], capture_output=True, check=True).stdout
            rates.append(out.count(b"\n") / (time.monotonic() - begun))
            if out.count(b"\n") != count:
                raise SystemExit(f"the list has {out.count(b'chr(10)')} of {count} keys")
    print(f"filled with {count} objects in {filled:.0f} s; listed through HTTP: {statistics.median(rates):.0f} keys/s [{min(rates):.0f} to {max(rates):.0f}]")
    starts = []
    for _ in range(rounds):
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
    print(f"start with {count} objects: {statistics.median(starts):.2f} s [{min(starts):.2f} to {max(starts):.2f}]; after kill -9: {max(killed):.2f} s", flush=True)


if __name__ == "__main__":
    import argparse
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["put", "put_small", "cold", "million"])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for name in options.names:
        {"put": put_large, "put_small": put_small, "cold": cold, "million": million}[name](options.rounds)
