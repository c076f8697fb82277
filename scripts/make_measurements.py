"""Makes docs/measurements.md of the tables in benchmarks/measurements.

python scripts/make_measurements.py

Each table is a CSV file; index.toml says when, where and by which command it was measured, and
which folders of the code it measures. A table older than the last commit to these is marked.
"""

import csv
import subprocess
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
TABLES = REPOSITORY / "benchmarks" / "measurements"
PAGE = REPOSITORY / "docs" / "measurements.md"
OLDER = "Older than the code: "
"""What the mark of an old table begins with."""
HEAD = """\
# Measurements

This page tells how fast and how exact the compiler is, for better and for worse. `python \
scripts/make_measurements.py` makes it of the tables in `benchmarks/measurements`: do not edit it. \
Each table has its date, its processor and the command that repeats it. Where the machine was \
loaded, read ratios: absolute times drift by a factor of two. No mean is taken over different \
processors. No GPU has been measured. The chart has the models of the section \
"Latency of ONNX models" on Zen 4, measured 2026-11-21.

![Ratio of our time to those of onnxruntime and OpenVINO for every model](images/latency.svg)
"""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A measured table: the fields of index.toml, and the rows of its file, headings first."""

    name: str
    section: str
    title: str
    date: str
    processor: str
    command: str
    measures: tuple[str, ...]
    note: str
    rows: tuple[tuple[str, ...], ...]


def read_tables() -> list[Table]:
    """The tables in the order of the index."""
    with (TABLES / "index.toml").open("rb") as file:
        entries = tomllib.load(file)["table"]
    return [
        Table(
            **{"note": "", **entry, "measures": tuple(entry["measures"])},
            rows=_rows(TABLES / f"{entry['name']}.csv"),
        )
        for entry in entries
    ]


def _rows(path: Path) -> tuple[tuple[str, ...], ...]:
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(tuple(row) for row in csv.reader(file))


@cache
def last_change(path: str) -> str:
    """The date (ISO 8601) of the last commit to a path of the repository; empty without git."""
    try:
        found = subprocess.run(
            ["git", "log", "-1", "--format=%cs", "--", path],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip()


def older_than(table: Table, changed: Callable[[str], str]) -> str:
    """The sentence that marks a table older than what it measures; empty for none."""
    later = {path: changed(path) for path in table.measures}
    later = {path: date for path, date in later.items() if date > table.date}
    if not later:
        return ""
    names = ", ".join(f"`{path}`" for path in later)
    return f"{OLDER}{names} changed later, until {max(later.values())}."


def to_markdown(tables: list[Table], changed: Callable[[str], str]) -> str:
    """The page. changed: the date of the last change to a path."""
    parts = [HEAD]
    section = ""
    for table in tables:
        if table.section != section:
            section = table.section
            parts.append(f"## {section}\n")
        lines = [f"Measured {table.date}, {table.processor}: `{table.command}`."]
        lines += [table.note] * bool(table.note)
        lines += [f"*{mark}*" for mark in [older_than(table, changed)] if mark]
        text = "\n\n".join([f"### {table.title}", *lines, _table(table.rows)])
        parts.append(f"{text}\n")
    return "\n".join(parts)


def _table(rows: tuple[tuple[str, ...], ...]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, f"|{' --- |' * len(rows[0])}")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(to_markdown(read_tables(), last_change), encoding="utf-8")
