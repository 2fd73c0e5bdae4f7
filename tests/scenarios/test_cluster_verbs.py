"""The verbs of a cluster, on real nodes: status, drain, remove, token, where, redundancy of buckets, and the playground."""
import json
import os
import re
import signal
import subprocess

import pytest

from conftest import HANG_SECONDS, Millrace
from nodes import Node, free_port
from store_client import wait_until


class Cluster:
    """Three nodes of one registry; the tests share them and leave them serving."""

    def __init__(self, directory):
        self.directory = directory
        self.nodes = []

    def start_node(self):
        number = len(self.nodes) + 1
        home = self.directory / f"n{number}"
        home.mkdir()
        node = Node(home, "--registry", self.directory / "registry", "--zone", f"z{number}")
        self.nodes.append(node)
        return node.start()

    def state_of(self, number, through=0):
        known = self.nodes[through].get("/-/cluster").json
        return next(node["state"] for node in known["nodes"] if node["number"] == number)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        for _ in range(3):
            made.start_node()
        yield made
    finally:
        for node in made.nodes:
            node.stop()


@pytest.fixture
def url(cluster):
    return cluster.nodes[0].url


# Looking.

def test_status_tells_the_same_nodes_and_leader_through_every_node(millrace, cluster):
    wait_until(lambda: all(node.get("/-/cluster").json["led_by"] == 1 for node in cluster.nodes))
    for number, node in enumerate(cluster.nodes, 1):
        text = millrace("cluster", "status", node.url).text
        head, columns, *rows = text.splitlines()
        assert re.fullmatch(r"cluster \w+  epoch \d+  led by node 1.*", head)
        assert columns.split()[:4] == ["node", "address", "zone", "state"]
        for other, row in zip(cluster.nodes, rows):
            assert other.listen in row and "serving" in row
        assert rows[0].startswith("1 (leads)") and rows[number - 1].endswith("asked")
        told, = millrace.json("cluster", "status", node.url)
        assert [one["zone"] for one in told["nodes"][:3]] == ["z1", "z2", "z3"] and told["self"] == number
        assert told["has_lease"] is True


def test_status_asks_the_default_endpoint(millrace, cluster):
    told, = millrace.json("cluster", "status", env={"MILLRACE_ENDPOINT": cluster.nodes[1].url})
    assert told["self"] == 2


def test_a_node_alone_says_that_it_belongs_to_no_cluster(millrace, tmp_path):
    with Node(tmp_path) as node:
        for words in (["status", node.url], ["drain", "1", node.url], ["where", node.url + "/b/k"]):
            assert "belongs to no cluster" in millrace("cluster", *words, code=2).err
        assert "a node alone keeps every object once" in millrace("mb", node.url + "/b", "--redundancy", "copies=2", code=1).err
        assert node.ask("HEAD", "/b").status == 404


def test_where_names_the_node_and_drive_of_each_slice(millrace, cluster, url, tmp_path):
    (tmp_path / "large").write_bytes(os.urandom(3_000_000))
    (tmp_path / "small").write_bytes(b"x")
    millrace("mb", url + "/where", "--redundancy", "2+1")
    millrace("put", "large", "small", url + "/where/")
    told, = millrace.json("cluster", "where", cluster.nodes[2].url + "/where/large")
    assert (told["k"], told["m"], told["size"], told["cell"]) == (2, 1, 3_000_000, 1 << 20)
    assert [slot["kind"] for slot in told["slots"]] == ["data", "data", "parity"]
    assert {slot["node"] for slot in told["slots"]} == {1, 2, 3} and told["home"] == told["slots"][0]["node"]
    drives = {drive["id"]: node["number"] for node in cluster.nodes[0].get("/-/cluster").json["nodes"] for drive in node["drives"]}
    assert all(drives[slot["drive"]] == slot["node"] and slot["alive"] for slot in told["slots"])
    small, = millrace.json("cluster", "where", url + "/where/small")
    assert small["k"] == 1 and [slot["kind"] for slot in small["slots"]] == ["copy", "copy"]
    text = millrace("cluster", "where", url + "/where/large").text
    assert "2+1 in cells of" in text and text.endswith("3 of 3 can be reached, and 2 are needed\n")


def test_where_of_what_is_not_there_is_an_error(millrace, url):
    assert "no such object" in millrace("cluster", "where", url + "/where/none", code=2).err
    assert "no-such-bucket" in millrace("cluster", "where", url + "/no-such-bucket/k", code=2).err
    assert "not the address of an object" in millrace("cluster", "where", url + "/where", code=2).err


