"""What all tools share: listings, streams, names of shards, JSON, help and exit codes."""
import os
import random
import subprocess

import pytest

from archives import (member_offsets, put, random_samples, read_members, read_samples, sample_set, shards_like,
                      small_shard, tree_bytes, write_members, write_shard)

VERBS = ["ls", "stat", "cat", "split", "merge", "sort", "shuffle", "map", "index", "verify", "extract"]


# -- ls and stat ---------------------------------------------------------------------------------------------

def test_stat_counts_what_there_is(millrace, tmp_path):
    samples = random_samples(random.Random(11), 50)
    write_shard(tmp_path / "a.tar", samples[:20])
    write_shard(tmp_path / "b.tar", samples[20:])
    stat = millrace.json("tar", "stat", "a.tar", "b.tar")[0]
    sizes = [sum(map(len, sample.fields.values())) for sample in samples]
    assert stat["shards"] == 2 and stat["samples"]["count"] == 50
    assert (stat["samples"]["bytes"], stat["samples"]["min"], stat["samples"]["max"]) == (sum(sizes), min(sizes), max(sizes))
    for field in ["jpg", "cls", "txt"]:
        lengths = [len(sample.fields[field]) for sample in samples if field in sample.fields]
        found = stat["fields"][field]
        assert (found["count"], found["bytes"], found["min"], found["max"]) == (len(lengths), sum(lengths), min(lengths), max(lengths))
        assert sum(bar["count"] for bar in found["histogram"]) == len(lengths)
    assert "jpg" in millrace("tar", "stat", "a.tar").text


def test_offsets_in_listings_are_where_the_headers_are(millrace, tmp_path):
    path = write_shard(tmp_path / "in.tar", random_samples(random.Random(12), 20))
    assert [row["offset"] for row in millrace.json("tar", "ls", "--members", path)] == [offset for offset, _, _ in member_offsets(path)]


def test_listings_for_people_keep_to_one_line_per_entry(millrace, tmp_path):
    write_members(tmp_path / "in.tar", [("a\nb.txt", b"1"), ("c\x1b[31m.txt", b"2")])
    for words in [["ls"], ["ls", "--members"]]:
        text = millrace("tar", *words, "in.tar").text
        assert len(text.splitlines()) == 2 and "\x1b" not in text
    assert [row["name"] for row in millrace.json("tar", "ls", "--members", "in.tar")] == ["a\nb.txt", "c\x1b[31m.txt"]


def test_an_empty_archive_is_fine(millrace, tmp_path):
    write_members(tmp_path / "in.tar", [])
    assert millrace.json("tar", "ls", "in.tar") == []
    assert millrace.json("tar", "stat", "in.tar")[0]["samples"]["count"] == 0
    millrace("tar", "stat", "in.tar")
    for verb in [["cat"], ["sort"], ["shuffle"], ["merge"], ["map", "-c", "true"]]:
        millrace("tar", *verb, "in.tar", "-o", "out.tar")
        assert read_members(tmp_path / "out.tar") == []
        assert millrace.json("tar", "verify", "out.tar")[0]["ok"]


# -- streams, names, errors ----------------------------------------------------------------------------------

@pytest.mark.parametrize("words", [["shard"], ["tar", "cat"], ["tar", "merge"], ["tar", "sort"], ["tar", "shuffle"], ["tar", "map", "-c", "true"]], ids=" ".join)
def test_tools_read_standard_input_and_write_standard_output(millrace, tmp_path, words):
    path = small_shard(tmp_path / "in.tar", 30)
    with open(path, "rb") as file:
        from_file = millrace(*words, "-", "-o", "-", stdin=file).out
    from_pipe = millrace(*words, "-", "-o", "-", stdin=path.read_bytes()).out
    assert from_file == from_pipe
    put(tmp_path / "out.tar", from_pipe)
    assert sample_set(read_samples(tmp_path / "out.tar")) == sample_set(read_samples(path))
    packed = millrace(*words, "-", "-o", "-", "--compress", "zstd", stdin=path.read_bytes()).out
    assert packed.startswith(b"\x28\xb5\x2f\xfd")
    assert not any(name.startswith("-") for name in os.listdir(tmp_path))


