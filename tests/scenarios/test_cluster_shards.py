"""Shards from the inside in a cluster: the answers of a node alone, through every node, for every redundancy, also after a loss."""
import http.client
import json
import random

import pytest

from clusters import Cluster, EveryNode, until_answered
from nodes import Node
from store_client import MIB, make_tar, put_in_parts, read_tar
# What shards answer is what they answer on a node alone: the same tests, with the `node` of this file.
from test_store_shards import (  # noqa: F401
    BROKEN, FORMS, MEMBERS, SAMPLES, put_forms, ready, test_a7_a_batch_has_everything_in_the_order_asked_for,
    test_a7_missing_entries_are_reported_by_name_in_their_place, test_a_batch_that_must_be_whole_is_refused_when_something_is_missing,
    test_a_broken_tar_is_a_good_object_without_an_index, test_a_compressed_shard_that_is_kept_in_the_index_becomes_ready_too,
    test_a_member_that_is_cut_off_is_none, test_a_shard_says_that_it_is_ready_and_how_many_samples_it_has,
    test_a_shard_that_came_in_parts_or_chunks_or_by_copy_becomes_ready, test_a_shard_without_index_says_why_and_gives_its_members,
    test_an_empty_batch_is_an_empty_tar_and_a_huge_one_is_refused, test_an_empty_tar_has_no_samples, test_an_overwritten_shard_is_read_by_its_new_index,
    test_every_member_comes_as_python_reads_it, test_long_names_links_and_directories_do_not_disturb_samples,
    test_members_that_belong_to_no_sample_are_found, test_names_in_a_batch_may_be_odd_but_not_break_the_tar,
    test_objects_that_are_no_shards_have_no_index, test_samples_are_valid_tars_of_exactly_their_members,
    test_the_index_is_the_one_that_millrace_tar_index_makes, test_what_a_shard_does_not_have)

BUCKETS = {"pairs": "copies=2", "stripes": "2+1"}
LARGE_MEMBERS = [(f"{number:04}.{name}", random.Random(f"{number}{name}").randbytes(size)) for number in range(60)
                 for name, size in (("jpg", 200_000 + 997 * number), ("txt", number))]
LARGE = make_tar(LARGE_MEMBERS)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("shards"), 4) as running:
        yield running


@pytest.fixture(scope="module")
def node(cluster):
    cluster.make_bucket("train", redundancy="2+1")
    every = EveryNode(cluster)
    put_forms(every)
    return every


def fill(node, bucket):
    """Shards of every kind, each written by one of the nodes."""
    for name, content in {**FORMS, "text.tar": BROKEN["text.tar"], "large.tar": LARGE}.items():
        assert node.put(f"/{bucket}/{name}", content).status == 200
    put_in_parts(node, f"/{bucket}/parts.tar", [LARGE[:5 * MIB + 7], LARGE[5 * MIB + 7:]])
    names = [*FORMS, "text.tar", "large.tar", "parts.tar"]
    for name in names:
        ready(node, f"/{bucket}/{name}")
    return names


def batch_of(names):
    dice = random.Random(3)
    entries = []
    for _ in range(200):
        name = dice.choice(names)
        count = len(SAMPLES) if name in FORMS else 60
        number = dice.randrange(count + 3)  # some are missing
        member = dice.choice(MEMBERS if name in FORMS else LARGE_MEMBERS)[0]
        entries.append(dice.choice([{"object": name, "sample": number}, {"object": name, "member": member},
                                    {"object": name, "range": f"bytes={number * 1000}-{number * 1000 + 70_000}", "name": f"r{number}"}]))
    return json.dumps(entries)


def answers(node, bucket, names):
    """Everything that can be asked of shards: status, S3 code, and the bytes of what is there."""
    asked = {}
    for name in names:
        members = MEMBERS if name in FORMS else LARGE_MEMBERS
        queries = ["index", "sample=0", "sample=49", "samples=3-9", "sample=60", "samples=5-2", "member=none.jpg",
                   f"member={members[0][0]}", f"member={members[-1][0]}", f"member={members[77][0]}"]
        for query in queries:
            asked[name, query] = until_answered(lambda: node.get(f"/{bucket}/{name}?{query}"))
    asked["batch"] = until_answered(lambda: node.ask("POST", f"/{bucket}?batch", batch_of(names)))
    asked["refused"] = node.ask("POST", f"/{bucket}?batch", "[5]")
    return {what: (answer.status, answer.code, answer.body if answer.status == 200 else None) for what, answer in asked.items()}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What a node alone answers."""
    with Node(tmp_path_factory.mktemp("alone")) as running:
        assert running.ask("PUT", "/box").status == 200
        names = fill(running, "box")
        found = answers(running, "box", names)
    assert sum(status == 200 for status, _, _ in found.values()) == 43
    return found


@pytest.mark.parametrize("bucket", BUCKETS)
def test_every_node_gives_the_answers_of_a_node_alone(cluster, alone, bucket):
    cluster.make_bucket(bucket, redundancy=BUCKETS[bucket])
    names = fill(EveryNode(cluster), bucket)
    for node in cluster.nodes:
        found = answers(node, bucket, names)
        assert [what for what in alone if found[what] != alone[what]] == []


@pytest.mark.parametrize("lost", range(2))
def test_the_answers_stay_the_same_without_one_of_the_nodes_and_after_its_return(tmp_path, alone, lost):
    with Cluster(tmp_path, 4) as cluster:
        names = None
        for bucket, redundancy in BUCKETS.items():
            cluster.make_bucket(bucket, redundancy=redundancy)
            names = fill(EveryNode(cluster), bucket)
        cluster.kill(cluster.nodes[lost])
        for bucket in BUCKETS:
            for node in cluster.living:
                found = answers(node, bucket, names)
                assert [what for what in alone if found[what] != alone[what]] == [], (bucket, node.listen)
        # New shards have indexes, too.
        assert until_answered(lambda: cluster.living[0].put("/stripes/new.tar", LARGE)).status == 200
        assert read_tar(cluster.living[1].get("/stripes/new.tar?sample=5").body) == LARGE_MEMBERS[10:12]
        cluster.restart(cluster.nodes[lost])
        cluster.wait_until_serving(cluster.nodes)
        for bucket in BUCKETS:
            found = answers(cluster.nodes[lost], bucket, names)
            assert [what for what in alone if found[what] != alone[what]] == [], bucket


@pytest.mark.parametrize("bucket", BUCKETS)
def test_a_node_that_dies_in_the_middle_of_a_batch_is_replaced(tmp_path, bucket):
    with Cluster(tmp_path, 4) as cluster:
        cluster.make_bucket(bucket, redundancy=BUCKETS[bucket])
        for number in range(4):
            assert cluster.nodes[number].put(f"/{bucket}/{number}.tar", LARGE).status == 200
        entries = [{"object": f"{number % 4}.tar", "sample": number * 7 % 60} for number in range(240)]
        wanted = [member for entry in entries for member in LARGE_MEMBERS[2 * entry["sample"]:2 * entry["sample"] + 2]]
        connection = http.client.HTTPConnection("127.0.0.1", cluster.nodes[0].port, timeout=60)
        connection.request("POST", f"/{bucket}?batch", json.dumps(entries))
        response = connection.getresponse()
        assert response.status == 200
        begun = response.read(4 * MIB)
        cluster.kill(cluster.nodes[2])
        assert read_tar(begun + response.read()) == wanted
        connection.close()
