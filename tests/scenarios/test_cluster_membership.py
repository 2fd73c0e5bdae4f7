"""Nodes that stop, restart, drain and leave while clients work: whoever asks again sees no request fail."""
import contextlib
import http.client
import json
import shutil
import threading

import pytest

from clusters import LEASE_SECONDS, Cluster, Objects, pattern, serving, until_answered, where
from steady_load import SIZES, Load, make_buckets
from store_client import MIB, wait_until

def state_of(reader, node):
    return next(one["state"] for one in reader.get("/-/cluster").json["nodes"] if one["address"] == node.listen)


def number_of(reader, node):
    return next(one["number"] for one in reader.get("/-/cluster").json["nodes"] if one["address"] == node.listen)


@pytest.mark.parametrize("count", [3, 4])
def test_a_rolling_restart_under_load_fails_no_request_of_clients_that_ask_again(tmp_path, count):
    with Cluster(tmp_path, count) as cluster:
        make_buckets(cluster)
        with Load(cluster.nodes) as load:
            load.go_on()
            for node in cluster.nodes:
                node.stop()
                load.go_on()
                cluster.restart(node)
                cluster.wait_until_serving(cluster.nodes)
                load.go_on()
        load.check(cluster.nodes)


def test_others_know_at_once_that_a_node_stopped_and_act_for_its_keys(tmp_path):
    with Cluster(tmp_path, 3) as cluster:
        cluster.make_bucket("box", redundancy="copies=3")
        for number in range(30):
            assert cluster.nodes[number % 3].put(f"/box/k{number}", b"before").status == 200
        # The leader leaves, too, in one of these turns.
        for leaving in cluster.nodes[:2]:
            others = [node for node in cluster.nodes if node is not leaving]
            leaving.stop()
            wait_until(lambda: all(state_of(node, leaving) == "away" for node in others), "they wait for its lease", LEASE_SECONDS / 2)
            # Each key is written once: whoever was its home, somebody else is now.
            for number in range(30):
                assert others[number % 2].put(f"/box/k{number}", b"after").status == 200, number
            cluster.restart(leaving)
            cluster.wait_until_serving(cluster.nodes)


def test_a_request_under_way_is_finished_before_its_node_leaves(tmp_path):
    with Cluster(tmp_path, 3) as cluster:
        cluster.make_bucket("box", redundancy="copies=3")
        node, body = cluster.nodes[1], pattern("slow", 3 * MIB)
        connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=60)
        connection.putrequest("PUT", "/box/slow")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        connection.send(body[:MIB])
        stopping = threading.Thread(target=node.stop)
        stopping.start()
        # New requests are sent elsewhere meanwhile, and the node is a full member.
        def refuses():
            with contextlib.suppress(OSError, http.client.HTTPException):
                return node.get("/box/other").status == 503
        wait_until(refuses, "it did not begin to stop")
        assert serving(cluster.nodes[0]) == sorted(one.listen for one in cluster.nodes)
        for number in range(20):
            assert cluster.nodes[0].put(f"/box/meanwhile{number}", b"x").status == 200
        connection.send(body[MIB:])
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        connection.close()
        stopping.join()
        for reader in (cluster.nodes[0], cluster.nodes[2]):
            assert reader.get("/box/slow").body == body


def test_a_node_is_drained_until_it_is_empty_and_removed_under_load(tmp_path):
    soon = ("--set", "heal_share=100")
    with Cluster(tmp_path, 4, *soon) as cluster:
        make_buckets(cluster)
        leaving, stays = cluster.nodes[1], [node for node in cluster.nodes if node is not cluster.nodes[1]]
        number = number_of(stays[0], leaving)
        with Load(cluster.nodes) as load:
            load.go_on(6)
            assert stays[0].ask("POST", "/-/cluster", json.dumps({"action": "drain", "node": number})).status == 200
            load.go_on()
            said = []

            def removed():
                said.append(stays[0].ask("POST", "/-/cluster", json.dumps({"action": "remove", "node": number})))
                return said[-1].status == 200

            wait_until(removed, "never empty", 180)
            assert b"not empty yet" in said[0].body or len(said) == 1, said[0].body
            load.go_on()
            leaving.stop()
            load.go_on()
        load.check(stays)


