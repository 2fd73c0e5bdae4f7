#!/usr/bin/python3
"""A small network learns Fashion-MNIST from shards, in as many processes as the launcher starts.

    examples/fashion_mnist.py train | millrace shard - --max-samples 10000 -o mr://train/fashion-%06d.tar
    export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 PYTHONPATH=build/python
    for rank in 0 1; do
      RANK=$rank examples/train_fashion_mnist.py 'mr://train/fashion-{000000..000005}.tar' --state run.pt &
    done; wait

torchrun, or any launcher that sets these variables, does as well. Killed at any moment and started again
it goes on from the last state, with the very batches, flips and losses that the uninterrupted run has. The batches are
the same for any number of processes; the last digits of the losses are only for the same number, since sums of floats
depend on how they are grouped.
"""
import argparse
import os

import torch
import torch.distributed
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import millrace


def make_network():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * 7 * 7, 64), nn.ReLU(), nn.Linear(64, 10))


def save(path, state):
    """Whole or not at all: a kill in the middle leaves the state before."""
    with open(path + ".part", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards", help="samples with png and cls: paths or addresses, with ranges {000000..000005}")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=128, help="over all processes (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--state", help="file to go on from, and to save to")
    parser.add_argument("--save-every", type=int, default=50, metavar="STEPS")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    torch.distributed.init_process_group("gloo")
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()

    ds = (millrace.Dataset(arguments.shards, seed=arguments.seed, memory="256MiB")
          .shuffle(window=20_000)
          .image("png", size=28, channels="gray", flip=True, normalize="half", layout="CHW")
          .label("cls").batch(arguments.batch, end="drop").torch())
    network = DistributedDataParallel(make_network())
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    step, steps = 0, arguments.epochs * len(ds)

    if arguments.state and os.path.exists(arguments.state):
        state = torch.load(arguments.state)
        network.load_state_dict(state["network"])
        optimiser.load_state_dict(state["optimiser"])
        ds.load_state_dict(state["ds"])
        step = state["step"]
        if rank == 0:
            print(f"going on behind step {step}", flush=True)

    while step < steps:
        for images, labels in ds:  # one epoch, or what is left of it; rank and world are the launcher's
            loss = nn.functional.cross_entropy(network(images), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            step += 1
            mean = loss.detach() / world
            torch.distributed.all_reduce(mean)
            if rank == 0:
                print(f"step {step} loss {mean.item():.9g}", flush=True)
                if arguments.state and step % arguments.save_every == 0:
                    save(arguments.state, {"network": network.state_dict(), "optimiser": optimiser.state_dict(),
                                           "ds": ds.state_dict(), "step": step})
    if rank == 0:
        print(ds.report(), end="")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
