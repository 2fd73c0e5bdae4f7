"""Jobs on a real cluster: the same bytes as the one-process tools, failures, losses, stopping, many small tasks."""
import hashlib
import io
import itertools
import json
import random
import re
import subprocess
import tarfile
import time
import urllib.parse

import pytest

from archives import Sample, write_shard
from clusters import Cluster
from conftest import Millrace
from nodes import Node
from program import REPOSITORY
from store_client import wait_until

SHARDS = 6
SAMPLES = 40
names = itertools.count()

HISTOGRAM = '''
import collections, io, itertools, os, sys, tarfile

def add(out, name, text):
    member = tarfile.TarInfo(name)
    member.size = len(text)
    out.addfile(member, io.BytesIO(text))

def mapper(tar, out):
    for member in tar:
        if member.name.endswith(".cls"):
            label = tar.extractfile(member).read().decode()
            add(out, f"class {label}.count", b"1")
            with open(os.environ["MILLRACE_COUNTERS"], "a") as counters:
                counters.write("labels seen 1\\n")

def reducer(tar, out):
    group = lambda member: member.name.rpartition("/")[0]
    for key, members in itertools.groupby(tar, group):
        add(out, f"{key}.count", str(sum(int(tar.extractfile(one).read()) for one in members)).encode())

with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as tar, tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as out:
    {"map": mapper, "reduce": reducer}[sys.argv[1]](tar, out)
'''


def fresh(word):
    return f"{word}{next(names)}"


def sample(number):
    generator = random.Random(number)
    return Sample(f"s{number:05d}", {"cls": str(generator.randrange(7)).encode(), "txt": generator.randbytes(generator.randrange(3000))})


class Filled:
    """Shards on disk and, the same, in a bucket of a cluster."""

    def __init__(self, cluster, directory):
        self.cluster = cluster
        self.directory = directory
        self.millrace = Millrace(directory)
        cluster.make_bucket("in", redundancy="copies=2")
        numbers = list(range(SHARDS * SAMPLES))
        random.Random(1).shuffle(numbers)
        self.shards = []
        for shard in range(SHARDS):
            path = write_shard(directory / f"s-{shard:03d}.tar", [sample(number) for number in numbers[shard * SAMPLES:(shard + 1) * SAMPLES]])
            assert cluster.nodes[shard % 3].put(f"/in/{path.name}", path.read_bytes()).status == 200
            self.shards.append(path)
        self.pattern = f"{self.url}/in/s-*.tar"

    @property
    def url(self):
        return self.cluster.living[0].url

    def bucket(self, word="out"):
        return self.cluster.make_bucket(fresh(word), redundancy="copies=2")

    def start(self, kind, *words, code=0, detach=False):
        """The job as it ended; where it is detached, its id."""
        flags = ["--detach"] if detach else []
        done = self.millrace("--json", "job", "start", kind, *flags, *words, code=code)
        return done if code else done.rows[-1]

    def show(self, job):
        return self.millrace.json("job", "show", job, "--at", self.url)[0]

    def watch(self, job, code=0):
        return self.millrace("--json", "job", "watch", job, "--at", self.url, code=code).rows[-1]

    def objects(self, bucket):
        node = self.cluster.living[0]
        return {key: node.get(f"/{bucket}/{key}").body for key in node.keys(bucket)}

    def same_by_tool(self, *words):
        """What a tool of one process writes to `one-…` files."""
        mark = fresh("one")
        self.millrace("tar", *(str(word).replace("OUT", mark) for word in words))
        return {path.name.replace(mark, "part"): path.read_bytes() for path in self.directory.glob(f"{mark}-*.tar")}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    directory = tmp_path_factory.mktemp("jobs")
    with Cluster(directory, 3, "--set", "job_slots=2", "--set", "lease=2") as cluster:
        (directory / "data").mkdir()
        yield Filled(cluster, directory / "data")


# -- tasks of their own --------------------------------------------------------------------------------------

