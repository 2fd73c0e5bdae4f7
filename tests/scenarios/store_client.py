"""What the tests of the store share: raw sockets, signatures, S3's XML, checksums and a look at the drive."""
import base64
import contextlib
import datetime
import hashlib
import hmac
import http.client
import io
import os
import socket
import struct
import tarfile
import threading
import time
import urllib.parse
import xml.etree.ElementTree as ElementTree
import zlib

from nodes import Answer

MIB = 1 << 20
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


def wait_until(condition, what="it never became true", seconds=60):
    """The result of `condition` as soon as it is true. The limit only ends a test that hangs."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(what)


def in_threads(count, work):
    """work(0) … work(count - 1) at once; their results in order. The first failure is raised."""
    results, failures = [None] * count, []

    def run(number):
        try:
            results[number] = work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results


class Wire:
    """One connection, byte by byte."""

    def __init__(self, node, timeout=30):
        self.socket = socket.create_connection((node.host, node.port), timeout=timeout)

    def send(self, text):
        self.socket.sendall(text.encode() if isinstance(text, str) else text)
        return self

    def answer(self, method="GET"):
        response = Pipelined(self.socket, method=method)
        response.begin()
        return Answer(response, response.read())

    def is_closed(self):
        """Whether the other side closes without a further byte; waits for it."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def until_closed(self):
        """All bytes until the other side closes."""
        came = bytearray()
        with contextlib.suppress(ConnectionResetError):
            while piece := self.socket.recv(1 << 16):
                came += piece
        return bytes(came)

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Pipelined(http.client.HTTPResponse):
    """A response that takes no byte of the next one from the socket."""

    def __init__(self, sock, method):
        super().__init__(sock, method=method)
        self.fp.close()
        self.fp = io.BufferedReader(OneByOne(sock), 1)


class OneByOne(io.RawIOBase):
    def __init__(self, sock):
        self.sock = sock

    def readable(self):
        return True

    def readinto(self, into):
        return self.sock.recv_into(into)


def exchange(node, text, method="GET"):
    with Wire(node) as wire:
        return wire.send(text).answer(method)


# XML.

def parse(answer):
    root = ElementTree.fromstring(answer.body)
    for element in root.iter():
        element.tag = element.tag.split("}")[-1]
    return root


def texts(root, path):
    return [element.text or "" for element in root.findall(path)]


# Signature version 4, written from the description and not from our code.

def sha256(text):
    return hashlib.sha256(text if isinstance(text, bytes) else text.encode()).hexdigest()


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signing_key(secret, day, region="us-east-1"):
    key = mac(("AWS4" + secret).encode(), day)
    for word in (region, "s3", "aws4_request"):
        key = mac(key, word)
    return key


def encoded(text):
    return urllib.parse.quote(text, safe="-_.~")


class Signer:
    """Asks a node with signed requests. `skew` moves the clock of the signature."""

    def __init__(self, node, access, secret, skew=0):
        self.node, self.access, self.secret, self.skew = node, access, secret, skew

    def now(self):
        return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=self.skew)

    def signature(self, method, path, query, headers, names, payload, stamp):
        scope = f"{stamp[:8]}/us-east-1/s3/aws4_request"
        canonical = "\n".join([method, path, "&".join(f"{encoded(k)}={encoded(v)}" for k, v in sorted(query)),
                               *[f"{name}:{headers[name]}" for name in names], "", ";".join(names), payload])
        return mac_hex(signing_key(self.secret, stamp[:8]), "\n".join(["AWS4-HMAC-SHA256", stamp, scope, sha256(canonical)]))

    def headers(self, method, target, body=b"", extra=None, payload=None):
        path, _, query = target.partition("?")
        stamp = self.now().strftime("%Y%m%dT%H%M%SZ")
        headers = {"host": f"{self.node.host}:{self.node.port}", "x-amz-date": stamp,
                   "x-amz-content-sha256": payload or sha256(body or b""), **{k.lower(): v for k, v in (extra or {}).items()}}
        names = sorted(name for name in headers if name != "content-length")
        items = urllib.parse.parse_qsl(query, keep_blank_values=True)
        self.seed = self.signature(method, path, items, headers, names, headers["x-amz-content-sha256"], stamp)
        self.stamp = stamp
        headers["authorization"] = (f"AWS4-HMAC-SHA256 Credential={self.access}/{stamp[:8]}/us-east-1/s3/aws4_request, "
                                    f"SignedHeaders={';'.join(names)}, Signature={self.seed}")
        return headers

    def ask(self, method, target, body=None, headers=None, payload=None):
        return self.node.ask(method, target, body, self.headers(method, target, body or b"", headers, payload))

    def presign(self, method, path, expires=60, query=()):
        stamp = self.now().strftime("%Y%m%dT%H%M%SZ")
        items = [*query, ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"), ("X-Amz-Credential", f"{self.access}/{stamp[:8]}/us-east-1/s3/aws4_request"),
                 ("X-Amz-Date", stamp), ("X-Amz-Expires", str(expires)), ("X-Amz-SignedHeaders", "host")]
        signature = self.signature(method, path, items, {"host": f"{self.node.host}:{self.node.port}"}, ["host"], "UNSIGNED-PAYLOAD", stamp)
        return path + "?" + "&".join(f"{encoded(k)}={encoded(v)}" for k, v in [*items, ("X-Amz-Signature", signature)])

    def chunk_signatures(self, chunks):
        """Of a body in signed chunks, after headers() has made the seed."""
        previous, found = self.seed, []
        for chunk in chunks:
            scope = f"{self.stamp[:8]}/us-east-1/s3/aws4_request"
            previous = mac_hex(signing_key(self.secret, self.stamp[:8]),
                               "\n".join(["AWS4-HMAC-SHA256-PAYLOAD", self.stamp, scope, previous, EMPTY_SHA256, sha256(chunk)]))
            found.append(previous)
        return found


