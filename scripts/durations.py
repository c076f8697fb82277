"""Where the time of a test run goes, and what became slower since another run.

    make test ARGS="--junitxml=build/tests.xml"
    python scripts/durations.py build/tests.xml                   by folder, and the slowest tests
    python scripts/durations.py build/tests.xml --before old.xml  what became slower or is new

Processor time is what each test adds to its record (tests/conftest.py); wall time stands next to
it. Tests are compared by processor time. A test counts as slower when it takes `--factor` times
and half a second more than before. The exit status is 0: a busy machine is no failure.
"""

import argparse
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

MIN_SECONDS = 0.5
"""Smaller differences are noise."""


@dataclass(frozen=True)
class Duration:
    """The times of one test, in seconds."""

    processor: float
    wall: float


def main() -> None:
    parser = argparse.ArgumentParser(description="Where the time of a test run goes.")
    parser.add_argument("record", type=Path, help="a record of pytest's --junitxml")
    parser.add_argument("--before", type=Path, help="the record of an earlier run")
    parser.add_argument("--count", type=int, default=30, help="how many tests are listed")
    parser.add_argument("--factor", type=float, default=1.5, help="how much slower counts")
    arguments = parser.parse_args()
    now = read_durations(arguments.record)
    print_totals(by_folder(now))
    if arguments.before is None:
        slowest = sorted(now.items(), key=lambda item: -item[1].processor)
        print_tests(slowest[: arguments.count])
        return
    slower = compare(read_durations(arguments.before), now, arguments.factor)
    print(f"\n{len(slower)} tests became slower or are new")
    for name, before, after in slower[: arguments.count]:
        print(f"{before:8.2f} -> {after:8.2f} s  {name}")


def read_durations(record: Path) -> dict[str, Duration]:
    """Every test of a record by its file and name. A record without processor times has wall time
    in their place."""
    durations = {}
    for case in ElementTree.parse(record).iter("testcase"):
        wall = float(case.get("time", 0))
        properties = {p.get("name"): p.get("value") for p in case.iter("property")}
        processor = float(properties.get("processor_seconds") or wall)
        file = case.get("classname", "").replace(".", "/")
        durations[f"{file}::{case.get('name', '')}"] = Duration(processor, wall)
    return durations


def by_folder(durations: Mapping[str, Duration]) -> dict[str, tuple[int, float, float]]:
    """Number of tests, processor seconds and wall seconds of each folder of `tests`."""
    totals: dict[str, list[Duration]] = defaultdict(list)
    for name, duration in durations.items():
        parts = name.partition("::")[0].split("/")
        totals[parts[1] if len(parts) > 2 else parts[0]].append(duration)
    return {
        folder: (len(all_), sum(d.processor for d in all_), sum(d.wall for d in all_))
        for folder, all_ in totals.items()
    }


def compare(
    before: Mapping[str, Duration], after: Mapping[str, Duration], factor: float
) -> list[tuple[str, float, float]]:
    """Name, processor seconds before and after of what became slower, the largest change first.

    A new test counts with 0 seconds before.
    """
    changes = []
    for name, duration in after.items():
        old = before[name].processor if name in before else 0.0
        if duration.processor > max(factor * old, old + MIN_SECONDS):
            changes.append((name, old, duration.processor))
    return sorted(changes, key=lambda change: change[1] - change[2])


def print_totals(totals: Mapping[str, tuple[int, float, float]]) -> None:
    print(f"{'tests':>6} {'processor s':>12} {'wall s':>8}  folder")
    for folder, (count, processor, wall) in sorted(totals.items(), key=lambda item: -item[1][1]):
        print(f"{count:6} {processor:12.1f} {wall:8.1f}  {folder}")
    count, processor, wall = (sum(row[i] for row in totals.values()) for i in range(3))
    print(f"{count:6} {processor:12.1f} {wall:8.1f}  together")


def print_tests(tests: Iterable[tuple[str, Duration]]) -> None:
    print(f"\n{'processor s':>12} {'wall s':>8}  test")
    for name, duration in tests:
        print(f"{duration.processor:12.2f} {duration.wall:8.2f}  {name}")


if __name__ == "__main__":
    main()
