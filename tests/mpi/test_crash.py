"""kill -9 at every step of an exchange, on every rank: started again, it goes on and every sample is there, once."""
import pytest

from conftest import mpirun, stat, verify

pytestmark = pytest.mark.fault_points
LIMITS = ("--slack", "16KiB", "--piece", "32KiB")
# Small stores, so that samples are also moved together and those steps are passed too.
EXCHANGE = ("pls", "exchange", "{root}", "--q", "0.4", "--select", "random", *LIMITS)
MOST_STEPS = 200


def words(root, epochs):
    return [word.format(root=root) for word in EXCHANGE] + ["--epochs", str(epochs)]


def steps_of(ranks, rank, root):
    """The names of the fault points that a rank passes in an exchange that goes well."""
    ran = mpirun(ranks, *words(root, 1), only={rank: {"MILLRACE_TELL_FAULTS": "1"}})
    return [line.split("fault point ")[1].split()[1] for line in ran.err.splitlines() if "fault point " in line]


@pytest.mark.parametrize("ranks, victims", [(4, (0, 1, 2, 3)), (8, (0, 7))])
def test_a_kill_at_any_step_of_any_rank_loses_nothing(millrace, stores, ranks, victims):
    root = stores(ranks, samples=40 * ranks)
    before = stat(millrace, root)
    # The first epochs bring the stores to where samples have to be moved together.
    mpirun(ranks, *words(root, 2))
    seen = set()
    for victim in victims:
        at = 0
        for at in range(1, MOST_STEPS):
            epoch = stat_epoch(millrace, root)
            ran = mpirun(ranks, *words(root, 1), only={victim: {"MILLRACE_CRASH_AT": str(at)}}, code=None)
            found = verify(millrace, root)
            assert found["faults"] == [], f"killed rank {victim} at step {at}"
            assert found["samples"] == 40 * ranks
            assert found["epoch"] in (epoch, epoch + 1)
            if ran.code == 0:
                break
        # It did get through all steps, and there were many.
        assert 12 < at < MOST_STEPS - 1
        seen |= set(steps_of(ranks, victim, root))
    after = stat(millrace, root)
    assert after["content_hash"] == before["content_hash"]
    assert {"exchange.recovered", "exchange.planned", "exchange.listed", "exchange.room", "exchange.arrived", "ledger.staged",
            "ledger.prepared", "exchange.all_prepared", "ledger.committed", "exchange.all_committed", "ledger.punched",
            "ledger.released"} <= seen


def stat_epoch(millrace, root):
    """As recovery will see it."""
    return verify(millrace, root)["epoch"]
