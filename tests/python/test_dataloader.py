"""Data sets behind torch: tensors, and DataLoaders with and without worker processes."""
import copy
import json
import os
import pickle
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")

import millrace  # noqa: E402
from millrace import Dataset  # noqa: E402
from millrace.torch_bridge import Passes, as_iterable, as_map  # noqa: E402
from numbered_shards import SAMPLES, all_of  # noqa: E402
from numbered_shards import labels, urls  # noqa: E402, F401: fixtures

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

# Ends a test that hangs; no result depends on it.
HANG_SECONDS = 60
WORKERS = [dict(num_workers=0), dict(num_workers=2), dict(num_workers=2, persistent_workers=True)]


def loader_of(dataset, **options):
    return torch.utils.data.DataLoader(dataset, batch_size=None, **options)


def by_workers(options):
    return "persistent" if options.get("persistent_workers") else str(options["num_workers"])


def test_tensors_share_the_memory(urls):
    ds = Dataset(urls).image("png", size=16, normalize="half", layout="CHW").label("cls").batch(8).torch()
    images, labels = next(ds.epoch(0))
    assert images.shape == (8, 3, 16, 16) and images.dtype == torch.float32 and labels.tolist() == list(range(8))
    array = next(Dataset(urls).image("png", size=16).batch(8).epoch(0))
    assert torch.from_dlpack(array).data_ptr() == array.ctypes.data


def test_padded_and_ragged_columns_are_tuples_of_tensors(urls):
    ds = Dataset(urls).array("tokens.npy", pad=-1).ragged("raw").batch(4).torch()
    (tokens, shapes), (memory, places) = next(ds.epoch(0))
    assert all(isinstance(one, torch.Tensor) for one in (tokens, shapes, memory, places))
    assert tokens[1].tolist() == [0, 1, -1, -1] and shapes.tolist() == [[1], [2], [3], [4]]
    offset, size = places[3].tolist()
    assert memory[offset:offset + size].tolist() == [3] * 3


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_dataloader_gives_every_sample_once(labels, workers):
    loader = loader_of(as_iterable(labels), num_workers=workers)
    for epoch in range(2):
        loader.dataset.set_epoch(epoch)
        assert all_of(loader) == all_of(labels.epoch(epoch))


@pytest.mark.parametrize("options", WORKERS, ids=by_workers)
def test_every_iteration_over_a_dataloader_is_the_next_epoch(labels, options):
    loader = loader_of(as_iterable(labels), **options)
    for epoch in range(3):
        assert all_of(loader) == all_of(labels.epoch(epoch))


@pytest.mark.parametrize("options", WORKERS, ids=by_workers)
def test_an_epoch_can_be_chosen_and_the_following_ones_follow(labels, options):
    loader = loader_of(as_iterable(labels), **options)
    all_of(loader)
    loader.dataset.set_epoch(7)
    assert all_of(loader) == all_of(labels.epoch(7))
    assert all_of(loader) == all_of(labels.epoch(8))


@pytest.mark.parametrize("options", WORKERS, ids=by_workers)
def test_an_iteration_that_is_broken_off_counts_as_an_epoch(labels, options):
    loader = loader_of(as_iterable(labels), **options)
    for _ in loader:
        break
    assert all_of(loader) == all_of(labels.epoch(1))


def test_loaders_with_other_numbers_of_workers_go_on_with_the_epochs(labels):
    batches = as_iterable(labels)
    for epoch, workers in enumerate([2, 0, 3, 2, 1]):
        assert all_of(loader_of(batches, num_workers=workers)) == all_of(labels.epoch(epoch))


def test_workers_that_are_not_forked_know_the_epoch_too(labels):
    loader = loader_of(as_iterable(labels), num_workers=1, multiprocessing_context="spawn")
    for epoch in range(2):
        assert all_of(loader) == all_of(labels.epoch(epoch))


@pytest.mark.parametrize("make_copy", [copy.deepcopy, lambda batches: pickle.loads(pickle.dumps(batches))], ids=["copied", "pickled"])
def test_a_copy_counts_its_own_epochs(labels, make_copy):
    batches = as_iterable(labels)
    all_of(loader_of(batches, num_workers=1))
    other = make_copy(batches)
    assert all_of(loader_of(other, num_workers=1)) == all_of(loader_of(batches, num_workers=1)) == all_of(labels.epoch(1))
    assert all_of(loader_of(other, num_workers=1)) == all_of(labels.epoch(2))


def test_too_many_workers_are_refused(labels):
    with pytest.raises(millrace.InvalidError, match="128 workers"):
        Passes().begin(0, 129)


def test_a_state_is_that_of_the_batches_a_dataloader_gave(labels):
    first = as_iterable(labels)
    batches = iter(loader_of(first))
    whole = [next(batches).tolist() for _ in range(3)]
    state = first.state_dict()
    assert (state["epoch"], state["batch"]) == (0, 3)
    for options in WORKERS:
        other = as_iterable(labels)
        other.load_state_dict(state)
        loader = loader_of(other, **options)
        assert whole + all_of(loader) == all_of(labels.epoch(0))
        assert all_of(loader) == all_of(labels.epoch(1))


