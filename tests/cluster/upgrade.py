#!/usr/bin/python3
"""A cluster of two versions: nodes of an old binary become nodes of a new one, one after the other, under load; then one goes back, and
forward again. Whoever asks again sees no request fail, and all is read through every node in the end. `./dev upgrade` makes the binaries.
"""
import argparse
import contextlib
import json
import pathlib
import sys
import tempfile

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "scenarios"))
from clusters import Cluster  # noqa: E402 (found by the line above)
from steady_load import Load, make_buckets  # noqa: E402
from store_client import wait_until  # noqa: E402


# Nodes of versions before this one refuse messages of others while they finish requests, for up to some 20 s.
ATTEMPTS = 40


class Steps:
    def __init__(self, cluster, load, talk):
        self.cluster, self.load, self.talk, self.taken = cluster, load, talk, 0

    def change(self, node, program, word):
        """Stops the node in order and starts it as the other version."""
        self.taken += 1
        self.talk(f"node {node.listen}: {word}")
        node.stop()
        self.load.go_on()
        node.program = program
        node.start()
        self.cluster.wait_until_serving(self.cluster.nodes)
        self.load.go_on()


def upgrade(directory, old, new, count, talk=print):
    cluster = Cluster(directory, count)
    for node in cluster.nodes:
        node.program = str(old)
    with cluster:
        make_buckets(cluster)
        with Load(cluster.nodes, attempts=ATTEMPTS) as load:
            steps = Steps(cluster, load, talk)
            load.go_on()
            for node in cluster.nodes:
                steps.change(node, str(new), "to the new version")
            steps.change(cluster.nodes[0], str(old), "back to the old version")
            steps.change(cluster.nodes[0], str(new), "to the new version")
        load.check(cluster.nodes)
        wait_until(lambda: sum(one["progress"]["below_redundancy"] for one in cluster.nodes[0].get("/-/cluster").json["nodes"]) == 0, "never whole", 120)
        return {"nodes": count, "changes": steps.taken, "requests": sum(client.asked for client in load.clients),
                "asked_again": sum(client.again for client in load.clients), "failed": 0,
                "objects_read_back": sum(len(known) for known in load.known)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", type=pathlib.Path, required=True, help="millrace of the version before")
    parser.add_argument("--new", type=pathlib.Path, required=True, help="millrace of this version")
    parser.add_argument("--nodes", type=int, default=4, choices=range(3, 7))
    flags = parser.parse_args()
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="millrace-upgrade-")))
        said = upgrade(directory, flags.old.resolve(), flags.new.resolve(), flags.nodes, lambda text: print(text, file=sys.stderr))
    print(json.dumps(said))


if __name__ == "__main__":
    main()
