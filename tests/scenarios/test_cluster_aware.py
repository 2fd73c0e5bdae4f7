"""Who answers in a cluster: what nodes say of where bytes are, whom they send on, and clients that go straight to the holders."""
import http.client
import os
import pathlib
import re
import subprocess
import urllib.parse

import pytest

from clusters import Cluster, pattern
from conftest import binary
from nodes import Answer, Node
from store_client import MIB, Signer, wait_until

WHERE = re.compile(r"^(\d+)\+(\d+) (\d+) (.+)$")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("aware"), 4) as running:
        running.make_bucket("pairs", redundancy="copies=2")
        running.make_bucket("stripes", redundancy="2+1")
        yield running


def plain(node, method, path, headers=None):
    """As any HTTP client that follows nothing by itself."""
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=60)
    try:
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        return Answer(response, response.read())
    finally:
        connection.close()


def where(node, path):
    """k, m, cell, and the holders in the order of slots."""
    k, m, cell, holders = WHERE.match(node.ask("HEAD", path).headers["x-millrace-where"]).groups()
    return int(k), int(m), int(cell), holders.split(",")


def at(cluster, address):
    return next(node for node in cluster.nodes if node.listen == address)


def counter(node, name):
    return float(re.search(rf"^millrace_requests_{name}_total (\S+)$", node.get("/-/metrics").body.decode(), re.M).group(1))


def counters(cluster, name):
    return sum(counter(node, name) for node in cluster.living)


def someone_else(cluster, holders):
    return next(node for node in cluster.nodes if node.listen not in holders)


# The header.

