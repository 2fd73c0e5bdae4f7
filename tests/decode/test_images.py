"""Decoded pixels are those of PIL, for every kind of image that data sets hold."""

import io
import struct
import zlib

import numpy
import pytest
from PIL import Image

from probe import Refused, encoded, picture, pixels

MODES = {1: "L", 3: "RGB", 4: "RGBA"}
SIZES = [(1, 1), (2, 3), (7, 5), (16, 16), (17, 33), (64, 48), (101, 77), (256, 255)]


def pil(content, mode):
    return numpy.asarray(Image.open(io.BytesIO(content)).convert(mode))


def compare(tmp_path, content, channels=(1, 3, 4)):
    path = tmp_path / "image"
    path.write_bytes(content)
    for channel in channels:
        expected = pil(content, MODES[channel])
        found = pixels("decode", path, channels=channel)
        assert found.shape == expected.shape
        assert numpy.array_equal(found, expected), f"channels={channel}: differ by up to " \
            f"{numpy.abs(found.astype(int) - expected).max()}"


def png_by_hand(width, height, depth, colour, rows, chunks=()):
    """PNGs that PIL does not write: `rows` are the packed bytes of each row."""
    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(chunk(*each) for each in chunks)
            + chunk(b"IDAT", body) + chunk(b"IEND", b""))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("progressive", [False, True])
def test_jpeg_of_every_subsampling(tmp_path, size, subsampling, progressive):
    compare(tmp_path, encoded(picture(*size), "JPEG", quality=90, subsampling=subsampling, progressive=progressive))


@pytest.mark.parametrize("progressive", [False, True])
def test_gray_jpeg(tmp_path, progressive):
    compare(tmp_path, encoded(picture(101, 77).convert("L"), "JPEG", quality=90, progressive=progressive))


@pytest.mark.parametrize("size", SIZES)
def test_jpeg_of_four_inks(tmp_path, size):
    compare(tmp_path, encoded(picture(*size).convert("CMYK"), "JPEG", quality=90))


def test_jpeg_with_orientation_is_not_turned(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    compare(tmp_path, encoded(picture(64, 48), "JPEG", exif=exif))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
@pytest.mark.parametrize("size", [(1, 1), (7, 5), (101, 77)])
def test_png_of_every_mode(tmp_path, mode, size):
    compare(tmp_path, encoded(picture(*size).convert("RGBA").convert(mode), "PNG"))


def test_png_with_alpha_that_varies(tmp_path):
    image = picture(64, 48).convert("RGBA")
    image.putalpha(picture(64, 48, seed=2).convert("L"))
    compare(tmp_path, encoded(image, "PNG"))


def test_png_palette_with_transparency(tmp_path):
    compare(tmp_path, encoded(picture(64, 48).convert("P"), "PNG", transparency=bytes(range(256))))
    compare(tmp_path, encoded(picture(64, 48).convert("P"), "PNG", transparency=7))


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_png_of_few_bits(tmp_path, bits):
    compare(tmp_path, encoded(picture(63, 48).convert("P", palette=Image.Palette.ADAPTIVE, colors=2**bits), "PNG", bits=bits))
    rows = [bytes((x * 37 + y * 11) % 256 for x in range((63 * bits + 7) // 8)) for y in range(20)]
    compare(tmp_path, png_by_hand(63, 20, bits, 0, rows))


@pytest.mark.parametrize("colour,samples", [(2, 3), (4, 2), (6, 4)])
def test_png_of_16_bits(tmp_path, colour, samples):
    random = numpy.random.default_rng(5)
    values = random.integers(0, 65536, (20, 31 * samples)).astype(">u2")
    compare(tmp_path, png_by_hand(31, 20, 16, colour, [row.tobytes() for row in values]))


def test_gray_png_of_16_bits_keeps_the_high_byte(tmp_path):
    values = numpy.random.default_rng(5).integers(0, 65536, (20, 31)).astype(">u2")
    path = tmp_path / "image"
    path.write_bytes(png_by_hand(31, 20, 16, 0, [row.tobytes() for row in values]))
    assert numpy.array_equal(pixels("decode", path, channels=1), values >> 8)
    assert numpy.array_equal(pixels("decode", path, channels=3), numpy.repeat((values >> 8)[..., None], 3, axis=2))


@pytest.mark.parametrize("options", [{"lossless": True}, {"quality": 80}, {"quality": 30}])
@pytest.mark.parametrize("size", SIZES)
def test_webp(tmp_path, options, size):
    compare(tmp_path, encoded(picture(*size), "WEBP", **options))


@pytest.mark.parametrize("options", [{"lossless": True, "exact": True}, {"quality": 80}])
def test_webp_with_alpha(tmp_path, options):
    image = picture(64, 48).convert("RGBA")
    image.putalpha(picture(64, 48, seed=2).convert("L"))
    compare(tmp_path, encoded(image, "WEBP", **options))


def test_animated_webp_is_refused(tmp_path):
    path = tmp_path / "image"
    path.write_bytes(encoded(picture(64, 48), "WEBP", save_all=True, append_images=[picture(64, 48, seed=2)]))
    with pytest.raises(Refused, match="unsupported: .*animation"):
        pixels("decode", path)


@pytest.mark.parametrize("form,options", [
    ("JPEG", {"subsampling": 0}), ("JPEG", {"subsampling": 1}), ("JPEG", {"subsampling": 2}),
    ("JPEG", {"subsampling": 2, "progressive": True}), ("PNG", {}), ("WEBP", {"quality": 80}), ("WEBP", {"lossless": True})])
def test_a_region_has_the_pixels_of_the_whole(tmp_path, form, options):
    path = tmp_path / "image"
    path.write_bytes(encoded(picture(203, 151), form, **options))
    whole = pixels("decode", path)
    random = numpy.random.default_rng(7)
    for _ in range(20):
        x, y = random.integers(0, 203), random.integers(0, 151)
        width, height = random.integers(1, 204 - x), random.integers(1, 152 - y)
        part = pixels("decode", path, region=f"{x},{y},{width},{height}")
        assert numpy.array_equal(part, whole[y:y + height, x:x + width]), (x, y, width, height)


@pytest.mark.parametrize("form", ["BMP", "GIF", "TIFF"])
def test_other_formats_are_refused_by_their_first_bytes(tmp_path, form):
    path = tmp_path / "image"
    path.write_bytes(encoded(picture(64, 48), form))
    with pytest.raises(Refused, match="unsupported: not a JPEG, PNG or WebP: it begins with \"(BM|GIF|II)"):
        pixels("decode", path)
