"""Whatever ends a run, every file under a final name is whole, or the older one."""
import os
import random
import resource
import shutil
import signal
import subprocess
import tarfile
import threading
import time

import pytest

from archives import Sample, assert_whole_tar, digest, read_samples, sample_set, tree_bytes, write_shard

KILLS = 8


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """What the tools read: some 24 MB as shards, as a directory, and as a damaged shard."""
    top = tmp_path_factory.mktemp("material")
    rng = random.Random(1)
    noise = rng.randbytes(1 << 20)

    def some(size):
        start = rng.randrange(len(noise) - size)
        return noise[start:start + size]

    samples = [Sample(f"{n:05d}", {"jpg": some(rng.randrange(1000, 40_000)), "cls": b"%d" % (n % 10)}) for n in range(1200)]
    rng.shuffle(samples)
    for number in range(4):
        write_shard(top / f"in-{number}.tar", samples[number * 300:(number + 1) * 300])
    write_shard(top / "all.tar", samples)
    write_shard(top / "few.tar", samples[:80])
    for sample in samples[:600]:
        for field, data in sample.fields.items():
            path = top / "data" / f"{sample.key}.{field}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
    damaged = bytearray((top / "all.tar").read_bytes())
    with tarfile.open(top / "all.tar") as archive:
        place = archive.getmembers()[1201].offset
    damaged[place:place + 512] = b"?" * 512
    (top / "damaged.tar").write_bytes(damaged)
    small = [Sample(f"{n:05d}", {"txt": b"old %d" % n}) for n in range(50)]
    write_shard(top / "older.tar", small)
    return top


OUT = ["-o", "out/out-%03d.tar", "--max-bytes", "3MB"]
# `M` stands for the directory with the material.
TOOLS = {
    "shard a directory": ["shard", "M/data", *OUT],
    "shard a stream": ["shard", "-", *OUT],
    "shard --shuffle": ["shard", "--shuffle", "--memory", "8MiB", "M/in-*.tar", *OUT],
    "cat": ["tar", "cat", "M/in-*.tar", *OUT],
    "cat to zstd": ["tar", "cat", "M/in-*.tar", "-o", "out/out-%03d.tar.zst", "--max-bytes", "3MB"],
    "split": ["tar", "split", "M/all.tar", *OUT],
    "merge": ["tar", "merge", "M/in-*.tar", "-o", "out/out-000.tar"],
    "sort": ["tar", "sort", "--memory", "8MiB", "M/in-*.tar", *OUT],
    "shuffle": ["tar", "shuffle", "--memory", "8MiB", "M/in-*.tar", *OUT],
    "map": ["tar", "map", "-c", "mv sample.jpg sample.png", "--tmpdir", "scratch", "M/few.tar", "-o", "out/out-%03d.tar", "--max-samples", "15"],
    "index": ["tar", "index", "out/out-*.tar"],
    "repair": ["tar", "verify", "--repair", "M/damaged.tar", "--output", "out/out-000.tar"],
}


class Run:
    """One tool on its way in a directory of its own."""

    def __init__(self, millrace, material, tool, directory):
        self.tool = tool
        self.directory = directory
        (directory / "out").mkdir(parents=True)
        (directory / "scratch").mkdir()
        if tool == "index":
            for shard in sorted(material.glob("in-*.tar")):
                shutil.copy(shard, directory / "out" / f"out-{shard.name[3:]}")
        self.words = [word.replace("M/", f"{material}/") for word in TOOLS[tool]]
        self.binary = millrace.binary
        self.material = material

    def start(self, **options):
        stdin = open(self.material / "all.tar", "rb") if "-" in self.words else subprocess.DEVNULL
        return subprocess.Popen([self.binary, *self.words], cwd=self.directory, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                start_new_session=True, **options)


def end(process, how):
    """Sends the signal to the tool alone; whatever it started is ended too, afterwards."""
    process.send_signal(how)
    process.communicate()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    return process.returncode


def assert_only_whole_shards(millrace, directory):
    """Gives the names of the shards found."""
    shards = []
    for name in sorted(os.listdir(directory)):
        if name.endswith(".part"):
            continue
        if name.endswith(".mri"):
            assert (directory / name[:-4]).exists(), f"{name} has no shard"
            continue
        assert_whole_tar(directory / name)
        shards.append(name)
    if shards:
        verdicts = millrace.json("tar", "verify", *[directory / name for name in shards])
        assert all(verdict["ok"] for verdict in verdicts)
        for name, verdict in zip(shards, verdicts):
            assert verdict["index"] == (directory / f"{name}.mri").exists()
    return shards


