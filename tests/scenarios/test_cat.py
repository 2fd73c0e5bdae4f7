"""millrace tar cat: samples chosen, mixed, shuffled and renamed."""
import pytest

from archives import Sample, read_members, read_samples, write_shard


def simple(tmp_path, letter, count):
    return write_shard(tmp_path / f"{letter}.tar", [Sample(f"{letter}{n:03d}", {"jpg": f"{letter}{n}".encode(), "cls": b"1"}) for n in range(count)])


def keys_of_cat(millrace, tmp_path, *words):
    millrace("tar", "cat", *words, "-o", "out.tar")
    return [sample.key for sample in read_samples(tmp_path / "out.tar")]


@pytest.mark.parametrize("text", ["0:10", ":10", "5:", "3:17:4", "::7", "90:200", "100:", "5:5", "9:3", ":", "2::3"])
def test_slices_mean_what_they_mean_in_python(millrace, tmp_path, text):
    simple(tmp_path, "a", 60)
    simple(tmp_path, "b", 40)
    parts = [int(part) if part else None for part in text.split(":")]
    everything = [f"a{n:03d}" for n in range(60)] + [f"b{n:03d}" for n in range(40)]
    assert keys_of_cat(millrace, tmp_path, "a.tar", "b.tar", "--slice", text) == everything[slice(*parts)]


@pytest.mark.parametrize("text", ["5", "a:b", "1:2:3:4", "::0", "-5:", "1.5:"])
def test_what_is_no_slice_is_refused(millrace, tmp_path, text):
    simple(tmp_path, "a", 3)
    assert "slice" in millrace("tar", "cat", "a.tar", "-o", "out.tar", f"--slice={text}", code=2).err


def test_a_slice_stops_reading_at_its_end(millrace, tmp_path):
    whole = simple(tmp_path, "a", 50).read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[:30_000])
    assert keys_of_cat(millrace, tmp_path, "cut.tar", "--slice", ":5") == [f"a{n:03d}" for n in range(5)]


def test_fields_are_kept_renamed_and_ordered_as_asked(millrace, tmp_path):
    write_shard(tmp_path / "in.tar", [Sample("1", {"jpg": b"J", "cls": b"C", "txt": b"T"}), Sample("2", {"jpeg": b"K", "cls": b"D", "txt": b"U"})])
    millrace("tar", "cat", "-f", "cls jpg;jpeg=image", "in.tar", "-o", "out.tar")
    assert [(m.name, m.data) for m in read_members(tmp_path / "out.tar")] == [("1.cls", b"C"), ("1.image", b"J"), ("2.cls", b"D"), ("2.image", b"K")]
    millrace("tar", "cat", "-f", "txt,cls", "in.tar", "-o", "out.tar")
    assert [m.name for m in read_members(tmp_path / "out.tar")] == ["1.txt", "1.cls", "2.txt", "2.cls"]


def test_a_sample_without_a_chosen_field_is_an_error_that_names_both(millrace, tmp_path):
    write_shard(tmp_path / "in.tar", [Sample("first", {"jpg": b"J"}), Sample("second", {"png": b"P"})])
    outcome = millrace("tar", "cat", "-f", "jpg;jpeg", "in.tar", "-o", "out.tar", code=1)
    assert "second" in outcome.err and "jpg" in outcome.err
    assert not (tmp_path / "out.tar").exists()


@pytest.mark.parametrize("choice", ["", " ", "=x", "a=", "a;;b", "jpg=a/b", "jpg=x cls=x", "jpg jpg", "jpg=cls cls", "jpg=__key__/.."])
def test_choices_of_fields_that_make_no_sample_are_refused(millrace, tmp_path, choice):
    simple(tmp_path, "a", 2)
    if choice.strip():
        millrace("tar", "cat", "-f", choice, "a.tar", "-o", "out.tar", code=2)
        assert not (tmp_path / "out.tar").exists()


def test_mixing_takes_turns_until_all_are_used_up(millrace, tmp_path):
    simple(tmp_path, "a", 3)
    simple(tmp_path, "b", 5)
    simple(tmp_path, "c", 1)
    assert keys_of_cat(millrace, tmp_path, "--mix", "a.tar", "b.tar", "c.tar") == ["a000", "b000", "c000", "a001", "b001", "a002", "b002", "b003", "b004"]


def test_weights_are_kept_exactly_at_every_point(millrace, tmp_path):
    simple(tmp_path, "a", 75)
    simple(tmp_path, "b", 25)
    keys = keys_of_cat(millrace, tmp_path, "--weights", "3,1", "a.tar", "b.tar")
    for end in range(4, 101, 4):
        assert sum(key[0] == "a" for key in keys[:end]) == 3 * end // 4
    assert [key for key in keys if key[0] == "b"] == [f"b{n:03d}" for n in range(25)]


