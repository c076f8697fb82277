"""What a schedule has to know about the machine that will run it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from explorer.kernels.cost.machine import CacheLevel, CostMachine
from explorer.targets.schema import VECTOR_FLOATS, Core

USUAL_CACHES = (
    CacheLevel("l1", 32 << 10, 32),
    CacheLevel("l2", 1 << 20, 16),
    CacheLevel("l3", 16 << 20, 6, is_shared=True),
)
"""Of a machine of which nothing else is said."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """`vector_floats` single-precision numbers fit into one of `registers` vector registers."""

    vector_floats: int
    language: str
    """That its kernels are printed in (`explorer.kernels.printing.languages`)."""
    registers: int = 32
    processor: str = "cpu"
    """cpu, or gpu: schedules with work-groups and local memory, and as many tasks as there are
    independent iterations."""
    precision: str = "float32"
    """float32, or mixed: a GPU may multiply halves where it adds in float32."""
    tensor_cores: str = ""
    """How a GPU's matrix instructions are written: ptx, emulated, or empty where it has none."""

    byte_tiles: str = ""
    """Matrix instructions of bytes that its code may use: amx, i8mm, or empty where it has none."""

    pair_tiles: str = ""
    """The same of bfloat16: amx, bfmmla, or empty."""

    has_dual_products: bool = False
    """Whether an instruction adds the products of two halves of a word to a sum (`smlad`)."""

    optimize: str = "speed"
    """speed, or size: small tiles, and forms that need little code."""

    core: Core = field(default_factory=Core)
    caches: tuple[CacheLevel, ...] = USUAL_CACHES

    @property
    def can_hold(self) -> bool:
        """Whether vectors stay in registers where a schedule wants them to: by the step `hold`, or
        because the language's compilers keep them there."""
        return self.processor == "cpu"

    @property
    def has_vectors(self) -> bool:
        return self.vector_floats > 1

    @property
    def costs(self) -> CostMachine:
        """What the cost model asks that chooses tiles: cycles, for there is no clock in it."""
        core = replace(self.core, vector_registers=self.registers)
        return CostMachine(self.vector_floats, core=core, caches=self.caches)

    def __post_init__(self) -> None:
        if self.vector_floats not in VECTOR_FLOATS:
            expected = ", ".join(map(str, VECTOR_FLOATS))
            raise ValueError(f"vector_floats is {self.vector_floats}; expected one of {expected}")
        if self.optimize not in ("speed", "size"):
            raise ValueError(f"optimize is {self.optimize!r}; expected 'speed' or 'size'")
        if self.precision not in ("float32", "mixed"):
            raise ValueError(f"precision is {self.precision!r}; expected 'float32' or 'mixed'")
        if self.byte_tiles not in ("", "amx", "i8mm"):
            raise ValueError(f"byte_tiles is {self.byte_tiles!r}; expected 'amx' or 'i8mm'")
        if self.pair_tiles not in ("", "amx", "bfmmla"):
            raise ValueError(f"pair_tiles is {self.pair_tiles!r}; expected 'amx' or 'bfmmla'")
        if self.tensor_cores not in ("", "ptx", "emulated"):
            raise ValueError(f"tensor_cores is {self.tensor_cores!r}; expected 'ptx' or 'emulated'")
