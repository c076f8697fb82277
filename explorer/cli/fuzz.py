"""`explorer fuzz`: random models on all devices against onnxruntime, and damaged model files.

    explorer fuzz --differential --count 1000 --seed 0 --out failures/ --coverage
    explorer fuzz --mutate net.onnx other.onnx --count 20000 --out failures/

Everything runs in child processes with a time limit. Prints how often what happened; what is a
defect is named with its seed and written to the folder. Status 1 when there was a defect.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_lines, print_note
from explorer.errors import InputError

SUMMARY = "random models against onnxruntime, and damaged model files"
FOUND_DEFECTS = 1
DEVICES = ("INTERPRETER", "CPU", "OPENCL")
DIFFERENTIAL_SECONDS = 120
MUTANT_SECONDS = 60
"""Until a child that does not answer is ended; a hang is 10 s of its processor time."""
MOST_NOTES = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument(
        "--differential", action="store_true", help="random valid models, compared with onnxruntime"
    )
    kind.add_argument(
        "--mutate", nargs="+", type=Path, metavar="MODEL", help="damaged copies of these files"
    )
    parser.add_argument(
        "--count", type=options.count, default=200, metavar="N", help="how many (default: 200)"
    )
    parser.add_argument(
        "--seed", type=options.amount, default=0, metavar="N", help="the first seed (default: 0)"
    )
    parser.add_argument(
        "--device", choices=DEVICES, action="append", help="with --differential (default: all)"
    )
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="with --differential: which operators were tried on which types, and which never",
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where defects are written")
    parser.add_argument(
        "--jobs", type=options.count, default=1, metavar="N", help="child processes (default: 1)"
    )


def run(arguments: argparse.Namespace) -> int:
    from explorer.onnx_backend import differential, mutation
    from explorer.onnx_backend.children import answer_all
    from explorer.onnx_backend.tried import Tried
    from explorer.runtime.child import Answer, Child

    folder = ""
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        folder = str(arguments.out.resolve())
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    if arguments.differential:
        devices = arguments.device or list(DEVICES)
        requests = [{"seed": seed, "devices": devices, "folder": folder} for seed in seeds]
        seconds, defects = DIFFERENTIAL_SECONDS, differential.DEFECTS
        meanings = differential.STATUSES
    else:
        for path in arguments.mutate:
            if not path.is_file():
                raise InputError("there is no such file", file=str(path))
        models = [str(path.resolve()) for path in arguments.mutate]
        requests = [
            {"seed": seed, "model": models[seed % len(models)], "folder": folder} for seed in seeds
        ]
        seconds, defects = MUTANT_SECONDS, mutation.DEFECTS
        meanings = mutation.STATUSES
    with Progress("trying") as progress:

        def report(number: int, answer: Answer, done: int) -> None:
            progress(f"seed {requests[number]['seed']}", done - 1, len(requests))

        answers = answer_all(
            requests,
            lambda: Child(("-m", "explorer.onnx_backend.fuzz_process")),
            jobs=arguments.jobs,
            seconds=seconds,
            report=report,
        )
    counts = Counter(answer["status"] for answer in answers)
    print_lines(
        f"{status:10} {count:7}  {meanings.get(status, '')}"
        for status, count in counts.most_common()
    )
    if arguments.coverage and arguments.differential:
        print_lines(Tried.of(answers).lines())
    found = [(r, a) for r, a in zip(requests, answers, strict=True) if a["status"] in defects]
    for request, answer in found[:MOST_NOTES]:
        operators = ", ".join(answer.get("operators", ())) or request.get("model", "")
        print_note(f"seed {request['seed']} ({operators}) {answer['status']}: {answer['reason']}")
    if len(found) > MOST_NOTES:
        print_note(f"and {len(found) - MOST_NOTES} more")
    return FOUND_DEFECTS if found else 0
