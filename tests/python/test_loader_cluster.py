"""The loader reads from a cluster, and a node is killed in the middle of an epoch: the same samples come in the same order."""
import random

import millrace
import pytest
from clusters import SHARD_BUCKETS, Cluster, fill_with_shards, sent
from millrace import Dataset

NODES, SHARDS, SAMPLES = 4, 6, 100
NAMES = f"s-{{0..{SHARDS - 1}}}.tar"


@pytest.fixture(autouse=True)
def own_index_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    directory = tmp_path_factory.mktemp("shards")
    noise = random.Random(3)
    with millrace.ShardWriter(str(directory / "s-%d.tar"), max_samples=SAMPLES) as writer:
        for number in range(SHARDS * SAMPLES):
            writer.add(f"{number:04}", {"bin": noise.randbytes(60_000 + 100 * (number % 7)), "cls": str(number).encode()})
    return directory


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, shards):
    with Cluster(tmp_path_factory.mktemp("cluster"), NODES) as running:
        fill_with_shards(running, [shards / f"s-{number}.tar" for number in range(SHARDS)])
        yield running


@pytest.fixture
def whole(cluster):
    """The cluster; what a test killed is back afterwards."""
    yield cluster
    cluster.make_whole()


def described(urls, window):
    """Holds a fraction of the data ahead, so that much is left to fetch when a node dies."""
    ds = Dataset(urls, seed=5, memory="1MiB")
    return (ds.shuffle(window) if window else ds).key().bytes("bin").label("cls").batch(4)


def read_with_a_death(ds, die):
    """The samples of one epoch; `die` is called when a fifth of them came."""
    found = []
    with ds.epoch(0) as batches:
        for keys, values, labels in batches:
            if die and len(found) >= SHARDS * SAMPLES // 5:
                die()
                die = None
            found += zip(keys, values, labels.tolist())
    return found


@pytest.mark.parametrize("window, victim", [(0, 0), (20, 1), (200, 0)], ids=["in order", "shuffled", "one by one"])
@pytest.mark.parametrize("bucket", SHARD_BUCKETS)
def test_the_death_of_any_node_costs_no_sample(whole, shards, bucket, window, victim):
    """Node 0 is the one that the addresses name; all others are alike."""
    wanted = read_with_a_death(described(str(shards / NAMES), window), None)
    assert sorted(label for _, _, label in wanted) == list(range(SHARDS * SAMPLES))
    others = [node for node in whole.nodes if node is not whole.nodes[victim]]
    before = []

    def die():
        whole.kill(whole.nodes[victim])
        before.append(sent(others))

    found = read_with_a_death(described(f"{whole.nodes[0].url}/{bucket}/{NAMES}", window), die)
    assert found == wanted
    assert sent(others) > before[0] + (1 << 20), "everything had been fetched before the node died"
