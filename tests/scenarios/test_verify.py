"""millrace tar index and verify: every kind of damage is found, and repair saves the rest."""
import os
import random
import struct
import subprocess
import tarfile
import zlib

import pytest

from archives import (Sample, assert_whole_tar, member_offsets, put, random_samples, read_samples,
                      sample_set, small_shard, write_members, write_shard)


# -- index ---------------------------------------------------------------------------------------------------

def test_a_shard_that_changed_since_it_was_indexed_is_found(millrace, tmp_path):
    path = small_shard(tmp_path / "in.tar")
    millrace("tar", "index", "in.tar")
    assert millrace.json("tar", "verify", "in.tar")[0]["index"]
    changed = bytearray(path.read_bytes())
    changed[513] ^= 1  # in data: the tar is as good as before
    path.write_bytes(changed)
    verdict = millrace.json("tar", "verify", "in.tar", code=1)[0]
    assert [problem["fault"] for problem in verdict["problems"]] == ["damaged"]
    assert "of sample 0 at byte 512: its bytes are not those that were indexed" in verdict["problems"][0]["text"]
    small_shard(tmp_path / "in.tar", 40)
    verdict = millrace.json("tar", "verify", "in.tar", code=1)[0]
    assert [problem["fault"] for problem in verdict["problems"]] == ["stale index"]
    millrace("tar", "index", "in.tar")
    assert millrace.json("tar", "verify", "in.tar")[0]["ok"]


def test_a_damaged_index_is_found(millrace, tmp_path):
    small_shard(tmp_path / "in.tar")
    millrace("tar", "index", "in.tar")
    good = (tmp_path / "in.tar.mri").read_bytes()
    rng = random.Random(1)
    damaged = [b"", good[:-1], good + b"\0", good[:20]]
    for _ in range(30):
        one = bytearray(good)
        one[rng.randrange(len(one))] ^= 1 << rng.randrange(8)
        damaged.append(bytes(one))
    for one in damaged:
        (tmp_path / "in.tar.mri").write_bytes(one)
        verdict = millrace.json("tar", "verify", "in.tar", code=1)[0]
        assert [problem["fault"] for problem in verdict["problems"]] == ["stale index"]


def test_only_missing_and_unfit_indexes_are_made_with_missing(millrace, tmp_path):
    for name in "abcd":
        small_shard(tmp_path / f"{name}.tar", 5)
        millrace("tar", "index", f"{name}.tar")
    (tmp_path / "b.tar.mri").unlink()
    (tmp_path / "c.tar.mri").write_bytes(b"junk")
    small_shard(tmp_path / "d.tar", 60)
    report = millrace.json("tar", "index", "--missing", "{a,b,c,d}.tar")[0]
    assert [(shard["path"], shard["kept"]) for shard in report["shards"]] == [("a.tar", True), ("b.tar", False), ("c.tar", False), ("d.tar", False)]
    for name in "abcd":
        assert millrace.json("tar", "verify", f"{name}.tar")[0]["index"]


def test_shards_that_cannot_be_indexed_do_not_stop_the_others(millrace, tmp_path):
    small_shard(tmp_path / "a.tar")
    (tmp_path / "b.tar").write_bytes(b"this is not a tar" * 100)
    small_shard(tmp_path / "c.tar")
    error = millrace("tar", "index", "a.tar", "b.tar", "c.tar", code=1).err
    assert "b.tar" in error
    assert (tmp_path / "a.tar.mri").exists() and (tmp_path / "c.tar.mri").exists() and not (tmp_path / "b.tar.mri").exists()


# -- verify --------------------------------------------------------------------------------------------------

def faults(millrace, *words):
    verdict = millrace.json("tar", "verify", *words, code=1)[0]
    assert not verdict["ok"] and verdict["problem_count"] == len(verdict["problems"])
    return [problem["fault"] for problem in verdict["problems"]]


def test_a_good_shard_verifies(millrace, tmp_path):
    small_shard(tmp_path / "in.tar")
    verdict = millrace.json("tar", "verify", "--fields", "jpg,cls", "in.tar")[0]
    assert verdict["ok"] and verdict["samples"] == 10 and verdict["members"] == 20 and verdict["fields"] == {"jpg": 10, "cls": 10}
    assert "ok" in millrace("tar", "verify", "in.tar").text
    assert millrace("-q", "tar", "verify", "in.tar").text == ""


