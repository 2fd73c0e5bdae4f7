"""Fields that Python decodes: a sample that cannot be decoded is named, left out or replaced as the engine does it with its own."""
import gzip
import io
import json

import numpy
import pytest

import millrace
from millrace import Dataset
from numbered_shards import numpy_bytes

BAD = (5, 6, 13)
SAMPLES = 20


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """Samples 5, 6 and 13 are broken in every field but cls and raw; 9 has no good label."""
    directory = tmp_path_factory.mktemp("python-fields")

    def archive(number):
        out = io.BytesIO()
        numpy.savez(out, a=numpy.arange(number))
        return out.getvalue()

    with millrace.ShardWriter(str(directory / "f.tar")) as writer:
        for number in range(SAMPLES):
            bad = b"\xff{broken" if number in BAD else None
            writer.add(f"{number:03}", {
                "cls": str(number).encode(), "raw": bytes([number]) * (number + 1), "odd": b"none" if number == 9 else b"1",
                "npy": numpy_bytes(numpy.full(2, number)), "tokens.npy.gz": bad or gzip.compress(numpy_bytes(numpy.arange(number + 1))),
                "json": bad or json.dumps({"n": number}).encode(), "txt": bad or f"number {number}".encode(), "npz": bad or archive(number),
                "ten": bad or b"\0" * 16, "json.gz": b"\x1f\x8b" + bad if bad else gzip.compress(b"{}"), "png": b"no image"})
    return str(directory / "f.tar")


def decode_number(value):
    return json.loads(value)["n"]


FIELDS = {"json": lambda ds: ds.json(), "text": lambda ds: ds.text(), "npz": lambda ds: ds.npz(), "packed": lambda ds: ds.json("json.gz"),
          "own": lambda ds: ds.field("json", decode_number), "padded": lambda ds: ds.array("tokens.npy.gz", pad=0)}


@pytest.mark.parametrize("kind", FIELDS)
def test_a_sample_that_cannot_be_decoded_is_named(url, kind):
    ds = FIELDS[kind](Dataset(url).label("cls")).batch(4)
    batches = ds.epoch(2)
    assert len(next(batches)[0]) == 4
    with pytest.raises(millrace.Error, match=r"\.tar: sample 5 at byte \d+: field \S+: ") as caught:
        next(batches)
    assert isinstance(caught.value, ValueError) and caught.value.__cause__ is not None
    assert next(batches, None) is None


def test_the_cause_is_what_the_function_raised(url):
    with pytest.raises(millrace.CorruptError, match="sample 0 at byte 0: field cls: ZeroDivisionError: division by zero") as caught:
        next(Dataset(url).field("cls", lambda value: 1 / int(value)).batch(4).epoch(0))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_function_that_raises_stop_iteration_does_not_end_the_epoch(url):
    for ds in (Dataset(url).field("cls", lambda value: next(iter([]))), Dataset(url).label("cls").map(lambda numbers: next(iter([])))):
        with pytest.raises(millrace.Error, match="StopIteration"):
            list(ds.batch(4).epoch(0))


def test_a_package_that_is_missing_is_not_the_samples_fault(url):
    def decode(value):
        import no_such_package  # noqa: F401
    with pytest.raises(ModuleNotFoundError):
        list(Dataset(url, on_error="skip").field("cls", decode).batch(4).epoch(0))


def columns_of(ds):
    """Of every sort: dense, listed, ragged, padded, made by Python and by the engine."""
    return ds.label("cls").json().ragged("raw").bytes("raw", name="bytes").array("npy").array("tokens.npy.gz", pad=-1).key().batch(4)


