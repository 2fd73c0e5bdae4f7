"""The binary under test, and how tests of all folders run it. Each conftest.py takes from here what its tests use."""
import json
import os
import pathlib
import subprocess

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# Ends a test whose program hangs; no result depends on how long anything takes.
HANG_SECONDS = 300


def binary():
    return os.path.join(REPOSITORY, os.environ.get("MILLRACE", "build/release/millrace"))


def has_fault_points():
    """Whether the binary under test is one with fault points: release builds have none."""
    return b"MILLRACE_CRASH_AT" in pathlib.Path(binary()).read_bytes()


class Outcome:
    def __init__(self, done):
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr.decode("utf-8", "replace")

    @property
    def text(self):
        return self.out.decode("utf-8", "replace")

    @property
    def rows(self):
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.text.splitlines()]


class Millrace:
    """Runs `millrace WORDS…` in `directory` and checks its exit code (None: any)."""

    def __init__(self, directory):
        self.directory = directory
        self.binary = binary()

    def __call__(self, *words, code=0, stdin=b"", cwd=None, env=None, program=None):
        command = [program or self.binary, *map(str, words)]
        feed = {"stdin": stdin} if hasattr(stdin, "fileno") else {"input": stdin}
        done = subprocess.run(command, capture_output=True, cwd=cwd or self.directory, timeout=HANG_SECONDS,
                              env={**os.environ, "LC_ALL": "C.UTF-8", **(env or {})}, **feed)
        outcome = Outcome(done)
        if code is not None:
            assert outcome.code == code, f"{command} ended with {outcome.code}, not {code}\n{outcome.err}\n{outcome.text[:2000]}"
        return outcome

    def json(self, *words, **options):
        """The rows of a command run with --json."""
        return self("--json", *words, **options).rows

    def popen(self, *words, **options):
        return subprocess.Popen([self.binary, *map(str, words)], cwd=self.directory, **options)


@pytest.fixture
def millrace(tmp_path):
    return Millrace(tmp_path)
