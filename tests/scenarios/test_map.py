"""millrace tar map: a command for every sample, in order, and nothing of a sample escapes."""
import os
import resource
import subprocess

from archives import Sample, put, read_members, read_samples, small_shard, write_members


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
