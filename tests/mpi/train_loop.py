"""A training loop over millrace.pls, run by mpirun; writes what each rank saw to the directory $FOUND. Not a test by itself."""
import argparse
import json
import os
import pathlib

import torch
from torch.utils.data import DataLoader

from millrace import pls


def number_of(sample):
    return int(bytes(sample.fields["txt"]).split(b":")[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("stores")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--node", type=int, default=0, help="ranks that share a store")
    parser.add_argument("--select", default="oldest")
    parser.add_argument("--fail-in", type=int, default=-1, help="the epoch in which the trainer fails")
    parser.add_argument("--fail-rank", type=int, default=-1, help="of this rank only")
    parser.add_argument("--redeal", action="store_true")
    parser.add_argument("--partition", default="contiguous")
    arguments = parser.parse_args()
    pool = dict(node_pool=True, ranks_per_node=arguments.node) if arguments.node else {}
    store = pls.Store.ingest(arguments.source, arguments.stores, partition=arguments.partition, redeal=arguments.redeal, **pool)
    dataset = pls.Dataset(store, decode=number_of, check=True)
    sampler = pls.LocalSampler(dataset, seed=4)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler, num_workers=arguments.workers, persistent_workers=arguments.workers > 0)
    select = arguments.select if arguments.select != "callback" else (lambda ids, labels, count: list(range(count)))
    shuffle = pls.PartialShuffle(store, fraction=0.25, select=select)
    epochs, failure = [], ""
    try:
        for epoch in range(shuffle.next_epoch, arguments.epochs):
            with shuffle.epoch(epoch):
                sampler.set_epoch(epoch)
                seen = [int(number) for numbers, _ in loader for number in numbers]
                if epoch == arguments.fail_in and arguments.fail_rank in (-1, pls.world().rank):
                    raise KeyError("the trainer fails")
            epochs.append(seen)
    except Exception as problem:
        if arguments.fail_in < 0:
            raise
        failure = str(problem)
    state = shuffle.state_dict()
    shuffle.load_state_dict(state)
    engine = sorted(int(bytes(text).split(b":")[0]) for batch in store.dataset().bytes("txt").batch(16).epoch(0) for text in batch)
    found = {"rank": pls.world().rank, "epochs": epochs, "failure": failure, "held": sorted(store.ids.tolist()), "engine": engine,
                                 "stats": shuffle.stats(), "state": state, "digest": shuffle.digest(),
                                 "torch": torch.__version__}
    pathlib.Path(os.environ["FOUND"], f"{found['rank']}.json").write_text(json.dumps(found))


main()
