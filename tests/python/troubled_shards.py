"""Shards behind a troubled server, and what must come of them: fixtures that tests import."""
import random
import signal

import pytest

import millrace
from millrace import Dataset
from troubled_server import Server

SHARDS, SAMPLES = 3, 40
NAMES = "s-{0..2}.tar"
# Ends a test that hangs; no result depends on it.
HANG_SECONDS = 100


@pytest.fixture(autouse=True)
def no_hang():
    def fail(*_):
        raise TimeoutError(f"still waiting after {HANG_SECONDS} s")
    signal.signal(signal.SIGALRM, fail)
    signal.alarm(HANG_SECONDS)
    yield
    signal.alarm(0)


@pytest.fixture(autouse=True)
def own_index_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))


def write_shards(directory, seed=1):
    noise = random.Random(seed)
    with millrace.ShardWriter(str(directory / "s-%d.tar"), max_samples=SAMPLES) as writer:
        for number in range(SHARDS * SAMPLES):
            writer.add(f"{number:04}", {"bin": noise.randbytes(20_000 + 100 * (number % 7)), "cls": str(number).encode()})


@pytest.fixture
def shards(tmp_path):
    directory = tmp_path / "shards"
    directory.mkdir()
    write_shards(directory)
    return directory


@pytest.fixture
def server(shards):
    with Server(shards) as running:
        yield running


def described(urls, **options):
    """Requests of some hundred kilobytes: several for each shard."""
    options = {"seed": 5, "memory": "4MiB", **options}
    return Dataset(urls, **options).shuffle(30).key().bytes("bin").label("cls").batch(16)


def samples(ds, epoch=0):
    return [(key, value, int(label)) for keys, values, labels in ds.epoch(epoch) for key, value, label in zip(keys, values, labels)]


@pytest.fixture
def wanted(shards):
    found = samples(described(str(shards / NAMES)))
    assert sorted(label for _, _, label in found) == list(range(SHARDS * SAMPLES))
    return found
