"""Products with narrow weights that are unpacked where they are multiplied: `top.matmul_blocks`.

    %y = top.matmul_blocks(%x, %w, block_scales = %s, block_zeros = %z) {bits = 4, block = 32}
             %x : tensor<1x4096xf32>    %w : tensor<2048x11008xui8>, two rows in each byte
             %s, %z : tensor<128x11008xf32>, tensor<128x11008xui8>

    y[m, n] = sum over k of x[m, k] * (w[k, n] - zero point) * scale, of the block of k

A product of one row reads every weight once: what it takes is the time to read them, an eighth of
that of floats. Numbers are stored without a sign; of four bits, row 2 i lies in the lower half of
byte i, and row 2 i + 1 in the upper one. Without zero points these are in the middle (8 or 128).

Where the rows of x are signed bytes in blocks, too (`top.quantize_blocks`), a block's products are
added up in integers, and its sum is scaled once:

    y[m, n] = sum over b of scale[b, n] left_scale[m, b] * sums[m, b, n]
    sums[m, b, n] = sum over k in block b of x[m, k] (w[k, n] - zero point[b, n])

Row 8 g + i lies in the lower half of byte 4 g + i then, and row 8 g + 4 + i in the upper one: four
bytes of a column are two dot products with four neighbours of x each.

Reference: Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
Transformers", 2023, section 4; onnxruntime, docs/ContribOperators.md, MatMulNBits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.interfaces import aligned_axis, require_rows
from explorer.ir.operation import Access
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.linear.fused import FusedOperation
from explorer.ir.top.quantization.dynamic import I8, UI8
from explorer.ir.top.support.quantized_scalars import F32, I32
from explorer.ir.types import (
    QuantizedType,
    Shape,
    element_type_of,
    is_static,
    shape_of,
    static_shape,
    tensor_type,
)

HALF_BITS = 4
"""Of numbers that lie in pairs in a byte."""
DOT = 4
"""Products of bytes that are added at once."""
BYTES_KIND = "matmul_byte_blocks"
"""Family of kernels that multiply bytes with bytes."""


@dataclass(frozen=True)
class Stretch:
    """Weights of one statement of the kernel: some blocks, each with so many steps of `rows`."""

    first: int
    """Number of the first block."""
    blocks: int
    steps: int
    rows: int
    """That a step multiplies: those in a byte, or the first of them alone."""
    skipped: int = 0
    """Steps of the block before these."""


@irdl_op_definition
class MatMulBlocksOp(FusedOperation):
    """a (..., m, k) in f32 times a constant matrix of `bits` (4 or 8) with a scale per block.

    right: ui8, (k, n), or (ceil(k / 2), n) of four bits. block_scales: f32, and block_zeros: ui8,
    both (ceil(k / block), n). `block` is even where two rows share a byte. a may be
    signed bytes with the same blocks, which are whole and divide into dot products: left_scales
    (f32) and left_sums (i32) belong to them, both (..., m, k / block) (`top.quantize_blocks`).
    """

    name = "top.matmul_blocks"
    FAMILY: ClassVar[str] = "convolution"

    left = operand_def(TensorType)
    right = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    residual = opt_operand_def(TensorType)
    block_scales = operand_def(TensorType)
    block_zeros = opt_operand_def(TensorType)
    left_scales = opt_operand_def(TensorType)
    left_sums = opt_operand_def(TensorType)
    bits = prop_def(IntegerAttr)
    block = prop_def(IntegerAttr)
    activation = opt_prop_def(StringAttr)
    alpha = opt_prop_def(FloatAttr)
    beta = opt_prop_def(FloatAttr)
    rounding = opt_prop_def(Attribute)
    output = result_def(TensorType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @property
    def rows_per_byte(self) -> int:
        return 2 if self.get("bits") == HALF_BITS else 1

    @property
    def multiplies_bytes(self) -> bool:
        """Whether rows of the left operand are bytes in blocks."""
        return self.left_scales is not None

    @property
    def sums(self) -> None:
        """None: sums of bytes are scaled block by block."""

    def product_element(self) -> Attribute:
        return F32 if self.multiplies_bytes else element_type_of(self.left)

    @property
    def requantizes(self) -> None:
        """Nothing: what it makes is real."""

    @property
    def result_type(self) -> None:
        """None: what it makes is real."""

    @property
    def is_quantizable(self) -> bool:
        return False

    def channel_axes(self) -> tuple[int, int]:
        return 1, len(shape_of(self.left)) - 1

    def is_parameter(self, index: int) -> bool:
        """All but what is multiplied, and what is added to each element of its own."""
        computed = (self.residual, self.left_scales, self.left_sums)
        return index > 0 and all(self.operands[index] is not other for other in computed)

    def carried_axis(self, index: int, axis: int) -> int:
        rank = len(shape_of(self.operands[index]))
        is_row = not self.is_parameter(index) and axis < rank - 1
        require_rows(is_row, "it sums over the rows")
        return aligned_axis(self, index, axis)

    def infer_types(self) -> list[Attribute]:
        a, b, block = shape_of(self.left), shape_of(self.right), self.get("block")
        if self.get("bits") not in (HALF_BITS, 8) or block < 1 or block % self.rows_per_byte:
            raise ValueError(f"numbers of {self.get('bits')} bits in blocks of {block}")
        depth = a[-1] if len(a) > 1 else None
        if not isinstance(depth, int) or len(b) != 2:
            raise ValueError(f"{self.name} of {a} and {b}: a matrix of known depth expected")
        columns = b[1]
        parameters = (-(-depth // block), columns)
        for role, operand, kind, shape in (
            ("the weight", self.right, UI8, (-(-depth // self.rows_per_byte), columns)),
            ("its scales", self.block_scales, F32, parameters),
            ("its zero points", self.block_zeros, UI8, parameters),
        ):
            if operand is None:
                continue
            if (element_type_of(operand), shape_of(operand)) != (kind, shape):
                raise ValueError(
                    f"{role}: {shape_of(operand)} of {element_type_of(operand)}; {shape} of {kind}"
                    " expected"
                )
        self._check_left((*a[:-1], parameters[0]), depth)
        shape = (*a[:-1], columns)
        self.check_others(shape, columns)
        if self.result_element() != F32:
            raise ValueError(f"{self.name} multiplies f32, not {self.result_element()}")
        return [tensor_type(F32, shape)]

    def _check_left(self, blocks: Shape, depth: int) -> None:
        """ValueError where what belongs to the left operand's blocks does not fit it."""
        block, together = self.get("block"), DOT * self.rows_per_byte
        scales, sums = self.left_scales, self.left_sums
        if (scales is None) != (sums is None):
            raise ValueError(f"{self.name} of bytes needs both scales and sums of their blocks")
        if scales is None or sums is None:
            return
        kind = QuantizedType.in_blocks(I8, len(shape_of(self.left)) - 1, block)
        if element_type_of(self.left) != kind:
            raise ValueError(f"rows of {element_type_of(self.left)}; {kind} expected")
        if depth % block or block % together:
            raise ValueError(
                f"blocks of {block} in {depth} rows: whole blocks of a multiple of {together}"
            )
        for role, operand, wanted in (
            ("scales", scales, F32),
            ("sums", sums, I32),
        ):
            found = (element_type_of(operand), shape_of(operand))
            if found != (wanted, blocks):
                raise ValueError(f"{role} of rows: {found}; {blocks} of {wanted} expected")

    def alike_operands(self) -> Sequence[SSAValue | None]:
        """All but the numbers of the weight, and of rows of bytes."""
        left = None if self.multiplies_bytes else self.left
        return left, self.bias, self.residual, self.block_scales

    def left_parameters(self, operands: Sequence) -> tuple:
        """(scales, sums) of rows of bytes, of whatever type is given; nothing of others."""
        return tuple(operands[-2:]) if self.multiplies_bytes else ()

    def parameters(self, operands: Sequence) -> tuple:
        """(scales, zero points or None), of whatever type is given."""
        position = 2 + (self.bias is not None) + (self.residual is not None)
        has_zeros = self.block_zeros is not None
        return operands[position], operands[position + 1] if has_zeros else None

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        a, packed, bias, residual = self.split_operands(operands)
        scales, zeros = self.parameters(operands)
        if self.multiplies_bytes:
            sums = self._sums_of_bytes(a, packed, scales, zeros, operands[-2])
            return (self.finish_meaning(sums, bias, residual),)
        weight = self.real_weight(packed, scales, zeros, a.shape[-1])
        return (self.finish_meaning(np.matmul(a, weight), bias, residual),)

    def _sums_of_bytes(
        self,
        a: np.ndarray,
        packed: np.ndarray,
        scales: np.ndarray,
        zeros: np.ndarray | None,
        left_scales: np.ndarray,
    ) -> np.ndarray:
        """Integers are exact in f64; blocks are scaled and added in f32, one after the other."""
        depth, block = a.shape[-1], self.get("block")
        numbers = unpacked(packed, depth, DOT) if self.rows_per_byte == 2 else packed
        total = np.zeros((*a.shape[:-1], packed.shape[1]), np.float32)
        for number, scale in enumerate(scales):
            rows = slice(number * block, (number + 1) * block)
            zero = self.middle if zeros is None else zeros[number].astype(np.float64)
            sums = a[..., rows].astype(np.float64) @ (numbers[rows].astype(np.float64) - zero)
            total += sums.astype(np.float32) * (left_scales[..., number, np.newaxis] * scale)
        return total

    def real_weight(
        self, packed: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None, depth: int
    ) -> np.ndarray:
        """(k, n) f32: (number - zero point) * scale, of the block."""
        numbers = unpacked(packed, depth) if self.rows_per_byte == 2 else packed
        block_of = np.arange(depth) // self.get("block")
        zero = self.middle if zeros is None else zeros[block_of].astype(np.float32)
        return (numbers.astype(np.float32) - zero) * scales[block_of]

    @property
    def middle(self) -> float:
        """What stands for zero where there are no zero points."""
        return float(1 << (self.get("bits") - 1))

    def kernel_shapes(
        self,
        operands: list[tuple[int, ...]],
        output: tuple[int, ...],
        kept: Collection[int] = (),
    ) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
        """All rows of a batch times one matrix are the rows of one long matrix."""
        position = 3 - (self.bias is None)
        if self.residual is not None and operands[position] != output:
            return operands, output

        def rows(shape: tuple[int, ...]) -> tuple[int, ...]:
            return (int(np.prod(shape[:-1])), shape[-1])

        long = [0] if self.residual is None else [0, position]
        long += [len(operands) - 2, len(operands) - 1] if self.multiplies_bytes else []
        shapes = [rows(s) if number in long else s for number, s in enumerate(operands)]
        return shapes, rows(output)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        a, packed, bias, residual = self.split_operands(inputs)
        scales, zeros = self.parameters(inputs)
        given = self.at_run_time(inputs)
        *batch, m, n = output.shape
        names = {f"b{i}": size for i, size in enumerate(batch)}
        domain = {**names, "m": m, "n": n}
        self.define_init(k, domain, lambda *d: d, lambda *d: d[-1], bias, output, given)
        if self.multiplies_bytes:
            self._define_bytes(k, inputs, output)
            self.define_epilogue(k, domain, lambda *d: d[-1], bias, residual, output, output, given)
            return BYTES_KIND
        per_byte, block = self.rows_per_byte, self.get("block")
        for part in stretches(a.shape[-1], block, per_byte):
            d = k.dimensions(**domain, kb=part.blocks, kp=part.steps)
            *outer, row, column, number, step = d
            at: AffineExpr = number + part.first
            byte = at * (block // per_byte) + step + part.skipped
            first = at * block + step * per_byte + part.skipped * per_byte
            reads = [a.broadcast([*outer, row, first + i]) for i in range(part.rows)]
            reads += [packed.at(byte, column), scales.at(at, column)]
            reads += [zeros.at(at, column)] if zeros is not None else []
            k.generic(
                "main",
                reads,
                output.at(*outer, row, column),
                self._body(part.rows),
                reductions="kb kp",
                accumulates=True,
            )
        self.define_epilogue(k, domain, lambda *d: d[-1], bias, residual, output, output, given)
        return "matmul_blocks"

    def _define_bytes(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> None:
        """A block's sum in integers begins as what its zero point takes, and is scaled at its end.

        The loops of the three statements have names of their own, so that a schedule can join them.
        """
        a, packed, *_ = self.split_operands(inputs)
        scales, zeros = self.parameters(inputs)
        left_scales, left_sums = self.left_parameters(inputs)
        *batch, m, n = output.shape
        blocks, per_byte, block = scales.shape[0], self.rows_per_byte, self.get("block")
        sums = k.argument("sums", (*batch, m, blocks, n), I32, "scratch")

        def dimensions(prefix: str, **others: int) -> tuple[AffineExpr, ...]:
            names = {f"{prefix}b{i}": size for i, size in enumerate(batch)}
            own = {f"{prefix}m": m, f"{prefix}n": n, f"{prefix}kb": blocks}
            return k.dimensions(**names, **own, **others)

        *outer, row, column, number = dimensions("z")
        place = (*outer, row, number, column)
        reads = [left_sums.broadcast([*outer, row, number])]
        reads += [] if zeros is None else [zeros.at(number, column)]
        k.generic("plain", reads, (sums, place), self._moved_by_zero)
        steps = block // (DOT * per_byte)
        *outer, row, column, number, group, one = dimensions("", kg=steps, ku=DOT)
        place = (*outer, row, number, column)
        first = number * block + group * (DOT * per_byte) + one
        reads = [a.broadcast([*outer, row, first + DOT * i]) for i in range(per_byte)]
        reads += [packed.at(number * (block // per_byte) + group * DOT + one, column)]
        k.generic("main", reads, (sums, place), self._dot, reductions="kg ku", accumulates=True)
        *outer, row, column, number = dimensions("y")
        place = (*outer, row, number, column)
        reads = [left_scales.broadcast([*outer, row, number]), scales.at(number, column)]
        k.generic(
            "plain",
            [(sums, place), *reads],
            output.at(*outer, row, column),
            lambda s, total, left, right, y: y + total.convert(F32) * (left * right),
            reductions="ykb",
            accumulates=True,
        )

    def _moved_by_zero(self, s: ScalarBuilder, total: Scalar, *zero: Scalar) -> Scalar:
        middle = zero[0].convert(I32) if zero else s.constant(self.middle, I32)
        return (total * middle).negate()

    def _dot(self, s: ScalarBuilder, *values: Scalar) -> Scalar:
        """The sum so far (last) plus the products of the numbers in one byte."""
        *x, byte, y = values
        wide = byte.convert(I32)
        numbers = [wide]
        if self.rows_per_byte == 2:
            numbers = [wide.logical_and(15), wide.shift_right(HALF_BITS)]
        first, *others = (x.convert(I32) * w for x, w in zip(x, numbers, strict=True))
        return y + sum(others, start=first)

    def _body(self, rows: int):
        """The sum so far (last) plus the products of the numbers in one byte."""

        def body(s: ScalarBuilder, *values: Scalar) -> Scalar:
            x, (byte, scale, *zero), y = values[:rows], values[rows:-1], values[-1]
            wide = byte.convert(I32)
            numbers = [wide]
            if self.rows_per_byte == 2:
                numbers = [wide.logical_and(15), wide.shift_right(HALF_BITS)]
            middle = zero[0].convert(I32).convert(F32) if zero else s.constant(self.middle, F32)
            for factor, number in zip(x, numbers, strict=False):
                y = y + factor * ((number.convert(F32) - middle) * scale)
            return y

        return body

    def kernel_parameters(self) -> dict[str, int]:
        return {"rows_per_byte": self.rows_per_byte}

    def macs(self) -> int:
        if not is_static(self.output):
            return 0
        return int(np.prod(static_shape(self.output))) * static_shape(self.left)[-1]

    def label(self) -> str:
        by = " by 8" if self.multiplies_bytes else ""
        return f"matmul {self.get('bits')} bits{by}{self.label_suffix()}"


def stretches(depth: int, block: int, per_byte: int) -> list[Stretch]:
    """Whole blocks; the whole bytes of a last one that is cut off; a row that has half a byte."""
    whole, rest = divmod(depth, block)
    pairs, odd = divmod(rest, per_byte)
    found = [
        Stretch(0, whole, block // per_byte, per_byte),
        Stretch(whole, 1, pairs, per_byte),
        Stretch(whole, 1, odd, 1, pairs),
    ]
    return [part for part in found if part.blocks and part.steps]


def packed_pairs(numbers: np.ndarray, apart: int = 1) -> np.ndarray:
    """(k, n) numbers below 16 as (ceil(k / 2), n) bytes: two rows in each, so many rows apart.

    k is a multiple of 2 * apart, where that is more than 2.
    """
    wide = numbers.astype(np.uint8)
    if len(wide) % 2:
        wide = np.concatenate([wide, np.zeros_like(wide[:1])])
    rows = wide.reshape(-1, 2, apart, wide.shape[1])
    return (rows[:, 0] | rows[:, 1] << np.uint8(HALF_BITS)).reshape(-1, wide.shape[1])


def unpacked(packed: np.ndarray, depth: int, apart: int = 1) -> np.ndarray:
    """The inverse: (depth, n) ui8."""
    rows = packed.reshape(-1, 1, apart, packed.shape[1])
    halves = np.concatenate([rows & np.uint8(15), rows >> np.uint8(HALF_BITS)], axis=1)
    return halves.reshape(-1, packed.shape[1])[:depth]
