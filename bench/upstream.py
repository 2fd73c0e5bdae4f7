#!/usr/bin/python3
"""A bucket in front of nginx: the first read of an object against reading nginx directly, and the second against any object.

    ./dev bench upstream

The same client (curl) reads the same bytes by turns. Every cold read is of an object that the node has not seen. Three upstreams: as fast as
loopback is, 400 MB/s and 100 MB/s for each connection. Nothing is pinned: upstream, node, drive and client share the cores.
"""
import os
import pathlib
import shutil
import subprocess
import time
import urllib.request

import verdicts
from verdicts import at_most, judge

ROOT = pathlib.Path(__file__).resolve().parent.parent
MILLRACE = str(ROOT / "build/release/millrace")
WORK = ROOT / "build/bench-upstream"
NGINX_PORT, NODE_PORT = 9481, 9480
SIZE = 256 << 20
# name, limit of nginx for each connection, goal of cold / direct
CASES = [("as fast as loopback", "", at_most(1.05)), ("400 MB/s a connection", "limit_rate 400m;", at_most(1.05)), ("100 MB/s a connection", "limit_rate 100m;", at_most(1.05))]

NGINX = """
daemon off;
worker_processes 1;
pid {work}/nginx.pid;
error_log {work}/nginx-error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {work}/tmp; proxy_temp_path {work}/tmp; fastcgi_temp_path {work}/tmp; uwsgi_temp_path {work}/tmp; scgi_temp_path {work}/tmp;
  sendfile on;
  tcp_nopush on;
  server {{
    listen 127.0.0.1:{port};
    {locations}
  }}
}}
"""


def seconds_of(url):
    """One GET; how long it took."""
    done = subprocess.run(["curl", "-sf", "-o", "/dev/null", "-w", "%{time_total} %{size_download}", url], capture_output=True, text=True, check=True)
    seconds, size = done.stdout.split()
    assert int(size) == SIZE
    return float(seconds)


def ask(method, path, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{NODE_PORT}{path}", method=method, data=body)
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.headers


def wait_until_stored(path):
    while ask("HEAD", path).get("x-millrace-cached") != "yes":
        time.sleep(0.01)


class Servers:
    def __enter__(self):
        shutil.rmtree(WORK, ignore_errors=True)
        (WORK / "files").mkdir(parents=True)
        (WORK / "tmp").mkdir()
        (WORK / "files/object").write_bytes(os.urandom(SIZE))
        locations = "\n".join(f"location /{number}/ {{ {limit} root {WORK}/files; rewrite .* /object break; }}" for number, (_, limit, _) in enumerate(CASES))
        (WORK / "nginx.conf").write_text(NGINX.format(work=WORK, port=NGINX_PORT, locations=locations))
        self.processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(WORK / "log", "a")) for command in (
            ["nginx", "-c", str(WORK / "nginx.conf"), "-p", str(WORK), "-e", str(WORK / "nginx-error.log")],
            [MILLRACE, "up", "--data", str(WORK / "data"), "--listen", f"127.0.0.1:{NODE_PORT}", "--set", "scrub_rate=0"])]
        time.sleep(1.5)
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
            process.wait()
        shutil.rmtree(WORK, ignore_errors=True)


def run(table):
    with Servers():
        ask("PUT", "/own")
        subprocess.run(["curl", "-sf", "-T", str(WORK / "files/object"), f"http://127.0.0.1:{NODE_PORT}/own/object"], check=True)
        for number, (name, _, goal) in enumerate(CASES):
            ask("PUT", f"/cache{number}")
            ask("PUT", f"/-/buckets/cache{number}", f'{{"upstream": {{"url": "http://127.0.0.1:{NGINX_PORT}/{number}"}}}}'.encode())
            direct, cold, hot, ordinary = [], [], [], []
            seconds_of(f"http://127.0.0.1:{NGINX_PORT}/{number}/warm")
            for turn in range(table.rounds):
                direct.append(seconds_of(f"http://127.0.0.1:{NGINX_PORT}/{number}/{turn}"))
                cold.append(seconds_of(f"http://127.0.0.1:{NODE_PORT}/cache{number}/{turn}"))
                wait_until_stored(f"/cache{number}/{turn}")
                stored, own = f"http://127.0.0.1:{NODE_PORT}/cache{number}/{turn}", f"http://127.0.0.1:{NODE_PORT}/own/object"
                times = [(seconds_of(stored), seconds_of(own)) for _ in range(6)][1:]  # the first reads the drive
                hot.append(min(one for one, _ in times))
                ordinary.append(min(one for _, one in times))
            print(f"\nan upstream {name}, 256 MiB")
            for who, found in (("directly", direct), ("through the bucket, cold", cold), ("hot", hot), ("an ordinary object", ordinary)):
                print(f"  {who:<26} {SIZE / sorted(found)[len(found) // 2] / 1e9:6.2f} GB/s")
            judge(table, f"{name}: cold / direct, time", [ours / theirs for ours, theirs in zip(cold, direct)], goal)
            judge(table, f"{name}: hot / ordinary object, time", [ours / theirs for ours, theirs in zip(hot, ordinary)], at_most(1.1))


if __name__ == "__main__":
    verdicts.main(__doc__, {"upstream": run})
