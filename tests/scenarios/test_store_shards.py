"""Shards in the store: their index, members and samples, and batches of them, compared with what Python reads."""
import gzip
import io
import json
import os
import random
import subprocess
import tarfile
import urllib.parse
import urllib.request

import pytest

from nodes import Node
from store_client import MIB, begin_upload, complete, make_tar, put_in_parts, put_part, read_tar, wait_until

SAMPLES = [(f"dir/{number:05}", {"jpg": random.Random(number).randbytes(700 + 37 * number), "cls": b"%d" % number, "json": b"{}" if number % 3 else b""})
           for number in range(50)]
MEMBERS = [(f"{key}.{name}", content) for key, parts in SAMPLES for name, content in parts.items()]
TAR = make_tar(MEMBERS)


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True, check=True).stdout


FORMS = {"plain.tar": TAR, "packed.tgz": gzip.compress(TAR), "packed.tar.gz": gzip.compress(TAR), "packed.tar.zst": zstd(TAR)}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with Node(tmp_path_factory.mktemp("shards")) as running:
        put_forms(running)
        yield running


def put_forms(node):
    for name, content in FORMS.items():
        assert node.put(f"/train/{name}", content).status == 200
        ready(node, f"/train/{name}")
    node.put("/train/readme.txt", b"no tar")


def state(node, path):
    headers = node.ask("HEAD", path).headers
    return headers.get("x-millrace-index"), headers.get("x-millrace-samples")


def ready(node, path):
    wait_until(lambda: state(node, path)[0] != "pending", f"{path} stayed pending", seconds=20)
    return state(node, path)


@pytest.mark.parametrize("name", FORMS)
def test_a_shard_says_that_it_is_ready_and_how_many_samples_it_has(node, name):
    assert state(node, f"/train/{name}") == ("ready", str(len(SAMPLES)))
    assert node.get(f"/train/{name}").body == FORMS[name]
    assert state(node, "/train/readme.txt") == (None, None)


def test_the_index_is_the_one_that_millrace_tar_index_makes(node, millrace, tmp_path):
    (tmp_path / "plain.tar").write_bytes(TAR)
    before = set(os.listdir(tmp_path))
    millrace("tar", "index", "plain.tar")
    sidecar = (set(os.listdir(tmp_path)) - before).pop()
    answer = node.get("/train/plain.tar?index")
    assert answer.status == 200 and answer.headers["etag"] == node.get("/train/plain.tar").headers["etag"]
    assert answer.body == (tmp_path / sidecar).read_bytes()


