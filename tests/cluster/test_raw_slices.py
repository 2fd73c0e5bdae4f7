"""The independent decoder: its arithmetic against known values, and that it finds every kind of damage on a drive."""
import os
import random
import shutil

import numpy
import pytest

import raw_slices
from clusters import Cluster
from raw_slices import Drives
from slice_arithmetic import cell_sizes, combine, crc32c, decode, row_of, times
from store_client import put_in_parts

SIZES = [0, 300, 16_385, 131_073, 3_000_017]
pytestmark = pytest.mark.skipif(bool(raw_slices.why_not()), reason=raw_slices.why_not() or "indexes can be read")


def test_crc32c_is_the_known_one():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0
    rng = random.Random(1)
    for size in (1, 512, 513, 5000, 70_000):
        data = rng.randbytes(size)
        slow = 0xFFFFFFFF
        for byte in data:
            slow ^= byte
            for _ in range(8):
                slow = slow >> 1 ^ (0x82F63B78 if slow & 1 else 0)
        assert crc32c(data) == slow ^ 0xFFFFFFFF


def test_products_are_those_of_the_field():
    assert times(2, 0x80) == 0x1D and times(7, times(3, 5)) == times(times(7, 3), 5) and times(0, 9) == 0
    assert [times(one, inverse) for one, inverse in zip((2, 5, 200), (row_of(2, 1)[0], row_of(5, 1)[0], row_of(200, 1)[0]))] == [1, 1, 1]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The directory of a cluster that was stopped, and what was written to it."""
    directory, bodies = tmp_path_factory.mktemp("raw"), {}
    with Cluster(directory, 3) as cluster:
        for bucket, redundancy in (("coded", "2+1"), ("copies", "copies=3")):
            cluster.make_bucket(bucket, redundancy=redundancy)
            for size in SIZES:
                bodies[bucket, f"k{size}"] = os.urandom(size)
                assert cluster.nodes[0].put(f"/{bucket}/k{size}", bodies[bucket, f"k{size}"]).status == 200
            parts = [os.urandom(5 << 20), os.urandom(70_000)]
            put_in_parts(cluster.nodes[1], f"/{bucket}/parts", parts)
            bodies[bucket, "parts"] = b"".join(parts)
            assert cluster.nodes[0].put(f"/{bucket}/gone", b"x" * 20_000).status == 200
            assert cluster.nodes[2].ask("DELETE", f"/{bucket}/gone").status == 204
    return directory, bodies


@pytest.fixture
def copied(written, tmp_path):
    """A copy of it that a test may damage."""
    shutil.copytree(written[0], tmp_path / "copy", ignore=shutil.ignore_patterns("reserve"))
    return sorted((tmp_path / "copy").glob("n*/data/drive")), written[1]


def test_every_object_is_put_together_from_its_slices(written):
    drives = Drives(sorted(written[0].glob("n*/data/drive")))
    for (bucket, key), body in written[1].items():
        data, there, wanted = drives.read(bucket, key)
        assert data == body and there == wanted, key
    assert drives.read("coded", "gone") is None and drives.read("coded", "never") is None
    assert drives.faults == []


def slice_files(drives):
    """The largest file of each drive: a slice of the largest object, or of a part."""
    return [max((path for path in (drive / "data").rglob("*") if path.is_file()), key=lambda path: path.stat().st_size) for drive in drives]


def findings(drives, bodies):
    """What the decoder says of a damaged cluster; bytes that it gives must be right all the same."""
    read, found = Drives(drives), []
    for (bucket, key), body in bodies.items():
        try:
            data, there, wanted = read.read(bucket, key)
            assert data == body, key
            if there < wanted:
                found.append(f"{key}: {there} of {wanted}")
        except raw_slices.Damaged as fault:
            found.append(str(fault))
    return found + read.faults


@pytest.mark.parametrize("where", ["data", "body", "footer"])
def test_a_flipped_bit_in_a_slice_is_found(copied, where):
    drives, bodies = copied
    path = slice_files(drives)[0]
    content = bytearray(path.read_bytes())
    at = {"data": 70_000, "body": len(content) - 60, "footer": len(content) - 10}[where]
    content[at] ^= 4
    path.write_bytes(content)
    found = findings(drives, bodies)
    assert any(path.name in fault and "damaged" in fault for fault in found), found


def test_a_slice_that_is_missing_or_cut_is_found(copied):
    drives, bodies = copied
    first, second = slice_files(drives)[:2]
    first.unlink()
    os.truncate(second, second.stat().st_size - 4096)
    found = findings(drives, bodies)
    assert any("is missing" in fault for fault in found) and any(second.name in fault for fault in found), found


def test_a_drive_that_came_back_empty_is_found(copied):
    drives, bodies = copied
    found = findings(drives[1:], bodies)
    assert any("2 of 3" in fault for fault in found), found


def test_slices_of_two_writes_do_not_fit():
    rng = random.Random(3)
    k, m, cell, size = 4, 2, 65_536, 600_001
    old, new = rng.randbytes(size), rng.randbytes(size)

    def slices(body):
        made, at = {slot: b"" for slot in range(k + m)}, 0
        for sizes in cell_sizes(size, k, m, cell):
            cells = []
            for slot in range(k):
                made[slot] += body[at:at + sizes[slot]]
                padded = numpy.zeros(sizes[0], numpy.uint8)
                padded[:sizes[slot]] = numpy.frombuffer(body[at:at + sizes[slot]], numpy.uint8)
                cells.append(padded)
                at += sizes[slot]
            for slot, parity in zip(range(k, k + m), combine([row_of(slot, k) for slot in range(k, k + m)], cells)):
                made[slot] += bytes(parity)
        return made

    of_old, of_new = slices(old), slices(new)
    for lost in ((), (0,), (1, 3), (0, 5), (4, 5)):
        data, wrong = decode(size, k, m, cell, {slot: data for slot, data in of_old.items() if slot not in lost})
        assert data == old and wrong == [], lost
    assert decode(size, k, m, cell, {**of_old, 5: of_new[5]})[1] == [5]
    assert decode(size, k, m, cell, {**of_old, 2: of_new[2]})[1] != []