class Whole:
    """An uninterrupted run: the seconds it takes and the shards it leaves, {name: hash}."""

    def __init__(self, millrace, material, tool, directory):
        run = Run(millrace, material, tool, directory)
        begin = time.monotonic()
        process = run.start()
        process.communicate()
        self.seconds = time.monotonic() - begin
        assert process.returncode == (1 if tool == "repair" else 0)
        names = assert_only_whole_shards(millrace, directory / "out")
        assert names
        self.shards = {name: digest((directory / "out" / name).read_bytes()) for name in names}
        shutil.rmtree(directory)


@pytest.fixture(scope="module")
def whole_runs():
    return {}


@pytest.fixture
def whole(whole_runs, millrace, material, tmp_path, tool):
    if tool not in whole_runs:
        whole_runs[tool] = Whole(millrace, material, tool, tmp_path / "whole")
    return whole_runs[tool]


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_a_killed_run_leaves_whole_shards_or_nothing(millrace, material, whole, tmp_path, tool):
    rng = random.Random(f"kill {tool}")
    for number in range(KILLS):
        run = Run(millrace, material, tool, tmp_path / str(number))
        process = run.start()
        time.sleep(whole.seconds * (number + rng.random()) / KILLS)
        end(process, signal.SIGKILL)
        found = assert_only_whole_shards(millrace, run.directory / "out")
        assert set(found) <= set(whole.shards)
        shutil.rmtree(run.directory)


@pytest.mark.slow
@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool not in ("index", "repair", "cat to zstd")])
def test_a_run_killed_over_older_shards_leaves_each_old_or_new(millrace, material, whole, tmp_path, tool):
    shutil.copy(material / "older.tar", tmp_path / "older.tar")
    millrace("tar", "index", "older.tar")
    old = digest((tmp_path / "older.tar").read_bytes())
    rng = random.Random(f"kill over {tool}")
    for number in range(3):
        run = Run(millrace, material, tool, tmp_path / str(number))
        for name in whole.shards:
            shutil.copy(tmp_path / "older.tar", run.directory / "out" / name)
            shutil.copy(tmp_path / "older.tar.mri", run.directory / "out" / f"{name}.mri")
        process = run.start()
        time.sleep(whole.seconds * (number + rng.random()) / 3)
        end(process, signal.SIGKILL)
        assert assert_only_whole_shards(millrace, run.directory / "out") == list(whole.shards)
        for name, new in whole.shards.items():
            assert digest((run.directory / "out" / name).read_bytes()) in (old, new)
        shutil.rmtree(run.directory)


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_an_interrupted_run_leaves_no_half_shard(millrace, material, whole, tmp_path, tool):
    rng = random.Random(f"interrupt {tool}")
    for how in [signal.SIGINT, signal.SIGTERM]:
        run = Run(millrace, material, tool, tmp_path / how.name)
        process = run.start()
        time.sleep(whole.seconds * rng.random())
        end(process, how)
        assert set(assert_only_whole_shards(millrace, run.directory / "out")) <= set(whole.shards)
        shutil.rmtree(run.directory)


def wait_for(condition, process):
    """Until something is so, or the process is gone."""
    while not condition() and process.poll() is None:
        time.sleep(0.002)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_an_interrupted_map_removes_its_directories_and_says_so(millrace, material, tmp_path, how):
    (tmp_path / "scratch").mkdir()
    process = millrace.popen("tar", "map", material / "all.tar", "-o", "out.tar", "--tmpdir", "scratch", "-c", "sleep 0.01", stderr=subprocess.PIPE)
    wait_for(lambda: list((tmp_path / "scratch").glob("*/*")), process)
    process.send_signal(how)
    _, error = process.communicate()
    assert process.returncode == 128 + how and b"interrupted" in error
    assert os.listdir(tmp_path / "scratch") == [] and not (tmp_path / "out.tar").exists()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("words", [["shard", "-"], ["tar", "cat", "-"], ["tar", "sort", "-"], ["tar", "map", "-", "-c", 'touch "$MARKS/$MILLRACE_KEY"']],
                         ids=["shard", "cat", "sort", "map"])
def test_a_tool_that_waits_for_its_input_can_be_interrupted(millrace, material, tmp_path, words, how):
    (tmp_path / "marks").mkdir()
    process = millrace.popen(*words, "-o", "out.tar", stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "MARKS": str(tmp_path / "marks")})
    # Four members, of which three are known to be samples: then it waits for more.
    process.stdin.write((material / "older.tar").read_bytes()[:4 * 1024])
    process.stdin.flush()
    wait_for(lambda: "map" not in words or len(os.listdir(tmp_path / "marks")) >= 3, process)
    process.send_signal(how)
    # Only a tool that ignores the signal is still there after this long.
    ended = threading.Event()
    threading.Thread(target=lambda: (process.wait(), ended.set()), daemon=True).start()
    in_time = ended.wait(10)
    process.kill()
    process.wait()
    process.stdin.close()
    assert in_time, "it went on waiting for input"
    assert process.returncode != 0
    assert os.listdir(tmp_path) == ["marks"]


