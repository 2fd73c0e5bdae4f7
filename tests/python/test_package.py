"""The package as it is shipped: stubs that say what is there, and a wheel that works by itself."""
import ast
import os
import pathlib
import shutil
import subprocess
import sys

import millrace
from millrace import _core

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "src" / "python" / "millrace"


def stub_names():
    """{name: set of its public methods and attributes} of the classes and functions in the stub."""
    found = {}
    for node in ast.parse((PACKAGE / "_core.pyi").read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = set()
        elif isinstance(node, ast.ClassDef):
            inside = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            inside |= {item.target.id for item in node.body if isinstance(item, ast.AnnAssign)}
            found[node.name] = {name for name in inside if not name.startswith("__")}
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = set()
    return found


def test_the_stub_says_what_the_module_has():
    stub = stub_names()
    for name in (name for name in dir(_core) if not name.startswith("_")):
        assert name in stub, f"_core.{name} is not in the stub"
        if isinstance(getattr(_core, name), type):
            assert {part for part in vars(getattr(_core, name)) if not part.startswith("_")} == stub[name], name


def test_everything_public_is_there():
    for name in millrace.__all__:
        assert hasattr(millrace, name)
    assert (PACKAGE / "py.typed").exists()


def test_the_wheel_works_by_itself(tmp_path, shards):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([*pip, "wheel", "--quiet", "--no-build-isolation", "--no-deps", "-w", tmp_path, REPOSITORY],
                   check=True, timeout=800, env=environment)
    wheel, = tmp_path.glob("millrace-*.whl")
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", "--target", tmp_path / "site", wheel],
                   check=True, timeout=300, env=environment)
    program = ("import millrace, millrace.dlinputs, millrace.webdataset, sys; print(millrace.__file__); "
               "print(len(list(millrace.samples(sys.argv[1]))))")
    done = subprocess.run([sys.executable, "-c", program, shards / "good-000.tar"], capture_output=True, text=True, cwd=tmp_path,
                          env={**environment, "PYTHONPATH": str(tmp_path / "site")}, check=True)
    assert done.stdout.splitlines() == [str(tmp_path / "site" / "millrace" / "__init__.py"), "8"]
    assert (tmp_path / "site" / "millrace" / "_core.pyi").exists() and (tmp_path / "site" / "millrace" / "py.typed").exists()
    if shutil.which("mpirun") and (pathlib.Path(_core.__file__).parent / "libmillrace_mpi.so").exists():
        program = "from millrace.pls.group import share, world; group = world(); print(sorted(share(group, group.rank)))"
        as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        done = subprocess.run(["mpirun", *as_root, "--oversubscribe", "-n", "2", sys.executable, "-c", program], capture_output=True,
                              text=True, cwd=tmp_path, env={**environment, "PYTHONPATH": str(tmp_path / "site")}, timeout=300)
        # Lines of two ranks may run into each other.
        assert done.stdout.replace("\n", "") == "[0, 1]" * 2, done.stderr
