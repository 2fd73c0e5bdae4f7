#!/usr/bin/python3
"""ImageNet-like shards for the loader's benchmarks: 500x375 crops of real photographs from Debian's wallpaper packages.

    bench/photos.py DIRECTORY [COUNT]     large-%04d.tar (about 110 KB an image) and small-%04d.tar (quality 80, 45 KB)

The crops come from a fixed seed, so every machine with the same packages makes the same images. Skies and drawn
wallpapers compress to a few KB, which no photograph of ImageNet does: a crop whose quality-80 file is not within
DETAIL is drawn again.
"""
import io
import pathlib
import random
import sys

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build/python"))
WALLPAPERS = pathlib.Path("/usr/share/wallpapers")
SIZE = (500, 375)
PER_SHARD = 500
DETAIL = range(30_000, 65_000)  # bytes at quality 80
QUALITIES = {"large": 94, "small": 80}


def photographs():
    found = sorted(path for path in WALLPAPERS.rglob("*.jpg") if path.stat().st_size > 300_000 and not path.is_symlink())
    if not found:
        raise SystemExit("bench/photos.py: no photographs: apt-get install plasma-workspace-wallpapers")
    return [Image.open(path).convert("RGB") for path in found]


def crops(count, seed=1):
    dice = random.Random(seed)
    images = photographs()
    while count > 0:
        image = dice.choice(images)
        scale = dice.uniform(1, min(3, image.width / SIZE[0], image.height / SIZE[1]))
        width, height = int(SIZE[0] * scale), int(SIZE[1] * scale)
        x, y = dice.randrange(image.width - width + 1), dice.randrange(image.height - height + 1)
        cut = image.crop((x, y, x + width, y + height)).resize(SIZE, Image.BILINEAR)
        if len(encode(cut, 80)) in DETAIL:
            count -= 1
            yield cut


def encode(image, quality):
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality, subsampling=0 if quality > 90 else 2)
    return out.getvalue()


def make(directory, count=2000):
    import millrace
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    writers = {name: millrace.ShardWriter(str(directory / f"{name}-%04d.tar"), max_samples=PER_SHARD) for name in QUALITIES}
    totals = dict.fromkeys(writers, 0)
    for number, image in enumerate(crops(count)):
        for name, quality in QUALITIES.items():
            encoded = encode(image, quality)
            totals[name] += len(encoded)
            writers[name].add(f"{number:06}", {"jpg": encoded, "cls": str(number % 1000).encode()})
    for writer in writers.values():
        writer.finish()
    return {name: total / count for name, total in totals.items()}


if __name__ == "__main__":
    print(make(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2000))
