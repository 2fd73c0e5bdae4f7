"""Resampling and transforms give what PIL and torchvision give for the same crop."""

import io

import numpy
import pytest
import torch
from PIL import Image
from torchvision import transforms
from torchvision.transforms import functional

from probe import Refused, encoded, numbers_and_bytes, picture, pixels, run

MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


@pytest.fixture(scope="module")
def photo(tmp_path_factory):
    path = tmp_path_factory.mktemp("photo") / "photo.jpg"
    path.write_bytes(encoded(picture(301, 203), "JPEG", quality=92))
    return path


def opened(path, mode="RGB"):
    return Image.open(path).convert(mode)


def transform(path, channels=3, type="uint8", layout="hwc", **options):
    """(result, crop, flipped)"""
    numbers, raw = numbers_and_bytes(run("transform", path, channels=channels, type=type, layout=layout, **options))
    width, height, x, y, crop_width, crop_height, flipped = numbers
    shape = (height, width, channels) if layout == "hwc" else (channels, height, width)
    return numpy.frombuffer(raw, type).reshape(shape), (x, y, crop_width, crop_height), bool(flipped)


@pytest.mark.parametrize("channels,mode", [(1, "L"), (3, "RGB")])
@pytest.mark.parametrize("size", [(224, 224), (1, 1), (7, 300), (301, 203), (301, 50), (50, 203), (600, 500), (33, 31)])
@pytest.mark.parametrize("box", [(0, 0, 301, 203), (10, 20, 100, 90), (0.5, 1.25, 200.75, 150.5), (300, 202, 1, 1)])
def test_resampling_equals_pil(photo, channels, mode, size, box):
    x, y, width, height = box
    expected = opened(photo, mode).resize(size, Image.Resampling.BILINEAR, box=(x, y, x + width, y + height))
    found = pixels("resample", photo, channels=channels, size="%d,%d" % size, box="%r,%r,%r,%r" % box)
    assert numpy.array_equal(found, numpy.asarray(expected))


@pytest.mark.parametrize("source", ["bytes", "pixels"])
def test_random_resized_crop(photo, source):
    seen = set()
    for key in range(20):
        found, (x, y, width, height), flipped = transform(
            photo, crop="random-resized", size="224,224", flip=1, key=key, **{"from": source})
        expected = functional.resized_crop(opened(photo), y, x, height, width, [224, 224])
        expected = functional.hflip(expected) if flipped else expected
        assert numpy.array_equal(found, numpy.asarray(expected)), key
        assert 0.07 < width * height / (301 * 203) <= 1 and 0.74 < width / height < 1.35
        seen.add((x, y, width, height))
    assert len(seen) == 20


def test_half_of_the_images_are_flipped(photo):
    flips = [transform(photo, crop="random-resized", size="8,8", flip=1, key=key)[2] for key in range(200)]
    assert 70 < sum(flips) < 130


def test_an_impossible_ratio_falls_back_to_the_middle(photo):
    found, crop, _ = transform(photo, crop="random-resized", size="64,64", ratio="10,12", scale="0.9,1", key=3)
    assert crop == (0, 86, 301, 30)
    expected = functional.resized_crop(opened(photo), 86, 0, 30, 301, [64, 64])
    assert numpy.array_equal(found, numpy.asarray(expected))


@pytest.mark.parametrize("resize,size", [(256, 224), (0, 100), (64, 64), (64, 65), (50, 224), (0, 400), (0, 250)])
def test_resize_and_center_crop(photo, resize, size):
    steps = ([transforms.Resize(resize)] if resize else []) + [transforms.CenterCrop(size)]
    expected = transforms.Compose(steps)(opened(photo))
    found, _, _ = transform(photo, crop="center", resize=resize, size=f"{size},{size}", key=1)
    assert numpy.array_equal(found, numpy.asarray(expected))


@pytest.mark.parametrize("resize", [0, 150])
def test_random_crop(photo, resize):
    for key in range(10):
        found, (x, y, width, height), _ = transform(photo, crop="random", resize=resize, size="120,100", key=key)
        image = transforms.Resize(resize)(opened(photo)) if resize else opened(photo)
        assert (width, height) == (120, 100)
        assert numpy.array_equal(found, numpy.asarray(functional.crop(image, y, x, height, width)))


def test_a_random_crop_larger_than_the_image_is_refused(photo):
    with pytest.raises(Refused, match="301 x 203 is smaller than the random crop of 300 x 300"):
        transform(photo, crop="random", size="300,300", key=1)


def test_whole_image_at_another_size(photo):
    found, _, _ = transform(photo, size="99,50", key=1)
    assert numpy.array_equal(found, numpy.asarray(transforms.Resize((50, 99))(opened(photo))))


def test_ragged(photo):
    found, _, _ = transform(photo, key=1)
    assert numpy.array_equal(found, numpy.asarray(opened(photo)))
    found, _, _ = transform(photo, resize=77, key=1)
    assert numpy.array_equal(found, numpy.asarray(transforms.Resize(77)(opened(photo))))


@pytest.mark.parametrize("type", ["float32", "float16"])
@pytest.mark.parametrize("layout", ["hwc", "chw"])
def test_normalising_equals_torchvision(photo, type, layout):
    words = {"mean": ",".join(map(str, MEAN)), "deviation": ",".join(map(str, DEVIATION))}
    for key in range(6):
        found, (x, y, width, height), flipped = transform(
            photo, crop="random-resized", size="64,48", flip=1, key=key, type=type, layout=layout, **words)
        image = functional.resized_crop(opened(photo), y, x, height, width, [48, 64])
        image = functional.hflip(image) if flipped else image
        expected = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)])(image)
        expected = (expected.half() if type == "float16" else expected).numpy()
        expected = expected.transpose(1, 2, 0) if layout == "hwc" else expected
        assert numpy.array_equal(found, expected)


@pytest.mark.parametrize("channels", [1, 4])
def test_other_channels(photo, channels):
    found, (x, y, width, height), _ = transform(photo, channels=channels, crop="random-resized", size="40,40", key=9)
    mode = {1: "L", 4: "RGBA"}[channels]
    expected = numpy.asarray(functional.resized_crop(opened(photo, mode), y, x, height, width, [40, 40]))
    assert numpy.array_equal(found.reshape(expected.shape), expected)


@pytest.mark.parametrize("side", [20, 50, 150, 250, 301, 400])
def test_bounded_images_look_like_the_whole(tmp_path, side):
    path = tmp_path / "smooth.jpg"
    path.write_bytes(encoded(picture(22, 15).resize((301, 203), Image.Resampling.BICUBIC), "JPEG", quality=95))
    found = pixels("bounded", path, side=side)
    height, width = found.shape[:2]
    assert width == min(side, 301) and abs(height - width * 203 / 301) <= 0.5
    expected = numpy.asarray(opened(path).resize((width, height), Image.Resampling.BILINEAR)).astype(int)
    # Shrinking inside the JPEG's own transform is another filter: close, not equal.
    assert numpy.abs(found - expected).mean() < 4
