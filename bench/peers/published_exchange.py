#!/usr/bin/python3
"""The published exchange pattern, by mpi4py: one pickled message per sample, received from anyone, a barrier at the end.

    mpirun -n 4 bench/peers/published_exchange.py SAMPLES BYTES ROUNDS

Every rank shuffles the same list of ranks for each sample and sends it to where its own place leads; the receiver takes
what comes with the sample's number as tag, from any source, into a buffer for the largest sample. Decoding, encoding and
files of the published code are left out: only messages are compared. Prints seconds per round of the slowest rank.
"""
import json
import random
import statistics
import sys
import time

from mpi4py import MPI


def exchange(world, samples, body, seed):
    rank, dice = world.Get_rank(), random.Random(seed)
    targets = list(range(world.Get_size()))
    sends, receives = [], []
    most = 4 * len(body) + 4096
    for number in range(samples):
        dice.shuffle(targets)
        message = {"idx": number, "path": "n01440764_10026.JPEG", "sample": body, "class_name": "n01440764"}
        receives.append(world.irecv(bytearray(most), source=MPI.ANY_SOURCE, tag=number))
        sends.append(world.isend(message, dest=targets[rank], tag=number))
    arrived = [request.wait() for request in receives]
    for request in sends:
        request.wait()
    world.Barrier()
    assert all(len(message["sample"]) == len(body) for message in arrived)


def main():
    samples, size, rounds = map(int, sys.argv[1:4])
    world = MPI.COMM_WORLD
    body = bytes(size)
    seconds = []
    for number in range(rounds + 1):
        world.Barrier()
        start = time.perf_counter()
        exchange(world, samples, body, number)
        slowest = world.allreduce(time.perf_counter() - start, op=MPI.MAX)
        if number > 0:
            seconds.append(slowest)
    if world.Get_rank() == 0:
        print(json.dumps({"seconds": statistics.median(seconds), "microseconds_per_sample": statistics.median(seconds) / samples * 1e6}))


main()
