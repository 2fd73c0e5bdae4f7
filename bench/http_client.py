#!/usr/bin/python3
"""Our HTTP clients against libcurl, by turns in the same minutes, against the same servers.

    ./dev bench http_client
    ./dev bench http_client_https

One thread each. GETs of 4 KB one after the other (Client, and curl's easy interface) and 64 at once (AsyncClient, and
curl's multi interface), GETs and PUTs of 100 MB. The server is pinned to one core and the client to the other. Reported:
the ratio of requests per second, and of the client's CPU time per request or per gigabyte, as median and spread of the rounds.
"""

import json
import pathlib
import statistics
import subprocess

import store_get
from verdicts import at_most, judge

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCH = str(ROOT / "build/release/bench/http_client_bench")
SMALL, LARGE = 4096, 100_000_000

# title, what, bytes, the last argument (connections, or nothing for PUT), servers, goal for the client's CPU.
# In a large GET all time is the kernel's copy, the same for both; curl's easy interface has no sendfile.
CASES = [("GET 4 KB, one after the other", "get", SMALL, "1", ("millrace", "nginx"), at_most(0.85)),
         ("GET 4 KB, 64 at once", "get", SMALL, "64", ("millrace", "nginx"), at_most(0.6)),
         ("GET 100 MB", "get", LARGE, "1", ("millrace", "nginx"), at_most(1.15)),
         ("PUT 100 MB", "put", LARGE, None, ("millrace",), at_most(0.6))]


def measure(servers, client, server, what, size, last, seconds):
    port = store_get.MILLRACE_PORT if server == "millrace" else store_get.NGINX_PORT
    name = size if what == "get" else "put"
    scheme = "https" if servers.https else "http"
    last = last or str(store_get.WORK / f"files/bench/{size}")
    command = ["taskset", "-c", "1", BENCH, client, what, f"{scheme}://127.0.0.1:{port}/bench/{name}", str(seconds), last]
    done = subprocess.run(store_get.in_namespace(command, servers.namespace), stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout)
    result["rate"] = result["requests"] / result["seconds"]
    result["cpu_us"] = result["cpu"] / result["requests"] * 1e6
    result["cpu_s_per_gb"] = result["cpu"] / (result["bytes"] / 1e9)
    return result


def run(table, https=False, seconds=2):
    with store_get.Servers(True, https, [SMALL, LARGE]) as servers:
        for title, what, size, last, against, goal in CASES:
            for server in against:
                results = {"ours": [], "curl": []}
                for client in results:
                    measure(servers, client, server, what, size, last, 0.3)
                for _ in range(table.rounds):
                    for client in results:
                        results[client].append(measure(servers, client, server, what, size, last, seconds))
                case = f"{title}, {server}" + (", TLS" if https else "")
                print(f"\n{case}")
                for client, runs in results.items():
                    median = {key: statistics.median(one[key] for one in runs) for key in ("rate", "cpu_us", "cpu_s_per_gb")}
                    print(f"  {client:<6} {median['rate']:10,.1f} requests/s {median['cpu_us']:12,.1f} us of CPU each "
                          f"{median['cpu_s_per_gb']:8.3f} CPU s/GB")
                pairs = list(zip(results["ours"], results["curl"]))
                judge(table, f"{case}: requests/s, ratio", [ours["rate"] / theirs["rate"] for ours, theirs in pairs])
                judge(table, f"{case}: client's CPU, ratio", [ours["cpu_us"] / theirs["cpu_us"] for ours, theirs in pairs],
                      None if https else goal)
