#!/usr/bin/python3
"""The data part of an image classification training, as webdataset's own ImageNet example has it.

    imagenet_data.py --library millrace.webdataset 'train-{000..007}.tar' --batches 10

Runs with either library; prints each batch's shape and labels, then the rate.
"""
import argparse
import importlib
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards")
    parser.add_argument("--library", default="millrace.webdataset")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    wds = importlib.import_module(arguments.library)
    import numpy as np
    import torch

    def augment(image):
        """A centre crop, normalised; a real program puts torchvision's transforms here."""
        pixels = torch.from_numpy(np.array(image.resize((36, 36)).crop((2, 2, 34, 34)))).permute(2, 0, 1)
        return (pixels.float() / 255.0 - 0.45) / 0.225

    dataset = (
        wds.WebDataset(arguments.shards, shardshuffle=100, seed=arguments.seed, nodesplitter=wds.split_by_node,
                       handler=wds.ignore_and_continue)
        .shuffle(100, initial=50, seed=arguments.seed)
        .decode("pil")
        .to_tuple("jpg;png;jpeg", "cls")
        .map_tuple(augment, int)
        .batched(arguments.batch_size, partial=False)
    )
    loader = wds.WebLoader(dataset, batch_size=None, shuffle=False, num_workers=arguments.workers)
    loader = loader.unbatched().shuffle(50, initial=20, seed=arguments.seed).batched(arguments.batch_size)
    loader = loader.with_epoch(arguments.batches)

    start, samples = time.monotonic(), 0
    for images, labels in loader:
        samples += len(labels)
        print(tuple(images.shape), f"{float(images.mean()):.4f}", np.asarray(labels).tolist(), sep="\t")
    print(f"# {samples / (time.monotonic() - start):.0f} samples/s")


if __name__ == "__main__":
    main()
