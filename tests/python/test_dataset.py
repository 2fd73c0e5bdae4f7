"""Dataset: exact epochs, the same batches for any world and start, and nothing left behind."""
import copy
import gc
import gzip
import io
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import numpy
import pytest
from PIL import Image

import millrace
from millrace import Dataset
from millrace.webdataset import tenbin
from numbered_shards import SAMPLES, all_of, numpy_bytes, picture
from numbered_shards import labels, urls  # noqa: F401: fixtures
from troubled_server import Server, always

# Ends a test that hangs; no result depends on it.
HANG_SECONDS = 60


def test_an_epoch_has_every_sample_once(labels):
    batches = all_of(labels.epoch(0))
    assert sorted(sum(batches, [])) == list(range(SAMPLES))
    assert len(batches) == len(labels) == 8
    assert [len(batch) for batch in batches] == [32] * 7 + [6]
    assert all_of(labels.epoch(1)) != batches == all_of(labels.epoch(0))


def test_unshuffled_is_in_order(urls):
    batches = all_of(Dataset(urls).label("cls").batch(100))
    assert batches == [list(range(100)), list(range(100, 200)), list(range(200, 230))]


@pytest.mark.parametrize("end, sizes", [("exact", 230), ("drop", 224), ("pad", 256)])
def test_ranks_together_have_the_batches_of_one(labels, end, sizes):
    ds = labels.batch(32, end=end)
    whole = all_of(ds.epoch(2))
    assert sum(map(len, whole)) == sizes
    for world in (2, 3, 5):
        parts = [all_of(ds.epoch(2, rank=rank, world=world)) for rank in range(world)]
        assert {len(part) for part in parts} == {len(whole)}
        assert [sum((part[i] for part in parts), []) for i in range(len(whole))] == whole


def test_a_state_goes_on_with_the_identical_batches_for_another_world_too(labels):
    beginning = labels.state_dict()
    whole = all_of(labels.epoch(0))
    for stop in range(1, len(whole)):
        batches = iter(labels)
        labels.load_state_dict(beginning)
        for _ in range(stop):
            next(batches)
        state = labels.state_dict()
        batches.close()
        assert len(str(state)) < 1024
        again = labels.batch(32)
        again.load_state_dict(state)
        assert all_of(again) == whole[stop:]
        halves = [all_of(labels.epoch(state["epoch"], start=state["batch"], rank=rank, world=2)) for rank in range(2)]
        assert [one + other for one, other in zip(*halves)] == whole[stop:]


def test_iterating_goes_from_epoch_to_epoch(labels):
    first, second = all_of(labels), all_of(labels)
    state = labels.state_dict()
    assert (state["epoch"], state["batch"]) == (2, 0)
    assert first == all_of(labels.epoch(0)) and second == all_of(labels.epoch(1))


@pytest.mark.parametrize("make_copy", [copy.copy, lambda ds: pickle.loads(pickle.dumps(ds)), lambda ds: ds.batch(32)],
                         ids=["copied", "pickled", "described anew"])
def test_a_copy_begins_where_its_original_was_and_goes_its_own_way(labels, make_copy):
    batches = labels.epoch(0)
    next(batches), next(batches)
    other = make_copy(labels)
    next(batches)
    assert (other.state_dict()["batch"], labels.state_dict()["batch"]) == (2, 3)
    next(iter(other))
    assert [(one.state_dict()["epoch"], one.state_dict()["batch"]) for one in (other, labels)] == [(1, 1), (0, 3)]


VIEWS = {"itself": lambda ds: ds, "map": lambda ds: ds.map(lambda numbers: numbers), "cache": lambda ds: ds.cache("auto")}