def samples_of(batch):
    """The number of each sample, the same in every column."""
    labels, documents, (memory, places), raws, arrays, (tokens, shapes), keys = batch
    sizes = {len(labels), len(documents), len(places), len(raws), len(arrays), len(tokens), len(shapes), len(keys)}
    assert len(sizes) == 1
    for i, number in enumerate(labels.tolist()):
        raw = bytes([number]) * (number + 1)
        assert documents[i] == {"n": number} and raws[i] == raw and keys[i] == f"{number:03}"
        assert memory[places[i, 0]:places[i, 0] + places[i, 1]].tobytes() == raw
        assert arrays[i].tolist() == [number] * 2 and tokens[i, :shapes[i, 0]].tolist() == list(range(number + 1))
    return labels.tolist()


def test_skipping_leaves_a_sample_out_of_every_column(url):
    ds = columns_of(Dataset(url, on_error="skip"))
    assert [samples_of(batch) for batch in ds.epoch(0)] == [[0, 1, 2, 3], [4, 7], [8, 9, 10, 11], [12, 14, 15], [16, 17, 18, 19]]
    assert [(fault["epoch"], fault["batch"]) for fault in ds.faults()] == [(0, 1), (0, 1), (0, 3)]
    assert all(fault["shard"] == url and f"sample {number} at byte " in fault["what"] and fault["stage"] == "python" for fault, number in zip(ds.faults(), BAD))
    assert "3 samples could not be decoded in Python" in ds.report()


def test_substituting_puts_another_sample_of_the_batch_in_every_column(url):
    ds = columns_of(Dataset(url, on_error="substitute"))
    assert [samples_of(batch) for batch in ds.epoch(0)] == [[0, 1, 2, 3], [4, 7, 7, 7], [8, 9, 10, 11], [12, 14, 14, 15], [16, 17, 18, 19]]


def test_the_last_of_a_batch_is_substituted_by_the_first(url):
    ds = Dataset(url, on_error="substitute").label("cls").json().batch(7)
    assert [labels.tolist() for labels, _ in ds.epoch(0)][0] == [0, 1, 2, 3, 4, 0, 0]


def test_a_batch_without_a_good_sample_is_empty_or_cannot_be_substituted(url):
    chosen = Dataset(url, on_error="skip").label("cls").json().array("tokens.npy.gz", pad=0).array("tokens.npy.gz", name="t").select(BAD).batch(2)
    labels, documents, (tokens, shapes), listed = next(chosen.epoch(0))
    assert [len(column) for column in (labels, documents, tokens, shapes, listed)] == [0] * 5
    with pytest.raises(millrace.CorruptError, match="batch 0 of epoch 0 has no good sample to stand for the others"):
        next(Dataset(url, on_error="substitute").json().select(BAD).batch(2).epoch(0))


def test_the_engines_faults_and_pythons_count_together(url):
    ds = Dataset(url, on_error="skip", max_errors=4).label("odd").json().batch(4)
    assert sum(len(labels) for labels, _ in ds.epoch(0)) == SAMPLES - 4
    shard, number = [(fault["shard"], fault["batch"]) for fault in ds.faults() if "009.odd" in fault["what"]][0]
    assert (shard, number) == (url, 2) and [fault["batch"] for fault in ds.faults()] == [1, 1, 2, 3]
    for most, last in ((3, "sample 13 at"), (1, "sample 6 at")):
        with pytest.raises(millrace.CorruptError, match=rf"samples could not be used, more than {most} are not accepted; the last: .*{last}"):
            list(Dataset(url, on_error="skip", max_errors=most).label("odd").json().batch(4).epoch(0))
    with pytest.raises(millrace.CorruptError, match="3 samples could not be used"):
        list(Dataset(url, on_error="skip", max_errors=2).select(range(12)).label("odd").json().batch(4).epoch(0))


def test_faults_are_known_during_an_iteration(url):
    ds = Dataset(url, on_error="skip").label("cls").json().batch(4)
    assert ds.faults() == []
    counts = []
    for _ in ds:
        counts.append(len(ds.faults()))
    assert counts == [0, 2, 2, 3, 3]
    with ds.epoch(0) as batches:
        next(batches)
        assert batches.faults() == ds.faults() == []
        next(batches)
        assert len(batches.faults()) == batches.report()["faults"] == 2


