"""Tools that rewrite shards lose nothing, double nothing, and give the order they promise."""
import fractions
import os
import pathlib
import random
import subprocess
import tarfile

import pytest

from archives import (Sample, add_file, add_special, content_set, digest, member_set, random_samples, read_members, read_samples,
                      sample_set, shards_like, tree_bytes, write_members, write_shard)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Three shards, together some 20 MB, with sizes from nothing to above a megabyte."""
    directory = tmp_path_factory.mktemp("dataset")
    rng = random.Random(7)
    for number in range(3):
        write_shard(directory / f"in-{number}.tar", random_samples(rng, 120, number * 120, large_every=30))
    return directory


def inputs(dataset):
    return str(dataset / "in-{0..2}.tar")


def everything(dataset):
    return read_samples(*shards_like(dataset, "in-*.tar"))


def outputs(directory, pattern="out-*.tar"):
    return shards_like(directory, pattern)


REWRITERS = {
    "shard": ["shard"],
    "shard --shuffle": ["shard", "--shuffle", "--memory", "4MiB"],
    "cat": ["tar", "cat"],
    "cat --shuffle": ["tar", "cat", "--shuffle", "40"],
    "cat --mix": ["tar", "cat", "--mix"],
    "split": ["tar", "split"],
    "merge": ["tar", "merge"],
    "sort": ["tar", "sort"],
    "sort --by cls": ["tar", "sort", "--by", "cls"],
    "sort --by cls --number": ["tar", "sort", "--by", "cls", "--number"],
    "sort in 4 MiB": ["tar", "sort", "--by", "cls", "--memory", "4MiB"],
    "shuffle": ["tar", "shuffle"],
    "shuffle in 4 MiB": ["tar", "shuffle", "--memory", "4MiB"],
    "map": ["tar", "map", "-c", "true"],
}
WITH_JOBS = ["shard --shuffle", "sort", "sort in 4 MiB", "shuffle", "shuffle in 4 MiB"]


@pytest.mark.parametrize("tool", REWRITERS)
def test_every_tool_keeps_every_sample_once(dataset, millrace, tmp_path, tool):
    report = millrace.json(*REWRITERS[tool], inputs(dataset), "-o", "out-%03d.tar", "--max-samples", "50")[0]
    assert sample_set(read_samples(*outputs(tmp_path))) == sample_set(everything(dataset))
    assert report["samples"] == 360
    assert [shard["path"] for shard in report["shards"]] == [os.path.basename(path) for path in outputs(tmp_path)]
    assert [shard["bytes"] for shard in report["shards"]] == [os.path.getsize(path) for path in outputs(tmp_path)]


@pytest.mark.parametrize("jobs", [1, 2, 4])
@pytest.mark.parametrize("tool", WITH_JOBS)
def test_any_number_of_threads_keeps_every_sample(dataset, millrace, tmp_path, tool, jobs):
    millrace(*REWRITERS[tool], inputs(dataset), "-o", "out-%d.tar", "-j", jobs)
    assert sample_set(read_samples(*outputs(tmp_path))) == sample_set(everything(dataset))


def test_a_small_memory_spills_to_temporary_files_that_are_gone_afterwards(dataset, millrace, tmp_path):
    (tmp_path / "scratch").mkdir()
    for verb in ["sort", "shuffle"]:
        report = millrace.json("tar", verb, inputs(dataset), "-o", "out.tar", "--memory", "4MiB", "--tmpdir", "scratch",
                               "--reread", "never")[0]
        assert report["runs"] > 1 and report["spilled_bytes"] > 4 << 20
    assert os.listdir(tmp_path / "scratch") == []
    assert sorted(os.listdir(tmp_path)) == ["out.tar", "out.tar.mri", "scratch"]


def test_too_little_memory_for_sorting_is_refused(dataset, millrace, tmp_path):
    assert "memory" in millrace("tar", "sort", inputs(dataset), "-o", "out.tar", "--memory", "1MiB", code=2).err


def all_bytes(directory):
    return {name: digest(data) for name, data in tree_bytes(directory).items()}


@pytest.mark.parametrize("verb", [["tar", "shuffle", "--seed", "9"], ["tar", "sort"], ["tar", "sort", "--by", "cls", "--number"],
                                  ["shard", "--shuffle", "--seed", "9"]], ids=["shuffle", "sort", "sort by number", "shard --shuffle"])
def test_outputs_are_the_same_bytes_for_any_threads_and_memory(dataset, millrace, tmp_path, verb):
    seen = []
    for jobs, memory in [(1, "1GiB"), (2, "1GiB"), (4, "1GiB"), (1, "4MiB"), (2, "4MiB"), (4, "5MiB"), (3, "16MiB")]:
        directory = tmp_path / f"{jobs}-{memory}"
        directory.mkdir()
        millrace(*verb, inputs(dataset), "-o", directory / "out-%d.tar", "-j", jobs, "--memory", memory, "--max-samples", "100")
        seen.append(all_bytes(directory))
    assert len(seen[0]) == 8
    assert all(one == seen[0] for one in seen)


@pytest.mark.parametrize("verb", [["tar", "shuffle"], ["tar", "cat", "--shuffle", "50"], ["shard", "--shuffle"]], ids=["shuffle", "cat", "shard"])
def test_seeds_decide_the_order(dataset, millrace, tmp_path, verb):
    orders = []
    for seed in [1, 2, 1]:
        millrace(*verb, inputs(dataset), "-o", "out.tar", "--seed", seed)
        orders.append([sample.key for sample in read_samples(tmp_path / "out.tar")])
    assert orders[0] == orders[2]
    assert orders[0] != orders[1]
    assert orders[0] != [sample.key for sample in everything(dataset)]


def test_shuffling_mixes_samples_of_all_shards(dataset, millrace, tmp_path):
    millrace("tar", "shuffle", inputs(dataset), "-o", "out.tar")
    numbers = [int(sample.key.split("/")[1]) for sample in read_samples(tmp_path / "out.tar")]
    first_third = numbers[:120]
    for shard in range(3):
        assert 20 <= sum(number // 120 == shard for number in first_third) <= 65
    assert sum(b == a + 1 for a, b in zip(numbers, numbers[1:])) < 10


# -- sorting -------------------------------------------------------------------------------------------------

def sorted_keys(millrace, tmp_path, samples, *flags, shards=3):
    """The keys after sorting; the samples go into several shards first, in order."""
    for number in range(shards):
        write_shard(tmp_path / f"unsorted-{number}.tar", samples[number * len(samples) // shards:(number + 1) * len(samples) // shards])
    millrace("tar", "sort", f"unsorted-@{shards}.tar", "-o", "sorted.tar", *flags)
    return [sample.key for sample in read_samples(tmp_path / "sorted.tar")]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("memory", ["4MiB", "1GiB"])
def test_sorting_by_key_is_by_bytes(millrace, tmp_path, reverse, memory):
    rng = random.Random(11)
    keys = list({"".join(rng.choice(["a", "b", "B", "/x", "é", "日", "0", "9", " ", "~", "_"]) for _ in range(rng.randrange(1, 12))) for _ in range(800)})
    rng.shuffle(keys)
    samples = [Sample(key, {"bin": rng.randbytes(rng.choice([0, 10, 30_000]))}) for key in keys]
    flags = ["--memory", memory] + ["--reverse"] * reverse
    assert sorted_keys(millrace, tmp_path, samples, *flags) == sorted(keys, key=os.fsencode, reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
def test_sorting_by_text_is_by_bytes_and_stable(millrace, tmp_path, reverse):
    rng = random.Random(12)
    values = [rng.choice([b"", b"a", b"a\0", b"a\0\0", b"aa", b"B", b"abcdefgh", b"abcdefgh\0", b"abcdefghi", b"\xff", b"\x80"]) for _ in range(600)]
    samples = [Sample(f"{number:05d}", {"txt": value}) for number, value in enumerate(values)]
    expected = [f"{number:05d}" for number in sorted(range(600), key=lambda n: values[n], reverse=reverse)]
    assert sorted_keys(millrace, tmp_path, samples, "--by", "txt", *["--reverse"] * reverse) == expected


NUMBERS = ["0", "-0", "0.0", "1", "+1", "1.0", "-1", "-3", "0.5", "-0.5", "10", "9", "1e3", "-1e-3", "3.25", "1000000", "-1000000",
           "9007199254740992", "9007199254740993", "9007199254740994", "-9007199254740993", "-9007199254740992", "123456789012345678",
           "123456789012345679", " 7\n", "7", "1e300", "-1e300", "1e-300"]


def value_of(text):
    return fractions.Fraction(text.strip())


@pytest.mark.parametrize("reverse", [False, True])
def test_sorting_by_number_is_by_value_and_stable(millrace, tmp_path, reverse):
    rng = random.Random(13)
    texts = NUMBERS * 4
    rng.shuffle(texts)
    samples = [Sample(f"{number:05d}", {"num": text.encode()}) for number, text in enumerate(texts)]
    expected = [f"{number:05d}" for number in sorted(range(len(texts)), key=lambda n: value_of(texts[n]), reverse=reverse)]
    assert sorted_keys(millrace, tmp_path, samples, "--by", "num", "--number", *["--reverse"] * reverse) == expected


@pytest.mark.parametrize("low", [2**63 - 40, 2**64 - 40, -(2**63)], ids=["below 2^63", "below 2^64", "above -2^63"])
def test_large_whole_numbers_are_told_apart(millrace, tmp_path, low):
    numbers = list(range(low, low + 39))
    random.Random(14).shuffle(numbers)
    samples = [Sample(f"{number:05d}", {"num": str(value).encode()}) for number, value in enumerate(numbers)]
    expected = [f"{number:05d}" for number in sorted(range(len(numbers)), key=lambda n: numbers[n])]
    assert sorted_keys(millrace, tmp_path, samples, "--by", "num", "--number") == expected


def test_a_field_that_is_missing_or_no_number_is_an_error_that_names_the_sample(millrace, tmp_path):
    write_shard(tmp_path / "in.tar", [Sample("good", {"num": b"1"}), Sample("bad", {"num": b"one"})])
    assert "bad" in millrace("tar", "sort", "in.tar", "-o", "out.tar", "--by", "num", "--number", code=2).err
    assert "good" in millrace("tar", "sort", "in.tar", "-o", "out.tar", "--by", "cls", code=1).err
    assert "--by" in millrace("tar", "sort", "in.tar", "-o", "out.tar", "--number", code=2).err
    assert not (tmp_path / "out.tar").exists()


@pytest.mark.parametrize("verb", [["sort"], ["sort", "--reverse"], ["shuffle"], ["cat"], ["merge"]], ids=" ".join)
def test_samples_with_equal_keys_in_different_shards_are_all_kept(millrace, tmp_path, verb):
    for number in range(3):
        write_shard(tmp_path / f"in-{number}.tar", [Sample(f"{k:03d}", {"txt": b"%d %d" % (number, k)}) for k in range(50)])
    millrace("tar", *verb, "in-{0..2}.tar", "-o", "out.tar")
    before = [member for path in shards_like(tmp_path, "in-*.tar") for member in read_members(path)]
    after = read_members(tmp_path / "out.tar")
    assert member_set(after) == member_set(before)
    if verb[0] == "sort":
        order = sorted(before, key=lambda m: m.name, reverse="--reverse" in verb)
        assert [m.data for m in after] == [m.data for m in order]


def test_members_of_a_sample_keep_their_order_and_headers(millrace, tmp_path):
    with tarfile.open(tmp_path / "in.tar", "w") as archive:
        for key in "cab":
            for field in ["z", "a", "m"]:
                add_file(archive, f"{key}.{field}", f"{key}{field}".encode(), mtime=1234567, mode=0o640, uname="someone")
    for verb in ["cat", "sort", "shuffle", "merge"]:
        millrace("tar", verb, "in.tar", "-o", "out.tar")
        with tarfile.open(tmp_path / "out.tar") as archive:
            facts = [(entry.name[0], entry.name[2], entry.mtime, entry.mode, entry.uname) for entry in archive]
        assert [fact[1:] for fact in facts] == [("z", 1234567, 0o640, "someone"), ("a", 1234567, 0o640, "someone"), ("m", 1234567, 0o640, "someone")] * 3


# -- split and merge -----------------------------------------------------------------------------------------

def archive_with_loose_members(path):
    rng = random.Random(15)
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        add_special(archive, "top/", tarfile.DIRTYPE)
        add_file(archive, "README", b"no extension")
        for number in range(40):
            if number % 7 == 0:
                add_special(archive, f"top/{number:02d}", tarfile.DIRTYPE)
            add_file(archive, f"top/{number:02d}/x.jpg", rng.randbytes(rng.randrange(2000)))
            if number % 5 == 0:
                add_special(archive, f"top/{number:02d}/between", tarfile.SYMTYPE, "x.jpg")
            add_file(archive, f"top/{number:02d}/x.cls", b"%d" % number)
            if number % 3 == 0:
                add_special(archive, f"top/{number:02d}/link.jpg", tarfile.LNKTYPE, f"top/{number:02d}/x.jpg")
            if number % 11 == 0:
                add_special(archive, f"fifo{number}", tarfile.FIFOTYPE)
                add_file(archive, f"__meta__/{number}", b"about")
                add_file(archive, "n" * 120 + str(number), b"a long name of no sample")
        add_file(archive, "trailing", b"at the end")
    return path


def test_splitting_and_merging_gives_the_original_members(millrace, tmp_path):
    archive_with_loose_members(tmp_path / "in.tar")
    millrace("tar", "split", "in.tar", "-o", "part-%03d.tar", "--max-samples", "6")
    parts = shards_like(tmp_path, "part-*.tar")
    assert len(parts) == 7
    millrace("tar", "merge", "part-*.tar", "-o", "out.tar")
    assert member_set(read_members(tmp_path / "out.tar")) == member_set(read_members(tmp_path / "in.tar"))
    assert [s.key for s in read_samples(tmp_path / "out.tar")] == [s.key for s in read_samples(tmp_path / "in.tar")]


def test_merging_one_shard_keeps_links_behind_what_they_link_to(millrace, tmp_path):
    archive_with_loose_members(tmp_path / "in.tar")
    millrace("tar", "merge", "in.tar", "-o", "out.tar")
    seen = set()
    for member in read_members(tmp_path / "out.tar"):
        if member.kind == tarfile.LNKTYPE:
            assert member.link in seen, f"{member.name} links to {member.link}, which comes later"
        seen.add(member.name)
    (tmp_path / "read").mkdir()
    subprocess.run(["tar", "-xf", "out.tar", "-C", "read"], cwd=tmp_path, check=True)


def test_merging_keeps_the_order_of_all_members_where_samples_have_no_gaps(millrace, tmp_path):
    with tarfile.open(tmp_path / "in.tar", "w") as archive:
        for number in range(30):
            add_special(archive, f"d{number}", tarfile.DIRTYPE)
            add_file(archive, f"d{number}/x.jpg", b"jpg")
            add_file(archive, f"d{number}/x.cls", b"cls")
            add_file(archive, f"d{number}/LICENSE", b"text")
    millrace("tar", "merge", "in.tar", "-o", "out.tar")
    assert [m.name for m in read_members(tmp_path / "out.tar")] == [m.name for m in read_members(tmp_path / "in.tar")]


@pytest.mark.parametrize("verb", [["shard"], ["tar", "cat"], ["tar", "sort"], ["tar", "shuffle"], ["tar", "map", "-c", "true"]], ids=" ".join)
def test_other_tools_keep_the_samples_and_say_what_they_leave_out(millrace, tmp_path, verb):
    archive_with_loose_members(tmp_path / "in.tar")
    outcome = millrace(*verb, "in.tar", "-o", "out.tar")
    assert sample_set(read_samples(tmp_path / "out.tar")) == sample_set(read_samples(tmp_path / "in.tar"))
    assert "no sample" in outcome.err


def test_merging_compressed_and_plain_shards_keeps_all(dataset, millrace, tmp_path):
    for number, suffix in enumerate(["tar", "tar.gz", "tar.zst"]):
        millrace("tar", "cat", dataset / f"in-{number}.tar", "-o", f"part{number}.{suffix}")
    millrace("tar", "merge", "part0.tar", "part1.tar.gz", "part2.tar.zst", "-o", "all.tar.zst")
    assert sample_set(read_samples(tmp_path / "all.tar.zst")) == sample_set(everything(dataset))


def test_archives_behind_each_other_are_read_with_concatenated(dataset, millrace, tmp_path):
    joined = b"".join(pathlib.Path(path).read_bytes() for path in shards_like(dataset, "in-*.tar"))
    (tmp_path / "joined.tar").write_bytes(joined)
    assert "--concatenated" in millrace("tar", "cat", "joined.tar", "-o", "out.tar", code=1).err
    assert not (tmp_path / "out.tar").exists()
    for words in [["cat", "-o", "out.tar"], ["sort", "-o", "out.tar"], ["merge", "-o", "out.tar"]]:
        millrace("tar", words[0], "--concatenated", "joined.tar", *words[1:])
        assert sample_set(read_samples(tmp_path / "out.tar")) == sample_set(everything(dataset))
    assert len(millrace.json("tar", "ls", "--concatenated", "joined.tar")) == 360
    assert millrace.json("tar", "verify", "--concatenated", "joined.tar")[0]["ok"]


def test_an_archive_of_several_behind_each_other_can_be_indexed(dataset, millrace, tmp_path):
    joined = b"".join(pathlib.Path(path).read_bytes() for path in shards_like(dataset, "in-*.tar"))
    (tmp_path / "joined.tar").write_bytes(joined)
    assert millrace.json("tar", "index", "--concatenated", "joined.tar")[0]["samples"] == 360
    assert millrace.json("tar", "verify", "--concatenated", "joined.tar")[0]["index"]


# -- limits --------------------------------------------------------------------------------------------------

LIMITED = ["shard", "shard --shuffle", "cat", "cat --shuffle", "split", "merge", "sort", "shuffle", "map"]


@pytest.mark.parametrize("tool", LIMITED)
def test_shards_have_as_many_samples_as_asked_for(dataset, millrace, tmp_path, tool):
    millrace(*REWRITERS[tool], inputs(dataset), "-o", "out-%03d.tar", "--max-samples", "37")
    counts = [len(read_samples(path)) for path in outputs(tmp_path)]
    assert counts == [37] * 9 + [27]


@pytest.mark.parametrize("tool", LIMITED)
def test_shards_are_no_larger_than_asked_for_and_not_cut_early(dataset, millrace, tmp_path, tool):
    limit = 2_000_000
    millrace(*REWRITERS[tool], inputs(dataset), "-o", "out-%03d.tar", "--max-bytes", "2MB")
    shards = [read_samples(path) for path in outputs(tmp_path)]
    assert all(os.path.getsize(path) <= limit for path in outputs(tmp_path))
    for path, following in zip(outputs(tmp_path), shards[1:]):
        more = sum(512 + -(-len(data) // 512) * 512 for data in following[0].fields.values())
        assert os.path.getsize(path) + more > limit


@pytest.mark.parametrize("limit", ["600KB", "1"])
def test_a_sample_larger_than_the_limit_gets_a_shard_of_its_own(dataset, millrace, tmp_path, limit):
    millrace("tar", "split", dataset / "in-0.tar", "-o", "out-%03d.tar", "--max-bytes", limit)
    for path in outputs(tmp_path):
        assert os.path.getsize(path) <= 600_000 or len(read_samples(path)) == 1
    assert sample_set(read_samples(*outputs(tmp_path))) == sample_set(read_samples(dataset / "in-0.tar"))
    if limit == "1":
        assert len(outputs(tmp_path)) == 120


def long_named(tmp_path):
    """Names that need a pax header each, of a kilobyte: more than the data itself."""
    directory = tmp_path / "data"
    for number in range(100):
        path = directory / ("p" * 200) / ("q" * 200) / f"{number:04d}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("small")
    write_members(tmp_path / "in.tar", sorted(tree_bytes(directory).items()))


@pytest.mark.parametrize("words", [["shard", "data"], ["shard", "in.tar"], ["tar", "split", "in.tar"], ["tar", "map", "in.tar", "-c", "true"],
                                   ["tar", "sort", "in.tar"]], ids=" ".join)
def test_long_names_count_towards_the_size_limit(millrace, tmp_path, words):
    long_named(tmp_path)
    millrace(*words, "-o", "out-%03d.tar", "--max-bytes", "40KiB")
    assert len(read_samples(*outputs(tmp_path))) == 100
    assert max(os.path.getsize(path) for path in outputs(tmp_path)) <= 40 << 10


def test_new_keys_count_towards_the_size_limit(millrace, tmp_path):
    write_shard(tmp_path / "in.tar", [Sample(f"{n:03d}", {"txt": b"x"}) for n in range(100)])
    millrace("tar", "cat", "in.tar", "-o", "out-%03d.tar", "--max-bytes", "40KiB", "--rekey", "k" * 250 + "/" + "l" * 200 + "%d")
    assert max(os.path.getsize(path) for path in outputs(tmp_path)) <= 40 << 10


def test_fields_left_out_do_not_count_towards_the_size_limit(millrace, tmp_path):
    write_shard(tmp_path / "in.tar", [Sample(f"{n:03d}", {"jpg": bytes(100_000), "cls": b"1"}) for n in range(100)])
    millrace("tar", "cat", "-f", "cls", "in.tar", "-o", "out-%03d.tar", "--max-bytes", "40KiB")
    assert [len(read_samples(path)) for path in outputs(tmp_path)] == [39, 39, 22]


# -- indexes -------------------------------------------------------------------------------------------------

def assert_indexes_are_as_rebuilt(millrace, directory, *index_flags):
    shards = [path for path in shards_like(directory, "out*") if not path.endswith(".mri")]
    assert shards
    for shard in shards:
        index = pathlib.Path(shard + ".mri")
        written = index.read_bytes()
        index.unlink()
        millrace("tar", "index", *index_flags, shard)
        assert index.read_bytes() == written, f"the index of {shard} differs from a rebuilt one"


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tar.zst"])
@pytest.mark.parametrize("tool", REWRITERS)
def test_indexes_written_with_shards_are_those_built_afterwards(dataset, millrace, tmp_path, tool, suffix):
    source = dataset / "in-0.tar"
    millrace(*REWRITERS[tool], source, "-o", f"out-%d{suffix}", "--max-samples", "50")
    assert_indexes_are_as_rebuilt(millrace, tmp_path)


@pytest.mark.parametrize("words", [
    ["tar", "cat", "-f", "jpg=image cls"], ["tar", "cat", "-f", "jpg=IMAGE cls"], ["tar", "cat", "--rekey", "%d"], ["tar", "cat", "--slice", ":0"],
    ["tar", "map", "-c", "mv sample.jpg sample.seg.png"], ["tar", "map", "-c", "mv sample.jpg sample.JPG"],
    ["tar", "map", "-c", "rm sample.*"], ["tar", "map", "--many", "-c", "cp sample.jpg sample-a.jpg; cp sample.cls sample-b.cls"],
], ids=" ".join)
def test_indexes_of_changed_samples_are_those_built_afterwards(dataset, millrace, tmp_path, words):
    millrace("tar", "cat", dataset / "in-0.tar", "--slice", ":10", "-o", "small.tar")
    millrace(*words, "small.tar", "-o", "out.tar")
    assert_indexes_are_as_rebuilt(millrace, tmp_path)


@pytest.mark.parametrize("words", [["tar", "split"], ["tar", "merge"], ["tar", "cat"], ["tar", "sort"], ["tar", "shuffle"], ["shard"]], ids=" ".join)
def test_indexes_of_shards_with_loose_members_are_those_built_afterwards(millrace, tmp_path, words):
    archive_with_loose_members(tmp_path / "in.tar")
    millrace(*words, "in.tar", "-o", "out-%d.tar", "--max-samples", "9")
    assert_indexes_are_as_rebuilt(millrace, tmp_path)


@pytest.mark.parametrize("words", [["tar", "cat", "in.tar"], ["tar", "sort", "in.tar"], ["tar", "map", "-c", "true", "in.tar"], ["shard", "data"],
                                   ["tar", "map", "-c", "mv sample.jpg sample.seg.jpg", "in.tar"], ["shard", "list.jsonl"],
                                   ["tar", "cat", "-f", "jpg=seg.jpg", "in.tar"]], ids=" ".join)
def test_indexes_by_the_last_dot_rule_are_those_built_afterwards(millrace, tmp_path, words):
    members = [(f"v1.{n}.{field}", b"%d" % n) for n in range(10) for field in ["cls", "jpg"]]
    write_members(tmp_path / "in.tar", members)
    (tmp_path / "data").mkdir()
    for name, data in members:
        (tmp_path / "data" / name).write_bytes(data)
    (tmp_path / "list.jsonl").write_text('{"__key__": "a", "seg.jpg": "x"}\n')
    outcome = millrace(*words, "--key-rule", "last-dot", "-o", "out.tar", code=None)
    # Either a shard that reads back by the same rule, or a refusal; never one that means something else.
    if outcome.code == 0:
        assert_indexes_are_as_rebuilt(millrace, tmp_path, "--key-rule", "last-dot")
    else:
        assert outcome.code == 2 and not (tmp_path / "out.tar").exists()


@pytest.mark.parametrize("words", [["shard", "data"], ["shard", "data", "--shuffle"], ["shard", "list.tsv"]], ids=" ".join)
def test_indexes_of_shards_of_files_are_those_built_afterwards(millrace, tmp_path, words):
    rng = random.Random(16)
    lines = ["__key__\t@jpg\tcls"]
    for number in range(30):
        (tmp_path / "data" / f"c{number % 3}").mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / f"c{number % 3}" / f"{number}.jpg").write_bytes(rng.randbytes(1000))
        (tmp_path / "data" / f"c{number % 3}" / f"{number}.seg.PNG").write_bytes(rng.randbytes(100))
        lines.append(f"{'k' * 110}{number}\tdata/c{number % 3}/{number}.jpg\t{number}")
    (tmp_path / "list.tsv").write_text("\n".join(lines))
    millrace(*words, "-o", "out-%d.tar", "--max-samples", "8")
    assert len(outputs(tmp_path)) == 4
    assert_indexes_are_as_rebuilt(millrace, tmp_path)


def test_the_index_of_a_repaired_shard_is_that_built_afterwards(dataset, millrace, tmp_path):
    damaged = bytearray((dataset / "in-0.tar").read_bytes())
    with tarfile.open(dataset / "in-0.tar") as archive:
        place = archive.getmembers()[150].offset
    damaged[place:place + 5000] = bytes(range(250)) * 20
    (tmp_path / "in.tar").write_bytes(damaged)
    millrace("tar", "verify", "--repair", "--output", "out.tar", "in.tar", code=1)
    assert_indexes_are_as_rebuilt(millrace, tmp_path)


@pytest.mark.parametrize("verb", ["merge", "cat", "sort"])
def test_parts_of_one_sample_in_two_shards_are_in_the_index_as_they_are_in_the_shard(millrace, tmp_path, verb):
    write_members(tmp_path / "a.tar", [("w.jpg", b"0"), ("x.jpg", b"1")])
    write_members(tmp_path / "b.tar", [("x.cls", b"2"), ("y.cls", b"3")])
    millrace("tar", verb, "a.tar", "b.tar", "-o", "out.tar")
    assert_indexes_are_as_rebuilt(millrace, tmp_path)


@pytest.mark.parametrize("words", [["tar", "cat"], ["tar", "sort"], ["tar", "split"], ["shard"]], ids=" ".join)
def test_shards_under_a_global_header_are_rewritten_whole(millrace, tmp_path, words):
    with tarfile.open(tmp_path / "in.tar", "w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "0123", "mtime": "12345", "uname": "someone"}) as archive:
        for number in range(20):
            add_special(archive, f"d{number}", tarfile.DIRTYPE)
            add_file(archive, f"d{number}/{'n' * (number * 10)}x.jpg", b"%d" % number)
            add_file(archive, f"d{number}/{'n' * (number * 10)}x.cls", b"%d" % number)
    millrace(*words, "in.tar", "-o", "out-%d.tar", "--max-samples", "6")
    assert sample_set(read_samples(*outputs(tmp_path))) == sample_set(read_samples(tmp_path / "in.tar"))
    assert_indexes_are_as_rebuilt(millrace, tmp_path)


def test_no_index_means_no_index_and_removes_an_older_one(dataset, millrace, tmp_path):
    millrace("tar", "cat", dataset / "in-0.tar", "-o", "out.tar")
    assert (tmp_path / "out.tar.mri").exists()
    millrace("tar", "cat", dataset / "in-1.tar", "-o", "out.tar", "--no-index")
    assert sorted(os.listdir(tmp_path)) == ["out.tar"]


# -- content --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_a_directory_becomes_shards_of_all_its_files_in_the_same_bytes_for_any_threads(millrace, tmp_path, jobs):
    samples = random_samples(random.Random(17), 150, large_every=40)
    for sample in samples:
        for field, data in sample.fields.items():
            path = tmp_path / "data" / f"{sample.key}.{field}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    millrace("shard", "data", "-o", "out-%03d.tar", "--max-samples", "20", "-j", jobs)
    found = read_samples(*outputs(tmp_path))
    assert sample_set(found) == sample_set(samples)
    assert content_set(found) == content_set(samples)
    assert [s.key for s in found] == sorted(s.key for s in samples)
    millrace("shard", "data", "-o", "one.tar", "-j", 1)
    millrace("tar", "merge", "out-*.tar", "-o", "again.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "again.tar").read_bytes()
