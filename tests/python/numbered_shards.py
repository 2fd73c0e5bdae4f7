"""Shards of samples that tell their numbers in every field: fixtures that tests import."""
import io

import numpy
import pytest
from PIL import Image

import millrace
from millrace import Dataset

SAMPLES = 230


def picture(number):
    """A gradient that tells its number."""
    rows, columns = numpy.mgrid[0:48, 0:64]
    image = numpy.stack([(rows * 3 + number) % 256, (columns * 3) % 256, numpy.full_like(rows, number % 256)], -1)
    out = io.BytesIO()
    Image.fromarray(image.astype(numpy.uint8)).save(out, "PNG")
    return out.getvalue()


def numpy_bytes(array):
    out = io.BytesIO()
    numpy.save(out, array)
    return out.getvalue()


@pytest.fixture(scope="module")
def urls(tmp_path_factory):
    directory = tmp_path_factory.mktemp("dataset")
    with millrace.ShardWriter(str(directory / "s-%03d.tar"), max_samples=50) as writer:
        for number in range(SAMPLES):
            writer.add(f"{number:05}", {
                "png": picture(number), "cls": str(number).encode(), "txt": f"number {number}".encode(),
                "json": f'{{"n": {number}}}'.encode(), "npy": numpy_bytes(numpy.full((2, 3), number, numpy.float32)),
                "tokens.npy": numpy_bytes(numpy.arange(number % 7 + 1)), "raw": bytes([number % 256]) * (number % 100)})
    return str(directory / "s-{000..004}.tar")


@pytest.fixture
def labels(urls):
    return Dataset(urls, seed=3).shuffle(window=60).label("cls").batch(32)


def all_of(batches):
    return [batch.tolist() for batch in batches]