@pytest.mark.parametrize("view", VIEWS.values(), ids=list(VIEWS))
def test_each_for_begins_a_new_epoch_at_its_start_whatever_became_of_the_last(labels, view):
    reference = labels.batch(32)
    next(iter(view(labels)))
    for epoch in range(1, 4):  # a view of its own each time
        assert all_of(view(labels)) == all_of(reference.epoch(epoch))
        assert (labels.state_dict()["epoch"], labels.state_dict()["batch"]) == (epoch + 1, 0)
    assert "8 batches" in labels.report()
    with pytest.raises(RuntimeError):
        for number, _ in enumerate(view(labels)):
            if number == 2:
                raise RuntimeError
    state = labels.state_dict()
    assert (state["epoch"], state["batch"]) == (4, 3)
    assert all_of(view(labels)) == all_of(reference.epoch(5))
    for again in (labels, view(labels), labels.batch(32)):
        again.load_state_dict(state)
        assert all_of(again) == all_of(reference.epoch(4, start=3))
        assert all_of(again) == all_of(reference.epoch(5))


def test_a_sanity_check_of_two_batches_does_not_shorten_what_follows(urls):
    validation = Dataset(urls).label("cls").batch(16)
    next(iter(validation))
    assert sum(len(batch) for batch in validation) == SAMPLES


def test_the_epoch_behind_one_that_was_chosen_is_the_next(labels):
    next(labels.epoch(6))
    assert all_of(labels) == all_of(labels.epoch(7))
    list(labels.epoch(2, epochs=3))
    assert all_of(labels) == all_of(labels.epoch(5))


def test_a_data_set_described_from_another_has_its_own_position(labels):
    all_of(labels)
    other = labels.shuffle(window=61)
    all_of(other), all_of(other)
    assert (labels.state_dict()["epoch"], other.state_dict()["epoch"]) == (1, 3)


@pytest.mark.parametrize("view", [lambda ds: ds, lambda ds: ds.map(lambda numbers: numbers)], ids=["plain", "finished by python"])
def test_a_second_thread_is_refused_and_the_first_goes_on(urls, view):
    """The first waits for a source that answers when the second was refused."""
    released, waits = threading.Event(), threading.Event()
    found = []
    with Server(os.path.dirname(urls)) as server:
        batches = view(Dataset(server.url("s-000.tar")).label("cls").batch(50)).epoch(0)
        server.trouble = always(lambda ask: waits.set() or not released.wait(HANG_SECONDS))
        first = threading.Thread(target=lambda: found.append(next(batches).tolist()))
        first.start()
        assert waits.wait(HANG_SECONDS)
        while not found:
            try:
                next(batches)
            except millrace.InUseError as error:
                assert "one thread at a time" in str(error)
                break
        released.set()
        first.join()
        assert found == [list(range(50))] and next(batches, None) is None


def test_the_state_follows_whichever_iterator_gave_a_batch_last(labels):
    first, second = labels.epoch(0), labels.epoch(4)
    next(first), next(second)
    assert (labels.state_dict()["epoch"], labels.state_dict()["batch"]) == (4, 1)
    next(first)
    assert (labels.state_dict()["epoch"], labels.state_dict()["batch"]) == (0, 2)
    for _ in second:
        pass
    assert (labels.state_dict()["epoch"], labels.state_dict()["batch"]) == (5, 0)


def test_an_iterator_that_has_ended_or_was_closed_gives_nothing_more(labels):
    batches = labels.epoch(0)
    count = sum(1 for _ in batches)
    assert count == len(labels) and next(batches, None) is None
    closed = labels.epoch(0)
    next(closed)
    closed.close()
    assert next(closed, None) is None
    assert closed.report()["batches"] == 1


def test_a_state_of_another_order_is_refused(labels):
    state = labels.state_dict()
    with pytest.raises(millrace.InvalidError, match="window"):
        labels.shuffle(window=61).load_state_dict(state)
    with pytest.raises(millrace.InvalidError):
        labels.load_state_dict({})


def test_every_kind_of_field(urls):
    ds = (Dataset(urls).image("jpg;png").label("cls").text("txt").json("json").array("npy").array("tokens.npy").bytes("raw")
          .ragged("raw", name="ragged").key().field("txt", len, name="length").batch(10))
    images, labels, texts, jsons, arrays, tokens, raws, (memory, places), keys, lengths = next(ds.epoch(0, start=3))
    assert images[0].shape == (48, 64, 3) and images[0].dtype == numpy.uint8
    for i, number in enumerate(range(30, 40)):
        assert numpy.array_equal(images[i], numpy.asarray(Image.open(io.BytesIO(picture(number)))))
        assert labels[i] == number and texts[i] == f"number {number}" and jsons[i] == {"n": number} and keys[i] == f"{number:05}"
        assert numpy.array_equal(tokens[i], numpy.arange(number % 7 + 1)) and raws[i] == bytes([number]) * number
        assert memory[places[i, 0]:places[i, 0] + places[i, 1]].tobytes() == raws[i]
        assert lengths[i] == len(texts[i])
    assert arrays.shape == (10, 2, 3) and arrays.dtype == numpy.float32 and arrays[4, 1, 2] == 34


