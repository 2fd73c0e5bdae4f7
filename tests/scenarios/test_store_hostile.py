"""Clients that mean no good or know no better: the node answers, forgets them, and serves the others."""
import contextlib
import http.client
import os
import pathlib
import random
import signal
import socket
import threading
import time

import pytest

from conftest import binary
from nodes import Node
from store_client import MIB, Wire, exchange, in_threads, new_files, open_descriptors, resident_bytes, stored_files, wait_until

PUT = "PUT /box/hostile HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with Node(tmp_path_factory.mktemp("hostile")) as running:
        assert running.put("/box/good", b"good").status == 200
        yield running
        assert running.get("/box/good").body == b"good"


def serves(node):
    assert node.get("/box/good").body == b"good"


@pytest.mark.parametrize("text, status", [
    ("\0\1\2\3\r\n\r\n", 400), ("GET\r\n\r\n", 400), ("GET /\r\n\r\n", 400), ("GET / HTTP/2.0\r\n\r\n", 505), ("GET / HTTP/1.1 x\r\n\r\n", 400),
    ("G\u00c9T / HTTP/1.1\r\n\r\n", 400), ("GET x HTTP/1.1\r\n\r\n", 400), ("GET /a b HTTP/1.1\r\n\r\n", 400), ("GET /\t HTTP/1.1\r\n\r\n", 400), ("GET http://h\r/ HTTP/1.1\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nNo colon\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400), ("GET / HTTP/1.1\r\n: x\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", 400), ("GET / HTTP/1.1\r\nA: b\0c\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nA: b\rc\r\n\r\n", 400), ("GET / HTTP/1.1\nHost: x\n\n\r\n\r\n", 400),
    (PUT + "Content-Length: -1\r\n\r\n", 400), (PUT + "Content-Length: x\r\n\r\n", 400), (PUT + "Content-Length: 0x10\r\n\r\n", 400),
    (PUT + "Content-Length: 1 2\r\n\r\n", 400), (PUT + "Content-Length: +5\r\n\r\nhello", 400), (PUT + "Content-Length: 99999999999999999999999\r\n\r\n", 400),
    (PUT + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400), (PUT + "Content-Length: 5, 5\r\n\r\nhello", 400),
    (PUT + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400), (PUT + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
    (PUT + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501), (PUT + "Transfer-Encoding: identity\r\n\r\n", 501), (PUT + "Transfer-Encoding: xchunked\r\n\r\n", 501),
    (PUT + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
    ("GET /" + "x" * 70_000 + " HTTP/1.1\r\n\r\n", 431), ("GET / HTTP/1.1\r\nA: " + "x" * 70_000 + "\r\n\r\n", 431),
    ("GET / HTTP/1.1\r\n" + "A: b\r\n" * 101 + "\r\n", 431), ("GET / HTTP/1.1\r\n" + "A: b\r\n" * 12_000, 431)])
def test_what_is_not_http_is_refused_and_the_connection_closed(node, text, status):
    with Wire(node) as wire:
        answer = wire.send(text.encode("latin-1")).answer()
        assert answer.status == status, answer.body
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.is_closed()
    assert node.get("/box/hostile").status == 404
    serves(node)


def test_the_bytes_behind_a_refused_head_are_no_request(node):
    """A request that two servers in a row could read differently ends the connection."""
    smuggled = "GET /box/good HTTP/1.1\r\nHost: x\r\n\r\n"
    for head in (PUT + f"Content-Length: {len(smuggled)}\r\nTransfer-Encoding: chunked\r\n\r\n", PUT + "Content-Length: 0\r\nContent-Length: 5\r\n\r\n"):
        with Wire(node) as wire:
            assert wire.send(head + smuggled).answer().status == 400
            wire.socket.shutdown(socket.SHUT_WR)
            assert wire.is_closed()


def test_random_bytes_never_disturb_the_service(node):
    seed = 2024
    dice = random.Random(seed)
    pieces = [b"GET ", b"PUT ", b"/box/x", b" HTTP/1.1", b"\r\n", b"\r\n\r\n", b"Host: x", b"Content-Length: ", b"5", b"Transfer-Encoding: chunked", b"\0", b"?", b"%", b":", b"\xff"]
    for turn in range(300):
        text = b"".join(dice.choice(pieces) if dice.random() < 0.8 else dice.randbytes(dice.randrange(20)) for _ in range(dice.randrange(1, 15)))
        with Wire(node) as wire:
            wire.send(text)
            wire.socket.shutdown(socket.SHUT_WR)
            try:
                while wire.socket.recv(65536):
                    pass
            except ConnectionResetError:
                pass
    serves(node)


def test_random_targets_never_make_a_server_error(node):
    dice = random.Random(7)
    words = ["box", "good", "..", "%2e", "%00", "%ff", "//", "?", "&", "=", "list-type=2", "uploads", "uploadId=", "partNumber=0", "tagging", "delete", "batch", "index",
             "member=%00", "sample=1", "max-keys=1", "-", "-/", "continuation-token=eHg=", "versionId=null", "prefix=%ff", "marker=%00", "delimiter=%ff", "%C3%A9"]
    for turn in range(600):
        target = "/" + "/".join(dice.choices(words, k=dice.randrange(1, 4))) + "?" + "&".join(dice.choices(words, k=dice.randrange(0, 4)))
        answer = node.ask(dice.choice(["GET", "HEAD", "PUT", "POST", "DELETE"]), target, dice.choice([None, b"", b"x", b"<a/>", b"{}"]))
        assert answer.status < 500 or answer.status == 501, (target, answer.status, answer.body)
    node.put("/box/good", b"good")


@pytest.mark.parametrize("body", ['{"action": 5, "path": "/x"}', '{"action": null, "path": "/x"}', '{"path": 5}', "[]", "nonsense", '{"action": "explode", "path": "/x"}'])
def test_administration_answers_nonsense_with_a_client_error(node, body):
    assert 400 <= node.ask("POST", "/-/drives", body).status < 500
    wait_until(lambda: node.get("/-/status").json["requests_under_way"] <= 1)


def test_a_body_that_is_shorter_or_longer_than_announced(node):
    with Wire(node) as wire:
        wire.send(PUT + "Content-Length: 100\r\n\r\nshort")
        wire.socket.shutdown(socket.SHUT_WR)
        received = wire.socket.recv(1000)
        assert received == b"" or b" 400 " in received
    assert node.get("/box/hostile").status == 404
    with Wire(node) as wire:
        assert wire.send(PUT + "Content-Length: 4\r\n\r\nbodyX junk\r\n\r\n").answer().status == 200
        assert wire.answer().status == 400 and wire.is_closed()
    assert node.get("/box/hostile").body == b"body"
    node.ask("DELETE", "/box/hostile")


def test_a_huge_announced_length_reserves_nothing(node):
    before = resident_bytes(node)
    wires = [Wire(node) for _ in range(50)]
    for number, wire in enumerate(wires):
        wire.send(f"PUT /box/huge-{number} HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000000000\r\n\r\nx")
    for wire in wires[:10]:
        wire.send("x" * 1000)
    serves(node)
    assert resident_bytes(node) - before < 200 << 20
    for wire in wires:
        wire.close()
    answer = exchange(node, "PUT /box/beyond HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000000000\r\n\r\n")
    assert (answer.status, answer.code) == (400, "EntityTooLarge")
    document = exchange(node, "POST /box?delete HTTP/1.1\r\nHost: x\r\nContent-Length: 900000000\r\n\r\n")
    assert document.status == 400


def test_half_open_connections_do_not_block_others_and_are_closed(node):
    quiet = [Wire(node, timeout=60) for _ in range(300)]
    for number, wire in enumerate(quiet):
        wire.send(["", "G", "GET / HTTP/1.1\r\nHo", "PUT /box/x HTTP/1.1\r\nHost: x\r\n"][number % 4])
    for _ in range(20):
        serves(node)
    # The head's time limit counts from its first byte: dripping does not prolong it.
    dripping = quiet[1]
    begun = time.monotonic()
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        while time.monotonic() - begun < 60:
            dripping.send("x")
            dripping.socket.settimeout(0.5)
            try:
                if dripping.socket.recv(100) == b"":
                    raise ConnectionResetError
            except socket.timeout:
                pass
    assert time.monotonic() - begun < 40
    assert quiet[2].is_closed() and quiet[3].is_closed()
    for wire in quiet:
        wire.close()
    serves(node)


def test_r5_ten_thousand_aborted_uploads_leave_nothing(node):
    node.put("/box/warm", os.urandom(100_000))
    node.ask("DELETE", "/box/warm")
    before_files, before_descriptors = stored_files(node), open_descriptors(node)

    def abort(number):
        dice = random.Random(number)
        for turn in range(850):
            with Wire(node) as wire:
                kind = dice.randrange(4)
                if kind == 0:
                    wire.send(f"PUT /box/aborted-{number} HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + "x" * dice.randrange(30_000))
                elif kind == 1:
                    wire.send(f"PUT /box/aborted-{number} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n8000\r\n" + "x" * dice.randrange(0x8000))
                elif kind == 2:
                    wire.send("PUT /box/aborted HTTP/1.1\r\nHost: x\r\nContent-Le")
                else:
                    wire.send("GET /box/good HTTP/1.1\r\nHost: x\r\n\r\n")
                if dice.random() < 0.5:
                    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    # How many write buffers are in use at once depends on the machine's load; what leaks grows each time.
    most = 0
    for _ in range(2):
        in_threads(8, abort)
        most = max(most, resident_bytes(node))
    wait_until(lambda: not new_files(node, before_files), "files of aborted uploads stayed")
    wait_until(lambda: open_descriptors(node) <= before_descriptors + 5, "descriptors of aborted uploads stayed")
    wait_until(lambda: node.get("/-/status").json["requests_under_way"] <= 1)
    in_threads(8, abort)
    assert resident_bytes(node) < most + (64 << 20)
    assert resident_bytes(node) < 400 << 20
    assert node.keys("box", "aborted") == []
    serves(node)


def test_a_reader_that_stops_reading_holds_no_one_up(node):
    node.put("/box/large", os.urandom(30_000_000))
    wires = [Wire(node).send("GET /box/large HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(20)]
    for _ in range(20):
        serves(node)
    for wire in wires:
        wire.close()
    wait_until(lambda: node.get("/-/status").json["requests_under_way"] <= 1)


def test_clients_that_make_the_node_wait_are_cut_off(tmp_path):
    with Node(tmp_path, *(word for name in ("idle", "head", "stall") for word in ("--set", f"{name}_seconds=2s"))) as node:
        node.put("/box/large", os.urandom(30_000_000))
        kept = Wire(node).send("GET /-/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert kept.answer().status == 200
        late = [kept,
                Wire(node),
                Wire(node).send("GET /box/large HTTP/1.1\r\nHo"),
                Wire(node).send("PUT /box/half HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nhalf"),
                Wire(node).send("PUT /box/half HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nha")]
        for wire in late:
            wire.until_closed()
            wire.close()
        # A reader that takes nothing is cut off too; it sees less than it was promised.
        deaf = Wire(node).send("GET /box/large HTTP/1.1\r\nHost: x\r\n\r\n")
        assert deaf.socket.recv(1) == b"H"
        wait_until(lambda: node.get("/-/status").json["requests_under_way"] <= 1)
        assert len(deaf.until_closed()) < 30_000_000
        deaf.close()
        assert node.keys("box") == ["large"]
        # Who sends, however slowly, is not cut off by the clock of those who do not.
        slow = Wire(node).send("PUT /box/slow HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n")
        for _ in range(8):
            time.sleep(0.4)
            slow.send("x")
        assert slow.answer().status == 200
        slow.close()


def test_connections_beyond_the_limit_are_answered_503(tmp_path):
    with Node(tmp_path, "--set", "max_connections=10") as node:
        kept = [Wire(node) for _ in range(10)]
        for wire in kept:
            assert wire.send("GET /-/live HTTP/1.1\r\nHost: x\r\n\r\n").answer().status == 200
        for _ in range(20):
            with Wire(node) as beyond:
                answer = beyond.send("PUT /box/x HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\n" + "x" * 10_000).answer()
                assert answer.status == 503 and "retry-after" in answer.headers
        assert kept[0].send("GET /-/live HTTP/1.1\r\nHost: x\r\n\r\n").answer().status == 200
        for wire in kept:
            wire.close()
        wait_until(lambda: node.get("/-/live").status == 200)


@pytest.mark.skipif(b"__ubsan_handle" in pathlib.Path(binary()).read_bytes(), reason="the sanitizer looks at memory through descriptors of its own")
def test_without_descriptors_it_refuses_at_once_and_goes_on_when_there_are_some(tmp_path):
    program = tmp_path / "scarce"
    program.write_text(f'#!/bin/sh\nulimit -n 120\nexec "{binary()}" "$@"\n')
    program.chmod(0o755)
    with Node(tmp_path, program=str(program)) as node:
        assert node.put("/box/good", b"good").status == 200
        assert node.put("/box/large", b"l" * 300_000).status == 200
        kept = Wire(node)
        many, answers = [], []
        for _ in range(150):
            wire = Wire(node, timeout=10).send("GET /-/live HTTP/1.1\r\nHost: x\r\n\r\n")
            with contextlib.suppress(ConnectionError, http.client.HTTPException):
                answers.append(wire.answer().status)
            many.append(wire)
        assert set(answers) <= {200, 503} and answers.count(200) > 10 and len(answers) > answers.count(200)
        # Who is connected is answered, and told to come again where a file cannot be opened.
        refused = kept.send(f"PUT /box/new HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + "n" * 300_000).answer("PUT")
        assert refused.status == 503 and "retry-after" in refused.headers, refused.body
        assert kept.send("GET /box/good HTTP/1.1\r\nHost: x\r\n\r\n").answer().body == b"good"
        for wire in many:
            wire.close()
        wait_until(lambda: node.put("/box/new", b"n" * 300_000).status == 200)
        assert node.get("/box/large").body == b"l" * 300_000
        kept.close()


# Stopping.

def start_upload(node, size=100_000):
    wire = Wire(node).send(f"PUT /box/slow HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n" + "a" * (size // 2))
    wait_until(lambda: node.get("/-/status").json["requests_under_way"] >= 2)
    return wire


def test_a_stop_lets_an_upload_finish_and_refuses_new_requests(tmp_path):
    node = Node(tmp_path)
    with node:
        node.ask("PUT", "/box")
        wire = start_upload(node)
        node.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "stopping" in node.said())
        refused = wait_until(lambda: (answer := node.get("/-/live")).status == 503 and answer)
        assert "retry-after" in refused.headers
        assert wire.send("b" * 50_000).answer().status == 200
        wire.close()
        assert node.process.wait(timeout=60) == 0
    with node:
        assert node.get("/box/slow").body == b"a" * 50_000 + b"b" * 50_000


def test_a_stop_does_not_wait_for_ever(tmp_path):
    node = Node(tmp_path, "--set", "stop_seconds=1s")
    with node:
        node.ask("PUT", "/box")
        wire = start_upload(node)
        idle = Wire(node)
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(timeout=60) == 1
        assert "requests" in node.said()
        wire.close()
        idle.close()
    with node:
        assert node.get("/box/slow").status == 404 and stored_files(node) == []


def test_idle_connections_do_not_hold_up_a_stop(tmp_path):
    node = Node(tmp_path)
    with node:
        idle = [Wire(node) for _ in range(20)]
        for wire in idle[:10]:
            assert wire.send("GET /-/live HTTP/1.1\r\nHost: x\r\n\r\n").answer().status == 200
        idle[15].send("GET / HT")
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(timeout=60) == 0


# Senders that trickle.

def trickle(node, count, first_bytes):
    """So many uploads under way, each with its first bytes sent."""
    wires = []
    for number in range(count):
        wire = Wire(node)
        wire.send(f"PUT /box/slow{number} HTTP/1.1\r\nHost: x\r\nContent-Length: {8 * MIB}\r\n\r\n").send(b"s" * first_bytes)
        wires.append(wire)
    return wires


@pytest.mark.parametrize("first_bytes", [1, 10_000])
def test_300_uploads_that_trickle_do_not_hold_up_another(tmp_path, first_bytes):
    """More than there are buffers of a block: none of them may hold one."""
    with Node(tmp_path, "--set", "stall_seconds=50s") as node:
        assert node.ask("PUT", "/box").status == 200
        wires = trickle(node, 300, first_bytes)
        try:
            for second in range(3):
                began = time.monotonic()
                for size in (100_000, 3 * MIB):
                    assert node.put(f"/box/normal{size}", b"n" * size).status == 200
                # Without, they would wait until the others stall; so wide a bound is no measurement.
                assert time.monotonic() - began < 25
                for wire in wires:
                    wire.send(b"s")
        finally:
            for wire in wires:
                wire.close()
        assert node.get("/box/normal100000").body == b"n" * 100_000
        assert node.get("/box/slow0").status == 404


def test_uploads_that_slow_down_in_the_middle_of_a_block_give_way(tmp_path):
    with Node(tmp_path, "--set", "stall_seconds=120s") as node:
        assert node.ask("PUT", "/box").status == 200
        wires = trickle(node, 300, 100_000)
        stop = threading.Event()

        def drip():
            while not stop.wait(0.5):
                for wire in wires:
                    with contextlib.suppress(OSError):
                        wire.send(b"s")

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            assert node.put("/box/normal", b"n" * (3 * MIB)).status == 200
        finally:
            stop.set()
            dripping.join()
        # Some gave way, and were told why; all of them need not.
        refused = 0
        for wire in wires:
            wire.socket.settimeout(0.01)
            with contextlib.suppress(OSError):
                refused += b" 503 " in wire.socket.recv(4096)
            wire.close()
        assert refused > 0
        assert node.get("/box/normal").body == b"n" * (3 * MIB)
