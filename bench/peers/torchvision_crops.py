#!/usr/bin/python3
"""The crops of decode_bench as most training scripts make them: PIL and torchvision, one thread; CPU seconds."""

import io
import json
import pathlib
import sys
import time

import torch
from PIL import Image
from torchvision import transforms

torch.set_num_threads(1)
images = [path.read_bytes() for path in sorted(pathlib.Path(sys.argv[1]).iterdir())]
transform = transforms.Compose([
    transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
    transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
start = time.thread_time()
for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 1):
    for image in images:
        transform(Image.open(io.BytesIO(image)).convert("RGB"))
print(json.dumps({"seconds": time.thread_time() - start}))
