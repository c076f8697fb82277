"""Products of matrices."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    BoolAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    f16,
    f32,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    result_def,
)

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.gradients import GradientBuild, NotDifferentiable
from explorer.ir.interfaces import (
    Differentiable,
    Reshapable,
    Reshaped,
    SizeContents,
    aligned_axis,
    require_rows,
)
from explorer.ir.operation import Access
from explorer.ir.requantization import RequantizationAttr
from explorer.ir.sizes.relations import Relation, broadcast_relations
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.data import WeightOp
from explorer.ir.top.elementwise import broadcast_shapes
from explorer.ir.top.linear.fused import FusedOperation
from explorer.ir.top.quantization.integer_products import I8
from explorer.ir.top.support.operands import (
    require_slices,
)
from explorer.ir.types import (
    QuantizedType,
    element_type_of,
    is_static,
    shape_of,
    static_shape,
    stored_type,
    tensor_type,
)

UNSIGNED_BYTES: dict[Attribute, int] = {I8: -128, IntegerType(8, Signedness.UNSIGNED): 0}
"""What is subtracted from bytes of a type so that they are unsigned: dot products take those."""


WIDENED: tuple[Attribute, ...] = (f16, I8)
"""Elements of a right side that are multiplied as f32."""
TOGETHER = 4
"""Bytes that a dot product multiplies with as many others."""


@irdl_op_definition
class MatMulOp(Differentiable, Reshapable, FusedOperation):
    """a (..., m, k) times b (..., k, n); batch dimensions broadcast.

    bias: (n,); residual: broadcasts to the result. b may be stored in fewer bytes where a is f32:
    its elements (`WIDENED`) are widened, which is exact. fits_pairs: products of an unsigned byte
    with each of two neighbours along k (2i and 2i + 1) add up to a number of 16 bits, whatever the
    bytes are (`passes/quantize/rules/weight_pairs.py`). splits_signs, sign_sums: see
    `integer_products.py`.
    """

    name = "top.matmul"
    FAMILY: ClassVar[str] = "convolution"

    left = operand_def(TensorType)
    right = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    residual = opt_operand_def(TensorType)
    left_zero = opt_operand_def(TensorType)
    right_zero = opt_operand_def(TensorType)
    right_sums = opt_operand_def(TensorType)
    scale = opt_operand_def(TensorType)
    channel_scales = opt_operand_def(TensorType)
    sign_sums = opt_operand_def(TensorType)
    activation = opt_prop_def(StringAttr)
    alpha = opt_prop_def(FloatAttr)
    beta = opt_prop_def(FloatAttr)
    rounding = opt_prop_def(Attribute)
    to = opt_prop_def(QuantizedType)
    taken_as = opt_prop_def(QuantizedType)
    requantization = opt_prop_def(RequantizationAttr)
    subtracted = opt_prop_def(IntegerAttr)
    fits_pairs = opt_prop_def(BoolAttr)
    splits_signs = opt_prop_def(BoolAttr)
    output = result_def(TensorType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @property
    def adds_up_input(self) -> bool:
        return self.has_filter_offset

    @property
    def widens_right(self) -> bool:
        """Whether elements of the right side become f32 where they are multiplied."""
        kinds = element_type_of(self.left), element_type_of(self.right)
        return kinds[0] == f32 and kinds[1] in WIDENED

    def alike_operands(self) -> Sequence[SSAValue | None]:
        return [v for v in self.operands if v is not self.right or not self.widens_right]

    def multiplied(self, s: ScalarBuilder, x: Scalar, w: Scalar, *rest: Scalar) -> Scalar:
        return super().multiplied(s, x, w.convert(f32) if self.widens_right else w, *rest)

    def channel_axes(self) -> tuple[int, int]:
        a, b = len(shape_of(self.left)), len(shape_of(self.right))
        return b - 1, max(a, b) - 1

    def carried_axis(self, index: int, axis: int) -> int:
        """Rows of the left matrices, or one matrix of a batch for each row."""
        rank = len(shape_of(self.operands[index]))
        require_rows(index < 2, "what is added depends on the size")
        if index == 0:
            require_rows(axis < rank - 1, "it sums over the rows")
        else:
            require_rows(axis < rank - 2, "every element is made of all rows")
        return aligned_axis(self, index, axis)

    def reshaped_operands(self) -> Sequence[int]:
        return (0,)

    def before_reshape(self, around: Sequence[Reshaped]) -> Mapping[str, int]:
        """Rows of any batch times one constant matrix are rows."""
        (left,) = around
        if not isinstance(self.right.owner, WeightOp) or len(shape_of(self.right)) != 2:
            raise ValueError("its right side is no constant matrix")
        if self.residual is not None:
            raise ValueError("something is added in it already")
        if len(left.source) < 2 or left.source[-1] != left.target[-1]:
            raise ValueError("its columns are no axis before the reshape")
        return {}

    def size_relations(self, contents: SizeContents) -> Iterator[Relation]:
        left, right = shape_of(self.left), shape_of(self.right)
        yield "equal", left[-1], right[-2]
        yield from broadcast_relations([left[:-2], right[:-2]])

    def infer_types(self) -> list[Attribute]:
        a, b = shape_of(self.left), shape_of(self.right)
        if len(a) < 2 or len(b) < 2:
            raise ValueError(f"matmul needs matrices, not {a} and {b}")
        if isinstance(a[-1], int) and isinstance(b[-2], int) and a[-1] != b[-2]:
            raise ValueError(f"matmul of {a} and {b}: {a[-1]} columns against {b[-2]} rows")
        batch = broadcast_shapes(a[:-2], b[:-2]) if len(a) > 2 or len(b) > 2 else ()
        shape = (*batch, a[-2], b[-1])
        require_slices(element_type_of(self.right), b)
        self.check_others(shape, b[-1])
        return [tensor_type(self.result_element(), shape)]

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        a, b, bias, residual = self.split_operands(operands)
        if self.widens_right:
            b = b.astype(np.float32)
        if self.sums is not None:
            given = self.at_run_time(operands)
            sums = np.matmul(*self.factors(a, b, given))
            if self.get("splits_signs"):
                sums = sums + np.minimum(b.astype(np.float64), 0).sum(axis=0)
            return (self.finish_integers(sums, bias, residual, given),)
        return (self.finish_meaning(np.matmul(a, b), bias, residual),)

    def kernel_shapes(
        self,
        operands: list[tuple[int, ...]],
        output: tuple[int, ...],
        kept: Collection[int] = (),
    ) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
        """All rows of a batch times one matrix are the rows of one long matrix."""
        a, b, bias, residual = self.split_operands(operands)
        if len(b) != 2 or (residual is not None and residual != output):
            return operands, output

        def rows(shape: tuple[int, ...]) -> tuple[int, ...]:
            return (int(np.prod(shape[:-1])), shape[-1])

        shapes = [rows(a), b]
        shapes += [bias] if bias is not None else []
        shapes += [rows(residual)] if residual is not None else []
        shapes += self.at_run_time(operands).present
        return shapes, rows(output)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        a, b, bias, residual = self.split_operands(inputs)
        zeros, factors = self.table_accesses(inputs)
        held, given = self.held_sums(k, output), self.at_run_time(inputs)
        *batch, m, n = output.shape
        names = {f"b{i}": size for i, size in enumerate(batch)}
        domain = {**names, "m": m, "n": n}
        offsets = None
        if self.adds_up_input:
            offsets = self.define_offsets(
                k,
                {**names, "m": m},
                {"k": a.shape[-1]},
                lambda *d: a.broadcast(d),
                (*batch, m, 1),
                lambda *d: (*d, 0),
            )
        self.define_init(
            k,
            domain,
            lambda *d: d,
            lambda *d: d[-1],
            bias,
            held,
            given,
            zeros,
            offsets,
            lambda *d: (*d[:-1], 0),
        )
        if self.is_packed_by_kernel:
            self._define_packed_product(k, domain, a, b, zeros, held)
        else:
            d = k.dimensions(**domain, k=a.shape[-1])
            *outer, row, column, inner = d
            k.generic(
                "main",
                [
                    a.broadcast([*outer, row, inner]),
                    b.broadcast([*outer, inner, column]),
                    *self.inner_zeros(zeros, column),
                ],
                held.at(*outer, row, column),
                self.multiplied,
                reductions="k",
                accumulates=True,
            )
        self.define_epilogue(
            k, domain, lambda *d: d[-1], bias, residual, output, held, given, factors
        )
        self.define_requantization(k, domain, held, output, factors)
        return "matmul"

    @property
    def is_packed_by_kernel(self) -> bool:
        """Signed bytes that are computed: the kernel lays four of each column side by side, as dot
        products want them (constants are packed before)."""
        if self.sums is None or isinstance(self.right.owner, WeightOp):
            return False
        depth, left = shape_of(self.right)[-2], stored_type(element_type_of(self.left))
        return (
            stored_type(element_type_of(self.right)) == I8
            and UNSIGNED_BYTES.get(left) == self.input_offset
            and isinstance(depth, int)
            and depth % TOGETHER == 0
        )

    def _define_packed_product(
        self,
        k: KernelBuilder,
        domain: dict[str, int],
        a: Access,
        b: Access,
        zeros: Sequence[Access],
        held: Access,
    ) -> None:
        """packed[kg, n, ku] = b[4 kg + ku, n], and the sums of products with it."""
        *batch, depth, columns = b.shape
        groups = depth // TOGETHER
        shape = (*batch, groups, columns, TOGETHER)
        packed = Access(k.argument("packed", shape, I8, "scratch"), shape, (0,) * len(shape))
        names = {f"b{i}": size for i, size in enumerate(batch)}
        d = k.dimensions(**names, kg=groups, n=columns, ku=TOGETHER)
        *outer, group, column, number = d
        source = b.at(*outer, group * TOGETHER + number, column)
        k.generic("plain", [source], packed.at(*d), lambda s, w: w)
        d = k.dimensions(**domain, kg=groups, ku=TOGETHER)
        *outer, row, column, group, number = d
        own = outer[len(outer) - len(batch) :]
        own = [0 if size == 1 else at for size, at in zip(batch, own, strict=True)]
        k.generic(
            "main",
            [
                a.broadcast([*outer, row, group * TOGETHER + number]),
                packed.at(*own, group, column, number),
                *self.inner_zeros(zeros, column),
            ],
            held.at(*outer, row, column),
            self.multiplied,
            reductions="kg ku",
            accumulates=True,
        )

    def kernel_parameters(self) -> dict[str, int]:
        return {name: 1 for name in ("fits_pairs", "splits_signs") if self.get(name)}

    def macs(self) -> int:
        if not is_static(self.output) or not is_static(self.left):
            return 0
        return int(np.prod(static_shape(self.output))) * static_shape(self.left)[-1]

    def label(self) -> str:
        return f"matmul{self.label_suffix()}"

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        if self.rounds or self.fused_activation is not None:
            raise NotDifferentiable
        if index == 0:
            return build.matmul(g, _turned(self.right, build))
        return build.matmul(_turned(self.left, build), g) if index == 1 else g


def _turned(x: SSAValue, build: GradientBuild) -> SSAValue:
    """Matrices with rows for columns."""
    rank = build.rank(x)
    return build.transpose(x, [*range(rank - 2), rank - 1, rank - 2])
