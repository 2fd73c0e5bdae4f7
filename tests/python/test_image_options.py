"""What is said about images means the same here and in `millrace load`: words go to the engine, which decides the rest.

The engine's side, that `--spec image:…` and these words make the same transform: SpecTest.MeansWhatPythonMeans."""
import io

import numpy
import pytest
from PIL import Image

import millrace
from millrace import Dataset
from numbered_shards import picture, urls  # noqa: F401: fixtures


def words(ds):
    return ds._options["fields"][-1]["image"]["words"]


@pytest.mark.parametrize("said, wanted", [
    ({}, {}), (dict(size=224), {"size": "224x224"}), (dict(size=(200, 320), crop="none", flip=True), {"size": "320x200", "crop": "none", "flip": ""}),
    (dict(size=224, normalize="imagenet"), {"size": "224x224", "normalize": "imagenet"}), (dict(resize=64), {"resize": "64"})])
def test_only_what_was_said_is_handed_over(urls, said, wanted):
    assert words(Dataset(urls).image("png", **said)) == {**wanted, "layout": "HWC", "channels": "rgb"}


def first_image(ds):
    return next(iter(ds.batch(1)))[0]


def test_a_size_alone_is_the_middle_of_the_resized_image(urls):
    pixels = first_image(Dataset(urls).image("png", size=16))
    assert numpy.array_equal(pixels, first_image(Dataset(urls).image("png", size=16, crop="center", resize=16)))
    image = Image.open(io.BytesIO(picture(0)))
    scale = 16 / min(image.size)
    small = image.resize((round(image.width * scale), round(image.height * scale)), Image.BILINEAR)
    left, top = round((small.width - 16) / 2), round((small.height - 16) / 2)
    assert numpy.array_equal(pixels, numpy.asarray(small.crop((left, top, left + 16, top + 16))))
    assert not numpy.array_equal(pixels, first_image(Dataset(urls).image("png", size=16, crop="none")))


def test_normalising_makes_floats_unless_a_type_is_given(urls):
    assert first_image(Dataset(urls).image("png", size=8, normalize="half")).dtype == numpy.float32
    assert first_image(Dataset(urls).image("png", size=8, normalize=((0.5,), (0.5,)), dtype="float16")).dtype == numpy.float16
    scaled = first_image(Dataset(urls).image("png", size=8, normalize="none"))
    assert scaled.dtype == numpy.float32 and numpy.array_equal((scaled * 255).round(), first_image(Dataset(urls).image("png", size=8)))


def test_what_the_engine_refuses_is_refused_at_once(urls):
    with pytest.raises(millrace.InvalidError, match="^normalize has 3 values for 1 channels"):
        Dataset(urls).image("png", normalize="imagenet", channels="gray")