# -- failures ------------------------------------------------------------------------------------------------

FAILING = {
    "shard": ["shard", "cut.tar"], "shard --shuffle": ["shard", "--shuffle", "cut.tar"], "cat": ["tar", "cat", "cut.tar"], "merge": ["tar", "merge", "cut.tar"],
    "sort": ["tar", "sort", "cut.tar"], "shuffle": ["tar", "shuffle", "cut.tar"], "map": ["tar", "map", "-c", "true", "cut.tar"],
    "a failing command": ["tar", "map", "-c", "test $MILLRACE_KEY != 00020", "older.tar"],
    "a missing field": ["tar", "cat", "-f", "jpg", "older.tar"], "no number": ["tar", "sort", "--by", "txt", "--number", "older.tar"],
    "a missing file": ["shard", "list.tsv"],
}


@pytest.mark.parametrize("failure", FAILING)
def test_a_failed_run_leaves_the_older_output_as_it_was(millrace, material, tmp_path, failure):
    shutil.copy(material / "older.tar", tmp_path / "older.tar")
    (tmp_path / "cut.tar").write_bytes((material / "in-0.tar").read_bytes()[:2_000_000])
    (tmp_path / "list.tsv").write_text("__key__\t@jpg\n1\tabsent.jpg\n")
    millrace("tar", "cat", "older.tar", "-o", "out.tar")
    before = tree_bytes(tmp_path)
    outcome = millrace(*FAILING[failure], "-o", "out.tar", code=None)
    assert outcome.code in (1, 2) and outcome.err
    assert tree_bytes(tmp_path) == before


@pytest.mark.parametrize("words", [["shard", "all.tar"], ["shard", "data"], ["tar", "cat", "all.tar"], ["tar", "sort", "all.tar", "--memory", "8MiB"],
                                   ["tar", "shuffle", "all.tar"], ["tar", "merge", "all.tar"], ["tar", "map", "all.tar", "-c", "true"]], ids=" ".join)
def test_a_full_disk_leaves_the_older_output_as_it_was(millrace, material, tmp_path, words):
    shutil.copy(material / "older.tar", tmp_path / "older.tar")
    millrace("tar", "cat", "older.tar", "-o", "out.tar")
    before = tree_bytes(tmp_path)
    words = [str(material / word) if (material / word).exists() else word for word in words]

    def small_files():
        # Python ignores the signal that goes with the limit, and so does what it starts without restoring it.
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    done = subprocess.run([millrace.binary, *words, "-o", "out.tar"], cwd=tmp_path, capture_output=True, preexec_fn=small_files, restore_signals=False)
    assert done.returncode == 1 and b"too large" in done.stderr
    assert tree_bytes(tmp_path) == before


def test_a_failed_index_leaves_the_older_one_as_it_was(millrace, material, tmp_path):
    shutil.copy(material / "older.tar", tmp_path / "a.tar")
    millrace("tar", "index", "a.tar")
    index = (tmp_path / "a.tar.mri").read_bytes()
    (tmp_path / "a.tar").write_bytes((tmp_path / "a.tar").read_bytes()[:9000])
    millrace("tar", "index", "a.tar", code=1)
    assert (tmp_path / "a.tar.mri").read_bytes() == index


def test_a_reader_that_goes_away_ends_the_tool(millrace, material):
    process = millrace.popen("tar", "cat", material / "all.tar", "-o", "-", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.read(1000)
    process.stdout.close()
    assert process.wait() != 0


def test_runs_side_by_side_to_one_name_leave_one_whole_shard(millrace, material, tmp_path):
    for _ in range(3):
        runs = [millrace.popen("tar", "cat", material / f"in-{number}.tar", "-o", "out.tar", stderr=subprocess.DEVNULL) for number in range(4)]
        assert all(process.wait() == 0 for process in runs)
        assert_whole_tar(tmp_path / "out.tar")
        possible = [sample_set(read_samples(material / f"in-{number}.tar")) for number in range(4)]
        assert sample_set(read_samples(tmp_path / "out.tar")) in possible
        assert sorted(os.listdir(tmp_path)) == ["out.tar", "out.tar.mri"]
