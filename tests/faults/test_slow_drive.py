"""A drive much slower than its peers gets no new objects for a while, and its old ones are still read (R3)."""
import threading

from conftest import needs_root
from lossy import Lossy
from nodes import Node
from payload import make
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
