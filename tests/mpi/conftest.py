"""Fixtures of the MPI tests: real ranks under mpirun, with real sample stores."""
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

FAULTS = pathlib.Path(__file__).resolve().parents[1] / "faults"
sys.path.insert(1, str(FAULTS))
_spec = importlib.util.spec_from_file_location("faults_conftest", FAULTS / "conftest.py")
_shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_shared)
HANG_SECONDS, REPOSITORY, binary, millrace = _shared.HANG_SECONDS, _shared.REPOSITORY, _shared.binary, _shared.millrace
needs_root = _shared.needs_root
pytest_configure, pytest_collection_modifyitems = _shared.pytest_configure, _shared.pytest_collection_modifyitems

if shutil.which("mpirun") is None:
    pytest.skip("mpirun is not installed", allow_module_level=True)

MPIRUN = ["mpirun", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "--mca", "btl", "self,vader", "--mca", "pml", "ob1",
          "--tag-output"]
if os.geteuid() == 0:
    MPIRUN.insert(1, "--allow-run-as-root")


def environment(extra=None):
    # MPI keeps what it took until the process ends; a leak checker would name nothing else.
    return {**os.environ, "LC_ALL": "C.UTF-8", "ASAN_OPTIONS": "detect_leaks=0", "OMPI_MCA_orte_abort_print_stack": "0", **(extra or {})}


class Ran:
    """Lines of `--tag-output` sorted out: [1,RANK]<stdout>:line."""

    def __init__(self, code, out, err):
        self.code, self.err = code, err
        self.lines = [line.split(">:", 1)[1] if line.startswith("[1,") else line for line in out.splitlines()]
        self.rows = [json.loads(line) for line in self.lines if line.startswith("{")]


def command_of(ranks, words, only=None):
    """`only`: {rank: {variable: value}} for ranks with an environment of their own."""
    program = [binary(), *map(str, words)]
    if not only:
        return [*MPIRUN, "-n", str(ranks), *program]
    (rank, variables), = only.items()
    parts = []
    for count, own in ((rank, {}), (1, variables), (ranks - rank - 1, {})):
        if count > 0:
            chosen = [word for name, value in own.items() for word in ("-x", f"{name}={value}")]
            parts += [*([":"] if parts else []), "-n", str(count), *chosen, *program]
    return [*MPIRUN, *parts]


def mpirun(ranks, *words, only=None, code=0, cwd=None):
    done = subprocess.run(command_of(ranks, words, only), capture_output=True, text=True, cwd=cwd, timeout=HANG_SECONDS, env=environment())
    if code is not None:
        assert done.returncode == code, f"ended with {done.returncode}, not {code}\n{done.stderr}\n{done.stdout[:2000]}"
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def tmp_path():
    """In memory where there is such a place: these tests kill processes, not power, and flush thousands of times."""
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=fast) as directory:
        yield pathlib.Path(directory)


@pytest.fixture
def stores(tmp_path, millrace):
    """stores(ranks, samples) makes stores in label order and gives their root."""
    def make(ranks, samples=400, size=1500, partition="contiguous"):
        noise = os.urandom(4 * size)
        (tmp_path / "files").mkdir(exist_ok=True)
        for number in range(samples):
            folder = tmp_path / "files" / f"class{number * 10 // samples}"
            folder.mkdir(exist_ok=True)
            start = number * 37 % (3 * size)
            (folder / f"{number:06}.bin").write_bytes(b"%d:" % number + noise[start:start + size + number % 97])
        root = tmp_path / "stores"
        millrace("pls", "ingest", tmp_path / "files", "-o", root, "--ranks", ranks, "--partition", partition, "--segment", "64KiB")
        shutil.rmtree(tmp_path / "files")
        return root
    return make


def stat(millrace, root):
    return millrace.json("pls", "stat", root)[0]


def verify(millrace, root):
    """Every sample is held once and whole; what recovery will do is taken into account."""
    return millrace.json("-q", "pls", "verify", root)[0]
