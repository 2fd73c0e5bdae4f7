"""millrace load reads from a cluster, and goes on when a node is killed. tests/python compares the samples themselves."""
import random
import subprocess

import pytest
from archives import Sample, write_shard
from clusters import SHARD_BUCKETS, Cluster, fill_with_shards, sent
from conftest import HANG_SECONDS
from store_client import MIB, wait_until

NODES, SHARDS, SAMPLES, EPOCHS = 4, 6, 100, 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Six shards in each bucket; those of `uploads` came in parts."""
    directory = tmp_path_factory.mktemp("shards")
    noise = random.Random(3)
    for number in range(SHARDS):
        write_shard(directory / f"s-{number}.tar", [
            Sample(f"{number}{sample:04}", {"bin": noise.randbytes(60_000), "cls": str(sample).encode()}) for sample in range(SAMPLES)])
    with Cluster(tmp_path_factory.mktemp("cluster"), NODES) as running:
        fill_with_shards(running, [directory / f"s-{number}.tar" for number in range(SHARDS)])
        yield running


@pytest.fixture
def whole(cluster):
    """The cluster; what a test killed is back afterwards."""
    yield cluster
    cluster.make_whole()


@pytest.mark.parametrize("bucket", SHARD_BUCKETS)
@pytest.mark.parametrize("victim", [0, 1], ids=["the node that is asked", "another node"])
def test_load_goes_on_when_a_node_is_killed(whole, millrace, tmp_path, monkeypatch, bucket, victim):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    dying = whole.nodes[victim]
    begin = sent(whole.nodes)
    process = millrace.popen("--json", "load", f"{whole.nodes[0].url}/{bucket}/s-{{0..{SHARDS - 1}}}.tar", "--spec", "key bytes:bin label:cls",
                             "--batch", 4, "--shuffle", 20, "--memory", "4MiB", "--epochs", EPOCHS, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: sent(whole.nodes) > begin + 8 * MIB, "nothing was read")
    whole.kill(dying)
    assert process.poll() is None, "all was read before a node could be killed: it must be more"
    out, said = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0, said
    assert f'"samples":{EPOCHS * SHARDS * SAMPLES}' in out.decode().replace(" ", ""), out
