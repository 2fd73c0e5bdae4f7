#!/usr/bin/python3
"""GET against nginx: the same files, the same light client, one serving thread each, by turns in the same minutes.

    ./dev bench get              plain, Reno for both (a network namespace whose default it is)
    ./dev bench get_bbr          as the host comes, where its default is BBR
    ./dev bench get_https        TLS 1.3, AES-128-GCM
    ./dev bench get_beside       how long a small object takes while the same thread sends large ones

The server is pinned to one core and the client to the other. Reported per size and number of connections: the ratio
of requests per second, and of the server's CPU time per request, as median and spread of the rounds.
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

from verdicts import at_least, at_most, conclude, judge

ROOT = pathlib.Path(__file__).resolve().parent.parent
MILLRACE = str(ROOT / "build/release/millrace")
LOAD = str(ROOT / "build/release/bench/http_load")
WORK = ROOT / "build/bench-store"
NAMESPACE = "millrace-bench"
MILLRACE_PORT, NGINX_PORT = 9470, 9471

# name, bytes, connections, goals
MEDIUM = {"rate": at_least(1.25), "cpu": at_most(0.8)}
LARGE = {"rate": at_least(1.0), "cpu": at_most(1.0)}
CASES = [("4 KB", 4096, 64, {"rate": at_least(1.35), "cpu": at_most(0.75)}),
         ("64 KB", 65536, 1, {"rate": at_least(5), "slowest": at_most(10)}),
         ("64 KB", 65536, 16, MEDIUM), ("64 KB", 65536, 64, MEDIUM),
         ("1 MiB", 1 << 20, 16, LARGE), ("100 MB", 100_000_000, 4, LARGE)]
BBR_CASES = [("1 MiB", 1 << 20, 16, {"rate": at_least(2)})]
HTTPS_CASES = [("1 MiB", 1 << 20, 16, {"rate": at_least(1.1)}), ("100 MB", 100_000_000, 4, {"rate": at_least(1.1)})]

NGINX = """
worker_processes 1;
daemon off;
pid {work}/nginx.pid;
error_log {work}/nginx-error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {work}/nginx-tmp;
  proxy_temp_path {work}/nginx-tmp;
  fastcgi_temp_path {work}/nginx-tmp;
  uwsgi_temp_path {work}/nginx-tmp;
  scgi_temp_path {work}/nginx-tmp;
  sendfile on;
  tcp_nopush on;
  tcp_nodelay on;
  sendfile_max_chunk 2m;
  keepalive_requests 1000000000;
  open_file_cache max=10000 inactive=60s;
  open_file_cache_valid 60s;
  server {{
    listen 127.0.0.1:{port}{tls};
    root {work}/files;
    {certificate}
  }}
}}
"""


def in_namespace(command, use):
    return (["ip", "netns", "exec", NAMESPACE] if use else []) + command


def make_namespace():
    subprocess.run(["ip", "netns", "del", NAMESPACE], stderr=subprocess.DEVNULL)
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    subprocess.run(in_namespace(["ip", "link", "set", "lo", "up"], True), check=True)
    subprocess.run(in_namespace(["sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno"], True), check=True)


def cpu_seconds(pid):
    """User and system time of a process and its children."""
    total = 0.0
    tick = os.sysconf("SC_CLK_TCK")
    pids = [str(pid)] + subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
    for one in pids:
        fields = pathlib.Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / tick
    return total


def write_and_read_again(path, content):
    """What writing leaves in the page cache differs from what reading does; both servers get the latter."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    subprocess.run(["cat", str(path)], stdout=subprocess.DEVNULL, check=True)


class Servers:
    def __init__(self, namespace, https, sizes):
        self.namespace, self.https, self.sizes = namespace, https, sizes
        self.processes = []

    def __enter__(self):
        shutil.rmtree(WORK, ignore_errors=True)
        (WORK / "files/bench").mkdir(parents=True)
        (WORK / "nginx-tmp").mkdir()
        if self.namespace:
            make_namespace()
        scheme = "https" if self.https else "http"
        certificate = ""
        arguments = []
        if self.https:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                            "-subj", "/CN=localhost", "-keyout", str(WORK / "key.pem"), "-out", str(WORK / "cert.pem")],
                           check=True, stderr=subprocess.DEVNULL)
            certificate = (f"ssl_certificate {WORK}/cert.pem; ssl_certificate_key {WORK}/key.pem; ssl_protocols TLSv1.3; "
                           "ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;")
            arguments = ["--tls-cert", str(WORK / "cert.pem"), "--tls-key", str(WORK / "key.pem")]
        (WORK / "nginx.conf").write_text(NGINX.format(work=WORK, port=NGINX_PORT, tls=" ssl" if self.https else "", certificate=certificate))
        self.start("nginx", ["nginx", "-c", str(WORK / "nginx.conf"), "-p", str(WORK)], 0)
        self.start("millrace", [MILLRACE, "up", "--data", str(WORK / "data"), "--listen", f"127.0.0.1:{MILLRACE_PORT}", "--set", "threads=1",
                                "--set", "scrub_rate=0"] + arguments, 0)
        time.sleep(1.5)
        for size in self.sizes:
            path = WORK / f"files/bench/{size}"
            write_and_read_again(path, os.urandom(size))
            subprocess.run(in_namespace(["curl", "-skf", "-T", str(path), f"{scheme}://127.0.0.1:{MILLRACE_PORT}/bench/{size}"], self.namespace),
                           check=True, stdout=subprocess.DEVNULL)
        return self

    def start(self, name, command, core):
        process = subprocess.Popen(in_namespace(["taskset", "-c", str(core)] + command, self.namespace), stdout=subprocess.DEVNULL,
                                   stderr=open(WORK / f"{name}.log", "w"))
        setattr(self, name, process)
        self.processes.append(process)

    def __exit__(self, *_):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(timeout=30)
        if self.namespace:
            subprocess.run(["ip", "netns", "del", NAMESPACE])

    def ask(self, name, size, connections, seconds):
        """A client that has begun."""
        port = MILLRACE_PORT if name == "millrace" else NGINX_PORT
        command = [LOAD] + (["--tls"] if self.https else []) + ["127.0.0.1", str(port), f"/bench/{size}", str(connections), str(seconds)]
        return subprocess.Popen(in_namespace(["taskset", "-c", "1"] + command, self.namespace), stdout=subprocess.PIPE, text=True)

    def measure(self, name, size, connections, seconds):
        process = getattr(self, name)
        before = cpu_seconds(process.pid)
        result = answered(self.ask(name, size, connections, seconds))
        result["cpu"] = cpu_seconds(process.pid) - before
        result["rate"] = result["requests"] / result["seconds"]
        result["cpu_per_request"] = result["cpu"] / max(result["requests"], 1)
        return result


