"""What remains of a reduction, as a page of Markdown that can be handed on.

# `small.onnx` fails: differs
expected, came, the command, the operations with their numbers, versions
"""

from __future__ import annotations

import platform
import unicodedata
from importlib.metadata import version

import numpy as np
import onnx
from onnx import numpy_helper

from explorer.reducing.candidate import Candidate
from explorer.reducing.reducer import Reduced

MAX_NUMBERS = 16
"""Of a tensor that is written out."""
DISTRIBUTION = "nn-compiler-explorer"


def report_text(reduced: Reduced, name: str, commands: list[str]) -> str:
    """The page. `name`: of the model's file; `commands`: what shows the fault."""
    left, whole = reduced.candidate, reduced.whole
    lines = [
        f"# `{_plain(name)}` fails: {_plain(reduced.kind)}",
        "",
        f"{_counted(left.operations, 'operation')} and {_counted(left.elements, 'number')} are "
        f"left of {whole.operations:,} and {whole.elements:,}.",
        "",
        "## What was expected, and what came",
        "",
        *_block(reduced.reason or reduced.kind),
        "",
        "Outputs of the imported program, since onnxruntime refuses the model:"
        if left.is_interpreted
        else "Outputs of onnxruntime, every node as it is:",
        "",
        *_block("\n".join(_described(n, a) for n, a in left.expected.items())),
        "",
        "## How to see it",
        "",
        *_block("\n".join(commands)),
        "",
        "## The model",
        "",
        *_block("\n".join(_listing(left))),
    ]
    if reduced.others:
        lines += ["", "## Other failures on the way", "", "Each may be a fault of its own:", ""]
        lines += [
            f"- {_plain(kind)}: {_plain(why)}" for kind, why in sorted(reduced.others.items())
        ]
    return "\n".join([*lines, "", "## Versions", "", *_versions(), ""])


def _listing(candidate: Candidate) -> list[str]:
    graph = candidate.model.graph
    lines = [_described(name, array) for name, array in candidate.inputs.items()]
    lines += [_described(t.name, numpy_helper.to_array(t)) for t in graph.initializer]
    for node in graph.node:
        attributes = [str(onnx.helper.printable_attribute(each)) for each in node.attribute]
        given = ", ".join([*node.input, *attributes])
        lines.append(f"{', '.join(node.output)} = {node.op_type}({given})")
    return [*lines, f"return {', '.join(value.name for value in graph.output)}"]


def _described(name: str, array: np.ndarray) -> str:
    kind = f"{name}: {array.dtype} of {list(array.shape)}"
    if array.size > MAX_NUMBERS:
        return kind
    numbers = np.array2string(array, separator=", ", threshold=MAX_NUMBERS)
    return f"{kind} = {' '.join(numbers.split())}"


def _block(text: str) -> list[str]:
    """A block of code that nothing in it ends."""
    return ["```", *(_plain(line).replace("```", "'''") for line in text.splitlines()), "```"]


def _plain(text: str) -> str:
    """On one line; what is invisible is escaped, since names are the model's."""
    return "".join(
        c if unicodedata.category(c)[0] != "C" else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _versions() -> list[str]:
    names = (DISTRIBUTION, "onnx", "onnxruntime", "numpy")
    python = f"Python {platform.python_version()}, {platform.machine()}"
    return [*(f"- {name} {version(name)}" for name in names), f"- {python}"]
