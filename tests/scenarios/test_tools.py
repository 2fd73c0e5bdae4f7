"""Each tool does what its help says, refuses what it must, and says what went wrong."""
import json
import os
import pathlib
import random
import resource
import subprocess
import tarfile

import pytest

from archives import (Sample, add_file, add_special, assert_whole_tar, random_samples, read_members, read_samples, sample_set, shards_like,
                      tree_bytes, write_members, write_shard)

VERBS = ["ls", "stat", "cat", "split", "merge", "sort", "shuffle", "map", "index", "verify", "extract"]


def put(path, data=b""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def small_shard(path, count=10):
    return write_shard(path, [Sample(f"{n:04d}", {"jpg": b"picture %d" % n, "cls": b"%d" % (n % 3)}) for n in range(count)])


# -- shard: directories --------------------------------------------------------------------------------------

def class_tree(top, classes, count=6):
    for name in classes:
        for number in range(count):
            put(top / name / f"{number}.jpg", f"{name} {number}")
    return top


def classes_in(path):
    return {sample.key: sample.fields["cls"].decode() for sample in read_samples(path)}


def test_class_directories_become_numbers(millrace, tmp_path):
    class_tree(tmp_path / "train", ["dog", "cat", "ant"])
    millrace("shard", "train", "--classes", "classes.txt", "-o", "train.tar")
    assert (tmp_path / "classes.txt").read_text() == "ant\ncat\ndog\n"
    assert classes_in(tmp_path / "train.tar") == {f"{name}/{n}": str(number) for number, name in enumerate(["ant", "cat", "dog"]) for n in range(6)}


def test_a_classes_file_is_used_again_for_other_directories(millrace, tmp_path):
    class_tree(tmp_path / "train", ["dog", "cat", "ant"])
    class_tree(tmp_path / "val", ["dog"])
    millrace("shard", "train", "--classes", "classes.txt", "-o", "train.tar")
    millrace("shard", "val", "--classes", "classes.txt", "-o", "val.tar")
    assert set(classes_in(tmp_path / "val.tar").values()) == {"2"}
    assert (tmp_path / "classes.txt").read_text() == "ant\ncat\ndog\n"
    class_tree(tmp_path / "other", ["dog", "emu"])
    assert "emu" in millrace("shard", "other", "--classes", "classes.txt", "-o", "other.tar", code=2).err
    assert not (tmp_path / "other.tar").exists()


def test_classes_need_class_directories_and_no_cls_files(millrace, tmp_path):
    put(tmp_path / "flat" / "1.jpg")
    assert "class" in millrace("shard", "flat", "--classes", "c.txt", "-o", "out.tar", code=2).err
    put(tmp_path / "both" / "cat" / "1.jpg")
    put(tmp_path / "both" / "cat" / "1.cls")
    assert "cls" in millrace("shard", "both", "--classes", "c.txt", "-o", "out.tar", code=2).err
    small_shard(tmp_path / "in.tar")
    assert "--classes" in millrace("shard", "in.tar", "--classes", "c.txt", "-o", "out.tar", code=2).err
    assert not (tmp_path / "c.txt").exists() and not (tmp_path / "out.tar").exists()


def test_shuffling_a_directory_depends_on_the_seed_alone(millrace, tmp_path):
    class_tree(tmp_path / "data", ["dog", "cat"], 40)
    results = {}
    for name, seed, jobs in [("a", 1, 1), ("b", 1, 4), ("c", 2, 1)]:
        millrace("shard", "data", "--shuffle", "--seed", seed, "-j", jobs, "-o", f"{name}-%d.tar", "--max-samples", "30")
        results[name] = [path.read_bytes() for path in map(pathlib.Path, shards_like(tmp_path, f"{name}-*.tar"))]
    assert results["a"] == results["b"] != results["c"]
    assert sample_set(read_samples(*shards_like(tmp_path, "a-*.tar"))) == sample_set(read_samples(*shards_like(tmp_path, "c-*.tar")))


def test_files_of_no_sample_are_counted_not_packed(millrace, tmp_path):
    put(tmp_path / "data" / "1.jpg")
    put(tmp_path / "data" / "README")
    put(tmp_path / "data" / "__meta__" / "x.txt")
    outcome = millrace("shard", "data", "-o", "out.tar")
    assert [m.name for m in read_members(tmp_path / "out.tar")] == ["1.jpg"]
    assert "count=2" in outcome.err


def test_two_files_that_are_one_field_are_refused(millrace, tmp_path):
    put(tmp_path / "data" / "1.jpg")
    put(tmp_path / "data" / "1.JPG")
    error = millrace("shard", "data", "-o", "out.tar", code=2).err
    assert "1.jpg" in error and "1.JPG" in error


def test_a_directory_without_samples_is_an_error(millrace, tmp_path):
    (tmp_path / "empty").mkdir()
    millrace("shard", "empty", "-o", "out.tar", code=1)
    millrace("shard", "absent", "-o", "out.tar", code=1)
    assert not (tmp_path / "out.tar").exists()


def test_the_output_may_lie_inside_the_directory_that_is_sharded(millrace, tmp_path):
    class_tree(tmp_path / "data", ["dog"])
    millrace("shard", "data", "-o", "data/out.tar")
    assert len(read_samples(tmp_path / "data" / "out.tar")) == 6


# -- shard: manifests ----------------------------------------------------------------------------------------

def test_a_tsv_manifest_names_files_and_gives_text(millrace, tmp_path):
    put(tmp_path / "pictures" / "a.jpg", b"A")
    put(tmp_path / "pictures" / "b.jpg", b"B")
    (tmp_path / "list.tsv").write_text("__key__\t@jpg\ttxt\t@png\r\ntrain/1\tpictures/a.jpg\tcaption one\t\r\n\r\ntrain/2\tpictures/b.jpg\t\tpictures/a.jpg\n")
    millrace("shard", "list.tsv", "-o", "out.tar")
    assert read_samples(tmp_path / "out.tar") == [Sample("train/1", {"jpg": b"A", "txt": b"caption one"}),
                                                 Sample("train/2", {"jpg": b"B", "txt": b"", "png": b"A"})]


def test_a_json_manifest_gives_files_text_numbers_and_json(millrace, tmp_path):
    put(tmp_path / "files" / "a.jpg", b"A")
    rows = [{"__key__": "1", "jpg": {"file": "a.jpg"}, "txt": "é", "cls": 7, "json": {"json": {"a": [1, None]}}, "flag": True, "score": -0.5}]
    (tmp_path / "list.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    millrace("shard", "list.jsonl", "--root", "files", "-o", "out.tar")
    [sample] = read_samples(tmp_path / "out.tar")
    assert sample.key == "1"
    assert json.loads(sample.fields.pop("json")) == {"a": [1, None]}
    assert sample.fields == {"jpg": b"A", "txt": "é".encode(), "cls": b"7", "flag": b"true", "score": b"-0.5"}


GOOD_TSV = "__key__\ttxt\n"
GOOD_JSON = '{"__key__": "good", "txt": "x"}\n'


@pytest.mark.parametrize("text,line", [
    ("txt\tcls\n1\t2\n", 1), ("__key__\n1\n", 1), ("__key__\t__key__\n1\t2\n", 1), ("__key__\ttxt\ttxt\n1\t2\t3\n", 1), ("__key__\t@txt\ttxt\n", 1),
    ("__key__\t\n1\t2\n", 1), ("__key__\tTXT\n1\t2\n", 1), ("__key__\ta/b\n1\t2\n", 1), ("__key__\t__url__\n1\t2\n", 1), ("", 1),
    (GOOD_TSV + "1\ta\tb\n", 2), (GOOD_TSV + "1\ta\n2\n", 3), (GOOD_TSV + "1\ta\n\n1\tb\n", 4), (GOOD_TSV + "a.b\tx\n", 2), (GOOD_TSV + "\tx\n", 2),
    (GOOD_TSV + "1\ta\n__meta__/1\tx\n", 3), ("__key__\t@jpg\n1\t\n", 2), (GOOD_TSV + "d.e/1.2\tx\n", 2),
])
def test_mistakes_in_a_tsv_manifest_are_told_with_their_line(millrace, tmp_path, text, line):
    (tmp_path / "list.tsv").write_text(text)
    error = millrace("shard", "list.tsv", "-o", "out.tar", code=2).err
    assert "list.tsv" in error and f"line {line}:" in error
    assert not (tmp_path / "out.tar").exists()


@pytest.mark.parametrize("text,line", [
    ("nonsense\n", 1), ('["a"]\n', 1), (GOOD_JSON + '{"txt": "x"}\n', 2), (GOOD_JSON + '{"__key__": 5, "txt": "x"}\n', 2), (GOOD_JSON * 2, 2),
    (GOOD_JSON + '{"__key__": "a.b", "txt": "x"}\n', 2), (GOOD_JSON + '\n{"__key__": "", "txt": "x"}\n', 3), ('{"__key__": "1"}\n', 1),
    ('{"__key__": "1", "TXT": "x"}\n', 1), ('{"__key__": "1", "a/b": "x"}\n', 1), ('{"__key__": "1", "__x__": "x"}\n', 1),
    ('{"__key__": "1", "": "x"}\n', 1), ('{"__key__": "1", "txt": null}\n', 1), ('{"__key__": "1", "txt": ["x"]}\n', 1),
    ('{"__key__": "1", "txt": {"file": 5}}\n', 1), ('{"__key__": "1", "txt": {"file": "a", "json": 1}}\n', 1), ('{"__key__": "1", "txt": {"url": "x"}}\n', 1),
    ('{"__key__": "nul\\u0000", "txt": "x"}\n', 1), ('{"__key__": "1", "txt": {"json": ' + "[" * 1000 + "]" * 1000 + "}}\n", 1),
    (GOOD_JSON + '{"__key__": "1", "txt": "cut', 2),
])
def test_mistakes_in_a_json_manifest_are_told_with_their_line(millrace, tmp_path, text, line):
    (tmp_path / "list.jsonl").write_text(text)
    error = millrace("shard", "list.jsonl", "-o", "out.tar", code=2).err
    assert "list.jsonl" in error and f"line {line}:" in error
    assert not (tmp_path / "out.tar").exists()


@pytest.mark.parametrize("path", ["../secret.txt", "sub/../../secret.txt", "ABSOLUTE", "link.txt", "linked-directory/secret.txt", "absolute-link.txt", "/proc/self/environ"])
def test_a_manifest_cannot_reach_files_outside_its_root(millrace, tmp_path, path):
    secret = put(tmp_path / "secret.txt", b"secret")
    root = tmp_path / "root"
    put(root / "sub" / "x.txt")
    os.symlink("../secret.txt", root / "link.txt")
    os.symlink("..", root / "linked-directory")
    os.symlink(secret, root / "absolute-link.txt")
    (root / "list.jsonl").write_text(json.dumps({"__key__": "k", "txt": {"file": str(secret) if path == "ABSOLUTE" else path}}))
    error = millrace("shard", "root/list.jsonl", "-o", "out.tar", code=1).err
    assert "leads out" in error and '"k"' in error
    assert not (tmp_path / "out.tar").exists()


def test_links_inside_a_manifests_root_are_followed(millrace, tmp_path):
    put(tmp_path / "real" / "x.txt", b"x")
    os.symlink("real/x.txt", tmp_path / "link.txt")
    (tmp_path / "list.tsv").write_text("__key__\t@txt\nk\tlink.txt\n")
    millrace("shard", "list.tsv", "-o", "out.tar")
    assert read_samples(tmp_path / "out.tar") == [Sample("k", {"txt": b"x"})]


def test_missing_and_unfit_files_of_a_manifest_are_named(millrace, tmp_path):
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name, code in [("absent.jpg", 1), ("directory", 2), ("fifo", 2)]:
        (tmp_path / "list.tsv").write_text(f"__key__\t@jpg\nthe-key\t{name}\n")
        error = millrace("shard", "list.tsv", "-o", "out.tar", code=code).err
        assert "the-key" in error and name in error
    assert sorted(os.listdir(tmp_path)) == ["directory", "fifo", "list.tsv"]


def test_one_directory_or_manifest_at_a_time(millrace, tmp_path):
    put(tmp_path / "a" / "1.jpg")
    put(tmp_path / "b" / "1.jpg")
    millrace("shard", "a", "b", "-o", "out.tar", code=2)


# -- tarshards -----------------------------------------------------------------------------------------------

def test_called_as_tarshards_it_cuts_a_stream(millrace, tmp_path):
    os.symlink(millrace.binary, tmp_path / "tarshards")
    stream = small_shard(tmp_path / "in.tar", 25).read_bytes()
    millrace("out-%06d.tar", "-c", "10", stdin=stream, program=str(tmp_path / "tarshards"))
    assert [len(read_samples(path)) for path in shards_like(tmp_path, "out-*.tar")] == [10, 10, 5]
    millrace("bytes-%d.tar.gz", "-s", "5KB", stdin=stream, program=str(tmp_path / "tarshards"))
    assert len(read_samples(*shards_like(tmp_path, "bytes-*.tar.gz"))) == 25
    assert "Example" in millrace("--help", program=str(tmp_path / "tarshards")).text
    millrace(code=2, program=str(tmp_path / "tarshards"))


def test_a_stream_that_ends_early_is_an_error_and_the_last_shard_is_not_written(millrace, tmp_path):
    stream = small_shard(tmp_path / "in.tar", 25).read_bytes()[:25_000]
    millrace("shard", "-", "-o", "out-%d.tar", "--max-samples", "5", stdin=stream, code=1)
    found = read_samples(*shards_like(tmp_path, "out-*.tar"))
    assert len(found) % 5 == 0
    for path in shards_like(tmp_path, "out-*.tar"):
        assert_whole_tar(path)


# -- map -----------------------------------------------------------------------------------------------------

def test_map_changes_adds_and_removes_fields(millrace, tmp_path):
    small_shard(tmp_path / "in.tar")
    millrace("tar", "map", "in.tar", "-o", "out.tar", "-c", "tr a-z A-Z <sample.jpg >sample.up && rm sample.jpg; echo scratch >note.txt")
    assert read_samples(tmp_path / "out.tar") == [Sample(f"{n:04d}", {"cls": b"%d" % (n % 3), "up": b"PICTURE %d" % n}) for n in range(10)]


def test_map_keeps_the_order_with_several_jobs(millrace, tmp_path):
    small_shard(tmp_path / "in.tar", 60)
    # Early samples take longest: without reordering they would come out last.
    millrace("tar", "map", "in.tar", "-o", "out.tar", "-j", "4", "-c", 'test $((1$MILLRACE_KEY % 4)) -ne 0 || sleep 0.02; printf %s "$MILLRACE_KEY" >sample.key')
    samples = read_samples(tmp_path / "out.tar")
    assert [sample.key for sample in samples] == [f"{n:04d}" for n in range(60)]
    assert all(sample.fields["key"].decode() == sample.key for sample in samples)


def test_map_runs_a_program_without_a_shell_behind_two_dashes(millrace, tmp_path):
    small_shard(tmp_path / "in.tar", 3)
    millrace("tar", "map", "in.tar", "-o", "out.tar", "--", "cp", "sample.jpg", "sample.$HOME;x")
    assert all(sample.fields["$home;x"] == sample.fields["jpg"] for sample in read_samples(tmp_path / "out.tar"))


FAIL_ON_THREES = 'case $MILLRACE_KEY in *3) exit 7;; esac; echo new >sample.new'


def test_map_aborts_on_errors_by_default_and_names_the_sample(millrace, tmp_path):
    small_shard(tmp_path / "in.tar")
    error = millrace("tar", "map", "in.tar", "-o", "out.tar", "-c", FAIL_ON_THREES, code=1).err
    assert "0003" in error and "7" in error
    assert not (tmp_path / "out.tar").exists()


def test_map_skips_failed_samples_if_asked_to(millrace, tmp_path):
    small_shard(tmp_path / "in.tar", 20)
    report = millrace.json("tar", "map", "in.tar", "-o", "out.tar", "--on-error", "skip", "-c", FAIL_ON_THREES)[0]
    assert (report["in"], report["failed"], report["samples"]) == (20, 2, 18)
    assert [s.key for s in read_samples(tmp_path / "out.tar")] == [f"{n:04d}" for n in range(20) if n % 10 != 3]


def test_map_keeps_failed_samples_as_they_were_if_asked_to(millrace, tmp_path):
    small_shard(tmp_path / "in.tar", 20)
    millrace("tar", "map", "in.tar", "-o", "out.tar", "--on-error", "keep", "-c", "echo half >sample.jpg; " + FAIL_ON_THREES)
    for n, sample in enumerate(read_samples(tmp_path / "out.tar")):
        assert sample.key == f"{n:04d}"
        assert sample.fields["jpg"] == (b"picture %d" % n if n % 10 == 3 else b"half\n")
        assert ("new" in sample.fields) == (n % 10 != 3)


def test_a_command_ended_by_a_signal_or_not_found_is_a_failure(millrace, tmp_path):
    small_shard(tmp_path / "in.tar", 3)
    assert "signal 9" in millrace("tar", "map", "in.tar", "-o", "out.tar", "-c", "kill -9 $$", code=1).err
    assert "no-such-program" in millrace("tar", "map", "in.tar", "-o", "out.tar", "--", "no-such-program", code=1).err
    assert not (tmp_path / "out.tar").exists()


def test_map_filters_by_removing_all_fields(millrace, tmp_path):
    small_shard(tmp_path / "in.tar", 30)
    report = millrace.json("tar", "map", "in.tar", "-o", "out.tar", "-c", 'test "$(cat sample.cls)" = 1 || rm sample.*')[0]
    assert report["dropped"] == 20
    assert [s.key for s in read_samples(tmp_path / "out.tar")] == [f"{n:04d}" for n in range(30) if n % 3 == 1]


def test_map_makes_many_samples_of_one(millrace, tmp_path):
    small_shard(tmp_path / "in.tar", 4)
    millrace("tar", "map", "--many", "in.tar", "-o", "out.tar", "-c", "for i in 0 1 2; do cp sample.jpg sample-$i.jpg; echo $i >sample-$i.cls; done")
    assert [(s.key, sorted(s.fields)) for s in read_samples(tmp_path / "out.tar")] == [(f"{n:04d}-{i}", ["cls", "jpg"]) for n in range(4) for i in range(3)]


def test_map_removes_its_private_directories_whatever_happens(millrace, tmp_path):
    small_shard(tmp_path / "in.tar", 20)
    (tmp_path / "scratch").mkdir()
    for command, code in [("true", 0), ("mkdir -p a/b; touch a/b/c; chmod 500 a/b", 0), ("exit 1", 1), ("rm -rf $PWD", None)]:
        millrace("tar", "map", "in.tar", "-o", "out.tar", "-j", "4", "--tmpdir", "scratch", "-c", command, code=code)
        assert os.listdir(tmp_path / "scratch") == []


def test_map_gives_each_command_a_directory_with_nothing_but_the_fields(millrace, tmp_path):
    small_shard(tmp_path / "in.tar", 5)
    millrace("tar", "map", "in.tar", "-o", "out.tar", "-j", "4", "-c", "ls -A >../list-$MILLRACE_KEY; mv ../list-$MILLRACE_KEY sample.list")
    assert {sample.fields["list"] for sample in read_samples(tmp_path / "out.tar")} == {b"sample.cls\nsample.jpg\n"}


def test_what_map_commands_print_does_not_get_into_the_stream(millrace, tmp_path):
    small_shard(tmp_path / "in.tar", 5)
    outcome = millrace("tar", "map", "in.tar", "-o", "-", "-c", "echo noise; cat")
    (tmp_path / "out.tar").write_bytes(outcome.out)
    assert len(read_samples(tmp_path / "out.tar")) == 5
    assert "noise" in outcome.err


def test_odd_field_names_cannot_leave_the_private_directory(millrace, tmp_path):
    names = ["k.", "k.$(touch pwned)", "k.;touch pwned;", "k. ", "k.\n", "k...", "k.-rf", "k.`id`", "k.*"]
    write_members(tmp_path / "in.tar", [(name, b"%d" % n) for n, name in enumerate(names)])
    (tmp_path / "scratch").mkdir()
    millrace("tar", "map", "in.tar", "-o", "out.tar", "--tmpdir", "scratch", "-c", "test ! -e pwned")
    assert sorted((m.name, m.data) for m in read_members(tmp_path / "out.tar")) == sorted((name, b"%d" % n) for n, name in enumerate(names))
    assert sorted(os.listdir(tmp_path)) == ["in.tar", "out.tar", "out.tar.mri", "scratch"]


def test_results_that_are_links_or_directories_are_not_taken(millrace, tmp_path):
    put(tmp_path / "secret", b"secret")
    small_shard(tmp_path / "in.tar", 2)
    millrace("tar", "map", "in.tar", "-o", "out.tar", "-c", f"ln -s {tmp_path}/secret sample.leak; mkdir sample.directory; mkfifo sample.fifo")
    assert all(sorted(sample.fields) == ["cls", "jpg"] for sample in read_samples(tmp_path / "out.tar"))


def test_map_results_that_differ_in_capitals_only_do_not_become_a_bad_shard(millrace, tmp_path):
    small_shard(tmp_path / "in.tar", 2)
    outcome = millrace("tar", "map", "in.tar", "-o", "out.tar", "-c", "cp sample.jpg sample.JPG", code=None)
    assert outcome.code == 1 or millrace.json("tar", "verify", "out.tar")[0]["ok"]


def test_map_without_a_command_or_with_two_is_wrong_usage(millrace, tmp_path):
    small_shard(tmp_path / "in.tar", 2)
    millrace("tar", "map", "in.tar", "-o", "out.tar", code=2)
    millrace("tar", "map", "in.tar", "-o", "out.tar", "-c", "true", "--", "true", code=2)
    millrace("tar", "map", "in.tar", "-o", "out.tar", "-c", "true", "--on-error", "panic", code=2)


def test_an_absurd_number_of_jobs_is_no_crash(millrace, tmp_path):
    small_shard(tmp_path / "in.tar", 2)

    def little_room():
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    done = subprocess.run([millrace.binary, "tar", "map", "in.tar", "-o", "out.tar", "-j", "100000", "-c", "true"], cwd=tmp_path, capture_output=True,
                          preexec_fn=little_room)
    assert done.returncode in (0, 1, 2), done.stderr


def test_a_map_within_a_map_gives_the_inner_key(millrace, tmp_path):
    small_shard(tmp_path / "in.tar", 1)
    outcome = millrace("tar", "map", "in.tar", "-o", "out.tar", "--", "env", env={"MILLRACE_KEY": "outer"})
    assert [line for line in outcome.err.splitlines() if line.startswith("MILLRACE_KEY=")] == ["MILLRACE_KEY=0000"]


# -- index ---------------------------------------------------------------------------------------------------

def test_an_index_is_found_stale_when_the_shard_changes(millrace, tmp_path):
    path = small_shard(tmp_path / "in.tar")
    millrace("tar", "index", "in.tar")
    assert millrace.json("tar", "verify", "in.tar")[0]["index"]
    changed = bytearray(path.read_bytes())
    changed[513] ^= 1  # in data: the tar is as good as before
    path.write_bytes(changed)
    verdict = millrace.json("tar", "verify", "in.tar", code=1)[0]
    assert [problem["fault"] for problem in verdict["problems"]] == ["stale index"]
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


def member_offsets(path):
    with tarfile.open(path) as archive:
        return [(entry.offset, entry.offset_data, entry.size) for entry in archive]


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
    if "tar sort" in error:
        millrace("tar", "sort", "in.tar", "-o", "out.tar")
    else:
        assert "--repair" in error
        millrace("tar", "verify", "--repair", "in.tar", "--output", "out.tar", code=1)
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


# -- extract -------------------------------------------------------------------------------------------------

@pytest.fixture
def outside(tmp_path):
    """Things beside the directory that an archive may aim at; checked to be untouched."""
    (tmp_path / "work").mkdir()
    put(tmp_path / "outside" / "file", b"untouched")
    yield tmp_path / "outside"
    assert tree_bytes(tmp_path / "outside") == {"file": b"untouched"}
    assert sorted(os.listdir(tmp_path)) == ["outside", "work"]


@pytest.mark.parametrize("name", ["../outside/file", "../x.txt", "a/../../x.txt", "a/b/../../../x.txt", "ABSOLUTE", "..", "./../x", "a/.."])
def test_names_that_leave_the_directory_are_refused(millrace, tmp_path, outside, name):
    name = str(outside / "file") if name == "ABSOLUTE" else name
    write_members(tmp_path / "work" / "evil.tar", [("good.txt", b"good"), (name, b"evil")])
    assert "not extracted" in millrace("tar", "extract", "evil.tar", "-d", "out", "--overwrite", code=1, cwd=tmp_path / "work").err


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE], ids=["symbolic", "hard"])
@pytest.mark.parametrize("target", ["ABSOLUTE", "../../outside", "../../outside/file"])
def test_links_are_never_made_and_never_written_through(millrace, tmp_path, outside, kind, target):
    target = str(outside) if target == "ABSOLUTE" else target
    with tarfile.open(tmp_path / "work" / "evil.tar", "w") as archive:
        add_special(archive, "link", kind, target)
        add_file(archive, "link/file", b"evil")
        add_special(archive, "name", kind, target)
        add_file(archive, "name", b"plain")
    millrace("tar", "extract", "evil.tar", "-d", "out", cwd=tmp_path / "work")
    out = tmp_path / "work" / "out"
    assert tree_bytes(out) == {"link/file": b"evil", "name": b"plain"}
    assert not any(path.is_symlink() for path in out.rglob("*"))


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]], ids=["", "overwrite"])
def test_links_that_are_in_the_directory_already_are_not_followed(millrace, tmp_path, outside, overwrite):
    out = tmp_path / "work" / "out"
    out.mkdir()
    os.symlink(outside, out / "directory")
    os.symlink(outside / "file", out / "file")
    write_members(tmp_path / "work" / "a.tar", [("directory/file", b"evil")])
    write_members(tmp_path / "work" / "b.tar", [("file", b"evil")])
    millrace("tar", "extract", "a.tar", "-d", "out", *overwrite, code=1, cwd=tmp_path / "work")
    millrace("tar", "extract", "b.tar", "-d", "out", *overwrite, code=0 if overwrite else 1, cwd=tmp_path / "work")


