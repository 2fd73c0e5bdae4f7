#!/usr/bin/python3
"""The data part of a contrastive image-text training, as programs of that family write it for webdataset.

    clip_data.py --library millrace.webdataset 'shards-{000..007}.tar' --epochs 2

Runs with either library; prints each batch's shape and captions.
"""
import argparse
import importlib
import logging
import random


def log_and_continue(error):
    logging.warning("left out: %r", error)
    return True


def has_image_and_text(sample):
    return "txt" in sample and any(name in sample for name in ("png", "jpg", "jpeg", "webp"))


def lenient_groups(files, base_plus_ext, valid_sample):
    """Grouping of its own, which never raises: a field that comes twice begins another sample."""
    sample = None
    for file in files:
        if not file:
            if valid_sample(sample):
                yield sample
            sample = None
            continue
        key, field = base_plus_ext(file["fname"])
        if key is None:
            continue
        if sample is None or sample["__key__"] != key or field in sample:
            if valid_sample(sample):
                yield sample
            sample = {"__key__": key, "__url__": file["__url__"]}
        sample[field.lower()] = file["data"]
    if valid_sample(sample):
        yield sample


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards")
    parser.add_argument("--library", default="millrace.webdataset")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    wds = importlib.import_module(arguments.library)
    tariterators = importlib.import_module(arguments.library + ".tariterators")
    filters = importlib.import_module(arguments.library + ".filters")
    shardlists = importlib.import_module(arguments.library + ".shardlists")
    utils = importlib.import_module(arguments.library + ".utils")
    import numpy as np

    class SeededShuffle(wds.PipelineStage):
        """Orders that differ between epochs and workers, and come again with the seed."""

        def __init__(self, bufsize, initial):
            self.bufsize, self.initial, self.epoch = bufsize, initial, -1

        def run(self, source):
            self.epoch += 1
            rng = random.Random(f"{arguments.seed} {self.epoch} {utils.pytorch_worker_seed()}")
            return filters._shuffle(source, self.bufsize, self.initial, rng)

    def to_samples(source):
        streams = tariterators.url_opener(source, handler=log_and_continue)
        files = tariterators.tar_file_expander(streams, handler=log_and_continue)
        return lenient_groups(files, tariterators.base_plus_ext, tariterators.valid_sample)

    def preprocess(image):
        return np.asarray(image.resize((8, 8)), dtype=np.float32).transpose(2, 0, 1) / 255.0

    dataset = wds.DataPipeline(
        wds.SimpleShardList(shardlists.expand_urls(arguments.shards)),
        SeededShuffle(bufsize=100, initial=10),
        wds.split_by_node,
        wds.split_by_worker,
        to_samples,
        SeededShuffle(bufsize=50, initial=10),
        wds.select(has_image_and_text),
        wds.decode("pilrgb", handler=log_and_continue),
        wds.rename(image="jpg;png;jpeg;webp", text="txt"),
        wds.map_dict(image=preprocess, text=str.strip),
        wds.to_tuple("image", "text"),
        wds.batched(arguments.batch_size, partial=False),
    )
    loader = wds.WebLoader(dataset, batch_size=None, shuffle=False, num_workers=arguments.workers,
                           persistent_workers=arguments.workers > 0)
    for epoch in range(arguments.epochs):
        for images, texts in loader:
            print(epoch, tuple(images.shape), f"{float(images.mean()):.4f}", *texts, sep="\t")


if __name__ == "__main__":
    main()
