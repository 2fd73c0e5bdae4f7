"""Fixtures of the fault tests: the node helper and fixtures of tests/scenarios, and what only tests of faults need."""
import importlib.util
import os
import pathlib
import sys

import pytest

SCENARIOS = pathlib.Path(__file__).resolve().parents[1] / "scenarios"

# nodes.py takes these from whatever `conftest` is at hand: here it is this file.
sys.path.insert(1, str(SCENARIOS))
_spec = importlib.util.spec_from_file_location("scenarios_conftest", SCENARIOS / "conftest.py")
_shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_shared)
HANG_SECONDS = _shared.HANG_SECONDS
REPOSITORY = _shared.REPOSITORY
binary = _shared.binary
millrace = _shared.millrace


def has_fault_points():
    """Whether the binary under test is one with fault points: release builds have none."""
    return b"MILLRACE_CRASH_AT" in pathlib.Path(binary()).read_bytes()


def pytest_configure(config):
    config.addinivalue_line("markers", "fault_points: needs a build with fault points")


def pytest_collection_modifyitems(items):
    if has_fault_points():
        return
    for item in items:
        if item.get_closest_marker("fault_points"):
            item.add_marker(pytest.mark.skip(reason="this build has no fault points"))


def needs_root():
    return pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
