"""Where the tests of a cluster under faults find what they share with others: nodes, clients and payloads."""
import pathlib
import signal
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
for folder in ("scenarios", "faults"):
    sys.path.insert(1, str(TESTS / folder))

from program import millrace  # noqa: E402, F401 (found by the lines above)

# A run that is told to end takes its processes and namespaces along.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