# Batches.

def test_an_error_of_a_map_names_the_batch(url):
    def fail_at_eight(numbers):
        if 8 in numbers:
            raise RuntimeError("boom")
        return numbers
    with pytest.raises(millrace.Error, match="batch 2 of epoch 5: map: RuntimeError: boom") as caught:
        list(Dataset(url).label("cls").batch(4).map(fail_at_eight).epoch(5))
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_an_error_in_the_last_batch_names_it(url):
    with pytest.raises(millrace.Error, match="batch 4 of epoch 1: map: "):
        list(Dataset(url).label("cls").batch(4).map(lambda numbers: 1 // (19 not in numbers)).epoch(1))


def test_arrays_that_cannot_be_padded_name_the_batch(tmp_path):
    with millrace.ShardWriter(str(tmp_path / "a.tar")) as writer:
        writer.add("0", {"npy": numpy_bytes(numpy.zeros(2))})
        writer.add("1", {"npy": numpy_bytes(numpy.zeros((2, 2)))})
    with pytest.raises(millrace.CorruptError, match="batch 0 of epoch 0: .*1 and of 2 dimensions"):
        next(Dataset(str(tmp_path / "a.tar")).array("npy", pad=0).batch(2).epoch(0))


@pytest.mark.parametrize("make", [lambda ds: ds.label("cls").json(), lambda ds: ds.label("cls").map(lambda numbers: 1 // (5 not in numbers) and numbers)],
                         ids=["field", "map"])
def test_the_state_stays_before_a_batch_that_python_could_not_make(url, make):
    ds = make(Dataset(url)).batch(4)
    with pytest.raises(millrace.Error, match="sample 5 at byte|batch 1 of epoch 0"):
        for _ in ds:
            pass
    assert (ds.state_dict()["epoch"], ds.state_dict()["batch"]) == (0, 1)
    ds.load_state_dict(ds.state_dict())
    with pytest.raises(millrace.Error, match="sample 5 at byte|batch 1 of epoch 0"):
        next(iter(ds))


def test_the_part_of_a_rank_may_be_empty(url):
    ds = (Dataset(url).label("cls").json("json.gz").array("npy", pad=0).array("tokens.npy.gz").array("tokens.npy.gz", pad=0, name="padded")
          .ragged("raw").key().select([0, 1, 2, 3, 4]).batch(4))
    for rank in range(4):
        *_, last = ds.epoch(0, rank=rank, world=4)
        labels, documents, (arrays, shapes), listed, (padded, lengths), (memory, places), keys = last
        assert {len(column) for column in (labels, documents, arrays, shapes, listed, padded, lengths, places, keys)} == {1 if rank == 3 else 0}


# One sample.

def test_a_single_sample_that_cannot_be_decoded_is_named_whatever_was_asked_for(url):
    ds = Dataset(url, on_error="skip").label("cls").json()
    assert ds[4] == (4, {"n": 4})
    with pytest.raises(millrace.CorruptError, match=r"\.tar: sample 5 at byte \d+: field json: UnicodeDecodeError"):
        ds[5]


def test_a_single_sample_has_its_own_arrays(url):
    tokens, raw, label = Dataset(url).array("tokens.npy.gz", pad=0).ragged("raw").label("cls")[3]
    assert tokens.tolist() == [0, 1, 2, 3] and raw.tolist() == [3] * 4 and label == 3
    assert Dataset(url).array("npy", pad=0)[2].tolist() == [2, 2]


def test_decoding_in_python_adds_no_column(url):
    ds = Dataset(url).json().text("cls").batch(4)
    assert ds.fields == ["json", "cls"] and len(next(ds.epoch(0))) == 2 and len(ds[0]) == 2
    assert next(Dataset(url).text("cls").batch(2).epoch(0)) == ["0", "1"]
