"""Many clients at once: one whole winner, no lost increment, no mixed read, lists that follow writes."""
import hashlib
import http.client
import random
import threading

import pytest

from nodes import Node
from store_client import begin_upload, complete, in_threads, put_part, stored_files, wait_until

BLOCK = 4096


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with Node(tmp_path_factory.mktemp("concurrency")) as running:
        assert running.ask("PUT", "/box").status == 200
        # What is compared here is the MD5 that S3 clients get.
        assert running.ask("PUT", "/-/buckets/box", '{"etag": "md5"}').status == 200
        yield running


def content(version, size):
    """Every block names its version, so that a mix or a prefix of two versions cannot pass for one."""
    blocks = [f"{version:08} {block:08} ".encode() * (BLOCK // 18 + 1) for block in range(-(-size // BLOCK))]
    return b"".join(block[:BLOCK] for block in blocks)[:size]


def version_of(body, sizes):
    """The version that a body is, whole; fails where it is none."""
    version = int(body[:8])
    assert body == content(version, sizes(version)), f"mixed or cut: begins as version {version}, {len(body)} bytes"
    return version


def test_lookups_do_not_wait_behind_copies(tmp_path):
    with Node(tmp_path, "--set", "workers=2") as node:
        assert node.put("/box/source", b"s" * (400 << 20)).status == 200
        done = []

        def copy(number):
            done.append(node.ask("PUT", f"/box/copy{number}", None, {"x-amz-copy-source": "/box/source"}).status)

        copies = [threading.Thread(target=copy, args=(number,)) for number in range(4)]
        for thread in copies:
            thread.start()
        wait_until(lambda: node.get("/-/status").json["requests_under_way"] >= 5)
        assert node.get("/box/never-looked-for").status == 404
        assert done == []
        for thread in copies:
            thread.join()
        assert done == [200] * 4


@pytest.mark.parametrize("size", [100, 16 << 10, 100_000, 2_500_000])
def test_a2_of_many_writers_of_one_key_one_wins_whole(node, size):
    path = f"/box/raced-{size}"
    etags = in_threads(16, lambda number: node.put(path, content(number, size)).headers["etag"])
    got = node.get(path)
    winner = version_of(got.body, lambda _: size)
    assert got.headers["etag"] == etags[winner] == f'"{hashlib.md5(got.body).hexdigest()}"'
    assert node.get(f"/box?list-type=2&prefix=raced-{size}").body.count(b"<Key>") == 1


def test_the_losers_of_a_race_leave_no_files(tmp_path):
    with Node(tmp_path) as alone:
        assert alone.ask("PUT", "/box").status == 200
        in_threads(16, lambda number: [alone.put("/box/litter", content(number, 50_000)).status for _ in range(5)])
        # The winner's bytes, and a head of its own where another commit came between writing it and its commit.
        wait_until(lambda: len(stored_files(alone)) <= 2)
        assert alone.put("/box/litter", content(99, 50_000)).status == 200
        wait_until(lambda: len(stored_files(alone)) == 1)


@pytest.mark.parametrize("size", [10, 40_000])
def test_a5_if_none_match_has_exactly_one_winner_of_32(node, size):
    for turn in range(5):
        path = f"/box/first-{size}-{turn}"
        answers = in_threads(32, lambda number: node.put(path, content(number, size), If_None_Match="*"))
        statuses = sorted(answer.status for answer in answers)
        assert statuses[0] == 200 and all(status in (409, 412) for status in statuses[1:]), statuses
        winner = next(number for number, answer in enumerate(answers) if answer.status == 200)
        assert version_of(node.get(path).body, lambda _: size) == winner


def test_a5_a_counter_by_if_match_loses_no_increment(node):
    node.put("/box/counter", b"0")
    each = 25

    def increment(_):
        done = tries = 0
        while done < each:
            got = node.get("/box/counter")
            answer = node.put("/box/counter", b"%d" % (int(got.body) + 1), If_Match=got.headers["etag"])
            assert answer.status in (200, 409, 412), answer.body
            done += answer.status == 200
            tries += 1
        return tries

    tries = in_threads(8, increment)
    assert int(node.get("/box/counter").body) == 8 * each, tries


def test_a5_of_completed_uploads_one_wins(node):
    uploads = [begin_upload(node, "/box/completed") for _ in range(8)]
    etags = [put_part(node, "/box/completed", upload, 1, content(number, 50_000)).headers["etag"] for number, upload in enumerate(uploads)]
    answers = in_threads(8, lambda number: complete(node, "/box/completed", uploads[number], [(1, etags[number])], {"If-None-Match": "*"}))
    assert sorted(answer.status == 200 for answer in answers) == [False] * 7 + [True]
    winner = next(number for number, answer in enumerate(answers) if answer.status == 200)
    assert version_of(node.get("/box/completed").body, lambda _: 50_000) == winner


def test_the_same_upload_is_completed_once_or_the_same_way_twice(node):
    for turn in range(30):
        upload = begin_upload(node, "/box/twice")
        etag = put_part(node, "/box/twice", upload, 1, content(turn, 50_000)).headers["etag"]
        answers = in_threads(8, lambda _: complete(node, "/box/twice", upload, [(1, etag)]))
        outcomes = {answer.code or answer.status for answer in answers}
        assert 200 in outcomes and outcomes <= {200, "NoSuchUpload"}, outcomes
        assert version_of(node.get("/box/twice").body, lambda _: 50_000) == turn


SIZES = [300, 20_000, 1_300_000, 5_000, 700_000]


def size_of(version):
    return SIZES[version % len(SIZES)]


def test_a1_a3_readers_during_overwrites_see_one_version_whole_and_never_an_older_one(node):
    node.put("/box/moving", content(0, size_of(0)))
    stopped = threading.Event()
    acknowledged = [0]

    def write():
        for version in range(1, 150):
            assert node.put("/box/moving", content(version, size_of(version))).status == 200
            acknowledged[0] = version
        stopped.set()

    def read(number):
        seen = reads = 0
        connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=60)
        while not stopped.is_set():
            least = acknowledged[0]
            connection.request("GET", "/box/moving")
            response = connection.getresponse()
            body = response.read()
            version = version_of(body, size_of)
            assert version >= least and version >= seen, (version, least, seen)
            assert response.headers["etag"] == f'"{hashlib.md5(body).hexdigest()}"'
            seen, reads = version, reads + 1
        connection.close()
        return reads

    assert sum(in_threads(5, lambda number: write() or 0 if number == 0 else read(number))) > 0


def test_a6_ranges_pinned_by_if_match_are_all_of_one_version(node):
    size = 600_000
    node.put("/box/pinned", content(0, size))
    stopped = threading.Event()

    def write():
        for version in range(1, 80):
            node.put("/box/pinned", content(version, size))
        stopped.set()

    def read():
        whole = cut = 0
        while not stopped.is_set() or whole + cut == 0:
            etag = node.ask("HEAD", "/box/pinned").headers["etag"]
            pieces = []
            for first in range(0, size, 150_000):
                answer = node.get("/box/pinned", Range=f"bytes={first}-{first + 149_999}", If_Match=etag)
                assert answer.status in (206, 412)
                if answer.status == 412:
                    break
                pieces.append(answer.body)
            if len(pieces) == 4:
                body = b"".join(pieces)
                version_of(body, lambda _: size)
                assert etag == f'"{hashlib.md5(body).hexdigest()}"'
                whole += 1
            else:
                cut += 1
        return whole

    in_threads(4, lambda number: write() if number == 0 else read())


def test_a4_lists_follow_writes_and_deletes_at_once(node):
    node.ask("PUT", "/followed")

    def work(number):
        dice = random.Random(number)
        mine = set()
        for step in range(60):
            key = f"{number:02}/{dice.randrange(20):02}"
            if key in mine and dice.random() < 0.5:
                assert node.ask("DELETE", f"/followed/{key}").status == 204
                mine.discard(key)
            else:
                assert node.put(f"/followed/{key}", content(step, 30_000 if step % 3 else 10)).status == 200
                mine.add(key)
            assert node.keys("followed", f"{number:02}/") == sorted(mine), f"seed {number}, step {step}"
        return mine

    kept = in_threads(8, work)
    assert node.keys("followed") == sorted(key for keys in kept for key in keys)


def test_a_delete_among_readers_gives_the_whole_object_or_none(node):
    for turn in range(30):
        path = f"/box/vanishing-{turn}"
        node.put(path, content(turn, 400_000))

        def work(number):
            if number == 0:
                return node.ask("DELETE", path).status
            answer = node.get(path)
            assert answer.status in (200, 404)
            if answer.status == 200:
                assert version_of(answer.body, lambda _: 400_000) == turn
            return answer.status

        assert in_threads(5, work)[0] == 204
        assert node.get(path).status == 404
