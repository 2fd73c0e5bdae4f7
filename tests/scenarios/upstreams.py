"""Upstreams for a test: a real nginx, a server that misbehaves as told, and a proxy that cuts connections."""
import contextlib
import http.server
import os
import shutil
import socket
import socketserver
import subprocess
import threading
import time

from nodes import free_port

CONFIGURATION = """
daemon off;
{user}
worker_processes 1;
pid {work}/nginx.pid;
error_log {work}/nginx-error.log;
events {{ worker_connections 512; }}
http {{
  log_format plain '$request_method $uri $status $body_bytes_sent';
  access_log {work}/access.log plain;
  client_body_temp_path {work}/tmp;
  proxy_temp_path {work}/tmp;
  fastcgi_temp_path {work}/tmp;
  uwsgi_temp_path {work}/tmp;
  scgi_temp_path {work}/tmp;
  sendfile on;
  server {{
    listen 127.0.0.1:{port};
    root {work}/files;
    location /slow/ {{ alias {work}/files/; limit_rate 2m; }}
    location /moved/ {{ return 302 /there/$uri; }}
    location ~ ^/there/+moved/(.*)$ {{ alias {work}/files/$1; }}
  }}
}}
"""


def nginx():
    return shutil.which("nginx") or next((path for path in ("/usr/sbin/nginx",) if os.path.exists(path)), None)


class Nginx:
    """A real nginx over a directory of files."""

    def __init__(self, directory):
        self.directory = directory / "nginx"
        self.files = self.directory / "files"
        self.files.mkdir(parents=True)
        (self.directory / "tmp").mkdir()
        # A test's directory is its owner's alone.
        user = "user root;" if os.geteuid() == 0 else ""
        self.port = free_port()
        (self.directory / "nginx.conf").write_text(CONFIGURATION.format(work=self.directory, port=self.port, user=user))
        self.process = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def put(self, name, content):
        path = self.files / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def requests(self, method="GET"):
        """The paths that were asked for, with the status and the bytes of each answer."""
        log = self.directory / "access.log"
        rows = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        return [(row[1], int(row[2]), int(row[3])) for row in rows if row[0] == method]

    def start(self):
        command = [nginx(), "-p", str(self.directory), "-c", str(self.directory / "nginx.conf"), "-e", str(self.directory / "nginx-error.log")]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for_port(self.port)
        return self

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()


def wait_for_port(port):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
            return
        time.sleep(0.02)
    raise AssertionError(f"nobody listens on port {port}")


class Misbehaving:
    """A server that gives what `answer(handler)` does; True: it has answered, else the plain object is given."""

    def __init__(self, content, answer=None, etag='"one"'):
        outer = self
        self.content, self.answer, self.etag = content, answer, etag
        self.asked = []
        self.lock = threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                with outer.lock:
                    outer.asked.append((self.command, self.path, dict(self.headers)))
                if outer.answer is None or not outer.answer(self):
                    self.give(outer.content, outer.etag)

            do_HEAD = do_GET

            def refuse(self, status):
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return True

            def give(self, content, etag, announced=None, headers=None):
                first, last, status = 0, len(content), 200
                asked = self.headers.get("Range")
                if self.headers.get("If-Match") not in (None, etag):
                    return self.refuse(412)
                if asked:
                    begin, _, end = asked.removeprefix("bytes=").partition("-")
                    first, last, status = int(begin), min(int(end) + 1 if end else len(content), len(content)), 206
                self.send_response(status)
                if status == 206:
                    self.send_header("Content-Range", f"bytes {first}-{last - 1}/{len(content)}")
                self.send_header("Content-Length", str(announced if announced is not None else last - first))
                if "Accept-Ranges" not in (headers or {}):
                    self.send_header("Accept-Ranges", "bytes")
                if etag:
                    self.send_header("ETag", etag)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command == "GET":
                    with contextlib.suppress(OSError):
                        self.wfile.write(content[first:last])
                return True

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def count(self, method):
        with self.lock:
            return sum(1 for asked, _, _ in self.asked if asked == method)

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Proxy:
    """Passes bytes to another port; its first `cuts` connections end after `after` bytes of answers."""

    def __init__(self, port, cuts=0, after=0):
        self.target, self.cuts, self.after = port, cuts, after
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open = True
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while self.open:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.carry, args=(client,), daemon=True).start()

    def take_cut(self, passed):
        with self.lock:
            if self.cuts == 0 or passed < self.after:
                return False
            self.cuts -= 1
            return True

    def carry(self, client):
        with contextlib.suppress(OSError), client, socket.create_connection(("127.0.0.1", self.target)) as server:
            threading.Thread(target=self.copy, args=(client, server), daemon=True).start()
            passed = 0
            while data := server.recv(65536):
                passed += len(data)
                client.sendall(data)
                if self.take_cut(passed):
                    client.shutdown(socket.SHUT_RDWR)
                    return

    @staticmethod
    def copy(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open = False
        self.listener.close()


def give_upstream(node, bucket, url, **settings):
    """Makes the bucket, in front of that upstream."""
    assert node.ask("PUT", f"/{bucket}").status == 200
    answer = set_upstream(node, bucket, url=url, **settings)
    assert answer.status == 200, answer.body
    return bucket


def set_upstream(node, bucket, **settings):
    import json
    return node.ask("PUT", f"/-/buckets/{bucket}", json.dumps({"upstream": settings}))