def test_a_member_that_is_cut_off_is_none(node):
    name, content = MEMBERS[5]
    cut = TAR[:TAR.index(content) + len(content) // 2]
    node.put("/train/cut.tar", cut)
    ready(node, "/train/cut.tar")
    assert node.get(f"/train/cut.tar?member={MEMBERS[4][0]}").body == MEMBERS[4][1]
    answer = node.get(f"/train/cut.tar?member={name}")
    assert answer.status == 404 and b"cannot be indexed" in answer.body and name.encode() in answer.body, answer.body


@pytest.mark.parametrize("name", FORMS)
def test_every_member_comes_as_python_reads_it(node, name):
    for member, content in MEMBERS[::7] + [MEMBERS[0], MEMBERS[-1]]:
        answer = node.get(f"/train/{name}?member={member}")
        assert answer.status == 200 and answer.body == content, member
        head = node.ask("HEAD", f"/train/{name}?member={member}")
        assert head.headers["content-length"] == str(len(content)) and head.body == b""


@pytest.mark.parametrize("name", FORMS)
def test_samples_are_valid_tars_of_exactly_their_members(node, name):
    for first, last in ((0, 0), (7, 7), (len(SAMPLES) - 1,) * 2, (0, 4), (10, 33), (0, len(SAMPLES) - 1)):
        answer = node.get(f"/train/{name}?samples={first}-{last}")
        assert answer.status == 200 and read_tar(answer.body) == MEMBERS[3 * first : 3 * last + 3]
        assert len(answer.body) % 512 == 0 and answer.body.endswith(bytes(1024))
    assert read_tar(node.get(f"/train/{name}?sample=17").body) == MEMBERS[51:54]


@pytest.mark.parametrize("query, status, code", [("member=dir/none.jpg", 404, "NoSuchMember"), ("member=", 404, "NoSuchMember"), ("member=../etc/passwd", 404, "NoSuchMember"),
                                                 ("sample=50", 404, "NoSuchSample"), ("samples=40-50", 404, "NoSuchSample"), ("sample=-1", 400, "InvalidArgument"),
                                                 ("samples=5-2", 400, "InvalidArgument"), ("sample=x", 400, "InvalidArgument"), ("samples=1-2-3", 400, "InvalidArgument"),
                                                 ("sample=18446744073709551615", 404, "NoSuchSample"), ("sample=99999999999999999999", 400, "InvalidArgument"),
                                                 ("samples=", 400, "InvalidArgument")])
def test_what_a_shard_does_not_have(node, query, status, code):
    for name in ("plain.tar", "packed.tar.zst"):
        answer = node.get(f"/train/{name}?{query}")
        assert (answer.status, answer.code) == (status, code), answer.body


def test_objects_that_are_no_shards_have_no_index(node):
    for query in ("index", "member=x", "sample=0"):
        assert node.get(f"/train/readme.txt?{query}").code == "NoSuchIndex", query
        assert node.get(f"/train/none.tar?{query}").code == "NoSuchKey", query


def test_a_compressed_shard_that_is_kept_in_the_index_becomes_ready_too(node):
    small = make_tar([("a.txt", b"a"), ("b.txt", b"b")])
    for name, content in (("small.tgz", gzip.compress(small)), ("small.tar.zst", zstd(small))):
        node.put(f"/train/{name}", content)
        assert node.get(f"/train/{name}?index").status == 200
        assert read_tar(node.get(f"/train/{name}?sample=1").body) == [("b.txt", b"b")]
        assert state(node, f"/train/{name}") == ("ready", "2"), name


BROKEN = {"text.tar": b"this is not a tar, however long it is. " * 100, "cut.tar": TAR[:5000], "bytes.tar": random.Random(5).randbytes(30_000),
          "short.tgz": gzip.compress(TAR)[:20_000], "no.tar.zst": b"(\xb5/\xfd" + b"x" * 20_000, "small.tar": b"x"}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_tar_is_a_good_object_without_an_index(node, name):
    etag = node.put(f"/train/{name}", BROKEN[name]).headers["etag"]
    assert ready(node, f"/train/{name}")[0] == "invalid"
    got = node.get(f"/train/{name}")
    assert got.body == BROKEN[name] and got.headers["etag"] == etag
    for query in ("index", "member=x.jpg", "sample=0"):
        assert node.get(f"/train/{name}?{query}").code == "NoSuchIndex"


def test_an_empty_tar_has_no_samples(node):
    node.put("/train/empty.tar", bytes(10240))
    assert ready(node, "/train/empty.tar") == ("ready", "0")
    assert node.get("/train/empty.tar?sample=0").code == "NoSuchSample"


def test_an_overwritten_shard_is_read_by_its_new_index(node):
    for count in (5, 3, 8):
        members = [(f"{number:02}.txt", b"%d of %d" % (number, count)) for number in range(count)]
        node.put("/train/changing.tar", make_tar(members))
        assert ready(node, "/train/changing.tar") == ("ready", str(count))
        assert [read_tar(node.get(f"/train/changing.tar?sample={number}").body)[0] for number in range(count)] == members
        assert node.get(f"/train/changing.tar?sample={count}").status == 404


def test_a_shard_that_came_in_parts_or_chunks_or_by_copy_becomes_ready(node):
    members = [(f"{number:03}.bin", os.urandom(400_000)) for number in range(30)]
    content = make_tar(members)
    put_in_parts(node, "/train/parts.tar", [content[: 5 * MIB + 7], content[5 * MIB + 7 : 10 * MIB + 100], content[10 * MIB + 100 :]])
    node.ask("PUT", "/train/chunks.tar", iter([content[at : at + 100_001] for at in range(0, len(content), 100_001)]))
    node.ask("PUT", "/train/copied.tar", None, {"x-amz-copy-source": "/train/parts.tar"})
    for name in ("parts.tar", "chunks.tar", "copied.tar"):
        assert ready(node, f"/train/{name}") == ("ready", "30"), name
        for number in (0, 12, 13, 29):
            assert read_tar(node.get(f"/train/{name}?sample={number}").body) == [members[number]]
        assert node.get(f"/train/{name}?member=017.bin").body == members[17][1]


def test_shards_stay_ready_over_a_restart(tmp_path):
    node = Node(tmp_path)
    with node:
        node.put("/train/kept.tar", TAR)
        upload = begin_upload(node, "/train/late.tar")
        etag = put_part(node, "/train/late.tar", upload, 1, TAR).headers["etag"]
        complete(node, "/train/late.tar", upload, [(1, etag)])
    with node:
        for name in ("kept.tar", "late.tar"):
            assert ready(node, f"/train/{name}") == ("ready", "50")
            assert node.get(f"/train/{name}?member={MEMBERS[30][0]}").body == MEMBERS[30][1]


def test_long_names_links_and_directories_do_not_disturb_samples(node):
    out = io.BytesIO()
    long_name = "d" * 90 + "/" + "é" * 120
    with tarfile.open(fileobj=out, mode="w:", format=tarfile.PAX_FORMAT) as archive:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name in (long_name + ".a", long_name + ".b", "z.a"):
            member = tarfile.TarInfo(name)
            member.size = 4
            archive.addfile(member, io.BytesIO(b"body"))
    node.put("/train/odd.tar", out.getvalue())
    assert ready(node, "/train/odd.tar")[0] == "ready"
    for suffix in "ab":
        assert node.get("/train/odd.tar?member=" + urllib.parse.quote(f"{long_name}.{suffix}")).body == b"body"


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd], ids=["tar", "tgz", "tar.zst"])
def test_members_that_belong_to_no_sample_are_found(node, request, pack):
    name = "mixed." + request.node.callspec.id
    node.put(f"/train/{name}", pack(make_tar([("README", b"read me"), ("a.jpg", b"a" * 3000), ("dir/LICENSE", b"free"), ("b.jpg", b"b")])))
    assert ready(node, f"/train/{name}")[0] == "ready"
    for member, content in (("README", b"read me"), ("dir/LICENSE", b"free"), ("b.jpg", b"b")):
        assert node.get(f"/train/{name}?member={member}").body == content, member
    assert node.get(f"/train/{name}?member=NOTICE").code == "NoSuchMember"
    found = read_tar(batch(node, [{"object": name, "member": "README"}, {"object": name, "sample": 1}]).body)
    assert found == [("README", b"read me"), ("b.jpg", b"b")]


