"""A cluster that heals itself: lost nodes, drained and new ones, nodes that return with old objects."""
import http.client
import json
import shutil

from clusters import Cluster, Objects, holders, pattern, progress, until_answered, where
from nodes import Node, lasting_port
from store_client import MIB, wait_until

HEAL_SOON = ("--set", "heal_after=1s", "--set", "heal_share=100", "--set", "keep_replaced=10s")
SIZES = [0, 100, 16_385, 200_000, 3 * MIB + 17]


def fill(cluster, **buckets):
    """Objects of all sizes in each bucket, written through all nodes."""
    objects = Objects()
    for bucket, redundancy in buckets.items():
        cluster.make_bucket(bucket, redundancy=redundancy)
        for number, size in enumerate(SIZES * 2):
            objects.put(cluster.living[number % len(cluster.living)], f"/{bucket}/o{number}", pattern((bucket, number), size))
    return objects


def wait_until_spread(node, objects, nodes, seconds=120):
    """Until every object has all its slices on these nodes, each on another one."""
    addresses = {one.listen for one in nodes}

    def spread():
        for path in objects.bodies:
            found = where(node, path)
            held = holders(node, path)
            if len(held) != found["k"] + found["m"] or len(set(held)) != len(held) or not set(held) <= addresses:
                return False
        return True

    wait_until(spread, "never whole", seconds)


def wait_until_clean(cluster, seconds=120):
    """Until every node has found all its objects in order by the newest map, and older maps are closed."""
    def clean():
        told = cluster.living[0].get("/-/cluster").json
        nodes = [one for one in told["nodes"] if one["state"] in ("serving", "draining")]
        return all(one.get("progress") and one["progress"]["clean"] == told["epoch"] for one in nodes)

    wait_until(clean, f"never clean: {progress(cluster.living[0])}", seconds)


def test_a_lost_node_is_healed_and_another_may_be_lost(tmp_path):
    with Cluster(tmp_path, 5, *HEAL_SOON) as cluster:
        objects = fill(cluster, copies="copies=3", coded="2+1")
        first, second = cluster.nodes[1], cluster.nodes[3]
        cluster.kill(first)
        shutil.rmtree(first.directory / "data")
        left = [node for node in cluster.nodes if node is not first]
        wait_until_spread(left[0], objects, left)
        objects.check_all(left, ranged=False)
        told = left[0].get("/-/cluster").json
        assert sum(one["progress"]["slices_built"] for one in told["nodes"] if "progress" in one) > 0
        cluster.kill(second)
        objects.check_all(cluster.living, ranged=False)
        wait_until_spread(left[0], objects, cluster.living)
        assert cluster.living[0].keys("copies") == objects.keys("copies")


def test_a_drained_node_becomes_empty_and_can_be_removed(tmp_path):
    with Cluster(tmp_path, 4, *HEAL_SOON) as cluster:
        objects = fill(cluster, copies="copies=2", coded="2+1")
        leaving = cluster.nodes[2]
        number = next(one["number"] for one in leaving.get("/-/cluster").json["nodes"] if one["address"] == leaving.listen)
        assert cluster.nodes[0].ask("POST", "/-/cluster", f'{{"action": "drain", "node": {number}}}').status == 200
        others = [node for node in cluster.nodes if node is not leaving]
        wait_until_spread(cluster.nodes[0], objects, others)
        wait_until(lambda: (progress(cluster.nodes[0])[leaving.listen] or {}).get("slices") == 0, "never empty")
        objects.check_all(cluster.nodes, ranged=False)
        cluster.kill(leaving)
        assert until_answered(lambda: cluster.nodes[0].ask("POST", "/-/cluster", f'{{"action": "remove", "node": {number}}}')).status == 200
        objects.check_all(others, ranged=False)


def test_a_new_node_gets_its_share(tmp_path):
    with Cluster(tmp_path, 3, *HEAL_SOON) as cluster:
        objects = fill(cluster, copies="copies=2", single="none")
        (tmp_path / "new").mkdir()
        new = Node(tmp_path / "new", "--registry", tmp_path / "registry", *HEAL_SOON, port=lasting_port())
        cluster.nodes.append(new)
        new.start()
        wait_until(lambda: (progress(new)[new.listen] or {}).get("slices", 0) > 0, "nothing moved to the new node")
        wait_until_clean(cluster)
        objects.check_all(cluster.nodes, ranged=False)
        told = new.get("/-/cluster").json
        assert told["epoch"] - told["oldest_open"] <= 1, "older maps are still open"