def test_images_of_one_size_are_one_aligned_array(urls):
    ds = Dataset(urls).image("png", size=(16, 24), crop="center", normalize="half", layout="CHW").batch(7)
    images = next(ds.epoch(0))
    assert images.shape == (7, 3, 16, 24) and images.dtype == numpy.float32 and images.ctypes.data % 64 == 0
    assert -1 <= images.min() < images.max() <= 1


def test_augmentation_is_part_of_the_order(urls):
    ds = Dataset(urls, seed=9).shuffle(50).image("png", size=20, crop="random_resized", flip=True).label("cls").batch(40)
    whole = [(images.copy(), labels.copy()) for images, labels in ds.epoch(1)]
    for threads in (1, 3):
        other = Dataset(urls, seed=9, threads=threads).shuffle(50).image("png", size=20, crop="random_resized", flip=True).label("cls").batch(40)
        for (images, labels), (wanted, numbers) in zip(other.epoch(1, start=2), whole[2:]):
            assert numpy.array_equal(images, wanted) and numpy.array_equal(labels, numbers)
    first = {int(label): image for images, labels in whole for image, label in zip(images, labels)}
    changed = sum(not numpy.array_equal(image, first[int(label)]) for images, labels in ds.epoch(2) for image, label in zip(images, labels))
    assert changed > SAMPLES // 2


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("packed")

    def archive(number):
        out = io.BytesIO()
        numpy.savez(out, a=numpy.arange(number), b=numpy.ones(2))
        return out.getvalue()

    with millrace.ShardWriter(str(directory / "p.tar")) as writer:
        for number in range(6):
            tensors = [numpy.full(number + 1, number, numpy.float32), numpy.arange(4, dtype=numpy.int64)]
            writer.add(f"{number:05}", {
                "npz": archive(number), "ten": tenbin.encode_buffer(tensors), "png.gz": gzip.compress(picture(number)),
                "cls.gz": gzip.compress(str(number).encode()), "json.gz": gzip.compress(f'{{"n": {number}}}'.encode()),
                "npy.gz": gzip.compress(numpy_bytes(numpy.full(3, number))), "png": picture(number),
                "tokens.npy": numpy_bytes(numpy.arange(number + 1)), "txt.gz": b"\x1f\x8b broken"})
    return str(directory / "p.tar")


def test_archives_of_arrays_come_as_such(packed):
    archives, tensors = next(Dataset(packed).npz().tenbin().batch(6).epoch(0))
    for number, (archive, pair) in enumerate(zip(archives, tensors)):
        assert archive["a"].tolist() == list(range(number)) and archive["b"].tolist() == [1, 1]
        assert pair[0].tolist() == [number] * (number + 1) and pair[1].tolist() == [0, 1, 2, 3]


def test_members_that_end_in_gz_are_unpacked(packed):
    ds = Dataset(packed).image("png.gz", size=20).label("cls.gz").json("json.gz").array("npy.gz").image("png", size=20).batch(6)
    images, labels, documents, arrays, plain = next(ds.epoch(0))
    assert numpy.array_equal(images, plain) and labels.tolist() == list(range(6))
    assert [document["n"] for document in documents] == list(range(6))
    assert arrays.shape == (6, 3) and arrays[:, 0].tolist() == list(range(6))
    assert next(Dataset(packed).bytes("cls.gz").batch(1).epoch(0))[0][:2] == b"\x1f\x8b"
    for broken in (Dataset(packed).label("txt.gz"), Dataset(packed).text("txt.gz")):
        with pytest.raises(millrace.Error):
            next(broken.batch(1).epoch(0))


