"""Chains of convolutions that run a few rows at a time, where decided.

    %a = npu.convolution(%x, ...)       48 rows, which do not fit on the chip
    %y = npu.convolution(%a, ...)
 => %a0 = npu.convolution(%x, ...) {within = [96, 0], ...}            rows 0 to 25
    %y0 = npu.convolution(%a0, ...) {placement = {offset = [0, 0], ...}}
    %a1 = npu.convolution(%x, ...) {within = [96, 47], ...}           rows 23 to 48
    %y = npu.convolution(%a1, %y0, ...) {placement = {offset = [24, 0], ...}, part = 1}

The rows of every layer follow backwards from those of the last one, through windows and strides.
Rows that two slices read are computed again. What lies between is small, so that `group-layers` can
keep it on the chip; weights are loaded once for each slice. Every number is computed by the
arithmetic that computed it before.

    slice-layers/chain/conv8      conv6:4:recompute      conv6 to conv8, in four slices
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from xdsl.ir import SSAValue

from explorer.backends.npu.lowered import LoweredLayers
from explorer.errors import InputError
from explorer.ir.dialects.npu import LAYER_OPERATIONS, LayerOp, field_properties
from explorer.ir.functions.calls import functions_on
from explorer.ir.operation import identity_of, set_identity, to_attribute
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.types import element_type_of, static_shape, tensor_type
from explorer.npu.layers.convolution import Convolution, Placement
from explorer.npu.layers.fields import described
from explorer.npu.layers.layer import LayerError
from explorer.npu.program.compiling import Tiled
from explorer.npu.program.ir_layers import tiles_of
from explorer.npu.search.searching import SearchRecord
from explorer.passes.lower.bands import NotInBands, Reach
from explorer.passes.lower.stream_rows import parse_choice
from explorer.results import Knob
from explorer.results.decisions import SLICES
from explorer.targets.npu.machine import Machine

CHAIN, SLICE = "chain", "slice"
WHOLE = "every layer computes its whole result"
SLICED = "the chain runs slice by slice: of the tensors inside of it a few rows live at once"
SEARCHES_SLICED = "npu searches of sliced layers"
"""Name of the artifact that holds, by name of a whole layer, what searches for the tiles of its
slices came to."""
FORM = "FIRST:SLICES:recompute, FIRST being the chain's first layer"


@dataclass(frozen=True)
class SliceLayers(Pass):
    """Chains of convolutions run slice by slice, so that tensors between them are never whole.

    The decision slice-layers/chain/LAST names the first layer and the number of slices:
    `conv_4:8:recompute`. Without it nothing changes.
    """

    machine: Machine
    lowered: LoweredLayers = field(kw_only=True, compare=False, repr=False)

    name = SLICES
    level = "tiled"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        knobs: list[Knob] = []
        searches: dict[str, list[SearchRecord]] = {}
        for function in functions_on(rewriter.module, self.machine.name):
            for op in [one for one in function.body.block.ops if isinstance(one, LayerOp)]:
                address = events.address(CHAIN, op)
                asked = options.decision(address)
                if asked:
                    searches |= self._slice(op, address, asked, rewriter, events)
                    knobs.append(Knob(address, str(asked), (), SLICED))
                elif self._ends_chain(op, rewriter):
                    knobs.append(Knob(address, "", (), WHOLE))
        rewriter.artifacts[KNOBS] = tuple(knobs)
        rewriter.artifacts[SEARCHES_SLICED] = searches
        return events.rewrites

    def _ends_chain(self, op: LayerOp, rewriter: RecordedRewriter) -> bool:
        """Whether a layer and the one that it reads can run in slices together."""
        maker = op.data[0].owner if op.data else None
        if not isinstance(maker, LayerOp):
            return False
        try:
            return self._chain([maker, op], rewriter)[-1].output_shape[1] > 1
        except NotInBands:
            return False

    def _slice(
        self, last: LayerOp, address: str, asked: object,
        rewriter: RecordedRewriter, events: EventLog,
    ) -> dict[str, list[SearchRecord]]:  # fmt: skip
        first, count, halo = parse_choice(address, asked)
        try:
            if halo != "recompute":
                raise NotInBands("rows that two slices read are computed again")
            ops = _between(first, last)
            layers = self._chain(ops, rewriter)
            slices = slices_of(layers, count)
            with events.rewrite(SLICE, last, f"{SLICED} ({count} slices)"):
                return self._apply(ops, layers, slices, rewriter)
        except (NotInBands, LayerError) as error:
            hint = f"another chain or number of slices; the value is {FORM}"
            raise InputError(f"{address} cannot be {asked!r}: {error}", hint=hint) from error

    def _chain(self, ops: Sequence[LayerOp], rewriter: RecordedRewriter) -> list[Convolution]:
        """The layers of neighbouring operations. Raises NotInBands."""
        found: list[Convolution] = []
        for op in ops:
            layer = self.lowered.layer_of(op, rewriter.weights).layer
            name, shape = identity_of(op), static_shape(op.output)
            if not isinstance(layer, Convolution) or len(shape) != 4 or shape[0] != 1:
                raise NotInBands(f"{name} is no convolution of one picture")
            if layer.placement is not None or layer.within or op.is_part:
                raise NotInBands(f"{name} reads or writes a part of a tensor")
            if len(layer.inputs) > 1:
                raise NotInBands(f"{name} reads several tensors")
            found.append(layer)
        for op in ops[:-1]:
            if not op.output.has_one_use():
                raise NotInBands(f"{identity_of(op)} is read outside of the chain")
        return found

    def _apply(
        self, ops: Sequence[LayerOp], layers: Sequence[Convolution],
        slices: Sequence[Sequence[range]], rewriter: RecordedRewriter,
    ) -> dict[str, list[SearchRecord]]:  # fmt: skip
        """The operations of all slices, slice after slice, in place of the whole ones; what
        searches for their tiles came to, by whole operation."""
        last, written = ops[-1], list[SSAValue]()
        names = [identity_of(op) for op in ops]
        searches: dict[str, list[SearchRecord]] = {}
        for number, rows in enumerate(slices):
            value = ops[0].data[0]
            for place, op in enumerate(ops):
                is_last = op is last
                layer = sliced(
                    layers[place], rows[place], rows[place + 1], not place, is_last,
                    f"{names[place]}.slice{number}",
                )  # fmt: skip
                if is_last and number + 1 == len(slices):
                    layer = replace(layer, name=names[place])
                found = self.lowered.searched.of(layer)
                data = [value, *(written if is_last else ())]
                made = _operation(op, layer, found.tiled, data)
                if layer.name == names[place]:
                    rewriter.replace(op, made, absorbs=ops[-2::-1])
                else:
                    rewriter.insert_before(last, made, stem=layer.name, like=op)
                self.lowered.keep(made, rewriter.weights, layer, found.tiled)
                if found.record is not None:
                    searches.setdefault(names[place], []).append(found.record)
                value = made.output
            written = [value]
        return searches


def _operation(op: LayerOp, layer: Convolution, tiled: Tiled, data: Sequence[SSAValue]) -> LayerOp:
    """A slice of an operation."""
    _, channels, height, width = static_shape(op.output)
    if layer.placement is None:
        height = layer.output_shape[1]
    kind = tensor_type(element_type_of(op.output), (1, channels, height, width))
    plain = described(layer)
    made = LAYER_OPERATIONS[plain.kind].make(
        [[*data, *list(op.operands)[len(op.data) :]]],
        [kind],
        inputs=len(data),
        part=1 if len(data) > 1 else None,
        constants=op.constants,
        tiles=to_attribute(tiles_of(tiled)),
        title=op.label(),
        group=op.graph_family(),
        work=layer.macs if op.macs() else 0,
        **field_properties(plain.fields),
    )
    set_identity(made, layer.name)
    return made


def _between(first: str, last: LayerOp) -> list[LayerOp]:
    """The layers from the one of that name to the last one. Raises NotInBands."""
    found = [last]
    while identity_of(found[0]) != first:
        maker = found[0].data[0].owner
        if not isinstance(maker, LayerOp):
            raise NotInBands(f"{first} is no layer that {identity_of(last)} is made from")
        found.insert(0, maker)
    if len(found) == 1:
        raise NotInBands("a chain has two layers or more")
    return found


def slices_of(layers: Sequence[Convolution], count: int) -> list[list[range]]:
    """For every slice the rows of the chain's input, and those of each layer's result.

    Raises NotInBands where a window reads padding alone, and for a number of slices that the last
    result does not have.
    """
    rows = layers[-1].output_shape[1]
    height = -(-rows // max(count, 1))
    if count < 2 or height * (count - 1) >= rows:
        raise NotInBands(f"{rows} rows make no {count} slices")
    return [
        list(_backwards(layers, range(first, min(rows, first + height))))[::-1]
        for first in range(0, rows, height)
    ]


def _backwards(layers: Sequence[Convolution], rows: range) -> Iterator[range]:
    yield rows
    for layer in reversed(layers):
        first, end = _reach(layer).rows(rows.start, rows.stop)
        rows = range(max(0, first), min(end, layer.input_shape[1]))
        if not rows:
            raise NotInBands(f"a slice of {layer.name} reads padding only")
        yield rows


def _reach(layer: Convolution) -> Reach:
    extent = (layer.kernel[0] - 1) * layer.dilations[0] + 1
    return Reach(layer.strides[0], layer.pads[0], extent)


def sliced(
    layer: Convolution, read: range, made: range, is_first: bool, is_last: bool, name: str
) -> Convolution:
    """The same for some rows of the result, made of rows of the input. The first layer of a chain
    reads them of a whole input, the last one writes them to a whole result."""
    first, end = _reach(layer).rows(made.start, made.stop)
    (channels, height, width), (_, *size) = layer.input_shape, layer.output_shape
    _, left, _, right = layer.pads
    return replace(
        layer,
        name=name,
        input_shape=(channels, len(read), width),
        pads=(max(0, -first), left, max(0, end - height), right),
        within=(height, read.start) if is_first and len(read) < height else (),
        placement=Placement(size=(size[0], size[1]), offset=(made.start, 0)) if is_last else None,
    )
