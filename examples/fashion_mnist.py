#!/usr/bin/python3
"""Fashion-MNIST (Debian's dataset-fashion-mnist) as a tar stream of PNG images and labels, on standard output.

    examples/fashion_mnist.py train | millrace shard - -o fashion-train-%06d.tar

Needs nothing but Python's standard library: the PNGs are written here, one zlib stream each.
"""

import gzip
import io
import struct
import sys
import tarfile
import zlib

FOLDER = "/usr/share/datasets/fashion-mnist"
PREFIX = {"train": "train", "test": "t10k"}


def read_idx(path):
    """The dimensions and the bytes of an IDX file."""
    with gzip.open(path, "rb") as file:
        data = file.read()
    dimensions = data[3]
    shape = struct.unpack(f">{dimensions}I", data[4 : 4 + 4 * dimensions])
    return shape, data[4 + 4 * dimensions :]


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def gray_png(pixels, width, height):
    rows = b"".join(b"\0" + pixels[y * width : (y + 1) * width] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 6)) + chunk(b"IEND", b"")


def main():
    split = sys.argv[1] if len(sys.argv) == 2 else ""
    if split not in PREFIX:
        sys.exit("usage: fashion_mnist.py train|test > stream.tar")
    (count, height, width), images = read_idx(f"{FOLDER}/{PREFIX[split]}-images-idx3-ubyte.gz")
    _, labels = read_idx(f"{FOLDER}/{PREFIX[split]}-labels-idx1-ubyte.gz")
    size = height * width
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(count):
            fields = {"cls": str(labels[i]).encode(), "png": gray_png(images[i * size : (i + 1) * size], width, height)}
            for field, data in fields.items():
                member = tarfile.TarInfo(f"{split}/{i:05d}.{field}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


if __name__ == "__main__":
    main()
