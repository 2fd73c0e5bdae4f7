"""The published training loop, run by mpirun, with another import; writes what each rank saw to the directory $FOUND. Not a test by itself."""
import json
import os
import pathlib
import sys

import torch
from torch.utils.data import DataLoader

import millrace.pls as PLS
from millrace.pls import DistributedSampler


def to_tensor(image):
    return torch.tensor(list(image.getdata()), dtype=torch.float32).flatten()


def main():
    train_dir, class_file, epochs = sys.argv[1], sys.argv[2] or None, int(sys.argv[3])
    rank, size = PLS.world().rank, PLS.world().size
    train_dir = train_dir.format(rank=rank, node=rank // 2)

    train_dataset = PLS.ImageFolder(train_dir, class_file, to_tensor)
    train_sampler = DistributedSampler(train_dataset, size, rank=rank)
    train_loader = DataLoader(train_dataset, batch_size=4, sampler=train_sampler)
    scheduler = PLS.Scheduler(train_dataset, batch_size=4, fraction=0.3)
    model = torch.nn.Linear(8 * 8 * 3, 5)
    seen = []
    for epoch in range(epochs):
        scheduler.scheduling(epoch)
        train_sampler.set_epoch(epoch)
        count = 0
        for images, labels in train_loader:
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            # Every image is one colour that says which class it is of.
            assert [int(image[0]) // 40 for image in images] == labels.tolist()
            count += len(labels)
        end = os.environ.get("END_RANK_1") if rank == 1 and epoch == 1 else None
        if end == "raise":
            raise RuntimeError("the trainer fails")
        if end == "exit":
            sys.exit(3)
        send_req, rcv_req = scheduler.communicate()
        scheduler.synchronize(send_req, rcv_req)
        scheduler.clean_local_storage()
        seen.append(count)
    found = {"rank": rank, "seen": seen, "ids": sorted(train_dataset.store.ids.tolist()),
                                 "epoch": train_dataset.store.epoch, "classes": train_dataset.classes,
                                 "digest": scheduler.shuffle.digest()}
    pathlib.Path(os.environ["FOUND"], f"{found['rank']}.json").write_text(json.dumps(found))


main()
