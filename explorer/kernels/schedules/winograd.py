"""Schedule of 3x3 convolutions as Winograd transforms and a product of matrices per point.

    winograd                              transforms, products and outputs of a band of tiles
    split, reorder, accumulate, forward   the products in registers, from 0 on
    fuse                                  bias, residual and activation where outputs are stored
    pack, vectorize, unroll, parallel     as for every convolution

The products of a band have a register tile like a direct convolution with a window of one pixel
over a picture of tiles. `winograd_cost.py` says when it pays, and chooses the tile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from explorer.kernels.loops.nest import LoopNest, ScheduleError, extent_of, shape_of
from explorer.kernels.loops.row_wise import size_of_kernel
from explorer.kernels.printing.languages import language_named
from explorer.kernels.schedules.choices import Choices, divisors
from explorer.kernels.schedules.convolution import (
    operands_of,
    result_block,
    schedule_convolution,
    with_sums,
)
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.plain import finish_statements, pack_arguments
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.schedules.tiled_steps import MAX_UPDATES, fuse_around, split_or_keep
from explorer.kernels.schedules.winograd_cost import (
    ORDERS,
    Layer,
    Plan,
    Prediction,
    explain,
    mean_of,
    order_by_cycles,
    predict_direct,
    predict_winograd,
    weights_are_far,
)
from explorer.kernels.steps.forward import forward
from explorer.kernels.steps.mark import parallel, unroll
from explorer.kernels.steps.pack import Pack, PackDimension, block_of
from explorer.kernels.steps.prefetch import prefetch
from explorer.kernels.steps.registers import accumulate
from explorer.kernels.steps.restructure import cut, reorder, split
from explorer.kernels.steps.vectorize import vectorize
from explorer.kernels.steps.winograd.matrices import VARIANTS
from explorer.kernels.steps.winograd.nests import (
    INPUT,
    PADDED,
    PRODUCT,
    UNCUT,
    Convolution,
    band_counts,
)
from explorer.kernels.steps.winograd.open_plane import UnevenError
from explorer.kernels.steps.winograd.step import find_convolution, winograd

Scheduler = Callable[[Schedule, Machine, Mapping[str, Pack], Choices], None]


def schedule_winograd(
    schedule: Schedule,
    machine: Machine,
    packs: Mapping[str, Pack],
    choices: Choices,
    outputs: int,
) -> None:
    """Dimensions n o i j c p q, a 3x3 window; input and output are blocked alike."""
    nest = schedule.nest
    operands = operands_of(nest)
    assert operands is not None
    block = result_block(nest, packs)
    layer = layer_of(nest, block)
    best = predict_winograd(layer, outputs, machine.costs).plan
    assert best is not None, "a Winograd form has a plan"
    plan = _choose_plan(choices, layer, best)
    ahead = _choose_prefetch(choices, layer, plan, machine)
    in_parts: dict[str, int] = {"parts": plan.parts} if plan.parts > 1 else {}
    schedule.apply(
        winograd,
        outputs=outputs,
        band=plan.band,
        bands=plan.bands,
        vectors=plan.vectors,
        block=block,
        shared=int(plan.order == "groups"),
        **in_parts,
    )
    whole, left = band_counts(layer.height, outputs, plan.band)
    pieces = [("", plan.band)] if whole else []
    if left:
        pieces.append(("_tail" if whole else "", left))
    tiles: dict[str, str] = {}
    for suffix, rows in pieces:
        tile = (max(d for d in divisors(rows) if d <= plan.rows), plan.pixels)
        tiles |= _tile_products(schedule, suffix, block, tile)
    for suffix in tiles:
        schedule.apply(accumulate, at="cb" + suffix, buffer=PRODUCT)
    for suffix, _ in pieces:
        schedule.apply(forward, loop="clear_p" + suffix)
    fuse_around(schedule, operands.result, choices)
    pack_arguments(schedule, with_sums(nest, packs, operands.result))
    schedule.pack(operands.weight, _weight_pack(plan.vectors, block))
    for buffer, channel in ((INPUT, 3), (PRODUCT, 3), (PADDED, 1), (UNCUT, 1)):
        if buffer in nest.buffers:
            schedule.pack(buffer, _scratch_pack(nest, buffer, channel, block))
    for loop in ("in_lane", "out_lane", "pad_lane", *("oi" + suffix for suffix in tiles)):
        if nest.has(loop):
            schedule.apply(vectorize, loop=loop)
    inside = [*tiles.values(), "in_q in_p out_q out_p out_k out_l"]
    schedule.apply(unroll, loops=" ".join(inside))
    if ahead:
        suffix, _ = pieces[0]
        at, weights = f"cb{suffix}", operands.weight
        schedule.attempt(prefetch, at=at, buffer=weights, ahead=f"q{suffix}")
    if plan.order == "groups":
        schedule.apply(parallel, loops="in_n in_c ot")
    elif whole:
        schedule.apply(parallel, loops="task")
    finish_statements(schedule, machine)


def convolution_schedulers(
    nest: LoopNest, packs: Mapping[str, Pack], machine: Machine
) -> dict[str, Scheduler]:
    """The direct form of a convolution with a blocked output, and its Winograd forms, best first.

    On anything but a CPU the direct form is the only one.
    """
    predictions = predict_forms(nest, packs, machine)
    if not predictions:
        return {"direct": schedule_convolution}
    forms: dict[str, Scheduler] = {
        f"winograd{m}": partial(schedule_winograd, outputs=m) for m in VARIANTS
    }
    forms["direct"] = schedule_convolution
    order = order_by_cycles(predictions)
    return {name: forms[name] for name in order}


def why_convolution(nest: LoopNest, packs: Mapping[str, Pack], machine: Machine) -> str:
    """The cycles that every form is predicted to take; why open sizes leave one; else empty."""
    predictions = predict_forms(nest, packs, machine)
    if predictions:
        return explain(predictions, find_convolution(nest).plane.is_open)
    try:
        find_convolution(nest)
    except ScheduleError as error:
        if isinstance(error.__cause__, UnevenError):
            return f"no winograd tiles: {error.__cause__}"
    return ""


def predict_forms(
    nest: LoopNest, packs: Mapping[str, Pack], machine: Machine
) -> dict[str, Prediction]:
    """Cycles of a convolution's direct form and of its Winograd forms, by schedule.

    Empty where it has none: other windows, strides and layouts, rows given at run time, a GPU.
    """
    operands = operands_of(nest)
    if operands is None or size_of_kernel(nest.function) or machine.processor != "cpu":
        return {}
    block = result_block(nest, packs)
    if not block or block_of(packs.get(operands.source)) != block:
        return {}
    try:
        layer = layer_of(nest, block)
    except ScheduleError:
        return {}
    costs, calls = machine.costs, layer.of_calls()
    forms = {"direct": [predict_direct(one, costs) for one in calls]}
    for m in VARIANTS:
        forms[f"winograd{m}"] = [predict_winograd(one, m, costs) for one in calls]
    return {name: own[0] if len(own) == 1 else mean_of(own) for name, own in forms.items()}


def layer_of(nest: LoopNest, block: int) -> Layer:
    """The sizes of a 3x3 convolution; raises ScheduleError where it has no Winograd form."""
    found = find_convolution(nest)
    if found.channels % block or found.outputs % block:
        raise nest.error("winograd", f"its channels are no multiples of {block}")
    return Layer(
        images=found.images,
        input_blocks=found.channels // block,
        output_blocks=found.outputs // block,
        height=found.height,
        width=found.width,
        block=block,
        least=_least(found) if found.plane.is_open else None,
    )


def _least(convolution: Convolution) -> tuple[int, int]:
    height, width = convolution.plane.least
    return height or convolution.height, width or convolution.width


def _choose_plan(choices: Choices, layer: Layer, best: Plan) -> Plan:
    """The register tile of the products, and how bands of tiles are gone through."""
    rows_of_tiles, columns = layer.tiles(best.outputs)
    why = best.why
    legal = [d for d in divisors(layer.output_blocks) if d <= MAX_UPDATES]
    vectors = choices.number("vectors", best.vectors, legal, why)
    most = MAX_UPDATES // vectors
    fitting = min(best.pixels, most)
    pixels = choices.number("pixels", fitting, range(1, min(columns, most) + 1), why)
    most = min(rows_of_tiles, MAX_UPDATES // vectors // pixels) if pixels == columns else 1
    fitting = min(best.rows, most)
    rows = choices.number("rows", fitting, range(1, most + 1), why)
    legal = range(rows, rows_of_tiles + 1, rows)
    band = max(b for b in legal if b <= max(best.band, rows))
    why_band = "rows of tiles whose scratch stays in a cache"
    band = choices.number("band", band, legal, why_band)
    order = choices.word("order", best.order, tuple(ORDERS), ORDERS[best.order])
    whole, _ = band_counts(layer.height, best.outputs, band)
    legal = divisors(max(whole, 1)) if order == "bands" else [1]
    bands = min(legal, key=lambda d: abs(d - best.bands))
    bands = choices.number("bands", bands, legal, "bands of a task share its scratch")
    parts = 1
    is_exact = layer.height % best.outputs == layer.width % best.outputs == 0
    if (
        is_exact
        and layer.least is None
        and whole == 1
        and band == rows_of_tiles
        and order == "bands"
    ):
        # A single band has nothing to share but columns: of tiles that are whole register tiles.
        legal = [d for d in divisors(columns) if columns // d % pixels == 0]
        parts = choices.number("parts", 1, legal or [1], "parts of a row share its scratch")
    return Plan(
        outputs=best.outputs,
        vectors=vectors,
        pixels=pixels,
        rows=rows,
        band=band,
        bands=bands,
        order=order,
        why=why,
        parts=parts,
    )


def _choose_prefetch(choices: Choices, layer: Layer, plan: Plan, machine: Machine) -> bool:
    """Whether weights of the next point are asked for while those of one are used.

    They come from behind the second cache where all do not stay in it, slower than they are used,
    and all tiles of a band use them meanwhile. Nothing where a language cannot.
    """
    if not language_named(machine.language).has_prefetch:
        return False
    _, columns = layer.tiles(plan.outputs)
    tiles = -(-plan.band // plan.rows) * -(-columns // plan.pixels)
    is_far, why = weights_are_far(layer, plan.outputs, machine.costs)
    wanted = "weights" if is_far and tiles > 1 else "none"
    return choices.word("prefetch", wanted, ("none", "weights"), why) == "weights"


def _tile_products(
    schedule: Schedule, suffix: str, block: int, tile: tuple[int, int]
) -> dict[str, str]:
    """Puts a tile of `rows` x `pixels` inside the sum over channels.

    Returns, by suffix of the nests' loop names, the loops inside of a tile: a width that the tile
    does not divide has a second nest.
    """
    s, (rows, pixels) = suffix, tile
    nest = schedule.nest
    height, width = extent_of(nest.loop(f"i{s}")), extent_of(nest.loop(f"j{s}"))
    schedule.apply(split, loop=f"c{s}", into=f"cb{s} ci{s}", factors=(block,))
    found: dict[str, str] = {}
    if left := width % pixels:
        schedule.apply(cut, loop=f"j{s}", at=width - left, suffix="_edge")
        edge = f"{s}_edge"
        schedule.apply(reorder, order=f"cb{edge} ci{edge} j{edge} ov{edge} oi{edge}")
        found[edge] = f"j{edge} ov{edge}"
        around, outside, inside = [], [], []  # rows are outside of both nests, one by one
    else:
        around, inside = split_or_keep(schedule, f"i{s}", height, rows, f"it{s}", f"ip{s}")
    outside, across = split_or_keep(schedule, f"j{s}", width - left, pixels, f"jt{s}", f"jp{s}")
    inside = [*inside, *across, f"ov{s}"]
    order = [*around, *outside, f"cb{s}", f"ci{s}", *inside, f"oi{s}"]
    schedule.apply(reorder, order=" ".join(order))
    return {s: " ".join(inside), **found}


def _weight_pack(vectors: int, block: int) -> Pack:
    """(p, q, o, c) in the order in which a group of output channels is gone through."""
    lanes: list[PackDimension] = (
        [(2, block, vectors), (2, 1, block)] if vectors > 1 else [(2, 1, block)]
    )
    return [(2, vectors * block, None), (0, 1, None), (1, 1, None), (3, 1, None), *lanes]


def _scratch_pack(nest: LoopNest, buffer: str, channel: int, block: int) -> Pack:
    """Blocked by channels like the tensors: the lanes last."""
    rank = len(shape_of(nest.buffer(buffer)))
    kept = [(d, block if d == channel else 1, None) for d in range(rank)]
    return [*kept, (channel, 1, block)]
