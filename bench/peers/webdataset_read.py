#!/usr/bin/python3
"""A shard read through WebDataset's interface, by the library named: raw samples to tuples to batches.

    webdataset_read.py LIBRARY FILE [BATCH]     prints {"seconds": s, "batches": n}
"""

import importlib
import json
import sys
import time

wds = importlib.import_module(sys.argv[1])
batch = int(sys.argv[3]) if len(sys.argv) > 3 else 64
dataset = wds.WebDataset(sys.argv[2], shardshuffle=False).to_tuple("jpg", "cls").batched(batch)
start = time.perf_counter()
batches = sum(1 for _ in dataset)
print(json.dumps({"seconds": time.perf_counter() - start, "batches": batches}))
