"""Epochs of open_clip and timm over millrace.webdataset: how many samples they have, and how many different ones.

Modules that the data parts import and do not use are stood in for.
"""
import importlib
import io
import json
import pathlib
import sys
import tempfile
import types
from unittest.mock import MagicMock

import PIL.Image
import torch

import millrace.webdataset

SHARDS, PER_SHARD, EPOCHS = 8, 50, 3
SAMPLES = SHARDS * PER_SHARD


def stand_in(site):
    sys.path.append(site)
    for name in ("pandas", "torchvision", "torchvision.datasets"):
        sys.modules[name] = MagicMock()
    sys.modules["webdataset"] = millrace.webdataset
    for name in ("filters", "tariterators", "shardlists", "utils"):
        sys.modules[f"webdataset.{name}"] = getattr(millrace.webdataset, name)
    # Packages without what their __init__ would import.
    for name in ("open_clip_train", "timm", "timm.data", "timm.data.readers"):
        sys.modules[name] = package = types.ModuleType(name)
        package.__path__ = [str(pathlib.Path(site, *name.split(".")))]


def write_shards(directory):
    picture = io.BytesIO()
    PIL.Image.new("RGB", (4, 4)).save(picture, "JPEG")
    with millrace.ShardWriter(f"{directory}/s-%02d.tar", max_samples=PER_SHARD) as writer:
        for number in range(SAMPLES):
            label = str(number).encode()
            writer.add(f"{number:05}", {"jpg": picture.getvalue(), "txt": label, "cls": label})
    names = [f"s-{shard:02}.tar" for shard in range(SHARDS)]
    split = {"name": "train", "filenames": names, "shard_lengths": [PER_SHARD] * SHARDS, "num_samples": SAMPLES}
    pathlib.Path(directory, "_info.json").write_text(json.dumps({"splits": {"train": split}}))


def open_clip_epochs(directory, workers):
    data = importlib.import_module("open_clip_train.data")
    arguments = types.SimpleNamespace(
        train_data=f"{directory}/s-{{00..{SHARDS - 1:02}}}.tar", val_data=None, train_num_samples=SAMPLES, val_num_samples=0,
        dataset_resampled=False, train_data_upsampling_factors=None, seed=3, batch_size=10, world_size=1, workers=workers, rank=0,
        local_rank=0, distributed=False)
    found = data.get_wds_dataset(arguments, lambda image: torch.zeros(1), True, tokenizer=lambda text: [int(text)])
    for epoch in range(EPOCHS):
        found.set_epoch(epoch)
        yield [int(number) for _, numbers in found.dataloader for number in numbers]


class Iterable(torch.utils.data.IterableDataset):
    def __init__(self, source):
        self.source = source

    def __iter__(self):
        return iter(self.source)


def timm_epochs(directory, workers):
    reader = importlib.import_module("timm.data.readers.reader_wds").ReaderWds(
        root=directory, name="", split="train", is_training=True, batch_size=10, seed=42)
    reader.set_loader_cfg(num_workers=workers)
    loader = torch.utils.data.DataLoader(Iterable(reader), batch_size=None, num_workers=workers, persistent_workers=workers > 0)
    for epoch in range(EPOCHS):
        reader.set_epoch(epoch)
        yield [int(label) for _, label in loader]


def main():
    stand_in(sys.argv[1])
    failed = False
    with tempfile.TemporaryDirectory() as directory:
        write_shards(directory)
        for name, epochs in (("open_clip", open_clip_epochs), ("timm", timm_epochs)):
            for workers in (0, 2):
                counts = [(len(epoch), len(set(epoch))) for epoch in epochs(directory, workers)]
                failed |= counts != [(SAMPLES, SAMPLES)] * EPOCHS
                print(f"{name}, {workers} workers: samples and different ones by epoch: {counts}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
