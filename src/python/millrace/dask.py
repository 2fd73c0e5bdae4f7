"""Shards as a bag of Dask, and a bag as shards.

    import millrace.dask
    bag = millrace.dask.read_shards("http://127.0.0.1:9400/train/train-{000000..000127}.tar", fields={"cls"})
    bag.map(lambda sample: int(sample[1]["cls"])).frequencies().compute()
    millrace.dask.write_shards(bag.filter(keep), "http://127.0.0.1:9400/out/part-%06d.tar")

A partition is a shard, in both directions: a worker reads its shards from the store itself, and writes its own. A task that Dask
runs again, because a worker was lost, writes the same shard again; a shard appears when it is whole.
"""
from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Set, Tuple, Union

import dask
import dask.bag

from . import arguments, expand_names, samples
from .errors import InvalidError
from .writers import ShardFile

Sample = Tuple[str, Dict[str, bytes]]


def read_shards(shards: Union[str, List[str]], *, fields: Optional[Set[str]] = None) -> dask.bag.Bag:
    """A bag of (key, {field: bytes}), with these fields alone where some are given. A worker holds one shard at a time."""
    names = [name for one in arguments.addresses("shards", shards) for name in expand_names(one)]
    if not names:
        raise InvalidError("there are no shards to read")
    read = dask.delayed(_read)
    return dask.bag.from_delayed([read(name, fields) for name in names])


def write_shards(bag: dask.bag.Bag, pattern: str, *, compute: bool = True) -> Any:
    """Writes each partition of (key, {field: bytes}) as the shard of its number, and gives their names. Without `compute` the
    delayed tasks are given."""
    if not re.search(r"%(0\d+)?d", pattern):
        raise InvalidError(f"{pattern} has no number: for example part-%06d.tar")
    write = dask.delayed(_write)
    tasks = [write(partition, pattern % number) for number, partition in enumerate(bag.to_delayed())]
    return list(dask.compute(*tasks)) if compute else tasks


def _read(name: str, fields: Optional[Set[str]]) -> List[Sample]:
    with samples(name, fields=fields) as stream:
        return list(stream)


def _write(partition: Any, name: str) -> str:
    with ShardFile(name) as shard:
        for key, fields in partition:
            shard.add(key, fields)
    return name