def test_a_node_that_was_removed_does_not_come_back_with_what_it_had(tmp_path):
    with Cluster(tmp_path, 4, "--set", "heal_after=1s", "--set", "heal_share=100") as cluster:
        cluster.make_bucket("box", redundancy="copies=3")
        for number in range(12):
            assert cluster.nodes[0].put(f"/box/k{number}", pattern(number, 20_000)).status == 200
        away = cluster.nodes[3]
        number = number_of(cluster.nodes[0], away)
        cluster.kill(away)
        wait_until(lambda: state_of(cluster.nodes[0], away) == "away", "never away")
        assert cluster.nodes[0].ask("POST", "/-/cluster", json.dumps({"action": "remove", "node": number})).status == 200
        assert until_answered(lambda: cluster.nodes[0].ask("DELETE", "/box/k0")).status == 204
        away.start(wait=False)
        assert away.process.wait(timeout=60) != 0
        assert "was removed from the cluster" in away.said(), away.said()
        assert [one for one in cluster.nodes[:3] if one.get("/box/k0").status != 404] == []


@pytest.mark.parametrize("ending", ["stopped", "killed"])
def test_drives_that_change_places_between_nodes_are_recognised(tmp_path, ending):
    with Cluster(tmp_path, 3) as cluster:
        cluster.make_bucket("single")
        cluster.make_bucket("coded", redundancy="2+1")
        objects = Objects()
        for number in range(20):
            objects.put(cluster.nodes[number % 3], f"/single/k{number}", pattern(number, SIZES[number % 5]))
            objects.put(cluster.nodes[number % 3], f"/coded/k{number}", pattern(number, SIZES[number % 5]))
        one, other = cluster.nodes[:2]
        place = {node.listen: {path for path in objects.bodies if where(cluster.nodes[2], path)["slots"][0]["address"] == node.listen} for node in (one, other)}
        if ending == "stopped":
            one.stop()
            other.stop()
        else:
            # Nobody is left who could say that the others are away.
            cluster.kill(*cluster.nodes)
        drives = [node.directory / "data" / "drive" for node in (one, other)]
        drives[0].rename(tmp_path / "aside")
        drives[1].rename(drives[0])
        (tmp_path / "aside").rename(drives[1])
        # A node waits while the lease of the other one lasts.
        for node in (one, other) if ending == "stopped" else cluster.nodes:
            wait_until(lambda node=node: comes_up(node), "it does not take the drive", 60)
        cluster.wait_until_serving(cluster.nodes)
        objects.check_all(cluster.nodes, ranged=False)
        # Each drive brought what it held to its new node.
        moved = [path for path in place[one.listen] if path.startswith("/single")]
        assert moved
        # And nobody misses the drive that the other one has.
        wait_until(lambda: all([drive["state"] for drive in node.get("/-/drives").json["drives"]] == ["serving"] for node in (one, other)), "it is missed")
        objects.put(one, "/single/new", b"new")
        cluster.kill(*cluster.nodes)
        cluster.restart(*cluster.nodes)
        cluster.wait_until_serving(cluster.nodes)
        objects.check_all(cluster.nodes, ranged=False)


def comes_up(node):
    """Starts it; False if it ended again."""
    node.start(wait=False)
    with contextlib.suppress(AssertionError):
        node.wait_until_ready()
        return True
    return False


def test_a_copy_of_a_drive_is_not_served_beside_it(tmp_path):
    with Cluster(tmp_path, 3) as cluster:
        first, second = cluster.nodes[:2]
        second.stop()
        shutil.rmtree(second.directory / "data" / "drive")
        shutil.copytree(first.directory / "data" / "drive", second.directory / "data" / "drive")
        assert not comes_up(second)
        assert "another drive is there" in second.said(), second.said()
        assert first.put("/box", None).status == 200 and first.put("/box/k", b"x").status == 200