def test_a_copy_has_the_same_bytes_and_metadata(data):
    out = data.bucket()
    job = data.start("copy", data.pattern, "-o", f"{data.url}/{out}/to/")
    assert job["state"] == "done" and job["stages"][0]["done"] == SHARDS
    assert data.objects(out) == {f"to/{path.name}": path.read_bytes() for path in data.shards}
    assert job["stages"][0]["sums"]["bytes_in"] == sum(path.stat().st_size for path in data.shards)
    head = data.cluster.nodes[0].ask("HEAD", f"/{out}/to/{data.shards[0].name}")
    assert head.headers["x-amz-meta-millrace-job"] == job["id"]


def test_keys_of_any_kind_are_copied(data):
    odd, out = data.bucket("odd"), data.bucket()
    keys = ["a b%20c.bin", "ä+&=#.bin", "deep/er/%.bin"]
    for key in keys:
        assert data.cluster.nodes[0].put("/" + odd + "/" + urllib.parse.quote(key), key.encode()).status == 200
    data.start("copy", "-r", f"{data.url}/{odd}/", "-o", f"{data.url}/{out}/x y/")
    assert sorted(data.cluster.nodes[0].keys(out)) == sorted(f"x y/{key}" for key in keys)


def test_a_map_gives_the_bytes_of_the_tool_shard_by_shard(data):
    out = data.bucket()
    command = "tr a-z A-Z < sample.txt > sample.upper; rm sample.cls"
    data.start("map", data.pattern, "-o", f"{data.url}/{out}/", "-c", command)
    for path in data.shards:
        alone = data.directory / "alone.tar"
        data.millrace("tar", "map", path, "-o", alone, "-c", command)
        assert data.cluster.nodes[1].get(f"/{out}/{path.name}").body == alone.read_bytes()


def test_commands_see_neither_network_nor_files_nor_secrets(data):
    out = data.bucket()
    look = "rm sample.*; { env; ls / /root; cat /proc/net/tcp; ls -d " + str(data.directory) + "; } > sample.seen 2>&1; true"
    data.start("map", f"{data.url}/in/s-000.tar", "-o", f"{data.url}/{out}/", "-c", look)
    body = data.cluster.nodes[0].get(f"/{out}/s-000.tar").body
    seen = body.decode(errors="replace")
    assert "PATH=" in seen and "MILLRACE_KEY=" in seen
    assert "SECRET" not in seen and "ENDPOINT" not in seen
    assert f"cannot access '{data.directory}'" in seen
    assert not re.search(r"^ +\d+: 0100007F:\w{4} .* 0A", seen, re.M), "it sees listening sockets"


def test_files_travel_with_a_map(data):
    out = data.bucket()
    (data.directory / "double.py").write_text("open('sample.twice', 'wb').write(2 * open('sample.cls', 'rb').read())\n")
    data.start("map", f"{data.url}/in/s-001.tar", "-o", f"{data.url}/{out}/", "--file", data.directory / "double.py",
               "-c", "python3 $MILLRACE_FILES/double.py; rm sample.txt")
    (data.directory / "got.tar").write_bytes(data.cluster.nodes[0].get(f"/{out}/s-001.tar").body)
    with tarfile.open(data.directory / "got.tar") as tar:
        fields = {member.name: tar.extractfile(member).read() for member in tar}
    assert len(fields) == 2 * SAMPLES
    assert all(fields[name.replace(".twice", ".cls")] * 2 == text for name, text in fields.items() if name.endswith(".twice"))


