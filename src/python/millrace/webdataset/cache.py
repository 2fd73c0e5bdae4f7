"""Keeps shards on a local drive after they are first read.

A file appears in the cache under its name only when it is whole; its name carries a hash of the address, so shards of
one name from two places stay two. Any number of processes may share a cache.
"""
from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
import time
from typing import Any, Callable, Iterable, Iterator, Optional
from urllib.parse import urlparse

from ..errors import UnsupportedError
from . import gopen, tariterators
from .filters import pipelinefilter
from .handlers import reraise_exception

default_cache_dir = os.environ.get("WDS_CACHE", "./_cache")
default_cache_size = float(os.environ.get("WDS_CACHE_SIZE", "1e18"))
_CHUNK = 1 << 20


def islocal(url: str) -> bool:
    return urlparse(url).scheme in ("", "file")


def pipe_cleaner(spec: str) -> str:
    """The address inside "pipe:curl -s https://…"; anything else as it is."""
    if spec.startswith("pipe:"):
        words = [word for word in spec[len("pipe:"):].split() if re.match(r"^[a-z][a-z0-9+]*://", word)]
        if words:
            return words[0]
    return spec


def url_to_cache_name(url: str, ndir: int = 0) -> str:
    assert isinstance(url, str), f"an address is text, not {url!r}"
    digest = hashlib.blake2b(url.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    base = re.sub(r"[^\w.+-]", "_", os.path.basename(urlparse(pipe_cleaner(url)).path))[-120:] or "shard"
    return f"{digest}-{base}"


class LRUCleanup:
    """Removes the files used longest ago until the directory is small enough."""

    def __init__(self, cache_dir: str, cache_size: float = 1e12, keyfn: Callable[[str], float] = os.path.getatime,
                 verbose: bool = False, interval: Optional[float] = 30) -> None:
        self.cache_dir, self.cache_size, self.keyfn = cache_dir, cache_size, keyfn
        self.verbose, self.interval, self.last_run = verbose, interval, float("-inf")

    def set_cache_dir(self, cache_dir: str) -> None:
        self.cache_dir = cache_dir

    def cleanup(self) -> None:
        if self.interval is not None and time.monotonic() - self.last_run < self.interval:
            return
        self.last_run = time.monotonic()
        files = []
        for folder, _, names in os.walk(self.cache_dir):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    files.append((self.keyfn(path), os.path.getsize(path), path))
                except FileNotFoundError:
                    continue  # another process was quicker
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.cache_size:
                return
            if self.verbose:
                print(f"# cache: removing {path}", file=sys.stderr)
            try:
                os.remove(path)
            except FileNotFoundError:
                pass
            total -= size


def download(url: str, dest: str, chunk_size: int = _CHUNK, verbose: bool = False) -> None:
    """The whole object under its name, or nothing."""
    folder = os.path.dirname(dest) or "."
    with gopen.gopen(url) as stream, tempfile.NamedTemporaryFile(dir=folder, prefix=".part-", delete=False) as part:
        try:
            while chunk := stream.read(chunk_size):
                part.write(chunk)
            part.flush()
            os.fchmod(part.fileno(), 0o644)
            os.fsync(part.fileno())
            os.replace(part.name, dest)
        except BaseException:
            os.unlink(part.name)
            raise


class FileCache:
    """{"url": …} to {"url", "stream", "local_path"} through the cache. Local files stay where they are."""

    def __init__(self, cache_dir: Optional[str] = None, *, url_to_name: Callable[[str], str] = url_to_cache_name,
                 verbose: bool = False, validator: Optional[Callable[[str], bool]] = None,
                 handler: Callable[[BaseException], bool] = reraise_exception, cache_size: float = -1,
                 cache_cleanup_interval: float = 30) -> None:
        # pipe_cleaner was WebDataset's default here although it gives addresses, which name no file.
        self.url_to_name = url_to_cache_name if url_to_name is pipe_cleaner else url_to_name
        self.cache_dir = default_cache_dir if cache_dir is None else cache_dir
        self.verbose, self.validator, self.handler = verbose, validator, handler
        self.cleaner = None
        if cache_size > 0:
            self.cleaner = LRUCleanup(self.cache_dir, cache_size, verbose=verbose, interval=cache_cleanup_interval)

    def get_file(self, url: str) -> str:
        local = tariterators.local_path_of(url)
        if local is not None:
            return local
        name = self.url_to_name(url)
        if "/" in name or name in ("", ".", ".."):
            raise ValueError(f"url_to_name gave {name!r} for {url}: a file name without / is needed")
        os.makedirs(self.cache_dir, exist_ok=True)
        path = os.path.join(self.cache_dir, name)
        if os.path.exists(path):
            os.utime(path)
            return path
        if self.verbose:
            print(f"# cache: {url} to {path}", file=sys.stderr)
        if self.cleaner is not None:
            self.cleaner.cleanup()
        download(url, path)
        if self.validator is not None and not self.validator(path):
            os.remove(path)
            raise ValueError(f"{url}: what was downloaded is no valid shard")
        return path

    def __call__(self, urls: Iterable[Any]) -> Iterator[dict]:
        for url in urls:
            url = url["url"] if isinstance(url, dict) else url
            try:
                path = self.get_file(url)
                stream = open(path, "rb")
            except Exception as exn:
                if self.handler(exn):
                    continue
                return
            yield {"url": url, "stream": stream, "local_path": path}
            del stream  # it stays open as long as somebody has it


class StreamingOpen:
    """{"url": …} to {"url", "stream"}, and "local_path" for files."""

    def __init__(self, verbose: bool = False, handler: Callable[[BaseException], bool] = reraise_exception) -> None:
        self.verbose, self.handler = verbose, handler

    def __call__(self, urls: Iterable[Any]) -> Iterator[dict]:
        for source in tariterators.url_opener(
                (url if isinstance(url, dict) else {"url": url} for url in urls), handler=self.handler):
            local = tariterators.local_path_of(source["url"])
            yield source if local is None else {**source, "local_path": local}


def cached_url_opener(data: Iterable[Any], handler: Callable[[BaseException], bool] = reraise_exception, cache_size: float = -1,
                      cache_dir: Optional[str] = None, url_to_name: Callable[[str], str] = pipe_cleaner,
                      validator: Optional[Callable[[str], bool]] = None, verbose: bool = False,
                      always: bool = False) -> Iterator[dict]:
    """{"url": …} to streams through the cache, for programs of WebDataset's earlier versions."""
    if always:
        raise UnsupportedError("local files are not copied into the cache", hint="leave out always=True")
    return FileCache(cache_dir, url_to_name=url_to_name, verbose=verbose, validator=validator, handler=handler,
                     cache_size=cache_size)(data)


def cached_tarfile_samples(src: Iterable[Any], handler: Callable[[BaseException], bool] = reraise_exception,
                           cache_size: float = -1, cache_dir: Optional[str] = None,
                           url_to_name: Callable[[str], str] = pipe_cleaner, verbose: bool = False, always: bool = False,
                           select_files: Optional[Callable[[str], bool]] = None,
                           rename_files: Optional[Callable[[str], str]] = None) -> Iterator[dict]:
    """{"url": …} to samples through the cache."""
    streams = cached_url_opener(src, handler, cache_size, cache_dir, url_to_name, None, verbose, always)
    files = tariterators.tar_file_expander(streams, handler=handler, select_files=select_files, rename_files=rename_files)
    return tariterators.group_by_keys(files, handler=handler)


cached_tarfile_to_samples = pipelinefilter(cached_tarfile_samples)
