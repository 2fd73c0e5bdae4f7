"""Access keys of a cluster: made or removed once, in force on every node when the command returns."""
import pytest

from clusters import Cluster
from nodes import Node, lasting_port
from store_client import Signer


@pytest.fixture
def cluster(tmp_path, millrace):
    """Its first node brings a key file in; the second one has none."""
    (tmp_path / "n0").mkdir()
    (tmp_path / "n0" / "data").mkdir(mode=0o700)
    first = Node(tmp_path / "n0", "--registry", tmp_path / "registry", port=lasting_port())
    made, = millrace.json("keys", "create", "--data", tmp_path / "n0" / "data", "--admin")
    first.start()
    (tmp_path / "n1").mkdir()
    second = Node(tmp_path / "n1", "--registry", tmp_path / "registry", port=lasting_port())
    second.start()
    running = Cluster.__new__(Cluster)
    running.directory, running.nodes = tmp_path, [first, second]
    running.admin = (made["access_key"], made["secret_key"])
    try:
        yield running
    finally:
        running.kill(*running.living)


def status(node, key):
    return Signer(node, *key).ask("GET", "/").status


def create(millrace, cluster, *words):
    made, = millrace.json("keys", "create", "--registry", cluster.directory / "registry", *words)
    return made["access_key"], made["secret_key"]


def test_the_first_node_brings_its_keys_and_who_joins_has_them(cluster):
    assert [status(node, cluster.admin) for node in cluster.nodes] == [200, 200]
    assert [node.ask("GET", "/").status for node in cluster.nodes] == [403, 403]


def test_a_key_is_known_to_all_nodes_at_once_and_removed_from_all_at_once(cluster, millrace):
    for _ in range(5):
        key = create(millrace, cluster, "--bucket", "*:read")
        assert [status(node, key) for node in cluster.nodes] == [200, 200]
        assert [Signer(node, *key).ask("PUT", "/forbidden").status for node in cluster.nodes] == [403, 403]
        said = millrace("keys", "remove", key[0], "--registry", cluster.directory / "registry").err
        assert "every node that serves knows it" in said
        assert [status(node, key) for node in cluster.nodes] == [403, 403]


def test_a_node_that_starts_again_or_joins_later_knows_the_keys(cluster, millrace):
    cluster.kill(cluster.nodes[1])
    key = create(millrace, cluster, "--bucket", "*:read")
    cluster.restart(cluster.nodes[1])
    (cluster.directory / "n2").mkdir()
    late = Node(cluster.directory / "n2", "--registry", cluster.directory / "registry", port=lasting_port())
    # A key file of its own does not count.
    (cluster.directory / "n2" / "data").mkdir(mode=0o700)
    own, = millrace.json("keys", "create", "--data", cluster.directory / "n2" / "data", "--admin")
    late.start()
    cluster.nodes.append(late)
    assert [status(node, key) for node in cluster.nodes] == [200, 200, 200]
    assert [status(node, (own["access_key"], own["secret_key"])) for node in cluster.nodes] == [403, 403, 403]


def test_lists_name_keys_and_no_secrets_and_logs_have_none(cluster, millrace):
    key = create(millrace, cluster, "--bucket", "train:read", "--note", "for a test")
    text = millrace("keys", "list", "--registry", cluster.directory / "registry").text
    assert key[0] in text and "for a test" in text and key[1] not in text
    for node in cluster.nodes:
        assert key[1] not in node.said() and cluster.admin[1] not in node.said()


def test_the_key_file_of_a_node_of_a_cluster_is_not_changed_in_vain(cluster, millrace):
    refused = millrace("keys", "create", "--admin", "--data", cluster.nodes[0].directory / "data", code=2)
    assert "belongs to a node of cluster" in refused.err and "--registry" in refused.err


def test_a_registry_without_a_cluster_and_a_key_that_is_not_there_are_errors(cluster, millrace, tmp_path):
    assert "there is no cluster yet" in millrace("keys", "list", "--registry", tmp_path / "elsewhere", code=1).err
    assert "there is no key NONE" in millrace("keys", "remove", "NONE", "--registry", cluster.directory / "registry", code=1).err
