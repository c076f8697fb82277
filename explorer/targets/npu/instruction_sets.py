"""What a set of instructions can say: the questions that tiles, layouts and encodings ask of it.

    machine.instruction_set.requantizes       does an instruction requantize, or are there shifts?
    instruction_set("vta")                    by the name that a target's file has for it
    instruction_set_names()                   all that are known

Two are here: `vta` (exactly the instructions of Apache VTA) and `full` (those, and more fields and
operations). A package of one's own adds another one: an object with these attributes, under an
entry point of the group `explorer.instruction_sets`.

    [project.entry-points."explorer.instruction_sets"]
    skipping = "my_package.sets:SKIPPING"       # SKIPPING = replace(VTA, name="skipping", ...)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Protocol

from explorer.errors import InputError
from explorer.results.names import suggestion

GROUP = "explorer.instruction_sets"
"""Of the entry points of packages that have a set of their own."""
Widths = tuple[tuple[str, int], ...]


class InstructionSet(Protocol):
    """The answers of one set. Two machines with equal names have equal sets."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str:
        """What messages call it."""
        ...

    @property
    def opcode_bits(self) -> int: ...
    @property
    def bits(self) -> int | None:
        """Bits of an instruction where the set fixes them; None where they follow from fields."""
        ...

    @property
    def widths(self) -> Widths | None:
        """Bits of fields by name where the set fixes them; None where the target does."""
        ...

    @property
    def micro_operation_bits(self) -> int:
        """Most bits of a micro-operation."""
        ...

    @property
    def missing_operations(self) -> tuple[str, ...]:
        """Operations of vector engines that it has no instruction for."""
        ...

    @property
    def stored(self) -> tuple[str, ...]:
        """The contents that a store takes: sums are stored whole where `accumulators` is one."""
        ...

    @property
    def elements_hold_batch(self) -> bool:
        """Whether an activation or accumulator is a batch of rows; else a multiplication takes a
        batch of elements."""
        ...

    @property
    def skips_elements(self) -> bool:
        """Whether a transfer can take every second, third, ... element of a row (`x_step`)."""
        ...

    @property
    def pads_with_values(self) -> bool:
        """Whether a load pads with any number (`pad_value`); else with 0."""
        ...

    @property
    def requantizes(self) -> bool:
        """Whether an instruction requantizes by the target's scheme; else sums are shifted to the
        right, rounded down, and multiplied before where that is possible."""
        ...

    @property
    def adds_biases(self) -> bool:
        """Whether the instruction that requantizes can add a bias before."""
        ...

    @property
    def replaces_sums(self) -> bool:
        """Whether the first products of a sum can replace what lies in the accumulators."""
        ...

    @property
    def gathers_weights(self) -> bool:
        """Whether a load makes weights of activations, one column at a time; else a load of
        weights takes activations of as many positions as there are columns."""
        ...

    @property
    def expands_diagonals(self) -> bool:
        """Whether a load makes weights of a number for each column: those of a diagonal, with
        zeros around it."""
        ...

    @property
    def moves_on_chip(self) -> bool:
        """Whether a transfer can have its other end in the scratchpad of activations."""
        ...

    @property
    def prefetches(self) -> bool:
        """Whether the queue that loads activations can load what the queue that computes loads."""
        ...

    @property
    def decodes_weights(self) -> bool:
        """Whether a load of weights can say that they are coded, and in how many bytes."""
        ...

    @property
    def has_unused_fields(self) -> bool:
        """Whether a store has fields for padding and a vector instruction a bit for a reset, both
        always 0, as in VTA's structures."""
        ...

    @property
    def stores_sums(self) -> bool:
        """Whether sums are stored whole; else in as many tensors of narrow digits."""
        ...


@dataclass(frozen=True, kw_only=True)
class StatedSet:
    """A set as data; see `InstructionSet`. Defaults are those of `full`."""

    name: str
    title: str = ""
    opcode_bits: int = 4
    bits: int | None = None
    widths: Widths | None = None
    micro_operation_bits: int = 64
    missing_operations: tuple[str, ...] = ()
    stored: tuple[str, ...] = ("outputs", "accumulators")
    elements_hold_batch: bool = False
    skips_elements: bool = True
    pads_with_values: bool = True
    requantizes: bool = True
    adds_biases: bool = True
    replaces_sums: bool = True
    gathers_weights: bool = True
    expands_diagonals: bool = True
    moves_on_chip: bool = True
    prefetches: bool = True
    decodes_weights: bool = True
    has_unused_fields: bool = False

    @property
    def stores_sums(self) -> bool:
        return "accumulators" in self.stored


FULL = StatedSet(name="full")
VTA = StatedSet(
    name="vta",
    title="VTA",
    opcode_bits=3,
    bits=128,
    widths=(
        ("scratchpad_address", 16), ("global_address", 32), ("size", 16), ("stride", 16),
        ("pad", 4), ("iterations", 14), ("immediate", 16),
    ),
    micro_operation_bits=32,
    missing_operations=("normalize", "requantize", "softmax", "table"),
    stored=("outputs",),
    elements_hold_batch=True,
    skips_elements=False,
    pads_with_values=False,
    requantizes=False,
    adds_biases=False,
    replaces_sums=False,
    gathers_weights=False,
    expands_diagonals=False,
    moves_on_chip=False,
    prefetches=False,
    decodes_weights=False,
    has_unused_fields=True,
)  # fmt: skip
SHIPPED: Mapping[str, InstructionSet] = {one.name: one for one in (VTA, FULL)}


def instruction_set_names() -> tuple[str, ...]:
    """The shipped ones, then those of other packages."""
    return (*SHIPPED, *(name for name in _installed_names() if name not in SHIPPED))


@lru_cache(maxsize=64)
def instruction_set(name: str) -> InstructionSet:
    """InputError, with a near name, where there is none; nothing replaces a shipped one."""
    if name in SHIPPED:
        return SHIPPED[name]
    for point in entry_points(group=GROUP):
        if point.name == name:
            return point.load()
    known = instruction_set_names()
    raise InputError(f"there is no set of instructions {name!r}{suggestion(name, known)}")


def _installed_names() -> tuple[str, ...]:
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))
