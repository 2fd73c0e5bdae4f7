"""Reads archives as files and as samples.

tarfile_samples reads whole shards in the engine. url_opener, tar_file_expander and group_by_keys are the same in
three steps, for programs that put something of their own in between.
"""
from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Tuple

from .. import _core
from ..errors import CorruptError
from . import filters, gopen
from .handlers import reraise_exception

Handler = Callable[[BaseException], bool]

meta_prefix = "__"
meta_suffix = "__"
_META = r"__[^/]*__($|/)"
_NAME = re.compile(r"((?:.*/|)[^.]+)[.]([^/]*)", re.DOTALL)


def base_plus_ext(path: str) -> Tuple[Optional[str], Optional[str]]:
    """Key and field of a name, parted at the first dot of its last part."""
    match = _NAME.fullmatch(path)
    return (match.group(1), match.group(2)) if match else (None, None)


def valid_sample(sample: Any) -> bool:
    """A dict with something in it that nobody marked __bad__."""
    return isinstance(sample, dict) and len(sample) > 0 and not sample.get("__bad__", False)


# -- whole shards, in the engine ---------------------------------------------------------------------------------

def shard_samples(url: str, handler: Handler = reraise_exception, tags: Optional[dict] = None,
                  name: Optional[str] = None, fields: Optional[Iterable[str]] = None) -> Iterator[dict]:
    """One shard's samples. Faults of single samples and the end by damage go to the handler; the generator's value
    says whether to go on with other shards: damage ends its own shard only, whatever the handler says."""
    tags = {"__url__": url, **(tags or {})}
    stream = None
    try:
        name = name or gopen.native_name(url)
        stream = None if name is not None else gopen.gopen(url)
        samples = _core.SampleIterator(name or url, stream=stream, on_fault="mark", tags=tags,
                                       fields=None if fields is None else set(fields))
    except Exception as exn:
        return bool(handler(exn))
    try:
        while True:
            try:
                sample = next(samples)
            except StopIteration:
                return True
            except Exception as exn:
                return bool(handler(exn)) or isinstance(exn, CorruptError)
            if samples.fault is not None and not handler(samples.fault):
                return False
            yield sample
    finally:
        samples.close()
        if stream is not None:
            stream.close()


def tarfile_samples(src: Iterable[dict], handler: Handler = reraise_exception,
                    select_files: Optional[Callable[[str], bool]] = None,
                    rename_files: Optional[Callable[[str], str]] = None) -> Iterator[dict]:
    """{"url": …} to samples."""
    if select_files is not None or rename_files is not None:
        streams = url_opener(src, handler=handler)
        files = tar_file_expander(streams, handler=handler, select_files=select_files, rename_files=rename_files)
        yield from group_by_keys(files, handler=handler)
        return
    for source in src:
        if source["url"] != "-":
            gopen.check_local(gopen.rewrite_url(source["url"]))
        goes_on = yield from shard_samples(source["url"], handler)
        if not goes_on:
            return


tarfile_to_samples = filters.pipelinefilter(tarfile_samples)


# -- the same in steps -------------------------------------------------------------------------------------------

def url_opener(data: Iterable[Dict[str, Any]], handler: Handler = reraise_exception, **kw: Any) -> Iterator[dict]:
    """Adds a "stream" to each {"url": …}. It stays open as long as somebody has it."""
    for source in data:
        assert isinstance(source, dict) and "url" in source, f"url_opener: {source!r} has no url"
        try:
            stream = gopen.gopen(source["url"], **kw)
        except Exception as exn:
            if handler(exn):
                continue
            return
        yield {**source, "stream": stream}
        del stream


def tar_file_iterator(fileobj: Any, skip_meta: Optional[str] = _META, handler: Handler = reraise_exception,
                      select_files: Optional[Callable[[str], bool]] = None,
                      rename_files: Optional[Callable[[str], str]] = None, url: Optional[str] = None) -> Iterator[dict]:
    """The regular files of an open archive as {"fname": …, "data": …}."""
    name = url or getattr(fileobj, "name", None)
    with _core.FileIterator(name if isinstance(name, str) else repr(fileobj), stream=fileobj) as files:
        for fname, data in files:
            if "/" not in fname and fname.startswith(meta_prefix) and fname.endswith(meta_suffix):
                continue
            if skip_meta is not None and re.match(skip_meta, fname):
                continue
            try:
                fname = rename_files(fname) if rename_files else fname
                wanted = select_files is None or select_files(fname)
            except Exception as exn:
                if handler(exn):
                    continue
                return
            if wanted:
                yield {"fname": fname, "data": data}


