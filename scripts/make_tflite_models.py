"""The table of docs/tflite-models.md, of what `explorer check` says of a folder of models.

    python scripts/make_tflite_models.py MODELS REPORTS        checks those that have no report yet
                                                               (REPORTS/TARGET/NAME.json), prints
                                                               the table

What is said of a model is of the first of `--targets`; of others it is only told whether it passes.
A check that takes longer than `--seconds` has no report; `--only NAME` (several times) checks these
models and prints what there is.
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
    parser.add_argument("--targets", default="cpu,opencl", help="names with commas between them")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    arguments = parser.parse_args()
    targets = arguments.targets.split(",")
    print(f"| model | nodes | exact | every pass | judge | {' | '.join(targets)} |")
    print("| --- | --- | --- | --- | --- |" + " --- |" * len(targets))
    for path in sorted(arguments.models.glob("*.tflite")):
        found: list[Any] = []
        for target in targets:
            report = arguments.reports / target / f"{path.stem}.json"
            if not report.exists() and (not arguments.only or path.stem in arguments.only):
                report.parent.mkdir(parents=True, exist_ok=True)
                _check(path, report, target, arguments.seconds)
            has_report = report.exists() and report.stat().st_size
            found.append(json.loads(report.read_text()) if has_report else None)
        if found[0] is not None:
            print(_row(path, found[0], [_outcome(one) for one in found]), flush=True)


def _check(path: Path, report: Path, target: str, seconds: float) -> None:
    command = [sys.executable, "-m", "explorer", "check", str(path), "--json", "--target", target]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return
    report.write_text(found.stdout)


def _outcome(found: Any) -> str:
    """In one cell; nothing where there is no report."""
    if found is None:
        return ""
    return "✓" if found["passed"] else found["problem"] or "fails"


def _row(path: Path, found: Any, outcomes: list[str]) -> str:
    """`found`: what `explorer check --json` prints."""
    nodes = len(load(path).nodes)
    worst = max((p["worst"]["max_relative"] for p in found["passes"]), default=0.0)
    shown = "0" if worst == 0 else f"{worst:.1e}"
    exact = len(found["exact"]) or ""
    judge = found["reference"].replace(" 2.3.0", "").split(" 0.dev")[0]
    return f"| {path.stem} | {nodes} | {exact} | {shown} | {judge} | {' | '.join(outcomes)} |"


if __name__ == "__main__":
    main()
