"""Fixtures: the binary under test, run in a directory of the test's own."""
from program import HANG_SECONDS, REPOSITORY, Millrace, binary, millrace  # noqa: F401 (taken from here by the tests)
