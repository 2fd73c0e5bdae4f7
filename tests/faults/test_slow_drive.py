"""A drive much slower than its peers gets no new objects for a while, and its old ones are still read (R3); one that stands
still holds up nobody but those who read from it."""
import random
import socket
import threading

from conftest import needs_root
from lossy import Lossy
from nodes import Node
from payload import make
from store_client import Wire
from workload import Client

pytestmark = needs_root()
SIZE = 4 << 20
MOST_OBJECTS = 2000


def drives_of(node):
    return {drive["path"]: drive for drive in node.get("/-/drives").json["drives"]}


def put_until(node, done):
    """Four writers, until `done()` or too many objects; gives the keys."""
    numbers = iter(range(MOST_OBJECTS))
    lock = threading.Lock()
    keys = []

    def put():
        client = Client(node.port)
        while not done():
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            status, body, _ = client.ask("PUT", f"/slow/{number}", make(str(number), 1, SIZE))
            assert status == 200, body
            keys.append(str(number))

    writers = [threading.Thread(target=put) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    return keys


def test_new_objects_go_past_a_slow_drive(tmp_path):
    with Lossy(tmp_path / "fast") as fast, Lossy(tmp_path / "worn", write_ms=60) as worn:
        with Node(tmp_path, "--drive", fast.path / "d", "--drive", worn.path / "d") as node:
            assert node.ask("PUT", "/slow").status == 200
            states = lambda: {path: drive["state"] for path, drive in drives_of(node).items()}
            slow, good = str(worn.path / "d"), str(fast.path / "d")
            keys = put_until(node, lambda: states()[slow] == "slow")
            assert states() == {slow: "slow", good: "serving"}
            assert "the others" in drives_of(node)[slow]["reason"]
            before = drives_of(node)[slow]["writes"]["bytes"]
            client = Client(node.port)
            for number in range(20):
                assert client.ask("PUT", f"/slow/late{number}", make(f"late{number}", 1, SIZE))[0] == 200
            assert drives_of(node)[slow]["writes"]["bytes"] == before
            for key in keys[:20] + [f"late{number}" for number in range(20)]:
                status, body, _ = client.ask("GET", f"/slow/{key}")
                assert status == 200 and body == make(key, 1, SIZE), key


def test_a_drive_that_stands_still_holds_up_only_its_own_readers(tmp_path):
    """The kernel reads ahead in small steps here: the file system often stops with pages on their way, which a serving thread
    must not take for arrived."""
    dice = random.Random(3)
    bodies = {f"large{number}": make(f"large{number}", 1, SIZE) for number in range(8)}
    with Lossy(tmp_path / "frozen") as drive:
        with Node(tmp_path, "--drive", drive.path / "d", "--set", "threads=1", "--set", "read_window=64KiB") as node:
            hot = Client(node.port)
            for key, body in bodies.items():
                assert hot.ask("PUT", f"/slow/{key}", body)[0] == 200
            assert hot.ask("PUT", "/slow/hot", b"hot")[0] == 200
        with Node(tmp_path, "--drive", drive.path / "d", "--set", "threads=1", "--set", "read_window=64KiB") as node:
            hot = Client(node.port)
            assert hot.ask("GET", "/slow/hot")[1] == b"hot"
            for key, body in bodies.items():
                with Wire(node) as wire:
                    wire.send(f"GET /slow/{key} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    came = wire.socket.recv(dice.randrange(1, 1 << 20), socket.MSG_WAITALL)
                    with drive.standing_still():
                        for _ in range(3):
                            assert hot.ask("GET", "/slow/hot")[1] == b"hot"
                    came += wire.until_closed()
                assert came.split(b"\r\n\r\n", 1)[1] == body
