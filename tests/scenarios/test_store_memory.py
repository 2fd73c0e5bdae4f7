"""What requests make a node hold together: one budget, and it comes back."""
import http.client
import io
import json
import pathlib
import shutil
import socket
import subprocess
import tarfile
import threading

import pytest

from clusters import Cluster, holders, pattern
from nodes import Node
from store_client import Wire, in_threads, wait_until

MOST = 1 << 30  # of resident memory, under either attack
READ_MEMORY = 256 << 20  # of stretches that come from other nodes


def resident(node, name="VmRSS"):
    for line in pathlib.Path(f"/proc/{node.process.pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) << 10
    raise AssertionError(name)


def small_tar(samples):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for number in range(samples):
            member = tarfile.TarInfo(f"{number:07}.x")
            archive.addfile(member)
    return data.getvalue()


@pytest.fixture
def node(tmp_path):
    with Node(tmp_path) as running:
        assert running.ask("PUT", "/train").status == 200
        yield running


def test_many_large_batches_wait_for_each_other(node):
    assert node.put("/train/s.tar", small_tar(100)).status == 200
    body = json.dumps([{"object": "s.tar", "sample": number % 100} for number in range(100_000)]).encode()
    wires = []
    for _ in range(60):
        wire = Wire(node)
        wires.append(wire)
        wire.send(f"POST /train?batch HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n")
        threading.Thread(target=send_quietly, args=(wire, body), daemon=True).start()
    # Nobody reads: those that have begun to answer hold their plans, others wait, and some are refused with 503.
    wait_until(lambda: node.get("/-/status").json["requests_under_way"] >= 10)
    assert node.get("/train/s.tar").status == 200
    for wire in wires:
        wire.close()
    wait_until(lambda: node.get("/-/status").json["requests_under_way"] <= 1)
    assert resident(node, "VmHWM") <= MOST
    # One that is read is answered.
    answer = node.ask("POST", "/train?batch", body)
    assert answer.status == 200 and len(answer.body) == 100_000 * 512 + 1024
    wait_until(lambda: resident(node) <= MOST // 2, "the memory did not come back")


def send_quietly(wire, body):
    try:
        wire.socket.sendall(body)
    except OSError:
        pass  # the test is over


@pytest.mark.skipif(shutil.which("zstd") is None, reason="zstd is not installed")
def test_stalled_puts_of_shards_with_large_indexes_share_one_budget(node):
    packed = subprocess.run(["zstd", "-1", "-q", "-c"], input=small_tar(400_000), capture_output=True, check=True).stdout
    wires = []
    for number in range(60):
        wire = Wire(node)
        wires.append(wire)
        wire.send(f"PUT /train/{number}.tar.zst HTTP/1.1\r\nHost: x\r\nContent-Length: {len(packed)}\r\n\r\n")
        wire.socket.sendall(packed[:-10])
    # All of them are in, and stand still; others are served meanwhile.
    assert node.put("/train/other.tar", small_tar(10)).status == 200
    wait_until(lambda: node.get("/-/status").json["requests_under_way"] >= 60)
    for wire in wires:
        wire.socket.sendall(packed[-10:])
        assert wire.answer("PUT").status == 200
        wire.close()
    assert resident(node, "VmHWM") <= MOST
    # An index that did not fit is made later.
    assert int(node.ask("HEAD", "/train/other.tar").headers["x-millrace-samples"]) == 10
    wait_until(lambda: all(node.ask("HEAD", f"/train/{number}.tar.zst").headers["x-millrace-index"] == "ready" for number in (0, 30, 59)), seconds=120)
    wait_until(lambda: resident(node) <= MOST // 2, "the memory did not come back")


def test_memory_that_is_set_too_small_is_told(tmp_path):
    with Node(tmp_path, "--set", "request_memory=1MiB") as small:
        assert small.ask("PUT", "/train").status == 200
        body = json.dumps([{"object": "s", "sample": 1}] * 20_000).encode()
        answer = small.ask("POST", "/train?batch", body)
        assert answer.status in (413, 503) and (b"memory" in answer.body or b"bodies" in answer.body), answer.body
        connection = http.client.HTTPConnection("127.0.0.1", small.port)
        connection.request("GET", "/train?max-keys=100")
        assert connection.getresponse().status == 200


def test_large_puts_of_a_cluster_wait_for_each_other(tmp_path):
    with Cluster(tmp_path, 4) as cluster:
        cluster.make_bucket("train", redundancy="2+1")
        node = cluster.nodes[0]
        # Each wants 5 MiB of stripes; 256 MiB are there.
        wires = [Wire(node) for _ in range(80)]
        body = b"x" * (3 << 20)
        for number, wire in enumerate(wires):
            wire.send(f"PUT /train/o{number} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n")
            threading.Thread(target=send_quietly, args=(wire, body[:300_000]), daemon=True).start()
        wait_until(lambda: node.get("/-/status").json["requests_under_way"] >= len(wires))
        # Those that wait go on when others are given up.
        for wire in wires[10:]:
            wire.close()
        wait_until(lambda: node.get("/-/status").json["requests_under_way"] <= 11)
        for wire in wires[:10]:
            wire.send(body[300_000:])
        for number, wire in enumerate(wires[:10]):
            assert wire.answer().status == 200
            assert node.get(f"/train/o{number}").body == body
        assert resident(node, "VmHWM") <= MOST


def test_slow_readers_of_other_nodes_objects_share_one_budget(tmp_path):
    with Cluster(tmp_path, 4) as cluster:
        cluster.make_bucket("train", redundancy="2+1")
        body = pattern(1, 24 << 20)
        assert cluster.nodes[0].put("/train/large", body).status == 200
        holding = set(holders(cluster.nodes[0], "/train/large"))
        node = next(one for one in cluster.nodes if one.listen not in holding)
        before = resident(node)
        # Each reader takes the head and a little of the body, then nothing for a while.
        wires = [Wire(node, timeout=120) for _ in range(400)]
        for wire in wires:
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
            wire.send("GET /train/large HTTP/1.1\r\nHost: x\r\n\r\n")
        heads = in_threads(len(wires), lambda number: wires[number].socket.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 200")
        assert all(heads), "not all were answered"
        # Others are served meanwhile.
        assert node.get("/train/large", Range="bytes=5000000-5000999").body == body[5_000_000:5_001_000]
        assert resident(node, "VmHWM") - before <= READ_MEMORY + (192 << 20)
        for wire in wires[4:]:
            wire.close()
        for wire in wires[:4]:
            assert wire.answer().body == body
            wire.close()