@pytest.mark.parametrize("options", WORKERS, ids=by_workers)
def test_views_of_a_data_set_share_its_position(labels, options):
    reference = labels.batch(32)
    assert all_of(labels.torch()) == all_of(reference.epoch(0))
    assert "8 batches" in labels.report() and labels.state_dict()["epoch"] == 1
    loader = loader_of(as_iterable(labels), **options)
    assert all_of(loader) == all_of(reference.epoch(1))
    assert all_of(loader_of(as_iterable(labels))) == all_of(reference.epoch(2))
    assert all_of(labels) == all_of(reference.epoch(3))
    assert all_of(loader) == all_of(reference.epoch(4))


def test_a_state_goes_on_in_a_new_process_whichever_view_it_came_from(urls, labels):
    """The position is a few numbers: another process that loads them has the batches that were not given."""
    whole = all_of(labels.epoch(0))
    for view in (lambda ds: ds, Dataset.torch, lambda ds: loader_of(as_iterable(ds))):
        ds = labels.shuffle(window=60)
        ds.load_state_dict({**ds.state_dict(), "epoch": 0, "batch": 0})
        for number, batch in enumerate(view(ds), 1):
            if number == 3:
                break
        state = ds.state_dict()
        program = ("import json, sys; from millrace import Dataset\n"
                   "ds = Dataset(sys.argv[1], seed=3).shuffle(window=60).label('cls').batch(32)\n"
                   "ds.load_state_dict(json.loads(sys.argv[2])); print([batch.tolist() for batch in ds])")
        done = subprocess.run([sys.executable, "-c", program, urls, json.dumps(state)], check=True, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, timeout=HANG_SECONDS)
        assert json.loads(done.stdout) == whole[3:]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_that_would_stack_batches_is_refused(labels, workers):
    loader = torch.utils.data.DataLoader(as_iterable(labels), batch_size=32, num_workers=workers)
    with pytest.raises(millrace.InvalidError, match=r"DataLoader\(as_iterable\(ds\), batch_size=None\)"):
        next(iter(loader))


def test_behind_worker_processes_the_state_is_not_known(labels):
    batches = as_iterable(labels)
    for _ in loader_of(batches, num_workers=1):
        break
    with pytest.raises(millrace.UnsupportedError, match="worker processes run ahead.*num_workers=0"):
        batches.state_dict()
    with pytest.raises(millrace.UnsupportedError, match="worker processes run ahead"):
        labels.state_dict()
    batches.set_epoch(3)
    assert (batches.state_dict()["epoch"], batches.state_dict()["batch"]) == (3, 0)


def test_a_map_style_dataset_for_samplers(urls):
    ds = as_map(Dataset(urls).label("cls").batch(1))
    loader = torch.utils.data.DataLoader(ds, batch_size=10, shuffle=True, num_workers=2)
    assert sorted(int(label) for batch in loader for label in batch) == list(range(SAMPLES))


@pytest.mark.parametrize("options", [dict(batch_size=4, shuffle=True), dict(batch_size=None), dict(batch_size=4, num_workers=1)])
def test_a_dataloader_does_not_take_batches_for_samples(labels, options):
    with pytest.raises(millrace.InvalidError, match=r"as_iterable\(ds\).*as_map\(ds\)"):
        list(torch.utils.data.DataLoader(labels, **options))
    half, _ = torch.utils.data.random_split(labels, [4, 4])
    with pytest.raises(millrace.InvalidError, match=r"as_map\(ds\)"):
        half[0]


def test_a_dataloader_takes_a_data_set_of_single_samples_as_it_is(urls):
    loader = torch.utils.data.DataLoader(Dataset(urls).label("cls"), batch_size=50)
    assert sum(all_of(loader), []) == list(range(SAMPLES))


def test_a_worker_that_comes_late_begins_with_the_others_whatever_was_begun_meanwhile():
    passes = Passes()
    passes.restart(4, 2)
    assert passes.begin(0, 3) == (4, 2)
    assert passes.begin(0, 0) == (5, 0)
    assert passes.begin(2, 3) == (4, 2)
    passes.restart(9, 1)
    assert passes.begin(1, 3) == (4, 2) and passes.upcoming == (9, 1)
    assert [passes.begin(worker, 3) for worker in (1, 0, 2)] == [(9, 1)] * 3
    assert passes.begin(0, 0) == (10, 0) and passes.upcoming == (11, 0)


def test_workers_that_begin_at_the_same_moment_agree_on_the_epoch():
    """Threads in place of processes: they meet at every pass, and give way to each other between any two steps."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    passes, together, seen = Passes(), threading.Barrier(4), [[] for _ in range(4)]

    def work(worker):
        for _ in range(300):
            together.wait(HANG_SECONDS)
            seen[worker].append(passes.begin(worker, 4)[0])
    try:
        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert seen == [list(range(300))] * 4