class EndOfShard(dict):
    """What comes behind the last file of a shard: an empty dict. To programs that take it for a file, it is one without
    a name, which belongs to no sample. `cut` says that the shard ended by damage, in the file `member` if that is known."""

    _FILE = {"fname": "", "data": b""}

    def __init__(self, cut: bool = False, member: Optional[str] = None) -> None:
        super().__init__()
        self.cut, self.member = cut, member

    def __missing__(self, name: str) -> Any:
        return self._FILE[name]


def _is_whole(sample: Optional[dict], end: dict, keys: Callable[[str], tuple]) -> bool:
    """Whether a sample at the end of its shard has all its files: damage in a file of its own says no."""
    if not valid_sample(sample):
        return False
    return not getattr(end, "cut", False) or (end.member is not None and keys(end.member)[0] != sample["__key__"])


def tar_file_expander(data: Iterable[Dict[str, Any]], handler: Handler = reraise_exception,
                      select_files: Optional[Callable[[str], bool]] = None,
                      rename_files: Optional[Callable[[str], str]] = None,
                      eof_value: Optional[Any] = {}) -> Iterator[dict]:
    """The files of each {"url": …, "stream": …}, and `eof_value` behind the last one of each. Damage ends its own shard
    only, whatever the handler says."""
    for source in data:
        url, local_path = source["url"], source.get("local_path")
        try:
            for file in tar_file_iterator(source["stream"], handler=handler, select_files=select_files,
                                          rename_files=rename_files, url=url):
                file["__url__"] = url
                if local_path is not None:
                    file["__local_path__"] = local_path
                yield file
        except Exception as exn:
            if not handler(exn) and not isinstance(exn, CorruptError):
                return
            if eof_value is not None:
                yield EndOfShard(cut=True, member=getattr(exn, "member", None))
            continue
        if eof_value is not None:
            yield EndOfShard() if eof_value == {} else eof_value


def group_by_keys(data: Iterable[Dict[str, Any]], keys: Callable[[str], tuple] = base_plus_ext, lcase: bool = True,
                  suffixes: Optional[Iterable[str]] = None,
                  handler: Handler = reraise_exception) -> Iterator[dict]:
    """Runs of files with one key to samples. A key that returns and a field that comes twice are told to the
    handler; if that goes on, the run is a sample of its own and the first field stays."""
    sample: Optional[dict] = None
    seen: set = set()
    url = None
    for file in data:
        if file == {}:
            if _is_whole(sample, file, keys):
                yield sample
            sample, seen = None, set()
            continue
        fname = file["fname"]
        try:
            key, field = keys(fname)
            if key is None:
                continue
            field = field.lower() if lcase else field
            if sample is None or key != sample["__key__"]:
                if valid_sample(sample):
                    yield sample
                if file.get("__url__") != url:
                    url, seen = file.get("__url__"), set()
                sample = {"__key__": key, "__url__": url}
                if file.get("__local_path__") is not None:
                    sample["__local_path__"] = file["__local_path__"]
                returning = key in seen
                seen.add(key)
            else:
                returning = False
            doubled = field in sample
            if not doubled and (suffixes is None or field in suffixes):
                sample[field] = file["data"]
            if returning:
                raise CorruptError(f"{url}: key {key!r} returns with {fname} after other keys: its sample is scattered",
                                   shard=url, member=fname)
            if doubled:
                raise CorruptError(f"{fname}: duplicate file name in tar file {url}: the field {field!r} is there twice",
                                   shard=url, member=fname)
        except Exception as exn:
            if handler(exn):
                continue
            return
    if valid_sample(sample):
        yield sample


def local_path_of(url: str) -> Optional[str]:
    """The file behind an address, if it is one here."""
    name = gopen.native_name(url)
    return name if name is not None and name != "-" and "://" not in name else None


def shardlist(urls: Any, *, shuffle: bool = False) -> Iterator[dict]:
    from . import shardlists

    return iter(shardlists.SimpleShardList(urls, seed=True if shuffle else None))
