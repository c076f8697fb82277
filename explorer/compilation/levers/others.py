"""Decisions that move a quantity and of which nobody predicts by how much: they are tried.

Passes that changed something, and fields of the target. Which of them move which quantity follows
from what they do; the effect is measured by trying.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from explorer.compilation.compiled import Compiled
from explorer.kernels.passes import ScheduleLoops
from explorer.passes.lower.assign_layouts import AssignLayouts
from explorer.passes.quantize.compute_in_integers import ComputeInIntegers
from explorer.passes.quantize.rules.quantize_rows import ROWS
from explorer.passes.states.narrow_past import ORDER as ORDER_OF_ROWS
from explorer.passes.states.narrow_past import TYPE, NarrowPast
from explorer.results import Knob
from explorer.results.decisions import HOST, ORDER, TARGET, TILE_CHOICES, TILED, place_of
from explorer.results.levers import LeverOption, LeverRecord, Quantity

OF_WORK: tuple[Quantity, ...] = ("cycles", "traffic_bytes", "energy_picojoules")
"""What instructions of an accelerator decide; traffic of kernels as well."""
OF_PASSES: tuple[Quantity, ...] = ("seconds", "peak_bytes", "code_bytes", "macs", *OF_WORK)
"""Quantities that a pass over the program can move."""
NUMERIC_PASSES = ("round-weights", "correct-bias", "equalize-layers", "smooth-activations")
"""Passes that change numbers of a quantized program."""
OF_FIELDS: Mapping[str, tuple[Quantity, ...]] = {
    TARGET: ("seconds", "peak_bytes", "code_bytes", *OF_WORK),
    f"{TARGET}/vector_floats": ("seconds", "peak_bytes", "code_bytes"),
    f"{TARGET}/optimize": ("seconds", "code_bytes"),
    f"{TARGET}/layout.channel_block": ("seconds", "peak_bytes"),
    f"{TARGET}/requantization.scheme": ("sqnr_db", "seconds", "cycles"),
    f"{TARGET}/requantization.rounding": ("sqnr_db",),
    f"{TARGET}/requantization.multiplier_bits": ("sqnr_db",),
    f"{TARGET}/arithmetic": ("sqnr_db", "seconds", "cycles"),
}
OF_INTEGERS = frozenset(
    f"{TARGET}/{field}"
    for field in (
        "requantization.scheme",
        "requantization.rounding",
        "requantization.multiplier_bits",
        "arithmetic",
    )
)
"""Decisions that move nothing in a program without quantized tensors."""
KEPT = "group-layers"
MAX_OF_A_PASS = 12
"""Decisions of one pass that are listed; `c.knobs` has all."""


def other_levers(
    compiled: Compiled,
    quantity: Quantity,
    known: set[str],
    of: str = "",
    is_legal: Callable[[str], bool] | None = None,
) -> Iterator[LeverRecord]:
    """Knobs that move the quantity and that are not in `known` (addresses). Of each pass there are
    the first few, and all of the layer `of`. `is_legal`: whether tiles are those of a layer that
    the program has in the end."""
    counts: dict[str, int] = {}
    ignored = known if _has_integers(compiled) else known | OF_INTEGERS
    for knob in _by_cycles(compiled):
        if knob.address in ignored or not moves(knob, quantity):
            continue
        place = place_of(knob.address)
        is_tile = place.title in TILE_CHOICES and knob.address.split("/")[0] in TILED
        if is_tile and is_legal is not None and not is_legal(knob.address):
            continue
        head = knob.address.split("/")[0]
        counts[head] = counts.get(head, 0) + 1
        if counts[head] <= MAX_OF_A_PASS or (of and place.of == of):
            yield _lever(knob)


def _by_cycles(compiled: Compiled) -> Iterable[Knob]:
    """Those of layers that take more cycles first; the rest as they come."""
    cycles = compiled.backend.predicted_cycles(list(compiled.passes), compiled.target) or {}
    return sorted(compiled.knobs, key=lambda knob: -cycles.get(place_of(knob.address).of, 0))


def kept_tensors(compiled: Compiled, quantity: Quantity) -> Iterator[LeverRecord]:
    """Tensors that a pass keeps on the chip: each can be sent to global memory. They are rewrites,
    and no knobs."""
    if quantity not in ("peak_bytes", *OF_WORK):
        return
    for result in compiled.passes:
        if result.name != KEPT:
            continue
        applied = [event for event in result.record.events if event.applied]
        kept = [event for event in applied if event.address.startswith(f"{KEPT}/keep/")]
        for event in kept[:MAX_OF_A_PASS]:
            yield LeverRecord(
                address=event.address,
                group="pass",
                of=event.site,
                title="keep the result on the chip",
                value=True,
                options=(LeverOption(value=False, decisions=((event.address, False),)),),
                why=event.explanation,
            )


def _has_integers(compiled: Compiled) -> bool:
    """Whether tensors are quantized, by the file or by a pass."""
    return any(record.after.quantized for record in compiled.passes)


def moves(knob: Knob, quantity: Quantity) -> bool:
    """Whether a decision can move the quantity."""
    address = knob.address
    if address in (ORDER, HOST) or len(knob.choices) < 2:
        return False
    if address in OF_FIELDS:
        return quantity in OF_FIELDS[address]
    place = place_of(address)
    head = address.split("/")[0]
    if head == TARGET:
        return quantity in OF_FIELDS[TARGET]
    if place.group == "pass":
        if address in NUMERIC_PASSES:
            return quantity == "sqnr_db"
        return quantity in OF_PASSES and _did_something(knob)
    if head == ScheduleLoops.name:
        return quantity in ("seconds", "code_bytes") and place.title == "schedule"
    if head == AssignLayouts.name:
        return quantity in ("seconds", "peak_bytes", "traffic_bytes")
    if address.startswith(f"{ComputeInIntegers.name}/{ROWS}/"):
        return quantity in ("seconds", "sqnr_db")
    if address.startswith(f"{NarrowPast.name}/{ORDER_OF_ROWS}/"):
        return quantity == "seconds"
    if address.startswith(f"{NarrowPast.name}/{TYPE}/"):
        return quantity in ("seconds", "peak_bytes", "traffic_bytes", "sqnr_db")
    # Decisions of an accelerator's passes: tiles, buffers, groups.
    return (
        place.group not in ("rule", "memory")
        and quantity in ("peak_bytes", *OF_WORK)
        and ("/" in address and knob.choices != (True, False))
    )


def _did_something(knob: Knob) -> bool:
    """Whether the pass is off, or rewrote something."""
    return knob.value is False or not knob.why.startswith("0 rewrites")


def _lever(knob: Knob) -> LeverRecord:
    place = place_of(knob.address)
    options = tuple(
        LeverOption(value=choice, decisions=((knob.address, choice),))
        for choice in knob.choices
        if choice != knob.value
    )
    return LeverRecord(
        address=knob.address,
        group="target" if place.group == "program" else place.group,
        of=place.of,
        title=place.title,
        value=knob.value,
        options=options,
        why=knob.why,
    )
