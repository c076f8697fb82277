"""Many cases in child processes, with a record that an interrupted run goes on from.

    plan = Plan("onnx", seed=0, count=2000, devices=("CPU",))
    answers = plan.run(folder, record, jobs=2, report=...)

A seed is one case: the pair of operator and type is that at `seed` modulo their number, so that as
many consecutive seeds as there are pairs try each of them once.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from explorer.errors import InputError
from explorer.runtime.child import Answer, Child
from explorer.runtime.scratch import own_folder
from verification.children import answer_all
from verification.operators.chains import CHAIN
from verification.operators.examples import all_templates
from verification.operators.pairs import pairs
from verification.operators.templates import write

SECONDS = 60
"""Of one case."""
PROGRAM = ("-m", "verification.operators.process")
Report = Callable[[Answer, int, int], None]
"""Called with an answer, how many there are, and how many there will be."""


@dataclass(frozen=True)
class Plan:
    """Which cases are tried where; `only`: operators, all where it is empty."""

    format: str
    seed: int
    count: int
    devices: Sequence[str]
    folder: str = ""
    only: Sequence[str] = ()

    def requests(self) -> list[Answer]:
        every = _pairs(self.format)
        known = [p for p in every if not self.only or p[0] in self.only]
        if not known:
            raise InputError(f"no operator is called {' or '.join(self.only)}")
        return [
            {
                "operator": known[seed % len(known)][0],
                "type": known[seed % len(known)][1],
                "format": self.format,
                "seed": seed,
                "devices": list(self.devices),
                "folder": self.folder,
            }
            for seed in range(self.seed, self.seed + self.count)
        ]


def _pairs(format_name: str) -> list[tuple[str, str]]:
    """Operators with their types; without types where the case draws them."""
    match format_name:
        case "onnx":
            return [(p.operator, p.element_type) for p in pairs()]
        case "chains":
            return [(CHAIN, "")]
        case "pytorch":
            from verification.conformance.pytorch.needed import require_torch

            require_torch()
            from verification.operators.eager import pairs_of

            return pairs_of()
        case "sequences":
            from verification.operators.sequences.trying import sequences

            return [(name, "") for name in sequences()]
    from verification.operators.seeded import operators_of  # needs an extra

    return [(operator, "") for operator in operators_of(format_name)]


def run(plan: Plan, record: Path | None, jobs: int, report: Report) -> list[Answer]:
    """The answers of the plan's cases; those that the record has are not tried again.

    When it is interrupted the answers that there are lie in the record, and KeyboardInterrupt goes
    on to the caller.
    """
    requests = plan.requests()
    done = {_key(answer): answer for answer in read_record(record)}
    _end_line(record)
    open_requests = [r for r in requests if _key(r) not in done]
    if open_requests:
        with tempfile.TemporaryDirectory(prefix="operators-", dir=own_folder()) as name:
            if plan.format == "onnx":
                write(all_templates(), Path(name))

            def tell(number: int, answer: Answer, count: int) -> None:
                asked = open_requests[number]
                whole = {k: asked[k] for k in ("operator", "type", "format", "seed")} | answer
                whole["asked"] = asked["devices"]
                done[_key(asked)] = whole
                append(record, whole)
                report(whole, count, len(open_requests))

            answer_all(
                open_requests,
                lambda: Child(PROGRAM, [name]),
                jobs=jobs,
                seconds=SECONDS,
                report=tell,
            )
    return [done[_key(request)] for request in requests]


def _key(answer: Answer) -> tuple[str, str, int, str]:
    devices = ",".join(answer.get("asked") or answer["devices"])
    return (answer["format"], answer["operator"], answer["seed"], devices)


def read_record(record: Path | None) -> list[Answer]:
    """The answers of a record; a last line that was cut off does not count."""
    if record is None or not record.is_file():
        return []
    found = []
    for line in record.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _end_line(record: Path | None) -> None:
    """A line that was cut off ends, so that the next one stands alone."""
    if record is not None and record.is_file() and not record.read_bytes().endswith(b"\n"):
        with record.open("a") as file:
            file.write("\n")


def append(record: Path | None, answer: Answer) -> None:
    if record is not None:
        with record.open("a") as file:
            file.write(json.dumps(answer) + "\n")
