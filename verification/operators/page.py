"""The page operator x type, made of the answers for single cases.

    page(answers, "explorer fuzz --operators --count 2000 --page docs/operators-by-type.md")

A cell is one of CELLS. Operators with equal rows share one line, so that the page stays short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from explorer.runtime.child import Answer
from verification.conformance.report import table
from verification.operators.verdicts import (
    DEFECTS,
    DOCUMENTED,
    RANDOM,
    REFUSED,
    RIGHT,
    STATUSES,
    Disagreement,
)

CELLS = ("right", "documented difference", "refused by name", "not judged", "wrong")

SETS = {
    "floats": ("bfloat16", "float16", "float32", "float64"),
    "integers": ("int16", "int32", "int64", "int8", "uint16", "uint32", "uint64", "uint8"),
    "float8": ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    "complex": ("complex128", "complex64"),
}
"""What the page calls all of these types together."""

Cells = Mapping[tuple[str, str], str]


def cells(answers: Iterable[Answer]) -> Cells:
    """What became of each pair: the worst of its cases, and right before refused."""
    seen: dict[tuple[str, str], set[str]] = {}
    for answer in answers:
        seen.setdefault((answer["operator"], answer["type"]), set()).add(answer["status"])
    return {pair: _cell(statuses) for pair, statuses in sorted(seen.items())}


def _cell(statuses: set[str]) -> str:
    if statuses & set(DEFECTS):
        return "wrong"
    if DOCUMENTED in statuses:
        return "documented difference"
    if statuses & {RIGHT, RANDOM}:
        return "right"
    return "refused by name" if REFUSED in statuses else "not judged"


@dataclass(frozen=True)
class Format:
    """What the page says of a format: its title and its judges."""

    title: str
    judges: str


FORMATS = {
    "onnx": Format("ONNX", "onnxruntime without optimizations, onnx's reference, and float64"),
    "chains": Format("Chains of ONNX operators", "the same"),
    "tflite": Format("TFLite", "LiteRT's reference kernels"),
    "caffe": Format("Caffe", "OpenCV"),
    "pytorch": Format("PyTorch", "PyTorch eager, with inputs and buffers afterwards"),
    "sequences": Format(
        "Three calls in a row",
        "onnxruntime, LiteRT and PyTorch eager, each with what it remembers from call to call",
    ),
}


def page(answers: Sequence[Answer], commands: Sequence[str], known: Sequence[Disagreement]) -> str:
    """The whole page in Markdown; `answers` may be of several formats."""
    lines = [
        "# Operators by type",
        "",
        "Each operator that an importer knows, on each element type that its format defines for "
        "it, alone in a model, with the ends of the type, zeros of both signs, infinities, NaN, "
        "ties and random numbers, with sizes of 0 and 1 and negative axes. Judges are other "
        "programs. Made by:",
        "",
        "```",
        *commands,
        "```",
        "",
        "`right`: equal to the judges in all cases. `documented difference`: the judges disagree, "
        "or ours differs on purpose; the table at the end says who is right and why. `refused by "
        "name`: the import or a lowering names what it does not know. `not judged`: no judge "
        "computes it, or no valid model comes of it. `wrong`: what is left to mend. "
        + " ".join(f"`{name}`: {', '.join(members)}." for name, members in SETS.items()),
    ]
    for name, form in FORMATS.items():
        own = [a for a in answers if a.get("format", "onnx") == name]
        if own:
            lines += ["", *_format(own, form)]
    lines += ["", "## Judges that disagree", "", *_known(known), ""]
    return "\n".join(lines)


def _format(answers: Sequence[Answer], form: Format) -> list[str]:
    found = cells(answers)
    counts = Counter(found.values())
    statuses = Counter(answer["status"] for answer in answers)
    devices = sorted({device for answer in answers for device in answer.get("devices", ())})
    numbers = [["pairs", *CELLS], [str(len(found)), *(str(counts[cell]) for cell in CELLS)]]
    outcomes = [["outcome", "cases", "meaning"]]
    outcomes += [[s, str(n), STATUSES.get(s, "")] for s, n in statuses.most_common()]
    return [
        f"## {form.title}",
        "",
        f"{len(answers):,} cases on {', '.join(devices)}. Judges: {form.judges}.",
        "",
        *table(numbers),
        "",
        *table(outcomes),
        "",
        *table([["operators", *CELLS], *_rows(found)]),
    ]


def _rows(found: Cells) -> list[list[str]]:
    """Operators with the same cells in one row."""
    types: dict[str, dict[str, list[str]]] = {}
    for (operator, element_type), cell in found.items():
        types.setdefault(operator, {}).setdefault(cell, []).append(element_type)
    groups: dict[tuple[str, ...], list[str]] = {}
    for operator, row in types.items():
        groups.setdefault(tuple(_types(row.get(c, ())) for c in CELLS), []).append(operator)
    rows = [[", ".join(operators), *row] for row, operators in groups.items()]
    return sorted(rows, key=lambda row: row[0].lower())


def _types(names: Sequence[str]) -> str:
    """The names in order, whole sets by their own names and first."""
    whole = [name for name, members in SETS.items() if set(members) <= set(names)]
    covered = {member for name in whole for member in SETS[name]}
    return ", ".join([*whole, *(name for name in names if name not in covered)])


def _known(known: Sequence[Disagreement]) -> list[str]:
    rows = [["operators", "types", "right", "why"]]
    rows += [[", ".join(e.operators), ", ".join(e.types) or "all", e.right, e.why] for e in known]
    return table(rows)