def test_metrics_tell_epoch_lease_leader_nodes_and_peers(cluster):
    # A new bucket is told to every other node: so each of them has answered.
    assert cluster.nodes[1].ask("PUT", "/measured").status == 200
    text = cluster.nodes[1].get("/-/metrics").body.decode()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert int(values["millrace_cluster_epoch"]) == cluster.nodes[1].get("/-/cluster").json["epoch"]
    assert values["millrace_cluster_has_lease"] == "1" and values["millrace_cluster_leader"] == "0"
    assert values['millrace_cluster_nodes{state="serving"}'] == "3"
    assert 0 <= float(values["millrace_cluster_lease_age_seconds"]) < 6
    for other in (1, 3):
        assert int(values[f'millrace_peer_answers_total{{node="{other}"}}']) > 0
        assert f'millrace_peer_failures_total{{node="{other}"}}' in values
        assert float(values[f'millrace_peer_mean_answer_seconds{{node="{other}"}}']) > 0


# Buckets.

def test_the_redundancy_of_a_bucket_is_set_shown_and_changed(millrace, url, cluster):
    millrace("mb", url + "/kept")
    def bucket(*words, **options):
        return millrace("bucket", "kept", *words, "--endpoint", url, **options)
    assert "redundancy=none floor=1" in bucket().text
    assert "redundancy=copies=3 floor=2" in bucket("--redundancy", "copies=3").text
    assert "redundancy=copies=3 floor=3" in bucket("--floor", "3").text
    assert cluster.nodes[2].put("/kept/k", b"1").status == 200
    assert "redundancy=copies=3 floor=2" in bucket("--floor", "2").text
    assert "redundancy=none floor=1" in bucket("--redundancy", "none").text
    assert "redundancy=2+1 floor=3" in bucket("--redundancy", "2+1").text
    assert cluster.nodes[1].get("/kept/k").body == b"1"
    assert "kept  " in millrace("bucket", "--endpoint", cluster.nodes[1].url).text
    assert "redundancy=2+1 floor=3" in millrace("bucket", cluster.nodes[2].url + "/kept").text
    assert "--endpoint" in millrace("bucket", url + "/kept", "--endpoint", url, code=2).err


def test_a_redundancy_that_cannot_be_makes_no_bucket(millrace, url):
    assert "is not a redundancy" in millrace("mb", url + "/odd", "--redundancy", "4-2", code=2).err
    assert '"floor" is a number from 4 to 6' in millrace("mb", url + "/odd", "--redundancy", "4+2", "--floor", "9", code=2).err
    assert "odd" not in millrace("bucket", "--endpoint", url).text


# Changing.

def test_a_token_is_printed_once_and_its_time_has_a_limit(millrace, url, cluster):
    token = millrace("cluster", "token", url, "--valid", "5m").text
    assert re.fullmatch(r"[0-9a-f]{48}\n", token)
    told, = millrace.json("cluster", "token", url)
    assert told["valid_seconds"] == 3600 and told["token"] != token.strip()
    assert "1 to 86400 seconds" in millrace("cluster", "token", url, "--valid", "2d", code=2).err
    # The registry knows a hash of it only.
    for entry in (cluster.directory / "registry" / "entries").iterdir():
        assert token.strip() not in entry.name and token.strip().encode() not in entry.read_bytes()


def test_changes_that_are_not_understood_change_nothing(millrace, cluster, url):
    epoch = cluster.nodes[0].get("/-/cluster").json["epoch"]
    for body in ({"action": "burn"}, {"action": "drain"}, {"action": "drain", "node": 3, "force": True}, {"action": "token", "node": 1}):
        assert cluster.nodes[0].ask("POST", "/-/cluster", json.dumps(body)).status == 400, body
    assert "has no node 99" in millrace("cluster", "drain", "99", url, code=2).err
    assert "would" in millrace("cluster", "drain", "3", url, "-n").text
    assert cluster.nodes[0].get("/-/cluster").json["epoch"] == epoch


def test_a_node_that_serves_is_not_removed(millrace, cluster, url):
    assert "serves: it is not removed" in millrace("cluster", "remove", "3", url, code=2).err
    assert cluster.state_of(3) == "serving"


