"""The package under test, built (build/python), and the corpus of shards."""
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
sys.path[:0] = [str(HERE), str(REPOSITORY / "tests" / "scenarios")]
if "millrace" not in sys.modules and not any((pathlib.Path(path) / "millrace").is_dir() for path in sys.path if path):
    sys.path.insert(0, str(REPOSITORY / "build" / "python"))

import corpus  # noqa: E402

# Ends a test whose program hangs; no result depends on how long anything takes.
HANG_SECONDS = 300


def binary():
    """For tests/scenarios/nodes.py, which starts the store."""
    return os.path.join(REPOSITORY, os.environ.get("MILLRACE", "build/release/millrace"))


@pytest.fixture(scope="session")
def shards(tmp_path_factory):
    return corpus.build(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("WDS_", "MILLRACE_ALLOW_", "GOPEN_")) or name in ("RANK", "WORLD_SIZE", "WORKER", "NUM_WORKERS"):
            monkeypatch.delenv(name)
