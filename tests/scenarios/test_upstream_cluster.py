"""A bucket of a cluster in front of a plain HTTP server: any node serves it, and the clients that can be sent on cause one fetch."""
import random
import subprocess

import pytest

from clusters import Cluster
from store_client import MIB, in_threads, wait_until
from upstreams import Nginx, nginx, set_upstream


@pytest.fixture
def upstream(tmp_path):
    if nginx() is None:
        pytest.skip("there is no nginx: apt install nginx-light")
    with Nginx(tmp_path) as server:
        yield server


def cached(node, path):
    return node.ask("HEAD", path).headers.get("x-millrace-cached")


def test_every_node_serves_the_bucket_and_those_sent_on_cause_one_fetch(upstream, tmp_path, millrace):
    contents = {name: random.Random(name).randbytes(5 * MIB) for name in ("a", "b", "c")}
    for name, content in contents.items():
        upstream.put(name, content)
    with Cluster(tmp_path, 3) as cluster:
        first, second, third = cluster.nodes
        cluster.make_bucket("cache", redundancy="copies=2")
        assert set_upstream(first, "cache", url=upstream.url).status == 200
        wait_until(lambda: all("upstream" in node.ask("GET", "/-/buckets/cache").json for node in cluster.nodes), "a node never knew the upstream")

        # Asked through all nodes at once by clients that follow: the first holder fetches.
        bodies = in_threads(6, lambda number: subprocess.run(["curl", "-sfL", f"{cluster.nodes[number % 3].url}/cache/a"], capture_output=True, check=True).stdout)
        assert all(body == contents["a"] for body in bodies)
        assert [path for path, _, _ in upstream.requests("GET")] == ["/a"]
        wait_until(lambda: all(cached(node, "/cache/a") == "yes" for node in cluster.nodes), "not every node saw the object stored")
        assert all(node.get("/cache/a").body == contents["a"] for node in cluster.nodes)
        assert len(upstream.requests("GET")) == 1

        # Relayed: at most one fetch for each node, and one object.
        bodies = in_threads(6, lambda number: cluster.nodes[number % 3].get("/cache/b").body)
        assert all(body == contents["b"] for body in bodies)
        wait_until(lambda: cached(first, "/cache/b") == "yes", "it was never stored")
        assert len(upstream.requests("GET")) <= 1 + 3

        millrace("get", f"{second.url}/cache/c", tmp_path / "c")
        assert (tmp_path / "c").read_bytes() == contents["c"]
        upstream.stop()
        wait_until(lambda: cached(third, "/cache/c") == "yes", "it was never stored")
        assert all(node.get("/cache/a").body == contents["a"] for node in cluster.nodes)


def test_what_is_lost_with_its_holders_comes_from_the_upstream_again(upstream, tmp_path):
    contents = {f"{number}": random.Random(number).randbytes(MIB + number) for number in range(6)}
    for name, content in contents.items():
        upstream.put(name, content)
    with Cluster(tmp_path, 3) as cluster:
        first = cluster.nodes[0]
        cluster.make_bucket("cache", redundancy="none")
        assert set_upstream(first, "cache", url=upstream.url).status == 200
        for name, content in contents.items():
            assert first.get(f"/cache/{name}").body == content
            wait_until(lambda: cached(first, f"/cache/{name}") == "yes", "it was never stored")
        # Some of the objects lay on this node alone.
        cluster.kill(cluster.nodes[2])
        for name, content in contents.items():
            assert wait_until(lambda: first.get(f"/cache/{name}"), "never answered").body == content