def test_a_cut_is_found_wherever_it_is(millrace, tmp_path):
    whole = write_shard(tmp_path / "in.tar", random_samples(random.Random(2), 12)).read_bytes()
    offset, data, size = member_offsets(tmp_path / "in.tar")[-1]
    end = data + -(-size // 512) * 512
    cuts = {1, 100, 511, 512, 513, 1024, offset - 1, offset, offset + 1, offset + 512, data + 1, end, end + 1, end + 512, end + 1023}
    rng = random.Random(3)
    cuts |= {rng.randrange(1, end) for _ in range(40)}
    for cut in sorted(cuts):
        (tmp_path / "cut.tar").write_bytes(whole[:cut])
        assert "truncated" in faults(millrace, "cut.tar"), f"cut at {cut} of {end}"
        millrace("tar", "cat", "cut.tar", "-o", "out.tar", code=1)
        assert not (tmp_path / "out.tar").exists()
    (tmp_path / "cut.tar").write_bytes(whole[:end + 1024])
    assert millrace.json("tar", "verify", "cut.tar")[0]["ok"]


def test_an_empty_file_is_a_cut_one(millrace, tmp_path):
    put(tmp_path / "empty.tar")
    assert faults(millrace, "empty.tar") == ["truncated"]


def test_a_flipped_bit_in_any_header_is_found(millrace, tmp_path):
    path = write_shard(tmp_path / "in.tar", random_samples(random.Random(4), 10), format=tarfile.USTAR_FORMAT)
    whole = path.read_bytes()
    rng = random.Random(5)
    for offset, _, _ in member_offsets(path):
        wounded = bytearray(whole)
        wounded[offset + rng.choice([0, 50, 100, 124, 135, 150, 156, 257, 300, 345, 400])] ^= 1 << rng.randrange(7)
        (tmp_path / "bad.tar").write_bytes(wounded)
        assert "damaged" in faults(millrace, "bad.tar")


def test_doubled_fields_and_scattered_keys_are_found(millrace, tmp_path):
    write_members(tmp_path / "doubled.tar", [("a.jpg", b"1"), ("a.cls", b"2"), ("a.JPG", b"3"), ("b.jpg", b"4")])
    assert faults(millrace, "doubled.tar") == ["doubled field"]
    write_members(tmp_path / "scattered.tar", [("a.jpg", b"1"), ("b.jpg", b"2"), ("a.cls", b"3"), ("b.cls", b"4")])
    assert faults(millrace, "scattered.tar") == ["scattered key"] * 2


def test_what_the_error_about_a_scattered_sample_suggests_does_help(millrace, tmp_path):
    write_members(tmp_path / "in.tar", [("a.jpg", b"1"), ("b.jpg", b"2"), ("a.cls", b"3"), ("b.cls", b"4")])
    error = millrace("tar", "cat", "in.tar", "-o", "out.tar", code=1).err
    assert "scattered" in error
    assert "millrace tar cat --gather" in error
    millrace("tar", "cat", "--gather", "in.tar", "-o", "out.tar")
    assert millrace.json("tar", "verify", "out.tar")[0]["ok"]
    assert read_samples(tmp_path / "out.tar") == [Sample("a", {"jpg": b"1", "cls": b"3"}), Sample("b", {"jpg": b"2", "cls": b"4"})]


def test_missing_fields_are_found_when_asked_for(millrace, tmp_path):
    write_members(tmp_path / "in.tar", [("a.jpg", b"1"), ("a.cls", b"2"), ("b.jpg", b"3"), ("c.cls", b"3")])
    assert millrace.json("tar", "verify", "in.tar")[0]["ok"]
    assert faults(millrace, "--fields", "jpg,cls", "in.tar") == ["missing field"] * 2
    assert faults(millrace, "--fields", "jpg,cls,txt", "in.tar") == ["missing field"] * 5
    assert '"b"' in millrace("tar", "verify", "--fields", "cls", "in.tar", code=1).text


def test_data_behind_the_end_is_found(millrace, tmp_path):
    path = small_shard(tmp_path / "in.tar")
    path.write_bytes(path.read_bytes() * 2)
    assert "damaged" in faults(millrace, "in.tar")


def test_each_bad_shard_is_told_of_and_good_ones_too(millrace, tmp_path):
    small_shard(tmp_path / "a.tar")
    (tmp_path / "b.tar").write_bytes((tmp_path / "a.tar").read_bytes()[:5000])
    small_shard(tmp_path / "c.tar")
    outcome = millrace("--json", "tar", "verify", "{a,b,c}.tar", code=1)
    assert [row["ok"] for row in outcome.rows] == [True, False, True]
    assert "1 of 3" in outcome.err


def test_a_thousand_problems_and_more_are_counted(millrace, tmp_path):
    write_members(tmp_path / "in.tar", [(f"{n:05d}.jpg", b"") for n in range(1500)])
    verdict = millrace.json("tar", "verify", "--fields", "cls", "in.tar", code=1)[0]
    assert verdict["problem_count"] == 1500 and len(verdict["problems"]) == 1000


def test_not_a_tar_is_bad_not_a_crash(millrace, tmp_path):
    rng = random.Random(6)
    for data in [b"hello", b"x" * 5000, rng.randbytes(20_000), b"\0" * 100, b"\x1f\x8b" + rng.randbytes(3000), b"\x28\xb5\x2f\xfd" + rng.randbytes(3000),
                 b"BZh9" + rng.randbytes(3000), b"\xfd7zXZ\0" + rng.randbytes(3000)]:
        put(tmp_path / "junk.tar", data)
        for verb in [["verify"], ["ls"], ["stat"], ["index"], ["cat", "-o", "out.tar"], ["extract", "-d", "out"], ["verify", "--repair", "--output", "fixed.tar"]]:
            millrace("tar", verb[0], "junk.tar", *verb[1:], code=1)
        assert not (tmp_path / "out.tar").exists()
        (tmp_path / "fixed.tar").unlink(missing_ok=True)
        (tmp_path / "fixed.tar.mri").unlink(missing_ok=True)


# -- repair --------------------------------------------------------------------------------------------------

def repair(millrace, tmp_path, bad):
    """Repairs bytes; gives the report and the samples saved, after checking what holds for any repair."""
    put(tmp_path / "bad.tar", bad)
    rows = millrace.json("tar", "verify", "--repair", "bad.tar", code=1)
    assert (tmp_path / "bad.tar").read_bytes() == bad, "the original was changed"
    repaired = tmp_path / "bad.repaired.tar"
    assert_whole_tar(repaired)
    verdict = millrace.json("tar", "verify", "bad.repaired.tar")[0]
    assert verdict["ok"] and verdict["index"]
    samples = read_samples(repaired)
    report = rows[-1]
    assert report["kept_samples"] == len(samples)
    for path in [repaired, tmp_path / "bad.repaired.tar.mri"]:
        path.unlink()
    return report, samples


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], ids=["ustar", "gnu", "pax"])
def test_repair_saves_every_sample_that_damage_did_not_touch(millrace, tmp_path, format):
    samples = [Sample(f"{'deep/' * 30 if format != tarfile.USTAR_FORMAT else ''}{n:04d}", {"jpg": random.Random(n).randbytes(700 + n), "cls": b"%d" % n})
               for n in range(40)]
    path = write_shard(tmp_path / "in.tar", samples, format)
    whole = path.read_bytes()
    offsets = member_offsets(path)
    rng = random.Random(7)
    for _ in range(25):
        start = rng.randrange(offsets[-1][1])
        length = rng.choice([1, 10, 511, 512, 513, 3000, 9000])
        bad = bytearray(whole)
        bad[start:start + length] = rng.randbytes(length)
        bad = bytes(bad[:len(whole)])
        hit = {n // 2 for n, (offset, data, size) in enumerate(offsets) if offset < start + length and start < data + -(-size // 512) * 512}
        put(tmp_path / "bad.tar", bad)
        if millrace("tar", "verify", "bad.tar", code=None).code == 0:
            continue  # only data was hit, which a tar without its index cannot tell
        report, saved = repair(millrace, tmp_path, bad)
        kept = sample_set(saved)
        for n, sample in enumerate(samples):
            if n not in hit:
                assert kept[next(iter(sample_set([sample])))] == 1, f"sample {n} was lost to damage at {start}+{length}"
        assert report["lost"], "nothing was said to be lost"
        # Nothing is made up: every key is one of the original's.
        assert {sample.key for sample in saved} <= {sample.key for sample in samples}


def test_repair_of_a_cut_shard_saves_the_whole_samples(millrace, tmp_path):
    samples = random_samples(random.Random(8), 20)
    path = write_shard(tmp_path / "in.tar", samples)
    whole = path.read_bytes()
    offsets = member_offsets(path)
    firsts = [0]
    for sample in samples:
        firsts.append(firsts[-1] + len(sample.fields))
    rng = random.Random(9)
    for cut in [rng.randrange(600, offsets[-1][1]) for _ in range(25)]:
        report, saved = repair(millrace, tmp_path, whole[:cut])
        # A sample is known to be whole where the next one's first header is there too.
        certain = [sample for sample, following in zip(samples, firsts[1:-1]) if offsets[following][1] <= cut]
        assert saved[:len(certain)] == certain
        for sample, original in zip(saved[len(certain):], samples[len(certain):]):
            assert sample.key == original.key and sample.fields.items() <= original.fields.items()
        assert len(saved) <= len(certain) + 1
        assert report["lost"]


@pytest.mark.parametrize("common", [True, False], ids=["field of all samples", "field of one sample"])
@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], ids=["gnu", "pax"])
def test_repair_makes_up_no_names_where_a_long_name_was_damaged(millrace, tmp_path, format, common):
    field = "segmentation-" + "m" * 120 + ".png"
    samples = [Sample(f"{n:04d}", {"cls": b"%d" % n, **({field: b"mask %d" % n} if common or n == 4 else {})}) for n in range(10)]
    path = write_shard(tmp_path / "in.tar", samples, format)
    whole = path.read_bytes()
    offset = member_offsets(path)[9 if common else 5][0]  # the long-named member of sample 4
    for place in [offset, offset + 100, offset + 148]:
        bad = bytearray(whole)
        bad[place] ^= 0x11
        _, saved = repair(millrace, tmp_path, bytes(bad))
        names = {f"{sample.key}.{field}" for sample in samples for field in sample.fields}
        assert {f"{sample.key}.{field}" for sample in saved for field in sample.fields} <= names
        assert [sample for sample in saved if sample.key != "0004"] == [sample for sample in samples if sample.key != "0004"]


