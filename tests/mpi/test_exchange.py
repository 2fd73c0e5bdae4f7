"""Exchanges between real ranks: equal to the simulation, nothing lost, storage bounded, failures named."""
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from conftest import HANG_SECONDS, MPIRUN, binary, command_of, environment, mpirun, needs_root, stat, verify

LIMITS = ("--slack", "64KiB", "--piece", "64KiB")


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("words", [("--q", "0.25"), ("--q", "0.3", "--select", "label-aware"), ("--q", "0.3", "--policy", "paper"),
                                   ("--q", "auto:0.3")])
def test_owners_are_those_of_the_simulation_after_every_epoch(millrace, stores, ranks, words):
    root = stores(ranks)
    before = stat(millrace, root)
    simulated = millrace.json("pls", "simulate", root, *words, "--epochs", "5")
    # Ranks of one machine copy from each other; with four it is all sent.
    how = ("--apart",) if ranks == 4 else ()
    ran = mpirun(ranks, "--json", "pls", "exchange", root, *words, "--epochs", "5", *LIMITS, *how)
    assert [row["owner_hash"] for row in ran.rows] == [row["owner_hash"] for row in simulated]
    assert {row["content_hash"] for row in ran.rows} == {before["content_hash"]}
    assert {row["samples"] for row in ran.rows} == {400}
    assert verify(millrace, root)["faults"] == []
    assert simulated[0]["moved"] > 0


def test_storage_never_exceeds_what_is_held_and_arrives_and_a_constant(millrace, stores):
    root = stores(4, samples=800, size=9000)
    ran = mpirun(4, "--json", "pls", "exchange", root, "--q", "0.25", "--select", "random", "--epochs", "10", *LIMITS)
    for row in ran.rows:
        # Samples differ in size by a hundredth; slack and piece are 64 KiB, and files end with their page.
        assert row["peak_bytes"] <= 1.25 * 1.02 * row["live_bytes"] + (128 << 10) + 300 * 4096


def test_every_rank_takes_in_its_own_part(tmp_path, millrace, stores):
    source = tmp_path / "data"
    for label in range(3):
        (source / f"c{label}").mkdir(parents=True)
        for number in range(20):
            (source / f"c{label}" / f"{number}.txt").write_text(f"{label} {number}")
    mpirun(4, "pls", "ingest", source, "-o", tmp_path / "by-ranks", "--partition", "random", "--seed", "3")
    millrace("pls", "ingest", source, "-o", tmp_path / "alone", "--ranks", "4", "--partition", "random", "--seed", "3")
    assert stat(millrace, tmp_path / "by-ranks") == stat(millrace, tmp_path / "alone")
    assert verify(millrace, tmp_path / "by-ranks")["samples"] == 60


def test_another_number_of_ranks_goes_on(millrace, stores):
    root = stores(4)
    before = stat(millrace, root)
    mpirun(4, "pls", "exchange", root, "--q", "0.3", "--epochs", "2")
    wrong = mpirun(3, "pls", "exchange", root, code=None)
    assert wrong.code != 0 and "millrace pls redeal" in wrong.err
    for ranks in (3, 6):
        millrace("pls", "redeal", root, "--ranks", ranks)
        mpirun(ranks, "pls", "exchange", root, "--q", "0.3", "--epochs", "2")
        after = stat(millrace, root)
        assert after["ranks"] == ranks and after["content_hash"] == before["content_hash"]
        assert max(one["samples"] for one in after["per_rank"]) - min(one["samples"] for one in after["per_rank"]) <= 1
        assert verify(millrace, root)["faults"] == []


def test_samples_are_dealt_anew_only_if_asked_to(millrace, stores):
    root = stores(4)
    refused = mpirun(3, "pls", "exchange", root, code=None)
    assert refused.code != 0 and "--redeal" in refused.err and stat(millrace, root)["ranks"] == 4
    mpirun(3, "pls", "exchange", root, "--redeal", "--q", "0.3")
    assert stat(millrace, root)["ranks"] == 3 and verify(millrace, root)["faults"] == []
    alone = millrace("pls", "exchange", root, "--redeal", code=2)
    assert "millrace pls redeal --ranks" in alone.err


