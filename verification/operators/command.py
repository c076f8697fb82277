"""`explorer fuzz --operators`: what it prints and writes, and its status."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from explorer.cli.terminal import Progress, print_lines, print_note
from explorer.errors import InputError
from explorer.files import check_output, write_file
from explorer.runtime.child import Answer
from verification.operators.page import page
from verification.operators.running import Plan, read_record, run
from verification.operators.verdicts import DEFECTS, STATUSES, disagreements

FOUND_DEFECTS = 1
INTERRUPTED = 130
MAX_NOTES = 50


def fuzz_operators(arguments: argparse.Namespace, devices: Sequence[str]) -> int:
    """Status 1 when there was a defect, 130 when it was interrupted: with a record, the same
    command goes on."""
    for file in (arguments.page, arguments.record):
        if file is not None:
            check_output(file)
    plan = Plan(
        arguments.format or "onnx",
        arguments.seed,
        arguments.count,
        devices,
        "" if arguments.out is None else str(arguments.out.resolve()),
        arguments.only,
    )
    answers: list[Answer] = []
    is_whole = True
    with Progress("trying", every_seconds=60.0) as progress:

        def report(answer: Answer, count: int, total: int) -> None:
            answers.append(answer)
            progress(f"{answer['operator']} of {answer['type']}", count - 1, total)

        try:
            answers = run(plan, arguments.record, arguments.jobs, report)
        except KeyboardInterrupt:
            is_whole = False
    counts = Counter(answer["status"] for answer in answers)
    print_lines(
        f"{status:10} {count:7}  {STATUSES.get(status, '')}"
        for status, count in counts.most_common()
    )
    defects = [answer for answer in answers if answer["status"] in DEFECTS]
    for answer in defects[:MAX_NOTES]:
        print_note(f"{_name(answer)} {answer['status']}: {answer['reason']}")
    if len(defects) > MAX_NOTES:
        print_note(f"and {len(defects) - MAX_NOTES} more")
    if arguments.reduce and arguments.out is not None:
        _reduce(defects, devices, arguments.out)
    if arguments.page is not None:
        _write_page(arguments, answers)
    if not is_whole:
        print_note(f"interrupted: {len(answers):,} of {arguments.count:,} were tried")
        return INTERRUPTED
    return FOUND_DEFECTS if defects else 0


def _name(answer: Answer) -> str:
    return f"{answer['operator']}-{answer['type']}-{answer['seed']}"


def _reduce(defects: Sequence[Answer], devices: Sequence[str], folder: Path) -> None:
    from explorer.runtime.child import Child
    from verification.operators.running import PROGRAM
    from verification.random_models.reducing import reduce_defect

    for answer in defects[:MAX_NOTES]:
        request = {"operator": answer["operator"], "type": answer["type"], "seed": answer["seed"]}
        told = reduce_defect(
            folder,
            _name(answer),
            {**request, "devices": list(devices)},
            lambda: Child(PROGRAM, [str(folder)]),
            DEFECTS,
        )
        print_lines([f"{_name(answer)}: {told}"])


def _write_page(arguments: argparse.Namespace, answers: Sequence[Answer]) -> None:
    """Of all that the record has, of other seeds and formats, too."""
    every = read_record(arguments.record) or answers
    if not every:
        raise InputError("there is no case to write a page of")
    write_file(arguments.page, page(every, commands(every, arguments), disagreements()))


def commands(answers: Sequence[Answer], arguments: argparse.Namespace) -> list[str]:
    """The commands that made the answers, one for each format and run of seeds."""
    lines = []
    groups: dict[tuple[str, str], set[int]] = {}
    for answer in answers:
        devices = " ".join(f"--device {d}" for d in answer.get("asked", ()))
        groups.setdefault((answer.get("format", "onnx"), devices), set()).add(answer["seed"])
    for (name, devices), seeds in groups.items():
        for first, count in _runs(sorted(seeds)):
            parts = ["explorer fuzz --operators", f"--format {name}" if name != "onnx" else ""]
            parts += [f"--seed {first}", f"--count {count}", devices]
            parts += [f"--record {arguments.record.name}" if arguments.record else ""]
            parts += [f"--page {arguments.page.name}"]
            lines.append(" ".join(filter(None, parts)))
    return lines


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """(first, count) of consecutive numbers: [1, 2, 3, 7] -> [(1, 3), (7, 1)]."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and sum(found[-1]) == number:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((number, 1))
    return found