def test_verify_names_what_is_damaged_and_a_retry_looks_again(data):
    bad = data.bucket("bad")
    good = data.shards[0].read_bytes()
    node = data.cluster.nodes[0]
    assert node.put(f"/{bad}/good.tar", good).status == 200
    assert node.put(f"/{bad}/cut.tar", good[:len(good) // 2 // 512 * 512]).status == 200
    said = data.start("verify", f"{data.url}/{bad}/*.tar", code=1)
    job = json.loads(said.text)
    assert "1 of 2 tasks failed" in said.err and job["stages"][0]["done"] == 1
    failures = data.show(job["id"])["failures"]
    assert [failure["input"] for failure in failures] == [f"mr://{bad}/cut.tar"]
    assert "truncated" in failures[0]["log"]
    assert node.put(f"/{bad}/cut.tar", good).status == 200
    data.millrace("job", "retry", job["id"], "--at", data.url)
    assert data.watch(job["id"])["state"] == "done"


def test_an_index_job_makes_indexes(data):
    job = data.start("index", data.pattern)
    assert job["stages"][0]["sums"]["index_bytes"] > 0


def test_a_command_that_fails_is_tried_again_and_its_words_are_kept(data):
    out = data.bucket()
    said = data.start("map", f"{data.url}/in/s-000.tar", "-o", f"{data.url}/{out}/", "--attempts", "2",
                      "-c", "echo this cannot work >&2; exit 3", code=1)
    job = data.show(json.loads(said.text)["id"])
    assert job["state"] == "failed" and data.objects(out) == {}
    assert "this cannot work" in job["failures"][0]["log"] and "exit code 3" in job["failures"][0]["log"]


def test_what_somebody_else_wrote_is_not_replaced(data):
    out = data.bucket()
    assert data.cluster.nodes[0].put(f"/{out}/s-002.tar", b"mine").status == 200
    said = data.start("copy", data.pattern, "-o", f"{data.url}/{out}/", code=1)
    job = data.show(json.loads(said.text)["id"])
    assert "is there already" in job["failures"][0]["log"]
    objects = data.objects(out)
    assert objects.pop("s-002.tar") == b"mine" and len(objects) == SHARDS - 1


# -- all nodes together --------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind, words", [("shuffle", ["--seed", "7"]), ("sort", []), ("sort", ["--by", "cls", "--number", "--reverse"]),
                                         ("reshard", [])])
def test_sorts_give_the_bytes_of_the_tool(data, kind, words):
    out = data.bucket()
    limits = ["--max-bytes", "60kB"]
    job = data.start(kind, data.pattern, *words, *limits, "-o", f"{data.url}/{out}/part-%03d.tar")
    wanted = data.same_by_tool(kind, *data.shards, *words, *limits, "-o", data.directory / "OUT-%03d.tar")
    assert len(wanted) > 4 and data.objects(out) == wanted
    assert job["stages"][0]["sums"]["samples"] == SHARDS * SAMPLES
    assert job["stages"][0]["done"] == 3


def test_mapreduce_gives_the_bytes_of_the_tool_with_groups_across_shards(data):
    out = data.bucket()
    script = data.directory / "histogram.py"
    script.write_text(HISTOGRAM)
    limits = ["--max-samples", "45"]
    job = data.start("mapreduce", data.pattern, *limits, "-o", f"{data.url}/{out}/part-%03d.tar", "--file", script,
                     "--map", "python3 $MILLRACE_FILES/histogram.py map", "--reduce", "python3 $MILLRACE_FILES/histogram.py reduce")
    wanted = data.same_by_tool("mapreduce", *data.shards, *limits, "-o", data.directory / "OUT-%03d.tar",
                               "--map", f"python3 {script} map", "--reduce", f"python3 {script} reduce")
    assert len(wanted) > 4 and data.objects(out) == wanted
    assert [stage["name"] for stage in job["stages"]] == ["map", "sort", "reduce"]
    assert job["stages"][0]["counters"] == {"labels seen": SHARDS * SAMPLES}
    counts = {}
    for body in wanted.values():
        (data.directory / "one.tar").write_bytes(body)
        for one in archives_of(data.directory / "one.tar"):
            counts[one[0]] = int(one[1])
    labels = [int(sample(number).fields["cls"]) for number in range(SHARDS * SAMPLES)]
    assert counts == {f"class {label}.count": labels.count(label) for label in set(labels)}


def archives_of(path):
    with tarfile.open(path) as tar:
        return [(member.name, tar.extractfile(member).read()) for member in tar]


def test_a_combiner_changes_the_work_and_not_the_result(data):
    out = data.bucket()
    script = data.directory / "histogram2.py"
    # The same reducer as a combiner: its key comes without the number, and is that of a record again.
    script.write_text(HISTOGRAM)
    words = ["--max-samples", "1000", "-o", f"{data.url}/{out}/part-%03d.tar", "--file", script]
    reduce = "python3 $MILLRACE_FILES/histogram2.py reduce"
    job = data.start("mapreduce", data.pattern, *words, "--map", "python3 $MILLRACE_FILES/histogram2.py map", "--combine", reduce, "--reduce", reduce)
    assert job["stages"][0]["sums"]["records"] <= SHARDS * 7
    (data.directory / "combined.tar").write_bytes(data.objects(out)["part-000.tar"])
    assert sum(int(count) for _, count in archives_of(data.directory / "combined.tar")) == SHARDS * SAMPLES