def answered(client):
    said = client.communicate()[0]
    if client.returncode != 0:
        raise SystemExit("the client failed")
    return json.loads(said)


def beside(table, small=4096, large=100_000_000, seconds=3):
    """One connection asks for a small object while four take large ones."""
    with Servers(True, False, [small, large]) as servers:
        results = {"millrace": [], "nginx": []}
        rates = {"millrace": [], "nginx": []}
        for who in results:
            servers.measure(who, large, 4, 0.3)
        for _ in range(table.rounds):
            for who in results:
                streams = servers.ask(who, large, 4, seconds)
                time.sleep(0.3)
                results[who].append(servers.measure(who, small, 1, seconds - 0.6))
                taken = answered(streams)
                rates[who].append(taken["bytes"] / taken["seconds"] / 1e9)
        print("\n4 KB on one connection, beside four of 100 MB")
        for who, runs in results.items():
            print(f"  {who:<10} p50 {statistics.median(one['p50'] for one in runs) * 1e3:.2f} ms, p99 {statistics.median(one['p99'] for one in runs) * 1e3:.2f} ms; "
                  f"the large ones {statistics.median(rates[who]):.2f} GB/s")
        pairs = list(zip(results["millrace"], results["nginx"]))
        judge(table, "small beside large: median latency, ratio", [ours["p50"] / theirs["p50"] for ours, theirs in pairs], at_most(1.0))
        judge(table, "small beside large: p99, ratio", [ours["p99"] / theirs["p99"] for ours, theirs in pairs], at_most(1.0))


def run(table, cases, namespace=True, https=False, seconds=2):
    with Servers(namespace, https, sorted({size for _, size, _, _ in cases})) as servers:
        for name, size, connections, goals in cases:
            results = {"millrace": [], "nginx": []}
            for who in results:
                servers.measure(who, size, connections, 0.3)
            for _ in range(table.rounds):
                for who in results:
                    results[who].append(servers.measure(who, size, connections, seconds))
            pairs = list(zip(results["millrace"], results["nginx"]))
            median = {who: {what: statistics.median(one[what] for one in runs) for what in ("rate", "cpu_per_request", "bytes", "seconds")}
                      for who, runs in results.items()}
            slowest = {who: max(one["slowest"] for one in runs) * 1e3 for who, runs in results.items()}
            case = f"{name}, {connections} connections" if connections > 1 else f"{name}, 1 connection"
            print(f"\n{case}" + (", TLS" if https else ""))
            for who, found in median.items():
                print(f"  {who:<10} {found['rate']:12,.0f} requests/s {found['bytes'] / found['seconds'] / 1e9:8.2f} GB/s "
                      f"{found['cpu_per_request'] * 1e6:10.1f} us of CPU each   slowest {slowest[who]:.1f} ms")
            judge(table, f"{case}: requests/s, ratio", [ours["rate"] / theirs["rate"] for ours, theirs in pairs], goals.get("rate"))
            judge(table, f"{case}: CPU per request, ratio", [ours["cpu_per_request"] / theirs["cpu_per_request"] for ours, theirs in pairs],
                  goals.get("cpu"))
            if "slowest" in goals:
                judge(table, f"{case}: slowest answer of all, ms", [slowest["millrace"]], goals["slowest"])


if __name__ == "__main__":
    import argparse
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host-default", action="store_true", help="the host's own congestion control for both")
    parser.add_argument("--https", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--case", action="append", help="only cases whose name contains this")
    options = parser.parse_args()
    known = HTTPS_CASES if options.https else BBR_CASES if options.host_default else CASES
    chosen = [case for case in known if not options.case or any(part in f"{case[0]}, {case[2]} connections" for part in options.case)]
    asked = argparse.Namespace(rounds=options.rounds, missed=[])
    run(asked, chosen, not options.host_default, options.https, options.seconds)
    conclude(asked)
