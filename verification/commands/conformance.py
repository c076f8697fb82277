"""`explorer conformance`: onnx's own test cases on all devices, and the report of it.

    explorer conformance --device CPU --only '^test_conv'
    explorer conformance --jobs 2 --json outcomes.json --report docs/conformance.md
    explorer conformance --device CPU --sanitize

Cases run in child processes with a time limit: a crash or a hang is one result among others.
Status 1 when a sanitizer found something or a process crashed or hung.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_lines, print_note
from explorer.errors import InputError
from explorer.files import check_output, write_file

if TYPE_CHECKING:
    from verification.conformance.suite import Outcome

SUMMARY = "run onnx's own test cases on every device"
NOT_SOUND = 1
ALL = "all"
UNSOUND = ("crashed", "hung", "finding")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        choices=(ALL, "INTERPRETER", "CPU", "OPENCL"),
        default=ALL,
        help="where to run (default: all)",
    )
    parser.add_argument(
        "--only", metavar="PATTERN", default="", help="cases whose name has this regular expression"
    )
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        help="node, simple, pytorch-converted, pytorch-operator or real; may be repeated",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every outcome")
    parser.add_argument("--report", type=Path, metavar="FILE.md", help="write the report")
    parser.add_argument(
        "--sanitize",
        action="store_true",
        help="generated C under the address and undefined-behaviour sanitizers (device CPU)",
    )
    parser.add_argument(
        "--oracle", action="store_true", help="onnxruntime on the same cases (with --report always)"
    )
    parser.add_argument(
        "--jobs", type=options.count, default=1, metavar="N", help="child processes (default: 1)"
    )
    parser.add_argument(
        "--seconds",
        type=options.count,
        default=120,
        metavar="N",
        help="time limit of one case (default: 120)",
    )


def run(arguments: argparse.Namespace) -> int:
    from explorer.onnx_backend.backend import DEVICES
    from verification.conformance.jobs import run_cases
    from verification.conformance.oracle import ORACLE
    from verification.conformance.report import Report
    from verification.conformance.suite import GROUPS, load_cases

    for file in (arguments.json, arguments.report):
        if file is not None:
            check_output(file)
    devices: tuple[str, ...] = DEVICES if arguments.device == ALL else (arguments.device,)
    if arguments.sanitize:
        if arguments.device not in (ALL, "CPU"):
            raise InputError(f"--sanitize is for generated C, not for {arguments.device}")
        devices = ("CPU",)
    for group in arguments.group:
        if group not in GROUPS:
            raise InputError(f"there is no group {group!r}", hint=f"there are {', '.join(GROUPS)}")
    cases = load_cases(tuple(arguments.group) or GROUPS)
    pattern = _pattern(arguments.only)
    cases = [case for case in cases if pattern.search(case.name)]
    if not cases:
        raise InputError(f"no case has {arguments.only!r} in its name")
    asked: list[str] = [*devices]
    if arguments.oracle or arguments.report is not None:
        asked.append(ORACLE)
    with Progress("running") as progress:

        def report(outcome: Outcome, number: int, total: int) -> None:
            progress(f"{outcome.case} on {outcome.device}", number - 1, total)

        outcomes = run_cases(
            cases,
            asked,
            jobs=arguments.jobs,
            seconds=arguments.seconds,
            sanitize=arguments.sanitize,
            report=report,
        )
    result = Report(cases, outcomes, devices, _command(arguments))
    print_lines(result.summary())
    unsound = [o for o in outcomes if o.status in UNSOUND and o.device in devices]
    for outcome in unsound:
        print_note(f"{outcome.case} on {outcome.device} {outcome.status}: {outcome.reason}")
    if arguments.json is not None:
        write_file(arguments.json, json.dumps(result.as_json(), indent=1) + "\n")
    if arguments.report is not None:
        write_file(arguments.report, result.markdown())
    return NOT_SOUND if unsound else 0


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InputError(f"--only {text!r} is no regular expression: {error}") from None


def _command(arguments: argparse.Namespace) -> str:
    """The command as the report names it."""
    parts = ["explorer conformance"]
    parts += [f"--device {arguments.device}"] if arguments.device != ALL else []
    parts += [f"--group {group}" for group in arguments.group]
    parts += [f"--only {arguments.only}"] if arguments.only else []
    parts += ["--sanitize"] if arguments.sanitize else []
    parts += [f"--report {arguments.report.name}"] if arguments.report is not None else []
    return " ".join(parts)
