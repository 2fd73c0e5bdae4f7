"""What a Dataset is told: paths and numpy's numbers are taken, and what makes no sense is refused by name."""
import pathlib

import numpy
import pytest

import millrace
from millrace import Dataset, pls
from numbered_shards import SAMPLES, all_of
from numbered_shards import labels, urls  # noqa: F401: fixtures

WRONG_NUMBERS = {
    "seed": [lambda urls: Dataset(urls, seed=-1), lambda urls: Dataset(urls, seed=None), lambda urls: Dataset(urls, seed=1 << 64)],
    "threads": [lambda urls: Dataset(urls, threads=-1), lambda urls: Dataset(urls, threads="many"), lambda urls: Dataset(urls, threads=257)],
    "fetch_threads": [lambda urls: Dataset(urls, fetch_threads=-1)],
    "max_errors": [lambda urls: Dataset(urls, max_errors=-1)],
    "memory": [lambda urls: Dataset(urls, memory="much"), lambda urls: Dataset(urls, memory=-1), lambda urls: Dataset(urls, memory=None)],
    "batch": [lambda urls: Dataset(urls).batch(-1), lambda urls: Dataset(urls).batch(0), lambda urls: Dataset(urls).batch(1.5)],
    "window": [lambda urls: Dataset(urls).shuffle(-1), lambda urls: Dataset(urls).shuffle(None)],
    "size": [lambda urls: Dataset(urls).image(size=-5), lambda urls: Dataset(urls).image(size=0), lambda urls: Dataset(urls).image(size="224"),
             lambda urls: Dataset(urls).image(size=(1, 2, 3))],
    "resize": [lambda urls: Dataset(urls).image(resize=-1)],
    "max_side": [lambda urls: Dataset(urls).cache(decoded=True, max_side=0)],
    "max_bytes": [lambda urls: Dataset(urls).cache("/tmp", max_bytes="some")],
    "batches": [lambda urls: Dataset(urls).bucket_by("raw", batches=0)],
    "weights": [lambda urls: Dataset.mix([Dataset(urls)], ["heavy"])],
    "epoch": [lambda urls: Dataset(urls).label().epoch(-1), lambda urls: Dataset(urls).label().epoch(None),
              lambda urls: Dataset(urls).label().shuffle_quality(epoch=-1)],
    "rank": [lambda urls: Dataset(urls).label().epoch(0, rank=-1)],
    "world": [lambda urls: Dataset(urls).label().epoch(0, world=0)],
    "start": [lambda urls: Dataset(urls).label().epoch(0, start=-1)],
    "step": [lambda urls: Dataset(urls).label().epoch(0, step=0)],
    "numbers": [lambda urls: Dataset(urls).select([-1]), lambda urls: Dataset(urls).select([1, 1]), lambda urls: Dataset(urls).select([0.5]),
                lambda urls: Dataset(urls).select(7), lambda urls: Dataset(urls).select([[1, 2]])],
    "number": [lambda urls: Dataset(urls).label()[1.5], lambda urls: Dataset(urls).label()[1:3]],
    "labels": [lambda urls: Dataset(urls).label().shuffle_quality(labels=[0.5] * SAMPLES)],
}


@pytest.mark.parametrize("name, wrong", [(name, wrong) for name, several in WRONG_NUMBERS.items() for wrong in several])
def test_numbers_that_make_no_sense_are_refused_by_name(urls, name, wrong):
    with pytest.raises(millrace.InvalidError, match=rf"^{name}\b") as caught:
        wrong(urls)
    assert "C++" not in str(caught.value) and "argument types" not in str(caught.value)


@pytest.mark.parametrize("name, wrong", [
    ("window", lambda urls, truth: Dataset(urls).shuffle(truth)), ("batch", lambda urls, truth: Dataset(urls).batch(truth)),
    ("seed", lambda urls, truth: Dataset(urls, seed=truth)), ("memory", lambda urls, truth: Dataset(urls, memory=truth)),
    ("threads", lambda urls, truth: Dataset(urls, threads=truth)), ("fetch_threads", lambda urls, truth: Dataset(urls, fetch_threads=truth)),
    ("max_errors", lambda urls, truth: Dataset(urls, max_errors=truth)), ("size", lambda urls, truth: Dataset(urls).image(size=truth)),
    ("resize", lambda urls, truth: Dataset(urls).image(resize=truth)), ("scale", lambda urls, truth: Dataset(urls).image(scale=(truth, 1))),
    ("ratio", lambda urls, truth: Dataset(urls).image(ratio=(1, truth))), ("batches", lambda urls, truth: Dataset(urls).bucket_by("raw", batches=truth)),
    ("normalize", lambda urls, truth: Dataset(urls).image(normalize=((truth,), (1,)))),
    ("max_side", lambda urls, truth: Dataset(urls).cache(decoded=True, max_side=truth)),
    ("max_bytes", lambda urls, truth: Dataset(urls).cache("/tmp", max_bytes=truth)), ("weights", lambda urls, truth: Dataset.mix([Dataset(urls)], [truth])),
    ("epoch", lambda urls, truth: Dataset(urls).label().epoch(truth)), ("world", lambda urls, truth: Dataset(urls).label().epoch(0, world=truth)),
    ("number", lambda urls, truth: Dataset(urls).label()[truth]), ("max_samples", lambda urls, truth: millrace.ShardWriter("x-%d.tar", max_samples=truth)),
    ("ranks", lambda urls, truth: pls.Simulation([0, 1], ranks=truth)), ("partners", lambda urls, truth: pls.Simulation([0, 1], 2, partners=truth)),
    ("fraction", lambda urls, truth: pls.Simulation([0, 1], 2, fraction=truth)), ("seed", lambda urls, truth: pls.Simulation([0, 1], 2, seed=truth)),
    ("timeout", lambda urls, truth: pls.store.exchange_options(timeout=truth))])
