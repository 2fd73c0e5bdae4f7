"""Medians beside their goals, and the front door of the benches that run by themselves."""
import argparse
import statistics
import sys


def at_least(goal):
    return f"at least {goal}", lambda found: found >= goal


def at_most(goal):
    return f"at most {goal}", lambda found: found <= goal


def spread(values):
    return f"{statistics.median(values):,.3f} [{min(values):,.3f} to {max(values):,.3f}]"


def judge(table, title, values, goal=None):
    """Prints a line; `goal` is None, at_least(…) or at_most(…), and is asked of the median."""
    verdict = ""
    if goal is not None:
        text, holds = goal
        held = holds(statistics.median(values))
        verdict = f"   {text}: {'reached' if held else 'MISSED'}"
        if not held:
            table.missed.append(f"{title}: {statistics.median(values):.3f}, {text}")
    print(f"  {title:<58} {spread(values)}{verdict}", flush=True)


def conclude(table):
    """The last line, and the exit code."""
    print("\n" + ("all goals reached" if not table.missed else "goals missed:\n  " + "\n  ".join(table.missed)))
    sys.exit(1 if table.missed else 0)


def main(purpose, cases):
    parser = argparse.ArgumentParser(description=purpose.splitlines()[0])
    parser.add_argument("cases", nargs="*", help=f"which of {', '.join(cases)} (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    for name in arguments.cases:
        if name not in cases:
            parser.error(f"{name} is none of: {' '.join(cases)}")
    table = argparse.Namespace(rounds=arguments.rounds, missed=[])
    for name in arguments.cases or cases:
        cases[name](table)
    conclude(table)