def mac_hex(key, text):
    return mac(key, text).hex()


# Checksums.

def reflected_table(polynomial):
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (polynomial if byte & 1 else 0)
        table.append(byte)
    return table


def crc(data, table, ones):
    value = ones
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ ones


CRC32C, CRC64 = reflected_table(0x82F63B78), reflected_table(0x9A6C9329AC4BC9B5)


def base64_of(data):
    return base64.b64encode(data).decode()


CHECKSUMS = {
    "crc32": lambda data: struct.pack(">I", zlib.crc32(data)),
    "crc32c": lambda data: struct.pack(">I", crc(data, CRC32C, 0xFFFFFFFF)),
    "crc64nvme": lambda data: struct.pack(">Q", crc(data, CRC64, 0xFFFFFFFFFFFFFFFF)),
    "sha1": lambda data: hashlib.sha1(data).digest(),
    "sha256": lambda data: hashlib.sha256(data).digest(),
}


def md5_header(data):
    return base64_of(hashlib.md5(data).digest())


# Multipart uploads and shards.

def begin_upload(node, path, headers=None):
    answer = node.ask("POST", f"{path}?uploads", None, headers)
    assert answer.status == 200, answer.body
    return texts(parse(answer), "UploadId")[0]


def put_part(node, path, upload, number, body, headers=None):
    return node.ask("PUT", f"{path}?partNumber={number}&uploadId={upload}", body, headers)


def complete_xml(parts):
    return "<CompleteMultipartUpload>" + "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>" for number, etag in parts) + "</CompleteMultipartUpload>"


def complete(node, path, upload, parts, headers=None):
    return node.ask("POST", f"{path}?uploadId={upload}", complete_xml(parts), headers)


def put_in_parts(node, path, bodies):
    upload = begin_upload(node, path)
    parts = []
    for number, body in enumerate(bodies, 1):
        answer = put_part(node, path, upload, number, body)
        assert answer.status == 200, answer.body
        parts.append((number, answer.headers["etag"]))
    answer = complete(node, path, upload, parts)
    assert answer.status == 200, answer.body
    return answer


def make_tar(members, mode="w:"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def read_tar(data):
    """(name, content) of every file, as Python reads them."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return [(member.name, archive.extractfile(member).read()) for member in archive]


# The machine.

def stored_files(node):
    """Every file of objects and of what is being written."""
    drive = node.directory / "data" / "drive"
    return sorted(path for folder in ("data", "tmp") for path in (drive / folder).rglob("*") if path.is_file())


def new_files(node, before):
    """Those that were not there before. Files of earlier tests may still be going away, so counts say nothing."""
    return set(stored_files(node)) - set(before)


def open_descriptors(node):
    return len(os.listdir(f"/proc/{node.process.pid}/fd"))


def resident_bytes(node):
    with open(f"/proc/{node.process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
