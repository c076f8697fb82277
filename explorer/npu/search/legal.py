"""What may be chosen for the tiles of a layer: every choice with its legal values.

    legal_choices(layer, machine)    {"rows": range(1, 29), "order": ("outputs", "positions"), ...}

A point of legal values may still be too large for the machine: `tile_as` says by how much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.layer import Layer, LayerError
from explorer.npu.layers.partition import Pieces
from explorer.npu.program.compiling import as_computed
from explorer.npu.search.axes import all_sizes
from explorer.npu.search.others import axes_of
from explorer.npu.tiling.chunks import ORDERS
from explorer.npu.tiling.convolution import CONSTANTS, cuttable
from explorer.results.names import suggestion
from explorer.targets.npu.machine import Machine

MAX_LISTED = 256
"""Values of a choice that are listed; of more those are that make another number of tiles."""

Values = Sequence[int | str]


def legal_choices(layer: Layer, machine: Machine) -> dict[str, Values]:
    """By name; none of pieces, each of which is cut by itself."""
    if isinstance(layer, Pieces):
        return {}
    layer = as_computed(layer, machine)
    if not isinstance(layer, Convolution):
        sizes: dict[str, Values] = {
            name: range(1, most + 1) for name, most in axes_of(layer, machine).items()
        }
        return {**sizes, "buffers": (1, 2)}
    cut = cuttable(layer, machine)
    _, height, width = layer.output_shape
    outputs, inputs = cut.most
    room = max(2, min(queue.tokens for queue in machine.queues))
    tiles = sum(len(band.outputs) for band in cut.bands)
    most_inputs = min(room, height * width * sum(len(band.inputs) for band in cut.bands))
    most_weights = min(room, sum(len(band.outputs) * len(band.inputs) for band in cut.bands))
    return {
        "rows": range(1, height + 1),
        "columns": range(1, width + 1),
        "outputs": range(1, outputs + 1),
        "inputs": range(inputs if cut.has_own_inputs else 1, inputs + 1),
        "order": ORDERS,
        "constants": CONSTANTS,
        "together": sorted({1, cut.side_by_side}),
        "input_buffers": range(1, max(2, most_inputs) + 1),
        "weight_buffers": range(1, max(2, most_weights) + 1),
        "sum_buffers": range(1, min(2, max(2, tiles * height * width)) + 1),
    }


def listed(values: Values) -> tuple[int | str, ...]:
    """Legal values for a person to choose from."""
    if len(values) <= MAX_LISTED or not isinstance(values, range):
        return tuple(values)
    return tuple(sorted(all_sizes(values[-1])))


def require_legal(
    layer: Layer, machine: Machine, given: Mapping[str, object]
) -> dict[str, int | str]:
    """The same choices. `LayerError` for one that is not legal, with those that are."""
    legal, found = legal_choices(layer, machine), dict[str, int | str]()
    for name, value in given.items():
        if name not in legal:
            raise LayerError(f"its tiles have no {name!r}{suggestion(name, tuple(legal))}")
        is_word = isinstance(value, str) and isinstance(legal[name][0], str)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not (is_word or is_number) or value not in legal[name]:
            raise LayerError(f"{name} = {value} of its tiles; {_words(legal[name])} are legal")
        assert isinstance(value, int | str)
        found[name] = value
    return found


def _words(values: Values) -> str:
    if isinstance(values, range) and len(values) > 2:
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(str, values))
