"""millrace share: links that curl uses without a key, for their object, their method and their time."""
import subprocess

import pytest

from conftest import HANG_SECONDS, Millrace
from nodes import Node
from store_client import Signer, wait_until

CONTENT = b"a shard\n" * 1000


def curl(*words):
    """What came, and the status."""
    done = subprocess.run(["curl", "-sS", "-w", "\n%{http_code}", *map(str, words)], capture_output=True, timeout=HANG_SECONDS, check=True)
    body, _, status = done.stdout.rpartition(b"\n")
    return body, int(status)


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    directory = tmp_path_factory.mktemp("share")
    key = Millrace(directory).json("keys", "create", "--data", directory / "data", "--bucket", "train:read-write")[0]
    admin = Millrace(directory).json("keys", "create", "--data", directory / "data", "--admin")[0]
    with Node(directory) as running:
        assert Signer(running, admin["access_key"], admin["secret_key"]).ask("PUT", "/train").status == 200
        running.by = Signer(running, key["access_key"], key["secret_key"])
        assert running.by.ask("PUT", "/train/a.tar", CONTENT).status == 200
        running.env = {"MILLRACE_ENDPOINT": running.url, "MILLRACE_ACCESS_KEY": key["access_key"], "MILLRACE_SECRET_KEY": key["secret_key"]}
        yield running


def link_of(millrace, node, *words):
    return millrace("share", *words, env=node.env).text.strip()


def test_a_link_is_read_by_curl_without_a_key(millrace, node):
    assert curl(node.url + "/train/a.tar")[1] == 403
    link = link_of(millrace, node, "mr://train/a.tar", "--expires", "1d")
    assert "X-Amz-Expires=86400" in link and curl(link) == (CONTENT, 200)
    assert curl("-r", "0-6", link) == (b"a shard", 206)


def test_a_link_cannot_be_altered(millrace, node, tmp_path):
    (tmp_path / "new").write_bytes(b"new")
    link = link_of(millrace, node, "mr://train/a.tar", "--expires", "60s")
    for other in (link.replace("/a.tar", "/b.tar"), link.replace("Expires=60", "Expires=6000"), link + "&tagging", link[:-1] + ("0" if link[-1] != "0" else "1")):
        body, status = curl(other)
        assert status == 403 and b"SignatureDoesNotMatch" in body, other
    assert curl("-T", tmp_path / "new", link)[1] == 403 and curl("-X", "DELETE", link)[1] == 403
    assert curl(link) == (CONTENT, 200)


def test_a_link_expires(millrace, node):
    link = link_of(millrace, node, "mr://train/a.tar", "--expires", "1s")
    wait_until(lambda: curl(link)[1] == 403)
    assert b"expired" in curl(link)[0]


def test_a_link_to_write_takes_a_put_alone(millrace, node, tmp_path):
    (tmp_path / "results.tar").write_bytes(b"results")
    link = link_of(millrace, node, "--put", "mr://train/in box/results+1.tar", "--expires", "10m")
    assert curl(link)[1] == 403
    assert curl("-T", tmp_path / "results.tar", link)[1] == 200
    assert node.by.ask("GET", "/train/in%20box/results%2B1.tar").body == b"results"


def test_links_of_several_objects_as_json(millrace, node):
    node.by.ask("PUT", "/train/several-0.tar", b"0")
    node.by.ask("PUT", "/train/several-1.tar", b"1")
    rows = [row for row in millrace.json("share", "mr://train/several-*.tar", env=node.env)]
    assert [row["url"] for row in rows] == ["mr://train/several-0.tar", "mr://train/several-1.tar"]
    assert [curl(row["link"])[0] for row in rows] == [b"0", b"1"]
    assert all(row["method"] == "GET" and row["expires"].endswith("Z") for row in rows)


def test_what_cannot_be_shared_is_said_with_the_next_step(millrace, node):
    assert "7 days" in millrace("share", "mr://train/a.tar", "--expires", "8d", env=node.env, code=None).err
    assert "12h" in millrace("share", "mr://train/a.tar", "--expires", "soon", env=node.env, code=None).err
    assert "names no object" in millrace("share", "--put", "mr://train", env=node.env, code=None).err
    keyless = {"MILLRACE_ENDPOINT": node.url}
    assert "MILLRACE_ACCESS_KEY" in millrace("share", "mr://train/a.tar", env=keyless, code=None).err
    assert "millrace share mr://" in millrace("share", "--help").text
