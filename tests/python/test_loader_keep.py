"""Decoded images that stay: from epoch to epoch, in memory or on a drive, and there for the next process."""
import gc
import io
import os
import subprocess
import sys

import numpy
import pytest
from PIL import Image

import millrace
from millrace import Dataset

SAMPLES = 230


@pytest.fixture(scope="module")
def urls(tmp_path_factory):
    directory = tmp_path_factory.mktemp("keep")
    rows, columns = numpy.mgrid[0:48, 0:64]
    with millrace.ShardWriter(str(directory / "s-%03d.tar"), max_samples=50) as writer:
        for number in range(SAMPLES):
            image = numpy.stack([(rows * 3 + number) % 256, (columns * 3) % 256, numpy.full_like(rows, number)], -1)
            out = io.BytesIO()
            Image.fromarray(image.astype(numpy.uint8)).save(out, "PNG")
            writer.add(f"{number:05}", {"png": out.getvalue(), "cls": str(number).encode()})
    return str(directory / "s-{000..004}.tar")


def test_decoded_images_are_kept_and_stay_within_the_tolerance(urls):
    ds = Dataset(urls, seed=1).image("png", size=20, crop="random_resized", flip=True).batch(50)
    kept = ds.cache(decoded=True, max_side=256)
    for epoch in range(3):
        for ours, theirs in zip(kept.epoch(epoch), ds.epoch(epoch)):
            assert numpy.abs(ours.astype(int) - theirs.astype(int)).max() <= 1
    assert kept._keep.images == SAMPLES
    gray = Dataset(urls).image("png", size=20, channels="gray").batch(50).cache(decoded=True)
    assert numpy.array_equal(next(gray.epoch(0)), next(gray.epoch(0))) and next(gray.epoch(0)).shape == (50, 20, 20, 1)


def test_decoded_images_are_kept_on_a_drive_as_in_memory(urls, tmp_path):
    ds = Dataset(urls, seed=1).image("png", size=20, crop="random_resized", flip=True).batch(50)
    kept, filed = ds.cache(decoded=True), ds.cache(decoded=True, where=tmp_path, max_bytes="1GiB")
    for epoch in range(3):
        for ours, theirs in zip(filed.epoch(epoch), kept.epoch(epoch)):
            assert numpy.array_equal(ours, theirs)
    assert filed._keep.images == SAMPLES and filed._keep.bytes == kept._keep.bytes
    # Beyond the cap, and on a drive without room, images are decoded anew.
    few = ds.cache(decoded=True, where=tmp_path, max_bytes=(48 * 64 * 3 + 64) * 10)
    for epoch in range(2):
        for ours, theirs in zip(few.epoch(epoch), kept.epoch(epoch)):
            assert numpy.array_equal(ours, theirs)
    assert few._keep.images == 10
    with pytest.raises(millrace.Error, match="decoded images in /nowhere"):
        next(ds.cache(decoded=True, where="/nowhere").epoch(0))


KEEPING = """
import sys
sys.path.insert(0, {package!r})
from millrace import Dataset
ds = Dataset({urls!r}, seed=1).image("png", size=20, crop="random_resized").batch(10).cache(decoded=True, where={where!r}, max_bytes="1GiB")
print(ds._keep.images, flush=True)
for _ in ds.epoch(0):
    print("batch", flush=True)
"""


def keeping(urls, where):
    package = os.path.dirname(os.path.dirname(millrace.__file__))
    return subprocess.Popen([sys.executable, "-c", KEEPING.format(package=package, urls=urls, where=str(where))],
                            stdout=subprocess.PIPE, text=True)


def test_decoded_images_on_a_drive_outlive_the_process_and_its_end_by_a_signal(urls, tmp_path):
    first = keeping(urls, tmp_path)
    assert first.stdout.readline() == "0\n"
    for _ in range(3):
        assert first.stdout.readline() == "batch\n"
    first.kill()
    first.communicate()
    second = keeping(urls, tmp_path)
    assert int(second.stdout.readline()) >= 30
    assert second.communicate()[0] == "batch\n" * (SAMPLES // 10) and second.returncode == 0
    ds = Dataset(urls, seed=1).image("png", size=20, crop="random_resized").batch(10)
    kept = ds.cache(decoded=True, where=tmp_path, max_bytes="1GiB")
    assert kept._keep.images == SAMPLES
    for ours, theirs in zip(kept.epoch(2), ds.epoch(2)):
        assert numpy.abs(ours.astype(int) - theirs.astype(int)).max() <= 1
    # Other samples, another channel count and another size are other images.
    for other in (ds.select(range(10)), Dataset(urls).image("png", size=20, channels="gray").batch(10)):
        assert other.cache(decoded=True, where=tmp_path)._keep.images == 0
    assert ds.cache(decoded=True, where=tmp_path, max_side=32)._keep.images == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_drive_only_costs_the_cache(urls, tmp_path):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", tmp_path], check=True)
    try:
        ds = Dataset(urls, seed=1).image("png", size=20).batch(50)
        full = ds.cache(decoded=True, where=tmp_path, max_bytes="1GiB")
        for epoch in range(2):
            for ours, theirs in zip(full.epoch(epoch), ds.epoch(epoch)):
                assert numpy.abs(ours.astype(int) - theirs.astype(int)).max() <= 1
        assert 0 < full._keep.images < 256 * 1024 // (48 * 64 * 3) + 1
        del full
    finally:
        gc.collect()
        subprocess.run(["umount", tmp_path], check=True)


def test_streamed_images_are_not_kept_decoded(urls):
    ds = Dataset(urls, indexed=False).image("png", size=20).label("cls").batch(8).cache(decoded=True)
    with pytest.raises(millrace.InvalidError, match="streamed"):
        ds.epoch(0)
