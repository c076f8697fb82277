"""What was measured on a device, as JSON and as a Markdown table."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Peaks:
    """What the device does at best, as measured."""

    gflops: float
    """Multiply-adds of float32, two operations each."""
    gbytes_per_second: float
    tensor_gflops: float = 0.0
    """The same of its matrix instructions: halves with float32 sums; 0 where there are none."""

    def text(self) -> str:
        tensor = f", {self.tensor_gflops:.0f} by matrix instructions" if self.tensor_gflops else ""
        return f"{self.gflops:.0f} GFLOP/s{tensor}, {self.gbytes_per_second:.0f} GB/s"


@dataclass(frozen=True)
class KernelRow:
    """A kernel in all its launches of one run."""

    name: str
    schedule: Mapping[str, Any]
    """What was chosen for it."""
    launches: int = 0
    microseconds: float = 0.0
    gigaflops: float = 0.0
    gigabytes: float = 0.0


@dataclass(frozen=True)
class ModelRow:
    """One model on the device, in one precision."""

    name: str
    precision: str = "float32"
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
    kernels: Sequence[KernelRow | Mapping[str, Any]] = ()
    """The slowest first."""
    note: str = ""
    """What failed after the figures were there."""
    refusal: str = ""
    """Why there are no figures."""

    @property
    def title(self) -> str:
        return self.name if self.precision == "float32" else f"{self.name} ({self.precision})"

    @property
    def is_left_out(self) -> bool:
        return bool(self.refusal)

    @property
    def is_right(self) -> bool:
        return self.max_relative <= self.tolerance

    def fractions(self, peaks: Peaks) -> tuple[float, float]:
        """Of the device's multiply-adds (in mixed precision by matrix instructions, where it has
        them) and of its bandwidth."""
        seconds = self.milliseconds * 1e-3
        is_mixed = self.precision == "mixed" and peaks.tensor_gflops > 0
        return (
            self.gigaflops / seconds / (peaks.tensor_gflops if is_mixed else peaks.gflops),
            self.gigabytes / seconds / peaks.gbytes_per_second,
        )

    def line(self, peaks: Peaks) -> str:
        if self.refusal:
            return f"{self.title:<26} left out: {self.refusal}"
        flops, bandwidth = self.fractions(peaks)
        ratios = "".join(
            f"  / {name} {self.milliseconds / other:.2f}" for name, other in self.peers.items()
        )
        verdict = "" if self.is_right else "  WRONG"
        return (
            f"{self.title:<26}{self.milliseconds:>10.3f} ms  {flops:>6.1%} of peak  "
            f"{bandwidth:>6.1%} of bandwidth  {self.max_relative:.1e}{verdict}{ratios}"
        )


@dataclass(frozen=True)
class Report:
    date: str
    device: Mapping[str, Any]
    """The fields of a `DeviceRecord`."""
    target: str
    peaks: Peaks
    absent: Mapping[str, str]
    """Peers that could not be asked, and why."""
    tensor_cores: str
    """Why matrix instructions were not used; empty if they were."""
    rows: list[ModelRow]


def write_report(report: Report, folder: Path) -> list[Path]:
    """`gpu.json` and `gpu.md` in the folder, which is made where it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    as_json, as_table = folder / "gpu.json", folder / "gpu.md"
    as_json.write_text(json.dumps(finite(asdict(report)), indent=1) + "\n", encoding="utf-8")
    as_table.write_text("\n".join(table(report)) + "\n", encoding="utf-8")
    return [as_json, as_table]


def table(report: Report) -> list[str]:
    """The lines of the Markdown file."""
    peaks = report.peaks
    peers = list(dict.fromkeys(name for row in report.rows for name in row.peers))
    columns = ["model", "ms", "of peak", "of bandwidth", "max_relative", "first result, s"]
    columns += [f"ours / {name}" for name in peers]
    lines = [
        f"# {report.device['name']}, {report.date}",
        "",
        f"Driver {report.device['driver']}, {report.device['version']}; target `{report.target}`. "
        f"Measured peak {peaks.text()}. "
        "Milliseconds are medians of the launches, inputs on the device.",
        "",
        "| " + " | ".join(columns) + " |",
        "| " + " | ".join("---" for _ in columns) + " |",
    ]
    for row in report.rows:
        if row.refusal:
            lines.append(f"| {row.title} | left out: {row.refusal} |" + " |" * (len(columns) - 2))
            continue
        flops, bandwidth = row.fractions(peaks)
        cells = [
            row.title,
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
    if report.tensor_cores:
        lines += ["", f"Matrix instructions were not used: {report.tensor_cores}."]
    for row in report.rows:
        lines += [f"\n{row.title}, {name}: {why}." for name, why in row.peer_refusals.items()]
        lines += [f"\n{row.title}: {row.note}."] if row.note else []
    return lines


def finite(value: Any) -> Any:
    """JSON has no NaN: what is not known is null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
