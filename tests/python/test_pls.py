"""millrace.pls in one process: stores, sampling, the simulation, what is refused."""
import io
import pickle

import numpy
import pytest

import millrace
from millrace import pls
from millrace.pls.store import Sample


@pytest.fixture
def store(tmp_path):
    with millrace.ShardWriter(str(tmp_path / "s-%03d.tar"), max_samples=30) as writer:
        for number in range(100):
            writer.add(f"dir/{number:04}", {"txt": f"text {number}".encode(), "cls": str(number // 10).encode()})
    return pls.Store.ingest(str(tmp_path / "s-*.tar"), tmp_path / "stores", partition="contiguous")


def test_samples_are_views_of_what_was_taken_in(store):
    assert len(store) == store.samples == 100
    sample = store[42]
    assert (sample.id, sample.label, sample.key) == (42, 4, "dir/0042")
    assert bytes(sample.fields["txt"]) == b"text 42" and bytes(sample.fields["cls"]) == b"4"
    assert sample.fields["txt"].readonly
    assert store.labels.tolist() == [number // 10 for number in range(100)]
    with pytest.raises(IndexError):
        store[100]


def test_a_store_travels_to_other_processes_by_name(store):
    other = pickle.loads(pickle.dumps(store))
    assert bytes(other[7].fields["txt"]) == b"text 7"


def test_a_damaged_sample_is_named_when_it_is_checked(store, tmp_path):
    segment = next((tmp_path / "stores" / "rank-00000").glob("*.tar"))
    data = bytearray(segment.read_bytes())
    data[data.index(b"text 42")] ^= 1
    segment.write_bytes(data)
    with pytest.raises(millrace.CorruptError, match="sample 42 .*checksum"):
        pls.Store(store.directory).sample(42, check=True)


def test_the_sampler_gives_every_slot_once_in_an_order_of_its_epoch(store):
    sampler = pls.LocalSampler(store, seed=1)
    first = list(sampler)
    assert sorted(first) == list(range(100)) and list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) != first
    part = iter(sampler)
    taken = [next(part) for _ in range(30)]
    other = pls.LocalSampler(store)
    other.load_state_dict(sampler.state_dict())
    sampler.set_epoch(1)
    assert taken + list(other) == list(sampler)


def test_one_rank_alone_goes_through_epochs_without_exchanging(store):
    shuffle = pls.PartialShuffle(store, fraction=0.5)
    for epoch in range(3):
        with shuffle.epoch(epoch):
            assert len(list(store)) == 100
    assert store.epoch == 3 and shuffle.stats()["samples_sent"] == 0
    with pytest.raises(millrace.InvalidError, match="cannot be exchanged"):
        with shuffle.epoch(7):
            pass


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, ValueError])
def test_an_epoch_that_is_interrupted_drops_its_exchange(store, interruption):
    shuffle = pls.PartialShuffle(store)
    with pytest.raises(interruption):
        with shuffle.epoch(0):
            raise interruption
    assert store.epoch == 0
    with shuffle.epoch(0):
        pass
    assert store.epoch == 1


def test_states_of_other_settings_or_stores_are_refused(store):
    shuffle = pls.PartialShuffle(store, fraction=0.5)
    state = shuffle.state_dict()
    with pytest.raises(millrace.InvalidError, match="fraction"):
        shuffle.load_state_dict({**state, "fraction": "0.3"})
    with pytest.raises(millrace.InvalidError, match="behind"):
        shuffle.load_state_dict({**state, "epoch": 9})


@pytest.mark.parametrize("options, reason", [({"fraction": 1.5}, "fraction"), ({"fraction": "often"}, "fraction"), ({"policy": "ring"}, "policy"),
                                             ({"select": "best"}, "select")])
def test_settings_that_make_no_sense_are_refused(store, options, reason):
    with pytest.raises(millrace.InvalidError, match=reason):
        pls.PartialShuffle(store, **options)


def test_the_store_is_locked_by_whoever_exchanges_it(store):
    first = pls.PartialShuffle(store)
    with pytest.raises(millrace.UnavailableError, match="it is in use by"):
        pls.PartialShuffle(store)
    del first
    pls.PartialShuffle(store)


def test_the_loader_of_the_engine_reads_the_store(store):
    found = [label for texts, labels in store.dataset(seed=3).shuffle(50).bytes("txt").label("cls").batch(8).epoch(0) for label in labels.tolist()]
    assert sorted(found) == store.labels.tolist()


def test_taking_in_what_is_not_there_is_an_error(tmp_path):
    with pytest.raises(millrace.Error):
        pls.Store.ingest(str(tmp_path / "none-*.tar"), tmp_path / "stores")
    with pytest.raises(millrace.NotFoundError, match="no sample store"):
        pls.Store.open(tmp_path / "nowhere")


def test_the_simulation_conserves_samples_and_levels_labels():
    simulation = pls.Simulation([number // 100 for number in range(1000)], ranks=10, fraction=0.2)
    before = simulation.figures()
    for _ in range(6):
        figures = simulation.step()
    assert figures["label_distance"] < 0.3 * before["label_distance"]
    assert sorted(numpy.concatenate(simulation.ids()).tolist()) == list(range(1000))


def test_fractions_may_change_by_epoch():
    simulation = pls.Simulation([0] * 1000, ranks=10, fraction="0.5,0.1@2")
    assert [simulation.step()["moved"] for _ in range(4)] == [500, 500, 100, 100]
    assert pls.store.exchange_options(fraction={0: 0.5, 2: 0.1})["fraction"] == "0.5,0.1@2"


def test_ranks_find_out_who_sees_the_same_samples():
    from millrace.pls.ingest import Seen, sharers
    here, there = ("h0", "1 1"), ("h1", "1 2")
    assert sharers([Seen(7, *here, 5)] * 3) == [[0, 1, 2]]                              # one directory
    assert sharers([Seen(7, *here, 5), Seen(7, *there, 5)]) == [[0, 1]]                 # a file system that all hosts see
    assert sharers([Seen(7, *here, 5), Seen(8, *here, 5)]) == [[0], [1]]                # parts of their own
    assert sharers([Seen(7, *here, 5), Seen(8, *there, 6), Seen(7, *here, 5)]) == [[0, 2], [1]]
    with pytest.raises(millrace.InvalidError, match="ranks 0 and 1 .*shared=False"):
        sharers([Seen(7, "h0", "1 1", 5), Seen(7, "h0", "1 2", 5)])


def test_an_image_folder_takes_images_alone_and_each_as_a_sample(tmp_path):
    pytest.importorskip("PIL")
    from PIL import Image
    for name in ("a/img.0001.png", "a/img.0002.png", "b/same.jpg", "b/same.png"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (9, 9, 9)).save(tmp_path / "in" / name)
    (tmp_path / "in" / "a" / "list.txt").write_text("no image")
    dataset = pls.ImageFolder(str(tmp_path / "in"))
    assert len(dataset) == 4 and dataset.targets.count(1) == 2
    assert sorted(key for key, _ in dataset.samples) == ["a/img_0001", "a/img_0002", "b/same", "b/same"]
    assert all(dataset[slot][0].size == (4, 4) for slot in range(4))


def encoded(image, form):
    stream = io.BytesIO()
    image.save(stream, form)
    return stream.getvalue()


def test_images_are_those_of_the_engine_and_damage_is_an_error(tmp_path):
    pytest.importorskip("PIL")
    from PIL import Image
    noise = Image.fromarray(numpy.random.default_rng(5).integers(0, 256, (40, 60, 3), dtype=numpy.uint8))
    forms = {"jpg": encoded(noise, "JPEG"), "png": encoded(noise, "PNG"), "webp": encoded(noise, "WEBP"), "bmp": encoded(noise, "BMP")}
    for field, content in forms.items():
        image = pls.decode_image(Sample(0, 0, "k", {field: memoryview(content)}))
        assert image.mode == "RGB" and image.size == (60, 40)
        if field != "bmp":  # what the engine does not read
            assert numpy.array_equal(numpy.asarray(image), millrace._core.decode_image(content, 3))
    for field in ("jpg", "png", "webp"):
        with pytest.raises(millrace.Error):
            pls.decode_image(Sample(0, 0, "k", {field: memoryview(forms[field][: len(forms[field]) // 2])}))


def test_ranks_without_samples_are_told_of(tmp_path, store):
    (tmp_path / "empty" / "a").mkdir(parents=True)
    with pytest.raises(millrace.InvalidError, match="no samples"):
        pls.ImageFolder(str(tmp_path / "empty"))
    store.least = 0
    with pytest.raises(millrace.InvalidError, match="even=False"):
        pls.LocalSampler(store)
    assert len(pls.LocalSampler(store, even=False)) == 100


def test_a_sampler_that_was_left_begins_again(store):
    sampler = pls.LocalSampler(store)
    for place, _ in enumerate(sampler):
        if place == 5:
            break
    assert sampler.state_dict()["start"] == 6
    assert sorted(sampler) == list(range(100))


def test_what_makes_no_sense_is_refused_by_name(store):
    for options, name in (({"seed": -1}, "seed"), ({"fraction": None}, "fraction"), ({"partners": 2.5}, "partners")):
        with pytest.raises(millrace.Error, match=name):
            pls.PartialShuffle(store, **options)
    with pytest.raises(IndexError):
        store[-101]
    shuffle = pls.PartialShuffle(store)
    shuffle.begin()
    with pytest.raises(millrace.InvalidError, match="under way"):
        shuffle.begin()
    shuffle.commit()
