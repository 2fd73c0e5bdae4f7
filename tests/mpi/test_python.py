"""millrace.pls under mpirun: training loops with a torch DataLoader, the published interface, node pools, restarts."""
import json
import pathlib
import subprocess
import tempfile

import pytest

from conftest import HANG_SECONDS, MPIRUN, environment, stat, verify

HERE = pathlib.Path(__file__).resolve().parent


def start(ranks, script, *words, **more):
    return subprocess.run([*MPIRUN, "-n", str(ranks), "/usr/bin/python3", str(HERE / script), *map(str, words)], capture_output=True,
                          text=True, timeout=HANG_SECONDS, env=environment({"OMP_NUM_THREADS": "1", **more}))


def run(ranks, script, *words):
    with tempfile.TemporaryDirectory() as found:
        done = start(ranks, script, *words, FOUND=found)
        assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-1000:]
        return [json.loads(pathlib.Path(found, f"{rank}.json").read_text()) for rank in range(ranks)]


@pytest.fixture
def source(tmp_path, millrace):
    """160 samples in label order, in shards."""
    for number in range(160):
        folder = tmp_path / "files" / f"c{number // 32}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:04}.txt").write_text(f"{number}:" + "x" * (number * 31 % 700))
    millrace("shard", tmp_path / "files", "--classes", tmp_path / "classes.txt", "-o", tmp_path / "s-%03d.tar", "--max-samples", "50")
    return str(tmp_path / "s-*.tar")


@pytest.mark.parametrize("ranks, workers, select", [(2, 0, "oldest"), (4, 0, "random"), (2, 2, "oldest"), (3, 0, "callback")])
def test_every_epoch_is_each_ranks_samples_and_all_of_them_once(tmp_path, millrace, source, ranks, workers, select):
    found = run(ranks, "train_loop.py", source, tmp_path / "stores", "--workers", workers, "--select", select)
    assert len(found) == ranks
    each = 160 // ranks
    for epoch in range(3):
        seen = [number for one in found for number in one["epochs"][epoch]]
        assert len(seen) == len(set(seen)) == each * ranks  # persistent workers follow the store, too
    moved = set(found[0]["epochs"][2]) - set(found[0]["epochs"][0])
    assert moved, "nothing was exchanged"
    assert sorted(number for one in found for number in one["held"]) == list(range(160))
    for one in found:
        assert one["engine"] == one["held"]  # the loader of the engine reads the same samples
        assert one["state"]["epoch"] == 3 and one["stats"]["samples_sent"] > 0
    assert verify(millrace, tmp_path / "stores")["faults"] == []


def test_a_trainer_that_fails_drops_the_exchange_and_a_restart_goes_on(tmp_path, millrace, source):
    found = run(2, "train_loop.py", source, tmp_path / "stores", "--fail-in", "1")
    assert [len(one["epochs"]) for one in found] == [1, 1]
    assert stat(millrace, tmp_path / "stores")["epoch"] == 1
    found = run(2, "train_loop.py", source, tmp_path / "stores")
    assert [len(one["epochs"]) for one in found] == [2, 2]
    assert stat(millrace, tmp_path / "stores")["epoch"] == 3


@pytest.mark.parametrize("ranks, node", [(3, 0), (4, 2)])
def test_one_trainer_that_fails_drops_the_exchange_of_all(tmp_path, millrace, source, ranks, node):
    found = run(ranks, "train_loop.py", source, tmp_path / "stores", "--fail-in", "1", "--fail-rank", "1", "--node", node)
    assert [len(one["epochs"]) for one in found] == [1] * ranks
    assert "the trainer fails" in found[1]["failure"] and all(one["failure"] for one in found)
    assert stat(millrace, tmp_path / "stores")["epoch"] == 1
    found = run(ranks, "train_loop.py", source, tmp_path / "stores", "--node", node)
    assert [len(one["epochs"]) for one in found] == [2] * ranks
    assert verify(millrace, tmp_path / "stores")["faults"] == []


