#!/usr/bin/python3
"""Two builds of the node against each other, by turns in the same minutes: what a change to the inside costs.

    bench/versions.py OLD/millrace NEW/millrace [--rounds 7] [--seconds 1.5]

Both serve the same objects, one serving thread each, pinned to the first core; the client has the second. Per case:
the ratio new / old of the rate, and of the node's CPU time per request, as median and spread of the rounds.
"""

import argparse
import json
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
import urllib.request

from store_get import LOAD, answered, cpu_seconds

PUT = str(pathlib.Path(LOAD).parent / "http_put")
# name, kind, bytes, connections, and how many PUTs a round has
CASES = [("GET 4 KB x64", "get", 4096, 64, 0), ("GET 64 KB x16", "get", 65536, 16, 0), ("GET 1 MiB x16", "get", 1 << 20, 16, 0),
         ("GET 100 MB x4", "get", 100_000_000, 4, 0), ("PUT 4 KB x64", "put", 4096, 64, 20_000), ("PUT 1 MiB x16", "put", 1 << 20, 16, 1_000),
         ("PUT 100 MB x2", "put", 100_000_000, 2, 10)]


class Side:
    """One build, serving."""

    def __init__(self, program, port, directory):
        self.port = port
        self.process = subprocess.Popen(["taskset", "-c", "0", program, "up", "--data", str(directory), "--listen", f"127.0.0.1:{port}", "--set", "threads=1",
                                         "--set", "scrub_rate=0"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready")
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit(f"{program} does not become ready")

    def measure(self, kind, size, connections, effort):
        where = ["127.0.0.1", str(self.port), f"/bench/{size}"] if kind == "get" else [str(self.port), f"/out/{size}-", str(size)]
        command = [LOAD] + where if kind == "get" else [PUT, "client"] + where
        before = cpu_seconds(self.process.pid)
        found = answered(subprocess.Popen(["taskset", "-c", "1", *command, str(connections), str(effort)], stdout=subprocess.PIPE, text=True))
        requests = found["requests"] if kind == "get" else effort
        return {"rate": requests / found["seconds"], "cpu": (cpu_seconds(self.process.pid) - before) / requests}

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)


def spread(values):
    return f"{statistics.median(values):.2f} [{min(values):.2f} to {max(values):.2f}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each GET")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    root = pathlib.Path(tempfile.mkdtemp(prefix="millrace-versions-", dir="."))
    sides = {}
    results = []
    try:
        sides = {"old": Side(options.old, 9474, root / "old"), "new": Side(options.new, 9475, root / "new")}
        for side in sides.values():
            for size in sorted({size for _, kind, size, _, _ in CASES if kind == "get"}):
                request = urllib.request.Request(f"http://127.0.0.1:{side.port}/bench/{size}", data=bytes(size), method="PUT")
                urllib.request.urlopen(request)
            urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{side.port}/out/first", data=b"x", method="PUT"))
        for name, kind, size, connections, count in CASES:
            rounds = {"rate": [], "cpu": []}
            for number in range(options.rounds + 1):
                order = ("old", "new") if number % 2 else ("new", "old")
                found = {who: sides[who].measure(kind, size, connections, options.seconds if kind == "get" else count) for who in order}
                if number == 0:
                    continue  # to warm up
                for what in rounds:
                    rounds[what].append(found["new"][what] / found["old"][what])
            results.append({"case": name, **rounds})
            if not options.json:
                print(f"{name:<16} rate {spread(rounds['rate']):<24} CPU per request {spread(rounds['cpu'])}", flush=True)
        if options.json:
            print(json.dumps(results))
    finally:
        for side in sides.values():
            side.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