def test_looking_tools_read_standard_input(millrace, tmp_path):
    data = small_shard(tmp_path / "in.tar", 30).read_bytes()
    assert len(millrace.json("tar", "ls", "-", stdin=data)) == 30
    assert millrace.json("tar", "stat", "-", stdin=data)[0]["samples"]["count"] == 30
    assert millrace.json("tar", "verify", "-", stdin=data)[0]["ok"]
    millrace("tar", "extract", "-", "-d", "out", stdin=data)
    assert len(tree_bytes(tmp_path / "out")) == 60
    millrace("tar", "split", "-", "-o", "part-%d.tar", "--max-samples", "10", stdin=data)
    assert len(shards_like(tmp_path, "part-*.tar")) == 3
    millrace("tar", "index", "-", stdin=data, code=2)


def test_files_on_the_way_in_a_pipe_may_come_in_small_pieces(millrace, tmp_path):
    data = small_shard(tmp_path / "in.tar", 20).read_bytes()
    process = millrace.popen("--json", "tar", "ls", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    rng = random.Random(13)
    rest = memoryview(data)
    while rest:
        some = rng.randrange(1, 700)
        os.write(process.stdin.fileno(), rest[:some])
        rest = rest[some:]
    out, _ = process.communicate()
    assert process.returncode == 0 and len(out.splitlines()) == 20


def test_names_expand_to_the_shards_meant(millrace, tmp_path):
    for number in range(12):
        write_members(tmp_path / f"s-{number:06d}.tar", [(f"{number}.txt", b"x")])
    write_members(tmp_path / "val.tar", [("val.txt", b"x")])
    write_members(tmp_path / "we@home.tar", [("home.txt", b"x")])

    def keys(*names):
        return [row["key"] for row in millrace.json("tar", "ls", *names)]

    assert keys("s-{000000..000011}.tar") == [str(n) for n in range(12)]
    assert keys("s-{000003..000005}.tar") == ["3", "4", "5"]
    assert keys("s-@000012.tar") == [str(n) for n in range(12)]
    assert keys("s-00000{2,1}.tar") == ["2", "1"]
    assert keys("s-00001?.tar") == ["10", "11"]
    assert keys("s-00000[7-9].tar::val.tar") == ["7", "8", "9", "val"]
    assert keys("val.tar", "s-000000.tar") == ["val", "0"]
    assert keys("{s-000001,val}.tar") == ["1", "val"]
    assert keys("we@home.tar") == ["home"]
    assert keys(tmp_path / "s-*.tar") == [str(n) for n in range(12)]


@pytest.mark.parametrize("name,code", [("s-{1..2.tar", 2), ("s-{b..a}.tar", 2), ("s-{5..1}.tar", 2), ("", 2), ("none-*.tar", 1), ("s-{0..99999999}.tar", 2),
                                       ("absent.tar", 1), ("s-@3.tar", 1)])
def test_names_that_mean_nothing_are_errors(millrace, tmp_path, name, code):
    for words in [["ls"], ["stat"], ["verify"], ["index"], ["cat", "-o", "out.tar"], ["extract", "-d", "out"]]:
        outcome = millrace("tar", words[0], name, *words[1:], code=code)
        assert outcome.err.startswith("millrace: ")
    assert not (tmp_path / "out.tar").exists()


@pytest.mark.parametrize("pattern", ["out-%s.tar", "out-%d-%d.tar", "out-%.tar", "", "out-%0999d.tar"])
def test_output_names_that_mean_nothing_are_wrong_usage(millrace, tmp_path, pattern):
    small_shard(tmp_path / "in.tar")
    millrace("tar", "cat", "in.tar", "-o", pattern, code=2)
    assert os.listdir(tmp_path) == ["in.tar"]


def test_percent_signs_in_output_names_are_written_twice(millrace, tmp_path):
    small_shard(tmp_path / "in.tar")
    millrace("tar", "cat", "in.tar", "-o", "100%%-%d.tar")
    assert (tmp_path / "100%-0.tar").exists()


def test_a_directory_where_a_shard_should_be_is_an_error(millrace, tmp_path):
    (tmp_path / "directory.tar").mkdir()
    small_shard(tmp_path / "in.tar")
    for words in [["ls"], ["stat"], ["verify"], ["index"], ["cat", "-o", "out.tar"], ["extract", "-d", "out"], ["sort", "-o", "out.tar"]]:
        # verify goes on to the next shard and says at the end that something was wrong.
        assert "directory" in millrace("tar", words[0], "directory.tar", *words[1:], code=1 if words == ["verify"] else 2).err
    millrace("tar", "cat", "in.tar", "-o", "directory.tar", code=None)
    assert (tmp_path / "directory.tar").is_dir()


def test_outputs_that_cannot_be_written_are_errors(millrace, tmp_path):
    small_shard(tmp_path / "in.tar")
    assert "absent" in millrace("tar", "cat", "in.tar", "-o", "absent/out.tar", code=1).err
    assert millrace("tar", "cat", "in.tar", "-o", "directory-in-the-way", code=0).code == 0
    with open("/dev/full", "wb") as full:
        done = subprocess.run([millrace.binary, "tar", "cat", "in.tar", "-o", "-"], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == 1 and b"space" in done.stderr
        done = subprocess.run([millrace.binary, "--json", "tar", "stat", "in.tar"], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == 1 and b"standard output" in done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_wrong_flags_are_wrong_usage(millrace, tmp_path, verb):
    small_shard(tmp_path / "in.tar")
    rest = {"map": ["-o", "out.tar", "-c", "true"], "extract": ["-d", "out"]}.get(verb, [] if verb in ("ls", "stat", "index", "verify") else ["-o", "out-%d.tar"])
    millrace("tar", verb, "in.tar", *rest, "--no-such-flag", code=2)
    millrace("tar", verb, *rest, code=2)
    millrace("tar", verb, "in.tar", *rest, "--key-rule", "middle-dot", code=2)
    millrace("tar", verb, "in.tar", *rest, "--max-sample", "lots", code=2)
    if "-o" in rest:
        millrace("tar", verb, "in.tar", *rest, "--max-samples", "0", code=2)
        millrace("tar", verb, "in.tar", *rest, "--max-bytes", "3XB", code=2)
        millrace("tar", verb, "in.tar", *rest, "--compress", "rar", code=2)
        millrace("tar", verb, "in.tar", code=2)
    assert os.listdir(tmp_path) == ["in.tar"]


def test_no_verb_or_an_unknown_one_is_wrong_usage(millrace):
    for words in [[], ["tar"], ["nonsense"], ["tar", "nonsense"], ["shard"], ["--no-such-flag"]]:
        millrace(*words, code=2)
    assert "millrace" in millrace("--version").text


@pytest.mark.parametrize("words", [["shard"], *[["tar", verb] for verb in VERBS]], ids=" ".join)
def test_help_of_every_verb_has_an_example(millrace, words):
    text = millrace(*words, "--help").text
    assert "Example" in text and f"millrace {' '.join(words)}" in text


@pytest.mark.parametrize("words", [
    ["shard", "data", "-o", "out.tar"], ["shard", "in.tar", "-o", "out.tar"], ["tar", "ls", "in.tar"], ["tar", "ls", "--members", "in.tar"],
    ["tar", "stat", "in.tar"], ["tar", "cat", "in.tar", "-o", "out.tar"], ["tar", "split", "in.tar", "-o", "out-%d.tar"],
    ["tar", "merge", "in.tar", "-o", "out.tar"], ["tar", "sort", "in.tar", "-o", "out.tar"], ["tar", "shuffle", "in.tar", "-o", "out.tar"],
    ["tar", "map", "in.tar", "-o", "out.tar", "-c", "true"], ["tar", "index", "in.tar"], ["tar", "verify", "in.tar"], ["tar", "extract", "in.tar", "-d", "out"],
], ids=" ".join)
def test_json_is_all_there_is_on_standard_output(millrace, tmp_path, words):
    small_shard(tmp_path / "in.tar", 5)
    put(tmp_path / "data" / "1.jpg")
    for flags in [["--json", *words], [*words, "--json"]]:
        assert len(millrace(*flags).rows) >= 1
        for path in tmp_path.glob("out/*"):
            path.unlink()
    quiet = millrace("-q", *words)
    assert quiet.err == ""


def test_json_and_a_stream_cannot_share_standard_output(millrace, tmp_path):
    small_shard(tmp_path / "in.tar")
    millrace("--json", "tar", "cat", "in.tar", "-o", "-", code=2)


def test_a_sample_above_the_memory_limit_is_an_error_that_says_so(millrace, tmp_path):
    write_members(tmp_path / "in.tar", [("small.bin", b"x"), ("large.bin", bytes(3_000_000))])
    assert "large" in millrace("tar", "cat", "in.tar", "-o", "out.tar", "--max-sample", "2MB", code=1).err
    assert not (tmp_path / "out.tar").exists()
    millrace("tar", "cat", "in.tar", "-o", "out.tar", "--max-sample", "4MB")


def test_an_output_that_is_an_input_is_refused_and_the_input_stays(millrace, tmp_path):
    for number in range(3):
        small_shard(tmp_path / f"s-{number:06d}.tar", 20)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("s-*.tar")}
    (tmp_path / "link.tar").symlink_to("s-000000.tar")
    for words in [["sort", "s-000000.tar", "-o", "s-000000.tar"], ["cat", "s-000000.tar", "--slice", ":10", "-o", "s-000000.tar"],
                  ["cat", "link.tar", "-o", "s-000000.tar"], ["shuffle", "s-*.tar", "--max-samples", "5", "-o", "s-%06d.tar"],
                  ["split", "s-*.tar", "--max-samples", "5", "-o", "s-%06d.tar"]]:
        assert "also an input" in millrace("tar", *words, code=2).err
        assert {path.name: path.read_bytes() for path in tmp_path.glob("s-*.tar")} == before


def test_a_closed_standard_error_harms_nothing(millrace, tmp_path):
    small_shard(tmp_path / "in.tar", 5)
    subprocess.run(["sh", "-c", '"$0" tar map in.tar -o out.tar -c true 2>&-', millrace.binary], cwd=tmp_path, check=True)
    assert sample_set(read_samples(tmp_path / "out.tar")) == sample_set(read_samples(tmp_path / "in.tar"))
    assert millrace.json("tar", "verify", "out.tar")[0]["ok"]


# -- words that are no verb ----------------------------------------------------------------------------------

@pytest.mark.parametrize("words, said", [
    (["lss"], ['millrace has no verb "lss"', "try: millrace ls"]),
    (["verify", "x.tar"], ['millrace has no verb "verify"', "millrace tar verify"]),
    (["tar", "verfy", "x.tar"], ['millrace tar has no verb "verfy"', "try: millrace tar verify"]),
    (["--json", "--ca-file", "f", "tar", "stats"], ['millrace tar has no verb "stats"', "millrace tar stat"]),
    (["help", "tar", "kat"], ['millrace tar has no verb "kat"', "millrace tar cat"]),
    (["zzzzzzzzz"], ['millrace has no verb "zzzzzzzzz"', "millrace --help"]),
])
def test_a_mistyped_verb_is_named_with_the_nearest_ones(millrace, words, said):
    refused = millrace(*words, code=2)
    assert all(one in refused.err for one in said), refused.err


def test_help_is_also_a_verb(millrace):
    assert millrace("help").text == millrace("--help").text
    assert millrace("help", "tar").text == millrace("tar", "--help").text
    assert millrace("help", "tar", "cat").text == millrace("tar", "cat", "--help").text


# -- fields and indexes --------------------------------------------------------------------------------------

def test_a_field_that_a_sample_lacks_is_told_with_those_that_it_has(millrace, tmp_path):
    write_members(tmp_path / "in.tar", [("a.jpg", b"1"), ("a.cls", b"2")])
    assert 'sample "a" has no field jpgg; it has jpg, cls' in millrace("tar", "cat", "-f", "jpgg", "in.tar", "-o", "out.tar", code=1).err
    assert 'sample "a" has no field score; it has jpg, cls' in millrace("tar", "sort", "--by", "score", "in.tar", "-o", "out.tar", code=1).err


def test_an_index_lies_only_beside_a_shard_under_its_final_name(millrace, tmp_path):
    write_members(tmp_path / "in.tar", [("a.txt", b"1")])
    for name in ("out.tar.tmp", "out", ".out.tar"):
        millrace("tar", "cat", "in.tar", "-o", name)
        assert (tmp_path / name).exists() and not (tmp_path / f"{name}.mri").exists()
    millrace("tar", "cat", "in.tar", "-o", "out.tar")
    assert (tmp_path / "out.tar.mri").exists()


def test_a_dry_run_of_the_shard_tools_counts_and_writes_nothing(millrace, tmp_path):
    small_shard(tmp_path / "in.tar", 6)
    before = sorted(os.listdir(tmp_path))
    for words in (["cat"], ["split", "--max-samples", "2"], ["sort"], ["shuffle"], ["map", "-c", "true"]):
        report = millrace.json("tar", *words, "-n", "in.tar", "-o", "out-%06d.tar")[0]
        assert report["dry_run"] and report["samples"] == 6
    assert "would write 1 shard, 6 samples" in millrace("tar", "merge", "-n", "in.tar", "-o", "out.tar").err
    assert "would extract" in millrace("tar", "extract", "-n", "in.tar", "-d", "out").err
    assert "would write in.tar.mri" in millrace("tar", "index", "-n", "in.tar").text
    assert sorted(os.listdir(tmp_path)) == before
