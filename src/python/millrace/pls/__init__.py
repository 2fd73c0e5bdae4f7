"""Partial local shuffling: every rank keeps its share of the samples on local storage and exchanges a fraction each epoch.

    from millrace import pls
    store   = pls.Store.ingest("train-{000000..000127}.tar", "/local/pls", partition="random")
    dataset = pls.Dataset(store, transform=transform)
    sampler = pls.LocalSampler(dataset)
    loader  = DataLoader(dataset, batch_size=64, sampler=sampler, num_workers=4, persistent_workers=True)
    shuffle = pls.PartialShuffle(store, fraction=0.1)
    for epoch in range(shuffle.next_epoch, epochs):
        with shuffle.epoch(epoch):
            sampler.set_epoch(epoch)
            for x, y in loader: step(x, y)

Started by mpirun the ranks are MPI's; gradients may go any other way. Without mpirun it is one rank. `store.dataset()` is
the same samples for Millrace's own loader. ImageFolder, DistributedSampler and Scheduler are the published names.
"""
from __future__ import annotations

from .group import world
from .plan import Simulation, local_order
from .published import DistributedSampler, ImageFolder, Scheduler
from .shuffle import Dataset, LocalSampler, PartialShuffle, decode_image
from .store import Sample, Store

__all__ = ["Dataset", "DistributedSampler", "ImageFolder", "LocalSampler", "PartialShuffle", "Sample", "Scheduler", "Simulation",
           "Store", "decode_image", "local_order", "world"]
