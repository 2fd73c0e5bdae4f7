"""Transforms: ?transform=NAME on whole shards, samples, members and batches, registered by the verb, allowed by buckets."""
import http.server
import io
import json
import pathlib
import socket
import threading

import numpy
import pytest
from PIL import Image

from archives import read_samples, write_shard, Sample
from nodes import Node
from program import Millrace
from store_client import make_tar, read_tar


def picture(number, size=(96, 64)):
    pixels = (numpy.indices((size[1], size[0])).sum(axis=0) * (number % 5 + 1) + number) % 256
    colours = numpy.stack([pixels, pixels[::-1], (pixels * 3) % 256], axis=2).astype("uint8")
    out = io.BytesIO()
    Image.fromarray(colours).save(out, "JPEG", quality=95)
    return out.getvalue()


SAMPLES = [Sample(f"{n:04d}", {"jpg": picture(n), "cls": b"%d" % (n % 3)}) for n in range(12)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("transform")


@pytest.fixture(scope="module")
def node(place):
    with Node(place) as node:
        shard = write_shard(place / "shard.tar", SAMPLES)
        assert node.put("/train/shard.tar", shard.read_bytes()).status == 200
        yield node


@pytest.fixture(scope="module")
def run(node, place):
    """The verb, against this node."""
    tool = Millrace(place)

    def call(*words, **options):
        return tool(*words, env={"MILLRACE_ENDPOINT": node.url}, **options)
    return call


def add(run, name, *flags, code=0):
    return run("transform", "add", name, *flags, code=code)


def samples_of(answer, place):
    assert answer.status == 200, answer.body[:2000]
    path = place / "result.tar"
    path.write_bytes(answer.body)
    return read_samples(path)


def array(data):
    return numpy.load(io.BytesIO(data), allow_pickle=False)


# -- built in ------------------------------------------------------------------------------------------------

def test_a_resized_image_has_the_pixels_of_the_loader(node, run, place):
    import millrace
    add(run, "tensors", "--image", "jpg:size=48", "--to", "npy")
    made = samples_of(node.get("/train/shard.tar?transform=tensors"), place)
    assert [sample.key for sample in made] == [sample.key for sample in SAMPLES]
    assert [sorted(sample.fields) for sample in made] == [["cls", "npy"]] * len(SAMPLES)
    images = next(iter(millrace.Dataset(str(place / "shard.tar")).shuffle(0).image("jpg", size=48, name="image").batch(len(SAMPLES))))
    assert numpy.array_equal(numpy.stack([array(sample.fields["npy"]) for sample in made]), images)


def test_layout_and_normalisation_are_those_of_the_loader(node, run, place):
    import millrace
    add(run, "floats", "--image", "jpg:resize=50,size=48,layout=CHW,normalize=imagenet")
    made = samples_of(node.get("/train/shard.tar?transform=floats"), place)
    images = next(iter(millrace.Dataset(str(place / "shard.tar")).shuffle(0)
                          .image("jpg", size=48, resize=50, layout="CHW", normalize="imagenet").batch(len(SAMPLES))))
    assert images.dtype == numpy.float32
    assert numpy.array_equal(numpy.stack([array(sample.fields["npy"]) for sample in made]), images)


def test_fields_are_chosen_and_renamed(node, run, place):
    add(run, "labels", "--select", "cls=label")
    made = samples_of(node.get("/train/shard.tar?transform=labels"), place)
    assert made == [Sample(sample.key, {"label": sample.fields["cls"]}) for sample in SAMPLES]


def test_images_become_jpeg_and_png(node, run, place):
    add(run, "thumbs", "--image", "jpg:size=32", "--to", "jpg", "--quality", "80")
    add(run, "pngs", "--image", "jpg:size=32", "--to", "png")
    add(run, "arrays", "--image", "jpg:size=32")
    exact = [array(sample.fields["npy"]) for sample in samples_of(node.get("/train/shard.tar?transform=arrays"), place)]
    pngs = [numpy.asarray(Image.open(io.BytesIO(sample.fields["png"]))) for sample in samples_of(node.get("/train/shard.tar?transform=pngs"), place)]
    assert numpy.array_equal(exact, pngs)
    thumbs = [Image.open(io.BytesIO(sample.fields["jpg"])) for sample in samples_of(node.get("/train/shard.tar?transform=thumbs"), place)]
    assert {(image.format, image.size) for image in thumbs} == {("JPEG", (32, 32))}
    assert numpy.abs(numpy.asarray(thumbs[0]).astype(int) - exact[0]).mean() < 12


def test_many_images_become_one_array(node, run, place):
    add(run, "stacked", "--image", "jpg:size=16", "--stack", "5", "--label", "cls")
    made = samples_of(node.get("/train/shard.tar?transform=stacked"), place)
    assert [array(sample.fields["npy"]).shape for sample in made] == [(5, 16, 16, 3), (5, 16, 16, 3), (2, 16, 16, 3)]
    assert numpy.concatenate([array(sample.fields["cls.npy"]) for sample in made]).tolist() == [n % 3 for n in range(12)]
    assert sum((json.loads(sample.fields["keys.json"]) for sample in made), []) == [sample.key for sample in SAMPLES]


# -- parts of shards -----------------------------------------------------------------------------------------

def test_samples_and_members_of_the_result(node, run, place):
    add(run, "tensors", "--image", "jpg:size=48", "--to", "npy")
    whole = samples_of(node.get("/train/shard.tar?transform=tensors"), place)
    assert samples_of(node.get("/train/shard.tar?transform=tensors&sample=7"), place) == whole[7:8]
    assert samples_of(node.get("/train/shard.tar?transform=tensors&samples=2-5"), place) == whole[2:6]
    member = node.get("/train/shard.tar?transform=tensors&member=0003.npy")
    assert member.status == 200 and member.body == whole[3].fields["npy"]
    assert node.get("/train/shard.tar?transform=tensors&member=0003.jpg").code == "NoSuchMember"
    assert node.get("/train/shard.tar?transform=tensors&member=9999.npy").code == "NoSuchMember"
    assert node.get("/train/shard.tar?transform=tensors&sample=99").code == "NoSuchSample"


def test_a_batch_of_results(node, run, place):
    add(run, "tensors", "--image", "jpg:size=48", "--to", "npy")
    whole = samples_of(node.get("/train/shard.tar?transform=tensors"), place)
    wanted = [{"object": "shard.tar", "sample": 4}, {"object": "shard.tar", "member": "0001.npy"}, {"object": "away.tar", "sample": 0}, {"object": "shard.tar", "sample": 2}]
    answer = node.ask("POST", "/train?batch&transform=tensors", json.dumps(wanted))
    assert answer.status == 200, answer.body
    members = read_tar(answer.body)
    assert [name for name, _ in members] == ["0004.npy", "0004.cls", "0001.npy", "__missing__/000002.json", "0002.npy", "0002.cls"]
    assert members[0][1] == whole[4].fields["npy"] and members[2][1] == whole[1].fields["npy"]
    assert node.ask("POST", "/train?batch&transform=tensors", json.dumps([{"object": "shard.tar"}])).status == 400


def test_a_compressed_shard_is_unpacked_first(node, run, place):
    import gzip
    add(run, "labels", "--select", "cls=label")
    assert node.put("/train/packed.tar.gz", gzip.compress((place / "shard.tar").read_bytes())).status == 200
    assert samples_of(node.get("/train/packed.tar.gz?transform=labels"), place) == samples_of(node.get("/train/shard.tar?transform=labels"), place)


# -- programs ------------------------------------------------------------------------------------------------

def test_a_command_runs_for_each_sample(node, run, place):
    add(run, "upper", "--command", "-c", "tr 0-9 a-j < sample.cls > sample.txt; echo $MILLRACE_KEY > sample.key; rm sample.jpg")
    made = samples_of(node.get("/train/shard.tar?transform=upper"), place)
    assert made == [Sample(s.key, {"cls": s.fields["cls"], "key": s.key.encode() + b"\n", "txt": b"abc"[n % 3:n % 3 + 1]}) for n, s in enumerate(SAMPLES)]


def test_a_filter_takes_a_tar_and_gives_a_tar(node, run, place):
    add(run, "same", "--filter", "--", "cat")
    assert node.get("/train/shard.tar?transform=same").body == (place / "shard.tar").read_bytes()
    # Its output is looked at: what is no tar never looks like a result.
    add(run, "noise", "--filter", "-c", "cat > /dev/null; echo this is no tar at all; head -c 2000 /dev/urandom")
    answer = node.get("/train/shard.tar?transform=noise")
    assert (answer.status, answer.code) == (422, "TransformFailed") and b"no whole tar" in answer.body
    add(run, "cut", "--filter", "-c", "head -c 20000")
    assert node.get("/train/shard.tar?transform=cut").code == "TransformFailed"


STEPS = '''
import millrace
import numpy

@millrace.transform
def steps(sample):
    if sample["cls"] == b"2":
        return None
    return {"cls": sample["cls"], "sum.npy": numpy.frombuffer(sample["jpg"], "uint8").astype("int64").sum(), "size": len(sample["jpg"])}
'''


def test_a_python_function_is_run_by_workers_that_live_on(node, run, place):
    (place / "steps.py").write_text(STEPS)
    add(run, "steps", "--python", "steps.py")
    for _ in range(2):
        made = samples_of(node.get("/train/shard.tar?transform=steps"), place)
        assert [sample.key for sample in made] == [s.key for s in SAMPLES if s.fields["cls"] != b"2"]
        first = SAMPLES[0].fields["jpg"]
        assert int(array(made[0].fields["sum.npy"])) == sum(first) and made[0].fields["size"] == b"%d" % len(first)
    metrics = node.get("/-/metrics").body.decode()
    assert 'millrace_transform_seconds_count{transform="steps"} 2' in metrics
    assert [line for line in metrics.splitlines() if line.startswith("millrace_transform_sandboxes ")][0] != "millrace_transform_sandboxes 0"


class Echo(http.server.BaseHTTPRequestHandler):
    """A service that answers while it reads: neither side may need to hold the shard."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        if self.path == "/broken":
            self.send_error(500, "no", "the model is gone")
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/x-tar")
        self.end_headers()
        self.close_connection = True
        left = int(self.headers["Content-Length"])
        while left:
            piece = self.rfile.read(min(left, 65536))
            left -= len(piece)
            self.wfile.write(piece)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def service():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


def test_a_service_is_streamed_to_and_from(node, run, place, service):
    add(run, "echo", "--service", service + "/work")
    big = make_tar([(f"{n:04d}.bin", bytes([n % 251]) * 1_000_000) for n in range(40)])
    assert node.put("/train/big.tar", big).status == 200
    assert node.get("/train/big.tar?transform=echo").body == big
    add(run, "broken", "--service", service + "/broken")
    answer = node.get("/train/shard.tar?transform=broken")
    assert answer.code == "TransformFailed" and b"answered 500" in answer.body
    add(run, "nobody", "--service", "http://127.0.0.1:1/")
    assert node.get("/train/shard.tar?transform=nobody").status == 503


# -- failures ------------------------------------------------------------------------------------------------

PICKY = '''
def picky(sample):
    if sample["cls"] == b"1":
        raise ValueError("label 1 is not liked")
    return sample
'''


@pytest.mark.parametrize("policy, keys", [("skip", [0, 2, 3, 5, 6, 8, 9, 11]), ("keep", range(12))])
def test_samples_that_fail_are_skipped_or_kept(node, run, place, policy, keys):
    (place / "picky.py").write_text(PICKY)
    add(run, "picky", "--python", "picky.py:picky", "--on-error", policy)
    add(run, "picky-command", "--command", "--on-error", policy, "-c", "! grep -q 1 sample.cls")
    for name in ("picky", "picky-command"):
        made = samples_of(node.get(f"/train/shard.tar?transform={name}"), place)
        assert made == [SAMPLES[n] for n in keys]


def test_a_failure_names_transform_object_sample_and_last_words(node, run, place):
    (place / "picky.py").write_text(PICKY)
    add(run, "picky", "--python", "picky.py:picky")
    add(run, "grumpy", "--command", "-c", "echo I will not >&2; exit 3")
    for name, sample, words in (("picky", "0001", "label 1 is not liked"), ("grumpy", "0000", "I will not")):
        answer = node.get(f"/train/shard.tar?transform={name}")
        assert (answer.status, answer.code) == (422, "TransformFailed")
        text = answer.body.decode()
        for part in (f"transform {name}", "train/shard.tar", sample, words):
            assert part in text, text
        shown = json.loads(run("--json", "transform", "show", name).text)
        assert words in shown["failures"][0]["message"]
    assert "exit code 3" in node.get("/train/shard.tar?transform=grumpy").body.decode()


def test_a_late_failure_cuts_the_answer_and_is_told_to_whoever_comes_back(node, run, place):
    """Once bytes are out, an answer can only be cut. Nobody may take it for whole."""
    big = [Sample(f"{n:04d}", {"bin": bytes(500_000), "cls": b"%d" % (n == 30)}) for n in range(40)]
    assert node.put("/train/late.tar", write_shard(place / "late.tar", big).read_bytes()).status == 200
    add(run, "late", "--python", "picky.py:picky")
    outcome = run("transform", "test", "late", "mr://train/late.tar", code=None)
    assert outcome.code != 0 and "label 1 is not liked" in outcome.err and "0030" in outcome.err


# -- registering ---------------------------------------------------------------------------------------------

def test_versions_count_on_and_equal_ones_are_one(node, run, place):
    def version(*flags):
        return json.loads(run("--json", "transform", "add", "counted", *flags).text)["version"]
    assert [version("--select", "cls"), version("--select", "cls"), version("--select", "jpg")] == [1, 1, 2]
    tag = node.get("/train/shard.tar?transform=counted").headers["etag"]
    run("transform", "remove", "counted")
    assert node.get("/train/shard.tar?transform=counted").code == "NoSuchTransform"
    assert version("--select", "cls") == 3
    assert node.get("/train/shard.tar?transform=counted").headers["etag"] != tag
    listed = json.loads(run("--json", "transform", "list").text)["transforms"]
    assert [one["version"] for one in listed if one["name"] == "counted"] == [3]


def test_transforms_survive_a_restart(place, run, node):
    add(run, "labels", "--select", "cls=label")
    before = node.get("/train/shard.tar?transform=labels").body
    node.stop()
    node.start()
    assert node.get("/train/shard.tar?transform=labels").body == before


@pytest.mark.parametrize("flags, said", [
    ([], "of one kind"),
    (["--image", "jpg:size=0"], "size"),
    (["--image", "jpg:crop=random,size=4"], "same result"),
    (["--image", "jpg:size=32,layout=CHW", "--to", "jpg"], "uint8"),
    (["--image", "jpg", "--stack", "4"], "one size"),
    (["--filter", "--on-error", "skip", "--", "cat"], "whole shards"),
    (["--command"], "program"),
    (["--service", "ftp://x/"], "http://"),
    (["--select", "cls", "--processes", "0"], "limits"),
    (["--filter", "--processes", "0", "--", "cat"], "processes"),
    (["--to", "npy", "--select", "cls"], "--image"),
])
def test_what_makes_no_sense_is_refused_with_a_reason(run, flags, said):
    assert said in add(run, "wrong", *flags, code=2).err


def test_a_request_that_makes_no_sense_is_refused(node, run):
    add(run, "labels", "--select", "cls=label")
    assert node.get("/train/shard.tar?transform=away").code == "NoSuchTransform"
    assert node.get("/train/shard.tar?transform=labels&index").status == 400
    assert node.get("/train/shard.tar?transform=labels&partNumber=1").status == 400
    assert node.get("/train/shard.tar?transform=labels&sample=1&member=x").status == 400
    assert node.get("/train/away.tar?transform=labels").code == "NoSuchKey"
    assert node.ask("PUT", "/-/transforms/x", b'{"kind": "images", "colour": 1}').status == 400
    assert node.ask("PUT", "/train/x.tar?transform=labels", b"").status == 501


def test_conditions_are_judged_by_the_results_entity_tag(node, run):
    add(run, "labels", "--select", "cls=label")
    head = node.ask("HEAD", "/train/shard.tar?transform=labels")
    assert head.status == 200 and head.headers["x-millrace-transform"].startswith("labels v")
    tag = head.headers["etag"]
    assert node.get("/train/shard.tar?transform=labels", if_none_match=tag).status == 304
    assert node.get("/train/shard.tar?transform=labels", if_match='"other"').status == 412
    # The size is not known before the run: a range gives the whole.
    assert node.get("/train/shard.tar?transform=labels", range="bytes=0-9").status == 200


# -- kept results --------------------------------------------------------------------------------------------

def test_a_kept_result_is_made_once_and_serves_ranges(node, run, place):
    (place / "count.py").write_text("import time\ndef count(sample):\n    return {'txt': str(time.time_ns())}\n")
    add(run, "kept", "--python", "count.py:count", "--keep")
    first = node.get("/train/shard.tar?transform=kept")
    from store_client import wait_until
    wait_until(lambda: node.get("/train/shard.tar?transform=kept").headers.get("x-millrace-kept") == "yes")
    again = node.get("/train/shard.tar?transform=kept")
    part = node.get("/train/shard.tar?transform=kept", range="bytes=100-299")
    assert part.status == 206 and part.body == again.body[100:300]
    assert part.headers["content-range"] == f"bytes 100-299/{len(again.body)}"
    assert len(first.body) == len(again.body)
    # A new object, and a new version of the transform, are other results.
    assert node.put("/train/shard.tar", (place / "shard.tar").read_bytes()).status == 200
    (place / "count.py").write_text("def count(sample):\n    return {'txt': 'new'}\n")
    add(run, "kept", "--python", "count.py:count", "--keep")
    assert {sample.fields["txt"] for sample in samples_of(node.get("/train/shard.tar?transform=kept"), place)} == {b"new"}


# -- rights --------------------------------------------------------------------------------------------------

def test_a_key_uses_what_its_bucket_allows_and_only_admins_register(tmp_path):
    from store_client import Signer
    tool = Millrace(tmp_path)
    data = str(tmp_path / "data")

    def key(*flags):
        made = json.loads(tool("--json", "keys", "create", "--data", data, *flags).text)
        return made["access_key"], made["secret_key"]
    admin, reader = key("--admin"), key("--bucket", "train:read")
    with Node(tmp_path) as node:
        boss, other = Signer(node, *admin), Signer(node, *reader)
        assert boss.ask("PUT", "/train").status == 200
        assert boss.ask("PUT", "/train/a.tar", make_tar([("0.cls", b"1"), ("1.cls", b"2")])).status == 200
        described = b'{"kind": "images", "select": "cls=label"}'
        assert other.ask("PUT", "/-/transforms/labels", described).status == 403
        assert node.ask("PUT", "/-/transforms/labels", described).status == 403
        assert boss.ask("PUT", "/-/transforms/labels", described).status == 200
        assert boss.ask("GET", "/train/a.tar?transform=labels").status == 200
        refused = other.ask("GET", "/train/a.tar?transform=labels")
        assert refused.status == 403 and b"--transforms" in refused.body
        assert other.ask("GET", "/-/transforms").status == 200
        assert other.ask("GET", "/-/transforms/labels").status == 403
        env = {"MILLRACE_ENDPOINT": node.url, "MILLRACE_ACCESS_KEY": admin[0], "MILLRACE_SECRET_KEY": admin[1]}
        assert "transforms=labels" in tool("bucket", "train", "--transforms", "labels", env=env).text
        assert other.ask("GET", "/train/a.tar?transform=labels").status == 200
        tool("bucket", "train", "--transforms", "other", env=env)
        assert other.ask("GET", "/train/a.tar?transform=labels").status == 403
        tool("bucket", "train", "--transforms", "*", env=env)
        node.stop()
        node.start()
        assert other.ask("GET", "/train/a.tar?transform=labels").status == 200
        tool("bucket", "train", "--transforms", "none", env=env)
        assert other.ask("GET", "/train/a.tar?transform=labels").status == 403


def test_the_verb_tries_a_shard_of_the_store_and_a_file(run, place):
    add(run, "labels", "--select", "cls=label")
    for shard in ("mr://train/shard.tar", str(place / "shard.tar")):
        tried = json.loads(run("--json", "transform", "test", "labels", shard).text)
        assert tried["samples"] == 12 and tried["fields"]["label"]["count"] == 12
    run("transform", "test", "labels", "mr://train/shard.tar", "--samples", "0-2", "-o", "out.tar")
    assert [sample.key for sample in read_samples(pathlib.Path(place / "out.tar"))] == ["0000", "0001", "0002"]


# -- the loader ----------------------------------------------------------------------------------------------

def test_the_loader_reads_what_a_transform_gives(node, run, place):
    import millrace
    add(run, "tensors", "--image", "jpg:size=48", "--to", "npy")
    for number in range(3):
        shard = write_shard(place / f"l-{number}.tar", [Sample(f"{number}-{s.key}", s.fields) for s in SAMPLES])
        assert node.put(f"/train/l-{number}.tar", shard.read_bytes()).status == 200
    address = f"{node.url}/train/l-{{0..2}}.tar"
    ds = millrace.Dataset(address, transform="tensors", seed=3).shuffle(20).array("npy", name="image").label("cls").key().batch(8)
    assert "transform='tensors'" in repr(ds)

    def epoch(rank, world):
        return [(keys, images.copy(), labels.copy()) for images, labels, keys in ds.epoch(0, rank=rank, world=world)]
    batches = epoch(0, 1)
    assert sorted(key for keys, _, _ in batches for key in keys) == sorted(f"{n}-{s.key}" for n in range(3) for s in SAMPLES)
    # The same order each time, and pixels as when the loader decodes.
    assert [keys for keys, _, _ in epoch(0, 1)] == [keys for keys, _, _ in batches]
    plain = millrace.Dataset(str(place / "l-0.tar")).shuffle(0).image("jpg", size=48).key().batch(12)
    images, keys = next(iter(plain))
    known = dict(zip(keys, images))
    for keys, images, _ in batches:
        for key, image in zip(keys, images):
            if key in known:
                assert numpy.array_equal(image, known[key])
    both = [key for rank in range(2) for keys, _, _ in epoch(rank, 2) for key in keys]
    assert len(both) == 36 and len(set(both)) == 36


def test_the_loader_names_a_transform_that_fails(node, run, place):
    import millrace
    (place / "picky.py").write_text(PICKY)
    add(run, "picky", "--python", "picky.py:picky")
    with pytest.raises(millrace.Error, match="label 1 is not liked"):
        list(millrace.Dataset(f"{node.url}/train/shard.tar", transform="picky").bytes("jpg").batch(4))
    with pytest.raises(millrace.InvalidError, match="is a file"):
        list(millrace.Dataset(str(place / "shard.tar"), transform="picky").bytes("jpg").batch(4))
    with pytest.raises(millrace.InvalidError, match="name of a transform"):
        millrace.Dataset("mr://train/a.tar", transform="A/B")


def test_a_marked_function_stays_what_it_is():
    import millrace

    @millrace.transform
    def same(sample):
        return sample
    assert same({"txt": b"x"}) == {"txt": b"x"}


def test_a_node_stops_although_nobody_takes_its_results(tmp_path):
    with Node(tmp_path, "--set", "stop_seconds=1") as node:
        big = make_tar([(f"{n:04d}.bin", bytes(1 << 20)) for n in range(60)])
        assert node.put("/train/big.tar", big).status == 200
        for name, description in (("same", {"kind": "filter", "command": ["cat"]}), ("kept", {"kind": "images", "select": "bin"})):
            assert node.ask("PUT", f"/-/transforms/{name}", json.dumps(description)).status == 200
        idle = []
        for name in ("same", "kept"):
            client = socket.create_connection((node.host, node.port))
            client.sendall(f"GET /train/big.tar?transform={name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
            idle.append(client)
        node.process.terminate()
        node.process.wait(timeout=60)
