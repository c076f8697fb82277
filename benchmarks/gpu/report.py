"""What was measured on a device, as JSON and as a Markdown table."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from explorer.runtime.profiles import Peaks


@dataclass(frozen=True)
class ModelRow:
    """One model on the device."""

    name: str
    max_relative: float = math.nan
    """Of the worst output, to onnxruntime without optimizations."""
    milliseconds: float = math.nan
    """Median of the launches, inputs on the device."""
    best_milliseconds: float = math.nan
    first_seconds: float = math.nan
    """From the compiled model to the first result: the driver's compiler."""
    launches: int = 0
    gigaflops: float = 0.0
    gigabytes: float = 0.0
    """The least that must be moved: all arguments of all launches."""
    peers: Mapping[str, float] = field(default_factory=dict)
    """Median milliseconds by peer."""
    peer_refusals: Mapping[str, str] = field(default_factory=dict)
    tolerance: float = 0.0
    refusal: str = ""
    """Why there are no figures."""

    @property
    def is_left_out(self) -> bool:
        return bool(self.refusal)

    @property
    def is_right(self) -> bool:
        return self.max_relative <= self.tolerance

    def fractions(self, peaks: Peaks) -> tuple[float, float]:
        """Of the device's multiply-adds and of its bandwidth."""
        seconds = self.milliseconds * 1e-3
        return (
            self.gigaflops / seconds / peaks.gflops,
            self.gigabytes / seconds / peaks.gbytes_per_second,
        )

    def line(self, peaks: Peaks) -> str:
        if self.refusal:
            return f"{self.name:<26} left out: {self.refusal}"
        flops, bandwidth = self.fractions(peaks)
        ratios = "".join(
            f"  / {name} {self.milliseconds / other:.2f}" for name, other in self.peers.items()
        )
        verdict = "" if self.is_right else "  WRONG"
        return (
            f"{self.name:<26}{self.milliseconds:>10.3f} ms  {flops:>6.1%} of peak  "
            f"{bandwidth:>6.1%} of bandwidth  {self.max_relative:.1e}{verdict}{ratios}"
        )


@dataclass(frozen=True)
class Report:
    date: str
    device: Mapping[str, Any]
    """The fields of a `DeviceRecord`."""
    target: str
    peaks: Mapping[str, Any]
    absent: Mapping[str, str]
    """Peers that could not be asked, and why."""
    tolerance: float
    rows: Sequence[ModelRow]


def write_report(report: Report, folder: Path) -> list[Path]:
    """`gpu.json` and `gpu.md` in the folder, which is made where it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    as_json, as_table = folder / "gpu.json", folder / "gpu.md"
    as_json.write_text(json.dumps(_finite(asdict(report)), indent=1) + "\n", encoding="utf-8")
    as_table.write_text("\n".join(table(report)) + "\n", encoding="utf-8")
    return [as_json, as_table]


def table(report: Report) -> list[str]:
    """The lines of the Markdown file."""
    peaks = Peaks(**report.peaks)
    peers = list(dict.fromkeys(name for row in report.rows for name in row.peers))
    columns = ["model", "ms", "of peak", "of bandwidth", "max_relative", "first result, s"]
    columns += [f"ours / {name}" for name in peers]
    lines = [
        f"# {report.device['name']}, {report.date}",
        "",
        f"Driver {report.device['driver']}, {report.device['version']}; target `{report.target}`. "
        f"Measured peak {peaks.gflops:.0f} GFLOP/s, {peaks.gbytes_per_second:.0f} GB/s. "
        "Milliseconds are medians of the launches, inputs on the device.",
        "",
        "| " + " | ".join(columns) + " |",
        "| " + " | ".join("---" for _ in columns) + " |",
    ]
    for row in report.rows:
        if row.refusal:
            lines.append(f"| {row.name} | left out: {row.refusal} |" + " |" * (len(columns) - 2))
            continue
        flops, bandwidth = row.fractions(peaks)
        cells = [
            row.name,
            f"{row.milliseconds:.3f}",
            f"{flops:.1%}",
            f"{bandwidth:.1%}",
            f"{row.max_relative:.1e}" + ("" if row.is_right else " (wrong)"),
            f"{row.first_seconds:.1f}",
        ]
        cells += [
            f"{row.milliseconds / row.peers[name]:.2f}" if name in row.peers else "-"
            for name in peers
        ]
        lines.append("| " + " | ".join(cells) + " |")
    for name in peers:
        found = [row.milliseconds / row.peers[name] for row in report.rows if name in row.peers]
        mean = math.exp(sum(map(math.log, found)) / len(found))
        lines += ["", f"Geometric mean to {name} over {len(found)} models: {mean:.2f}."]
    for name, reason in report.absent.items():
        lines += ["", f"Not measured: {name} ({reason})."]
    for row in report.rows:
        lines += [f"\n{row.name}, {name}: {why}." for name, why in row.peer_refusals.items()]
    return lines


def _finite(value: Any) -> Any:
    """JSON has no NaN: what is not known is null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