def test_arrays_of_several_lengths_are_padded(packed, urls):
    tokens, shapes = next(Dataset(packed).array("tokens.npy", pad=-1).batch(6).epoch(0))
    assert tokens.shape == (6, 6) and shapes.tolist() == [[number + 1] for number in range(6)]
    for number, row in enumerate(tokens.tolist()):
        assert row == list(range(number + 1)) + [-1] * (5 - number)
    whole, shapes = next(Dataset(urls).array("npy", pad=0).batch(4).epoch(0))
    assert whole.shape == (4, 2, 3) and shapes.tolist() == [[2, 3]] * 4


@pytest.mark.parametrize("kind, library", [("msgpack", "msgpack"), ("cbor", "cbor2")])
def test_packages_decode_their_own(kind, library, tmp_path):
    package = pytest.importorskip(library)
    dump = package.packb if library == "msgpack" else package.dumps
    with millrace.ShardWriter(str(tmp_path / "m.tar")) as writer:
        writer.add("one", {"mp": dump({"n": 1}), "cbor": dump({"n": 1})})
    ds = Dataset(str(tmp_path / "m.tar"))
    assert next((ds.msgpack() if kind == "msgpack" else ds.cbor()).batch(1).epoch(0)) == [{"n": 1}]


def test_a_stream_comes_from_standard_input_or_a_command(urls, monkeypatch):
    shard = urls.replace("{000..004}", "000")
    program = "import sys; from millrace import Dataset\n" \
              "for batch in Dataset(sys.argv[1], indexed=False).label('cls').batch(32).epoch(0): print(*batch, sep='\\n')"
    with open(shard) as source:
        done = subprocess.run([sys.executable, "-c", program, "-"], stdin=source, capture_output=True, text=True, check=True)
    assert [int(line) for line in done.stdout.split()] == list(range(50))
    piped = Dataset(f"pipe:cat {shard}", indexed=False).label("cls").batch(32)
    with pytest.raises(millrace.Error, match="shell commands are not run"):
        next(piped.epoch(0))
    monkeypatch.setenv("MILLRACE_ALLOW_PIPE", "1")
    assert sum(all_of(piped.epoch(0)), []) == list(range(50))
    # Stopped in the middle.
    assert len(next(piped.batch(4).epoch(0))) == 4
    with pytest.raises(millrace.Error, match="exit code 3"):
        all_of(Dataset(f"pipe:cat {shard}; exit 3", indexed=False).label("cls").batch(32).epoch(0))


def test_single_samples_by_number(urls):
    ds = Dataset(urls).label("cls").text("txt").batch(4)
    assert ds.samples == SAMPLES and ds[57] == (57, "number 57") and ds[-1] == (229, "number 229")
    with pytest.raises(IndexError, match="230"):
        ds[230]


def test_samples_are_chosen_by_number_mask_field_and_content(urls):
    ds = Dataset(urls).label("cls").batch(100)
    assert sum(all_of(ds.select([5, 3, 200]).epoch(0)), []) == [3, 5, 200]
    assert sum(all_of(ds.select([number % 2 == 0 for number in range(SAMPLES)]).epoch(0)), []) == list(range(0, SAMPLES, 2))
    assert ds.where("jpg;png").samples == SAMPLES
    with pytest.raises(millrace.InvalidError, match="no sample"):
        len(ds.where("wav"))
    small = ds.filter("cls", lambda value: int(value) < 20).shuffle(10)
    assert sorted(sum(all_of(small.epoch(0)), [])) == list(range(20)) and small.samples == 20
    assert small[7] == 7


def test_mixtures_have_exact_proportions(urls):
    low = Dataset(urls, seed=4).label("cls").select(range(100)).batch(40).shuffle(50)
    high = Dataset(urls, seed=4).label("cls").select(range(100, SAMPLES)).batch(40).shuffle(50)
    mixed = Dataset.mix([low, high], [1, 3])
    batches = all_of(mixed.epoch(0))
    assert len(batches) == len(mixed) == 230 // 40
    assert all(9 <= sum(number < 100 for number in batch) <= 11 for batch in batches)
    assert all_of(mixed.epoch(0, start=2)) == batches[2:]
    with pytest.raises(millrace.InvalidError):
        Dataset.mix([low], [1, 2])


