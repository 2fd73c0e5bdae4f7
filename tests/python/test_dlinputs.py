"""millrace.dlinputs: passes over shards and its filters."""
import itertools
import warnings

import corpus
import numpy as np
import pytest

import millrace
from millrace.dlinputs import filters, gopen


def keys(samples):
    return [sample["__key__"] for sample in samples]


def test_one_pass_is_in_order_and_decoded(shards):
    samples = list(gopen.sharditerator_once(str(shards / "good-@003.tar")))
    assert len(samples) == 24 and samples[0]["__source__"].endswith("good-000.tar")
    assert samples[0]["cls"] == 0 and samples[0]["png"].shape == (4, 6, 3) and samples[0]["png"].dtype == np.float32


@pytest.mark.parametrize("decode, kind", [(False, bytes), ("gray", np.ndarray), ("rgb8", np.ndarray), (lambda sample: {**sample, "png": 1}, int)])
def test_decoding_as_asked(shards, decode, kind):
    sample = next(gopen.sharditerator_once(str(shards / "good-000.tar"), decode=decode))
    assert isinstance(sample["png"], kind)


def test_unknown_decoding_is_refused(shards):
    with pytest.raises(ValueError, match="decode"):
        next(gopen.sharditerator_once(str(shards / "good-000.tar"), decode="sepia"))


