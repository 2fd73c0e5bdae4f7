"""A real node for a test: started on a free port of loopback or of another address, stopped by pid, restarted on the same data."""
import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import time
import urllib.parse

from program import HANG_SECONDS, binary


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def lasting_port():
    """A free port that stays free while its node is down: the kernel gives none of these to outgoing connections."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        end = int(file.read().split()[0])
    while True:
        port = random.randrange(10_000, max(end, 11_000))
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


class Answer:
    def __init__(self, response, body):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        """The S3 error code, if the answer is one."""
        start = self.body.find(b"<Code>")
        return self.body[start + 6 : self.body.find(b"</Code>")].decode() if start >= 0 else ""


class Node:
    # Words before the command, such as those that enter a network namespace. They must exec it: signals go to its pid.
    before = ()

    def __init__(self, directory, *flags, env=None, program=None, listen=None, port=None, host="127.0.0.1"):
        self.directory = directory
        self.host = host
        self.flags = list(map(str, flags))
        self.env = env or {}
        self.program = program or binary()
        self.port = port or free_port()
        self.listen = listen or f"{host}:{self.port}"
        self.process = None

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    def start(self, wait=True, env=None):
        self.log = open(self.directory / "node.log", "ab")
        command = [*self.before, self.program, "up", "--data", str(self.directory / "data"), "--listen", self.listen, "--set", "short_names=on", *self.flags]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env={**os.environ, **self.env, **(env or {})})
        if wait:
            self.wait_until_ready()
        return self

    def wait_until_ready(self):
        until = time.monotonic() + HANG_SECONDS
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise AssertionError(f"the node ended with {self.process.returncode}: {self.said()[-2000:]}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.ask("GET", "/-/ready").status == 200:
                    return
            time.sleep(0.02)
        raise AssertionError("the node did not become ready: " + self.said()[-2000:])

    def said(self):
        return (self.directory / "node.log").read_text(errors="replace")

    def ask(self, method, path, body=None, headers=None, timeout=60):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        # This client follows no redirects: a node of a cluster relays what it does not have.
        headers = {"x-millrace-redirect": "no", **(headers or {})}
        try:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            return Answer(response, response.read())
        finally:
            connection.close()

    def put(self, path, body, **headers):
        return self.ask("PUT", path, body, {name.replace("_", "-"): value for name, value in headers.items()})

    def get(self, path, **headers):
        return self.ask("GET", path, None, {name.replace("_", "-"): value for name, value in headers.items()})

    def keys(self, bucket, prefix=""):
        """Every key of a bucket, through all pages."""
        keys, token = [], None
        while True:
            query = {"list-type": "2", "prefix": prefix, "encoding-type": "url"}
            if token:
                query["continuation-token"] = token
            answer = self.ask("GET", f"/{bucket}?" + urllib.parse.urlencode(query))
            assert answer.status == 200, answer.body
            text = answer.body.decode()
            keys += [urllib.parse.unquote(part.split("</Key>")[0]) for part in text.split("<Key>")[1:]]
            if "<IsTruncated>true" not in text:
                return keys
            token = text.split("<NextContinuationToken>")[1].split("<")[0]

    def stop(self):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=HANG_SECONDS)
        assert self.process.returncode == 0, self.said()[-3000:]

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=HANG_SECONDS)

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        if self.process is None or self.process.poll() is not None:
            return
        if kind is None:
            self.stop()
        else:
            self.kill()
