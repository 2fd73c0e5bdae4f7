"""kill -9 at random moments under 16 writers: what was acknowledged is there, whole; nothing deleted comes back (D1, A1)."""
import os
import random
import time

from nodes import Node
from payload import History
from workload import Writers, audit

KILLS = 15


def test_kill_at_random_moments(tmp_path):
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 30))
    rng = random.Random(seed)
    print(f"SEED={seed}")
    history = History()
    totals = {"verified": 0, "lost": 0, "torn": 0, "resurrected": 0}
    with Node(tmp_path, "--set", "cache=16MiB") as node:
        assert node.ask("PUT", "/crash").status == 200
        for number in range(KILLS):
            with Writers(node.port, "crash", history, seed + number):
                time.sleep(rng.uniform(0.1, 1.2))
                node.kill()
            node.start()
            found = audit(node, "crash", history)
            assert not found["faults"], (f"SEED={seed} kill {number}", found)
            for name in totals:
                totals[name] += found[name]
            listed = set(node.keys("crash"))
            there = {key for key, (_, size) in history.acked.items() if size > 0}
            assert listed == there, (f"SEED={seed} kill {number}", listed ^ there)
    print(f"kills={KILLS} acked={history.acks} " + " ".join(f"{name}={count}" for name, count in totals.items()))
    assert history.acks > 100 * KILLS / 10