def test_a_shard_without_index_says_why_and_gives_its_members(node):
    scattered = make_tar([("a.jpg", b"1"), ("b.jpg", b"2" * 20_000), ("a.txt", b"3")])
    node.put("/train/scattered.tar", scattered)
    put_in_parts(node, "/train/late.tar", [scattered])
    node.ask("PUT", "/train/copied.bin", None, {"x-amz-copy-source": "/train/scattered.tar"})
    node.ask("PUT", "/train/copied.tar", None, {"x-amz-copy-source": "/train/scattered.tar"})
    for name in ("scattered.tar", "late.tar", "copied.tar"):
        assert ready(node, f"/train/{name}")[0] == "invalid"
        assert "scattered" in node.ask("HEAD", f"/train/{name}").headers["x-millrace-index-problem"]
        for query in ("index", "sample=0"):
            refused = node.get(f"/train/{name}?{query}")
            assert refused.code == "NoSuchIndex" and b"scattered" in refused.body, query
        assert node.get(f"/train/{name}?member=a.txt").body == b"3"
        assert node.get(f"/train/{name}?member=c.txt").code == "NoSuchMember"
    assert "x-millrace-index-problem" not in node.ask("HEAD", "/train/copied.bin").headers
    node.put("/train/scattered.tar", TAR)
    assert ready(node, "/train/scattered.tar")[0] == "ready"
    assert "x-millrace-index-problem" not in node.ask("HEAD", "/train/scattered.tar").headers


# Batches.

def batch(node, entries, **options):
    body = {"entries": entries, **options} if options else entries
    return node.ask("POST", "/train?batch", json.dumps(body))


def test_a7_a_batch_has_everything_in_the_order_asked_for(node):
    dice = random.Random(11)
    entries, wanted = [], []
    for _ in range(120):
        name, number = dice.choice(list(FORMS)), dice.randrange(len(SAMPLES))
        kind = dice.randrange(4)
        member, content = MEMBERS[3 * number]
        if kind == 0:
            entries.append({"object": name, "sample": number})
            wanted += MEMBERS[3 * number : 3 * number + 3]
        elif kind == 1:
            entries.append({"object": name, "member": member})
            wanted.append((member, content))
        elif kind == 2:
            entries.append({"object": name, "range": f"bytes={number}-{number + 99}", "name": f"range-{number}"})
            wanted.append((f"range-{number}", FORMS[name][number : number + 100]))
        else:
            entries.append({"object": "readme.txt"})
            wanted.append(("readme.txt", b"no tar"))
    answer = batch(node, entries)
    assert answer.status == 200 and answer.headers["content-type"] == "application/x-tar"
    assert read_tar(answer.body) == wanted


# Of the 1.8 GB that are sent. Builds with sanitizers keep a quarter of a gigabyte of what is freed.
ENOUGH = 450 * MIB