def test_another_number_of_ranks_resumes(tmp_path, millrace, source):
    before = run(4, "train_loop.py", source, tmp_path / "stores", "--epochs", "1")[0]["digest"]
    refused = start(2, "train_loop.py", source, tmp_path / "stores", "--epochs", "4")
    assert refused.returncode != 0 and "dealt to 4 ranks, and this is rank 0 of 2" in refused.stderr and "redeal=True" in refused.stderr
    assert stat(millrace, tmp_path / "stores")["ranks"] == 4
    after = run(2, "train_loop.py", source, tmp_path / "stores", "--epochs", "4", "--redeal")
    found = stat(millrace, tmp_path / "stores")
    assert (found["ranks"], found["epoch"]) == (2, 4)
    assert [len(one["epochs"]) for one in after] == [3, 3]  # dealing anew was no epoch
    assert after[0]["digest"]["contents"] == before["contents"]
    assert sorted(number for one in after for number in one["held"]) == list(range(160))


def test_what_unequal_ranks_leave_out_is_told(tmp_path, source):
    """Four shards of 50, 50, 50 and 10 samples on three ranks: 60, 50 and 50 of them."""
    with tempfile.TemporaryDirectory() as found:
        done = start(3, "train_loop.py", source, tmp_path / "stores", "--partition", "by-shard", "--epochs", "1", FOUND=found)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("ranks hold 50 to 60 samples: an epoch takes 50 of each, 150 of 160 in all") == 1


def test_ranks_of_a_node_share_a_store_and_only_nodes_exchange(tmp_path, millrace, source):
    found = run(4, "train_loop.py", source, tmp_path / "stores", "--node", "2")
    assert stat(millrace, tmp_path / "stores")["ranks"] == 2
    assert found[0]["held"] == found[1]["held"] and found[2]["held"] == found[3]["held"]
    for epoch in range(3):
        seen = [number for one in found for number in one["epochs"][epoch]]
        assert len(seen) == len(set(seen)) == 160
    # Inside a node the deal is new every epoch, also for samples that stayed.
    assert set(found[0]["epochs"][0]) != set(found[0]["epochs"][1])
    sent = [one["stats"].get("samples_sent") for one in found]
    assert sent == [60, None, 60, None]


@pytest.fixture
def images(tmp_path):
    """Directories of classes, one for each of two ranks; the second lacks a class."""
    from PIL import Image
    for rank in range(2):
        for label in range(5 - rank):
            folder = tmp_path / f"part{rank}" / f"n{label}"
            folder.mkdir(parents=True)
            for number in range(6 + rank):
                Image.new("RGB", (8, 8), (label * 40 + 5, number, rank)).save(folder / f"{number}.png")
    (tmp_path / "class_to_idx.txt").write_text("".join(f"n{label}\t{label}\n" for label in range(5)))
    return tmp_path


@pytest.mark.parametrize("ranks, directory, samples, least", [
    (2, "part{rank}", 30 + 28, 28), (2, "part0", 30, 15),
    (4, "part{node}", 30 + 28, 14)])  # two ranks of a node see its directory
def test_the_published_loop_runs_unchanged(images, millrace, ranks, directory, samples, least):
    for epochs in (2, 4):  # the second run finds the store of the first and goes on
        found = run(ranks, "train_published.py", images / directory, images / "class_to_idx.txt", epochs)
        assert [one["epoch"] for one in found] == [epochs] * ranks
        assert sorted(number for one in found for number in one["ids"]) == list(range(samples))
        assert found[1]["classes"] == [f"n{label}" for label in range(5)]
        assert all(one["seen"] == [least] * epochs for one in found), found
    assert found[0]["digest"]["samples"] == samples


def test_ranks_without_a_class_file_agree_on_the_classes(images):
    found = run(2, "train_published.py", images / "part{rank}", "", 1)
    assert found[0]["classes"] == found[1]["classes"] == [f"n{label}" for label in range(5)]


def test_a_rank_that_ends_in_the_middle_of_an_epoch_ends_all(images, millrace):
    for how, told in (("raise", "the trainer fails"), ("exit", "rank 1 ended")):
        done = start(2, "train_published.py", images / "part0", images / "class_to_idx.txt", 3, END_RANK_1=how)
        assert done.returncode != 0
        assert told in done.stderr and "rank 1 ended before its exchange was committed" in done.stderr
    assert verify(millrace, images / "part0.pls")["faults"] == []
    found = run(2, "train_published.py", images / "part0", images / "class_to_idx.txt", 3)
    assert [one["epoch"] for one in found] == [3, 3]
