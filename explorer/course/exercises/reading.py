"""Judges of texts of IR: completed shapes, edited lines, mended faults."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from explorer.compilation.compilation import Compilation
from explorer.course.predictions import Judge, with_truth
from explorer.errors import ExplorerError
from explorer.ir.types import shape_of

MAX_CHARACTERS = 200_000
"""Of a text that is judged."""
TOLERANCE = 1e-6
"""Of the largest difference, relative to the largest output."""


def shape_with(c: Compilation, name: str, strides: Sequence[int]) -> Judge:
    """The shape that an operation of the import would have with other strides, as `1x32x4x4`."""
    op = c["import"].after.operations[name]
    shape = [int(size) for size in shape_of(op.results[0])]
    first = [int(size) for size in shape_of(op.operands[0])]
    kernel = [int(size) for size in shape_of(op.operands[1])][2:]
    pads = op.get("pads")
    sizes = [
        (first[2 + axis] + pads[axis] + pads[2 + axis] - kernel[axis]) // strides[axis] + 1
        for axis in range(2)
    ]
    truth = [*shape[:2], *sizes]

    def judge(answer: object) -> bool | str:
        if not isinstance(answer, str):
            return 'a shape is asked for, such as "1x32x8x8"'
        numbers = answer.split("x")
        if not all(number.isdecimal() for number in numbers):
            return f"{answer!r} is no shape: numbers, and `x` between them"
        given = [int(number) for number in numbers]
        if len(given) != len(truth):
            return f"a shape of {len(truth)} sizes is asked for, this has {len(given)}"
        wrong = [
            part
            for part, one, other in zip(
                ("pictures", "channels", "rows", "columns"), given, truth, strict=True
            )
            if one != other
        ]
        return not wrong or f"the number of {' and of '.join(wrong)} is another one"

    return with_truth(judge, "x".join(map(str, truth)))


def without_activation(c: Compilation, after: str, name: str) -> Judge:
    """A text in which one operation has no activation, and all others are as they were."""
    lines = c[after].after.text.lines
    index = _line_of(lines, name)
    wanted = [re.sub(r'activation = "\w+"(, )?', "", lines[index])]

    def judge(answer: object) -> bool | str:
        if (wrong := _is_no_text(answer)) or (wrong := _refused(c, after, str(answer))):
            return wrong
        edited = c.continue_from(after, str(answer))[after].after.text.lines
        if list(edited) == list(lines):
            return "this is the program as it was"
        if _plain(edited[_line_of(edited, name)]) != _plain(wanted[0]):
            return f"the line of %{name} is not the one that is asked for"
        others = [one for one, other in zip(edited, lines, strict=False) if one != other]
        return len(others) == 1 or "other lines have changed, too"

    return judge


def damaged_text(c: Compilation, after: str) -> str:
    """The program after a pass with two faults: an undefined value and a wrong shape."""
    text = "\n".join(c[after].after.text.lines)
    text = text.replace("top.pool(%conv8)", "top.pool(%conv88)", 1)
    pools = re.findall(r"%pool2 = .*tensor<(\w+)>", text)
    return text.replace(pools[0], "1x48x2x3xf32", 1)


def repaired(c: Compilation, after: str, most: int) -> Judge:
    """The damaged text, valid again with at most so many other lines, and right."""
    damaged = damaged_text(c, after).splitlines()
    inputs = c.example_inputs(seed=0)
    (expected,) = c.run(inputs).values()

    def judge(answer: object) -> bool | str:
        if (wrong := _is_no_text(answer)) or (wrong := _refused(c, after, str(answer))):
            return wrong
        mine = str(answer).strip("\n").splitlines()
        changed = sum(one != other for one, other in zip(mine, damaged, strict=False))
        changed += abs(len(mine) - len(damaged))
        if changed > most:
            return f"{changed} lines differ from the damaged text, and {most} may"
        (found,) = c.continue_from(after, str(answer)).run(inputs).values()
        is_right = np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()
        return bool(is_right) or "it is valid, and computes something else than before"

    return judge


def _line_of(lines: Sequence[str], name: str) -> int:
    """The number of the line that defines a value."""
    return next((n for n, line in enumerate(lines) if line.strip().startswith(f"%{name} =")), 0)


def _plain(line: str) -> str:
    """A line without blanks and without braces that are empty."""
    return re.sub(r"\s+|\{\}", "", line)


def _is_no_text(answer: object) -> str:
    if not isinstance(answer, str):
        return f"a text is asked for; this is of type {type(answer).__name__}"
    return "this text is too long" if len(answer) > MAX_CHARACTERS else ""


def _refused(c: Compilation, after: str, text: str) -> str:
    """What the parser or the verifier says; empty where the text is taken."""
    try:
        c.continue_from(after, text)
    except ExplorerError as error:
        lines = str(error).split("; where:")[0].splitlines()
        return f"the compiler does not take it: {lines[-1].strip()}"
    return ""
