"""A short run of ./dev chaos: the harness works from end to end, and nothing is lost. The seed is printed; SEED=N repeats it."""
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

import raw_slices
from etcd import has_etcd
from schedule import make_schedule


SECONDS = 15
NODES = 4


def seed_with_faults(faults):
    """A few seeds have no fault that fits into so short a run."""
    names = [f"n{number}" for number in range(NODES)]
    while True:
        seed = random.SystemRandom().randrange(1 << 30)
        if make_schedule(seed, SECONDS, names, faults.split(","), 1):
            return seed


@pytest.mark.parametrize("registry, faults", [
    ("files", "kill,stop,partition,registry,slow,line"),
    pytest.param("etcd", "kill,stop,partition,registry,member,slow", marks=pytest.mark.skipif(not has_etcd(), reason="etcd is not installed"))])
def test_nothing_is_lost_in_a_short_run(registry, faults):
    seed = os.environ.get("SEED") or str(seed_with_faults(faults))
    done = subprocess.run([sys.executable, str(pathlib.Path(__file__).with_name("chaos.py")), "--json", "--minutes", str(SECONDS / 60), "--nodes", str(NODES),
                           "--registry", registry, "--faults", faults, "--clients", "6", "--seed", seed], stdout=subprocess.PIPE, timeout=600)
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told["violations"] == 0, told
    # The run did something, and all of it was looked at.
    assert told["acknowledged"]["get"] > 0 and told["keys"] > 0
    assert told["verified"] >= told["keys"] and (raw_slices.why_not() or told["raw_verified"] == told["verified"])
    assert sum(told["faults"].values()) > 0 or "loopback" in " ".join(told["notes"])
