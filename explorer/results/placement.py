"""Which device runs what, and why: prices, refusals, parts and transfers."""

from __future__ import annotations

from dataclasses import dataclass

PART = "placement"
"""Name of the trace's part."""


@dataclass(frozen=True, kw_only=True)
class DevicePrice:
    device: str
    seconds: float
    source: str
    """The cost model, a measurement, the target's file, a decision, or an assumption."""


@dataclass(frozen=True, kw_only=True)
class OperationPlacement:
    """One operation: where it runs, and what it would cost elsewhere."""

    operation: str
    device: str
    prices: tuple[DevicePrice, ...]
    """Of every device that can run it, in the order of the targets."""
    refusals: tuple[tuple[str, str], ...] = ()
    """Device and reason."""
    cluster: str = ""


@dataclass(frozen=True, kw_only=True)
class RefusedEdge:
    """Two operations that were not made to run on one device, and why."""

    maker: str
    reader: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class PlacedPart:
    """A function of the program, in the order in which they run."""

    function: str
    device: str
    operations: tuple[str, ...]
    predicted_us: float | None
    """None where no price is known."""
    arena_bytes: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class PlacedTransfer:
    """A value that goes from one device to another, once."""

    value: str
    source: str
    target: str
    size_bytes: int | None
    """None where only a run tells it."""
    predicted_us: float | None
    price: str
    """Where the price is from."""


@dataclass(frozen=True, kw_only=True)
class AssignmentRecord:
    """What was computed of the choice."""

    seconds: float
    """Joules, where energy is the objective."""
    bound: float
    optimal: bool
    single: tuple[tuple[str, float], ...]
    """What every device costs that can run all alone."""
    greedy: float | None
    objective: str = "sum"


@dataclass(frozen=True, kw_only=True)
class LinkRecord:
    """Transfers in one direction."""

    source: str
    target: str
    latency_seconds: float
    bytes_per_second: float | None
    """None where both have the same memory."""
    price: str


@dataclass(frozen=True, kw_only=True)
class BandwidthPoint:
    factor: float
    """1 is the bandwidth that the prices have."""
    seconds: float
    counts: tuple[tuple[str, int], ...]
    """Operations by device."""
    transferred_bytes: int


@dataclass(frozen=True, kw_only=True)
class PlacementRecord:
    """The placement of a whole program."""

    targets: tuple[str, ...]
    host: str
    """The device in the host's memory; `host` where none is."""
    parts: tuple[PlacedPart, ...]
    transfers: tuple[PlacedTransfer, ...]
    operations: tuple[OperationPlacement, ...] = ()
    edges: tuple[RefusedEdge, ...] = ()
    links: tuple[LinkRecord, ...] = ()
    assignment: AssignmentRecord | None = None
    """None where one target was given: nothing was chosen."""
    absent: tuple[tuple[str, str], ...] = ()
    """Targets that were left out, with the reason."""
    bandwidths: tuple[BandwidthPoint, ...] = ()
    """The cheapest assignment where all transfers were so many times as fast."""
