"""PyTorch's architectures with random weights: how many are exported, compiled and right.

    python benchmarks/architectures/pytorch --journal FILE.jsonl [NAME ...] [--packages FOLDER]

    python benchmarks/architectures/pytorch plain torchvision/resnet18

A NAME is a library (`plain`, `torchvision`, `timm`, `transformers`) or one architecture of it; none
means all. Each goes in a child process with limits of time and memory through torch.export into a
file, our reader, the compiler for the processor, and a run that is compared with eager, within 1e-4
of the largest number of each output; with `--way torch.compile` it is
`torch.compile(module, backend="explorer")` that is compared. What became of it is in the journal as
soon as it is known, a JSON object a line: a run that was interrupted goes on where it was. `--again
STATUS` repeats those of one outcome, `--again all` everything; `--known` judges nothing, and makes
the tables of what the journal has.

torchvision, timm and transformers are not installed with the project; they may lie in a FOLDER:

    pip install --target FOLDER --no-deps torchvision timm transformers tokenizers safetensors regex
    pip install --target FOLDER huggingface_hub
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.metadata import distributions
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))  # of `verification`

from registry import LIBRARIES, all_names

from explorer.files import write_file
from explorer.runtime.child import Answer, Child
from verification.children import answer_all

CHILD = Path(__file__).resolve().parent / "child.py"
STATUSES = {
    "right": "all outputs within 1e-4 of eager's",
    "in part": "so, but some nodes stayed PyTorch's",
    "wrong": "an output differs",
    "refused": "the importer or the compiler says what it does not know",
    "failed": "an error that this project did not foresee, or no program",
    "not exported": "torch.export does not take it, or the library is not there",
    "no memory": "the limit of memory was reached",
    "crashed": "the process was ended by a signal",
    "hung": "the limit of time was reached",
}
FILE, COMPILED = "file", "torch.compile"
WAYS = {FILE: "torch.export takes", COMPILED: "PyTorch itself runs"}
"""How a network comes to the compiler, and who takes those that are counted."""

OUTSIDE = ("not exported",)
"""Outcomes that say nothing of this compiler."""

PACKAGES = ("torch", "torchvision", "timm", "transformers")

Row = dict[str, object]
"""A line of the journal."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="PyTorch's architectures, exported and compiled.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="libraries or architectures")
    parser.add_argument("--way", choices=list(WAYS), default=FILE, help="default: file")
    parser.add_argument("--journal", type=Path, help="known results are not made again")
    parser.add_argument("--again", default="", metavar="STATUS", help="these are; or `all`")
    parser.add_argument("--known", action="store_true", help="only what the journal has")
    parser.add_argument("--packages", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=180, help="of one (default: 180)")
    parser.add_argument("--gigabytes", type=int, default=12, help="of a process (default: 12)")
    parser.add_argument("--report", type=Path, metavar="FILE.md", help="write the page")
    chosen = parser.parse_args(arguments)
    names = _names(chosen.names, parser)
    known = _read(chosen.journal)
    if chosen.known:
        names = [name for name in names if (name, chosen.way) in known]
    missing = [
        name
        for name in names
        if (row := known.get((name, chosen.way))) is None
        or chosen.again in ("all", str(row["status"]))
    ]

    def keep(number: int, answer: Answer, done: int) -> None:
        row = {"name": missing[number], "way": chosen.way, **answer}
        known[missing[number], chosen.way] = row
        if chosen.journal is not None:
            with chosen.journal.open("a", encoding="utf-8") as file:
                file.write(f"\n{json.dumps(row)}")  # behind a line that was cut off, too
        reason = str(row.get("reason", "")).replace("\n", "; ")[:150]
        print(f"{done}/{len(missing)} {row['name']}: {row['status']} {reason}", flush=True)

    program = (str(CHILD),)
    options = [str(chosen.gigabytes), *map(str, chosen.packages)]
    requests = [{"name": name, "way": chosen.way} for name in missing]
    answer_all(requests, lambda: Child(program, options), seconds=chosen.seconds, report=keep)
    print("\n".join(tables([known[name, chosen.way] for name in names], chosen.way)))
    if chosen.report is not None:
        rows = {way: [known[n, way] for n in all_names() if (n, way) in known] for way in WAYS}
        lines = [*page_head(len(rows[FILE]), chosen), *tables(rows[FILE])]
        if rows[COMPILED]:
            lines += ["", *compiled_head(len(rows[COMPILED])), *tables(rows[COMPILED], COMPILED)]
        write_file(chosen.report, ("\n".join(lines) + "\n").encode())
    return 0