@pytest.mark.parametrize("bucket, k, m", [("pairs", 1, 1), ("stripes", 2, 1)])
def test_named_holders_have_the_bytes_and_ask_nobody(cluster, bucket, k, m):
    body = pattern(bucket, 5 * MIB + 17)
    path = f"/{bucket}/named"
    assert cluster.nodes[0].put(path, body).status == 200
    told = {str(where(node, path)) for node in cluster.nodes}
    assert len(told) == 1
    found_k, found_m, cell, holders = where(cluster.nodes[0], path)
    assert (found_k, found_m, len(holders), len(set(holders))) == (k, m, k + m, k + m)
    assert cell == MIB
    before = counters(cluster, "relayed")
    for first in range(0, len(body), cell):
        last = min(first + cell, len(body)) - 1
        owners = holders if k == 1 else [holders[first // cell % k]]
        for owner in owners:
            answer = plain(at(cluster, owner), "GET", path, {"Range": f"bytes={first}-{last}"})
            assert answer.status == 206 and answer.body == body[first:last + 1]
            assert answer.headers["x-millrace-where"]
    assert counters(cluster, "relayed") == before


def test_small_cells_are_told_as_they_are(cluster):
    body = pattern("cells", 300_000)
    assert cluster.nodes[1].put("/stripes/small-cells", body).status == 200
    k, _, cell, holders = where(cluster.nodes[2], "/stripes/small-cells")
    assert k == 2 and cell < MIB
    before = counters(cluster, "relayed")
    assert plain(at(cluster, holders[1]), "GET", "/stripes/small-cells", {"Range": f"bytes={cell}-{cell + 9}"}).body == body[cell:cell + 10]
    assert counters(cluster, "relayed") == before


def test_what_lies_with_its_record_has_no_header(cluster):
    assert cluster.nodes[0].put("/pairs/tiny", b"x" * 16384).status == 200
    for node in cluster.nodes:
        answer = plain(node, "GET", "/pairs/tiny")
        assert answer.status == 200 and "x-millrace-where" not in answer.headers


def test_a_holder_that_is_away_is_a_dash(tmp_path):
    with Cluster(tmp_path, 3) as running:
        running.make_bucket("triples", redundancy="copies=3")
        body = pattern("dash", 200_000)
        assert running.nodes[0].put("/triples/a", body).status == 200
        lost = running.nodes[2]
        slot = where(running.nodes[0], "/triples/a")[3].index(lost.listen)
        running.kill(lost)
        running.wait_until_serving(running.nodes[:2])
        assert where(running.nodes[0], "/triples/a")[3][slot] == "-"
        assert plain(running.nodes[1], "GET", "/triples/a").body == body


# Redirects.

def test_a_plain_get_elsewhere_is_sent_to_a_holder_once(cluster):
    body = pattern("sent", 3 * MIB)
    path = "/pairs/sent%20on/a+b"
    assert cluster.nodes[0].put(path, body).status == 200
    holders = where(cluster.nodes[0], path)[3]
    other = someone_else(cluster, holders)
    before, relayed = counter(other, "redirected"), counters(cluster, "relayed")
    answer = plain(other, "GET", path)
    assert (answer.status, answer.body) == (307, b"")
    target = urllib.parse.urlsplit(answer.headers["location"])
    assert target.scheme == "http" and target.netloc in holders
    assert target.query == "x-millrace-hop=1"
    there = plain(at(cluster, target.netloc), "GET", f"{target.path}?{target.query}")
    assert there.status == 200 and there.body == body
    assert counter(other, "redirected") == before + 1
    assert counters(cluster, "relayed") == relayed
    got = subprocess.run(["curl", "-sfL", other.url + path], capture_output=True, check=True)
    assert got.stdout == body
    part = subprocess.run(["curl", "-sfL", "-r", "100-299", other.url + path], capture_output=True, check=True)
    assert part.stdout == body[100:300]


def test_whoever_was_sent_on_is_not_sent_again(cluster):
    body = pattern("hop", 200_000)
    assert cluster.nodes[0].put("/pairs/hop", body).status == 200
    other = someone_else(cluster, where(cluster.nodes[0], "/pairs/hop")[3])
    relayed = counter(other, "relayed")
    answer = plain(other, "GET", "/pairs/hop?x-millrace-hop=1")
    assert answer.status == 200 and answer.body == body
    assert counter(other, "relayed") == relayed + 1


@pytest.mark.parametrize("method, target", [("GET", "/pairs?x-millrace-hop=1"), ("HEAD", "/pairs/hop?x-millrace-hop=1"),
                                            ("GET", "/pairs/hop?x-millrace-hop=2"), ("GET", "/pairs/hop?tagging&x-millrace-hop=1"),
                                            ("DELETE", "/pairs/hop?x-millrace-hop=1"), ("PUT", "/pairs/hop?x-millrace-hop=1")])
def test_the_mark_of_a_redirect_is_refused_elsewhere(cluster, method, target):
    assert plain(cluster.nodes[0], method, target).status == 501


def test_a_stretch_of_one_cell_is_sent_on_and_a_longer_one_is_put_together(cluster):
    body = pattern("stretch", 4 * MIB)
    assert cluster.nodes[0].put("/stripes/stretch", body).status == 200
    _, _, cell, holders = where(cluster.nodes[0], "/stripes/stretch")
    for slot in (0, 1):
        inside = f"bytes={slot * cell + 5}-{slot * cell + 99}"
        for node in cluster.nodes:
            answer = plain(node, "GET", "/stripes/stretch", {"Range": inside})
            if node.listen == holders[slot]:
                assert answer.status == 206
            else:
                assert answer.status == 307
                assert urllib.parse.urlsplit(answer.headers["location"]).netloc == holders[slot]
    for node in cluster.nodes:
        over = plain(node, "GET", "/stripes/stretch", {"Range": f"bytes={cell - 5}-{cell + 4}"})
        assert over.status == 206 and over.body == body[cell - 5:cell + 5]
        whole = plain(node, "GET", "/stripes/stretch")
        assert whole.status == 200 and whole.body == body


def test_conditions_are_judged_before_anyone_is_sent_on(cluster):
    body = pattern("judged", 200_000)
    etag = cluster.nodes[0].put("/pairs/judged", body).headers["etag"]
    other = someone_else(cluster, where(cluster.nodes[0], "/pairs/judged")[3])
    assert plain(other, "GET", "/pairs/judged", {"If-None-Match": etag}).status == 304
    assert plain(other, "GET", "/pairs/judged", {"If-Match": '"other"'}).status == 412
    assert plain(other, "GET", "/pairs/judged", {"Range": "bytes=200000-"}).status == 416
    assert plain(other, "HEAD", "/pairs/judged").status == 200


def test_pages_and_those_who_say_no_are_not_sent_on(cluster):
    body = pattern("pages", 200_000)
    assert cluster.nodes[0].put("/pairs/pages", body).status == 200
    other = someone_else(cluster, where(cluster.nodes[0], "/pairs/pages")[3])
    for headers in ({"x-millrace-redirect": "no"}, {"Sec-Fetch-Site": "same-origin"}, {"Origin": other.url}):
        answer = plain(other, "GET", "/pairs/pages", headers)
        assert answer.status == 200 and answer.body == body, headers
    assert plain(other, "GET", "/pairs/pages", {"x-millrace-redirect": "perhaps"}).status == 400


def test_signed_requests_are_sent_on_only_if_they_ask_for_it(cluster):
    body = pattern("signed", 200_000)
    assert cluster.nodes[0].put("/pairs/signed", body).status == 200
    other = someone_else(cluster, where(cluster.nodes[0], "/pairs/signed")[3])
    signer = Signer(other, "anyone", "secret")
    relayed = plain(other, "GET", "/pairs/signed", signer.headers("GET", "/pairs/signed"))
    assert relayed.status == 200 and relayed.body == body
    asked = signer.headers("GET", "/pairs/signed", extra={"x-millrace-redirect": "yes"})
    assert plain(other, "GET", "/pairs/signed", asked).status == 307
    presigned = plain(other, "GET", signer.presign("GET", "/pairs/signed"), {"x-millrace-redirect": "yes"})
    assert presigned.status == 200 and presigned.body == body


# Our own clients.

def run(*words, env=None, **options):
    return subprocess.run([binary(), *map(str, words)], capture_output=True, env={**os.environ, **(env or {})}, **options)


@pytest.mark.parametrize("bucket", ["pairs", "stripes"])
def test_get_and_cat_go_to_the_holders(cluster, bucket, tmp_path):
    body = pattern(("get", bucket), 40 * MIB + 3)
    assert cluster.nodes[0].put(f"/{bucket}/large", body).status == 200
    for node in cluster.nodes:
        before = counters(cluster, "relayed")
        outcome = run("get", f"{node.url}/{bucket}/large", tmp_path / "back")
        assert outcome.returncode == 0, outcome.stderr
        assert (tmp_path / "back").read_bytes() == body
        assert counters(cluster, "relayed") == before
        assert run("get", f"{node.url}/{bucket}/large", "-").stdout == body


def test_get_goes_on_when_a_node_dies_in_the_middle(tmp_path):
    with Cluster(tmp_path, 4) as running:
        running.make_bucket("stripes", redundancy="2+1")
        body = pattern("middle", 400 * MIB)
        (tmp_path / "large").write_bytes(body)
        subprocess.run(["curl", "-sf", "-T", tmp_path / "large", f"{running.nodes[0].url}/stripes/large"], check=True)
        victim = at(running, where(running.nodes[0], "/stripes/large")[3][0])
        back = tmp_path / "back"
        process = subprocess.Popen([binary(), "get", f"{victim.url}/stripes/large", str(back)], stderr=subprocess.PIPE)
        state = pathlib.Path(f"{back}.millrace-part.state")
        wait_until(lambda: back.exists() or (state.exists() and state.read_text().count("\n") > 2), "nothing arrived")
        assert not back.exists(), "the file was whole before a node could be killed: it must be larger"
        running.kill(victim)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert back.read_bytes() == body


# Writing.

def received(node):
    """Bytes of objects that were put to this node."""
    told = re.search(r'^millrace_request_received_bytes_total{operation="put"} (\S+)$', node.get("/-/metrics").body.decode(), re.M)
    return float(told.group(1)) if told else 0.0


@pytest.mark.parametrize("bucket", ["pairs", "stripes"])
def test_a_place_that_was_told_is_where_the_object_lies(cluster, bucket):
    told = plain(cluster.nodes[1], "HEAD", f"/{bucket}/placed?place={5 * MIB}")
    assert told.status == 200
    assert cluster.nodes[2].put(f"/{bucket}/placed", pattern("placed", 5 * MIB)).status == 200
    assert told.headers["x-millrace-where"].split()[-1].split(",") == where(cluster.nodes[0], f"/{bucket}/placed")[3]


def test_questions_for_a_place_that_make_no_sense_are_refused(cluster):
    node = cluster.nodes[0]
    for query in ("place", "place=", "place=-1", "place=many", "place=5&acl", "place=5&versionId=null", "place=5&other"):
        assert plain(node, "HEAD", f"/pairs/o?{query}").status in (400, 501), query
    assert plain(node, "GET", "/pairs/o?place=5").status == 501
    assert plain(node, "HEAD", "/nothing/o?place=5").status == 404


def test_the_redundancy_of_a_bucket_comes_when_it_is_made_or_not_at_all(cluster):
    node, wanted = cluster.nodes[0], {"x-millrace-redundancy": "copies=2"}
    assert node.ask("PUT", "/pairs/o", b"x", wanted).status == 501
    assert node.ask("PUT", "/odd", None, {"x-millrace-redundancy": "many"}).status == 400
    assert node.ask("PUT", "/odd", None, {**wanted, "x-millrace-floor": "much"}).status == 400
    assert node.ask("HEAD", "/odd").status == 404


@pytest.mark.parametrize("bucket", ["pairs", "stripes"])
def test_put_goes_to_a_holder(cluster, bucket, tmp_path):
    """Whichever node is named, the bytes are sent once to a node that keeps some of them, and to no other."""
    for number, named in enumerate(cluster.nodes):
        body = pattern((bucket, "sent", number), 3 * MIB)
        (tmp_path / "sent").write_bytes(body)
        before = {node.listen: received(node) for node in cluster.nodes}
        subprocess.run([binary(), "--quiet", "put", tmp_path / "sent", f"{named.url}/{bucket}/sent{number}"], check=True)
        takers = [node.listen for node in cluster.nodes if received(node) > before[node.listen]]
        assert len(takers) == 1 and takers[0] == where(named, f"/{bucket}/sent{number}")[3][0]
        assert named.get(f"/{bucket}/sent{number}").body == body


def test_put_goes_on_where_the_holder_that_was_told_has_just_died(tmp_path):
    with Cluster(tmp_path, 4) as cluster:
        cluster.make_bucket("pairs", redundancy="copies=2")
        told = plain(cluster.nodes[0], "HEAD", f"/pairs/sent?place={3 * MIB}").headers["x-millrace-where"]
        home = at(cluster, told.split()[-1].split(",")[0])
        named = next(node for node in cluster.nodes if node is not home)
        (tmp_path / "sent").write_bytes(pattern("sent", 3 * MIB))
        cluster.kill(home)
        subprocess.run([binary(), "--quiet", "put", tmp_path / "sent", f"{named.url}/pairs/sent"], check=True, timeout=60)
        assert named.get("/pairs/sent").body == pattern("sent", 3 * MIB)


def test_a_node_alone_is_asked_for_a_place_once(tmp_path):
    with Node(tmp_path) as node:
        assert node.ask("PUT", "/alone").status == 200
        for number in range(3):
            (tmp_path / f"sent{number}").write_bytes(pattern(number, 3 * MIB))
        subprocess.run([binary(), "--quiet", "put", *(tmp_path / f"sent{number}" for number in range(3)), "--jobs", "1", f"{node.url}/alone/"], check=True)
        asked = re.search(r'^millrace_request_seconds_count{operation="find_place"} (\S+)$', node.get("/-/metrics").body.decode(), re.M)
        assert float(asked.group(1)) == 1
