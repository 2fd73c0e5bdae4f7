"""What `millrace up --audit` keeps: every request, many objects of one request, administration, keys, nodes; and no secrets."""
import json
import os
import signal
import socket
import stat

import pytest

from clusters import Cluster
from nodes import Node, lasting_port
from store_client import Signer, exchange, wait_until


class Audited:
    """A node and the lines that it kept."""

    def __init__(self, directory, *flags):
        self.path = directory / "audit.log"
        self.node = Node(directory, "--audit", self.path, *flags)

    def lines(self, path=None):
        return [json.loads(line) for line in (path or self.path).read_text().splitlines()]

    def find(self, seconds=20, least=1, **wanted):
        """The lines with these values, once there are so many: they are written beside the requests."""
        def found():
            lines = [line for line in self.lines() if all(line.get(name) == value for name, value in wanted.items())]
            return lines if len(lines) >= least else None
        return wait_until(found, f"no {least} lines with {wanted}", seconds)

    def one(self, **wanted):
        line, = self.find(**wanted)
        return line


@pytest.fixture
def audited(tmp_path):
    audited = Audited(tmp_path)
    with audited.node:
        yield audited


def test_each_request_is_one_line_with_its_outcome(audited):
    node = audited.node
    assert node.ask("PUT", "/box").status == 200
    assert node.put("/box/a/b.tar", b"x" * 1000).status == 200
    assert node.get("/box/a/b.tar?x=1").status == 200
    assert node.get("/box/none").status == 404
    assert node.ask("DELETE", "/box/a/b.tar").status == 204
    line = audited.one(operation="put")
    assert line["bucket"] == "box" and line["key"] == "a/b.tar" and line["method"] == "PUT" and line["status"] == 200
    assert line["outcome"] == "done" and line["as"] == "open" and line["from"] == "127.0.0.1" and line["bytes_in"] >= 1000
    assert line["event"] == "request" and line["time"].endswith("Z") and len(line["node"]) == 16
    assert audited.one(operation="get", key="a/b.tar")["query"] == "x=1"
    refused = audited.one(operation="get", key="none")
    assert refused["outcome"] == "refused" and refused["status"] == 404 and refused["code"] == "NoSuchKey"
    assert audited.one(operation="delete")["status"] == 204
    # Probes are no deeds.
    assert not [line for line in audited.lines() if line.get("path") in ("/-/ready", "/-/live", "/-/metrics")]
    assert stat.S_IMODE(audited.path.stat().st_mode) == 0o600
    metrics = node.get("/-/metrics").body.decode()
    assert "millrace_audit_lost_total 0" in metrics and "millrace_audit_lines_total" in metrics


def test_a_key_cannot_end_its_line(audited):
    node = audited.node
    hostile = "/box/a%0A%7B%22event%22%3A%22forged%22%7D%22%0D%1b[2J"
    assert node.put(hostile, b"x").status == 200
    assert exchange(node, "GET /box/%ff%fe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").status == 400
    assert exchange(node, "GET /box/x?\x01=%0a\" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").status in (400, 404)
    line = audited.one(operation="put")
    assert line["key"] == 'a\n{"event":"forged"}"\r\x1b[2J'
    assert all(line["event"] != "forged" for line in audited.lines())
    assert all(0x20 <= byte < 0x7f or byte == 0x0a for byte in audited.path.read_bytes())


def test_every_object_of_a_request_about_many_has_a_line(audited):
    node = audited.node
    for key in ("a", "b"):
        assert node.put(f"/box/{key}", b"x").status == 200
    batch = json.dumps([{"object": "a"}, {"object": "none"}])
    assert node.ask("POST", "/box?batch", batch).status == 200
    wait_until(lambda: len(audited.find(operation="get_batch")) == 3)
    lines = {line.get("key"): line for line in audited.find(operation="get_batch")}
    assert lines["a"]["status"] == 200 and lines["none"]["status"] == 404 and lines[None]["request"] == lines["a"]["request"]
    body = "<Delete><Object><Key>a</Key></Object><Object><Key>b</Key><ETag>other</ETag></Object></Delete>"
    assert node.ask("POST", "/box?delete", body).status == 200
    wait_until(lambda: len(audited.find(operation="delete_many")) == 3)
    lines = {line.get("key"): line for line in audited.find(operation="delete_many")}
    assert lines["a"]["outcome"] == "done" and lines["b"]["status"] == 412 and lines["b"]["code"] == "PreconditionFailed"


def test_administration_says_what_was_to_change(audited):
    node = audited.node
    assert node.ask("PUT", "/box").status == 200
    assert node.ask("PUT", "/-/buckets/box", json.dumps({"verify": "read"})).status == 200
    assert node.ask("PUT", "/-/buckets/box", json.dumps({"verify": "never"})).status == 400
    assert node.ask("POST", "/-/scrub").status == 200
    done, refused = audited.find(least=2, path="/-/buckets/box")
    assert json.loads(done["change"]) == {"verify": "read"} and done["outcome"] == "done" and done["operation"] == "administration"
    assert refused["outcome"] == "refused" and refused["code"] == "InvalidArgument"
    assert audited.one(path="/-/scrub")["method"] == "POST"