def test_devices_fifos_and_set_user_bits_are_not_made(millrace, tmp_path):
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        for name, kind in [("character", tarfile.CHRTYPE), ("block", tarfile.BLKTYPE), ("fifo", tarfile.FIFOTYPE)]:
            add_special(archive, name, kind)
        add_file(archive, "shell", b"#!/bin/sh", mode=0o6777)
    report = millrace.json("tar", "extract", "evil.tar", "-d", "out")[0]
    assert os.listdir(tmp_path / "out") == ["shell"]
    assert (tmp_path / "out" / "shell").stat().st_mode & 0o7000 == 0
    assert report["passed_over"] == 3


def test_existing_files_are_replaced_only_with_overwrite(millrace, tmp_path):
    small_shard(tmp_path / "in.tar", 3)
    put(tmp_path / "out" / "0001.jpg", b"mine")
    assert "--overwrite" in millrace("tar", "extract", "in.tar", "-d", "out", code=1).err
    assert (tmp_path / "out" / "0001.jpg").read_bytes() == b"mine"
    millrace("tar", "extract", "in.tar", "-d", "out", "--overwrite")
    assert (tmp_path / "out" / "0001.jpg").read_bytes() == b"picture 1"
    (tmp_path / "other" / "0001.jpg").mkdir(parents=True)
    millrace("tar", "extract", "in.tar", "-d", "other", "--overwrite", code=1)
    assert (tmp_path / "other" / "0001.jpg").is_dir()


