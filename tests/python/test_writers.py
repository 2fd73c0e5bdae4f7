"""Writers: whole shards or none, indexes beside them, values by extension."""
import io
import os
import subprocess
import sys
import tarfile

import numpy as np
import pytest

import millrace
import millrace.webdataset as wds


def names(path):
    with tarfile.open(path) as archive:
        return archive.getnames()


def test_a_shard_appears_whole_with_its_index(tmp_path):
    path = tmp_path / "a.tar"
    with millrace.ShardFile(str(path)) as shard:
        shard.add("k1", {"txt": b"one", "bin": memoryview(b"two")})
        assert not path.exists() and shard.samples == 1 and shard.tar_bytes == 2048
        shard.add("k2", {"txt": bytearray(b"three")})
    assert sorted(os.listdir(tmp_path)) == ["a.tar", "a.tar.mri"]
    assert dict(millrace.samples(str(path))) == {"k1": {"txt": b"one", "bin": b"two"}, "k2": {"txt": b"three"}}


def test_finish_says_what_was_written(tmp_path):
    shard = millrace.ShardFile(str(tmp_path / "a.tar.gz"), index=False)
    shard.add("k", {"txt": b"x" * 5000})
    summary = shard.finish()
    assert summary["samples"] == 1 and summary["stored_bytes"] == os.path.getsize(tmp_path / "a.tar.gz") < summary["tar_bytes"]
    assert os.listdir(tmp_path) == ["a.tar.gz"]
    for late in (shard.finish, lambda: shard.add("l", {})):
        with pytest.raises(millrace.InvalidError, match="closed already"):
            late()


def test_an_abandoned_shard_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError):
        with millrace.ShardFile(str(tmp_path / "a.tar")) as shard:
            shard.add("k", {"txt": b"x"})
            raise RuntimeError
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("key, fields", [("a.b", {"txt": b""}), ("", {"txt": b""}), ("a", {"TXT": b""}), ("a", {"b/c": b""})])
def test_names_that_do_not_read_back_are_refused(tmp_path, key, fields):
    with pytest.raises(millrace.InvalidError):
        millrace.ShardFile(str(tmp_path / "a.tar")).add(key, fields)


def test_values_that_are_no_bytes_are_refused(tmp_path):
    with pytest.raises(TypeError):
        millrace.ShardFile(str(tmp_path / "a.tar")).add("k", {"txt": "text"})


def test_shards_are_cut_by_size_and_count(tmp_path):
    with millrace.ShardWriter(str(tmp_path / "s-%02d.tar"), max_samples=4) as writer:
        for number in range(10):
            writer.add(f"{number:03d}", {"cls": b"%d" % number})
    assert [len(list(millrace.samples(str(tmp_path / f"s-{number:02d}.tar")))) for number in range(3)] == [4, 4, 2]
    writer = millrace.ShardWriter(str(tmp_path / "t-%02d.tar"), max_bytes=10_240)
    for number in range(10):
        writer.add(f"{number:03d}", {"bin": bytes(2000)})
    assert [shard["samples"] for shard in writer.finish()] == [3, 3, 3, 1]


def test_a_directory_that_is_not_there_is_named(tmp_path):
    with pytest.raises(millrace.NotFoundError, match="absent"):
        millrace.ShardFile(str(tmp_path / "absent" / "a.tar"))


# What opens a writer in `where`, and how it takes a sample.
FORGOTTEN = {
    "ShardFile": (lambda where: millrace.ShardFile(where + "/s-0.tar"), "add"),
    "ShardWriter": (lambda where: millrace.ShardWriter(where + "/s-%d.tar", max_samples=3), "add"),
    "TarWriter": (lambda where: wds.TarWriter(where + "/s-0.tar"), "write"),
    "TarWriter of tarfile": (lambda where: wds.TarWriter(where + "/s-0.tar", mtime=5), "write"),
    "wds.ShardWriter": (lambda where: wds.ShardWriter(where + "/s-%d.tar", maxcount=3, verbose=0, post=print), "write"),
}
LOST = {"ShardWriter": "of its 5 samples those of the last shard", "wds.ShardWriter": "its 2 samples"}