def test_counts_are_those_of_the_epoch(millrace, stores):
    ran = mpirun(2, "--json", "pls", "exchange", stores(2), "--q", "0.25", "--epochs", "3")
    assert [row["samples_sent"] for row in ran.rows] == [50, 50, 50] and len({row["messages"] for row in ran.rows}) == 1


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """As `cmake --install` leaves it: bin/millrace and lib/millrace/."""
    build = pathlib.Path(binary()).resolve().parent
    if not (build / "cmake_install.cmake").exists():
        pytest.skip("the binary is not in its build directory")
    prefix = tmp_path_factory.mktemp("installed")
    subprocess.run(["cmake", "--install", str(build), "--prefix", str(prefix)], check=True, capture_output=True)
    return prefix


@pytest.mark.parametrize("by", ["PATH", "absolute path", "symlink", "relative path", "symlink on the PATH"])
def test_an_installed_binary_finds_mpi(installed, tmp_path, millrace, stores, by):
    root = stores(2, samples=40)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "linked").symlink_to(installed / "bin" / "millrace")
    word = {"PATH": "millrace", "absolute path": str(installed / "bin" / "millrace"), "symlink": str(tmp_path / "bin" / "linked"),
            "relative path": "../bin/millrace", "symlink on the PATH": "linked"}[by]
    path = os.pathsep.join([str(installed / "bin"), str(tmp_path / "bin"), os.environ["PATH"]])
    subprocess.run([*MPIRUN, "-n", "2", word, "pls", "exchange", str(root), "--q", "0.5"], check=True, capture_output=True,
                   timeout=HANG_SECONDS, cwd=installed / "lib", env=environment({"PATH": path}))
    assert stat(millrace, root)["epoch"] == 1


def test_stores_on_drives_of_their_own_are_exchanged(tmp_path, millrace, stores):
    root = stores(2)
    before = stat(millrace, root)
    for rank in range(2):
        (tmp_path / f"drive{rank}").mkdir()
        shutil.move(root / f"rank-0000{rank}", tmp_path / f"drive{rank}")
    words = [[binary(), "pls", "exchange", str(tmp_path / f"drive{rank}"), "--q", "0.5"] for rank in range(2)]
    subprocess.run([*MPIRUN, "-n", "1", *words[0], ":", "-n", "1", *words[1]], check=True, capture_output=True, timeout=HANG_SECONDS,
                   env=environment())
    # One of them alone would leave the other behind.
    alone = millrace("pls", "exchange", tmp_path / "drive0", code=2)
    assert "1 ranks hold 200 of 400 samples: not all stores are here" in alone.err
    for rank in range(2):
        shutil.move(tmp_path / f"drive{rank}" / f"rank-0000{rank}", root)
    assert stat(millrace, root)["content_hash"] == before["content_hash"] and verify(millrace, root)["faults"] == []


def test_dealing_anew_is_for_one_process(millrace, stores):
    root = stores(3)
    refused = mpirun(2, "pls", "redeal", root, "--ranks", "5", code=None)
    assert refused.code != 0 and "one process deals the samples of all ranks anew" in refused.err
    assert stat(millrace, root)["ranks"] == 3 and verify(millrace, root)["faults"] == []


def test_a_flipped_bit_is_named_by_all_and_nothing_changes(millrace, stores):
    root = stores(3)
    segment = sorted((root / "rank-00001").glob("segment-*.tar"))[0]
    data = bytearray(segment.read_bytes())
    data[700] ^= 1
    segment.write_bytes(data)
    found = verify_with_faults(millrace, root)
    assert len(found) == 1 and segment.name in found[0] and "rank 1" in found[0]
    ran = mpirun(3, "pls", "exchange", root, "--q", "1", code=1)
    assert ran.err.count(f"rank 1: {root}/rank-00001/{segment.name}") == 3
    assert stat(millrace, root)["epoch"] == 0


def verify_with_faults(millrace, root):
    return millrace.json("-q", "pls", "verify", root, code=1)[0]["faults"]


