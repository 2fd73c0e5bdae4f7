"""A web server for tests that serves real files and, where it is told to, goes wrong: on plain sockets, so that it can
cut, reset and stall at any byte.

    with Server(directory) as server:
        server.trouble = once(lambda ask: ask.answer(cut_after=1000))
        list(Dataset(server.url("a.tar")).label("cls").batch(4).epoch(0))

`trouble(ask)` is shown every request and returns True where it has dealt with it. Everything else is served as a good
server would: HEAD, ranges, entity tags, If-Match.
"""
import contextlib
import hashlib
import pathlib
import re
import socket
import struct
import threading


class Ask:
    """One request, and the ways to answer it."""

    def __init__(self, server, connection, head):
        lines = head.split("\r\n")
        self.method, self.path, _ = lines[0].split(" ", 2)
        self.headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        self.server = server
        self.connection = connection

    @property
    def is_data(self):
        """A GET of a shard's bytes, not of an index."""
        return self.method == "GET" and self.path.endswith(".tar")

    def send(self, status, headers=(), body=b""):
        head = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers)]
        self.connection.sendall("\r\n".join([*head, "", ""]).encode() + (b"" if self.method == "HEAD" else body))
        return True

    def fail(self, status, *headers):
        return self.send(status, [("content-length", 0), *headers])

    def reset(self):
        """The peer sees ECONNRESET."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return self.close()

    def close(self):
        self.connection.close()
        return True

    def answer(self, cut_after=None, change=lambda body: body, length=True, tag=None, then=None):
        """As a good server, but: only so many bytes of the body; other bytes; no length; another entity tag. `then` is
        called at the cut, and decides how the connection ends."""
        body = self.server.read(self.path)
        if body is None:
            return self.fail(404)
        tag = tag or f'"{hashlib.md5(body).hexdigest()}"'
        if self.headers.get("if-match", tag) != tag:
            return self.fail(412)
        headers, status = [("etag", tag), ("accept-ranges", "bytes")], 200
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", "")):
            first, last = int(asked[1]), min(int(asked[2] or len(body)), len(body) - 1)
            headers.append(("content-range", f"bytes {first}-{last}/{len(body)}"))
            body, status = body[first:last + 1], 206
        headers.append(("content-length", len(body)) if length else ("connection", "close"))
        body = change(body)
        self.send(status, headers, body[:cut_after])
        if cut_after is not None and cut_after < len(body):
            return (then or self.close)()
        return True if length else self.close()


class Server:
    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.trouble = lambda ask: False
        self.asked = []  # (method, path) of every request
        self.lock = threading.Lock()
        self.open = set()
        self.listening = None
        self.port = 0

    def url(self, names):
        return f"http://127.0.0.1:{self.port}/{names}"

    def count(self, method="GET", suffix=".tar"):
        with self.lock:
            return sum(asked == method and path.endswith(suffix) for asked, path in self.asked)

    def read(self, path):
        file = self.directory / path.split("?")[0].lstrip("/")
        return file.read_bytes() if file.is_file() else None

    def start(self):
        self.listening = socket.create_server(("127.0.0.1", self.port))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self._accept, args=(self.listening,), daemon=True).start()
        return self

    def stop(self):
        """As if it were killed: nobody listens, open connections are reset."""
        # Without the shutdown the thread in accept() would keep the port open.
        with contextlib.suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        with self.lock:
            connections, self.open = self.open, set()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self, listening):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with self.lock:
                    self.open.add(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        received = b""
        with contextlib.suppress(OSError), connection:
            while connection.fileno() >= 0:
                while b"\r\n\r\n" not in received:
                    got = connection.recv(65536)
                    if not got:
                        return
                    received += got
                head, received = received.split(b"\r\n\r\n", 1)
                ask = Ask(self, connection, head.decode())
                with self.lock:
                    self.asked.append((ask.method, ask.path))
                if not self.trouble(ask):
                    ask.answer()
        with self.lock:
            self.open.discard(connection)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


class Trouble:
    """Does `action` for the first `count` requests that `when` picks (None: all); `happened` counts them."""

    def __init__(self, count, action, when):
        self.count = count
        self.action = action
        self.when = when
        self.happened = 0
        self.lock = threading.Lock()

    def __call__(self, ask):
        if not self.when(ask):
            return False
        with self.lock:
            if self.happened == self.count:
                return False
            self.happened += 1
        return self.action(ask)


def times(count, action, when=lambda ask: ask.is_data):
    return Trouble(count, action, when)


def once(action, when=lambda ask: ask.is_data):
    return Trouble(1, action, when)


def always(action, when=lambda ask: ask.is_data):
    return Trouble(None, action, when)
