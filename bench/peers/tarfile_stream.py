#!/usr/bin/python3
"""Python's tarfile in stream mode, as WebDataset uses it: every member read whole, grouped by key.

    tarfile_stream.py FILE      prints {"seconds": s, "samples": n, "bytes": n}
"""

import json
import sys
import tarfile
import time

start = time.perf_counter()
samples = size = 0
key = None
with open(sys.argv[1], "rb") as file, tarfile.open(fileobj=file, mode="r|*") as tar:
    for member in tar:
        if not member.isreg():
            continue
        data = tar.extractfile(member).read()
        size += len(data)
        name = member.name.split(".", 1)[0]
        if name != key:
            samples += 1
            key = name
        tar.members = []
print(json.dumps({"seconds": time.perf_counter() - start, "samples": samples, "bytes": size}))