def fill(name, where):
    make, verb = FORGOTTEN[name]
    writer = make(str(where))
    for number in range(5):
        writer.add(str(number), {"cls": b"1"}) if verb == "add" else writer.write({"__key__": str(number), "cls": 1})
    return writer


def samples_in(where):
    return sum(len(list(millrace.samples(str(path)))) for path in where.glob("*.tar"))


def fill_and_end(name, where, how):
    """Another process fills a writer and does not close it; without torch, which takes seconds to import."""
    program = ("import os, sys; sys.modules['torch'] = None\nsys.path.insert(0, sys.argv[1])\n"
               f"import test_writers\nwriter = test_writers.fill({name!r}, sys.argv[2])\n{how}\n")
    return subprocess.run([sys.executable, "-c", program, os.path.dirname(__file__), str(where)], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


@pytest.mark.parametrize("name", FORGOTTEN)
def test_a_writer_that_is_not_closed_is_finished_when_it_dies_or_the_interpreter_exits(tmp_path, name, capsys):
    (tmp_path / "died").mkdir(), (tmp_path / "exit").mkdir()
    fill(name, tmp_path / "died")
    assert samples_in(tmp_path / "died") == 5
    # A process that was forked meanwhile leaves the writer to the one that has it; tarfile's streams are for one alone.
    forked = "" if "tarfile" in name else "if os.fork() == 0: sys.exit(0)\nos.wait()\n"
    done = fill_and_end(name, tmp_path / "exit", forked + "sys.exit(3)")
    assert (done.returncode, done.stderr, samples_in(tmp_path / "exit")) == (3, "", 5)
    if name == "wds.ShardWriter":  # post= is told of both shards
        assert len(done.stdout.splitlines()) == len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.parametrize("name", FORGOTTEN)
def test_a_writer_that_is_left_in_the_middle_says_what_is_lost(tmp_path, name):
    (tmp_path / "refused").mkdir(), (tmp_path / "failed").mkdir()
    lost = f"was not finished, and {LOST.get(name, 'its 5 samples')} are lost"
    writer = fill(name, tmp_path / "refused")
    with pytest.raises((TypeError, ValueError)):
        writer.add("k", {"cls": 1}) if FORGOTTEN[name][1] == "add" else writer.write({"cls": 1})
    with pytest.warns(RuntimeWarning, match=f"{lost}: its last sample was refused"):
        del writer
    done = fill_and_end(name, tmp_path / "failed", "raise KeyError")
    assert done.returncode == 1 and f"{lost}: the program ended by KeyError" in done.stderr
    assert samples_in(tmp_path / "refused") == samples_in(tmp_path / "failed") == (3 if name in LOST else 0)


def test_a_writer_that_got_nothing_leaves_nothing(tmp_path):
    millrace.ShardFile(tmp_path / "a.tar"), wds.ShardWriter(str(tmp_path / "s-%d.tar"), verbose=0)
    assert os.listdir(tmp_path) == []


# -- as WebDataset's -----------------------------------------------------------------------------------------------------

SAMPLE = {"__key__": "k", "txt": "t", "cls": 3}


def test_the_same_samples_give_the_same_bytes(tmp_path):
    for name in ("a.tar", "b.tar"):
        with wds.TarWriter(str(tmp_path / name)) as writer:
            writer.write(SAMPLE)
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz", "a.tar.zst", "a.tar.bz2", "a.tar.xz"])
def test_compression_follows_the_name(tmp_path, name):
    with wds.TarWriter(str(tmp_path / name)) as writer:
        writer.write(SAMPLE)
    assert next(millrace.samples(str(tmp_path / name))) == ("k", {"cls": b"3", "txt": b"t"})


@pytest.mark.parametrize("compress, magic", [(True, b"\x1f\x8b"), ("gz", b"\x1f\x8b"), ("bz2", b"BZh"), ("xz", b"\xfd7zXZ"), (False, b"k.cls")])
def test_compression_as_asked(tmp_path, compress, magic):
    with wds.TarWriter(str(tmp_path / "a.tar"), compress=compress) as writer:
        writer.write(SAMPLE)
    assert (tmp_path / "a.tar").read_bytes().startswith(magic)


def test_owner_mode_and_time_as_asked(tmp_path):
    with wds.TarWriter(str(tmp_path / "a.tar"), user="me", group="us", mode=0o400, mtime=77, format="GNU_FORMAT") as writer:
        writer.write(SAMPLE)
    with tarfile.open(tmp_path / "a.tar") as archive:
        entry = archive.next()
    assert (entry.uname, entry.gname, entry.mode, entry.mtime) == ("me", "us", 0o400, 77)
    assert os.listdir(tmp_path) == ["a.tar"]


@pytest.mark.parametrize("options", [{}, {"mtime": 5}])
def test_a_failed_writer_leaves_nothing(tmp_path, options):
    with pytest.raises(ValueError):
        with wds.TarWriter(str(tmp_path / "a.tar"), **options) as writer:
            writer.write(SAMPLE)
            writer.write({"txt": "no key"})
    assert os.listdir(tmp_path) == []


def test_a_failed_shard_writer_keeps_the_whole_shards(tmp_path):
    with pytest.raises(RuntimeError):
        with wds.ShardWriter(str(tmp_path / "s-%d.tar"), maxcount=2, verbose=0) as writer:
            for number in range(5):
                writer.write({**SAMPLE, "__key__": f"k{number}"})
            raise RuntimeError
    assert sorted(name for name in os.listdir(tmp_path) if name.endswith(".tar")) == ["s-0.tar", "s-1.tar"]


def test_a_closed_writer_says_so(tmp_path):
    writer = wds.TarWriter(str(tmp_path / "a.tar"))
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.write(SAMPLE)


def test_shard_writer_with_an_opener():
    closed = {}

    class Kept(io.BytesIO):
        def close(self):
            closed[id(self)] = self.getvalue()
    streams = {name: Kept() for name in ("x-0", "x-1")}
    with wds.ShardWriter("x-%d", maxcount=1, verbose=0, opener=streams.get) as writer:
        writer.write(SAMPLE)
        writer.write(SAMPLE)
    assert len(closed) == 2
    assert all(tarfile.open(fileobj=io.BytesIO(data)).getnames() == ["k.cls", "k.txt"] for data in closed.values())


def test_upper_case_fields_are_written_as_they_are_read(tmp_path):
    with wds.TarWriter(str(tmp_path / "a.tar")) as writer:
        writer.write({"__key__": "k", "TXT": "t"})
    assert names(tmp_path / "a.tar") == ["k.txt"]


def test_values_come_back(tmp_path):
    values = {"__key__": "k", "cls": 3, "txt": "é", "json": {"a": [1]}, "npy": np.arange(4), "ten": [np.arange(3, dtype="f4")],
              "png": np.full((3, 5, 3), 9, "uint8"), "npz": {"x": np.ones(2)}, "x.txt.gz": "squeezed"}
    with wds.TarWriter(str(tmp_path / "a.tar")) as writer:
        writer.write(values)
    back = next(iter(wds.WebDataset(str(tmp_path / "a.tar"), shardshuffle=False).decode("rgb8")))
    assert (back["cls"], back["txt"], back["json"], back["x.txt.gz"]) == (3, "é", {"a": [1]}, "squeezed")
    assert np.array_equal(back["npy"], values["npy"]) and np.array_equal(back["ten"][0], values["ten"][0])
    assert np.array_equal(back["png"], values["png"]) and np.array_equal(back["npz"]["x"], np.ones(2))


@pytest.mark.parametrize("image", [np.zeros((2, 2, 5)), np.full((2, 2), 1.5), np.full((2, 2), -0.5), [1]])
def test_what_is_no_image_is_refused(image):
    with pytest.raises(ValueError):
        wds.writer.imageencoder(image)


def test_images_are_encoded():
    for pixels in (np.zeros((2, 3)), np.zeros((2, 3, 1), "uint8"), np.ones((2, 3, 3)), np.zeros((2, 3, 4), "uint8")):
        decoded = wds.imagehandler("rgb8")(".png", wds.writer.imageencoder(pixels, "png"))
        assert decoded.shape == (2, 3, 3)
