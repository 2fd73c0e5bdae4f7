"""A cluster whose drives fill: nearly full ones get no new slices, a full cluster says so, removals and reads always work, and healing
fills no drive."""
import contextlib
import os
import shutil

import pytest

from clusters import Cluster, Objects, holders, pattern, until_answered
from conftest import needs_root
from nodes import Node, lasting_port
from store_client import MIB, wait_until
from volumes import ext4, xfs

pytestmark = needs_root()
# Below so many bytes free a drive of 6 GiB is nearly full: 5 % of it. It has room again with 2 % more.
NEARLY = (6 << 30) * 5 // 100
SOON = ("--set", "heal_after=1s", "--set", "heal_share=100", "--set", "cache=4MiB")


@contextlib.contextmanager
def cluster_on_volumes(directory, count, make=ext4):
    """Each node has a drive of its own, so that one can be full while others are not."""
    with contextlib.ExitStack() as stack:
        volumes = [stack.enter_context(make(directory / f"v{number}")) for number in range(count)]
        cluster = Cluster(directory, 0)
        for number, volume in enumerate(volumes):
            (directory / f"n{number}").mkdir()
            cluster.nodes.append(Node(directory / f"n{number}", "--registry", directory / "registry", "--drive", volume.path / "drive", *SOON,
                                      port=lasting_port()))
        with cluster:
            yield cluster, volumes


def full_drives(node):
    return sorted(one["address"] for one in node.get("/-/cluster").json["nodes"] for drive in one["drives"] if drive.get("full"))


def wait_until_full(cluster, *nodes):
    wanted = sorted(node.listen for node in nodes)
    wait_until(lambda: all(full_drives(node) == wanted for node in cluster.living), f"not full: {wanted}")


def slots_of(objects, path):
    """How many slices it is to have: small objects are kept as copies."""
    return 3 if path.startswith("/coded") and len(objects.bodies[path]) > 128 << 10 else 2


def used(volume):
    facts = os.statvfs(volume.path)
    return (facts.f_blocks - facts.f_bavail) * facts.f_frsize


@pytest.mark.parametrize("make", [ext4, xfs])
def test_a_nearly_full_drive_gets_no_new_slices_and_keeps_what_it_has(tmp_path, make):
    with cluster_on_volumes(tmp_path, 4, make) as (cluster, volumes):
        cluster.make_bucket("pairs", redundancy="copies=2")
        cluster.make_bucket("coded", redundancy="2+1")
        objects = Objects()
        for number in range(12):
            objects.put(cluster.nodes[number % 4], f"/pairs/before{number}", pattern(number, 300_000 if number % 2 else 5_000))
            objects.put(cluster.nodes[number % 4], f"/coded/before{number}", pattern(number, 2 * MIB))
        full = cluster.nodes[1]
        kept = [path for path in objects.bodies if full.listen in holders(cluster.nodes[0], path)]
        assert kept
        volumes[1].leave(NEARLY - 20 * MIB)
        wait_until_full(cluster, full)
        before = used(volumes[1])
        for number in range(24):
            bucket = "pairs" if number % 2 else "coded"
            objects.put(cluster.nodes[number % 4], f"/{bucket}/after{number}", pattern(("after", number), [5_000, 300_000, 3 * MIB][number % 3]))
        for path in objects.bodies:
            if "after" in path:
                where = holders(cluster.nodes[0], path)
                assert full.listen not in where and len(where) == slots_of(objects, path), (path, where)
        # What lay there stays and is read; removals, tags and smaller writes of its keys work.
        assert [path for path in kept if full.listen in holders(cluster.nodes[2], path)] == kept
        objects.check_all(cluster.nodes, ranged=False)
        for path in kept[:4]:
            assert until_answered(lambda path=path: cluster.nodes[3].ask("DELETE", path)).status == 204
            del objects.bodies[path]
            assert [node.get(path).status for node in cluster.nodes] == [404] * 4
        for bucket in ("pairs", "coded"):
            assert cluster.nodes[0].keys(bucket) == objects.keys(bucket)
        # Another node is lost: what lay there is made again, and not on the full drive.
        lost = cluster.nodes[2]
        cluster.kill(lost)
        shutil.rmtree(lost.directory / "data")
        # With 2+1 on three drives of which one is full, some objects cannot be whole: they wait, and are shown.
        wait_until(lambda: all(len(holders(cluster.nodes[0], path)) == 2 for path in objects.bodies if "pairs/after" in path), "never healed", 120)
        objects.check_all(cluster.living, ranged=False)
        assert used(volumes[1]) < before + 20 * MIB
        # With room again it takes its share.
        volumes[1].give_back()
        wait_until_full(cluster)
        wait_until(lambda: all(len(holders(cluster.nodes[0], path)) == slots_of(objects, path) for path in objects.bodies), "never whole", 120)
        objects.check_all(cluster.living, ranged=False)


def test_a_full_cluster_says_so_and_is_not_stuck(tmp_path):
    with cluster_on_volumes(tmp_path, 3) as (cluster, volumes):
        cluster.make_bucket("box", redundancy="copies=2")
        objects = Objects()
        for number in range(6):
            objects.put(cluster.nodes[number % 3], f"/box/k{number}", pattern(number, 4 * MIB))
        for volume in volumes:
            volume.leave(NEARLY + 60 * MIB)
        # It takes objects up to the limit, and a little more until everyone knows.
        answer = None
        for number in range(200):
            path, body = f"/box/fill{number}", pattern(("fill", number), 2 * MIB)
            answer = cluster.nodes[number % 3].put(path, body)
            if answer.status == 507:
                break
            assert answer.status == 200, answer.body
            objects.bodies[path] = body
        assert answer.status == 507 and answer.code == "InsufficientStorage", (answer.status, answer.body)
        wait_until_full(cluster, *cluster.nodes)
        for node in cluster.nodes:
            for path, size in (("/box/new", 100), ("/box/k0", 100_000), ("/box/new", MIB)):
                answer = node.put(path, bytes(size))
                assert answer.status == 507 and b"have room" in answer.body, answer.body
        assert min(os.statvfs(volume.path).f_bavail for volume in volumes) > 0
        objects.check_all(cluster.nodes, ranged=False)
        assert cluster.nodes[1].keys("box") == objects.keys("box")
        for path in sorted(objects.bodies)[:10]:
            assert cluster.nodes[0].ask("DELETE", path).status == 204
            del objects.bodies[path]
        for volume in volumes:
            volume.give_back()
        wait_until_full(cluster)
        objects.put(cluster.nodes[2], "/box/new", pattern("new", MIB))
        objects.check_all(cluster.nodes, ranged=False)