def test_chosen_fields_are_extracted(millrace, tmp_path):
    write_members(tmp_path / "in.tar", [("a.jpg", b"1"), ("a.CLS", b"2"), ("a.txt", b"3"), ("README", b"4")])
    millrace("tar", "extract", "-f", "cls,txt", "in.tar", "-d", "out")
    assert tree_bytes(tmp_path / "out") == {"a.CLS": b"2", "a.txt": b"3"}


def test_extracted_files_keep_time_and_permissions(millrace, tmp_path):
    with tarfile.open(tmp_path / "in.tar", "w") as archive:
        add_file(archive, "a.sh", b"1", mtime=1_000_000_000, mode=0o755)
        add_file(archive, "b.txt", b"1", mtime=1_500_000_000, mode=0o600)
    millrace("tar", "extract", "in.tar", "-d", "out")
    assert (tmp_path / "out" / "a.sh").stat().st_mtime == 1_000_000_000
    assert (tmp_path / "out" / "a.sh").stat().st_mode & 0o100
    assert (tmp_path / "out" / "b.txt").stat().st_mode & 0o777 == 0o600


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
        assert "directory" in millrace("tar", words[0], "directory.tar", *words[1:], code=2).err
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


def test_reading_and_writing_the_same_file_is_safe(millrace, tmp_path):
    small_shard(tmp_path / "in.tar", 50)
    before = sample_set(read_samples(tmp_path / "in.tar"))
    millrace("tar", "sort", "in.tar", "-o", "in.tar")
    assert sample_set(read_samples(tmp_path / "in.tar")) == before
    millrace("tar", "cat", "in.tar", "-o", "in.tar", "--slice", ":10")
    assert len(read_samples(tmp_path / "in.tar")) == 10
    assert millrace.json("tar", "verify", "in.tar")[0]["index"]
