"""The conformance report: what passed by group and device, by operator and opset, and what not.

report = Report(cases, outcomes, devices)
report.summary()       lines for a terminal
report.markdown()      the page docs/conformance.md
report.as_json()       everything, for other programs
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version

import onnx

from explorer.importers.onnx.converters import missing_reason
from verification.conformance.oracle import ORACLE
from verification.conformance.suite import GROUPS, STATUSES, Case, Outcome

COLUMNS = {"INTERPRETER": "interpreted", "CPU": "in C", "OPENCL": "in OpenCL C", ORACLE: ORACLE}
REASON_LENGTH = 110


@dataclass(frozen=True)
class Report:
    """Cases and how they went. `devices` in the order of the columns, the oracle left out."""

    cases: Sequence[Case]
    outcomes: Sequence[Outcome]
    devices: Sequence[str]
    title: str = "explorer conformance"

    @cached_property
    def by_case(self) -> dict[tuple[str, str, str], Outcome]:
        """Outcomes by (group, case, device)."""
        return {(o.group, o.case, o.device): o for o in self.outcomes}

    def of(self, case: Case, device: str) -> Outcome:
        return self.by_case[case.group, case.name, device]

    @cached_property
    def has_oracle(self) -> bool:
        return any(o.device == ORACLE for o in self.outcomes)

    # -- by group --------------------------------------------------------------------------------
    def groups(self) -> Iterator[tuple[str, int, dict[str, int]]]:
        """(group, cases, passed by device), the sum of all groups last."""
        shown = [*self.devices, *([ORACLE] if self.has_oracle else [])]
        present = [g for g in GROUPS if any(c.group == g for c in self.cases)]
        for name in (*present, "all"):
            members = [c for c in self.cases if name in (c.group, "all")]
            yield name, len(members), {d: self.passed(members, d) for d in shown}

    def passed(self, cases: Sequence[Case], device: str) -> int:
        """How many of the cases passed; those that were not run on the device did not."""
        outcomes = (self.by_case.get((c.group, c.name, device)) for c in cases)
        return sum(o is not None and o.passed for o in outcomes)

    def statuses(self) -> Iterator[tuple[str, dict[str, int]]]:
        """(status, outcomes by device), those that did not happen left out."""
        counts = Counter((o.status, o.device) for o in self.outcomes)
        for status in STATUSES:
            found = {d: counts[status, d] for d in self.devices}
            if any(found.values()):
                yield status, found

    # -- by operator -----------------------------------------------------------------------------
    @cached_property
    def cases_of(self) -> dict[str, list[Case]]:
        """Cases in which an operator of an opset occurs; those about it alone come first."""
        found: dict[str, list[Case]] = {}
        for case in sorted(self.cases, key=lambda c: len(c.operators)):
            for operator in case.operators:
                found.setdefault(operator, []).append(case)
        return found

    def operator_cell(self, operator: str, device: str) -> str:
        """`all 12`, `9 of 12: reason of the first that fails`."""
        cases = self.cases_of[operator]
        outcomes = [self.of(case, device) for case in cases]
        passed = sum(o.passed for o in outcomes)
        if passed == len(outcomes):
            return f"all {passed}"
        first = next(o for o in outcomes if not o.passed)
        return f"{passed} of {len(outcomes)}: {first.status}, {_short(first.reason)}"

    # -- apart -----------------------------------------------------------------------------------
    def at_the_limits(self) -> list[tuple[Case, Outcome]]:
        """Cases that fail here on some device, and in onnxruntime, with the latter's outcome."""
        if not self.has_oracle:
            return []
        pairs = [(case, self.of(case, ORACLE)) for case in self.failing()]
        return [(case, outcome) for case, outcome in pairs if not outcome.passed]

    def failing(self) -> list[Case]:
        """Cases that do not pass on every device."""
        return [c for c in self.cases if not all(self.of(c, d).passed for d in self.devices)]

    # -- as text ---------------------------------------------------------------------------------
    def summary(self) -> list[str]:
        """Passed by group and device, then the statuses, as aligned text."""
        rows = [["group", "cases", *self._shown]]
        rows += [[n, str(c), *(str(p[d]) for d in self._shown)] for n, c, p in self.groups()]
        lines = _aligned(rows)
        rows = [["status", *self.devices]]
        rows += [[s, *(str(found[d]) for d in self.devices)] for s, found in self.statuses()]
        return [*lines, "", *_aligned(rows)]

    @property
    def _shown(self) -> list[str]:
        return [*self.devices, *([ORACLE] if self.has_oracle else [])]

    def markdown(self) -> str:
        """The whole report as a page."""
        return "\n".join(
            [
                *self._opening(),
                *self._group_table(),
                *self._status_table(),
                *self._operator_table(),
                *self._limits_table(),
                *self._failure_table(),
            ]
        )

    def _opening(self) -> list[str]:
        versions = f"onnx {version('onnx')}, onnxruntime {version('onnxruntime')}"
        return [
            "# Conformance",
            "",
            "How onnx's own test cases go through this compiler. "
            f"Made by `{self.title}`; {versions}.",
            "",
            "INTERPRETER executes the imported program by the NumPy meaning of its operations. CPU "
            "and OPENCL count a case only if its numbers are right and *all* of its model runs as "
            "generated code, which is read off the compiled program: nothing but transfers on the "
            "host, every output written by a kernel, no input compiled in as a constant where "
            "that would leave an output without its inputs. ONNXRUNTIME is the oracle on the same "
            "cases, without optimizations.",
            "",
            "[TFLite's operators](conformance-tflite.md) and "
            "[Caffe's layers](conformance-caffe.md) have suites and pages of their own.",
            "",
        ]

    def _group_table(self) -> list[str]:
        rows = [["cases", "number", *self._shown]]
        rows += [[n, str(c), *(str(p[d]) for d in self._shown)] for n, c, p in self.groups()]
        return ["## Passed", "", *table(rows), ""]

    def _status_table(self) -> list[str]:
        rows = [["outcome", *self.devices, "meaning"]]
        rows += [
            [s, *(str(found[d]) for d in self.devices), STATUSES[s]] for s, found in self.statuses()
        ]
        return ["## Outcomes", "", *table(rows), ""]

    def _operator_table(self) -> list[str]:
        """Every operator that onnx defines, by the opset in which that form of it appeared."""
        columns = [COLUMNS[d] for d in self.devices]
        rows = [["operator", "opset", *columns]]
        for name, opset, operator, schema in operator_versions(list(self.cases_of)):
            if operator in self.cases_of:
                cells = [self.operator_cell(operator, d) for d in self.devices]
            else:
                reason = missing_reason(schema.name, schema.domain, opset) if schema else ""
                text = f"no case; {reason}" if reason else "no case; imported"
                cells = [text] + ["" for _ in self.devices[1:]]
            rows.append([name, str(opset), *cells])
        note = (
            "In how many of the cases that contain the operator everything went well, and why the "
            "simplest of the others did not. `no case`: onnx tests other opsets of it."
        )
        return ["## Operators", "", note, "", *table(rows), ""]

    def _limits_table(self) -> list[str]:
        found = self.at_the_limits()
        if not found:
            return []
        rows = [["case", *self.devices, "onnxruntime"]]
        for case, outcome in found:
            marks = [self.of(case, d).status for d in self.devices]
            verdict = "rejects it" if outcome.status == "refused" else outcome.status
            rows.append([f"`{case.name}`", *marks, f"{verdict}: {_short(outcome.reason)}"])
        note = (
            f"{len(found)} cases that do not pass on every device here do not pass in onnxruntime "
            "either: it rejects the model, or computes other numbers than onnx expects."
        )
        return ["## At the limits of the oracle", "", note, "", *table(rows), ""]

    def _failure_table(self) -> list[str]:
        apart = {case.name for case, _ in self.at_the_limits()}
        cases = [case for case in self.failing() if case.name not in apart]
        rows = [["case", *self.devices, "first reason"]]
        for case in cases:
            outcomes = [self.of(case, d) for d in self.devices]
            reason = next(o.reason for o in outcomes if not o.passed)
            rows.append([f"`{case.name}`", *(o.status for o in outcomes), _short(reason)])
        return ["## Not passed", "", f"{len(cases)} cases.", "", *table(rows), ""]

    def as_json(self) -> dict:
        """Versions, cases and outcomes as plain data."""
        return {
            "suite": "onnx",
            "seed": None,
            "onnx": version("onnx"),
            "onnxruntime": version("onnxruntime"),
            "devices": list(self.devices),
            "cases": [asdict(case) for case in self.cases],
            "outcomes": [asdict(outcome) for outcome in self.outcomes],
        }


def operator_versions(used: Sequence[str]) -> list[tuple[str, int, str, onnx.defs.OpSchema | None]]:
    """(name, opset, `name-opset`, schema) of every operator of onnx, and of the models' own."""
    found: dict[str, tuple[str, int, str, onnx.defs.OpSchema | None]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        name = f"{schema.domain}.{schema.name}" if schema.domain else schema.name
        operator = f"{name}-{schema.since_version}"
        found[operator] = (name, schema.since_version, operator, schema)
    for operator in used:
        name, _, opset = operator.rpartition("-")
        found.setdefault(operator, (name, int(opset), operator, None))
    return sorted(found.values(), key=lambda item: (item[0].count("."), item[0], item[1]))


def _short(text: str) -> str:
    return text if len(text) <= REASON_LENGTH else text[: REASON_LENGTH - 1] + "…"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table; what would end a cell or begin a tag is escaped, but for `code`."""
    header, *body = [[_cell(cell) for cell in row] for row in rows]
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return lines + ["| " + " | ".join(row) + " |" for row in body]


def _cell(text: str) -> str:
    if re.fullmatch(r"`\w+`", text):
        return text
    for character in "\\|<>*_`[]":
        text = text.replace(character, "\\" + character)
    return text


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
