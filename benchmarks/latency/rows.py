"""What was measured, kept in a file, and the means over classes of models.

    rows = Rows(Path("latency.json"))        # goes on with what is there
    rows.add("resnet18", measured)
    means(rows.all, peer="openvino")         {("large", 1): Mean(0.79, 31, 1.04), ...}

Classes are by onnxruntime's time on one thread: `large` from 0.25 ms on, `small` below, where the
cost of a call decides; quantized models stand apart. A mean is geometric, over the models that all
peers of the run loaded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from explorer.cli.latency import ONNXRUNTIME

LARGE_MS = 0.25
CLASSES = ("large", "small", "quantized")


@dataclass(frozen=True)
class Row:
    """One model on so many threads. Times are medians of whole calls."""

    model: str
    threads: int
    kind: str
    """float or quantized."""
    ms: Mapping[str, float]
    """By side."""
    launches_ms: float
    """Of ours: the generated program alone."""
    ratios: Mapping[str, float]
    """Ours / peer, for the peers that load the model."""
    noise: Mapping[str, float]
    """Of these ratios."""
    max_relative: float
    """The largest of all outputs, against onnxruntime."""
    problems: Mapping[str, str]
    """Why a peer is not among them."""


@dataclass(frozen=True)
class Mean:
    """Of a class on so many threads."""

    ratio: float
    models: int
    slowest: float
    """The largest ratio that is above 1 by more than its noise; 0 where there is none."""
    slowest_model: str


class Rows:
    """Rows by model, and why a model has none; written after every model where there is a file."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._found: dict[str, list[Row] | str] = {}
        if file is not None and file.is_file():
            kept = json.loads(file.read_text(encoding="utf-8"))
            for name, answer in kept["models"].items():
                self._found[name] = from_json(answer)

    def __contains__(self, name: str) -> bool:
        """Whether it was measured; what could not be measured is tried again."""
        return isinstance(self._found.get(name), list)

    def add(self, name: str, answer: list[Row] | str) -> None:
        self._found[name] = answer
        if self._file is None:
            return
        models = {
            key: found if isinstance(found, str) else [asdict(row) for row in found]
            for key, found in self._found.items()
        }
        part = self._file.with_suffix(".part")
        part.write_text(json.dumps({"models": models}, indent=1) + "\n", encoding="utf-8")
        part.replace(self._file)

    def of(self, name: str) -> list[Row] | str:
        return self._found[name]

    @property
    def all(self) -> list[Row]:
        return [row for found in self._found.values() if isinstance(found, list) for row in found]


def from_json(answer: object) -> list[Row] | str:
    """Rows as JSON has them, or the text why there are none."""
    if isinstance(answer, str):
        return answer
    assert isinstance(answer, list)
    return [Row(**row) for row in answer]


def class_of(model: str, rows: Sequence[Row]) -> str:
    """By onnxruntime's time on the fewest threads that were measured."""
    first = min((row for row in rows if row.model == model), key=lambda row: row.threads)
    if first.kind == "quantized":
        return first.kind
    return "large" if first.ms[ONNXRUNTIME] >= LARGE_MS else "small"


def means(rows: Sequence[Row], peer: str) -> dict[tuple[str, int], Mean]:
    """By class and threads, where there is a model."""
    peers = {name for row in rows for name in row.ratios}
    complete = [row for row in rows if peers <= set(row.ratios)]
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in complete:
        groups.setdefault((class_of(row.model, rows), row.threads), []).append(row)
    return {key: _mean(group, peer) for key, group in sorted(groups.items())}


def _mean(rows: Sequence[Row], peer: str) -> Mean:
    logarithms = [math.log(row.ratios[peer]) for row in rows]
    slower = [row for row in rows if row.ratios[peer] > row.noise[peer]]
    slowest = max(slower, key=lambda row: row.ratios[peer], default=None)
    return Mean(
        math.exp(sum(logarithms) / len(logarithms)),
        len(rows),
        slowest.ratios[peer] if slowest else 0.0,
        slowest.model if slowest else "",
    )
