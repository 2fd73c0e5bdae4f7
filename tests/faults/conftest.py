"""Fixtures of the fault tests: the node helper and fixtures of tests/scenarios, and what only tests of faults need."""
import os
import pathlib
import sys

import pytest

SCENARIOS = pathlib.Path(__file__).resolve().parents[1] / "scenarios"

sys.path.insert(1, str(SCENARIOS))
from program import HANG_SECONDS, REPOSITORY, binary, has_fault_points, millrace  # noqa: E402, F401 (found by the line above)


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