# -- stopping, losses, many ----------------------------------------------------------------------------------

def uploads(data, bucket):
    return data.cluster.living[0].ask("GET", f"/{bucket}?uploads").body.count(b"<Upload>")


def test_a_stopped_job_leaves_nothing_half(data):
    out = data.bucket()
    # Writes more than a part of an upload, and then waits for ever.
    slow = "head -c 40000000 /dev/zero > sample.big; test $MILLRACE_KEY = nobody || { test $(ls | wc -l) -gt 0 && sleep 1000; }"
    job = data.start("map", data.pattern, "-o", f"{data.url}/{out}/", "-c", slow, detach=True)["id"]
    wait_until(lambda: data.show(job)["stages"][0]["running"] == SHARDS, "it never ran")
    data.millrace("job", "stop", job, "--at", data.url)
    assert data.watch(job, code=1)["state"] == "stopped"
    assert data.objects(out) == {} and uploads(data, out) == 0
    wait_until(lambda: not commands_named("sleep 1000"), "a command outlived its job")


def commands_named(words):
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line.strip() == words]


def test_two_jobs_at_once_share_the_slots(data):
    outs = [data.bucket(), data.bucket(), data.bucket()]
    copies = [data.start("map", data.pattern, "-o", f"{data.url}/{out}/", "-c", "cat sample.cls > sample.again", detach=True)["id"] for out in outs[:2]]
    shuffle = data.start("shuffle", data.pattern, "-o", f"{data.url}/{outs[2]}/part-%03d.tar", detach=True)["id"]
    for job in [*copies, shuffle]:
        assert data.watch(job)["state"] == "done"
    assert data.objects(outs[0]) == data.objects(outs[1]) and len(data.objects(outs[0])) == SHARDS


def test_thousands_of_small_tasks_are_few_changes_of_the_registry(data):
    many, out = data.bucket("many"), data.bucket()
    tasks = 2500
    (data.directory / "many").mkdir()
    for number in range(tasks):
        (data.directory / "many" / f"{number:05d}").write_bytes(b"%d" % number)
    data.millrace("put", "-r", data.directory / "many", f"{data.url}/{many}/")
    revision = data.cluster.directory / "registry" / "revision"
    before = int(revision.read_text().split()[-1])
    job = data.start("copy", "-r", f"{data.url}/{many}/", "-o", f"{data.url}/{out}/")
    assert job["stages"][0]["done"] == tasks
    changes = int(revision.read_text().split()[-1]) - before
    # Leases are renewed once a second and node; the rest is the job.
    assert changes < tasks / 4, f"{changes} changes for {tasks} tasks"
    node = data.cluster.nodes[2]
    assert len(node.keys(out)) == tasks


def test_a_transform_is_the_stores_to_understand(data):
    out = data.bucket()
    said = data.start("transform", f"{data.url}/in/s-000.tar", "--transform", "no-such-transform", "-o", f"{data.url}/{out}/", code=1)
    assert data.objects(out) == {}
    assert "transform" in data.show(json.loads(said.text)["id"])["failures"][0]["log"]


# -- what people see -----------------------------------------------------------------------------------------

def test_jobs_are_listed_shown_and_forgotten(data):
    out = data.bucket()
    job = data.start("copy", f"{data.url}/in/s-000.tar", "-o", f"{data.url}/{out}/", "--note", "for the list")
    assert re.search(rf"{job['id']} +copy +done", data.millrace("job", "list", "--at", data.url).text)
    text = data.millrace("job", "show", job["id"], "--at", data.url).text
    assert "for the list" in text and "1 of 1 tasks" in text
    data.millrace("job", "remove", job["id"], "--at", data.url)
    assert "there is no job" in data.millrace("job", "show", job["id"], "--at", data.url, code=2).err
    assert len(data.objects(out)) == 1


