"""`explorer conformance`: test cases on all devices, and the report of it.

The suite `onnx` is onnx's own cases; `tflite` and `caffe` are random models of one operator, judged
by LiteRT and OpenCV; `pytorch` is the samples of PyTorch's operator tests, judged by eager.

    explorer conformance --device CPU --only '^test_conv'
    explorer conformance --jobs 2 --json outcomes.json --report docs/conformance.md
    explorer conformance --device CPU --sanitize
    explorer conformance --suite tflite --seed 5 --per-op 20 --only CONV --keep models/
    explorer conformance --suite caffe --seed 5 --per-op 20 --device CPU
    explorer conformance --suite pytorch --decomposed --device INTERPRETER --every 4

Cases run in child processes with a time limit: a crash or a hang is one result among others.
Status 1 when a sanitizer found something or a process crashed or hung.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_lines, print_note
from explorer.errors import InputError
from explorer.files import check_output, check_output_folder, write_file

if TYPE_CHECKING:
    from verification.conformance.report import Report
    from verification.conformance.seeded_report import SeededReport
    from verification.conformance.suite import Case, Outcome

SUMMARY = "run the test cases of a format's operators on every device"
NOT_SOUND = 1
DEFAULT_PER_OPERATOR = 4
SEEDED = ("tflite", "caffe")
"""Suites of random models."""
PYTORCH = "pytorch"
ALL = "all"
UNSOUND = ("crashed", "hung", "finding")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--suite",
        choices=("onnx", *SEEDED, PYTORCH),
        default="onnx",
        help="whose cases (default: onnx)",
    )
    parser.add_argument(
        "--device",
        choices=(ALL, "INTERPRETER", "CPU", "OPENCL"),
        default=ALL,
        help="where to run (default: all)",
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="PATTERN",
        default=[],
        help="cases whose name has this regular expression; may be repeated: those that have one",
    )
    parser.add_argument(
        "--every",
        type=options.count,
        default=1,
        metavar="N",
        help="a sample: the first of each N cases",
    )
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        help="node, simple, pytorch-converted, pytorch-operator or real; may be repeated",
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="S",
        help="of random models: what they are drawn from (default: 0)",
    )
    parser.add_argument(
        "--per-op",
        type=options.count,
        metavar="N",
        help="of random models: cases of each operator (default: 4)",
    )
    parser.add_argument(
        "--decomposed",
        action="store_true",
        help="suite pytorch: programs after run_decompositions()",
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write all random models")
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

    for file in (arguments.json, arguments.report):
        if file is not None:
            check_output(file)
    devices: tuple[str, ...] = DEVICES if arguments.device == ALL else (arguments.device,)
    if arguments.sanitize:
        if arguments.device not in (ALL, "CPU"):
            raise InputError(f"--sanitize is for generated C, not for {arguments.device}")
        devices = ("CPU",)
    suite = _suite(arguments)
    texts = arguments.only or [""]
    patterns = [_pattern(text) for text in texts]
    chosen = [case for case in suite.cases if any(p.search(case.name) for p in patterns)]
    cases = chosen[:: arguments.every]
    if not cases:
        raise InputError(f"no case has {' or '.join(map(repr, texts))} in its name")
    asked: list[str] = [*devices]
    if suite.has_oracle:
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
            arguments=suite.child_arguments,
            report=report,
        )
    result = suite.report(cases, outcomes, devices)
    print_lines(result.summary())
    unsound = [o for o in outcomes if o.status in UNSOUND and o.device in devices]
    for outcome in unsound:
        print_note(f"{outcome.case} on {outcome.device} {outcome.status}: {outcome.reason}")
    if arguments.json is not None:
        write_file(arguments.json, json.dumps(result.as_json(), indent=1) + "\n")
    if arguments.report is not None:
        write_file(arguments.report, result.markdown())
    return NOT_SOUND if unsound else 0


@dataclass(frozen=True, kw_only=True)
class _Suite:
    """What is different for each of the suites."""

    cases: Sequence[Case]
    report: Callable[[Sequence[Case], Sequence[Outcome], Sequence[str]], Report]
    child_arguments: Sequence[str] = ()
    has_oracle: bool = False


def _onnx_suite(arguments: argparse.Namespace) -> _Suite:
    from verification.conformance.report import Report
    from verification.conformance.suite import GROUPS, load_cases

    for option in ("seed", "per_op", "keep"):
        if getattr(arguments, option) is not None:
            raise InputError(
                f"--{option.replace('_', '-')} is for random models: --suite tflite, caffe"
            )
    for group in arguments.group:
        if group not in GROUPS:
            raise InputError(f"there is no group {group!r}", hint=f"there are {', '.join(GROUPS)}")
    return _Suite(
        cases=load_cases(tuple(arguments.group) or GROUPS),
        report=partial(Report, title=_command(arguments)),
        has_oracle=arguments.oracle or arguments.report is not None,
    )


def _seeded_suite(arguments: argparse.Namespace) -> _Suite:
    load_cases, report = _caffe() if arguments.suite == "caffe" else _tflite()
    for option in ("group", "sanitize", "oracle"):
        if getattr(arguments, option):
            raise InputError(f"--{option} is for the suite onnx")
    seed = arguments.seed or 0
    child_arguments = ["--suite", arguments.suite, "--seed", str(seed)]
    if seed < 0:
        raise InputError("--seed is 0 or more")
    if arguments.keep is not None:
        check_output_folder(arguments.keep)
        arguments.keep.mkdir(exist_ok=True)
        child_arguments += ["--keep", str(arguments.keep)]
    return _Suite(
        cases=load_cases(arguments.per_op or DEFAULT_PER_OPERATOR),
        report=partial(report, title=_command(arguments), seed=seed),
        child_arguments=child_arguments,
    )


LoadCases = Callable[[int], "list[Case]"]


def _tflite() -> tuple[LoadCases, type[SeededReport]]:
    from explorer.references.lite_rt import LITE_RT

    LITE_RT.require("")
    from verification.conformance.tflite.report import TfliteReport
    from verification.conformance.tflite.suite import load_cases

    return load_cases, TfliteReport


def _caffe() -> tuple[LoadCases, type[SeededReport]]:
    from explorer.references.open_cv import require

    require("")
    from verification.conformance.caffe.report import CaffeReport
    from verification.conformance.caffe.suite import load_cases

    return load_cases, CaffeReport


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InputError(f"--only {text!r} is no regular expression: {error}") from None


def _command(arguments: argparse.Namespace) -> str:
    """The command as the report names it."""
    parts = ["explorer conformance"]
    parts += [f"--suite {arguments.suite}"] if arguments.suite != "onnx" else []
    parts += ["--decomposed"] if arguments.decomposed else []
    parts += [f"--seed {arguments.seed}"] if arguments.seed is not None else []
    parts += [f"--per-op {arguments.per_op}"] if arguments.per_op is not None else []
    parts += [f"--device {arguments.device}"] if arguments.device != ALL else []
    parts += [f"--group {group}" for group in arguments.group]
    parts += [f"--only {pattern}" for pattern in arguments.only]
    parts += ["--sanitize"] if arguments.sanitize else []
    parts += [f"--report {arguments.report.name}"] if arguments.report is not None else []
    return " ".join(parts)


def _pytorch_suite(arguments: argparse.Namespace) -> _Suite:
    from verification.conformance.pytorch.needed import require_torch

    require_torch()
    from verification.conformance.pytorch.report import PytorchReport
    from verification.conformance.pytorch.suite import load_cases

    for option in ("group", "sanitize", "oracle", "seed", "per_op", "keep"):
        if getattr(arguments, option):
            raise InputError(f"--{option.replace('_', '-')} is not for the suite pytorch")
    return _Suite(
        cases=load_cases(arguments.decomposed),
        report=partial(PytorchReport, title=_command(arguments)),
        child_arguments=["--pytorch", "decomposed" if arguments.decomposed else "exported"],
    )


def _suite(arguments: argparse.Namespace) -> _Suite:
    if arguments.suite == PYTORCH:
        return _pytorch_suite(arguments)
    return _seeded_suite(arguments) if arguments.suite in SEEDED else _onnx_suite(arguments)
