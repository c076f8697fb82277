"""Quantization of a float program: thresholds of a table become quantized types.

    %y = top.conv(%x, %w, bias = %b) {...} : tensor<1x8x6x6xf32>
 => %q = top.quantize(%x) {to = !top.quantized<ui8, 0.02:0>}
    %d = top.dequantize(%q) {to = f32}
    %v = top.weight() {weight = "conv.integers"} : tensor<8x3x3x3x!top.quantized<i8, axis 0, {...}>>
    %f = top.dequantize(%v) {to = f32}
    %y = top.conv(%d, %f, bias = %b) {...} : tensor<1x8x6x6xf32>

What computes in integers follows from that (`compute-in-integers`, `fuse-quantization`): this pass
only says which numbers there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Operation, SSAValue

from explorer.errors import InputError
from explorer.ir.constants import constant
from explorer.ir.evaluation import entry_function
from explorer.ir.interfaces import Moving, Quantizable
from explorer.ir.operation import identity_of
from explorer.ir.origins import origin_of
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp
from explorer.ir.top.support.quantized_scalars import stored_array
from explorer.ir.types import QuantizedType, element_type_of
from explorer.quantization.bounds import bounded
from explorer.quantization.choosing import (
    F32,
    Tensor,
    has_integer_form,
    joined_parts,
    joins,
    moved_from,
    moves,
    quantizable_tensors,
)
from explorer.quantization.corrections.moments import Linear
from explorer.quantization.corrections.seams import eighths_of
from explorer.quantization.table import (
    MODES,
    WEIGHT_WIDTHS,
    Threshold,
    ThresholdTable,
    largest_weight,
    require_known,
)
from explorer.results import Knob
from explorer.results.names import listed

INT8, INT16, FLOAT = MODES
I8, I16 = IntegerType(8), IntegerType(16)
UI8 = IntegerType(8, Signedness.UNSIGNED)
SMALLEST_SCALE = 2.0**-60
"""Of weights that are all zero."""
LARGEST_BIAS = 2.0**30
"""In steps of the sums, whose products have as much room beside it."""
THRESHOLD, MODE, WEIGHT_BITS = "threshold", "mode", "weight-bits"
BOUND = "quantize-bounded"
"""Rule of the events of tensors that the table lacks, and which weights keep within a range."""


@dataclass(frozen=True)
class QuantizeTensors(Pass):
    """Tensors of the table get quantized types, and weights beside them signed bytes.

    Decisions: quantize-tensors/threshold/TENSOR, a positive number in the tensor's unit;
    quantize-tensors/mode/TENSOR, INT8, INT16 or F32 (that tensor stays float);
    quantize-tensors/weight-bits/OPERATION, 8 or 4 (its weights are -7 to 7, in signed bytes).

    is_symmetric: whether zero points are 0. Otherwise a range need not lie around zero, and
    unsigned bytes have the zero point that makes the most of it.
    integers_only: whether the target computes without floats, so that more tensors are quantized.
    in_powers: whether all scales are powers of two, the next ones above those of the thresholds.
    Every ratio of scales is one, too, then, and a requantization that can only shift loses nothing
    but its rounding (Jain et al., "Trained Quantization Thresholds", 2020, section 3).
    """

    table: ThresholdTable
    is_symmetric: bool = False
    integers_only: bool = False
    in_powers: bool = False

    name = "quantize-tensors"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        function = entry_function(rewriter.module)
        tensors = quantizable_tensors(function, self.integers_only)
        bounds = bounded(tensors, self.table.thresholds, rewriter.weights)
        self._require_complete(function, tensors, bounds, options)
        events = EventLog(self.name, rewriter)
        knobs: list[Knob] = []
        quantized: set[SSAValue] = set()
        for tensor in tensors:
            threshold = self._threshold(tensor, options, knobs) or bounds.get(tensor.name)
            mode = self._mode(tensor.name, options, knobs)
            anchor = tensor.value.owner
            site = anchor if isinstance(anchor, Operation) else function
            if mode == FLOAT or threshold is None:
                events.decline("quantize", site, f"{tensor.name} stays float: its mode is {FLOAT}")
                continue
            to = type_of(threshold, mode, self.is_symmetric, self.in_powers)
            low, high = threshold.represented
            words = f"{tensor.name}: {to.storage} from {low:.6g} to {high:.6g}"
            if self.in_powers:
                words += f", steps of {to.scale_array[0]:.6g}, a power of two"
            is_bounded = tensor.name in bounds
            if is_bounded:
                words += "; the table lacks it, and its weights allow no more"
            with events.rewrite(BOUND if is_bounded else "quantize", site, words):
                quantized.add(_quantize_tensor(tensor.value, to, function, rewriter))
        for op in list(function.body.block.ops):
            if not isinstance(op, Quantizable) or not has_integer_form(op):
                continue
            if (place := op.quantized_weight()) is not None:
                bits = self._weight_bits(op, options, knobs)
                _quantize_weight(op, place, bits, quantized, rewriter, events, self.in_powers)
        rewriter.artifacts[KNOBS] = tuple(knobs)
        return events.rewrites

    def _require_complete(
        self,
        function: func.FuncOp,
        tensors: list[Tensor],
        bounds: Mapping[str, Threshold],
        options: RewriteOptions,
    ) -> None:
        """InputError for a table of other tensors; those that stay float need no threshold.

        A table for a target without floats names more tensors, which stay float elsewhere.
        """
        names = [tensor.name for tensor in tensors]
        if not names:
            raise InputError(
                "nothing in this model can be quantized: it has no products or sums of floats",
                hint="compile it without --quantize",
            )
        more = () if self.integers_only else quantizable_tensors(function, integers_only=True)
        require_known(self.table, [*names, *(tensor.name for tensor in more)])
        missing = [
            name
            for name in names
            if name not in self.table.thresholds
            and name not in bounds
            and options.decisions.get(self._mode_address(name), self.table.mode(name)) != FLOAT
        ]
        if missing:
            raise InputError(
                f"the table lacks {len(missing)} tensors of the model: {listed(missing)}",
                file=self.table.path,
                hint="explorer calibrate makes a table of all (--arithmetic integer for a target "
                "without floats); mode F32 keeps one a float",
            )

    def _threshold(
        self, tensor: Tensor, options: RewriteOptions, knobs: list[Knob]
    ) -> Threshold | None:
        """None of a tensor that the table lacks."""
        name, record = tensor.name, self.table.corrections
        if name not in self.table.thresholds:
            return None
        own = self.table.thresholds[name]
        if record is not None:
            own = stretched(own, *record.stretched(name, eighths_of(tensor.value)))
        address = f"{self.name}/{THRESHOLD}/{name}"
        asked = options.decisions.get(address)
        if asked is not None:
            options.met.add(address)
            own = scaled(own, asked, address)
        low, high = own.represented
        why = f"represented are {low:.6g} to {high:.6g}"
        knobs.append(Knob(address, own.threshold, (), why))
        return own

    def _mode_address(self, name: str) -> str:
        return f"{self.name}/{MODE}/{name}"

    def _mode(self, name: str, options: RewriteOptions, knobs: list[Knob]) -> str:
        address = self._mode_address(name)
        mode = options.decisions.get(address)
        if mode is None:
            mode = self.table.mode(name)
        else:
            options.met.add(address)
        if mode not in MODES:
            raise InputError(f"{address} cannot be {mode!r}", hint=" or ".join(MODES))
        knobs.append(Knob(address, str(mode), MODES, "what the tensor's numbers are stored in"))
        return str(mode)

    def _weight_bits(self, op: Operation, options: RewriteOptions, knobs: list[Knob]) -> int:
        address = f"{self.name}/{WEIGHT_BITS}/{identity_of(op)}"
        asked = options.decision(address)
        chosen = self.table.weight_bits if asked is None else asked
        if chosen not in WEIGHT_WIDTHS or isinstance(chosen, bool):
            hint = " or ".join(map(str, WEIGHT_WIDTHS))
            raise InputError(f"{address} cannot be {chosen!r}", hint=hint)
        knobs.append(Knob(address, chosen, WEIGHT_WIDTHS, "bits of a weight"))
        return int(chosen)


def scaled(own: Threshold, asked: object, address: str) -> Threshold:
    """The range with another threshold: both ends in proportion."""
    is_number = isinstance(asked, int | float) and not isinstance(asked, bool)
    if not is_number or not np.isfinite(asked) or asked <= 0:  # pyright: ignore
        raise InputError(f"{address} cannot be {asked!r}", hint="a positive, finite number")
    ratio = float(asked) / own.threshold  # pyright: ignore[reportArgumentType]
    return Threshold(own.tensor, float(asked), own.low * ratio, own.high * ratio)  # pyright: ignore


def stretched(own: Threshold, low: float, high: float) -> Threshold:
    """The range with its ends so many times as far from 0."""
    if low == high == 1:
        return own
    before = max(-own.low, own.high)
    after = max(-own.low * low, own.high * high)
    threshold = own.threshold * (after / before if before else 1.0)
    return Threshold(own.tensor, threshold, own.low * low, own.high * high)


def type_of(
    threshold: Threshold, mode: str = INT8, is_symmetric: bool = False, in_powers: bool = False
) -> QuantizedType:
    """The quantized type that represents a range.

    symmetric   ui8 with scale threshold / 255 where there are no negative numbers, else i8 with
                threshold / 127; i16 with threshold / 32767
    asymmetric  ui8 with scale (high - low) / 255; zero point round(-low / scale)
    in_powers   the scale is the next power of two that is no smaller
    """
    try:
        with np.errstate(over="ignore"):
            return _type_of(threshold, mode, is_symmetric, in_powers)
    except ValueError as error:  # finite and positive, and yet no number in single precision
        raise InputError(
            f"{threshold.tensor} cannot be represented from {threshold.low:g} to "
            f"{threshold.high:g} with the threshold {threshold.threshold:g}: {error}",
            hint="a threshold of the size of the tensor's numbers",
        ) from error


def _type_of(threshold: Threshold, mode: str, is_symmetric: bool, in_powers: bool) -> QuantizedType:
    low, high = threshold.represented
    is_whole = is_symmetric or mode == INT16
    magnitude = threshold.threshold if is_whole else max(-low, high)
    storage, zero = UI8, 0
    if mode == INT16:
        storage, scale = I16, magnitude / 32767
    elif low >= 0:
        scale = magnitude / 255
    elif is_symmetric:
        storage, scale = I8, magnitude / 127
    else:
        scale = (high - low) / 255
    if in_powers:
        scale = float(powers_above(np.float64(scale)))
    if storage == UI8 and low < 0:
        zero = int(np.rint(-low / scale))
    return QuantizedType.get(storage, [scale], [zero])


def powers_above(scales: np.ndarray | np.floating) -> np.ndarray:
    """The least powers of two that are no smaller than these positive numbers."""
    fractions, exponents = np.frexp(scales)
    return np.ldexp(1.0, exponents - (fractions == 0.5))


def _quantize_tensor(
    value: SSAValue, to: QuantizedType, function, rewriter: RecordedRewriter
) -> SSAValue:
    """The value that readers find. Of what joins several tensors the parts are quantized, each as
    far up as nothing else reads it: what makes a part rounds once, to the type of the whole.

        %y = top.concat(%a, %b)  =>  %y = top.concat(dequantize(quantize(%a)), dequantize(...))
    """
    owner = value.owner
    if not (isinstance(owner, Moving) and moves(owner)) or not joins(owner):
        return insert_pair(value, to, function, rewriter)
    for op, index in joined_parts(owner):
        part = op.operands[index]
        array = constant(part, rewriter.weights)
        if array is None:
            inner = QuantizeOp.make([part], to=to)
            rewriter.insert_before(op, inner, like=op)
            stored = inner.output
        else:
            name = f"{identity_of(op)}.integers{index}"
            stored = rewriter.add_weight(
                op, name, stored_array(array, to), like=op, element_type=to
            )
        back = DequantizeOp.make([stored], to=F32)
        rewriter.insert_before(op, back, like=op)
        rewriter.set_operand(op, index, back.output)
    return value


def insert_pair(
    value: SSAValue, to: QuantizedType, function, rewriter: RecordedRewriter
) -> SSAValue:
    """quantize and dequantize behind a value; everything that read it reads the result.

    What is the source's tensor from now on is the quantized one.
    """
    owner = value.owner
    block = function.body.block
    anchor = owner.next_op if isinstance(owner, Operation) else block.first_op
    assert anchor is not None
    readers = list(value.uses)
    pair = QuantizeOp.make([value], to=to)
    like = owner if isinstance(owner, Operation) else None
    rewriter.insert_before(anchor, pair, like=like)
    back = DequantizeOp.make([pair.output], to=F32)
    rewriter.insert_before(anchor, back, like=like)
    origin = origin_of(value)
    for op in (pair, back):
        rewriter.set_origins(op, [origin])
    if isinstance(owner, Operation):
        origins = [None if r is value else origin_of(r) for r in owner.results]
        rewriter.set_origins(owner, origins)
    for use in readers:
        rewriter.set_operand(use.operation, use.index, back.output)
    return back.output


def _quantize_weight(
    op: Quantizable,
    place: tuple[int, int],
    bits: int,
    quantized: set[SSAValue],
    rewriter: RecordedRewriter,
    events: EventLog,
    in_powers: bool,
) -> None:
    """The constant operand as signed bytes, one scale per channel, where the other is quantized.
    `place`: which operand, and the axis of channels; `bits`: that numbers take of a byte."""
    index, axis = place
    others = [o for i, o in enumerate(op.operands) if i != index]
    array = constant(op.operands[index], rewriter.weights)
    if array is None or moved_from(others[0]) not in quantized:
        if array is not None:
            events.decline("weights", op, "what they are multiplied with is no quantized tensor")
        return
    if _is_whole(op, array, others, rewriter):
        events.decline("weights", op, "all is whole numbers: `store-whole-weights` keeps them")
        return
    least = _least_scales(op, array.shape[axis], others[0], rewriter)
    to = weight_type(array, axis, in_powers, least, bits)
    kind = "signed bytes" if bits == 8 else f"signed numbers of {bits} bits"
    with events.rewrite("weights", op, f"{kind}, {len(to.scale_array)} scales"):
        stored = rewriter.add_weight(
            op, f"{identity_of(op)}.integers", stored_array(array, to), like=op, element_type=to
        )
        back = DequantizeOp.make([stored], to=element_type_of(op.operands[index]))
        rewriter.insert_before(op, back, like=op)
        rewriter.set_operand(op, index, back.output)


def _least_scales(
    op: Quantizable, channels: int, read: SSAValue, rewriter: RecordedRewriter
) -> np.ndarray | float:
    """Of each channel, so that its bias is a whole number of steps of the sums in 31 bits.

    What is never used has weights of nothing, or next to it, and a bias all the same.
    """
    made = moved_from(read).owner
    bias = (
        None
        if not isinstance(op, Linear) or op.bias is None
        else constant(op.bias, rewriter.weights)
    )
    if bias is None or bias.size not in (1, channels) or not isinstance(made, DequantizeOp):
        return SMALLEST_SCALE
    step = float(made.parameters.scale_array.min())
    return np.abs(bias.reshape(-1).astype(np.float64)) / (step * LARGEST_BIAS)


def _is_whole(
    op: Quantizable, array: np.ndarray, others: Sequence[SSAValue], rewriter: RecordedRewriter
) -> bool:
    """Whether a product is one of whole numbers as it stands: of a tensor whose scale is 1, with
    weights of 8 bits and a whole bias."""
    read = moved_from(others[0]).owner
    kind = read.parameters if isinstance(read, DequantizeOp) else None
    if kind is None or not kind.is_per_tensor or float(kind.scale_array[0]) != 1.0:
        return False
    rest = [constant(other, rewriter.weights) for other in others[1:]]
    return np.array_equal(array, np.clip(np.rint(array), -128, 127)) and all(
        other is not None and np.array_equal(other, np.rint(other)) for other in rest
    )


def weight_type(
    array: np.ndarray, axis: int, in_powers: bool = False, least: np.ndarray | float = 0.0,
    bits: int = 8,
) -> QuantizedType:  # fmt: skip
    """i8, symmetric, one scale per slice of the axis: largest magnitude / 127 (of 4 bits / 7), or
    the next power of two above that; `least`: of each slice at least."""
    others = tuple(a for a in range(array.ndim) if a != axis % array.ndim)
    largest = np.abs(array.astype(np.float64)).max(axis=others, initial=0.0)
    scales = np.maximum(largest / largest_weight(bits), np.maximum(least, SMALLEST_SCALE))
    if in_powers:
        scales = powers_above(scales)
    return QuantizedType.get(I8, scales.tolist(), [0] * scales.size, axis % array.ndim)
