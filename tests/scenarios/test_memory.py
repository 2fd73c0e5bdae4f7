"""Memory stays bounded on inputs that are larger than it."""
import random
import shutil
import subprocess
import sys
import tarfile
import threading

import pytest

MIB = 1 << 20
STREAMING = 64 * MIB
SORT_MEMORY = 64 * MIB

# A process's peak counts what it was forked from, so the child is started by an interpreter of 10 MB, not by pytest.
LAUNCHER = """
import os, sys
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(child, 0)
with open(sys.argv[1], "w") as file: file.write(str(usage.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status) & 0xff)
"""


def sample_stream(total_bytes, seed=1):
    """A tar of samples of 1 to 20 kB, piece by piece, made as it is asked for."""
    rng = random.Random(seed)
    noise = rng.randbytes(1 * MIB)
    made = number = 0
    while made < total_bytes:
        pieces = []
        for field, size in [("jpg", rng.randrange(1000, 20_000)), ("cls", 3)]:
            entry = tarfile.TarInfo(f"class{number % 100}/{number:08d}.{field}")
            entry.size = size
            start = rng.randrange(MIB - size)
            pieces += [entry.tobuf(tarfile.USTAR_FORMAT), noise[start:start + size], bytes(-size % 512)]
        number += 1
        piece = b"".join(pieces)
        made += len(piece)
        yield piece
    yield bytes(1024)


def one_large_member(total_bytes):
    entry = tarfile.TarInfo("large.bin")
    entry.size = total_bytes // MIB * MIB
    yield entry.tobuf(tarfile.USTAR_FORMAT)
    for _ in range(total_bytes // MIB):
        yield bytes(MIB)
    yield bytes(1024)


def peak_of(millrace, tmp_path, *words, stream=None):
    """Runs to the end with standard output thrown away; gives the peak of resident memory in bytes."""
    command = [sys.executable, "-I", "-S", "-c", LAUNCHER, tmp_path / "peak", millrace.binary, *map(str, words)]
    process = subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def feed():
        with process.stdin:
            for piece in stream or []:
                process.stdin.write(piece)

    feeder = threading.Thread(target=feed)
    feeder.start()
    error = process.stderr.read().decode()
    assert process.wait() == 0, error
    feeder.join()
    peak = int((tmp_path / "peak").read_text()) * 1024
    print(f"peak {peak / MIB:.1f} MiB")
    return peak


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """400 MB in four shards."""
    directory = tmp_path_factory.mktemp("large")
    for number in range(4):
        with open(directory / f"in-{number}.tar", "wb") as file:
            file.writelines(sample_stream(100_000_000, seed=number))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def scratch(tmp_path):
    (tmp_path / "scratch").mkdir()
    yield tmp_path / "scratch"
    shutil.rmtree(tmp_path / "scratch")


@pytest.mark.slow
def test_a_stream_of_600_megabytes_is_sharded_in_little_memory(millrace, tmp_path, scratch):
    peak = peak_of(millrace, tmp_path, "shard", "-", "-o", scratch / "out-%d.tar", "--max-bytes", "100MB", stream=sample_stream(600_000_000))
    assert len(list(scratch.glob("*.tar"))) == 7
    assert peak < STREAMING


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("verb", [["tar", "sort", "--reread", "never"], ["tar", "sort", "--by", "jpg"], ["tar", "shuffle"],
                                  ["tar", "shuffle", "--reread", "never"], ["shard", "--shuffle"]], ids=" ".join)
def test_sorting_and_shuffling_keep_to_their_memory(large, millrace, tmp_path, scratch, verb, jobs):
    tmpdir = ["--tmpdir", scratch] if verb[0] == "tar" else []
    peak = peak_of(millrace, tmp_path, *verb, large / "in-*.tar", "-o", "-", "--memory", "64MiB", "-j", jobs, *tmpdir)
    assert peak < SORT_MEMORY + 64 * MIB


@pytest.mark.slow
def test_a_shuffle_buffer_keeps_to_its_memory(large, millrace, tmp_path):
    peak = peak_of(millrace, tmp_path, "tar", "cat", large / "in-*.tar", "-o", "-", "--shuffle", "1000000", "--memory", "64MiB")
    assert peak < SORT_MEMORY + 64 * MIB


@pytest.mark.slow
@pytest.mark.parametrize("words", [["verify"], ["stat"], ["ls"], ["ls", "--members"], ["cat", "-o", "-"], ["cat", "-o", "-", "--compress", "gzip"],
                                   ["cat", "-o", "-", "--compress", "zstd"], ["merge", "-o", "-"]], ids=" ".join)
def test_tools_that_stream_need_little_memory(large, millrace, tmp_path, words):
    assert peak_of(millrace, tmp_path, "tar", words[0], *words[1:], large / "in-*.tar") < STREAMING


@pytest.mark.slow
def test_indexing_and_splitting_need_little_memory(large, millrace, tmp_path, scratch):
    assert peak_of(millrace, tmp_path, "tar", "index", large / "in-*.tar") < STREAMING
    assert peak_of(millrace, tmp_path, "tar", "split", large / "in-*.tar", "-o", scratch / "out-%03d.tar", "--max-bytes", "30MB") < STREAMING


@pytest.mark.slow
@pytest.mark.parametrize("words", [["ls"], ["stat"], ["verify"], ["extract", "-d", "scratch"]], ids=" ".join)
def test_a_single_member_larger_than_the_bound_passes_through(millrace, tmp_path, scratch, words):
    assert peak_of(millrace, tmp_path, "tar", words[0], "-", *words[1:], stream=one_large_member(400_000_000)) < STREAMING


@pytest.mark.slow
def test_a_large_file_of_a_directory_passes_through(millrace, tmp_path, scratch):
    with open(scratch / "large.bin", "wb") as file:
        file.truncate(400_000_000)
    assert peak_of(millrace, tmp_path, "shard", scratch, "-o", "-") < STREAMING


@pytest.mark.slow
def test_a_manifest_of_many_samples_needs_memory_for_names_only(millrace, tmp_path):
    with open(tmp_path / "list.tsv", "w") as file:
        file.write("__key__\ttxt\n")
        file.writelines(f"{number:08d}\tcaption\n" for number in range(200_000))
    assert peak_of(millrace, tmp_path, "shard", "list.tsv", "-o", "-") < 200_000 * 400 + STREAMING
