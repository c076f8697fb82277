"""Decisions: what a person wants otherwise, one mapping from addresses to values.

    {"fuse-bias": False,                          a pass is left out
     "fuse-activation/fuse-unary": False,         a rule; with a third part, at one operation
     "schedule-loops/conv_1/pixels": 7,           what a pass decides: any number, word or list
     "target/vector_floats": 8, "dimensions/batch": 4, "fuel": 20, "host": False,
     "order": ["fuse-activation", "fuse-bias"],   passes that change places among themselves
     "plan-memory/planner": "no-sharing", "plan-memory/budget_bytes": 65536,
     "plan-memory/flash_bytes": 1048576,          room for weights and code
     "plan-memory/pins": [["conv_1", 1024]],      buffers at given bytes of the arena
     "arrange-inputs/permute/transpose_1": "none",   the machine transposes an input, not the host
     "tile-layers/search": "full",                how many tiles of each layer of an NPU are tried
     "tile-layers/conv_1/rows": 7,                what is chosen for the tiles of a layer
     "unfold-inputs/unfold/conv_1": "2x2",        2 x 2 neighbours become channels
     "unfold-inputs/unfold/conv_1": "2x2:host",   the host writes them so
     "combine-layers/combine/add_1": False,       a sum stays a layer of its own
     "slice-layers/chain/conv_4": "conv_1:4:recompute",   a chain of layers in slices of rows
     "group-layers/keep/conv_1": False}           its result does not stay on the chip

The page sends it, a fork takes it, passes read it. Everything that has to know what an address is
about (whose name stands in it, what it is called, how it reads in a label) asks here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TARGET = "target"
DIMENSIONS = "dimensions"
FUEL = "fuel"
HOST = "host"
ORDER = "order"
SCHEDULES = "schedule-loops"
LAYOUTS = "assign-layouts"
MEMORY = "plan-memory"
PLANNER = f"{MEMORY}/planner"
BUDGET = f"{MEMORY}/budget_bytes"
FLASH = f"{MEMORY}/flash_bytes"
PINS = f"{MEMORY}/pins"
TILES = "tile-layers"
SEARCH = f"{TILES}/search"
GROUPS = "group-layers"
ARRANGED = "arrange-inputs"
UNFOLDED = "unfold-inputs"
COMBINED = "combine-layers"
SLICES = "slice-layers"
TILED = (TILES, UNFOLDED, COMBINED)
"""Passes that choose the tiles of a layer, in their order."""
TILE_CHOICES = (
    "rows", "columns", "outputs", "inputs", "blocks", "order", "constants", "together",
    "input_buffers", "weight_buffers", "sum_buffers", "buffers",
)  # fmt: skip
"""What is chosen for the tiles of a layer, by the last part of its address."""
STEPS = "steps"
"""The choice of a kernel whose value is a whole schedule, a list of steps."""

Value = Any  # JSON: a truth value, a number, a word, a list, or None
Decisions = Mapping[str, Value]

NOTHING: Decisions = {}
MAX_NAMED_PASSES = 4
"""Passes of another order that a label names."""


@dataclass(frozen=True)
class DecisionTitle:
    """What an address is about."""

    group: str
    """`pass`, `rule`, `rewrite`, `schedule`, `layout`, `memory`, `order` or `program`."""
    of: str
    """What it belongs to: a rule's pass, a rewrite's operation, a schedule's kernel, a layout's
    value or function. Empty where that is the whole program."""
    title: str
    """What it is called beside that."""


_PROGRAM = {
    TARGET: "target",
    FUEL: "rewrites at most",
    HOST: "parts on the host",
    f"{TARGET}/vector_floats": "floats per vector",
    f"{TARGET}/layout.channel_block": "channels per block",
}
_MEMORY = {
    PLANNER: "memory planner",
    BUDGET: "arena, bytes at most",
    FLASH: "weights and code, bytes at most",
    PINS: "pinned buffers",
}


def decided_tiles(decisions: Decisions) -> frozenset[str]:
    """Operations of which tiles are given."""
    parts = (address.split("/") for address in decisions)
    return frozenset(one[1] for one in parts if len(one) == 3 and one[0] == TILES)


def place_of(address: str) -> DecisionTitle:
    """The place of a knob, of a rule or of a rewrite."""
    head, *rest = address.split("/", 2)
    if address == ORDER:
        return DecisionTitle("order", "", "order of passes")
    if address in _PROGRAM:
        return DecisionTitle("program", "", _PROGRAM[address])
    if head in (TARGET, DIMENSIONS):
        return DecisionTitle("program", "", "/".join(rest))
    if head == MEMORY:
        return DecisionTitle("memory", "", _MEMORY.get(address, "/".join(rest)))
    if head == SCHEDULES and len(rest) == 2:
        return DecisionTitle("schedule", rest[0], rest[1])
    if head in TILED and len(rest) == 2 and rest[1] in TILE_CHOICES:
        return DecisionTitle("schedule", rest[0], rest[1])
    if address == SEARCH:
        return DecisionTitle("program", "", "search for tiles")
    if head == LAYOUTS and rest:
        return DecisionTitle("layout", rest[1] if len(rest) == 2 else "", rest[0])
    if len(rest) == 2:
        return DecisionTitle("rewrite", rest[1], rest[0])
    return DecisionTitle("rule", head, rest[0]) if rest else DecisionTitle("pass", "", head)


# -- in words --------------------------------------------------------------------------------------


def label_of(decisions: Decisions, before: Decisions = NOTHING) -> str:
    """What is decided otherwise than before, for the label of a branch; empty where nothing is."""
    parts = [
        words(address, value)
        for address, value in decisions.items()
        if address not in before or before[address] != value
    ]
    parts += [_back(address) for address in before if address not in decisions]
    return ", ".join(parts)


def words(address: str, value: Value) -> str:
    """One decision: `without fuse-bias`, `without fuse-unary at relu1`, `conv_1 pixels = 7`."""
    place = place_of(address)
    if address == ORDER:
        many = f"{len(value)} passes reordered"
        return many if len(value) > MAX_NAMED_PASSES else f"in the order {', '.join(value)}"
    if address == PINS:
        return ", ".join(f"{name} at byte {offset}" for name, offset in value)
    if address == BUDGET:
        return "no budget" if value is None else f"at most {value:,} bytes"
    if address == FUEL:
        return "no fuel" if value is None else f"fuel {value}"
    if address == PLANNER:
        return f"planner {value}"
    if address == TARGET:
        return f"for {value}"
    if address == HOST:
        return "with parts on the host" if value else "nothing on the host"
    if isinstance(value, bool):
        site = f" at {place.of}" if place.group == "rewrite" else ""
        return f"{'with' if value else 'without'} {place.title}{site}"
    if place.group == "schedule" and place.title == STEPS:
        return f"{place.of} by a list of steps"
    return f"{_name(address)} = {value}"


def _back(address: str) -> str:
    """A decision that is taken back."""
    place = place_of(address)
    if place.group in ("pass", "rule"):
        return f"with {place.title}"
    if place.group == "rewrite":
        return f"with {place.title} at {place.of}"
    return f"{_name(address)} as by default"


def _name(address: str) -> str:
    """The address without its pass: `conv_1 pixels`, `block`."""
    _, *rest = address.split("/", 2)
    return " ".join(rest) or address