def test_columns_are_joined_by_key(urls, tmp_path):
    with millrace.ShardWriter(str(tmp_path / "c-%03d.tar"), max_samples=50) as writer:
        for first in range(0, SAMPLES, 50):
            for number in reversed(range(first, min(first + 50, SAMPLES))):
                writer.add(f"{number:05}", {"score": str(number * 10).encode()})
    columns = Dataset(str(tmp_path / "c-{000..004}.tar"))
    ds = Dataset(urls, seed=6).shuffle(40).label("cls").label("score").bytes("score", name="raw").batch(32).join(columns)
    for labels, scores, raws in ds.epoch(0):
        assert (scores == 10 * labels).all() and raws == [str(score).encode() for score in scores]
    assert ds[3][1] == 30
    with pytest.raises(millrace.NotFoundError, match="same key"):
        len(Dataset(str(tmp_path / "c-000.tar")).label("score").join(Dataset(urls.replace("{000..004}", "001"))))
    with pytest.raises(millrace.InvalidError, match="shards"):
        len(Dataset(urls).label("cls").join(Dataset(str(tmp_path / "c-000.tar"))))


def test_buckets_hold_samples_of_similar_size(urls):
    ds = Dataset(urls, seed=6).shuffle(100).label("cls").bytes("raw").batch(10)
    bucketed = ds.bucket_by("raw", batches=22)
    batches = [(labels.tolist(), [len(raw) for raw in raws]) for labels, raws in bucketed.epoch(0)]
    assert sorted(sum((labels for labels, _ in batches), [])) == list(range(SAMPLES))
    spreads = [max(sizes) - min(sizes) for _, sizes in batches]
    plain = [max(map(len, raws)) - min(map(len, raws)) for _, raws in ds.epoch(0)]
    assert sum(spreads[:22]) < sum(plain[:22]) / 5
    assert [labels.tolist() for labels, _ in bucketed.epoch(0, start=7)] == [labels for labels, _ in batches[7:]]
    halves = [[labels.tolist() for labels, _ in bucketed.epoch(0, rank=rank, world=2)] for rank in range(2)]
    assert [one + other for one, other in zip(*halves)] == [labels for labels, _ in batches]


def test_shards_without_an_index_are_streamed(urls):
    ds = Dataset(urls, seed=3, indexed=False).shuffle(60).label("cls").bytes("raw").batch(32)
    whole = [(labels.tolist(), raws) for labels, raws in ds.epoch(0)]
    assert sorted(sum((labels for labels, _ in whole), [])) == list(range(SAMPLES))
    assert all(len(raw) == label % 100 for labels, raws in whole for label, raw in zip(labels, raws))
    assert [(labels.tolist(), raws) for labels, raws in ds.epoch(0, start=3)] == whole[3:]
    ranks = [sum(all_of(Dataset(urls, indexed=False).label("cls").batch(8).epoch(0, rank=rank, world=2)), []) for rank in range(2)]
    assert sorted(ranks[0] + ranks[1]) == list(range(SAMPLES))
    next(ds.epoch(0))
    again = ds.batch(32)
    again.load_state_dict(ds.state_dict())
    assert [labels.tolist() for labels, _ in again] == [labels for labels, _ in whole[1:]]
    with pytest.raises(TypeError):
        len(ds)


def test_maps_run_on_batches(labels):
    assert all_of(labels.map(lambda numbers: numbers * 2).epoch(0)) == [[2 * n for n in batch] for batch in all_of(labels.epoch(0))]


def test_arrays_outlive_the_batch_and_the_loader(urls):
    kept = [batch for batch in Dataset(urls).image("png", size=32).batch(16).epoch(0)]
    copies = [batch.copy() for batch in kept]
    for epoch in range(3):
        for _ in Dataset(urls).image("png", size=32).batch(16).epoch(epoch):
            pass
    gc.collect()
    assert all(numpy.array_equal(a, b) for a, b in zip(kept, copies))


