#!/usr/bin/python3
"""Epochs as WebDataset and torch's DataLoader make them, timed inside the process, imports left out.

    webdataset_load.py images|raw WORKERS BATCH PASSES SHARD…
    webdataset_load.py ready WORKERS BATCH PASSES      DataLoader alone: float32 samples in memory to batches

Prints {"seconds", "first", "cpu", "samples", "bytes"}: the whole, the time to the first batch, and the CPU time of all
processes.
"""

import json
import resource
import sys
import time

import torch
import webdataset as wds
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
READY = 256  # samples in memory


def cpu_seconds():
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def images(shards, workers, batch):
    """Samples are collated by DataLoader, which writes a worker's batch into shared memory at once: batches that
    WebDataset's batched() has made would be copied there."""
    transform = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
                                    transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)])
    dataset = (wds.WebDataset(shards, shardshuffle=len(shards)).shuffle(1000).decode("pil").to_tuple("jpg", "cls")
               .map_tuple(transform, None))
    return DataLoader(dataset, batch_size=batch, num_workers=workers)


def raw(shards, workers, batch):
    dataset = (wds.WebDataset(shards, shardshuffle=False).to_tuple("jpg", "cls").map_tuple(None, int).batched(batch))
    return DataLoader(dataset, batch_size=None, num_workers=workers)


class Ready(Dataset):
    """Samples that need no work: what remains is collating, and handing over between processes."""

    def __init__(self, samples):
        self.samples = samples
        self.tensors = list(torch.rand(READY, 3, 224, 224))

    def __len__(self):
        return self.samples

    def __getitem__(self, number):
        return self.tensors[number % READY], number


def main():
    case, (workers, batch, passes), shards = sys.argv[1], map(int, sys.argv[2:5]), sys.argv[5:]
    torch.set_num_threads(1)  # more of them wait for each other where the cores are busy
    ready = Ready(READY * passes) if case == "ready" else None
    start, cpu = time.perf_counter(), cpu_seconds()
    if ready is not None:
        loader = DataLoader(ready, batch_size=batch, num_workers=workers)
    else:
        loader = {"images": images, "raw": raw}[case](shards * passes, workers, batch)
    first, samples, size = None, 0, 0
    for fields, labels in loader:
        first = first or time.perf_counter() - start
        samples += len(labels)
        size += fields.numel() * fields.element_size() if torch.is_tensor(fields) else sum(map(len, fields))
    seconds = time.perf_counter() - start
    del loader
    print(json.dumps({"seconds": seconds, "first": first, "cpu": cpu_seconds() - cpu, "samples": samples, "bytes": size}))


if __name__ == "__main__":
    main()
