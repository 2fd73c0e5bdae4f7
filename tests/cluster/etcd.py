"""Members of an etcd for a test, killed and restarted by pid."""
import contextlib
import http.client
import json
import os
import shutil
import subprocess

from store_client import wait_until


def has_etcd():
    return shutil.which("etcd") is not None


class Member:
    def __init__(self, directory, place):
        self.directory, self.place = directory, place
        self.client_port, self.peer_port = place.port(2379), place.port(2380)
        self.process = None
        directory.mkdir()

    @property
    def client(self):
        return f"{self.place.host}:{self.client_port}"

    @property
    def peer(self):
        return f"http://{self.place.host}:{self.peer_port}"

    def start(self, everyone):
        with open(self.directory / "etcd.log", "ab") as log:
            self.process = subprocess.Popen(
                [*self.place.before, "etcd", "--name", self.place.name, "--data-dir", str(self.directory / "etcd"),
                 "--listen-client-urls", f"http://{self.client}", "--advertise-client-urls", f"http://{self.client}",
                 "--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer,
                 "--initial-cluster", ",".join(f"{one.place.name}={one.peer}" for one in everyone)],
                # Debian's etcd wants to be told that arm64 is no mistake; others ignore it.
                stdout=log, stderr=log, env={**os.environ, "ETCD_UNSUPPORTED_ARCH": "arm64"})

    def kill(self):
        if self.is_running:
            self.process.kill()
            self.process.wait()

    @property
    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def status(self):
        """What the member says of itself; None where it does not answer."""
        connection = http.client.HTTPConnection(self.place.host, self.client_port, timeout=2)
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError), contextlib.closing(connection):
            connection.request("POST", "/v3/maintenance/status", "{}")
            told = json.loads(connection.getresponse().read())
            return told if told.get("leader") else None

    @property
    def leads(self):
        told = self.status()
        return told is not None and told["leader"] == told["header"]["member_id"]


class Etcd:
    def __init__(self, directory, network, count=3):
        directory.mkdir()
        self.members = [Member(directory / f"e{number}", network.add(f"e{number}")) for number in range(count)]

    @property
    def address(self):
        return "etcd://" + ",".join(member.client for member in self.members)

    def start(self):
        for member in self.members:
            if not member.is_running:
                member.start(self.members)
        wait_until(lambda: all(member.status() for member in self.members), "etcd has no leader", 60)

    def close(self):
        for member in self.members:
            member.kill()
