"""The training example, killed and resumed, gives the losses of a run that nobody disturbed, to the last digit."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

import millrace

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "scenarios"))
from nodes import Node, free_port  # noqa: E402

HANG_SECONDS = 120
WORLD = 2
STEP = re.compile(r"step (\d+) loss (\S+)\n")

pytest.importorskip("torch")
if not pathlib.Path("/usr/share/datasets/fashion-mnist").is_dir():
    pytest.skip("needs dataset-fashion-mnist", allow_module_level=True)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """The 10 000 test images in a running store: enough to learn from, and quick."""
    directory = tmp_path_factory.mktemp("training")
    with Node(directory) as node:
        stream = subprocess.run([ROOT / "examples/fashion_mnist.py", "test"], check=True, capture_output=True).stdout
        subprocess.run([node.program, "shard", "-", "--max-samples", "3000", "-o", f"{node.url}/train/f-%06d.tar"],
                       input=stream, check=True, capture_output=True)
        yield f"{node.url}/train/f-{{000000..000003}}.tar"


class Run:
    """All ranks of one run; the first one's losses as they come."""

    def __init__(self, shards, *flags):
        environment = {**os.environ, "WORLD_SIZE": str(WORLD), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                       "PYTHONPATH": os.path.dirname(os.path.dirname(millrace.__file__))}
        self.ranks = [subprocess.Popen([sys.executable, ROOT / "examples/train_fashion_mnist.py", shards, *flags],
                                       env={**environment, "RANK": str(rank)}, text=True,
                                       stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, stderr=subprocess.PIPE)
                      for rank in range(WORLD)]
        self.said = []

    def losses(self):
        for line in self.ranks[0].stdout:
            self.said.append(line)
            if found := STEP.fullmatch(line):
                yield int(found[1]), found[2]

    def finish(self):
        found = dict(self.losses())
        for rank in self.ranks:
            errors = rank.communicate(timeout=HANG_SECONDS)[1]
            assert rank.returncode == 0, errors[-3000:]
        return found

    def kill(self):
        for rank in self.ranks:
            rank.kill()
        for rank in self.ranks:
            rank.communicate(timeout=HANG_SECONDS)


def test_a_killed_run_goes_on_with_the_losses_of_an_undisturbed_one(shards, tmp_path):
    undisturbed = Run(shards)
    losses = undisturbed.finish()
    steps = len(losses)
    assert list(losses) == list(range(1, steps + 1)) and steps == 2 * (10_000 // 128)
    first, last = ([float(losses[step]) for step in part] for part in (range(1, 11), range(steps - 9, steps + 1)))
    assert sum(last) < 0.5 * sum(first)
    assert any(line.startswith("limit: ") for line in undisturbed.said)

    # Killed in the first epoch, in the second, and the third time left alone.
    state, begun_at, seen = tmp_path / "run.pt", [], {}
    for kill_at in (37, 111, None):
        run = Run(shards, "--state", str(state), "--save-every", "20")
        for step, loss in run.losses():
            begun_at += [step] if not run.said[:-1] or "step" not in run.said[-2] or run.said[-2].startswith("going") else []
            assert seen.setdefault(step, loss) == loss
            if step == kill_at:
                run.kill()
                break
        else:
            run.finish()
    assert begun_at == [1, 21, 101]
    assert seen == losses
