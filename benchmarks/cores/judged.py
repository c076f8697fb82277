"""What was judged of architectures on cores: kept in a file, as tables, and what stands out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from explorer.results import LoopPorts, PortsRecord
from explorer.results.encoding import from_json, to_json
from explorer.results.runs.ports import KINDS, TOLERANCE

MIN_SHARE = 0.005
"""Of a program's cycles: what takes less is not among the findings."""


@dataclass(frozen=True)
class Judged:
    model: str
    core: str
    ports: PortsRecord | None
    problem: str = ""
    """Why there is none."""

    @property
    def loops(self) -> tuple[LoopPorts, ...]:
        return self.ports.loops if self.ports is not None else ()

    @property
    def multiplying(self) -> list[LoopPorts]:
        """Hot loops that multiply and add."""
        return [loop for loop in self.loops if loop.peak_cycles]

    @property
    def limited(self) -> float:
        """Of the cycles in these, the part where multiply-adds are what limits."""
        whole = sum(loop.share for loop in self.multiplying) or 1.0
        return sum(loop.share for loop in self.multiplying if not loop.should_multiply) / whole

    @property
    def of_peak(self) -> float:
        """How near those loops come to the peak together, weighted by their share."""
        whole = sum(loop.share for loop in self.multiplying) or 1.0
        parts = (loop.share * loop.peak_cycles / loop.cycles for loop in self.multiplying)
        return sum(parts) / whole


class Kept:
    """Everything judged, in a file where there is one."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._found: dict[tuple[str, str], Judged] = {}
        if file is not None and file.is_file():
            for row in json.loads(file.read_text(encoding="utf-8")):
                ports = None if row["ports"] is None else from_json(PortsRecord, row["ports"])
                key = row["model"], row["core"]
                self._found[key] = Judged(*key, ports, row["problem"])

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._found and not self._found[key].problem

    def add(self, judged: Judged) -> None:
        if judged.ports is not None:  # instructions of all of them would be tens of megabytes
            loops = tuple(replace(loop, text=()) for loop in judged.ports.loops)
            judged = replace(judged, ports=replace(judged.ports, loops=loops))
        self._found[judged.model, judged.core] = judged
        if self._file is not None:
            rows = [
                {"model": j.model, "core": j.core, "problem": j.problem, "ports": to_json(j.ports)}
                for j in self._found.values()
            ]
            part = self._file.with_suffix(".part")
            part.write_text(json.dumps(rows) + "\n", encoding="utf-8")
            part.replace(self._file)

    @property
    def all(self) -> list[Judged]:
        return list(self._found.values())

    def line(self, model: str, core: str) -> str:
        judged = self._found[model, core]
        if judged.ports is None:
            return f"{model:<14} {core:<16} not judged: {judged.problem}"
        spilling = sum(loop.spills > 0 for loop in judged.loops)
        return (
            f"{model:<14} {core:<16} {len(judged.loops):>3} loops, {judged.limited:>4.0%} limited "
            f"by multiply-adds, {judged.of_peak:>4.0%} of the peak, {spilling} spill, cost model "
            f"within {TOLERANCE:.0%} in {judged.ports.within:.0%}"
        )


def table(rows: Sequence[Judged]) -> list[str]:
    """Markdown: models down, cores across; the part of the peak that their loops reach."""
    cores = list(dict.fromkeys(row.core for row in rows))
    models = list(dict.fromkeys(row.model for row in rows))
    found = {(row.model, row.core): row for row in rows}
    lines = [
        "| of the peak (limited by multiply-adds) | " + " | ".join(cores) + " |",
        "| --- |" + " --- |" * len(cores),
    ]
    for model in models:
        cells = [_cell(found.get((model, core))) for core in cores]
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    return lines


def _cell(judged: Judged | None) -> str:
    if judged is None or judged.ports is None:
        return "–"
    return f"{judged.of_peak:.0%} ({judged.limited:.0%})"


def totals(rows: Sequence[Judged]) -> list[str]:
    """Markdown: of every core its hot loops, by what limits them, and how right the model is."""
    lines = [
        "| core | ports of | loops | within 15% | those of multiply-adds | their cycles | limits |"
        " spill |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for core in dict.fromkeys(row.core for row in rows):
        judged = [row for row in rows if row.core == core and row.ports is not None]
        if not judged:
            continue
        loops = [loop for row in judged for loop in row.loops]
        heavy = [loop for row in judged for loop in row.multiplying]
        near = sum(abs(loop.error) <= TOLERANCE for loop in loops) / max(len(loops), 1)
        near_heavy = sum(abs(loop.error) <= TOLERANCE for loop in heavy) / max(len(heavy), 1)
        weight = sum(loop.share for loop in loops) or 1.0
        near_share = sum(loop.share for loop in loops if abs(loop.error) <= TOLERANCE) / weight
        limits = Counter[str]()
        for loop in loops:
            limits[loop.limit] += 1
        models = "/".join(sorted({row.ports.model for row in judged if row.ports}))
        named = ", ".join(f"{name} {count}" for name, count in limits.most_common())
        spilling = sum(loop.spills > 0 for loop in loops)
        lines.append(
            f"| {core} | {models} | {len(loops)} | {near:.0%} | {near_heavy:.0%} | "
            f"{near_share:.0%} | {named} | {spilling} |"
        )
    return lines


def findings(rows: Sequence[Judged], most: int) -> list[str]:
    """Loops of multiply-adds that something else limits, and those that spill, dearest first."""
    found = [
        (loop.share * (1 - loop.peak_cycles / loop.cycles), row, loop)
        for row in rows
        for loop in row.multiplying
        if loop.share >= MIN_SHARE and (loop.should_multiply or loop.spills)
    ]
    found.sort(key=lambda each: -each[0])
    lines = []
    for lost, row, loop in found[:most]:
        counts = dict(loop.counts)
        made = ", ".join(f"{counts[kind]:.3g} {kind}" for kind in KINDS if kind in counts)
        lines.append(
            f"{row.core:<16} {row.model:<13} {loop.kernel:<22} {lost:>5.1%} lost: {loop.limit}, "
            f"{loop.cycles:.1f} cycles (cost model {loop.predicted_cycles:.1f}, peak "
            f"{loop.peak_cycles:.1f}), {loop.spills:.3g} spills; {made}"
        )
    return lines or ["every loop of multiply-adds is limited by them, and none spills"]
