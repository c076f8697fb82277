"""A child process that checks models, each in a fork of its own, so that a crash or an endless loop
is one result more.

python -m verification.checks.process REPLY_FD GIBIBYTES

parent  ── {"task": "passes", "path": ..., "target": "cpu", "cases": ..., "folder": ...} ──▶
        ◀── a `Finding`, or the accuracies on labelled data, as one line of JSON ──────────
"""

from __future__ import annotations

import math
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from explorer.cases.cases import Case, read_cases
from explorer.errors import ExplorerError
from explorer.runtime.processes import limit_memory
from verification.checks.examine import FAILED, REFUSED, examine, one_line
from verification.checks.labels import measure
from verification.forks import answer_in_forks


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """What was found, as plain data; any error is one of the results."""
    path, folder = Path(request["path"]), Path(request["folder"])
    cases = read_cases(Path(request["cases"])) if request["cases"] else {}
    case = cases.get(path.stem, Case())
    try:
        if request["task"] == "passes":
            return asdict(examine(path, request["target"], case, folder))
        found = [measure(path, request["target"], case, entry, folder) for entry in case.labels]
        return {"status": "passed", "labels": found}
    except ExplorerError as error:
        return {"status": REFUSED, "reason": one_line(error)}
    except MemoryError:
        return {"status": FAILED, "reason": "it needs more memory than it may take"}
    except Exception as error:  # a defect of the project is a result here, and not the end
        return {"status": FAILED, "reason": one_line(f"{type(error).__name__}: {error}")}


def main() -> None:
    warnings.simplefilter("ignore")  # of NumPy, about infinities
    limit_memory(int(sys.argv[2]) << 30)
    answer_in_forks(lambda request: _finite(answer(request)), int(sys.argv[1]))


def _finite(data: Any) -> Any:
    """The same with infinities and NaN as text, for JSON has none."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return str(data)
    return data


if __name__ == "__main__":
    main()