def test_epochs_have_every_sample_in_new_orders(shards):
    samples = list(gopen.sharditerator(str(shards / "good-@003.tar"), epochs=4, seed=1, decode=False))
    epochs = [keys(group) for _, group in itertools.groupby(samples, key=lambda sample: sample["__epoch__"])]
    assert len(epochs) == 4 and all(sorted(epoch) == sorted(epochs[0]) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1
    in_order = list(gopen.sharditerator(str(shards / "good-@003.tar"), epochs=1, shuffle=False, decode=False))
    assert keys(in_order) == keys(gopen.sharditerator_once(str(shards / "good-@003.tar"), decode=False))


def test_failures_have_a_budget(shards):
    spec = [str(shards / "no-tar.tar"), str(shards / "good-000.tar")]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        samples = gopen.sharditerator(spec, epochs=20, shuffle=False, maxerrs=1, decode=False)
        assert len(list(samples)) == 160 and len(caught) == 20
        with pytest.raises(millrace.CorruptError):
            list(gopen.sharditerator(spec[:1], epochs=20, maxerrs=3))


def test_own_keys_and_sorting(shards, tmp_path):
    by_directory = gopen.sharditerator_once(str(shards / "good-000.tar"), decode=False,
                                            keys=lambda name: tuple(name.split("/")))
    assert keys(by_directory) == ["d0", "d1"]
    (tmp_path / "wild.tar").write_bytes(corpus.tar_bytes([("b.txt", b""), ("a.txt", b"")]))
    assert len(list(gopen.sharditerator_once(str(tmp_path / "wild.tar")))) == 2
    with pytest.raises(millrace.CorruptError, match="not sorted"):
        list(gopen.sharditerator_once(str(tmp_path / "wild.tar"), check_sorted=True))


def test_written_shards_come_back(tmp_path):
    with gopen.shardwriter(str(tmp_path / "x-%03d.tgz"), maxcount=3) as writer:
        for number in range(7):
            writer.write({"__key__": f"{number}", "cls": number})
    assert [sample["cls"] for sample in gopen.sharditerator_once(str(tmp_path / "x-@003.tgz"))] == list(range(7))


SAMPLES = [{"__key__": f"k{n}", "x": n, "name": f"n{n}", "image": np.full((2, n + 1), n)} for n in range(5)]


def run(stage, samples=SAMPLES):
    return list(stage(iter([dict(sample) for sample in samples])))


def test_stages_that_choose():
    assert keys(run(filters.select(x=lambda x: x > 2))) == ["k3", "k4"]
    assert keys(run(filters.grep(name="[13]"))) == ["k1", "k3"] and keys(run(filters.grep(_not=True, name="[13]"))) == ["k0", "k2", "k4"]
    assert keys(run(filters.sliced(1, 3))) == ["k1", "k2"]
    assert run(filters.with_keys("y")) == []
    assert len(run(filters.check(lambda sample: "x" in sample))) == 5
    with pytest.raises(ValueError, match="k3"):
        run(filters.check(lambda sample: sample["x"] < 3))


def test_keys_are_unique():
    assert keys(run(filters.unique())) == keys(SAMPLES)
    with pytest.raises(ValueError, match="a second time"):
        run(filters.unique(), SAMPLES + SAMPLES)
    assert keys(run(filters.unique(rekey=True), SAMPLES[:1] * 3)) == ["k0", "k0-1", "k0-2"]


def test_stages_that_change():
    assert run(filters.map(x=lambda x: x * 2))[3]["x"] == 6
    assert [sorted(sample) for sample in run(filters.rename(y="z;x"))][0] == ["__key__", "y"]
    assert sorted(run(filters.rename(keep_all=True, y="x"))[0]) == ["__key__", "image", "name", "y"]
    assert run(filters.rename(skip_missing=True, y="nothing")) == []
    with pytest.raises(ValueError, match="none of"):
        run(filters.rename(y="nothing"))
    assert run(filters.copy(y="x"))[2]["y"] == 2
    assert run(filters.annotate({"k1": {"extra": 5}}))[1]["extra"] == 5
    assert run(filters.transform(lambda sample: None if sample["x"] else {"x": 9}))[0]["x"] == 9
    assert run(filters.extract("x", "name"))[1] == (1, "n1")
    with pytest.warns(UserWarning):
        assert len(run(filters.map(errors_are_fatal=False, x=lambda x: 1 / x))) == 4
    with pytest.raises(ZeroDivisionError):
        run(filters.map(x=lambda x: 1 / x))


def test_encoding_and_decoding_are_inverse():
    samples = [{"__key__": "k", "cls": 3, "png": np.full((2, 2, 3), 5, "uint8")}]
    coded = run(filters.encode(), samples)
    assert isinstance(coded[0]["png"], bytes)
    decoded = run(filters.decode("rgb8"), coded)[0]
    assert decoded["cls"] == 3 and np.array_equal(decoded["png"], samples[0]["png"])


def test_batches():
    batches = run(filters.batched(2, expand=True))
    assert [len(batch["x"]) for batch in batches] == [2, 2, 1]
    assert batches[1]["image"].shape == (2, 2, 4) and batches[1]["image"][0, :, 3].tolist() == [0, 0]
    assert len(run(filters.batch(2, expand=True, partial=False))) == 2
    with pytest.raises(AssertionError):
        run(filters.batched(2))
    assert [sample["x"] for sample in filters.unbatch()(iter(batches))] == list(range(5))


def test_buckets_hold_similar_sizes():
    widths = [1, 50, 2, 60, 51, 1, 2, 200]
    samples = [{"__key__": str(n), "image": np.ones((2, width))} for n, width in enumerate(widths)]
    batches = run(filters.batchedbuckets(2, scale=2.0), samples)
    assert sorted(key for batch in batches for key in batch["__key__"]) == sorted(str(n) for n in range(len(widths)))
    for batch in batches:
        sizes = [widths[int(key)] for key in batch["__key__"]]
        assert max(sizes) <= 2 * min(sizes) and batch["image"].shape[2] == max(sizes)
    assert len(run(filters.batchedbuckets(2, scale=2.0, partial=False), samples)) < len(batches)


def test_sources_together():
    assert list(filters.concat([[1], [2, 3]])) == [1, 2, 3]
    assert sorted(filters.merge([[1, 2], [3]], weights=[1, 5], seed=1)) == [1, 2, 3]
    assert list(itertools.islice(filters.cached()(iter([1, 2])), 5)) == [1, 2, 1, 2, 1]


def test_composition(capsys):
    pipeline = filters.compose(filters.map(x=lambda x: x + 1), filters.select(x=lambda x: x > 3), filters.batch(5, expand=True), filters.batchinfo())
    assert [batch["x"].tolist() for batch in pipeline(iter(SAMPLES))] == [[4, 5]]
    assert "x int64 (2,)" in capsys.readouterr().err


def test_places_are_tried_and_the_first_that_has_the_shards_is_taken(tmp_path, shards):
    absent, here = str(tmp_path / "a-@000003.tar"), str(shards / "good-@000003.tar")
    with pytest.warns(UserWarning):
        assert not gopen.test_url(str(tmp_path / "absent.tar"))
    assert gopen.test_url(str(shards / "good-000.tar")) and gopen.test_shards(str(shards / "good-{000..002}.tar"), complete=True)
    with pytest.warns(UserWarning):
        assert gopen.find_shards([absent, str(shards / "good-{000..002}.tar"), here]) == str(shards / "good-{000..002}.tar")
        assert gopen.find_shards([absent]) is None


def test_a_loader_gives_tuples_of_fields(shards):
    loader = gopen.WebLoader(str(shards / "good-{000..002}.tar"), "png cls", length=24, shuffle=False, decode=False,
                             pipeline=filters.sliced(10), transform=len, target_transform=int)
    rows = list(loader)
    assert len(loader) == 24 and len(rows) == 10 and all(isinstance(size, int) and 0 <= label < 7 for size, label in rows)
    with pytest.raises(TypeError, match="length=n"):
        len(gopen.WebLoader("a.tar", ["png"]))