@pytest.mark.parametrize("words, said", [
    (["copy", "mr://in/a", "-o", "mr://out/b.tar"], "keeps the names of its inputs"),
    (["shuffle", "mr://in/a", "-o", "mr://out/b.tar"], "need a number in their name"),
    (["map", "mr://in/a", "-o", "mr://out/"], "there is no command to run"),
    (["copy", "mr://in/a", "-o", "http://127.0.0.1:1/out/"], "is in another store"),
])
def test_a_slip_is_refused_before_anything_runs(data, words, said):
    outcome = data.millrace("job", "start", *words, code=2)
    assert said in outcome.err


def test_metrics_count_tasks(data):
    text = "".join(node.get("/-/metrics").body.decode() for node in data.cluster.nodes)
    assert re.search(r'millrace_job_tasks_total\{result="done"\} [1-9]', text)
    assert "millrace_job_slots_allowed" in text


def allowed(node):
    return int(re.search(r"^millrace_job_slots_allowed (\d+)", node.get("/-/metrics").body.decode(), re.M)[1])


def test_jobs_give_way_while_clients_ask(data):
    node = data.cluster.nodes[0]
    wait_until(lambda: allowed(node) == 2, "no client asks, and yet slots are empty")

    def asked_and_gave_way():
        assert node.get(f"/in/{data.shards[0].name}").status == 200
        return allowed(node) == 1
    wait_until(asked_and_gave_way, "clients ask, and jobs use all slots")
    wait_until(lambda: allowed(node) == 2, "the slots stay empty")


# -- the guide -----------------------------------------------------------------------------------------------

def guide_scripts():
    """The examples of the guide: the first is whole, the others are its mapper and reducer."""
    text = (REPOSITORY / "docs/guide/jobs.md").read_text()
    titles = re.findall(r"^### (.+)$", text, re.M)
    whole = re.search(r"```python\n(.*?)```", text, re.S)[1]
    head, tail = whole[:whole.index("def mapper")], whole[whole.index("with tarfile.open"):]
    scripts = {}
    for title in titles:
        section = text[text.index(f"### {title}"):]
        found = re.search(r"```python\n(.*?)```", section.split("\n### ", 1)[0] if title != titles[-1] else section, re.S)
        if found:
            scripts[title] = whole if title == titles[0] else "import json\n" + head + found[1] + "\n" + tail
    return scripts