def test_a_report_names_the_limit(labels):
    list(labels.epoch(0))
    assert "limit: " in labels.report() and "230 samples" in labels.report()
    with labels.epoch(0) as batches:
        next(batches)
        assert {stage["name"] for stage in batches.report()["stages"]} == {"plan", "fetch", "untar", "decode"}


def test_functions_of_python_are_counted_and_can_be_the_limit(labels):
    def slow(numbers):
        time.sleep(0.02)
        return numbers

    ds = labels.map(slow)
    batches = ds.epoch(0)
    count = len(list(batches))
    stage = {stage["name"]: stage for stage in batches.report()["stages"]}["python"]
    assert stage["count"] == count and stage["busy_seconds"] >= 0.02 * count
    assert batches.report()["limit"] == "python" and "limit: python" in ds.report()


def test_a_report_tells_waits_and_how_many_batches_lay_ready(labels):
    batches = labels.epoch(0)
    count = len(list(batches))
    report = batches.report()
    assert 0 < report["ready_batches"] <= 3 and report["batches"] == count
    assert 0 <= report["waited_bytes_share"] and 0 <= report["waited_room_share"]
    assert all(stage["per_second"] == pytest.approx(stage["count"] / report["seconds"]) for stage in report["stages"])


def test_a_progress_line_and_metrics_show_the_same_report(labels):
    from millrace.watching import ProgressLine, serve_metrics

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    batches = labels.epoch(0)
    batches._line = ProgressLine(8, Terminal(), every_seconds=0)
    next(batches)
    assert "1/8 batches" in batches._line.stream.getvalue() and "limit: " in batches._line.stream.getvalue()
    server = serve_metrics(batches.report)
    text = urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics").read().decode()
    server.shutdown()
    assert "millrace_loader_samples_total 32\n" in text and 'millrace_loader_stage_busy_seconds_total{stage="fetch"}' in text
    assert text.count("# TYPE millrace_loader_stage_count_total counter") == 1


def test_the_place_of_a_cache_is_chosen_by_size(monkeypatch, tmp_path):
    from millrace import placement
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(placement, "available_memory", lambda: 1 << 30)
    assert placement.choose_cache(1 << 20, is_local=True)["cache"] == ""
    assert placement.choose_cache(1 << 20, is_local=False)["cache"].startswith("/dev/shm/millrace-")
    assert placement.choose_cache(1 << 29, is_local=False)["cache"] == str(tmp_path / "millrace" / "blocks")
    assert "neither" in placement.choose_cache(1 << 60, is_local=False)["cache_note"]