def test_keys_are_named_and_no_secret_is_kept(tmp_path, millrace):
    audited = Audited(tmp_path)
    made = millrace.json("keys", "create", "--admin", "--data", str(tmp_path / "data"))[0]
    access, secret = made["access_key"], made["secret_key"]
    with audited.node as node:
        signer = Signer(node, access, secret)
        assert signer.ask("PUT", "/box").status == 200
        assert signer.ask("PUT", "/box/k", b"x").status == 200
        link = signer.presign("GET", "/box/k")
        assert node.get(link).status == 200
        assert node.get("/box/k").status == 403
        assert node.get("/box/k", Authorization="AWS4-HMAC-SHA256 Credential=nobody/20260101/us-east-1/s3/aws4_request, "
                        "SignedHeaders=host, Signature=00").status == 403
        assert audited.one(operation="put")["key_id"] == access and audited.one(operation="put")["as"] == "key"
        line = audited.one(operation="get")
        assert line["key_id"] == access and "X-Amz-Signature=…" in line["query"]
        refused = audited.find(outcome="refused")
        assert all(line["as"] == "anonymous" and "key_id" not in line for line in refused)
        # Keys change without a request to the node.
        other = millrace.json("keys", "create", "--bucket", "box:read", "--data", str(tmp_path / "data"))[0]["access_key"]
        assert audited.one(event="key", change="added")["key_id"] == other
        assert audited.one(event="key", change="added")["rights"] == ["box:read"]
        assert millrace("keys", "remove", other, "--data", str(tmp_path / "data")).code == 0
        assert audited.one(event="key", change="removed")["key_id"] == other
    text = audited.path.read_text()
    signature = link.split("X-Amz-Signature=")[1].split("&")[0]
    assert secret not in text and signature not in text
    assert [line["event"] for line in audited.lines()][0] == "start" and audited.lines()[-1]["event"] == "stop"


def test_sighup_begins_a_new_file_and_no_line_is_lost(tmp_path):
    audited = Audited(tmp_path)
    with audited.node as node:
        for number in range(20):
            assert node.put(f"/box/k{number}", b"x").status == 200
            if number == 10:
                audited.path.rename(tmp_path / "audit.1")
                node.process.send_signal(signal.SIGHUP)
                wait_until(audited.path.exists, "no new file")
    keys = [line["key"] for path in (tmp_path / "audit.1", audited.path) for line in audited.lines(path) if line.get("operation") == "put"]
    assert keys == [f"k{number}" for number in range(20)]


def test_an_audit_that_cannot_be_written_stops_no_request(tmp_path):
    """/dev/full refuses every write, as a full drive does."""
    with Node(tmp_path, "--audit", "/dev/full") as node:
        for number in range(50):
            assert node.put(f"/box/k{number}", b"x").status == 200
        assert "millrace_audit_lines_total 0" in node.get("/-/metrics").body.decode()
        wait_until(lambda: "the audit cannot be written" in node.said(), "nobody is told")


def test_a_place_that_is_not_there_is_refused_at_the_start(tmp_path, millrace):
    done = millrace("up", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--audit", str(tmp_path / "none" / "audit"), code=None)
    assert done.code != 0 and "opening the audit" in done.err, done.err


def test_the_systems_log_gets_the_lines(tmp_path):
    log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        log.bind("/dev/log")
    except OSError as why:
        pytest.skip(f"/dev/log cannot be listened on: {why}")
    try:
        log.settimeout(30)
        with Node(tmp_path, "--audit", "syslog") as node:
            assert node.put("/box/k", b"x").status == 200
            while True:
                line = log.recv(65536).decode()
                assert line.startswith(f"<86>millrace[{node.process.pid}]: {{"), line
                if json.loads(line[line.index("{"):]).get("operation") == "put":
                    break
    finally:
        log.close()
        os.unlink("/dev/log")


def test_a_cluster_says_who_drained_what_and_which_nodes_come_and_go(tmp_path):
    with Cluster(tmp_path, 2, "--audit", tmp_path / "audit.log") as cluster:
        def find(**wanted):
            lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
            return [line for line in lines if all(line.get(name) == value for name, value in wanted.items())]

        (tmp_path / "new").mkdir()
        new = Node(tmp_path / "new", "--registry", tmp_path / "registry", port=lasting_port())
        cluster.nodes.append(new)
        new.start()
        joined = wait_until(lambda: find(event="node", change="joined", address=new.listen), "nobody saw it join")
        assert joined[0]["state"] == "serving"
        number = joined[0]["of_node"]
        assert cluster.nodes[0].ask("POST", "/-/cluster", json.dumps({"action": "drain", "node": number})).status == 200
        asked = wait_until(lambda: find(path="/-/cluster", method="POST"), "no line")
        assert json.loads(asked[0]["change"]) == {"action": "drain", "node": number}
        wait_until(lambda: find(event="node", of_node=number, state="draining", before="serving"), "nobody saw it drain")
        new.stop()
        wait_until(lambda: find(event="node", of_node=number, state="away"), "nobody saw it leave")
        # Two nodes write into one file, whole lines each.
        assert len({line["node"] for line in find(event="start")}) == 2
