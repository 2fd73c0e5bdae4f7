"""gopen: a stream of bytes for an address. gopen_schemes is the place to add schemes of one's own.

http, https, s3 and mr go through Millrace's engine, which mends cut connections. pipe: runs a shell command and is
refused unless MILLRACE_ALLOW_PIPE=1.
"""
from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from typing import Any, Callable, Dict, Optional
from urllib.parse import urlparse
from urllib.request import url2pathname

from .. import _core
from ..errors import DeniedError, InvalidError, IoError
from . import utils

# What a program wants to see beside its errors; WebDataset's users fill it with the name of their node.
info: Dict[str, Any] = {}

# A writer that closes the pipe early ends most programs with this status.
_BROKEN_PIPE = 141


class Pipe(io.RawIOBase):
    """A shell command's output (or input) as a stream. Its failure is an exception at the end, not an early end."""

    def __init__(self, command: str, mode: str = "rb") -> None:
        self.command = command
        self.reading = mode == "rb"
        stream = {"stdout" if self.reading else "stdin": subprocess.PIPE}
        self.process = subprocess.Popen(["/bin/sh", "-c", command], **stream)
        self.stream: Any = self.process.stdout if self.reading else self.process.stdin

    def readable(self) -> bool:
        return self.reading

    def writable(self) -> bool:
        return not self.reading

    def readinto(self, buffer: Any) -> int:
        got = self.stream.readinto(buffer)
        if got == 0:
            self._check(self.process.wait())
        return got

    def write(self, data: Any) -> int:
        return self.stream.write(data)

    def _check(self, status: int) -> None:
        if status not in (0, _BROKEN_PIPE):
            beside = f" {info}" if info else ""
            raise IoError(f"pipe:{self.command} ended with status {status}{beside}", shard=f"pipe:{self.command}")

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self.stream.close()
        if self.reading:
            if self.process.poll() is None:
                self.process.terminate()
            self.process.wait()
        else:
            self._check(self.process.wait())


class _Object(io.RawIOBase):
    """An object of a store, read by the engine."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.reader = _core.ByteReader(url)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.reader.read(len(buffer))
        buffer[:len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self.reader.close()


def gopen_pipe(url: str, mode: str = "rb", bufsize: int = 8192, **kw: Any) -> Any:
    utils.check_security("gopen_pipe: unsafe_gopen is False, cannot open pipe URLs")
    if not utils.allowed("pipe"):
        raise DeniedError(f"{url}: shell commands are not run", shard=url,
                          hint="set MILLRACE_ALLOW_PIPE=1 if you trust who wrote this address")
    return Pipe(url[len("pipe:"):], mode) if mode == "wb" else io.BufferedReader(Pipe(url[len("pipe:"):]), 1 << 20)


def gopen_native(url: str, mode: str = "rb", bufsize: int = 8192, **kw: Any) -> Any:
    if mode != "rb":
        raise InvalidError(f"{url}: use ShardWriter or TarWriter to write to a store", shard=url)
    return io.BufferedReader(_Object(url), 1 << 20)


def gopen_error(url: str, *args: Any, **kw: Any) -> Any:
    scheme = urlparse(url).scheme
    raise ValueError(f"{url}: no gopen handler defined for {scheme}: put a function(url, mode, bufsize) into "
                     f"gopen_schemes[{scheme!r}]")


gopen_schemes: Dict[str, Callable] = {
    "__default__": gopen_error, "pipe": gopen_pipe, "http": gopen_native, "https": gopen_native, "s3": gopen_native,
    "mr": gopen_native,
}


def rewrite_url(url: str) -> str:
    """The first rule of GOPEN_REWRITE="pattern=text;pattern=text" that fits the start of the address."""
    rules = os.environ.get("GOPEN_REWRITE")
    if not rules:
        return url
    utils.check_security("rewrite_url: unsafe_gopen is False, cannot rewrite URLs using environment variables")
    for rule in rules.split(";"):
        pattern, _, text = rule.partition("=")
        rewritten = re.sub("^" + pattern, text, url)
        if rewritten != url:
            return rewritten
    return url


def native_name(url: str) -> Optional[str]:
    """What the engine should open for this address; None where Python must."""
    if url == "-":
        return url
    url = rewrite_url(url)
    parsed = urlparse(url)
    if parsed.scheme == "":
        return url
    if parsed.scheme == "file":
        return url2pathname(parsed.path)
    return url if gopen_schemes.get(parsed.scheme) is gopen_native else None


def check_local(url: str) -> None:
    """Refuses local files where security is enforced."""
    if urlparse(url).scheme in ("", "file"):
        utils.check_security("gopen: unsafe_gopen is False, cannot open local files")


def gopen(url: str, mode: str = "rb", bufsize: int = 8192, **kw: Any) -> Any:
    if mode not in ("rb", "wb"):
        raise ValueError(f"{url}: mode is rb or wb, not {mode}")
    if url == "-":
        return sys.stdin.buffer if mode == "rb" else sys.stdout.buffer
    url = rewrite_url(url)
    parsed = urlparse(url)
    if parsed.scheme in ("", "file"):
        check_local(url)
        return open(url2pathname(parsed.path) if parsed.scheme else url, mode)
    return gopen_schemes.get(parsed.scheme, gopen_schemes["__default__"])(url, mode, bufsize, **kw)


def reader(url: str, **kw: Any) -> Any:
    return gopen(url, "rb", **kw)