def memory_peak(node):
    with open(f"/proc/{node.process.pid}/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))


def test_a_batch_of_compressed_shards_needs_little_memory_however_large_it_is(tmp_path):
    """A few kilobytes that unpack to 60 MB each, asked for thirty times over."""
    large = zstd(make_tar([("a.bin", bytes(60 * MIB)), ("b.txt", b"b"), ("b.bin", bytes(MIB))]))
    assert len(large) < 20_000
    with Node(tmp_path) as node:
        node.put("/train/large.tar.zst", large)
        ready(node, "/train/large.tar.zst")
        before = memory_peak(node)
        entries = [{"object": "large.tar.zst", "sample": 0}, {"object": "large.tar.zst", "member": "b.txt"}, {"object": "large.tar.zst", "member": "a.bin"}] * 15
        response = urllib.request.urlopen(urllib.request.Request(f"{node.url}/train?batch", json.dumps(entries).encode()))
        with tarfile.open(fileobj=response, mode="r|") as archive:
            sizes = [(member.name, member.size) for member in archive]
        assert sizes == [("a.bin", 60 * MIB), ("b.txt", 1), ("a.bin", 60 * MIB)] * 15
        assert memory_peak(node) - before < ENOUGH
        got = urllib.request.urlopen(f"{node.url}/train/large.tar.zst?samples=0-1")
        assert sum(len(piece) for piece in iter(lambda: got.read(MIB), b"")) == int(got.headers["content-length"]) > 61 * MIB
        assert memory_peak(node) - before < ENOUGH


def test_a7_missing_entries_are_reported_by_name_in_their_place(node):
    entries = [{"object": "readme.txt"}, {"object": "none.tar", "sample": 3}, {"object": "plain.tar", "sample": 999},
               {"object": "plain.tar", "member": "dir/none.jpg"}, {"object": "readme.txt", "range": "bytes=100-"}, {"object": "text.tar", "sample": 0}, {"object": "readme.txt"}]
    node.put("/train/text.tar", BROKEN["text.tar"])
    ready(node, "/train/text.tar")
    found = read_tar(batch(node, entries).body)
    assert [name for name, _ in found] == ["readme.txt"] + [f"__missing__/{position:06}.json" for position in range(1, 6)] + ["readme.txt"]
    reports = [json.loads(content) for _, content in found[1:-1]]
    assert [report["code"] for report in reports] == ["NoSuchKey", "NoSuchSample", "NoSuchMember", "InvalidRange", "NoSuchIndex"]
    assert [(report["position"], report["object"]) for report in reports] == [(at, entries[at]["object"]) for at in range(1, 6)]


def test_a_batch_that_must_be_whole_is_refused_when_something_is_missing(node):
    whole = batch(node, [{"object": "readme.txt"}], missing="error")
    assert whole.status == 200 and read_tar(whole.body) == [("readme.txt", b"no tar")]
    refused = batch(node, [{"object": "readme.txt"}, {"object": "gone"}], missing="error")
    assert refused.status == 404 and b"gone" in refused.body


@pytest.mark.parametrize("body", ["", "nonsense", "5", '"x"', "{}", '{"entries": 5}', "[5]", "[{}]", '[{"object": ""}]', '[{"object": 7}]', '[{"object": "x", "sample": -1}]',
                                  '[{"object": "x", "sample": "1"}]', '[{"object": "x", "sample": 1, "member": "y"}]', '[{"object": "x", "colour": "red"}]',
                                  '{"entries": [], "missing": "perhaps"}', '{"entries": [], "missing": 5}', "[" * 100_000,
                                  '{"entries": [], "missing": true}', '{"entries": [], "mising": "error"}', '{"entries": [], "Entries": []}'])
def test_batches_that_make_no_sense_are_refused(node, body):
    answer = node.ask("POST", "/train?batch", body)
    assert (answer.status, answer.code) == (400, "InvalidArgument"), answer.body
    for name in ("missing", "mising", "Entries"):
        assert f'"{name}"' not in body or name.encode() in answer.body


def test_an_empty_batch_is_an_empty_tar_and_a_huge_one_is_refused(node):
    assert read_tar(batch(node, []).body) == []
    assert batch(node, [{"object": "x"}] * 100_001).status == 400
    assert node.ask("POST", "/none-such?batch", "[]").code == "NoSuchBucket"


def test_names_in_a_batch_may_be_odd_but_not_break_the_tar(node):
    names = ["n" * 300, "ü" * 200, "a/../b", "with space", "new\nline"]
    found = read_tar(batch(node, [{"object": "readme.txt", "name": name} for name in names]).body)
    assert found == [(name, b"no tar") for name in names]