def test_a_node_is_drained_through_another_then_stopped_and_removed_for_good(millrace, cluster, url):
    fourth = cluster.start_node()
    number = fourth.get("/-/cluster").json["self"]
    try:
        wait_until(lambda: len(cluster.nodes[0].get("/-/cluster").json["nodes"]) == number)
        assert f"node {number} drains" in millrace("cluster", "drain", number, url).text
        wait_until(lambda: cluster.state_of(number, through=1) == "draining")
        assert cluster.nodes[0].ask("PUT", "/after-drain").status == 200
        assert cluster.nodes[0].put("/after-drain/k", b"1").status == 200
        told, = millrace.json("cluster", "where", url + "/after-drain/k")
        assert number not in [slot["node"] for slot in told["slots"]]
    finally:
        fourth.stop()
    wait_until(lambda: cluster.state_of(number) == "away")
    assert f"node {number} has been away for" in millrace("cluster", "status", url).text
    identity = next(node["id"] for node in cluster.nodes[0].get("/-/cluster").json["nodes"] if node["number"] == number)
    removed = millrace("cluster", "remove", identity, url).text
    assert "1 removed" in removed and fourth.listen not in removed
    wait_until(lambda: cluster.state_of(number, through=2) == "gone")
    assert "was removed already" in millrace("cluster", "remove", number, url, code=None).err
    fourth.start(wait=False)
    assert fourth.process.wait(timeout=HANG_SECONDS) != 0
    assert "was removed from the cluster" in fourth.said()


# The playground.

def consecutive_ports(count):
    """The first of `count` ports that are free now."""
    import socket
    while True:
        first = free_port()
        held = []
        try:
            for port in range(first, first + count):
                held.append(socket.socket())
                held[-1].bind(("127.0.0.1", port))
            return first
        except (OSError, OverflowError):
            continue
        finally:
            for one in held:
                one.close()


def is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def start_playground(millrace, *words):
    port = consecutive_ports(3)
    running = millrace.popen("--json", "up", "--nodes", "3", "--data", "play", "--listen", f"127.0.0.1:{port}", *words,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    line = running.stdout.readline()
    assert line, running.communicate()[1].decode()
    return running, json.loads(line)["nodes"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_playground_serves_and_leaves_no_process(millrace, tmp_path, how):
    running, nodes = start_playground(millrace)
    try:
        assert [node["data"] for node in nodes] == ["play/node1", "play/node2", "play/node3"]
        (tmp_path / "in").write_bytes(os.urandom(2_000_000))
        millrace("mb", nodes[0]["url"] + "/train", "--redundancy", "copies=3")
        millrace("put", "in", nodes[0]["url"] + "/train/")
        os.kill(nodes[0]["pid"], signal.SIGKILL)
        millrace("get", nodes[1]["url"] + "/train/in", "out")
        assert (tmp_path / "out").read_bytes() == (tmp_path / "in").read_bytes()
    finally:
        running.send_signal(how)
        said = running.communicate(timeout=HANG_SECONDS)[1].decode()
    assert running.returncode == (-signal.SIGKILL if how == signal.SIGKILL else 0), said
    assert "a node ended; the others go on" in said or how == signal.SIGKILL
    wait_until(lambda: not any(is_running(node["pid"]) for node in nodes))


def test_a_playground_whose_port_is_taken_says_so_and_leaves_no_process(millrace, tmp_path):
    import socket
    port = consecutive_ports(3)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port + 2))
        taken.listen()
        failed = millrace("up", "--nodes", "3", "--data", "play", "--listen", f"127.0.0.1:{port}", code=1)
    assert f"node 3 at http://127.0.0.1:{port + 2} cannot start" in failed.err
    for number in (1, 2):  # their directories are free again
        assert subprocess.run([millrace.binary, "fsck", f"play/node{number}/drive"], cwd=tmp_path, capture_output=True).returncode == 0


@pytest.mark.parametrize("words, why", [
    (["--listen", "0.0.0.0:9400", "--insecure"], "playground on loopback"),
    (["--listen", "127.0.0.1:0"], "as many ports"),
    (["--drive", "d"], "its own data"),
    (["--registry", "r"], "its own data")])
def test_what_a_playground_cannot_share_is_refused(millrace, words, why):
    assert why in millrace("up", "--nodes", "2", *words, code=2).err


def test_a_certificate_for_trials_is_refused_where_other_nodes_would_have_to_know_it(millrace):
    assert "tls_ca names who signed it" in millrace("up", "--registry", "r", "--tls", "self-signed", code=2).err
    assert "there is no registry" in millrace("up", "--tls-ca", "ca.pem", code=2).err
