"""The table of docs/tflite-models.md, of what `explorer check` says of a folder of models.

    python scripts/make_tflite_models.py MODELS REPORTS        checks those that have no report yet
                                                               (REPORTS/NAME.json), prints the table

A model whose check takes longer than `--seconds` has none of its own and is left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from explorer.importers.tflite.file.reading import load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path)
    parser.add_argument("reports", type=Path)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--seconds", type=float, default=600)
    arguments = parser.parse_args()
    arguments.reports.mkdir(parents=True, exist_ok=True)
    print(f"| model | nodes | exact | every pass | judge | {arguments.target} |")
    print("| --- | --- | --- | --- | --- | --- |")
    for path in sorted(arguments.models.glob("*.tflite")):
        report = arguments.reports / f"{path.stem}.json"
        if not report.exists():
            _check(path, report, arguments.target, arguments.seconds)
        if report.exists() and report.stat().st_size:
            print(_row(path, json.loads(report.read_text())))


def _check(path: Path, report: Path, target: str, seconds: float) -> None:
    command = [sys.executable, "-m", "explorer", "check", str(path), "--json", "--target", target]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return
    report.write_text(found.stdout)


def _row(path: Path, found: Any) -> str:
    """`found`: what `explorer check --json` prints."""
    nodes = len(load(path).nodes)
    worst = max((p["worst"]["max_relative"] for p in found["passes"]), default=0.0)
    shown = "0" if worst == 0 else f"{worst:.1e}"
    outcome = "✓" if found["passed"] else found["problem"] or "fails"
    exact = len(found["exact"]) or ""
    judge = found["reference"].replace(" 2.3.0", "").split(" 0.dev")[0]
    return f"| {path.stem} | {nodes} | {exact} | {shown} | {judge} | {outcome} |"


if __name__ == "__main__":
    main()
