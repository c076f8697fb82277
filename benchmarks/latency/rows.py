"""What was measured, kept in a file, and the means over classes of models.

    rows = Rows(Path("latency.json"), here())     # goes on with what is there of this processor
    rows.add("resnet18", measured)
    means(rows.all, peer="openvino")         {("large", 1): Mean(0.79, 31, 1.04), ...}

Classes are by the reference's time (onnxruntime, LiteRT) on one thread: `large` from 0.25 ms on,
`small` below, where the cost of a call decides; quantized models stand apart. A mean is geometric,
over the models that all peers of the run loaded, and of one processor.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any  # of JSON

from processors import Processor

from explorer.cli.latency import LITERT, ONNXRUNTIME, OURS
from explorer.results.encoding import from_json as decoded
from explorer.results.encoding import to_json
from explorer.runtime.measuring import Measurement

UNKNOWN = "a processor that was not written down"

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
    max_relative: float | None
    """The largest of all outputs of floats, against the reference; None where there is none."""
    problems: Mapping[str, str]
    """Why a peer is not among them."""
    gflop: float = 0.0
    """Operations of one inference, by the kernels' definitions; 0 in older files."""
    peak_gflops: float = 0.0
    """Of multiply-adds on so many threads, measured right before; 0 in older files."""
    steal: float | None = None
    """Of the time, the part in which the machine was taken away."""
    others: float | None = None
    """Of all processors' time, what processes used that were not measured."""
    max_steps: float | None = None
    """The largest difference of all outputs of integers from the reference's, which may round in
    another way; None where there is none, and in older files."""

    @property
    def of_peak(self) -> float:
        """The part of the peak that ours reaches; more than 1 where Winograd saves operations."""
        if not self.peak_gflops:
            return 0.0
        return self.gflop / (self.ms[OURS] * 1e-3) / self.peak_gflops

    @property
    def difference(self) -> str:
        """From the reference, in words: `1.2e-06` of floats, `2 steps` of integers, or both."""
        parts = [] if self.max_relative is None else [f"{self.max_relative:.1e}"]
        if self.max_steps is not None:
            unit = "step" if self.max_steps == 1 else "steps"
            parts.append(f"{self.max_steps:.0f} {unit}" if self.max_steps else "equal")
        return ", ".join(parts) or "–"


@dataclass(frozen=True)
class Mean:
    """Of a class on so many threads."""

    ratio: float
    models: int
    slowest: float
    """The largest ratio that is above 1 by more than its noise; 0 where there is none."""
    slowest_model: str


class Rows:
    """Rows by model, and why a model has none; written after every model where there is a file.

    A file has the rows of several processors; these are of one, and the others stay in it.
    """

    def __init__(self, file: Path | None = None, processor: Processor | None = None) -> None:
        self._file = file
        self._processor = processor
        self._kept: dict[str, Any] = {}
        if file is not None and file.is_file():
            kept = json.loads(file.read_text(encoding="utf-8"))
            # Before processors were told apart there was one list.
            self._kept = kept.get("processors", {UNKNOWN: {"models": kept.get("models", {})}})
        models = self._kept.get(self._name, {}).get("models", {})
        self._found = {name: from_json(answer) for name, answer in models.items()}

    @property
    def _name(self) -> str:
        return UNKNOWN if self._processor is None else self._processor.name

    @property
    def processors(self) -> list[Processor]:
        """All whose rows are in the file."""
        return [
            Processor(name, decoded(Measurement, kept["measured"]))
            for name, kept in self._kept.items()
            if kept.get("measured")
        ]

    def __contains__(self, name: str) -> bool:
        """Whether it was measured; what could not be measured is tried again."""
        return isinstance(self._found.get(name), list)

    def add(self, name: str, answer: list[Row] | str) -> None:
        self._found[name] = answer
        models = {
            key: found if isinstance(found, str) else [asdict(row) for row in found]
            for key, found in self._found.items()
        }
        measured = None if self._processor is None else to_json(self._processor.measured)
        self._kept[self._name] = {"measured": measured, "models": models}
        if self._file is None:
            return
        part = self._file.with_suffix(".part")
        text = json.dumps({"processors": self._kept}, indent=1)
        part.write_text(text + "\n", encoding="utf-8")
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
    """By the reference's time on the fewest threads that were measured."""
    first = min((row for row in rows if row.model == model), key=lambda row: row.threads)
    if first.kind == "quantized":
        return first.kind
    reference = next(first.ms[name] for name in (ONNXRUNTIME, LITERT) if name in first.ms)
    return "large" if reference >= LARGE_MS else "small"


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
