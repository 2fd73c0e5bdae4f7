"""`cmake --install`, which ./dev install and ./dev package use: what lies where, and that it runs from there."""
import os
import pathlib
import shutil
import subprocess
import tarfile

import pytest
from conftest import HANG_SECONDS, binary


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("installed")
    subprocess.run(["cmake", "--install", pathlib.Path(binary()).parent, "--prefix", prefix], check=True, capture_output=True,
                   timeout=HANG_SECONDS)
    return prefix


def test_programs_manual_completions_licence_and_docs_are_installed(prefix):
    for name in ("bin/millrace", "bin/tarshards", "share/man/man1/millrace.1", "share/man/man1/millrace-tar-sort.1",
                 "share/man/man1/tarshards.1", "share/bash-completion/completions/millrace",
                 "share/bash-completion/completions/tarshards", "share/zsh/site-functions/_millrace",
                 "share/fish/vendor_completions.d/millrace.fish", "share/doc/millrace/LICENSE", "share/doc/millrace/README.md",
                 "share/doc/millrace/docs/guide/store.md"):
        assert (prefix / name).stat().st_size > 0, name


def test_the_installed_program_runs_by_path_symlink_and_absolute_name(prefix, tmp_path):
    (tmp_path / "linked").symlink_to(prefix / "bin" / "millrace")
    (tmp_path / "tarshards").symlink_to(prefix / "bin" / "millrace")
    path = {**os.environ, "PATH": f"{prefix}/bin:{os.environ['PATH']}"}
    for program in ("millrace", "tarshards", str(prefix / "bin" / "millrace"), str(tmp_path / "linked"), str(tmp_path / "tarshards")):
        done = subprocess.run([program, "--version"], capture_output=True, text=True, env=path, cwd=tmp_path, timeout=HANG_SECONDS)
        assert done.returncode == 0 and done.stdout.startswith("millrace "), program


@pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed")
@pytest.mark.parametrize("called", ["absolute", "path", "symlink"])
def test_the_installed_program_finds_its_module_for_mpi(prefix, tmp_path, called):
    if not (pathlib.Path(binary()).parent / "libmillrace_mpi.so").exists():
        pytest.skip("built without MPI")
    (tmp_path / "linked").symlink_to(prefix / "bin" / "millrace")
    program = {"absolute": str(prefix / "bin" / "millrace"), "path": "millrace", "symlink": str(tmp_path / "linked")}[called]
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "MILLRACE_MPI_MODULE")}
    environment["PATH"] = f"{prefix}/bin:{environment['PATH']}"
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    with tarfile.open(tmp_path / "in.tar", "w") as archive:
        for number in range(8):
            archive.addfile(tarfile.TarInfo(f"{number}.txt"))
    done = subprocess.run(["mpirun", *as_root, "--oversubscribe", "-n", "2", program, "tar", "shuffle", "in.tar", "-o", "out.tar"],
                          capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stderr
    with tarfile.open(tmp_path / "out.tar") as archive:
        assert sorted(archive.getnames()) == [f"{number}.txt" for number in range(8)]


def test_an_install_can_be_staged_for_a_package(tmp_path):
    subprocess.run(["cmake", "--install", pathlib.Path(binary()).parent, "--prefix", "/usr"], check=True, capture_output=True,
                   env={**os.environ, "DESTDIR": str(tmp_path)}, timeout=HANG_SECONDS)
    assert os.readlink(tmp_path / "usr" / "bin" / "tarshards") == "millrace"
    assert (tmp_path / "usr" / "share" / "man" / "man1" / "millrace.1").exists()
