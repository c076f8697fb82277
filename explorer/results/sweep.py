"""A search of machines: what each variant of a target takes, and which none is better than."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from explorer.results.decisions import TARGET
from explorer.results.displayed import Displayed

PART = "sweep"
"""Its name in `Trace.parts`."""
Value = int | float | str


def shown(fields: Sequence[tuple[str, Value]]) -> str:
    """`rows=16 size_bytes=32768`"""
    return " ".join(f"{path}={value}" for path, value in fields)


@dataclass(frozen=True, kw_only=True)
class ModelOnMachine:
    """One inference of one model on one machine, by the simulator."""

    model: str
    cycles: int
    seconds: float | None
    """Cycles at the clock of the target; None where it states none."""
    traffic_bytes: int
    """Between global memory and the scratchpads."""
    macs: int
    utilization: float
    """Of the matrix engine, 0 to 1."""
    energy_picojoules: float | None
    """None in files of older versions."""
    elsewhere: int
    """Operations that the machine leaves to functions in C."""


@dataclass(frozen=True, kw_only=True)
class MachinePoint:
    """One machine: its fields, its size, and all models on it."""

    fields: tuple[tuple[str, Value], ...]
    """Path and value of every field that varies, as `explorer sweep --vary` names them."""
    scratchpad_bytes: int
    mac_units: int
    models: tuple[ModelOnMachine, ...]

    @property
    def cycles(self) -> int:
        return sum(model.cycles for model in self.models)

    @property
    def seconds(self) -> float | None:
        """None where the machine states no clock."""
        known = [model.seconds for model in self.models]
        return None if None in known else sum(seconds or 0.0 for seconds in known)

    @property
    def macs(self) -> int:
        return sum(model.macs for model in self.models)

    @property
    def utilization(self) -> float:
        """Of the matrix engine over all models, 0 to 1."""
        return self.macs / max(self.mac_units * self.cycles, 1)

    @property
    def traffic_bytes(self) -> int:
        return sum(model.traffic_bytes for model in self.models)

    @property
    def energy_picojoules(self) -> float | None:
        """None where that of a model is unknown."""
        known = [model.energy_picojoules for model in self.models]
        return None if None in known else sum(energy or 0.0 for energy in known)

    @property
    def elsewhere(self) -> int:
        return sum(model.elsewhere for model in self.models)


@dataclass(frozen=True, kw_only=True)
class SkippedMachine:
    """Fields that contradict one another, or a machine on which a model does not run."""

    fields: tuple[tuple[str, Value], ...]
    reason: str


@dataclass(frozen=True, kw_only=True, repr=False)
class MachineSweep(Displayed):
    """What `explorer sweep` found; it shows itself as a table."""

    base: str
    models: tuple[str, ...]
    points: tuple[MachinePoint, ...]
    """In the order in which the fields vary, the last one fastest."""
    skipped: tuple[SkippedMachine, ...]

    @property
    def bases(self) -> tuple[str, ...]:
        """The targets that are varied."""
        return tuple(self.base.split(", "))

    def machine_of(self, fields: Iterable[tuple[str, Value]]) -> tuple[str, dict[str, Value]]:
        """The base of a point with these fields, and the others by their paths in that target. In a
        sweep over several bases the field `target` names it."""
        overrides: dict[str, Value] = dict(fields)
        return str(overrides.pop(TARGET, self.bases[0])), overrides

    @property
    def front(self) -> tuple[int, ...]:
        """Points that no other point is better than: at least as good in every objective and better
        in one (Pareto). Energy counts where it is known of all points, and cycles in place of
        seconds where a clock is not."""
        has_clock = all(point.seconds is not None for point in self.points)
        rows = [_objectives(point, self._has_energy, has_clock) for point in self.points]
        return tuple(i for i, row in enumerate(rows) if not any(_dominates(o, row) for o in rows))

    @property
    def _has_energy(self) -> bool:
        return all(point.energy_picojoules is not None for point in self.points)


def _objectives(point: MachinePoint, has_energy: bool, has_clock: bool) -> tuple[float, ...]:
    time = (point.seconds or 0.0) if has_clock else point.cycles
    least = time, point.traffic_bytes, point.scratchpad_bytes, point.mac_units
    return (*least, point.energy_picojoules or 0.0) if has_energy else least


def _dominates(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True)) and a != b
