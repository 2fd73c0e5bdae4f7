"""Archives pass both ways between millrace and GNU tar, bsdtar and Python's tarfile."""
import bz2
import gzip
import io
import lzma
import os
import random
import shutil
import subprocess
import tarfile

import pytest

from archives import (add_file, group, random_samples, read_members, shown, split_name, tree_bytes, write_members,
                      write_shard)

ENVIRONMENT = {**os.environ, "LC_ALL": "C.UTF-8"}

ODD_NAMES = [
    b"with space.txt", b"new\nline.txt", b"quo\"te'.txt", b"back\\slash.txt", b"-dash.txt", b"percent%d.txt",
    "ünï/日本語.jpg".encode(), b"not-utf8-\xff\xfe.bin", b"UPPER/Photo.JPG", b"d.e/a.b.jpg", b"x.tar.gz",
    b"ends-with-dot.", b"README", b".hidden", b"dir/.hidden", b"dir/._a.jpg", b"__meta__/info.txt", b"__top__",
    b"tab\there.txt", b"star*[1].txt",
]


LONG_NOT_UTF8 = b"long-not-utf8-" + b"\xfd" * 120 + b".bin"


def make_tree(top, more_names):
    """A directory with all kinds of names and entries."""
    rng = random.Random(1)
    names = ODD_NAMES + more_names + [
        b"n" * 96 + b".jpg",                                  # exactly 100
        b"n" * 97 + b".jpg",                                  # 101, in one piece
        b"p" * 90 + b"/" + b"q" * 90 + b".jpg",               # fits ustar's prefix
        b"p" * 150 + b"/" + b"q" * 150 + b".jpg",             # does not
        b"/".join([b"r" * 120] * 4) + b"/" + "ß".encode() * 60 + b".jpg",
    ]
    for number in range(20):
        names += [b"plain/%04d.jpg" % number, b"plain/%04d.cls" % number]
    for name in names:
        path = os.path.join(os.fsencode(top), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(rng.randbytes(rng.choice([0, 1, 512, rng.randrange(3000)])))
    (top / "empty-directory").mkdir()
    os.symlink("plain/0001.jpg", top / "symlink.jpg")
    os.symlink("s" * 180, top / "dangling.jpg")
    os.link(top / "plain/0002.jpg", top / "zz-hardlink.jpg")
    os.link(os.path.join(os.fsencode(top), b"n" * 97 + b".jpg"), top / "zz-hardlink-long.jpg")
    return top


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return make_tree(tmp_path_factory.mktemp("tree") / "data", [])


@pytest.fixture(scope="module")
def odder_tree(tmp_path_factory):
    return make_tree(tmp_path_factory.mktemp("tree") / "data", [LONG_NOT_UTF8])


def gnu_tar(tree, path, format):
    # Formats that cannot hold a name leave it out and say so.
    subprocess.run(["tar", f"--format={format}", "--sort=name", "-cf", path, "-C", tree, "."], env=ENVIRONMENT, stderr=subprocess.DEVNULL)


def bsd_tar(tree, path, format):
    names = subprocess.run(["find", ".", "-print0"], cwd=tree, capture_output=True, check=True).stdout
    ordered = b"\0".join(sorted(names.split(b"\0")[:-1]))
    subprocess.run(["bsdtar", f"--format={format}", "-cf", path, "--null", "-n", "-T", "-"], cwd=tree, env=ENVIRONMENT, input=ordered,
                   stderr=subprocess.DEVNULL)


def python_tar(tree, path, format):
    with tarfile.open(path, "w", format=format, dereference=False) as archive:
        for where, directories, names in sorted(os.walk(tree)):
            for name in sorted(directories + names):
                full = os.path.join(where, name)
                try:
                    archive.add(full, os.path.relpath(full, tree), recursive=False)
                except ValueError:
                    pass  # the format cannot hold this name


WRITERS = {
    **{f"gnu-tar-{format}": (gnu_tar, format) for format in ["v7", "oldgnu", "gnu", "ustar", "posix"]},
    **{f"bsdtar-{format}": (bsd_tar, format) for format in ["v7tar", "ustar", "pax", "paxr", "gnutar"]},
    "tarfile-ustar": (python_tar, tarfile.USTAR_FORMAT),
    "tarfile-gnu": (python_tar, tarfile.GNU_FORMAT),
    "tarfile-pax": (python_tar, tarfile.PAX_FORMAT),
}


@pytest.fixture(params=WRITERS)
def foreign(request, odder_tree, tmp_path):
    writer, format = WRITERS[request.param]
    path = tmp_path / "foreign.tar"
    writer(odder_tree, path, format)
    return path


def test_members_are_listed_as_python_reads_them(foreign, millrace):
    with tarfile.open(foreign) as archive:
        expected = [(shown(entry.name), entry.size, entry.isreg()) for entry in archive]
    assert len(expected) > 55
    rows = millrace.json("tar", "ls", "--members", foreign)
    assert [(row["name"].rstrip("/") if not row["file"] else row["name"], row["bytes"], row["file"]) for row in rows] == expected


def test_samples_are_those_of_webdataset(foreign, millrace):
    expected = [(shown(sample.key), {shown(field): len(data) for field, data in sample.fields.items()}) for sample in group(read_members(foreign))]
    rows = millrace.json("tar", "ls", foreign)
    assert [(row["key"], row["fields"]) for row in rows] == expected


def test_extracting_gives_the_same_bytes(foreign, millrace, tmp_path):
    expected = {os.path.normpath(member.name): member.data for member in read_members(foreign) if member.kind in (tarfile.REGTYPE, tarfile.AREGTYPE)}
    report = millrace.json("tar", "extract", foreign, "-d", tmp_path / "out")[0]
    assert tree_bytes(tmp_path / "out") == expected
    assert report["files"] == len(expected)


def test_foreign_archives_verify_and_index(foreign, millrace, tmp_path):
    assert millrace.json("tar", "verify", foreign)[0]["ok"]
    millrace("tar", "index", foreign)
    assert millrace.json("tar", "verify", foreign)[0]["index"]


# -- the other way -------------------------------------------------------------------------------------------

def read_by_gnu_tar(path, into):
    into.mkdir()
    subprocess.run(["tar", "-xf", path, "-C", into], check=True, env=ENVIRONMENT)
    return tree_bytes(into)


def read_by_bsd_tar(path, into):
    into.mkdir()
    done = subprocess.run(["bsdtar", "-xf", path, "-C", into], env=ENVIRONMENT, capture_output=True)
    assert done.returncode == 0, done.stderr
    return tree_bytes(into)


def read_by_python(path, into):
    return {os.path.normpath(member.name): member.data for member in read_members(path)}


READERS = [read_by_gnu_tar, read_by_bsd_tar, read_by_python]
SUFFIXES = [".tar", ".tar.gz", ".tgz", ".tar.zst"]


def sampled(tree):
    """What a shard of the tree holds: {name with its field in lower case: bytes}."""
    expected = {}
    for name, data in tree_bytes(tree).items():
        split = None if os.path.basename(name).startswith(".") else split_name(name)
        if split:
            expected[f"{split[0]}.{split[1]}"] = data
    # Links to files are files to millrace shard: it reads what the user's tree shows.
    with open(tree / "plain/0001.jpg", "rb") as file:
        expected["symlink.jpg"] = file.read()
    return expected


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_shards_of_a_directory_are_read_by_every_tar(tree, millrace, tmp_path, suffix, reader):
    millrace("shard", tree, "-o", f"out{suffix}")
    assert reader(tmp_path / f"out{suffix}", tmp_path / "read") == sampled(tree)


@pytest.mark.parametrize("reader", READERS)
def test_a_long_name_that_is_not_utf8_is_read_by_every_tar(millrace, tmp_path, reader):
    (tmp_path / "data").mkdir()
    name = os.fsdecode(LONG_NOT_UTF8)
    with open(tmp_path / "data" / name, "wb") as file:
        file.write(b"bytes")
    millrace("shard", "data", "-o", "out.tar")
    assert reader(tmp_path / "out.tar", tmp_path / "read") == {name: b"bytes"}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("verb", [["cat"], ["sort"], ["shuffle"], ["split", "--max-samples", "7"], ["cat", "--rekey", "k" * 120 + "/%06d"]],
                         ids=["cat", "sort", "shuffle", "split", "rekey"])
def test_rewritten_shards_are_read_by_every_tar(millrace, tmp_path, verb, suffix, reader):
    samples = random_samples(random.Random(2), 20)
    write_shard(tmp_path / "in.tar", samples)
    expected = {f"{s.key}.{field}": data for s in samples for field, data in s.fields.items()}
    if "--rekey" in verb:
        expected = {f"{'k' * 120}/{i:06d}.{field}": data for i, s in enumerate(samples) for field, data in s.fields.items()}
    millrace("tar", *verb, "in.tar", "-o", f"out-%d{suffix}")
    found = {}
    for number in range(3 if verb[0] == "split" else 1):
        found.update(reader(tmp_path / f"out-{number}{suffix}", tmp_path / f"read{number}"))
    assert found == expected


@pytest.mark.parametrize("suffix,magic", [(".tar.gz", b"\x1f\x8b"), (".tgz", b"\x1f\x8b"), (".tar.zst", b"\x28\xb5\x2f\xfd"), (".tar", b"a.txt")])
def test_the_name_decides_the_compression(millrace, tmp_path, suffix, magic):
    write_members(tmp_path / "in.tar", [("a.txt", b"1")])
    millrace("tar", "cat", "in.tar", "-o", f"out{suffix}")
    assert (tmp_path / f"out{suffix}").read_bytes().startswith(magic)
    millrace("tar", "cat", "in.tar", "-o", "chosen.tar", "--compress", "gzip")
    assert (tmp_path / "chosen.tar").read_bytes().startswith(b"\x1f\x8b")


# -- huge ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], ids=["base-256", "pax"])
def test_a_member_of_nine_gibibytes_is_listed(millrace, tmp_path, format):
    huge = 9 << 30
    path = tmp_path / "huge.tar"
    entry = tarfile.TarInfo("huge.bin")
    entry.size = huge
    header = entry.tobuf(format)
    after = io.BytesIO()
    with tarfile.open(fileobj=after, mode="w", format=format) as archive:
        add_file(archive, "small.txt", b"behind the huge one")
    with open(path, "wb") as file:
        file.write(header)
        file.seek(huge, os.SEEK_CUR)
        file.write(after.getvalue())
    listed = subprocess.run(["tar", "-tvf", path], capture_output=True, check=True, text=True).stdout
    assert str(huge) in listed and "small.txt" in listed
    members = millrace.json("tar", "ls", "--members", path)
    assert [(row["name"], row["bytes"]) for row in members] == [("huge.bin", huge), ("small.txt", 19)]
    assert [(row["key"], row["bytes"]) for row in millrace.json("tar", "ls", path)] == [("huge", huge), ("small", 19)]
    stat = millrace.json("tar", "stat", path)[0]
    assert stat["fields"]["bin"]["max"] == huge
    assert stat["samples"]["bytes"] == huge + 19
    assert stat["bytes"] == os.path.getsize(path)
    # One sample is held in memory by tools that copy, and this one is above the limit they state.
    assert "huge" in millrace("tar", "cat", path, "-o", "copy.tar", code=1).err
    assert not (tmp_path / "copy.tar").exists()


def test_a_file_of_nine_gibibytes_gets_a_header_that_others_read(millrace, tmp_path):
    (tmp_path / "data").mkdir()
    with open(tmp_path / "data" / "huge.bin", "wb") as file:
        file.truncate(9 << 30)
    process = millrace.popen("shard", "data", "-o", "-", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    start = process.stdout.read(1 << 20)
    process.stdout.close()
    process.wait()
    with tarfile.open(fileobj=io.BytesIO(start)) as archive:
        assert (archive.firstmember.name, archive.firstmember.size) == ("huge.bin", 9 << 30)
    for program in ["tar", "bsdtar"]:
        listed = subprocess.run([program, "-tvf", "-"], input=start, capture_output=True).stdout
        assert str(9 << 30).encode() in listed and b"huge.bin" in listed


@pytest.mark.parametrize("options", [["--label=volume"], ["--listed-incremental=snapshot"], ["--format=posix", "--xattrs", "--acls"]], ids=" ".join)
def test_labels_dumps_and_attributes_of_gnu_tar_are_passed_over(tree, millrace, tmp_path, options):
    subprocess.run(["tar", *options, "--sort=name", "-cf", tmp_path / "in.tar", "-C", tree, "plain", "UPPER"], cwd=tmp_path, check=True)
    # Python's tarfile is no judge here: it takes the times that GNU tar keeps behind a header for part of the name.
    expected = {f"plain/{n:04d}": {f: os.path.getsize(tree / f"plain/{n:04d}.{f}") for f in ["cls", "jpg"]} for n in range(20)}
    expected["UPPER/Photo"] = {"jpg": os.path.getsize(tree / "UPPER/Photo.JPG")}
    assert {row["key"]: row["fields"] for row in millrace.json("tar", "ls", "in.tar")} == expected
    assert millrace.json("tar", "verify", "in.tar")[0]["ok"]


# -- compressed input, by content ----------------------------------------------------------------------------

def zstd(data):
    return subprocess.run(["zstd", "-qc"], input=data, capture_output=True, check=True).stdout


COMPRESSORS = {"gzip": gzip.compress, "zstd": zstd, "bzip2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("misleading", ["in.tar", "in.tar.gz", "in.tar.xz", "in.jpg"])
@pytest.mark.parametrize("kind", COMPRESSORS)
def test_compression_is_recognised_by_content(millrace, tmp_path, kind, misleading, parts):
    samples = random_samples(random.Random(4), 30)
    plain = write_shard(tmp_path / "plain.tar", samples).read_bytes()
    cuts = [len(plain) * i // parts + (i % parts) * 7 for i in range(parts + 1)]
    (tmp_path / misleading).write_bytes(b"".join(COMPRESSORS[kind](plain[a:b]) for a, b in zip(cuts, cuts[1:])))
    assert millrace.json("tar", "ls", misleading) == millrace.json("tar", "ls", "plain.tar")
    piped = millrace.json("tar", "ls", "-", stdin=(tmp_path / misleading).read_bytes())
    assert piped == millrace.json("tar", "ls", "plain.tar")


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_a_cut_or_damaged_compressed_archive_is_an_error(millrace, tmp_path, kind):
    samples = random_samples(random.Random(5), 60)
    packed = COMPRESSORS[kind](write_shard(tmp_path / "plain.tar", samples).read_bytes())
    rng = random.Random(6)
    for _ in range(8):
        (tmp_path / "cut").write_bytes(packed[:rng.randrange(7, len(packed) - 1)])
        outcome = millrace("tar", "cat", "cut", "-o", "out.tar", code=1)
        assert "cut" in outcome.err
        assert not (tmp_path / "out.tar").exists()
    wounded = bytearray(packed)
    wounded[len(packed) // 2] ^= 0x55
    (tmp_path / "wounded").write_bytes(wounded)
    millrace("tar", "cat", "wounded", "-o", "out.tar", code=1)
    assert not (tmp_path / "out.tar").exists()


# -- sparse --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("options", [["--format=oldgnu"], ["--format=gnu"], ["--format=posix", "--sparse-version=0.0"],
                                     ["--format=posix", "--sparse-version=0.1"], ["--format=posix", "--sparse-version=1.0"]],
                         ids=["oldgnu", "gnu", "posix-0.0", "posix-0.1", "posix-1.0"])
def test_sparse_members_are_refused_and_give_no_data(millrace, tmp_path, options):
    with open(tmp_path / "holes.bin", "wb") as file:
        for place in range(0, 20 << 20, 1 << 20):
            file.seek(place)
            file.write(b"island")
        file.truncate(32 << 20)
    subprocess.run(["tar", "--sparse", *options, "-cf", "sparse.tar", "holes.bin"], cwd=tmp_path, check=True)
    assert (tmp_path / "sparse.tar").stat().st_size < 1 << 20, "GNU tar found no holes"
    for words in [["ls"], ["ls", "--members"], ["stat"], ["cat", "-o", "out.tar"], ["sort", "-o", "out.tar"], ["index"],
                  ["extract", "-d", "out"]]:
        outcome = millrace("tar", words[0], "sparse.tar", *words[1:], code=1)
        assert "sparse" in outcome.err
        assert outcome.out == b""
    assert not (tmp_path / "out.tar").exists()
    assert tree_bytes(tmp_path / "out") == {}
    verdict = millrace("tar", "verify", "sparse.tar", code=1)
    assert "sparse" in verdict.text
    shutil.rmtree(tmp_path / "out")