def page_head(count: int, chosen: argparse.Namespace) -> list[str]:
    """What the tables show, of how many, and by which versions."""
    found = distributions(path=[*sys.path, *map(str, chosen.packages)])
    versions = {d.name: d.version for d in found if d.name in PACKAGES}
    return [
        "# PyTorch's architectures",
        "",
        "Made by `python benchmarks/architectures/pytorch --journal architectures.jsonl "
        f"{'--known ' * chosen.known}--report docs/architectures-pytorch.md` with "
        + ", ".join(f"{name} {versions[name]}" for name in PACKAGES if name in versions)
        + ". Each network has seeded random weights and goes through `torch.export` into a file, "
        "the explorer's reader and compiler for `cpu`, and a run that is compared with PyTorch's "
        "eager mode: floats within 1e-4 of the largest number of each output, all else equal. "
        "Images are of 64 x 64 where a network takes any size, and those of transformers have two "
        "narrow layers: what is asked is whether operators are known and right. "
        f"{count} of the {len(all_names())} networks of the list have been judged"
        f"{'; without `--known` the command goes on with the others' * chosen.known}.",
        "",
    ]


def compiled_head(count: int) -> list[str]:
    return [
        '## `torch.compile(module, backend="explorer")`',
        "",
        f"With `--way torch.compile`, the same comparison with eager; {count} have been judged. "
        "`in part` means that all outputs are right, and that some nodes stayed PyTorch's. "
        "Recurrent layers go to the backend (`torch._dynamo.config.allow_rnn`).",
        "",
    ]


def _names(asked: Sequence[str], parser: argparse.ArgumentParser) -> list[str]:
    """In the order of the register."""
    every = all_names()
    for name in asked:
        if name not in LIBRARIES and name not in every:
            parser.error(f"there is no {name}; there are {', '.join(LIBRARIES)}, and in them names")
    return [n for n in every if not asked or n in asked or n.partition("/")[0] in asked]


def _read(journal: Path | None) -> dict[tuple[str, str], Row]:
    """The last row of each name and way; a line that was cut off while it was written is none."""
    found: dict[tuple[str, str], Row] = {}
    if journal is not None and journal.is_file():
        for line in journal.read_text(encoding="utf-8").splitlines():
            with suppress(json.JSONDecodeError):
                row = json.loads(line)
                found[row["name"], row.get("way", FILE)] = row
    return found


def tables(rows: Sequence[Row], way: str = FILE) -> list[str]:
    """Markdown: outcomes by library, what is refused by operator, and all that is not right."""
    libraries = list(dict.fromkeys(_library(row) for row in rows))
    counts = Counter((_library(row), row["status"]) for row in rows)
    lines = _table(["outcome", *libraries, "all", "meaning"])
    for status, meaning in STATUSES.items():
        numbers = [counts[library, status] for library in libraries]
        if sum(numbers):
            lines.append(_row([status, *map(str, numbers), str(sum(numbers)), meaning]))
    judged = [row for row in rows if row["status"] not in OUTSIDE]
    right = sum(row["status"] == "right" for row in judged)
    lines += ["", f"{right} of the {len(judged)} that {WAYS[way]} are right.", ""]
    operators = Counter(o for row in rows if row["status"] == "refused" for o in _operators(row))
    if operators:
        lines += [*_table(["refused", "architectures"])]
        lines += [_row([key, str(count)]) for key, count in operators.most_common()] + [""]
    if len(judged) != right or len(judged) != len(rows):
        lines += _table(["not right", "outcome", "reason"])
        lines += [
            _row([str(row["name"]), str(row["status"]), _shortened(row)])
            for row in rows
            if row["status"] != "right"
        ]
    return lines


def _library(row: Row) -> str:
    return str(row["name"]).partition("/")[0]


def _operators(row: Row) -> set[str]:
    """What each problem is about, without the name of its node and its line of Python."""
    problems = (problem.split(" [")[0] for problem in str(row["reason"]).splitlines())
    return {problem.partition(": ")[2] or problem for problem in problems}


def _shortened(row: Row) -> str:
    return str(row.get("reason", "")).replace("\n", "; ").replace("|", "/")[:160]


def _table(titles: Sequence[str]) -> list[str]:
    return [_row(titles), _row(["---"] * len(titles))]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