@pytest.mark.parametrize("truth", [True, False, numpy.True_])
def test_a_truth_is_no_number(urls, name, wrong, truth):
    with pytest.raises(millrace.InvalidTypeError, match=rf"^{name}\b.*(True|False)"):
        wrong(urls, truth)


@pytest.mark.parametrize("name, told", [("gs://bucket/a-{0..9}.tar", "speaks S3"), ("ftp://host/a.tar", "pipe:curl"), ("az://c/a.tar", "mr://")])
def test_addresses_that_cannot_be_opened_say_what_can_be_done(name, told):
    for use in (lambda: len(Dataset(name)), lambda: next(millrace.samples(name)), lambda: millrace.ShardFile(name)):
        with pytest.raises(millrace.UnsupportedError, match=told):
            use()


def test_a_tilde_is_the_home(urls, monkeypatch):
    monkeypatch.setenv("HOME", str(pathlib.Path(urls).parent))
    assert Dataset("~/s-{000..004}.tar").samples == SAMPLES
    assert next(millrace.samples("~/s-000.tar"))[0] == "00000"
    assert Dataset(f"file://{pathlib.Path(urls).parent}/s-000.tar").samples == 50


def test_a_missing_field_is_told_with_those_that_are_there(urls):
    for wanted in (lambda: next(Dataset(urls).bytes("jpgg").epoch(0)), lambda: Dataset(urls).image("jpgg")[0]):
        with pytest.raises(millrace.Error, match="has no field jpgg; it has png, cls, txt, json, npy, tokens.npy, raw"):
            wanted()


def test_a_batch_that_is_never_full_is_told_of(labels):
    with pytest.warns(UserWarning, match="a batch of 500 is more than the 230 samples"):
        assert all_of(labels.batch(500, end="drop")) == []


def test_a_data_set_tells_what_it_is(urls):
    ds = Dataset(urls, seed=3).shuffle(60).image("png", size=16).label("cls").batch(32).torch()
    assert repr(ds) == f"<Dataset({urls!r}, seed=3).shuffle(60).image('png').label('cls').batch(32, end='exact').torch()>"
    assert "1 x <Dataset(" in repr(Dataset.mix([ds, ds], [1, 2])) and "… 5 names" in repr(Dataset(["a.tar"] * 5))
    public = [name for name in vars(Dataset) if not name.startswith("_")]
    assert [name for name in public if not (getattr(Dataset, name).__doc__ or "").strip()] == []
    assert "for images, labels in ds" in Dataset.__doc__


@pytest.mark.parametrize("name, wrong", [
    ("urls", lambda urls: Dataset(7)), ("urls", lambda urls: Dataset([urls, None])), ("mirrors", lambda urls: Dataset(urls, mirrors=urls)),
    ("on_error", lambda urls: Dataset(urls, on_error="ignore")), ("on_error", lambda urls: Dataset(urls, on_error=None)),
    ("end", lambda urls: Dataset(urls).batch(4, end="never")), ("fields", lambda urls: Dataset(urls).label(3)),
    ("crop", lambda urls: Dataset(urls).image(crop="round")), ("layout", lambda urls: Dataset(urls).image(layout=None)),
    ("dtype", lambda urls: Dataset(urls).image(dtype="f4")), ("channels", lambda urls: Dataset(urls).image(channels="cmyk")),
    ("normalize", lambda urls: Dataset(urls).image(normalize=(0.5, 0.5))), ("normalize", lambda urls: Dataset(urls).image(normalize=((0.5, 0.5), (0.5, 0.5)))),
    ("normalize", lambda urls: Dataset(urls).image(normalize="me")), ("scale", lambda urls: Dataset(urls).image(scale=0.5)),
    ("directory", lambda urls: Dataset(urls).cache(5))])
def test_words_that_make_no_sense_are_refused_by_name(urls, name, wrong):
    with pytest.raises(millrace.InvalidError, match=rf"^{name}\b"):
        wrong(urls)


def test_values_of_a_wrong_type_are_also_type_errors(urls):
    with pytest.raises(TypeError, match="seed"):
        Dataset(urls, seed=None)
    with pytest.raises(ValueError, match="seed"):
        Dataset(urls, seed=-1)


