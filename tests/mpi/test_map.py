"""millrace tar map and mapreduce under mpirun: the bytes of one process, for any number of ranks."""
import pytest

from conftest import mpirun

COUNT = '''
import io, itertools, os, sys, tarfile
def add(out, name, text):
    member = tarfile.TarInfo(name); member.size = len(text); out.addfile(member, io.BytesIO(text))
with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as tar, tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as out:
    if sys.argv[1] == "map":
        for member in tar:
            add(out, tar.extractfile(member).read().decode() + ".one", b"1")
        open(os.environ["MILLRACE_COUNTERS"], "a").write("shards 1\\n")
    else:
        for key, members in itertools.groupby(tar, lambda one: one.name.rpartition("/")[0]):
            add(out, key + ".count", str(sum(1 for _ in members)).encode())
'''


@pytest.fixture
def shards(tmp_path, millrace):
    (tmp_path / "files").mkdir()
    for number in range(60):
        (tmp_path / "files" / f"{number:03}.cls").write_text(str(number % 7))
    millrace("shard", tmp_path / "files", "-o", tmp_path / "in-%03d.tar", "--max-samples", "11")
    return str(tmp_path / "in-*.tar")


def outputs(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("verb", ["map", "mapreduce"])
def test_any_number_of_ranks_writes_the_same_bytes(tmp_path, millrace, shards, verb):
    (tmp_path / "count.py").write_text(COUNT)
    (tmp_path / "tmp").mkdir()
    script = f"/usr/bin/python3 {tmp_path}/count.py"
    words = {"map": ["-c", "test $MILLRACE_KEY = 013 && exit 1; tr 0-9 a-j < sample.cls > sample.word", "--on-error", "skip", "--max-samples", "7"],
             "mapreduce": ["--map", f"{script} map", "--reduce", f"{script} reduce", "--max-samples", "13"]}[verb]
    words += ["--tmpdir", tmp_path / "tmp"]
    (tmp_path / "alone").mkdir()
    alone = millrace.json("tar", verb, shards, "-o", tmp_path / "alone" / "out-%03d.tar", *words)[0]
    expected = outputs(tmp_path / "alone")
    assert len(expected) > 5
    for ranks in (1, 3):
        directory = tmp_path / f"ranks{ranks}"
        directory.mkdir()
        together = mpirun(ranks, "--json", "tar", verb, shards, "-o", directory / "out-%03d.tar", *words).rows
        assert outputs(directory) == expected
        for what in ("failed", "samples", "records", "groups", "counters"):
            assert together[0].get(what) == alone.get(what), what
        assert outputs(tmp_path / "tmp") == {}


def test_a_command_that_fails_is_told_by_every_rank(tmp_path, shards):
    ran = mpirun(2, "tar", "map", shards, "-o", tmp_path / "out-%03d.tar", "-c", "test $MILLRACE_KEY != 030", code=1)
    assert ran.err.count('sample "030"') == 2
