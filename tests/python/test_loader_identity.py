"""A sample is the one that was indexed, and a state is that of the same run: what has changed is said, never mixed."""
import io
import json
import os
import subprocess
import sys
import tarfile

import numpy
import pytest

import millrace
from millrace import Dataset
from numbered_shards import urls  # noqa: F401: a fixture
from troubled_shards import own_index_cache  # noqa: F401: a fixture


def write_tar(path, members):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, body in members:
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return str(path)


def index(*paths):
    for path in paths:
        subprocess.run([os.environ["MILLRACE"], "-q", "tar", "index", path], check=True)


def test_an_index_of_other_samples_is_noticed_where_it_would_pair_wrong_ones(tmp_path):
    keys = [f"{number:04}" for number in range(20)]
    left = write_tar(tmp_path / "x.tar", [(f"{key}.cls", b"%d" % number) for number, key in enumerate(keys)])
    right = write_tar(tmp_path / "y.tar", [(f"{key}.txt", b"same") for key in keys])
    index(left, right)
    joined = Dataset(left).join(Dataset(right)).label("cls").text("txt").batch(4)
    assert sum(len(labels) for labels, _ in joined.epoch(0)) == 20
    # The same length and the same bytes in every field, in another order: only the keys tell.
    write_tar(tmp_path / "y.tar", [(f"{key}.txt", b"same") for key in reversed(keys)])
    with pytest.raises(millrace.CorruptError, match=r"y\.tar: the sample \d+ is not the one that was indexed there") as caught:
        list(Dataset(left).join(Dataset(right)).label("cls").text("txt").batch(4).epoch(0))
    assert caught.value.stage == "untar"


def test_errors_tell_their_stage_and_shard(tmp_path):
    shard = write_tar(tmp_path / "s.tar", [("a.cls", b"1"), ("b.cls", b"two")])
    with pytest.raises(millrace.Error) as caught:
        list(Dataset(shard).label("cls").batch(2).epoch(0))
    assert (caught.value.stage, caught.value.shard, caught.value.member) == ("decode", shard, "b.cls")
    with open(shard, "r+b") as file:
        file.truncate(600)
    with pytest.raises(millrace.TruncatedError) as caught:
        len(Dataset(shard).label("cls"))
    assert caught.value.shard == shard and str(caught.value).count("s.tar") == 1


def test_a_streamed_state_goes_on_with_as_many_ranks_only(urls):
    ds = Dataset(urls, indexed=False).label("cls").batch(8)
    with ds.epoch(0, rank=1, world=2) as batches:
        next(batches)
        state = ds.state_dict()
    assert state["world"] == 2
    again = Dataset(urls, indexed=False).label("cls").batch(8)
    again.load_state_dict(state)
    with pytest.raises(millrace.InvalidError, match="taken by 2 ranks, here are 4"):
        again.epoch(0, rank=1, world=4, start=state["batch"])
    assert len(next(again.epoch(0, rank=1, world=2, start=state["batch"]))) == 4


def test_states_stay_small(urls):
    one = Dataset(urls).label("cls").batch(8)
    many = Dataset.mix([one] * 64, [1.5 + number for number in range(64)])
    next(many.epoch(0))
    assert len(json.dumps(many.state_dict())) < 1024
    other = Dataset.mix([one] * 64, [2.5 + number for number in range(64)])
    with pytest.raises(millrace.InvalidError, match="weights"):
        other.load_state_dict(many.state_dict())


def test_one_value_normalises_all_channels(urls):
    def pixels(normalize):
        return next(Dataset(urls).image("png", size=16, normalize=normalize).label("cls").batch(4).epoch(0))[0]

    numpy.testing.assert_array_equal(pixels(((0.5,), (0.25,))), pixels(((0.5,) * 3, (0.25,) * 3)))


def test_arrays_of_one_shape_are_one_without_gaps(urls):
    arrays, labels = next(Dataset(urls).array("npy").label("cls").batch(7).epoch(0))
    assert arrays.shape == (7, 2, 3) and arrays.flags.c_contiguous and arrays.ctypes.data % 64 == 0
    numpy.testing.assert_array_equal(arrays, labels.astype(numpy.float32)[:, None, None] + numpy.zeros((2, 3), numpy.float32))


def test_substituted_arrays_are_one_too(tmp_path):
    def npy(number):
        out = io.BytesIO()
        numpy.save(out, numpy.full(3, number))
        return out.getvalue()

    shard = write_tar(tmp_path / "s.tar", [member for number in range(4) for member in (
        (f"{number}.cls", b"x" if number == 3 else b"%d" % number), (f"{number}.npy", npy(number)))])
    for on_error, wanted in (("substitute", [0, 1, 2, 0]), ("skip", [0, 1, 2])):
        labels, arrays = next(Dataset(shard, on_error=on_error).label("cls").array("npy").batch(4).epoch(0))
        assert labels.tolist() == wanted and arrays[:, 0].tolist() == wanted and arrays.flags.c_contiguous


@pytest.mark.parametrize("indexed", [True, False])
def test_the_last_dot_can_end_the_key(tmp_path, indexed):
    shard = write_tar(tmp_path / "s.tar", [("a.1.txt", b"one"), ("a.2.txt", b"two")])
    index(shard)  # by the first dot
    ds = Dataset(shard, key_rule="last-dot", indexed=indexed).key().text("txt").batch(2)
    assert next(ds.epoch(0)) == (["a.1", "a.2"], ["one", "two"])
    with pytest.raises(millrace.InvalidError, match="key_rule"):
        Dataset(shard, key_rule="any-dot")


def test_webdataset_decodes_images_without_pil(urls):
    program = """
import sys
sys.modules["PIL"] = None
import millrace.webdataset as wds
found = next(iter(wds.WebDataset(sys.argv[1]).decode("rgb8").to_tuple("png", "cls")))
assert found[0].shape == (48, 64, 3) and found[0].dtype.name == "uint8", found
"""
    subprocess.run([sys.executable, "-c", program, urls], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


def test_going_on_reads_nothing_of_what_came_before(tmp_path):
    with millrace.ShardWriter(str(tmp_path / "s-%d.tar"), max_samples=100) as writer:
        for number in range(400):
            writer.add(f"{number:04}", {"bin": os.urandom(20_000), "cls": b"%d" % number})
    ds = Dataset(str(tmp_path / "s-{0..3}.tar"), memory="4MiB", seed=3).shuffle(20).bytes("bin").label("cls").batch(8)
    read = {}
    for start in (0, 40):
        with ds.epoch(0, start=start) as batches:
            next(batches)
            read[start] = {stage["name"]: stage["bytes"] for stage in batches.report()["stages"]}["fetch"]
    # An eighth of the memory is asked for ahead; what forty batches hold is twice that and more.
    assert read[40] < 40 * 8 * 20_000 / 2 and read[40] <= read[0] + (4 << 20)


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_window_over_everything_is_near_what_chance_gives(urls, epoch):
    labels = [number // 23 for number in range(230)]  # sorted: the worst case
    ds = Dataset(urls, seed=11).label("cls").batch(16)
    shuffled, as_stored = ds.shuffle(window=230).shuffle_quality(epoch, labels), ds.shuffle_quality(epoch, labels)
    for name in ("displacement", "neighbour_entropy"):
        assert shuffled[name]["value"] == pytest.approx(shuffled[name]["ideal"], rel=0.25), name
    ideal, found, worst = (figure["label_distance"][name] for figure, name in (
        (shuffled, "ideal"), (shuffled, "value"), (as_stored, "value")))
    assert ideal <= found < ideal + (worst - ideal) / 3
