"""What was measured: a journal that a run goes on with, and the table that is made of it.

    journal = Journal(Path("accuracy.json"))
    journal.add(Result(...))
    for line in table(journal.results, models, methods, peers): ...

A difference between two methods is of the same examples: of those where only one of them has
another largest output than the float model, `paired_interval` says what is chance; of decibels
`decibels_interval` does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

OURS = "best+adaround"
DRAWS = 4000
SEED = 0
Z95 = 1.959964
"""Of the normal distribution: 95 % lie within so many standard deviations."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One model quantized by one method; where that failed, only why."""

    model: str
    method: str
    count: int = 0
    """Examples that were tested."""
    sqnr_db: float = 0.0
    """Of the outputs; of several, of the mean of noise to signal."""
    cosine: float = 0.0
    differ: tuple[int, ...] = ()
    """Examples whose largest output is another one than the float model's."""
    accuracy: float | None = None
    """Per cent; None without labels."""
    exact_accuracy: float | None = None
    """The float model's."""
    lost: tuple[int, ...] | None = None
    """Examples that the float model answers right and this one does not; None without labels."""
    won: tuple[int, ...] | None = None
    """The other way round."""
    problem: str = ""
    noise: tuple[float, ...] = ()
    """By example, sum (a - b)^2 of the first output, of 6 digits."""
    signal: tuple[float, ...] = ()
    """By example, sum b^2 of the float model's first output."""


class Journal:
    """Results in a file, one JSON object a line; each is there as soon as it is known."""

    def __init__(self, path: Path | None):
        self._path = path
        self._results: dict[tuple[str, str], Result] = {}
        if path is not None and path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                lists = {name: tuple(v) for name, v in row.items() if isinstance(v, list)}
                self._keep(Result(**{**row, **lists}))

    @property
    def results(self) -> list[Result]:
        """The last one of each model and method."""
        return list(self._results.values())

    def has(self, model: str, method: str) -> bool:
        """Whether that was measured: what failed may be tried again."""
        found = self._results.get((model, method))
        return found is not None and not found.problem

    def missing(self, models: Sequence[str], methods: Sequence[str]) -> list[str]:
        """Methods that some model has not been measured with."""
        return [m for m in methods if not all(self.has(model, m) for model in models)]

    def _keep(self, result: Result) -> None:
        self._results[result.model, result.method] = result

    def add(self, result: Result) -> None:
        self._keep(result)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(result)) + "\n")


def paired_interval(first: Sequence[int], second: Sequence[int], count: int) -> tuple[float, float]:
    """95 % interval of how many more examples in a hundred differ for the first than the second.

    With b examples that only the first gets wrong, c that only the second does, of n:
    (b - c) / (n + 2) +- z sqrt(b + c + 1 - (b - c)^2 / (n + 2)) / (n + 2). Source: Agresti and Min,
    Simple improved confidence intervals for comparing matched proportions, 2005.
    """
    only_first, only_second = len(set(first) - set(second)), len(set(second) - set(first))
    difference, n = only_first - only_second, count + 2
    spread = Z95 * np.sqrt(only_first + only_second + 1 - difference**2 / n)
    return float((difference - spread) / n * 100), float((difference + spread) / n * 100)


def decibels_interval(ours: Result, theirs: Result) -> tuple[float, float, float]:
    """By how many dB the SQNR of the first output is above the other's, and its 95 % interval.

    A paired bootstrap: N of the N examples are drawn with replacement, the same for both, seeded;
    the ends are the 2.5 % and 97.5 % quantiles of `DRAWS` differences. Of a handful of examples it
    is too narrow. Source: Efron and Tibshirani, An introduction to the bootstrap, 1993, chapter 13.
    """
    drawn = np.random.default_rng(SEED).integers(0, ours.count, (DRAWS, ours.count))

    def gains(picked: np.ndarray) -> np.ndarray:
        """Decibels of ours, less those of theirs, of each row of examples."""
        levels = [
            np.array(r.signal)[picked].sum(axis=1) / np.array(r.noise)[picked].sum(axis=1)
            for r in (ours, theirs)
        ]
        return 10 * np.log10(levels[0] / levels[1])

    (difference,) = gains(np.arange(ours.count)[None])
    low, high = np.quantile(gains(drawn), (0.025, 0.975))
    return float(difference), float(low), float(high)