def test_a_torn_manifest_of_the_next_epoch_is_dropped_and_one_of_this_epoch_named(millrace, stores):
    root = stores(2)
    before = stat(millrace, root)
    current = next((root / "rank-00000").glob("manifest.*"))
    whole = current.read_bytes()
    (root / "rank-00000" / "manifest.00000001.0").write_bytes(whole[: len(whole) // 2])
    mpirun(2, "pls", "exchange", root, "--q", "0.2")
    assert stat(millrace, root)["content_hash"] == before["content_hash"]
    current = next((root / "rank-00000").glob("manifest.*"))
    current.write_bytes(current.read_bytes()[:-9])
    ran = mpirun(2, "pls", "exchange", root, "--q", "0.2", code=1)
    assert ran.err.count(current.name) == 2 and "damaged" in ran.err


@needs_root()
def test_a_full_drive_is_a_clean_error_on_all_ranks_and_loses_nothing(tmp_path, millrace, stores):
    from volumes import Volume
    root = stores(3, samples=600, size=9000)
    before = stat(millrace, root)
    with Volume(tmp_path / "small", 16 << 20, "mkfs.ext4", "-q", "-F") as volume:
        shutil.move(root / "rank-00001", volume.path / "rank")
        os.symlink(volume.path / "rank", root / "rank-00001")
        volume.leave(300_000)
        ran = mpirun(3, "pls", "exchange", root, "--q", "0.9", code=1)
        assert ran.err.count("No space left on device") == 3 and "rank 1" in ran.err
        after = stat(millrace, root)
        assert (after["epoch"], after["owner_hash"], after["content_hash"]) == (0, before["owner_hash"], before["content_hash"])
        assert verify(millrace, root)["samples"] == 600
        for ballast in volume.path.glob("ballast-*"):
            ballast.unlink()
        mpirun(3, "pls", "exchange", root, "--q", "0.9")
        assert stat(millrace, root)["content_hash"] == before["content_hash"]


def children_of(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_rank_that_stalls_is_named(millrace, stores):
    root = stores(3)
    ranks = subprocess.Popen(command_of(3, ("pls", "exchange", root, "--q", "0.2", "--epochs", "100000", "--timeout", "2")),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    try:
        while "epoch 3" not in (line := ranks.stdout.readline()):
            assert line, ranks.stderr.read()
        stopped = [pid for pid in children_of(ranks.pid)
                   if b"OMPI_COMM_WORLD_RANK=2\0" in pathlib.Path(f"/proc/{pid}/environ").read_bytes()]
        assert len(stopped) == 1
        os.kill(stopped[0], signal.SIGSTOP)
        _, err = ranks.communicate(timeout=HANG_SECONDS)
    finally:
        ranks.kill()
    assert ranks.returncode != 0
    assert "rank 2 did not answer within 2.0 s" in err or "waiting for rank 2" in err, err
    assert verify(millrace, root)["faults"] == []


def test_kills_at_random_moments_lose_nothing(millrace, stores):
    """Without fault points: whatever a release build does at the moment."""
    import random
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}")
    dice = random.Random(seed)
    root = stores(4)
    before = stat(millrace, root)
    for _ in range(12):
        ranks = subprocess.Popen(command_of(4, ("pls", "exchange", root, "--q", "0.3", "--epochs", "100000", *LIMITS)),
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment())
        for _ in range(dice.randrange(1, 6)):
            assert ranks.stdout.readline()
        for _ in range(dice.randrange(3000)):  # a moment inside the epoch
            pass
        victim = dice.choice(children_of(ranks.pid))
        os.kill(victim, signal.SIGKILL)
        ranks.stdout.close()
        ranks.wait(timeout=HANG_SECONDS)
        assert verify(millrace, root)["faults"] == []
    mpirun(4, "pls", "exchange", root, "--q", "0.3")
    assert stat(millrace, root)["content_hash"] == before["content_hash"]


def test_without_the_module_mpirun_gets_a_reason(millrace, stores):
    root = stores(2)
    done = subprocess.run([*MPIRUN, "-n", "2", "-x", "MILLRACE_MPI_MODULE=/nowhere/x.so", binary(), "pls", "exchange", str(root)],
                          capture_output=True, text=True, env=environment(), timeout=HANG_SECONDS)
    assert done.returncode != 0 and "/nowhere/x.so is not there" in done.stderr
    # And without mpirun nothing needs it.
    millrace("pls", "exchange", root, env={"MILLRACE_MPI_MODULE": "/nowhere/x.so"})


def test_the_binary_is_not_linked_against_mpi():
    linked = subprocess.run(["ldd", binary()], capture_output=True, text=True, check=True).stdout
    assert "libmpi" not in linked
