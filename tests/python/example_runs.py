"""Runs of the two example programs, with either library."""
import os
import pathlib
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

RUNS = {
    "clip": ["clip_data.py", "--epochs", "2"],
    "clip with workers": ["clip_data.py", "--workers", "2", "--epochs", "2", "--batch-size", "2"],
    "imagenet": ["imagenet_data.py", "--batches", "3"],
}


def run(python, library, words, shards):
    """The batches that were printed, a line each."""
    script, *options = words
    path = os.pathsep.join(sys.path) if str(python) == sys.executable else ""
    done = subprocess.run([python, REPOSITORY / "examples" / script, str(shards / "good-{000..002}.tar"), "--library", library, *options],
                          capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if not line.startswith("#")]
