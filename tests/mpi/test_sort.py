"""millrace tar sort, shuffle and reshard under mpirun: the bytes of one process, for any number of ranks."""
import os

import pytest

from conftest import mpirun
from nodes import Node


@pytest.fixture
def shards(tmp_path, millrace):
    for number in range(700):
        folder = tmp_path / "files" / f"d{number % 7}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number * 7919 % 1000:03}-{number}.bin").write_bytes(os.urandom(200 + number * 61 % 5000))
        (folder / f"{number * 7919 % 1000:03}-{number}.num").write_text(str(number * 31 % 50))
    millrace("shard", tmp_path / "files", "-o", tmp_path / "in-%03d.tar", "--max-samples", "90")
    return str(tmp_path / "in-*.tar")


def outputs(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


VERBS = [("shuffle", "--seed", "3"), ("sort",), ("sort", "--by", "num", "--number", "--reverse"), ("reshard",)]


@pytest.mark.parametrize("words", VERBS, ids=lambda words: "-".join(words))
def test_any_number_of_ranks_writes_the_same_bytes(tmp_path, millrace, shards, words):
    cut = ("--max-bytes", "300kB", "--memory", "8MiB")
    (tmp_path / "alone").mkdir()
    alone = millrace.json("tar", *words, shards, "-o", tmp_path / "alone" / "out-%03d.tar", *cut)[0]
    assert alone["samples"] == 700 and len(alone["shards"]) > 5
    expected = outputs(tmp_path / "alone")
    for ranks in (1, 2, 4, 8):
        directory = tmp_path / f"ranks{ranks}"
        directory.mkdir()
        # Samples travel themselves, or only where they lie.
        how = ("--reread", "never") if ranks in (2, 8) else ()
        together = mpirun(ranks, "--json", "tar", *words, shards, "-o", directory / "out-%03d.tar", *cut, *how).rows
        assert [row["samples"] for row in together] == [700]
        assert outputs(directory) == expected


def test_ranks_read_from_a_store_and_write_to_it(tmp_path, millrace, shards):
    (tmp_path / "alone").mkdir()
    cut = ("--seed", "5", "--max-bytes", "300kB")
    millrace("tar", "shuffle", shards, "-o", tmp_path / "alone" / "out-%03d.tar", *cut)
    expected = {name: data for name, data in outputs(tmp_path / "alone").items() if name.endswith(".tar")}
    (tmp_path / "node").mkdir()
    with Node(tmp_path / "node") as node:
        node.put("/set", b"")
        for path in sorted(tmp_path.glob("in-*.tar")):
            assert node.put(f"/set/{path.name}", path.read_bytes()).status == 200
        for ranks in (2, 4):
            mpirun(ranks, "tar", "shuffle", f"{node.url}/set/in-{{000..007}}.tar", "-o", f"{node.url}/set/ranks{ranks}/out-%03d.tar", *cut)
            written = {key.split("/")[1]: node.get(f"/set/{key}").body for key in node.keys("set", f"ranks{ranks}/")}
            assert written == expected


def test_a_cut_shard_is_named_by_every_rank(tmp_path, shards):
    victim = tmp_path / "in-004.tar"
    victim.write_bytes(victim.read_bytes()[:100_000])
    ran = mpirun(4, "tar", "shuffle", shards, "-o", tmp_path / "out-%03d.tar", code=1)
    assert ran.err.count("in-004.tar") == 4


def test_streams_are_refused_under_mpirun(tmp_path, shards):
    assert "not to standard output" in mpirun(2, "tar", "shuffle", shards, "-o", "-", code=2).err
