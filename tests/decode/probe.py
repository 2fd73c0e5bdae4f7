"""Runs decode_probe and reads what it prints; images and files for the tests beside it."""

import io
import os
import subprocess

import numpy
from PIL import Image, ImageFile

# PIL writes small progressive JPEGs only into a buffer of this size.
ImageFile.MAXBLOCK = 1 << 22


class Refused(Exception):
    """The probe said no; the text is the code and the message."""


def run(verb, path, **options):
    words = [f"{name}={value}" for name, value in options.items()]
    done = subprocess.run([os.environ["DECODE_PROBE"], verb, str(path), *words], capture_output=True, check=False)
    if done.returncode == 1:
        raise Refused(done.stderr.decode())
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers_and_bytes(out):
    line, rest = out.split(b"\n", 1)
    return [int(word) for word in line.split()], rest


def pixels(verb, path, **options):
    (width, height, channels), raw = numbers_and_bytes(run(verb, path, **options))
    shape = (height, width) if channels == 1 else (height, width, channels)
    return numpy.frombuffer(raw, numpy.uint8).reshape(shape)


def arrays(verb, path):
    """[(name, array)], arrays in the order their elements lie."""
    out = run(verb, path)
    found = []
    while out:
        line, out = out.split(b"\n", 1)
        name, dtype, order, shape = line.decode().split(" ")
        shape = tuple(int(side) for side in shape.split(",") if side)
        count = int(numpy.prod(shape, dtype=numpy.int64)) * numpy.dtype(dtype).itemsize
        array = numpy.frombuffer(out[:count], dtype).reshape(shape, order=order)
        found.append((name, array))
        out = out[count:]
    return found


def picture(width, height, seed=1):
    """Smooth colours with noise and sharp edges on them: what filters and upsampling treat differently."""
    random = numpy.random.default_rng(seed)
    y, x = numpy.mgrid[0:height, 0:width]
    rgb = numpy.stack([x * 255 / max(width - 1, 1), y * 255 / max(height - 1, 1), (x * y) % 256], axis=-1)
    rgb += random.normal(0, 12, rgb.shape)
    rgb[(x // 7 + y // 5) % 4 == 0] = random.integers(0, 256, 3)
    return Image.fromarray(numpy.clip(rgb, 0, 255).astype(numpy.uint8), "RGB")


def encoded(image, form, **options):
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()