def table(
    results: Sequence[Result], models: Sequence[str], methods: Sequence[str], peers: Sequence[str]
) -> list[str]:
    """Markdown, a row for each model and a column for each method; and ours against the best peer
    of each model."""
    known = {(r.model, r.method): r for r in results}
    lines = [_row(["model (tested)", "float", *methods]), _row(["---"] * (len(methods) + 2))]
    for model in models:
        row = [known.get((model, method)) for method in methods]
        done = [r for r in row if r is not None and not r.problem]
        if not done:
            continue
        exact = done[0].exact_accuracy
        cells = [f"{model} ({done[0].count})", "" if exact is None else f"{exact:.1f}"]
        lines.append(_row([*cells, *map(_cell, row)]))
    shown = [known[m, n] for m in models for n in methods if (m, n) in known]
    problems = [f"{r.model}, {r.method}: {r.problem}" for r in shown if r.problem]
    return [
        *lines, "", *_against(shown, peers), *_gains(shown, peers), *_losses(shown), "", *problems
    ]  # fmt: skip


def _cell(result: Result | None) -> str:
    """Accuracy where there are labels, how many differ, decibels, and cosine."""
    if result is None:
        return "-"
    if result.problem:
        return "fails"
    accuracy = [] if result.accuracy is None else [f"{result.accuracy:.1f}"]
    numbers = f"{len(result.differ)}", f"{result.sqnr_db:.1f}", f"{result.cosine:.5f}"
    return ", ".join([*accuracy, *numbers])


def _against(results: Sequence[Result], peers: Sequence[str]) -> list[str]:
    head = "model", "best SQNR of peers", "ours", "fewest differ", "ours", "more per 100, 95 %"
    lines = [_row(head), _row(["---"] * len(head))]
    gains = []
    for model in dict.fromkeys(r.model for r in results):
        known = [r for r in results if r.model == model and not r.problem]
        ours = next((r for r in known if r.method == OURS), None)
        theirs = [r for r in known if r.method in peers]
        if ours is None or not theirs:
            continue
        best = max(theirs, key=lambda r: r.sqnr_db)
        fewest = min(theirs, key=lambda r: len(r.differ))
        gains.append(ours.sqnr_db - best.sqnr_db)
        low, high = paired_interval(ours.differ, fewest.differ, ours.count)
        cells = [f"{best.sqnr_db:.1f} ({best.method})", f"{ours.sqnr_db:.1f}"]
        cells += [f"{len(fewest.differ)} ({fewest.method})", str(len(ours.differ))]
        lines.append(_row([model, *cells, f"{low:+.2f} to {high:+.2f}"]))
    if gains:
        above = sum(gain > 0 for gain in gains)
        lines += ["", f"above the best peer's SQNR: {above} of {len(gains)} models"]
        lines[-1] += f", {np.mean(gains):+.1f} dB on average"
    return lines


def _gains(results: Sequence[Result], peers: Sequence[str]) -> list[str]:
    """Decibels of every method of ours above each peer, with the interval of the same examples."""
    rows = []
    known = [r for r in results if r.noise and all(r.noise) and all(r.signal)]
    for ours in (r for r in known if r.method not in peers):
        for theirs in (r for r in known if r.method in peers and r.model == ours.model):
            if theirs.count == ours.count:
                gain, low, high = decibels_interval(ours, theirs)
                cells = ours.model, ours.method, theirs.method, f"{gain:+.1f}"
                rows.append(_row([*cells, f"{low:+.1f} to {high:+.1f}"]))
    head = "model", "ours", "peer", "dB more, first output", "95 %"
    return ["", _row(head), _row(["---"] * len(head)), *rows] if rows else []


def _losses(results: Sequence[Result]) -> list[str]:
    """Points of accuracy that ours loses, with the interval of the same examples."""
    lines = []
    for r in results:
        if r.method != OURS or r.problem or r.lost is None or r.won is None:
            continue
        low, high = paired_interval(r.lost, r.won, r.count)
        points = (len(r.lost) - len(r.won)) / r.count * 100
        words = f"right only in floats {len(r.lost)}, only in integers {len(r.won)} of {r.count}"
        lines.append(
            f"{r.model}: {points:+.2f} points lost, 95 % {low:+.2f} to {high:+.2f} ({words})"
        )
    return ["", *lines] if lines else []


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