def test_paths_are_addresses(urls):
    directory = pathlib.Path(urls).parent
    one = Dataset(directory / "s-000.tar").label("cls").batch(50)
    assert sum(all_of(one.epoch(0)), []) == list(range(50))
    several = Dataset([directory / "s-000.tar", str(directory / "s-001.tar")], mirrors=[[directory / "s-000.tar", directory / "s-001.tar"]],
                      index_cache=directory / "indexes")
    assert several.samples == 100


def test_whole_numbers_may_be_those_of_numpy(urls):
    three = numpy.int64(3)
    ds = Dataset(urls, seed=three, threads=numpy.uint8(2), memory=numpy.int64(1 << 28), max_errors=three).label("cls").shuffle(numpy.int32(60))
    same = Dataset(urls, seed=3).label("cls").shuffle(60)
    assert all_of(ds.batch(numpy.int64(32)).epoch(three, start=numpy.int64(1))) == all_of(same.batch(32).epoch(3, start=1))
    assert next(Dataset(urls).image("png", size=numpy.int64(8)).batch(2).epoch(0)).shape == (2, 8, 8, 3)
    assert ds[three] == 3


# Choosing.

@pytest.mark.parametrize("make", [list, numpy.array, tuple, iter], ids=["list", "array", "tuple", "iterator"])
def test_a_mask_has_one_truth_for_each_sample(labels, make):
    even = [number % 2 == 0 for number in range(SAMPLES)]
    assert sorted(sum(all_of(labels.select(make(even)).epoch(0)), [])) == list(range(0, SAMPLES, 2))
    for length in (10, SAMPLES - 1, SAMPLES + 1):
        with pytest.raises(millrace.InvalidError, match=f"{length} for {SAMPLES} samples"):
            len(labels.select(make([True] * length)))


def test_a_mask_of_chosen_samples_counts_these(labels):
    chosen = labels.select(range(100, 104)).select(numpy.array([True, False, False, True]))
    assert sorted(sum(all_of(chosen.epoch(0)), [])) == [100, 103]


def test_ones_and_zeros_are_numbers_not_truths(labels):
    assert sorted(sum(all_of(labels.select(numpy.array([1, 0])).epoch(0)), [])) == [0, 1]


def test_a_sample_that_is_not_there_cannot_be_chosen(labels):
    with pytest.raises(millrace.InvalidError, match="no sample 230"):
        len(labels.select([3, 230]))
    with pytest.raises(millrace.InvalidError, match="no sample was chosen"):
        len(labels.select([]))
    with pytest.raises(millrace.InvalidError, match="sample 4 is chosen twice"):
        labels.select(numpy.array([4, 2, 4]))


# Streams.

def test_a_stream_refuses_what_it_cannot_do(urls):
    with pytest.raises(millrace.InvalidError, match="mirrors need an index"):
        Dataset(urls, mirrors=[urls], indexed=False)
    with pytest.raises(millrace.InvalidError, match="bucket_by needs an index"):
        Dataset(urls, indexed=False).bytes("raw").bucket_by("raw")


@pytest.mark.parametrize("ask", [len, lambda ds: ds.samples, lambda ds: ds[0], lambda ds: ds.shuffle_quality()],
                         ids=["len", "samples", "a sample", "shuffle quality"])
def test_a_stream_says_that_it_does_not_know(urls, ask):
    with pytest.raises(millrace.InvalidError, match="a streamed data set does not know") as caught:
        ask(Dataset(urls, indexed=False).label("cls").shuffle(10).batch(4))
    assert isinstance(caught.value, TypeError)


def test_a_stream_makes_a_list_although_it_has_no_length(urls):
    assert len(list(Dataset(urls, indexed=False).label("cls").batch(100))) == 3


# Mixtures and shuffling.

def test_a_mixture_smaller_than_its_batch_is_an_error_not_an_empty_epoch(urls):
    parts = [Dataset(urls).label("cls").batch(1000), Dataset(urls).label("cls")]
    with pytest.raises(millrace.InvalidError, match="1000 is more than the 460 samples"):
        Dataset.mix(parts, [1, 1]).epoch(0)
    with pytest.raises(millrace.InvalidError, match="1000"):
        list(Dataset.mix(parts, [1, 1]))
    with pytest.warns(UserWarning, match="no batch"):
        assert list(Dataset.mix([parts[0].batch(1000, end="drop"), parts[1]], [1, 1]).epoch(0)) == []


def test_labels_for_the_quality_of_shuffling_are_a_list_an_array_or_a_field(urls):
    ds = Dataset(urls, seed=2).shuffle(230).text("txt").batch(23)
    numbers = list(range(SAMPLES))
    wanted = ds.shuffle_quality(labels=numbers)
    assert "label_distance" in wanted
    assert ds.shuffle_quality(labels=numpy.array(numbers)) == ds.shuffle_quality(labels="cls") == wanted
    assert "label_distance" not in ds.shuffle_quality()
    with pytest.raises(millrace.InvalidError, match="2 labels for 230 samples"):
        ds.shuffle_quality(labels=[1, 2])
    with pytest.raises(millrace.Error, match="txt"):
        ds.shuffle_quality(labels="txt")
    with pytest.raises(millrace.InvalidError, match="mixture"):
        Dataset.mix([ds, ds], [1, 1]).shuffle_quality()
