"""How a session answered its calls, and the programs that it compiled for them."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.results.displayed import Displayed


@dataclass(frozen=True)
class SessionCall:
    """How one call was answered."""

    number: int
    """From 1."""
    signature: str
    answered_by: str
    """program, onnxruntime or interpreter."""
    event: str
    """hit, started (from a kept program), compiled, compiling, not hot, cut off, refused or
    specialized (the first call of a program that a thread compiled for its size)."""
    reason: str
    """Why no known program fitted, or another one answers now; empty for a hit."""
    seconds: float
    """Of the whole call."""
    compile_seconds: float = 0.0
    """That the call waited for."""


@dataclass(frozen=True, kw_only=True)
class WeightsReport:
    """Which weights a program of a session has together with earlier ones."""

    shared_bytes: int = 0
    copied_bytes: int = 0
    """That no earlier program has, or that are there in another layout or block."""
    reasons: tuple[str, ...] = ()
    """Of copies."""

    def __str__(self) -> str:
        found = f"{self.shared_bytes:,} bytes of weights are those of earlier programs"
        return "; ".join([f"{found}, {self.copied_bytes:,} are added", *self.reasons])


@dataclass(frozen=True)
class SessionProgram:
    """One program that a session holds."""

    signature: str
    calls: int
    seconds: float
    """Compiling and building."""
    tier: str = ""
    """Where its binary came from: see `explorer.results.runs.lookups.TIERS`; empty if not known."""
    reason: str = ""
    """Why its binary was built."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SessionRecord(Displayed):
    """The log of a session."""

    model: str
    target: str
    mode: str
    calls: tuple[SessionCall, ...]
    """In their order."""
    programs: tuple[SessionProgram, ...]
    """Those that are held, the last used last."""
    is_cut_off: bool
    """Whether new signatures are no longer compiled."""
