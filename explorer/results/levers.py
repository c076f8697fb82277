"""Levers: the decisions that move a quantity of a compilation, with what each would change.

LeverRecord(address="schedule-loops/conv_3x3_2/schedule", group="schedule", of="conv_3x3_2",
            title="schedule", value="winograd4", options=(LeverOption(value="direct",
            decisions=(("schedule-loops/conv_3x3_2/schedule", "direct"),), change=-147456.0),),
            source="bytes that live at the fullest step, conv_5", why="...")
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from explorer.results.knobs import KnobValue

Quantity = Literal[
    "peak_bytes",
    "seconds",
    "weights_bytes",
    "code_bytes",
    "sqnr_db",
    "cycles",
    "traffic_bytes",
    "energy_picojoules",
    "macs",
    "compile_seconds",
]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
SHORT: dict[str, Quantity] = {
    "peak": "peak_bytes",
    "latency": "seconds",
    "weights": "weights_bytes",
    "code": "code_bytes",
    "dB": "sqnr_db",
    "cycles": "cycles",
    "traffic": "traffic_bytes",
    "energy": "energy_picojoules",
    "macs": "macs",
    "compile": "compile_seconds",
}
"""What the command line and the page call the quantities."""
UNITS: dict[str, str] = {
    "peak_bytes": "bytes",
    "seconds": "s",
    "weights_bytes": "bytes",
    "code_bytes": "bytes",
    "sqnr_db": "dB",
    "cycles": "cycles",
    "traffic_bytes": "bytes",
    "energy_picojoules": "pJ",
    "macs": "MACs",
    "compile_seconds": "s",
}
RISES: tuple[str, ...] = ("sqnr_db",)
"""Quantities of which more is better."""


@dataclass(frozen=True, kw_only=True)
class LeverOption:
    """One legal value of a decision."""

    value: KnobValue
    decisions: tuple[tuple[str, KnobValue], ...]
    """What a fork decides; None takes a decision back."""
    change: float | None = None
    """Predicted, in the unit of the quantity; None where nobody predicts it."""
    also: str = ""
    """What else is predicted: `12 us more`."""


@dataclass(frozen=True, kw_only=True)
class LeverRecord:
    """A decision that moves the quantity."""

    address: str
    group: str
    """What kind of decision it is: schedule, layout, memory, precision, machine, target, pass."""
    of: str
    """The kernel, value or pass that it is about; empty for the whole program."""
    title: str
    value: KnobValue
    options: tuple[LeverOption, ...] = ()
    """Legal values besides the present one, those that help most first; empty where `why` says
    which values are legal."""
    source: str = ""
    """Where the predictions come from; empty where there are none."""
    why: str = ""
    """Why it has the present value."""
    unpredicted: str = ""
    """Why no value has a prediction; empty where one has."""
    layers: tuple[str, ...] = ()
    """Operations that `source` and `why` name."""
    on_demand: str = ""
    """What predicts its values when they are asked for: `model` of the machine, in about a second,
    or `trial`, the passes with each of them; empty where nothing does."""
    commands: tuple[str, ...] = ()
    """What to run where no decision of this compilation does it."""

    def best(self, rises: bool) -> float | None:
        """The most helpful predicted change, as a gain; None without predictions."""
        gains = [o.change if rises else -o.change for o in self.options if o.change is not None]
        return max(gains, default=None)


@dataclass(frozen=True, kw_only=True)
class LeversRecord:
    """All levers of one quantity, the most helpful first."""

    quantity: str
    """One of `QUANTITIES`."""
    value: float | None
    """None where it was not measured, or the target has none."""
    value_source: str
    """How the value came about: `measured`, `memory plan`, `cost model`; or why there is none."""
    levers: tuple[LeverRecord, ...]
    fixed: tuple[tuple[str, str], ...] = ()
    """(what cannot be moved, why)."""
