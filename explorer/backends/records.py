"""What a backend is told when it is asked for passes or for a program, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.renamed import renamed_names

if TYPE_CHECKING:
    import numpy as np

    from explorer.kernels.passes import Tuned
    from explorer.memory.planners import Planner
    from explorer.passes.lower.partition import Refuses
    from explorer.runtime.cache import ProgramCache
    from explorer.runtime.cache.weights import MappedWeights
    from explorer.runtime.devices import DeviceRecord
    from explorer.runtime.native.shared_arena import SharedArena
    from explorer.targets import Target


@dataclass(frozen=True, kw_only=True)
class Lowering:
    """What the passes behind placement are made for."""

    target: Target
    device: DeviceRecord | None
    lanes: int
    """float32 per vector."""
    channel_block: int
    """Channels per block of activations; 0 for plain tensors."""
    is_open: bool
    """Whether a size is left open: that of a dimension, or the valid length of states."""
    tuned: Tuned | None
    planner: Planner
    budget_bytes: int | None
    refuses: Refuses | None = None
    """The backend's own `refusals`, which placement queries; passes take over what it has made."""


@dataclass(frozen=True, kw_only=True)
class Opening:
    """How a program is opened; see `Compilation.open`."""

    name: str
    """The model's."""
    cache: ProgramCache
    threads: int | None = None
    isolated: bool = True
    affinity: Sequence[int] = ()
    library: Path | None = None
    """Of a backend that `builds_libraries`: the binary, where somebody has built it already."""
    time_limit_seconds: float = 120.0
    """Of one inference in a process of its own."""
    weights: MappedWeights | np.ndarray | None = None
    """Where those of the program lie, where other programs read them, too."""
    arena: SharedArena | None = None
    """Of a part: what it shares with the other parts of its device."""


@dataclass(frozen=True, kw_only=True)
class Companion:
    """What computes the operations that a device refuses, where they have a compiled form."""

    target: Target | None = None
    """Its functions accompany those of the device; None: the host interprets the operations."""
    missing: str = ""
    """Why there is none, where there could be one: no C compiler was found on this machine."""


@dataclass(frozen=True, kw_only=True)
class MeasuredOn:
    """What measured times of kernels hold for."""

    device: str
    compiler: str
    threads: int


__getattr__ = renamed_names(__name__, {"Beside": "Companion"})
