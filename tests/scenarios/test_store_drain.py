"""Uploads on a drive that is drained: they move with their parts, and whoever fills, completes or aborts them sees nothing
of it; also where the node is killed in the middle."""
import json
import random
import threading
import time

import pytest

from nodes import Node
from store_client import begin_upload, complete, put_part, wait_until

PART = 5 << 20
LAST = 70_000


def bytes_of(name, number, size):
    return random.Random(f"{name} {number}").randbytes(size)


class Upload:
    """One upload of two whole parts and a short one."""

    def __init__(self, node, name):
        self.node, self.path, self.name = node, f"/box/{name}", name
        self.id = begin_upload(node, self.path)
        self.etags = {}

    def put(self, *numbers):
        for number in numbers:
            data = bytes_of(self.name, number, LAST if number == 3 else PART)
            # 503: it was moved while the part was on its way, as every client tries again.
            answer = wait_until(lambda: (answer := put_part(self.node, self.path, self.id, number, data)).status != 503 and answer)
            assert answer.status == 200, answer.body
            self.etags[number] = answer.headers["etag"]
        return self

    def complete(self):
        answer = complete(self.node, self.path, self.id, sorted(self.etags.items()))
        assert answer.status == 200, answer.body

    def check(self):
        whole = b"".join(bytes_of(self.name, number, LAST if number == 3 else PART) for number in sorted(self.etags))
        assert self.node.get(self.path).body == whole, self.name

    def listed(self):
        text = self.node.get(f"{self.path}?uploadId={self.id}").body.decode()
        return [int(part.split("<")[0]) for part in text.split("<PartNumber>")[1:]]

    def abort(self):
        assert self.node.ask("DELETE", f"{self.path}?uploadId={self.id}").status == 204


def change(node, action, path):
    return node.ask("POST", "/-/drives", json.dumps({"action": action, "path": str(path)}))


def drive(node, path):
    return next(row for row in node.get("/-/drives").json["drives"] if row["path"] == str(path))


def files_on(path):
    return [file for file in (path / "data").rglob("*") if file.is_file()]


def remove(node, path):
    wait_until(lambda: change(node, "remove", path).status == 200)
    wait_until(lambda: not files_on(path))


@pytest.fixture
def drives(tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.mkdir()
    return paths


def test_uploads_leave_a_drained_drive_and_are_completed_and_aborted_elsewhere(tmp_path, drives):
    with Node(tmp_path, "--drive", drives[0]) as node:
        assert node.ask("PUT", "/box").status == 200
        names = ["full", "half", "empty", "done", "dropped"]
        uploads = {name: Upload(node, name) for name in names}
        uploads["full"].put(1, 2, 3)
        uploads["half"].put(2)
        uploads["done"].put(1, 3).complete()
        uploads["dropped"].put(1)
        assert change(node, "add", drives[1]).status == 200
        assert change(node, "drain", drives[0]).status == 200
        uploads["dropped"].abort()
        uploads["half"].put(1)
        remove(node, drives[0])
        # All is on the other drive.
        assert uploads["full"].listed() == [1, 2, 3] and uploads["half"].listed() == [1, 2] and uploads["empty"].listed() == []
        uploads["done"].check()
        uploads["half"].put(3).complete()
        uploads["half"].check()
        uploads["full"].abort()
        assert node.get("/box/full").status == 404
        uploads["empty"].put(1).complete()
        uploads["empty"].check()
        assert b"<Upload>" not in node.get("/box?uploads").body
        wait_until(lambda: len(files_on(drives[1])) == 9)  # 3 and 2 and 1 parts, and a head each


def test_a_drain_that_is_called_off_leaves_uploads_whole(tmp_path, drives):
    with Node(tmp_path, "--drive", drives[0], "--drive", drives[1]) as node:
        assert node.ask("PUT", "/box").status == 200
        uploads = [Upload(node, f"u{number}").put(1, 2) for number in range(12)]
        for turn in range(12):
            assert change(node, "drain", drives[turn % 2]).status == 200
            time.sleep(0.02 * (turn % 4))
            assert change(node, "add", drives[turn % 2]).status == 200
        for upload in uploads:
            assert upload.listed() == [1, 2]
            upload.complete()
            upload.check()


def test_parts_come_while_their_upload_is_moved(tmp_path, drives):
    with Node(tmp_path, "--drive", drives[0]) as node:
        assert node.ask("PUT", "/box").status == 200
        uploads = [Upload(node, f"u{number}").put(1) for number in range(6)]
        faults = []

        def fill(upload):
            try:
                for _ in range(4):
                    upload.put(2, 1)
                upload.put(3)
                if upload.name != "u0":
                    upload.complete()
            except AssertionError as error:
                faults.append(error)

        threads = [threading.Thread(target=fill, args=(upload,)) for upload in uploads]
        for thread in threads:
            thread.start()
        assert change(node, "add", drives[1]).status == 200
        assert change(node, "drain", drives[0]).status == 200
        for thread in threads:
            thread.join()
        assert not faults, faults[0]
        remove(node, drives[0])
        uploads[0].complete()
        for upload in uploads:
            upload.check()


def test_a_node_killed_while_it_drains_goes_on_with_whole_uploads(tmp_path, drives):
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"SEED={seed}")
    rng = random.Random(seed)
    node = Node(tmp_path, "--drive", drives[0]).start()
    try:
        assert node.ask("PUT", "/box").status == 200
        uploads = [Upload(node, f"u{number}").put(1, 2, 3) for number in range(8)]
        assert change(node, "add", drives[1]).status == 200
        assert change(node, "drain", drives[0]).status == 200
        for turn in range(6):
            time.sleep(rng.uniform(0, 0.15))
            node.kill()
            node.start()
            # A part that is acknowledged between two kills counts, wherever the upload is.
            uploads[turn].put(rng.choice([1, 2, 3]))
            assert all(upload.listed() == [1, 2, 3] for upload in uploads), seed
        uploads[0].complete()
        node.kill()
        node.start()
        remove(node, drives[0])
        assert node.get("/box?uploads").body.count(b"<Upload>") == len(uploads) - 1, seed
        for upload in uploads[1:]:
            upload.complete()
        for upload in uploads:
            upload.check()
        node.kill()
        node.start()
        for upload in uploads:
            upload.check()
        wait_until(lambda: len(files_on(drives[1])) == 4 * len(uploads))  # what was copied twice is swept
    finally:
        node.kill()