def test_an_argument_of_several_shards_has_one_weight(millrace, tmp_path):
    for letter in "abc":
        simple(tmp_path, letter, 10)
    keys = keys_of_cat(millrace, tmp_path, "--weights", "2,1", "{a,b}.tar", "c.tar")
    assert sum(key[0] == "c" for key in keys[:15]) == 5
    assert len(set(keys)) == 30


@pytest.mark.parametrize("weights", ["1", "1,2,3", "a,b", "0,1", "-1,1", "1,", ",1", "nan,1", "inf,1"])
def test_weights_that_do_not_fit_are_refused(millrace, tmp_path, weights):
    simple(tmp_path, "a", 2)
    simple(tmp_path, "b", 2)
    assert "weight" in millrace("tar", "cat", f"--weights={weights}", "a.tar", "b.tar", "-o", "out.tar", code=2).err


def test_a_shuffle_buffer_moves_no_sample_forward_by_more_than_its_size(millrace, tmp_path):
    simple(tmp_path, "a", 500)
    keys = keys_of_cat(millrace, tmp_path, "a.tar", "--shuffle", "20", "--seed", "3")
    assert sorted(keys) == [f"a{n:03d}" for n in range(500)]
    assert keys != sorted(keys)
    for position, key in enumerate(keys):
        assert int(key[1:]) < position + 20


def test_new_keys_count_from_zero(millrace, tmp_path):
    simple(tmp_path, "a", 12)
    assert keys_of_cat(millrace, tmp_path, "a.tar", "--slice", "2:", "--rekey", "train/%04d") == [f"train/{n:04d}" for n in range(10)]
    assert [s.fields["jpg"] for s in read_samples(tmp_path / "out.tar")] == [f"a{n}".encode() for n in range(2, 12)]


@pytest.mark.parametrize("pattern", ["same", "%d%d", "%s", "x.%d", "%d.x", "v1.%d/../%d"])
def test_patterns_that_do_not_give_every_sample_a_key_are_refused(millrace, tmp_path, pattern):
    simple(tmp_path, "a", 3)
    millrace("tar", "cat", "a.tar", "-o", "out.tar", "--rekey", pattern, code=2)
    assert not (tmp_path / "out.tar").exists()


# Shards that a command prints.

ALLOWED = {"MILLRACE_ALLOW_PIPE": "1"}


def test_commands_are_not_run_unless_that_is_allowed(millrace, tmp_path):
    simple(tmp_path, "a", 3)
    for env in ({}, {"MILLRACE_ALLOW_PIPE": "0"}):
        refused = millrace("tar", "cat", "pipe:touch ran; cat a.tar", "-o", "out.tar", env=env, code=1)
        assert "MILLRACE_ALLOW_PIPE=1" in refused.err
    assert not (tmp_path / "ran").exists() and not (tmp_path / "out.tar").exists()


def test_a_command_prints_a_shard(millrace, tmp_path):
    simple(tmp_path, "a", 3)
    simple(tmp_path, "b", 2)
    millrace("tar", "cat", "pipe:gzip -c a.tar", "pipe:cat [b].tar", "-o", "out.tar", env=ALLOWED)
    assert [sample.key for sample in read_samples(tmp_path / "out.tar")] == ["a000", "a001", "a002", "b000", "b001"]
    millrace("tar", "cat", "pipe:cat {a,b}.tar", "-o", "both.tar", env=ALLOWED)
    assert (tmp_path / "both.tar").read_bytes() == (tmp_path / "out.tar").read_bytes()


def test_a_command_that_fails_has_given_no_shard(millrace, tmp_path):
    simple(tmp_path, "a", 3)
    failed = millrace("tar", "cat", "pipe:cat a.tar; exit 3", "-o", "out.tar", env=ALLOWED, code=1)
    assert "exit code 3" in failed.err and "pipe:cat a.tar" in failed.err
    assert "exit code 127" in millrace("tar", "cat", "pipe:no-such-program", "-o", "out.tar", env=ALLOWED, code=1).err
    assert not (tmp_path / "out.tar").exists()


def test_a_command_that_is_not_read_to_its_end_is_ended(millrace, tmp_path):
    simple(tmp_path, "a", 3)
    assert keys_of_cat(lambda *words: millrace(*words, env=ALLOWED), tmp_path, "pipe:cat a.tar; exec sleep 1000", "--slice", ":2") == ["a000", "a001"]