def photo(number):
    """Six pictures in many sizes."""
    from PIL import Image
    pixels = Image.new("RGB", (8, 8))
    pixels.putdata([random.Random(number % 6 * 64 + i).choice([(20, 20, 20), (230, 230, 230)]) for i in range(64)])
    out = io.BytesIO()
    side = 8 * (8 + number // 6)
    pixels.resize((side, side), Image.NEAREST).save(out, "JPEG", quality=90)
    return out.getvalue()


@pytest.mark.parametrize("title", list(guide_scripts()))
def test_the_examples_of_the_guide_work(millrace, tmp_path, title):
    pytest.importorskip("PIL")
    pytest.importorskip("numpy")
    samples = [Sample(f"p{number:03d}", {"jpg": photo(number), "cls": str(number % 3).encode()}) for number in range(60)]
    write_shard(tmp_path / "in-0.tar", samples[:30])
    write_shard(tmp_path / "in-1.tar", samples[30:])
    (tmp_path / "example.py").write_text(guide_scripts()[title])
    millrace("tar", "mapreduce", "in-0.tar", "in-1.tar", "-o", "out-%d.tar", "--map", f"/usr/bin/python3 {tmp_path}/example.py map",
             "--reduce", f"/usr/bin/python3 {tmp_path}/example.py reduce")
    made = dict(archives_of(tmp_path / "out-0.tar"))
    if "histogram" in title:
        assert made == {f"class-{label}.count": b"20" for label in range(3)}
    elif "perceptual" in title:
        assert sorted(made) == [f"p00{number}.jpg" for number in range(6)]
    elif "split" in title:
        assert sorted({name.partition(".")[0] for name in made}) == ["p000", "p001", "p002"]
        assert made["p001.cls"] == b"1" and made["p001.jpg"] == photo(1)
    else:
        import numpy
        from PIL import Image
        pixels = numpy.concatenate([numpy.asarray(Image.open(io.BytesIO(photo(number)))).reshape(-1, 3) for number in range(60)]) / 255
        found = json.loads(made["pixels.json"])
        assert numpy.allclose(found["mean"], pixels.mean(0)) and numpy.allclose(found["deviation"], pixels.std(0))


def test_a_node_alone_runs_jobs_and_only_for_those_who_administer_it(tmp_path):
    millrace = Millrace(tmp_path)
    admin = millrace.json("keys", "create", "--data", tmp_path / "data", "--admin")[0]
    reader = millrace.json("keys", "create", "--data", tmp_path / "data", "--bucket", "in:read-write")[0]
    with Node(tmp_path) as node:
        def env(key):
            return {"MILLRACE_ACCESS_KEY": key["access_key"], "MILLRACE_SECRET_KEY": key["secret_key"], "MILLRACE_ENDPOINT": node.url}
        millrace("mb", "mr://in", "mr://out", env=env(admin))
        shard = write_shard(tmp_path / "one.tar", [sample(number) for number in range(20)])
        millrace("put", shard, "mr://in/", env=env(admin))
        refused = millrace("job", "start", "copy", "mr://in/one.tar", "-o", "mr://out/", env=env(reader), code=2)
        assert "administration needs a key" in refused.err
        assert "administration needs a key" in millrace("job", "list", env=env(reader), code=2).err
        millrace("job", "start", "map", "mr://in/one.tar", "-o", "mr://out/", "-c", "rm sample.txt", env=env(admin))
        millrace("job", "start", "shuffle", "mr://in/one.tar", "-o", "mr://out/s-%d.tar", env=env(admin))
        listed = millrace("ls", "mr://out/", env=env(admin)).text
        assert "one.tar" in listed and "s-0.tar" in listed


# Last, because the nodes that it kills come back as other processes.

@pytest.mark.parametrize("kind, victim", [("map", 0), ("shuffle", 1), ("mapreduce", 2)])
def test_a_node_that_is_killed_loses_nothing(data, kind, victim):
    out = data.bucket()
    script = data.directory / "slow.py"
    script.write_text(HISTOGRAM.replace("{\"map\"", "import time; time.sleep(0.3)\n    {\"map\""))
    words = {
        "map": ["-o", f"{data.url}/{out}/", "-c", "sleep 0.05; rm sample.txt"],
        "shuffle": ["--seed", "3", "--max-bytes", "60kB", "-o", f"{data.url}/{out}/part-%03d.tar"],
        "mapreduce": ["--max-samples", "45", "-o", f"{data.url}/{out}/part-%03d.tar", "--file", script,
                      "--map", "python3 $MILLRACE_FILES/slow.py map", "--reduce", "python3 $MILLRACE_FILES/slow.py reduce"],
    }[kind]
    job = data.start(kind, data.pattern, *words, detach=True)["id"]
    wait_until(lambda: data.show(job)["stages"][0]["running"] > 0, "it never ran")
    time.sleep(random.random() * 0.5)  # for no state: the moment of the kill is to be any
    data.cluster.kill(data.cluster.nodes[victim])
    try:
        assert data.watch(job)["state"] == "done"
        objects = data.objects(out)
    finally:
        data.cluster.make_whole()
    if kind == "map":
        for path in data.shards:
            alone = data.directory / "alone.tar"
            data.millrace("tar", "map", path, "-o", alone, "-c", "rm sample.txt")
            assert hashlib.sha256(objects[path.name]).digest() == hashlib.sha256(alone.read_bytes()).digest()
    elif kind == "shuffle":
        assert objects == data.same_by_tool("shuffle", *data.shards, "--seed", "3", "--max-bytes", "60kB", "-o", data.directory / "OUT-%03d.tar")
    else:
        assert objects == data.same_by_tool("mapreduce", *data.shards, "--max-samples", "45", "-o", data.directory / "OUT-%03d.tar",
                                            "--map", f"python3 {script} map", "--reduce", f"python3 {script} reduce")
