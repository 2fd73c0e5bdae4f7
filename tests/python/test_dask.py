"""millrace.dask with the real Dask on two workers. bench/peers/dask.sh makes its environment; without it nothing is tested:

    PYTHONPATH=build/python build/peers/dask/bin/python -m pytest tests/python/test_dask.py
"""
import os
import signal

import pytest

import millrace

try:
    import dask
    import distributed
    import millrace.dask
except ImportError:
    dask = None

pytestmark = pytest.mark.skipif(dask is None, reason="bench/peers/dask.sh makes an environment with Dask")

SHARDS, SAMPLES = 6, 50


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with dask.config.set({"distributed.scheduler.allowed-failures": 10}):
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
                                      local_directory=tmp_path_factory.mktemp("dask")) as cluster, distributed.Client(cluster) as made:
            yield made


@pytest.fixture
def shards(tmp_path):
    for shard in range(SHARDS):
        with millrace.ShardFile(tmp_path / f"in-{shard}.tar") as file:
            for number in range(SAMPLES):
                file.add(f"{shard}-{number:03d}", {"cls": str(number % 5).encode(), "txt": b"x" * number})
    return str(tmp_path / f"in-{{0..{SHARDS - 1}}}.tar")


def test_a_bag_has_every_sample_of_every_shard(client, shards):
    bag = millrace.dask.read_shards(shards)
    assert bag.npartitions == SHARDS
    samples = bag.compute()
    assert len(samples) == SHARDS * SAMPLES
    assert samples[-1] == ("5-049", {"cls": b"4", "txt": b"x" * 49})
    counts = millrace.dask.read_shards(shards, fields={"cls"}).map(lambda sample: int(sample[1]["cls"])).frequencies().compute()
    assert dict(counts) == {label: SHARDS * SAMPLES // 5 for label in range(5)}


def test_what_is_written_is_read_again(client, shards, tmp_path):
    bag = millrace.dask.read_shards(shards).map(lambda sample: (sample[0], {"txt": sample[1]["txt"] * 2}))
    names = millrace.dask.write_shards(bag, str(tmp_path / "out-%03d.tar"))
    assert names == [str(tmp_path / f"out-{number:03d}.tar") for number in range(SHARDS)]
    again = millrace.dask.read_shards(names).compute()
    assert [key for key, _ in again] == [f"{shard}-{number:03d}" for shard in range(SHARDS) for number in range(SAMPLES)]
    assert again[7][1] == {"txt": b"x" * 14}


def test_a_worker_that_is_killed_loses_nothing(client, shards, tmp_path):
    mark = str(tmp_path / "killed")

    def die_once(sample):
        if sample[0] == "3-025" and not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return sample
    names = millrace.dask.write_shards(millrace.dask.read_shards(shards).map(die_once), str(tmp_path / "out-%d.tar"))
    assert os.path.exists(mark)
    assert len(millrace.dask.read_shards(names).compute()) == SHARDS * SAMPLES


def test_shards_without_a_number_are_refused(client, shards):
    with pytest.raises(millrace.InvalidError, match="has no number"):
        millrace.dask.write_shards(millrace.dask.read_shards(shards), "one.tar")
