"""A drive whose directory came back empty: the cluster goes on without it, and is in order once it was given up."""
import json
import shutil

from fleet import Fleet
from store_client import wait_until


def drive_states(node):
    return {drive["id"]: drive["state"] for one in node.get("/-/cluster").json["nodes"] for drive in one["drives"]}


def test_a_drive_that_was_given_up_is_not_waited_for(tmp_path):
    with Fleet(tmp_path, 4) as fleet:
        fleet.make_bucket("copies", redundancy="copies=3")
        bodies = {f"/copies/k{number}": bytes([number]) * 20_000 for number in range(20)}
        for path, body in bodies.items():
            assert fleet.nodes[0].put(path, body).status == 200
        node = fleet.nodes[1]
        path = node.drives[0]
        lost = json.loads((path / "millrace.json").read_text())["drive"]
        fleet.kill(node)
        shutil.rmtree(path)
        path.mkdir()
        node.start()
        for action in ("remove", "add"):
            assert node.ask("POST", "/-/drives", json.dumps({"action": action, "path": str(path)})).status == 200
        for one in fleet.nodes:
            assert all(one.get(path).body == body for path, body in bodies.items())
        wait_until(lambda: drive_states(fleet.nodes[0]).get(lost, "gone") == "gone", "the map still waits for the drive", 15)
        fleet.wait_until_clean(60)
