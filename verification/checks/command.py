"""`explorer check` of several models: jobs, what is kept of them, and the table."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from explorer.cases.cases import read_cases
from explorer.cli.terminal import Progress, print_json, print_lines, print_note
from explorer.errors import InputError
from explorer.files import check_output, write_file
from verification.checks.examine import PASSED
from verification.checks.jobs import (
    Job,
    Limits,
    Result,
    find_models,
    make_jobs,
    read_record,
    run_jobs,
)
from verification.checks.table import Table

NOT_PASSED = 1


def run_table(arguments: argparse.Namespace) -> int:
    """Status 1 when a model does not pass on some target."""
    one_model = ("input", "golden")
    for option in one_model:
        if getattr(arguments, option) is not None:
            raise InputError(f"--{option} is for one model", hint="use --cases for several")
    if arguments.dim:
        raise InputError("--dim is for one model", hint="use --cases for several")
    for option, is_given in (("--decide", arguments.decide), ("--no-host", not arguments.host)):
        if is_given:
            raise InputError(f"{option} is for one model", hint="check the models one by one")
    for file in (arguments.report, arguments.record):
        if file is not None:
            check_output(file)
    targets = arguments.targets or [arguments.target]
    cases = read_cases(arguments.cases) if arguments.cases is not None else {}
    models = _chosen(arguments)
    jobs = make_jobs(models, targets, cases)
    if arguments.kept:
        jobs = _kept(jobs, arguments.record)
    limits = Limits(arguments.seconds, arguments.memory)
    with Progress("checking") as progress:

        def report(job: Job, result: Result, number: int, total: int) -> None:
            progress(f"{job.path.stem} {job.target} {job.task}", number, total)
            if result["status"] != PASSED:
                what = f"{job.path.stem} {job.target} {job.task}"
                print_note(f"{what} {result['status']}: {result.get('reason', '')}")

        results = run_jobs(
            jobs, arguments.record, arguments.cases, _folder(arguments), limits, report
        )
    table = Table(results, targets, _command(), [path.stem for path in models])
    if arguments.json:
        print_json({"models": results, "targets": targets, "counts": table.counts()})
    else:
        print_lines(table.lines())
    if arguments.report is not None:
        write_file(arguments.report, table.markdown())
    return 0 if all(result["status"] == PASSED for result in results) else NOT_PASSED


def _chosen(arguments: argparse.Namespace) -> list[Path]:
    models = [path for path in find_models(arguments.models) if arguments.only in path.stem]
    if not models:
        raise InputError(f"no model has {arguments.only!r} in its name")
    return models


def _kept(jobs: Sequence[Job], record: Path | None) -> list[Job]:
    """The jobs that need not be run."""
    if record is None or not record.exists():
        raise InputError("--kept is for a --record that exists", hint="leave it out")
    known = read_record(record)
    return [j for j in jobs if known.get(j.key, {}).get("fingerprint") == j.fingerprint]


def _folder(arguments: argparse.Namespace) -> Path:
    """Where the paths of the cases start: as told, or the first folder that was named."""
    if arguments.files is not None:
        return arguments.files
    return next((Path(n) for n in arguments.models if Path(n).is_dir()), Path())


def _command() -> str:
    """The command as it was typed, without the paths of this machine."""
    words = ["explorer", *sys.argv[1:]]
    return " ".join(shlex.quote(_short(word)) for word in words)


def _short(word: str) -> str:
    """`/a/b/models` -> `models`."""
    return re.sub(r"^(\.\.|/).*/(?=[^/])", "", word.rstrip("/")) if os.sep in word else word