def test_shuffle_quality_rises_with_the_window(urls):
    def displacement(window):
        return Dataset(urls, seed=2).shuffle(window).label("cls").batch(16).shuffle_quality()["displacement"]
    assert displacement(0)["value"] == 0
    assert displacement(200)["value"] > 0.2 and abs(displacement(200)["ideal"] - 1 / 3) < 0.05
    mixed = Dataset(urls, seed=2).shuffle(230).label("cls").batch(23).shuffle_quality(labels=[n // 115 for n in range(SAMPLES)])
    assert mixed["label_distance"]["value"] < 0.3


# What goes wrong.

def test_errors_name_shard_sample_and_member(tmp_path):
    with millrace.ShardWriter(str(tmp_path / "bad-%d.tar")) as writer:
        for number in range(20):
            writer.add(f"{number:03}", {"cls": b"none" if number == 13 else b"7", "jpg": b"not an image"})
    url = str(tmp_path / "bad-0.tar")
    with pytest.raises(millrace.Error, match=r"bad-0.tar.*sample 13 at byte \d+.*013\.cls"):
        list(Dataset(url).label("cls").batch(4).epoch(0))
    skipping = Dataset(url, on_error="skip").label("cls").batch(4)
    assert sum(map(len, skipping.epoch(0))) == 19
    fault, = skipping.faults()
    assert "013.cls" in fault["what"] and fault["shard"] == url and (fault["epoch"], fault["batch"]) == (0, 3)
    assert [len(batch) for batch in Dataset(url, on_error="substitute").label("cls").batch(4).epoch(0)] == [4] * 5
    with pytest.raises(millrace.Error, match="jpg"):
        list(Dataset(url).image("jpg", size=8).batch(4).epoch(0))
    with pytest.raises(millrace.NotFoundError, match="no field png"):
        list(Dataset(url).bytes("png").batch(4).epoch(0))
    with pytest.raises(millrace.Error, match="more than 2"):
        list(Dataset(url, on_error="skip", max_errors=2).image("jpg", size=8).batch(4).epoch(0))


def test_what_makes_no_sense_is_said_at_once(urls):
    for wrong in (lambda: len(Dataset(urls).batch(4)), lambda: len(Dataset(urls).label("cls").batch(0)),
                  lambda: Dataset(urls).image("png", size=8, crop="round").label("cls").epoch(0),
                  lambda: Dataset(urls).image("png", normalize="me"), lambda: Dataset(urls).label("cls").batch(4).epoch(0, rank=4, world=4),
                  lambda: Dataset(urls).label("cls").batch(4, end="never").epoch(0), lambda: Dataset(urls, memory="much")):
        with pytest.raises((millrace.Error, ValueError)):
            wrong()
    with pytest.raises(millrace.NotFoundError):
        len(Dataset("/nowhere/x.tar").label("cls").batch(1))


# What is left behind.

def threads_of_process():
    return len(os.listdir("/proc/self/task"))


def test_two_hundred_epochs_broken_off_leave_no_threads_and_no_memory(labels):
    def break_off(times):
        for _ in range(times):
            for _ in labels.epoch(0):
                break
        gc.collect()
    break_off(5)
    threads, descriptors = threads_of_process(), len(os.listdir("/proc/self/fd"))
    resident = int(open("/proc/self/statm").read().split()[1])
    break_off(200)
    assert threads_of_process() <= threads and len(os.listdir("/proc/self/fd")) <= descriptors
    assert int(open("/proc/self/statm").read().split()[1]) < resident + (64 << 20) // 4096


def test_an_iterator_used_after_a_fork_says_so(labels):
    batches = labels.epoch(0)
    next(batches)
    child = os.fork()
    if child == 0:
        try:
            next(batches)
        except millrace.InvalidError as error:
            os._exit(0 if "fork" in str(error) else 3)
        except BaseException:
            os._exit(4)
        os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sum(map(len, batches)) == SAMPLES - 32


def test_samples_by_number_work_in_a_forked_process(urls):
    ds = Dataset(urls).label("cls").batch(4)
    assert ds[3] == 3
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if ds[5] == 5 and len(list(ds.epoch(0))) == len(ds) else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ds[7] == 7


def test_control_c_ends_a_waiting_loop(urls):
    """A source that answers everything but the request for data: next() waits, a signal ends it, and the process ends."""
    program = """
import sys, threading, time, millrace

def tell_when_it_waits(thread):
    while sys._current_frames()[thread].f_code.co_name not in ("__next__", "_take_and_finish"):
        time.sleep(0.01)
    print("waiting", flush=True)

batches = millrace.Dataset(sys.argv[1]).label("cls").batch(1).epoch(0)
print("opened", flush=True)
threading.Thread(target=tell_when_it_waits, args=(threading.get_ident(),), daemon=True).start()
try:
    next(batches)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    released = threading.Event()
    with Server(os.path.dirname(urls)) as server:
        server.trouble = always(lambda ask: released.wait(HANG_SECONDS))
        process = subprocess.Popen([sys.executable, "-c", program, server.url("s-000.tar")], stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        assert process.stdout.readline() == "opened\n"
        assert process.stdout.readline() == "waiting\n"
        # The main thread may wait before another has asked.
        until = time.monotonic() + HANG_SECONDS
        while server.count() == 0 and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=HANG_SECONDS)[0]
        released.set()
    assert (process.returncode, said) == (0, "interrupted\n")
    assert server.count() > 0


def test_closing_from_another_thread_ends_the_wait(labels):
    batches = labels.epoch(0, epochs=1000)
    seen = []

    def consume():
        try:
            for batch in batches:
                seen.append(len(batch))
        except millrace.CancelledError:
            pass

    thread = threading.Thread(target=consume)
    thread.start()
    while len(seen) < 3:
        time.sleep(0.01)
    batches._loader.stop()
    thread.join(20)
    assert not thread.is_alive()
