"""millrace tar extract: files come out, and nothing gets out of the directory."""
import os
import tarfile

import pytest

from archives import add_file, add_special, put, small_shard, tree_bytes, write_members


@pytest.fixture
def outside(tmp_path):
    """Things beside the directory that an archive may aim at; checked to be untouched."""
    (tmp_path / "work").mkdir()
    put(tmp_path / "outside" / "file", b"untouched")
    yield tmp_path / "outside"
    assert tree_bytes(tmp_path / "outside") == {"file": b"untouched"}
    assert sorted(os.listdir(tmp_path)) == ["outside", "work"]


@pytest.mark.parametrize("name", ["../outside/file", "../x.txt", "a/../../x.txt", "a/b/../../../x.txt", "ABSOLUTE", "..", "./../x", "a/.."])
def test_names_that_leave_the_directory_are_refused(millrace, tmp_path, outside, name):
    name = str(outside / "file") if name == "ABSOLUTE" else name
    write_members(tmp_path / "work" / "evil.tar", [("good.txt", b"good"), (name, b"evil")])
    assert "not extracted" in millrace("tar", "extract", "evil.tar", "-d", "out", "--overwrite", code=1, cwd=tmp_path / "work").err


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE], ids=["symbolic", "hard"])
@pytest.mark.parametrize("target", ["ABSOLUTE", "../../outside", "../../outside/file"])
def test_links_are_never_made_and_never_written_through(millrace, tmp_path, outside, kind, target):
    target = str(outside) if target == "ABSOLUTE" else target
    with tarfile.open(tmp_path / "work" / "evil.tar", "w") as archive:
        add_special(archive, "link", kind, target)
        add_file(archive, "link/file", b"evil")
        add_special(archive, "name", kind, target)
        add_file(archive, "name", b"plain")
    millrace("tar", "extract", "evil.tar", "-d", "out", cwd=tmp_path / "work")
    out = tmp_path / "work" / "out"
    assert tree_bytes(out) == {"link/file": b"evil", "name": b"plain"}
    assert not any(path.is_symlink() for path in out.rglob("*"))


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]], ids=["", "overwrite"])
def test_links_that_are_in_the_directory_already_are_not_followed(millrace, tmp_path, outside, overwrite):
    out = tmp_path / "work" / "out"
    out.mkdir()
    os.symlink(outside, out / "directory")
    os.symlink(outside / "file", out / "file")
    write_members(tmp_path / "work" / "a.tar", [("directory/file", b"evil")])
    write_members(tmp_path / "work" / "b.tar", [("file", b"evil")])
    millrace("tar", "extract", "a.tar", "-d", "out", *overwrite, code=1, cwd=tmp_path / "work")
    millrace("tar", "extract", "b.tar", "-d", "out", *overwrite, code=0 if overwrite else 1, cwd=tmp_path / "work")


def test_devices_fifos_and_set_user_bits_are_not_made(millrace, tmp_path):
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        for name, kind in [("character", tarfile.CHRTYPE), ("block", tarfile.BLKTYPE), ("fifo", tarfile.FIFOTYPE)]:
            add_special(archive, name, kind)
        add_file(archive, "shell", b"#!/bin/sh", mode=0o6777)
    report = millrace.json("tar", "extract", "evil.tar", "-d", "out")[0]
    assert os.listdir(tmp_path / "out") == ["shell"]
    assert (tmp_path / "out" / "shell").stat().st_mode & 0o7000 == 0
    assert report["passed_over"] == 3


def test_existing_files_are_replaced_only_with_overwrite(millrace, tmp_path):
    small_shard(tmp_path / "in.tar", 3)
    put(tmp_path / "out" / "0001.jpg", b"mine")
    assert "--overwrite" in millrace("tar", "extract", "in.tar", "-d", "out", code=1).err
    assert (tmp_path / "out" / "0001.jpg").read_bytes() == b"mine"
    millrace("tar", "extract", "in.tar", "-d", "out", "--overwrite")
    assert (tmp_path / "out" / "0001.jpg").read_bytes() == b"picture 1"
    (tmp_path / "other" / "0001.jpg").mkdir(parents=True)
    millrace("tar", "extract", "in.tar", "-d", "other", "--overwrite", code=2)
    assert (tmp_path / "other" / "0001.jpg").is_dir()


def test_chosen_fields_are_extracted(millrace, tmp_path):
    write_members(tmp_path / "in.tar", [("a.jpg", b"1"), ("a.CLS", b"2"), ("a.txt", b"3"), ("README", b"4")])
    millrace("tar", "extract", "-f", "cls,txt", "in.tar", "-d", "out")
    assert tree_bytes(tmp_path / "out") == {"a.CLS": b"2", "a.txt": b"3"}


def test_extracted_files_keep_time_and_permissions(millrace, tmp_path):
    with tarfile.open(tmp_path / "in.tar", "w") as archive:
        add_file(archive, "a.sh", b"1", mtime=1_000_000_000, mode=0o755)
        add_file(archive, "b.txt", b"1", mtime=1_500_000_000, mode=0o600)
    millrace("tar", "extract", "in.tar", "-d", "out")
    assert (tmp_path / "out" / "a.sh").stat().st_mtime == 1_000_000_000
    assert (tmp_path / "out" / "a.sh").stat().st_mode & 0o100
    assert (tmp_path / "out" / "b.txt").stat().st_mode & 0o777 == 0o600
