"""Nodes of a cluster that speak TLS, to clients and to each other, with certificates of an authority of their own."""
import http.client
import json
import socket
import ssl
import subprocess

import pytest

from clusters import Cluster, pattern
from nodes import Answer, Node, lasting_port
from store_client import MIB

SIZES = {"small": 300, "copied": 100_000, "striped": 3 * MIB + 5}


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A directory with ca.pem, and node.pem and node.key for 127.0.0.1 that it signed."""
    directory = tmp_path_factory.mktemp("authority")
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", directory / "ca.key", "-out", directory / "ca.pem", "-days", 2, "-subj", "/CN=test authority")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", directory / "node.key", "-out", directory / "node.csr", "-subj", "/CN=node")
    (directory / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", directory / "node.csr", "-CA", directory / "ca.pem", "-CAkey", directory / "ca.key", "-CAcreateserial", "-out", directory / "node.pem",
            "-days", 2, "-extfile", directory / "names")
    return directory


class TlsNode(Node):
    """Talked to by TLS, and believed only with the authority's certificate."""

    def __init__(self, directory, authority, *flags):
        super().__init__(directory, "--tls-cert", authority / "node.pem", "--tls-key", authority / "node.key", "--tls-ca", authority / "ca.pem", *flags, port=lasting_port())
        self.context = ssl.create_default_context(cafile=str(authority / "ca.pem"))

    def ask(self, method, path, body=None, headers=None, timeout=60):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.context)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return Answer(response, response.read())
        finally:
            connection.close()


class TlsCluster(Cluster):
    def __init__(self, directory, authority, kinds):
        self.directory = directory
        self.nodes = []
        for number, kind in enumerate(kinds):
            (directory / f"n{number}").mkdir()
            flags = ("--registry", directory / "registry")
            if kind == "tls":
                self.nodes.append(TlsNode(directory / f"n{number}", authority, *flags))
            else:
                self.nodes.append(Node(directory / f"n{number}", "--tls-ca", authority / "ca.pem", *flags, port=lasting_port()))


@pytest.mark.parametrize("kinds", [["tls"] * 3, ["tls", "plain", "tls"]], ids=["all", "while it is introduced"])
def test_objects_go_through_every_node_under_tls(tmp_path, authority, kinds):
    with TlsCluster(tmp_path, authority, kinds) as cluster:
        cluster.make_bucket("bucket", redundancy="2+1")
        bodies = {}
        for number, (name, size) in enumerate(SIZES.items()):
            bodies[name] = pattern(name, size)
            assert cluster.nodes[number].put(f"/bucket/{name}", bodies[name]).status == 200
        for node in cluster.nodes:
            for name, body in bodies.items():
                answer = node.get(f"/bucket/{name}")
                assert answer.status == 200 and answer.body == body
                # Nobody is sent to another node by an address that has no scheme.
                assert "tls" not in kinds or not any(one in answer.headers.get("x-millrace-where", "") for one in
                                                     (other.listen for other, kind in zip(cluster.nodes, kinds) if kind == "tls"))
            assert node.keys("bucket") == sorted(bodies)
        told = {one["address"]: one["tls"] for one in cluster.nodes[0].get("/-/cluster").json["nodes"]}
        assert told == {node.listen: kind == "tls" for node, kind in zip(cluster.nodes, kinds)}
        # With one node gone as well.
        cluster.kill(cluster.nodes[2])
        for node in cluster.nodes[:2]:
            assert node.get("/bucket/striped").body == bodies["striped"]


def test_a_plain_request_is_told_that_tls_is_wanted(tmp_path, authority):
    with TlsCluster(tmp_path, authority, ["tls", "tls"]) as cluster:
        with socket.create_connection(("127.0.0.1", cluster.nodes[0].port)) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"this port speaks TLS" in plain.recv(2000)


def test_keys_are_in_force_on_tls_nodes_when_the_command_returns(tmp_path, authority, millrace):
    with TlsCluster(tmp_path, authority, ["tls", "tls"]) as cluster:
        done = millrace("--json", "keys", "create", "--registry", tmp_path / "registry", "--tls-ca", authority / "ca.pem", "--admin")
        assert json.loads(done.out)["access_key"]
        assert "did not say" not in done.err, done.err
        for node in cluster.nodes:
            assert node.ask("PUT", "/other").status == 403


def test_a_node_whose_certificate_nobody_signed_is_not_believed(tmp_path, authority):
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", tmp_path / "node.key", "-out", tmp_path / "node.pem", "-days", 2, "-subj", "/CN=127.0.0.1",
            "-addext", "subjectAltName=IP:127.0.0.1")
    (tmp_path / "ca.pem").write_bytes((authority / "ca.pem").read_bytes())
    with TlsCluster(tmp_path, authority, ["tls", "tls"]) as cluster:
        cluster.make_bucket("bucket", redundancy="copies=2")
        assert cluster.nodes[0].put("/bucket/key", b"x" * 100_000).status == 200
        stranger = cluster.nodes[1]
        cluster.kill(stranger)
        stranger.flags[1], stranger.flags[3] = str(tmp_path / "node.pem"), str(tmp_path / "node.key")
        stranger.context = ssl.create_default_context(cafile=str(tmp_path / "node.pem"))
        stranger.start()
        cluster.wait_until_serving(cluster.nodes)
        answer = cluster.nodes[0].ask("PUT", "/bucket/other", b"y" * 100_000, timeout=90)
        assert answer.status == 503, answer.status
