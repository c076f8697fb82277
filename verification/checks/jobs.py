"""Many checks, each in a process of its own with bounds; what was found is kept line by line.

    results = run_jobs(jobs, Path("models.jsonl"), limits, report)

An interrupted run continues: a job whose result is kept is not done again, unless the model's file,
what the cases say of it, or the tolerance has changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explorer.cases.cases import Case
from explorer.errors import InputError, ModelError
from explorer.files import append_line, reading_file
from explorer.importers.format import model_suffixes, models_among
from explorer.runtime.child import Child
from verification.checks.examine import TOLERANCE

PROGRAM = ("-m", "verification.checks.process")
PASSES, LABELS = "passes", "labels"

Result = dict[str, Any]
"""A job's fields and what was found."""


@dataclass(frozen=True)
class Limits:
    """What one job may take."""

    seconds: float = 600.0
    gibibytes: int = 8


@dataclass(frozen=True)
class Job:
    """One model on one target: its passes, or its labelled data."""

    task: str
    path: Path
    target: str
    fingerprint: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.task, self.path.stem, self.target


def find_models(names: Sequence[str]) -> list[Path]:
    """Model files, and those in folders and their folders, small ones first."""
    found: dict[Path, None] = {}
    for name in names:
        path = Path(name)
        if not path.exists():
            raise InputError("no such file or folder", file=name, hint="check the path")
        files = _models_in(path) if path.is_dir() else [path]
        found.update(dict.fromkeys(files))
    if not found:
        raise InputError(f"no {' or '.join(model_suffixes())} file there", file=names[0])
    stems = [path.stem for path in found]
    for path in found:
        if stems.count(path.stem) > 1:
            raise InputError(f"two models are called {path.stem}", file=str(path))
    return sorted(found, key=lambda path: (path.stat().st_size, path.stem))


def _models_in(folder: Path) -> list[Path]:
    return models_among(folder.rglob("*"))


def make_jobs(
    models: Sequence[Path], targets: Sequence[str], cases: Mapping[str, Case]
) -> list[Job]:
    """For each model all targets, then its labelled data on the first of them."""
    jobs = []
    for path in models:
        case = cases.get(path.stem, Case())
        content = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        fingerprint = f"{content} {case.digest} {TOLERANCE}"
        jobs += [Job(PASSES, path, target, fingerprint) for target in targets]
        if case.labels:
            jobs.append(Job(LABELS, path, targets[0], fingerprint))
    return jobs


def run_jobs(
    jobs: Sequence[Job],
    record: Path | None,
    cases: Path | None,
    folder: Path,
    limits: Limits,
    report: Callable[[Job, Result, int, int], None] | None = None,
) -> list[Result]:
    """The results in the jobs' order. `record`: where they are kept; None for nowhere."""
    kept = read_record(record) if record is not None and record.exists() else {}
    results = []
    child = Child(PROGRAM, [str(limits.gibibytes)])
    try:
        for number, job in enumerate(jobs):
            known = kept.get(job.key)
            if known is None or known["fingerprint"] != job.fingerprint:
                answer = child.ask(_request(job, cases, folder), limits.seconds)
                own = {"model": job.path.stem, "target": job.target, "task": job.task}
                known = {**answer, **own, "fingerprint": job.fingerprint}
                if record is not None:
                    append_line(record, json.dumps(known))
            results.append(known)
            if report is not None:
                report(job, known, number, len(jobs))
    finally:
        child.close()
    return results


def _request(job: Job, cases: Path | None, folder: Path) -> dict[str, str]:
    return {
        "task": job.task,
        "path": str(job.path.resolve()),
        "target": job.target,
        "cases": "" if cases is None else str(cases.resolve()),
        "folder": str(folder.resolve()),
    }


def read_record(path: Path) -> dict[tuple[str, str, str], Result]:
    """Kept results by job; of several the last. A line that was cut off is left out."""
    kept = {}
    for line in path.read_bytes().splitlines():
        with suppress(ModelError), reading_file(path, "line of a record"):
            result = json.loads(line)
            key = result["task"], result["model"], result["target"]
            if isinstance(result["fingerprint"], str) and isinstance(result["status"], str):
                kept[key] = result
    return kept
