#!/usr/bin/python3
"""The epochs of webdataset_load.py as Millrace makes them, timed inside the process, imports left out.

    millrace_load.py images|decoded|ragged|bytes|handover|kept BATCH PASSES SHARD…

decoded: images with the decoded cache, from the second epoch on. handover: how long next() takes when a batch is
ready. kept: pixels of 224 x 224 in memory to float32 batches. Prints what webdataset_load.py prints; handover:
{"next_us": […]}.
"""

import json
import pathlib
import resource
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "build/python"))
import millrace  # noqa: E402


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def crops(shards, **options):
    return (millrace.Dataset(shards, seed=1, **options).shuffle(window=1000)
            .image("jpg", size=224, crop="random_resized", flip=True, normalize="imagenet", layout="CHW").label("cls"))


def describe(case, shards):
    if case in ("images", "handover"):
        return crops(shards)
    if case == "decoded":
        return crops(shards).cache(decoded=True)
    if case == "kept":
        return (millrace.Dataset(shards).image("jpg", size=224, crop="none", normalize="imagenet", layout="CHW").label("cls")
                .cache(decoded=True, max_side=224))
    dataset = millrace.Dataset(shards)
    return (dataset.ragged("jpg") if case == "ragged" else dataset.bytes("jpg")).label("cls")


def size_of(fields):
    if isinstance(fields, tuple):
        return int(fields[1][:, 1].sum())
    return fields.nbytes if hasattr(fields, "nbytes") else sum(map(len, fields))


def time_ready(batches):
    """Of each batch that has had the time to become ready, how long it takes to get it, in microseconds."""
    found, held = [], None
    while True:
        time.sleep(0.4)
        start = time.perf_counter()
        batch = next(batches, None)
        found.append((time.perf_counter() - start) * 1e6)
        if batch is None:
            return found[:-1]
        held = batch  # noqa: F841: as a training step would, until the next is there


def main():
    case, (batch, passes), shards = sys.argv[1], map(int, sys.argv[2:4]), sys.argv[4:]
    start, cpu = time.perf_counter(), cpu_seconds()
    dataset = describe(case, shards).batch(batch)
    if case == "handover":
        print(json.dumps({"next_us": time_ready(dataset.epoch(0))}))
        return
    first_epoch = 0
    if case in ("decoded", "kept"):
        for _ in dataset.epoch(0):
            pass
        first_epoch, start, cpu = 1, time.perf_counter(), cpu_seconds()
    first, samples, size = None, 0, 0
    for fields, labels in dataset.epoch(first_epoch, epochs=passes):
        first = first or time.perf_counter() - start
        samples += len(labels)
        size += size_of(fields)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "first": first, "cpu": cpu_seconds() - cpu, "samples": samples, "bytes": size,
                      "report": dataset.report()}))


if __name__ == "__main__":
    main()
