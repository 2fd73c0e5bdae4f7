"""kill -9 at the steps of an exchange, on every rank: started again, it goes on and every sample is there, once.

Of four ranks each is killed at every third step, of eight at every eighth; ranks begin at different steps, so that each
step is met by some rank. `./dev crash` sets MILLRACE_EVERY_STEP: four ranks at every step, eight at every fourth."""
import os

import pytest

from conftest import mpirun, stat, verify

pytestmark = pytest.mark.fault_points
LIMITS = ("--slack", "16KiB", "--piece", "32KiB")
# Small stores, so that samples are also moved together and those steps are passed too.
EXCHANGE = ("pls", "exchange", "{root}", "--q", "0.4", "--select", "random", *LIMITS)
MOST_STEPS = 200


def words(root, epochs, ranks):
    """Four ranks copy from each other, eight send everything."""
    return [word.format(root=root) for word in EXCHANGE] + ["--epochs", str(epochs)] + (["--apart"] if ranks == 8 else [])


def steps_of(ranks, rank, root):
    """The names of the fault points that a rank passes in an exchange that goes well."""
    ran = mpirun(ranks, *words(root, 1, ranks), only={rank: {"MILLRACE_TELL_FAULTS": "1"}})
    return [line.split("fault point ")[1].split()[1] for line in ran.err.splitlines() if "fault point " in line]


EVERY_STEP = bool(os.environ.get("MILLRACE_EVERY_STEP"))


@pytest.mark.parametrize("ranks, stride", [(4, 1), (8, 4)] if EVERY_STEP else [(4, 3), (8, 8)])
def test_a_kill_at_any_step_of_any_rank_loses_nothing(millrace, stores, ranks, stride):
    root = stores(ranks, samples=40 * ranks)
    before = stat(millrace, root)
    # The first epochs bring the stores to where samples have to be moved together.
    mpirun(ranks, *words(root, 2, ranks))
    seen = set()
    for victim in range(ranks):
        at = 0
        for at in range(1 + victim % stride, MOST_STEPS, stride):
            epoch = stat_epoch(millrace, root)
            ran = mpirun(ranks, *words(root, 1, ranks), only={victim: {"MILLRACE_CRASH_AT": str(at)}}, code=None)
            found = verify(millrace, root)
            assert found["faults"] == [], f"killed rank {victim} at step {at}"
            assert found["samples"] == 40 * ranks
            assert found["epoch"] in (epoch, epoch + 1)
            if ran.code == 0:
                break
        # It did get through all steps, and there were many.
        assert 12 < at < MOST_STEPS - stride
        seen |= set(steps_of(ranks, victim, root))
    after = stat(millrace, root)
    assert after["content_hash"] == before["content_hash"]
    assert {"exchange.recovered", "exchange.planned", "exchange.listed", "exchange.room", "exchange.arrived", "ledger.staged",
            "ledger.prepared", "exchange.all_prepared", "ledger.committed", "exchange.all_committed", "ledger.punched",
            "ledger.released"} <= seen


def test_a_kill_at_any_step_of_dealing_anew_loses_nothing(millrace, stores):
    root = stores(3, samples=90)
    before = stat(millrace, root)
    for ranks in (5, 2):  # more stores are made, then some are emptied and removed
        killed = 0
        for at in range(1, MOST_STEPS):
            ran = millrace("pls", "redeal", root, "--ranks", ranks, *LIMITS, env={"MILLRACE_CRASH_AT": str(at)}, code=None)
            found = verify(millrace, root)
            assert found["faults"] == [] and found["samples"] == 90, f"killed at step {at} on the way to {ranks} ranks"
            if ran.code == 0:
                break
            killed += 1
            millrace("pls", "redeal", root, "--ranks", ranks, *LIMITS)
            assert stat(millrace, root)["ranks"] == ranks
            millrace("pls", "redeal", root, "--ranks", 3, *LIMITS)
        assert 12 < killed < MOST_STEPS - 1
    after = stat(millrace, root)
    assert (after["ranks"], after["content_hash"]) == (2, before["content_hash"])


def stat_epoch(millrace, root):
    """As recovery will see it."""
    return verify(millrace, root)["epoch"]