def test_what_was_deleted_and_replaced_does_not_come_back_with_a_node(tmp_path):
    with Cluster(tmp_path, 4, *HEAL_SOON) as cluster:
        objects = fill(cluster, copies="copies=3")
        away = cluster.nodes[2]
        cluster.kill(away)
        node = cluster.living[0]
        paths = sorted(objects.bodies)
        for path in paths[: len(paths) // 2]:
            assert until_answered(lambda path=path: node.ask("DELETE", path)).status == 204
            del objects.bodies[path]
        for path in list(objects.bodies):
            objects.put(node, path, pattern(("again", path), 70_000))
        cluster.restart(away)
        wait_until_clean(cluster)
        for one in cluster.nodes:
            for path in paths:
                assert until_answered(lambda path=path, one=one: one.get(path)).status == (200 if path in objects.bodies else 404), path
            assert one.keys("copies") == objects.keys("copies")
        objects.check_all(cluster.nodes, ranged=False)


def test_a_node_that_drains_is_not_removed_before_it_is_empty(tmp_path):
    with Cluster(tmp_path, 3, *HEAL_SOON) as cluster:
        objects = fill(cluster, single="none")
        leaving = cluster.nodes[2]
        number = next(one["number"] for one in leaving.get("/-/cluster").json["nodes"] if one["address"] == leaving.listen)
        assert cluster.nodes[0].ask("POST", "/-/cluster", f'{{"action": "drain", "node": {number}}}').status == 200
        answers = []

        def removed():
            answers.append(cluster.nodes[0].ask("POST", "/-/cluster", f'{{"action": "remove", "node": {number}}}'))
            return answers[-1].status == 200

        wait_until(removed, "never removed")
        assert b"not empty yet" in answers[0].body
        objects.check_all(cluster.nodes[:2], ranged=False)


def test_a_drive_of_a_node_is_emptied_by_the_cluster_before_it_is_removed(tmp_path, millrace):
    with Cluster(tmp_path, 2, *HEAL_SOON) as cluster:
        for node in cluster.nodes:
            done = millrace("drives", "add", node.directory / "second", "--endpoint", node.url, code=None)
            assert done.code == 0, done.err
        cluster.wait_until_serving(cluster.nodes)
        wait_until(lambda: sum(len(one["drives"]) for one in cluster.nodes[0].get("/-/cluster").json["nodes"]) == 4, "the drives are not in the map")
        objects = fill(cluster, single="none", pairs="copies=2")
        node = cluster.nodes[0]
        path = str(node.directory / "second")
        assert millrace("drives", "drain", path, "--endpoint", node.url).code == 0

        def left():
            drive = next(one for one in node.get("/-/drives").json["drives"] if one["path"].endswith("second"))
            objects.check(node, ranged=False)
            return drive["drain_left"]

        wait_until(lambda: left() == 0, "never empty", 180)
        assert millrace("drives", "remove", path, "--endpoint", node.url).code == 0
        objects.check_all(cluster.nodes, ranged=False)
        wait_until_clean(cluster)
        objects.check_all(cluster.nodes, ranged=False)


def test_maintenance_counts_what_was_written_a_moment_ago(tmp_path):
    with Cluster(tmp_path, 3, *HEAL_SOON) as cluster:
        wait_until_clean(cluster)
        assert cluster.nodes[0].get("/-/maintenance").status == 200
        cluster.make_bucket("solo")
        assert cluster.nodes[0].put("/solo/key", b"x" * 50_000).status == 200
        holder = next(node for node in cluster.nodes if node.listen in holders(node, "/solo/key"))
        refused = holder.get("/-/maintenance")
        assert refused.status == 412 and b"bucket solo" in refused.body, refused.body


def test_maintenance_is_refused_while_it_would_cost_too_much(tmp_path):
    with Cluster(tmp_path, 4, *HEAL_SOON) as cluster:
        objects = fill(cluster, copies="copies=3")
        wait_until_clean(cluster)
        for node in cluster.nodes:
            assert node.get("/-/maintenance").status == 200, node.get("/-/maintenance").body
        cluster.kill(cluster.nodes[3])
        refused = wait_until(lambda: (answer := cluster.nodes[0].get("/-/maintenance")).status == 412 and answer)
        assert b"away" in refused.body or b"not looked" in refused.body
        cluster.restart(cluster.nodes[3])
        cluster.make_bucket("single")
        objects.put(cluster.nodes[0], "/single/o", b"x" * 1000)
        wait_until_clean(cluster)
        holder = next(node for node in cluster.nodes if node.listen in holders(node, "/single/o"))
        # The walk that counts it comes with the next map.
        cluster.kill(next(node for node in cluster.nodes if node is not holder))
        wait_until(lambda: b"below the floor" in holder.get("/-/maintenance").body, "nobody noticed the only copy")


def test_a_slow_reader_follows_slices_that_move(tmp_path):
    with Cluster(tmp_path, 5, *HEAL_SOON) as cluster:
        cluster.make_bucket("copies", redundancy="copies=2")
        body = pattern("slow", 64 * MIB)
        assert cluster.nodes[0].put("/copies/o", body).status == 200
        before = holders(cluster.nodes[0], "/copies/o")
        reader = next(node for node in cluster.nodes if node.listen not in before)
        connection = http.client.HTTPConnection("127.0.0.1", reader.port, timeout=120)
        connection.request("GET", "/copies/o", headers={"x-millrace-redirect": "no"})
        response = connection.getresponse()
        read = [response.read(MIB)]
        numbers = {one["address"]: one["number"] for one in reader.get("/-/cluster").json["nodes"]}
        for address in before:
            assert reader.ask("POST", "/-/cluster", json.dumps({"action": "drain", "node": numbers[address]})).status == 200
        old = [node for node in cluster.nodes if node.listen in before]

        def still_there():
            read.append(response.read(8192))  # a connection on which nothing moves is ended
            return any(has_slices(node) for node in old)

        # A slice that was replaced stays for `keep_replaced`.
        wait_until(lambda: not still_there(), "the old slices stay", 180)
        assert sum(map(len, read)) < len(body) // 2, "the reader was not slow"
        read.append(response.read())
        connection.close()
        assert b"".join(read) == body


def has_slices(node):
    """Whether large objects lie on the drives of the node."""
    return any(path.stat().st_size > 32 * MIB for path in (node.directory / "data").rglob("data/*/*"))
