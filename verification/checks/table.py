"""All models in one table: what was imported, what is equal after every pass and on each target.

table = Table(results, ("cpu", "opencl"))
table.lines()      aligned text for a terminal
table.markdown()   the page docs/models.md
"""

from __future__ import annotations

import datetime
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any

from explorer.compilation.checking import GOLDEN, IMPORTED
from verification.checks.examine import PASSED, STATUSES
from verification.checks.jobs import LABELS, PASSES, Result

MAX_COARSE = 3
"""Tensors of a model that are shown where the oracle is off; the others are counted."""
PACKAGES = ("onnx", "onnxruntime", "numpy", "xdsl")


@dataclass(frozen=True)
class Table:
    """Results of jobs, by model. `targets` in the order of the columns."""

    results: Sequence[Result]
    targets: Sequence[str]
    command: str = ""
    """What made it, for the page."""
    asked: Sequence[str] = ()
    """Models that were to be checked; those without a result are shown as not run."""

    @cached_property
    def models(self) -> list[str]:
        """By name, capital letters or not."""
        return sorted({*self.asked, *(r["model"] for r in self.results)}, key=str.lower)

    @cached_property
    def _by_job(self) -> dict[tuple[str, str, str], Result]:
        return {(r["task"], r["model"], r["target"]): r for r in self.results}

    def finding(self, model: str, target: str) -> Result | None:
        return self._by_job.get((PASSES, model, target))

    def labels(self, model: str) -> Result | None:
        return next((r for r in self.results if r["task"] == LABELS and r["model"] == model), None)

    # -- sums ------------------------------------------------------------------------------------
    def counts(self) -> dict[str, dict[str, int]]:
        """Models by target and status."""
        counts: dict[str, dict[str, int]] = {}
        for target in self.targets:
            found = [self.finding(m, target) for m in self.models]
            of = counts.setdefault(target, {})
            for status in STATUSES:
                number = sum(f is not None and f["status"] == status for f in found)
                if number:
                    of[status] = number
            if None in found:
                of["not run"] = found.count(None)
        return counts

    # -- text ------------------------------------------------------------------------------------
    def lines(self) -> list[str]:
        """The table as aligned columns, the reasons below it."""
        rows = [self._head, *(self._row(model) for model in self.models)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self._head))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        lines += ["", *(f"{target}: {_counted(of)}" for target, of in self.counts().items())]
        failing = [f"  {model}: {text}" for model, text in self.reasons()]
        return [*lines, *([] if not failing else ["", "what fails:", *failing])]

    @property
    def _head(self) -> list[str]:
        return ["model", "nodes", "ops", "inputs", "every pass", *self.targets, "goldens", "labels"]

    def _row(self, model: str) -> list[str]:
        found = [f for t in self.targets if (f := self.finding(model, t)) is not None]
        first = next((f for f in found if f.get("nodes")), {})
        return [
            model,
            str(first.get("nodes") or ""),
            str(first.get("operations") or ""),
            first.get("inputs", ""),
            self._passes_cell(found),
            *(self._target_cell(self.finding(model, target)) for target in self.targets),
            _goldens_cell(found),
            self._labels_cell(model),
        ]

    def _passes_cell(self, found: Sequence[Result]) -> str:
        """The worst of all passes on all targets, and with what it was compared."""
        worst = [f for f in found if _number(f.get("worst", -1)) >= 0]
        if not worst:
            return "–"
        worse = max(worst, key=lambda f: _number(f["worst"]))
        text = _error(worse["worst"])
        if any(f.get("coarse") for f in worst):
            text += " *"
        for told, word in ((GOLDEN, "golden"), (IMPORTED, "imported")):
            text += f" ({word})" if worse["reference"] == told else ""
        return text

    def _target_cell(self, finding: Result | None) -> str:
        if finding is None:
            return "not run"
        if finding["status"] != PASSED:
            return f"✗ {finding['status']}"
        return f"✓ {_error(finding['binary'])}"

    def _labels_cell(self, model: str) -> str:
        result = self.labels(model)
        if result is None:
            return ""
        if result["status"] != PASSED:
            return f"✗ {result['status']}"
        cells = []
        for found in result["labels"]:
            for count, ours in found["ours"].items():
                oracle = found["oracle"].get(count)
                against = "" if oracle is None else f" ({oracle})"
                cells.append(f"top-{count} {ours}{against} of {found['examples']}")
        return ", ".join(cells)

    def reasons(self) -> Iterator[tuple[str, str]]:
        """What does not pass, with the targets and the reason; equal reasons once."""
        for model in self.models:
            texts: dict[str, list[str]] = {}
            for target in self.targets:
                finding = self.finding(model, target)
                if finding is not None and finding["status"] != PASSED:
                    reason = f"{finding['status']}: {finding.get('reason', '')}"
                    texts.setdefault(reason, []).append(target)
            labels = self.labels(model)
            if labels is not None and labels["status"] != PASSED:
                reason = f"{labels['status']}: {labels.get('reason', '')}"
                texts.setdefault(reason, []).append("labels")
            if texts:
                yield model, "; ".join(f"{', '.join(t)} {r}" for r, t in texts.items())

    # -- a page ----------------------------------------------------------------------------------
    def markdown(self) -> str:
        """The whole page."""
        date = datetime.datetime.now(datetime.UTC).date().isoformat()
        versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
        sums = "; ".join(f"`{target}`: {_counted(of)}" for target, of in self.counts().items())
        lines = [
            "# Real models",
            "",
            f"Made by `{self.command}` on {date} with Python {platform.python_version()}, "
            f"{versions}. Of {len(self.models)} models, {sums}.",
            "",
            *_GUIDE,
            "",
            *_markdown_table([self._head, *(self._row(m) for m in self.models)]),
            "",
            "## What fails, and why",
            "",
            *([f"- `{m}`: {_escaped(text)}" for m, text in self.reasons()] or ["Nothing."]),
            "",
            *self._coarse_section(),
            *self._goldens_section(),
            *self._labels_section(),
        ]
        return "\n".join(lines).rstrip() + "\n"

    def _coarse_section(self) -> list[str]:
        rows = [["model", "tensor", "ours / oracle", "ours / float64", "reachable / float64"]]
        for model in self.models:
            coarse: dict[str, list[Any]] = {}
            for target in self.targets:
                coarse.update((self.finding(model, target) or {}).get("coarse", {}))
            ordered = sorted(coarse.items(), key=lambda item: -_number(item[1][0]))
            for tensor, distances in ordered[:MAX_COARSE]:
                rows.append([model, f"`{_escaped(tensor)}`", *(_error(d) for d in distances)])
            if len(ordered) > MAX_COARSE:
                rows.append(["", f"{len(ordered) - MAX_COARSE} more", "", "", ""])
        if len(rows) == 1:
            return []
        return ["## Where the oracle is off", "", *_COARSE, "", *_markdown_table(rows), ""]

    def _goldens_section(self) -> list[str]:
        rows = [["model", "target", "output", "metric", "value", "reached", "from"]]
        for model in self.models:
            for target in self.targets:
                for golden in (self.finding(model, target) or {}).get("goldens", ()):
                    value = _error(golden["value"])
                    if golden["metric"] in ("argmax", "top-5"):
                        value = f"{_number(golden['value']):.0f}"
                    elif golden["metric"] == "cosine":
                        value = f"{_number(golden['value']):.7f}"
                    reached = "yes" if golden["passed"] else "no"
                    output, note = (_escaped(str(golden[k])) for k in ("output", "note"))
                    rows.append(
                        [model, target, f"`{output}`", golden["metric"], value, reached, note]
                    )
        return [] if len(rows) == 1 else ["## Golden outputs", "", *_markdown_table(rows), ""]

    def _labels_section(self) -> list[str]:
        rows = [["model", "data", "examples", "top", "ours", "onnxruntime", "differ", "note"]]
        for model in self.models:
            result = self.labels(model) or {}
            for found in result.get("labels", ()):
                for count, ours in found["ours"].items():
                    oracle = found["oracle"].get(count, "–")
                    differ = found["differ"] if found["oracle"] else "–"
                    row = [model, found["data"], found["examples"], count, ours, oracle, differ]
                    rows.append([*map(str, row), _escaped(found["note"])])
        if len(rows) == 1:
            return []
        return ["## Labelled data", "", *_LABELS, "", *_markdown_table(rows), ""]


