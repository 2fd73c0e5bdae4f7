"""Small shards, good and broken, the same bytes every time: what both libraries read in the comparison."""
import gzip
import io
import json
import tarfile

import numpy as np


def add(archive, name, data=b"", **facts):
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    for fact, value in facts.items():
        setattr(entry, fact, value)
    archive.addfile(entry, io.BytesIO(data))


def tar_bytes(members, format=tarfile.PAX_FORMAT):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=format) as archive:
        for member in members:
            add(archive, member[0], member[1], **(member[2] if len(member) > 2 else {}))
    return stream.getvalue()


def png(number, mode="RGB", size=(6, 4)):
    import PIL.Image

    channels = len(mode)
    pixels = (np.arange(size[0] * size[1] * channels) * (number + 3) % 251).astype("uint8")
    shape = (size[1], size[0]) if channels == 1 else (size[1], size[0], channels)
    stream = io.BytesIO()
    PIL.Image.fromarray(pixels.reshape(shape), mode).save(stream, format="PNG")
    return stream.getvalue()


def npy(array):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array)
    return stream.getvalue()


def sample_members(number):
    key = f"d{number % 2}/{number:04d}"
    return [(f"{key}.cls", b"%d" % (number % 7)), (f"{key}.png", png(number)), (f"{key}.txt", f"text é {number}".encode())]


def sorted_members(numbers):
    """By key, as tar --sort=name would."""
    return sorted((member for number in numbers for member in sample_members(number)), key=lambda member: member[0])


ODD_NAMES = [
    "d.e/a.b.jpg", "d.e/a.c.jpg", "x.tar.gz", "./y.z", "a.", "noext", ".hidden", "a.b/c", "dir/.hidden", "dir/._a.jpg",
    "UPPER.JPG", "upper.Txt", "__meta__/info.json", "__index__", "__x__.json", "k" * 120 + ".bin", "ünï/cödé.txt",
    "two words.txt", "two words.cls",
]


def image_members():
    return [("g.gray.png", png(1, "L")), ("g.json", json.dumps({"a": [1, 2.5, None]}).encode()),
            ("g.rgb.png", png(2)), ("g.rgba.png", png(3, "RGBA")), ("h.npy", npy(np.arange(6, dtype="f4").reshape(2, 3))),
            ("h.txt.gz", gzip.compress(b"squeezed", mtime=0)), ("h.unknown", b"\x00\x01"), ("i.index", b"17"),
            ("i.transcript", b"words")]


def build(directory):
    """Writes every shard of the corpus."""
    def put(name, data):
        (directory / name).write_bytes(data)

    for shard in range(3):
        put(f"good-{shard:03d}.tar", tar_bytes(sorted_members(range(shard * 8, shard * 8 + 8))))
    put("ustar.tar", tar_bytes(sorted_members(range(4)), tarfile.USTAR_FORMAT))
    put("gnu.tar", tar_bytes([("n" * 150 + ".txt", b"long"), *sorted_members(range(2))], tarfile.GNU_FORMAT))
    put("squeezed.tgz", gzip.compress(tar_bytes(sorted_members(range(5))), mtime=0))
    put("odd.tar", tar_bytes([(name, name.encode()) for name in ODD_NAMES]))
    put("links.tar", tar_bytes([("a.txt", b"a"), ("a.lnk", b"", {"type": tarfile.SYMTYPE, "linkname": "a.txt"}),
                                ("dir.x", b"", {"type": tarfile.DIRTYPE}), ("b.txt", b"b")]))
    put("images.tar", tar_bytes(image_members()))
    put("doubled.tar", tar_bytes([("a.txt", b"first"), ("a.TXT", b"second"), ("a.cls", b"1"), ("b.txt", b"b")]))
    put("scattered.tar", tar_bytes([("a.txt", b"a"), ("b.txt", b"b"), ("a.cls", b"1"), ("c.txt", b"c")]))
    put("badvalue.tar", tar_bytes([("a.cls", b"1"), ("b.cls", b"one"), ("c.cls", b"3")]))
    put("badimage.tar", tar_bytes([("a.png", png(1)), ("b.png", b"no image"), ("c.png", png(2))]))
    put("missing-field.tar", tar_bytes([("a.txt", b"a"), ("a.cls", b"1"), ("b.txt", b"b"), ("c.cls", b"3"),
                                        ("c.txt", b"c")]))
    whole = tar_bytes([("a.txt", b"a" * 700), ("b.txt", b"b" * 700), ("c.txt", b"c" * 700)], tarfile.USTAR_FORMAT)
    put("cut-in-data.tar", whole[:512 + 1024 + 512 + 300])
    put("cut-in-header.tar", whole[:2 * (512 + 1024) + 100])
    put("cut-at-header.tar", whole[:2 * (512 + 1024)])
    put("no-tar.tar", b"this is no archive, but it is long enough to look at. " * 40)
    put("nothing.tar", tar_bytes([]))
    put("empty.tar", b"")
    return directory
