"""What io_uring could save a server of small objects: epoll, a ring beside epoll, and a ring alone, by turns, with nothing else in the way.

    ./dev bench ring

The server (bench/ring_trial.cc) is pinned to one core and the light client to the other. Reported against epoll: the ratio of requests per second, and
of the server's CPU time per request.
"""
import itertools
import json
import pathlib
import statistics
import subprocess
import time

from store_get import LOAD, cpu_seconds

TRIAL = str(pathlib.Path(LOAD).parent / "ring_trial")
# A ring that holds a listening socket goes some time after its process: each server has a port of its own.
PORTS = itertools.count(9480)
WAYS = ("epoll", "together", "staying")


def measure(way, connections, seconds):
    port = str(next(PORTS))
    server = subprocess.Popen(["taskset", "-c", "0", TRIAL, way, port])
    try:
        time.sleep(0.2)
        before = cpu_seconds(server.pid)
        said = json.loads(subprocess.run(["taskset", "-c", "1", LOAD, "127.0.0.1", port, "/x", str(connections), str(seconds)],
                                         check=True, capture_output=True, text=True).stdout)
        return said["requests"] / said["seconds"], (cpu_seconds(server.pid) - before) / said["requests"]
    finally:
        server.kill()
        server.wait()


def spread(ratios):
    return f"{statistics.median(ratios):.2f} [{min(ratios):.2f} to {max(ratios):.2f}]"


def run(table, connections=64, seconds=2):
    rounds = [{way: measure(way, connections, seconds) for way in WAYS} for _ in range(table.rounds)]
    print(f"\n4 KB on {connections} connections, answered by 100 lines that do nothing else")
    for way in WAYS:
        rates = [one[way][0] / one["epoll"][0] for one in rounds]
        costs = [one[way][1] / one["epoll"][1] for one in rounds]
        print(f"  {way:<10} {statistics.median(one[way][0] for one in rounds):10,.0f} requests/s, of epoll's {spread(rates)}; CPU per request {spread(costs)}")