def test_repair_gathers_scattered_members_and_keeps_the_first_of_doubled_fields(millrace, tmp_path):
    write_members(tmp_path / "in.tar", [("a.jpg", b"1"), ("b.jpg", b"2"), ("a.cls", b"3"), ("b.cls", b"4"), ("c.jpg", b"5"), ("c.jpg", b"6")])
    report, saved = repair(millrace, tmp_path, (tmp_path / "in.tar").read_bytes())
    assert saved == [Sample("a", {"jpg": b"1", "cls": b"3"}), Sample("b", {"jpg": b"2", "cls": b"4"}), Sample("c", {"jpg": b"5"})]
    assert report["gathered_samples"] == 2
    assert len(report["lost"]) == 1 and '"c"' in report["lost"][0]


@pytest.mark.parametrize("program", ["gzip", "zstd"])
def test_repair_of_a_cut_compressed_shard_saves_its_start(millrace, tmp_path, program):
    samples = random_samples(random.Random(10), 200)
    whole = write_shard(tmp_path / "in.tar", samples).read_bytes()
    packed = subprocess.run([program, "-c"], input=whole, capture_output=True, check=True).stdout
    put(tmp_path / "bad.tar.x", packed[:len(packed) * 3 // 4])
    millrace("tar", "verify", "--repair", "bad.tar.x", "--output", "fixed.tar", code=1)
    assert millrace.json("tar", "verify", "fixed.tar")[0]["ok"]
    saved = read_samples(tmp_path / "fixed.tar")
    assert len(saved) > 50
    assert saved[:-1] == samples[:len(saved) - 1]


def test_repair_never_replaces_a_file(millrace, tmp_path):
    put(tmp_path / "bad.tar", small_shard(tmp_path / "in.tar").read_bytes()[:4000])
    put(tmp_path / "bad.repaired.tar", b"precious")
    assert "exists" in millrace("tar", "verify", "--repair", "bad.tar", code=1).err
    assert (tmp_path / "bad.repaired.tar").read_bytes() == b"precious"
    assert "exists" in millrace("tar", "verify", "--repair", "bad.tar", "--output", "bad.tar", code=1).err


def test_a_good_shard_is_not_repaired(millrace, tmp_path):
    small_shard(tmp_path / "in.tar")
    millrace("tar", "verify", "--repair", "in.tar")
    assert os.listdir(tmp_path) == ["in.tar"]


# -- content -------------------------------------------------------------------------------------------------

def png(width=3, height=2):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(3 * width) for _ in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def test_decode_finds_corrupt_and_empty_images(millrace, tmp_path):
    cut = png()[:-20]
    write_members(tmp_path / "in.tar", [("good.png", png()), ("good.cls", b"1"), ("empty.jpg", b""), ("text.jpg", b"404 not found"),
                                        ("cut.PNG", cut), ("cut.cls", b"3"), ("fine.png", png())])
    assert millrace.json("tar", "verify", "in.tar")[0]["ok"]
    verdict = millrace.json("tar", "verify", "--decode", "in.tar", code=1)[0]
    assert [problem["fault"] for problem in verdict["problems"]] == ["undecodable"] * 3
    for problem, said in zip(verdict["problems"], ["empty.jpg at byte 2048: the image is empty", "its bytes are no JPEG, PNG or WebP", "cut.PNG"]):
        assert said in problem["text"]
    assert "undecodable: member empty.jpg" in millrace("tar", "verify", "--decode", "in.tar", code=1).text
    assert "corrupt and empty images" in millrace("tar", "verify", "--help").text
    millrace("tar", "verify", "--decode", "--repair", "in.tar", code=1)
    assert [sample.key for sample in read_samples(tmp_path / "in.repaired.tar")] == ["good", "fine"]
    assert millrace.json("tar", "verify", "--decode", "in.repaired.tar")[0]["ok"]
