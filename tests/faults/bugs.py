#!/usr/bin/python3
"""Bugs on purpose: each is switched on in the sanitized build, and a lane of tests must notice it.

./dev bugs runs all and prints a table. A test that cannot fail proves nothing. Give names of bugs to run only those.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIMULATION = ROOT / "build/dev/src/cluster/simulation/cluster_simulation"
TESTS = ROOT / "tests"

# bug -> what it does, and the kind of cluster of the simulation that shows it soonest.
SIMULATED = {
    "ack-after-home-mark": ("acknowledges before the holders have marked", 1),
    "double-commit": ("sends a commit again whose answer was lost", 1),
    "forget-tombstone": ("keeps no mark of a removal", 8),
    "ignore-undecided": ("guesses where a write may hide", 1),
    "join-mending": ("answers who asks in the midst of a mending with what it found", 6),
    "let-go-first": ("lets the old place go before the new slice is there", 1),
    "mark-without-all-slices": ("commits before all slices are durable, and marks what has no slice", 5),
    "no-fence": ("acts after the lease has ended", 1),
    "no-pointer-marks": ("does not tell the present placement", 1),
    "no-promise": ("takes marks of epochs that are over", 1),
    "no-sync": ("a new home asks nobody but itself", 1),
    "quorum-read-any-map": ("trusts marks of an old map", 2),
    "quorum-read-unfinished": ("trusts marks that are not complete", 2),
    "roll-back-marked": ("does not finish a commit that was half marked", 3),
    "sync-ignores-silent": ("goes on without the holders that do not answer", 1),
}
# bug -> what it does, and the test with real nodes that notices it.
REAL = {
    "list-without-node": ("lists without the nodes that do not answer",
                          "scenarios/test_cluster_losses.py::test_beyond_the_redundancy_reads_fail_and_nothing_wrong_is_given"),
    "mixed-writes": ("slices of two writes of a key have one name",
                     "scenarios/test_store_linearisable.py::test_what_64_clients_of_three_nodes_saw_can_have_happened_in_one_order[2+1]"),
    "no-comparing": ("serves slices, and makes others from them, that were not compared with their checksums",
                     "scenarios/test_cluster_repair.py::test_what_cannot_be_made_again_stays_named_and_is_never_served"),
    "no-fsync": ("does not flush files", "faults/test_power_loss.py::test_bug_is_caught[no-fsync]"),
    "no-dir-fsync": ("does not flush directories", "faults/test_power_loss.py::test_bug_is_caught[no-dir-fsync]"),
    "early-ack": ("answers before the index is durable", "faults/test_power_loss.py::test_bug_is_caught[early-ack]"),
}


def simulate(bug, kind):
    """What was said, and whether the bug was noticed."""
    done = subprocess.run([SIMULATION, "--kind", str(kind), "--seeds", "6000", "--expect-violation"], env={**os.environ, "MILLRACE_BROKEN": bug},
                          capture_output=True, text=True, timeout=900)
    return done.stdout.splitlines()[-1] if done.stdout else done.stderr[-200:], done.returncode == 0


def try_real(bug, test):
    # The lane of power loss switches its bugs on by itself, and passes where it notices them.
    by_itself = "test_bug_is_caught" in test
    env = {**os.environ, "MILLRACE": str(ROOT / "build/dev/millrace"), "LOSSYFS": str(ROOT / "build/dev/tests/faults/lossyfs"), "PYTHONDONTWRITEBYTECODE": "1"}
    if not by_itself:
        env["MILLRACE_BROKEN"] = bug
    done = subprocess.run(["/usr/bin/python3", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", TESTS / test], env=env, capture_output=True, text=True, timeout=900)
    said = next((line for line in done.stdout.splitlines() if line.startswith("E  ")), done.stdout.splitlines()[-1])
    # 1: a test failed. 2 and more: it could not run, which proves nothing.
    return said.removeprefix("E  ").strip()[:100], done.returncode == (0 if by_itself else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bugs", nargs="*", help="default: all")
    wanted = parser.parse_args().bugs
    unknown = set(wanted) - set(SIMULATED) - set(REAL)
    if unknown:
        parser.error(f"there is no bug {', '.join(sorted(unknown))}")
    missed = []
    print("| bug | lane | seconds | seen |\n|---|---|---|---|")
    for bugs, lane, run in ((SIMULATED, "simulation", simulate), (REAL, "real nodes", try_real)):
        for bug, (what, how) in bugs.items():
            if wanted and bug not in wanted:
                continue
            began = time.monotonic()
            seen, noticed = run(bug, how)
            print(f"| {bug}: {what} | {lane} | {time.monotonic() - began:.1f} | {seen if noticed else 'MISSED: ' + seen} |", flush=True)
            if not noticed:
                missed.append(bug)
    print(f"{len(missed)} missed{': ' if missed else ''}{', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