_GUIDE = (
    "The program after the import, after every pass and on the device is",
    "compared with the reference, tensor by tensor, accumulated and isolated, at a `max_relative`",
    "of 1e-4. `every pass`: the largest error of any tensor after any pass; `*` marks tensors for",
    "which the oracle itself is further from float64 than the tolerance (see below). A target's",
    "column is the largest error of what its device computed. The reference is onnxruntime without",
    "optimizations; `(golden)`: golden outputs and layers, `(imported)`: the imported program,",
    "where onnxruntime does not load the model.",
)
_COARSE = (
    "These tensors are off by more than the tolerance from the oracle and are right: the model was",
    "run in float64, every node that differs was confirmed there by another implementation, and",
    "ours is within the tolerance of it, or within twice what others reach",
    "([when is a tensor right](verdicts.md)). All are `max_relative`.",
)
_LABELS = (
    "How many labels are among the largest outputs of the compiled program and of onnxruntime, on",
    "the same inputs. `differ`: examples whose largest output is another one.",
)


def _markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = rows
    line = "| " + " | ".join("---" for _ in head) + " |"
    return [_markdown_row(head), line, *(_markdown_row(row) for row in body)]


def _markdown_row(row: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def _escaped(text: str) -> str:
    """Names from a model cannot become markup."""
    printable = "".join(c if c.isprintable() else "?" for c in text)
    return printable.replace("<", "&lt;").replace("`", "'")


def _goldens_cell(found: Sequence[Mapping[str, Any]]) -> str:
    goldens = [g for f in found for g in f.get("goldens", ())]
    if not goldens:
        return ""
    reached = sum(bool(g["passed"]) for g in goldens)
    return f"{'✓' if reached == len(goldens) else '✗'} {reached} of {len(goldens)}"


def _counted(of: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {status}" for status, number in of.items())


def _number(value: Any) -> float:
    """A number that JSON may hold as text."""
    return float(value)


def _error(value: Any) -> str:
    number = _number(value)
    return "0" if number == 0 else f"{number:.1e}"
