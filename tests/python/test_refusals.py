"""What nobody could read, hold or tell apart is refused by name: writers, memory, padding, mixtures, places of errors."""
import os
import tarfile

import numpy as np
import pytest

import millrace
import millrace.webdataset as wds
from millrace import Dataset, placement
from numbered_shards import numpy_bytes, picture


@pytest.fixture
def parts(tmp_path):
    """Three shards of 48 samples with labels 0, 1 and 2."""
    for label, name in enumerate("abc"):
        with millrace.ShardWriter(str(tmp_path / f"{name}.tar")) as writer:
            for number in range(48):
                writer.add(f"{number:03}", {"cls": str(label).encode(), "png": picture(number), "txt": b"{"})
    return tmp_path


def test_samples_that_come_twice_or_hold_nothing_are_refused_and_the_shard_stays_good(tmp_path):
    writer = millrace.ShardWriter(str(tmp_path / "x.tar"))
    writer.add("a", {"x": b"1"})
    with pytest.raises(millrace.ExistsError, match='"a" already'):
        writer.add("a", {"x": b"2"})
    with pytest.raises(millrace.InvalidError, match="no fields"):
        writer.add("b", {})
    writer.add("b", {"x": b"3"})
    with pytest.raises(millrace.ExistsError):
        writer.add("a", {"y": b"4"})
    assert writer.finish()[0]["samples"] == 2
    assert list(Dataset(str(tmp_path / "x.tar")).bytes("x").batch(2).epoch(0)) == [[b"1", b"3"]]
    with pytest.raises(millrace.ExistsError):
        with wds.TarWriter(str(tmp_path / "w.tar")) as tar:
            tar.write({"__key__": "a", "txt": "1"})
            tar.write({"__key__": "a", "txt": "2"})
    assert not (tmp_path / "w.tar").exists()


def test_limits_need_a_numbered_name(tmp_path):
    with pytest.raises(millrace.InvalidError, match="%06d"):
        millrace.ShardWriter(str(tmp_path / "x.tar"), max_samples=1)


def test_a_batch_that_no_machine_holds_is_an_error_of_the_iteration(parts):
    ds = Dataset(str(parts / "a.tar")).image("png", size=10_000, dtype="float32").batch(40_000, end="pad")
    with pytest.raises(millrace.TooLargeError, match="no memory"):
        next(ds.epoch(0))
    assert len(next(Dataset(str(parts / "a.tar")).label().batch(8).epoch(0))) == 8


def test_a_mixture_of_mixtures_keeps_the_weights_of_both(parts):
    a, b, c = (Dataset(str(parts / f"{name}.tar")).label().batch(16) for name in "abc")
    mixed = Dataset.mix([Dataset.mix([a, b], [7, 1]), c], [1, 1])
    batches = [np.bincount(labels, minlength=3).tolist() for labels in mixed.epoch(0)]
    assert len(batches) == 9 and all(batch == [7, 1, 8] for batch in batches)


def test_offsets_of_errors_are_bytes_of_the_tar(parts):
    path = str(parts / "a.tar")
    with tarfile.open(path) as archive:
        wanted = archive.getmember("007.txt").offset_data
    with pytest.raises(millrace.CorruptError) as caught:
        Dataset(path).array("txt")[7]
    assert (caught.value.shard, caught.value.member, caught.value.offset) == (path, "007.txt", wanted)


@pytest.mark.parametrize("window", [0, 20])
def test_errors_of_streams_name_the_shard_they_are_of(parts, window):
    paths = [str(parts / f"{name}.tar") for name in "abc"]
    with millrace.ShardWriter(paths[1]) as writer:
        writer.add("000", {"cls": b"1", "txt": b"{", "npy": b"nothing"})
    for path in (paths[0], paths[2]):
        with millrace.ShardWriter(path) as writer:
            writer.add("000", {"cls": b"0", "txt": b"{}", "npy": numpy_bytes(np.zeros(1))})
    for name, stage in (("array", "decode"), ("json", "python")):
        ds = Dataset(paths, indexed=False, seed=1).shuffle(window)
        ds = ds.array("npy") if name == "array" else ds.json("txt")
        with pytest.raises(millrace.CorruptError, match="b.tar: sample 0 of the stream") as caught:
            list(ds.batch(1).epoch(0))
        assert (caught.value.shard, caught.value.stage) == (paths[1], stage)


def test_the_key_rule_holds_for_shuffled_streams(tmp_path):
    with millrace.ShardWriter(str(tmp_path / "x.tar"), key_rule="last-dot") as writer:
        for number in range(9):
            writer.add(f"a.{number}", {"txt": str(number).encode()})
    ds = Dataset(str(tmp_path / "x.tar"), indexed=False, key_rule="last-dot").shuffle(5).bytes("txt").batch(9)
    assert sorted(next(ds.epoch(0))) == [str(number).encode() for number in range(9)]


def test_what_padding_cannot_say_is_refused(tmp_path):
    with millrace.ShardWriter(str(tmp_path / "n.tar")) as writer:
        for number in range(4):
            writer.add(str(number), {"npy": numpy_bytes(np.arange(number + 1, dtype=np.uint8)), "one.npy": numpy_bytes(np.int32(number))})
    ds = Dataset(str(tmp_path / "n.tar")).batch(4)
    padded, shapes = next(ds.array("npy", pad=7).epoch(0))
    assert padded[1].tolist() == [0, 1, 7, 7] and shapes.ravel().tolist() == [1, 2, 3, 4]
    for fill in (-100, 0.5, float("nan")):
        with pytest.raises(millrace.InvalidError, match="uint8"):
            next(ds.array("npy", pad=fill).epoch(0))
    assert next(ds.array("one.npy", pad=0).epoch(0))[0].tolist() == [0, 1, 2, 3]


def test_numbers_that_torch_does_not_have_are_refused(tmp_path):
    pytest.importorskip("torch")
    with millrace.ShardWriter(str(tmp_path / "n.tar")) as writer:
        writer.add("0", {"npy": numpy_bytes(np.array([2**64 - 1], dtype=np.uint64))})
        writer.add("1", {"npy": numpy_bytes(np.array([5], dtype=np.uint64))})
    ds = Dataset(str(tmp_path / "n.tar")).array("npy").batch(1).torch()
    with pytest.raises(millrace.InvalidError, match="uint64"):
        next(ds.epoch(0))
    assert next(ds.epoch(0, start=1)).tolist() == [[5]]


def test_epochs_that_cannot_be_counted_are_refused(parts):
    with pytest.raises(millrace.InvalidError, match="too many"):
        Dataset(str(parts / "a.tar")).label().batch(8).epoch(1, epochs=2**64 - 1)


def test_a_place_in_shared_memory_that_others_made_is_not_used(tmp_path):
    assert placement._is_own(str(tmp_path / "new")) and oct(os.stat(tmp_path / "new").st_mode & 0o777) == "0o700"
    assert placement._is_own(str(tmp_path / "new"))
    os.mkdir(tmp_path / "open")
    os.chmod(tmp_path / "open", 0o777)
    assert not placement._is_own(str(tmp_path / "open"))
    os.symlink(tmp_path / "new", tmp_path / "link")
    assert not placement._is_own(str(tmp_path / "link"))
    if os.geteuid() == 0:
        os.mkdir(tmp_path / "theirs", 0o755)
        os.chown(tmp_path / "theirs", 65534, 65534)
        assert not placement._is_own(str(tmp_path / "theirs"))
