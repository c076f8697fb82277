"""Convolution and matrix multiplication, with what is fused into them.

    y = round(activation(conv(x, w) + bias + residual))

The fused parts are operands and properties of the operation itself: `bias` and `residual` are
optional operands, `activation` names a kind of `top.unary`, `rounding` a narrower type of floats
(f16, bf16) whose numbers the result holds: what was computed wide, and means that type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import product
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder, Subscript
from explorer.ir.interfaces import (
    CHANNELS,
    Blockable,
    MixesAxes,
    Reshapable,
    Reshaped,
    SizeConstrained,
    SizeContents,
    Windowed,
    aligned_axis,
    require_rows,
)
from explorer.ir.operation import Access
from explorer.ir.requantization import RequantizationAttr
from explorer.ir.sizes.dimensions import window
from explorer.ir.sizes.relations import Relation, broadcast_relations, window_relations
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.data import WeightOp
from explorer.ir.top.elementwise import UNARY, apply_unary, broadcast_shapes
from explorer.ir.top.quantization.integer_products import I8, IntegerProduct, RunTime
from explorer.ir.top.support.operands import (
    require_broadcast,
    require_counts,
    require_same_type,
    require_slices,
    require_vector,
)
from explorer.ir.top.support.quantized_scalars import F32, table_reads
from explorer.ir.types import (
    Dim,
    Shape,
    arithmetic_type,
    element_type_of,
    is_static,
    numpy_dtype,
    shape_of,
    static_shape,
    stored_type,
    tensor_type,
)

UNSIGNED_BYTES: dict[Attribute, int] = {I8: -128, IntegerType(8, Signedness.UNSIGNED): 0}
"""What is subtracted from bytes of a type so that they are unsigned: dot products take those."""
TOGETHER = 4
"""Bytes that a dot product multiplies with as many others."""
SPATIAL = {1: ("j",), 2: ("i", "j"), 3: ("h", "i", "j")}
WINDOW = {1: ("q",), 2: ("p", "q"), 3: ("r", "p", "q")}


def window_output(size: Dim, width: int, stride: int, before: int, after: int, step: int) -> Dim:
    """Positions of a window along one axis; a symbolic size gives a symbolic expression."""
    reach = (width - 1) * step + 1
    positions = window(size, reach, stride, before + after)
    if isinstance(positions, int) and positions < 1:
        raise ValueError(f"a window of {reach} does not fit into {size} + {before} + {after}")
    return positions


class FusedOperation(SizeConstrained, IntegerProduct):
    """What convolution and matmul share: bias, residual and activation."""

    @property
    def fused_activation(self) -> tuple[str, float, float] | None:
        kind = self.get("activation")
        if kind is None:
            return None
        alpha, beta = self.get("alpha"), self.get("beta")
        table = UNARY[kind]
        return (
            kind,
            table.alpha if alpha is None else alpha,
            table.beta if beta is None else beta,
        )

    @property
    def rounded_type(self) -> Attribute | None:
        """The type whose numbers the result holds, where that is narrower than its own."""
        return self.properties.get("rounding")

    def result_element(self) -> Attribute:
        """Element type of the result; ValueError where `rounding` does not fit it."""
        own, kind = self.product_element(), self.rounded_type
        if kind is not None and (kind == own or arithmetic_type(kind) != own):
            raise ValueError(f"{self.name} of {own} cannot be rounded to {kind}")
        return own

    def check_others(self, shape: Shape, channels: Dim) -> None:
        """ValueError where bias or residual do not fit a result of that shape.

        Of plain numbers all operands have one element type.
        """
        bias, residual = self.bias, self.residual  # pyright: ignore[reportAttributeAccessIssue]
        require_vector("the bias", bias, channels)
        if residual is not None:
            require_broadcast("the residual", shape_of(residual), shape)
        if self.sums is None:
            require_same_type(f"the operands of {self.name}", self.operands)

    def split_operands(
        self, operands: Sequence
    ) -> tuple:  # (first, second, bias or None, residual or None), of whatever type is given
        first, second, *rest = operands[: len(self.operands)]
        bias = rest.pop(0) if self.bias is not None else None  # pyright: ignore
        residual = rest.pop(0) if self.residual is not None else None  # pyright: ignore
        return first, second, bias, residual

    def at_run_time(self, operands: Sequence) -> RunTime:
        position = 2 + (self.bias is not None) + (self.residual is not None)  # pyright: ignore
        found = {}
        for part in fields(RunTime):
            is_present = getattr(self, part.name, None) is not None  # convolutions split no signs
            found[part.name] = operands[position] if is_present else None
            position += is_present
        return RunTime(**found)

    def finish_integers(
        self,
        sums: np.ndarray,
        bias: np.ndarray | None,
        residual: np.ndarray | None,
        given: RunTime,
    ) -> np.ndarray:
        """Of quantized operands; `bias` and what runs along channels come in shapes that
        broadcast."""
        finished = self.finished_sums(sums, bias, given)
        return self.finish_meaning(finished, bias, residual) if given.is_scaled else finished

    def finish_meaning(
        self, result: np.ndarray, bias: np.ndarray | None, residual: np.ndarray | None
    ) -> np.ndarray:
        """`bias` comes in a shape that broadcasts."""
        if bias is not None:
            result = result + bias
        if residual is not None:
            result = result + residual
        fused = self.fused_activation
        if fused is not None:
            kind, alpha, beta = fused
            with np.errstate(all="ignore"):
                result = np.asarray(UNARY[kind].meaning(result, alpha, beta))
        narrow = self.rounded_type
        if narrow is not None:
            with np.errstate(over="ignore"):
                result = result.astype(numpy_dtype(narrow)).astype(result.dtype)
        return result

    def define_init(
        self,
        k: KernelBuilder,
        dimensions: dict[str, int],
        output_subscripts: Callable[..., Sequence[Subscript]],
        bias_subscript: Callable[..., Subscript],
        bias: Access | None,
        output: Access,
        given: RunTime,
        zeros: Sequence[Access] = (),
        offsets: Access | None = None,
        offset_subscripts: Callable[..., Sequence[Subscript]] = lambda *d: d,
    ) -> None:
        """The first statement: the output begins as zero.

        Sums of integers are exact, and begin as the bias and what zero points take from them:
        those of w times `offsets`, the sums of x, and one of x that is known at run time only.
        """
        d = k.dimensions(**dimensions)
        target = output.at(*output_subscripts(*d))
        channel = bias_subscript(*d)
        reads = [] if bias is None or not self._begins_as_bias else [bias.at(channel)]
        reads += [] if given.sign_sums is None else [given.sign_sums.at(channel)]
        biases = len(reads)
        if offsets is not None:
            right_zeros = zeros if given.right_zero is None else [given.right_zero]
            reads += [offsets.at(*offset_subscripts(*d)), *table_reads(right_zeros, channel)]
        before = len(reads)
        if given.left_zero is not None:
            row = given.right_sums
            sums = row.at(channel) if row.rank == 1 else row.broadcast(d)
            reads += [given.left_zero.at(0), sums]

        def body(s: ScalarBuilder, *values: Scalar) -> Scalar:
            terms = list(values[:biases])
            if offsets is not None:
                terms.append(self.moved_by_zero(values[biases], values[biases + 1 : before]))
            if given.left_zero is not None:
                left_zero, sums = values[before:]
                terms.append((self.factor(left_zero) * sums).negate())
            return sum(terms[1:], start=terms[0]) if terms else s.constant(0.0)

        k.generic("init", reads, target, body)

    @property
    def _begins_as_bias(self) -> bool:
        """A bias of integers is where sums begin; one of floats is added at the end."""
        return self.sums is not None and not self.run_time.is_scaled

    def define_epilogue(
        self,
        k: KernelBuilder,
        dimensions: dict[str, int],
        bias_subscript: Callable[..., Subscript],
        bias: Access | None,
        residual: Access | None,
        output: Access,
        held: Access,
        given: RunTime,
    ) -> None:
        """The last statement: scale, bias, residual, activation and rounding, point by point.

        A sum of floats that began as the bias would round each of its steps to the bias's last
        digit: of a large one and small products that takes a digit of the result.
        """
        fused, narrow = self.fused_activation, self.rounded_type
        bias = None if self._begins_as_bias else bias
        is_scaled = given.is_scaled
        if bias is None and residual is None and fused is None and narrow is None and not is_scaled:
            return
        d = k.dimensions(**dimensions)
        channel = bias_subscript(*d)
        factors = [f for f in (given.scale, given.channel_scales) if f is not None]
        addends = [] if bias is None else [bias.at(channel)]
        addends += [residual.broadcast(d)] if residual is not None else []
        reads = [f.at(0 if f.shape in ((), (1,)) else channel) for f in factors]
        reads += [held.at(*d)] if is_scaled else []

        def body(s: ScalarBuilder, *values: Scalar) -> Scalar:
            others, y = values[: len(addends)], values[-1]
            if is_scaled:
                first, *rest = values[len(addends) : -1]
                y = y.convert(F32) * math.prod(rest, start=first)
            for other in others:
                y = y + other
            if fused is not None:
                y = apply_unary(s, fused[0], y, fused[1], fused[2])
            return y if narrow is None else y.convert(narrow).widened()

        k.generic("epilogue", [*addends, *reads], output.at(*d), body, accumulates=not is_scaled)

    def label_suffix(self) -> str:
        parts = []
        if self.residual is not None:  # pyright: ignore
            parts.append("add")
        if self.get("activation"):
            parts.append(str(self.get("activation")))
        if self.properties.get("rounding") is not None:
            parts.append("round")
        if self.requantizes is not None:
            parts.append("requantize")
        return "".join(f" + {p.replace('_', ' ')}" for p in parts)


@irdl_op_definition
class ConvOp(MixesAxes, Blockable, Windowed, FusedOperation):
    """Convolution (cross-correlation) over 1 to 3 spatial dimensions, as ONNX's Conv.

    x: (N, C, spatial...), w: (O, C / group, window...), bias: (O,), residual: the result's shape.
    pads: all begins, then all ends. Quantized operands: see `integer_products.py`.
    """

    name = "top.conv"
    FAMILY: ClassVar[str] = "convolution"
    HAS_BLOCKED_TABLES: ClassVar[bool] = True

    input = operand_def(TensorType)
    weight = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    residual = opt_operand_def(TensorType)
    left_zero = opt_operand_def(TensorType)
    right_zero = opt_operand_def(TensorType)
    right_sums = opt_operand_def(TensorType)
    scale = opt_operand_def(TensorType)
    channel_scales = opt_operand_def(TensorType)
    strides = prop_def(DenseArrayBase)
    pads = prop_def(DenseArrayBase)
    dilations = prop_def(DenseArrayBase)
    group = prop_def(IntegerAttr)
    activation = opt_prop_def(StringAttr)
    alpha = opt_prop_def(FloatAttr)
    beta = opt_prop_def(FloatAttr)
    rounding = opt_prop_def(Attribute)
    requantization = opt_prop_def(RequantizationAttr)
    subtracted = opt_prop_def(IntegerAttr)
    output = result_def(TensorType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @property
    def keeps_finite(self) -> bool:
        fused = self.fused_activation
        return fused is None or UNARY[fused[0]].keeps_finite

    def channel_axes(self) -> tuple[int, int]:
        return 0, 1

    def mixed_axes(self) -> Sequence[int]:
        """Each image by itself, each element of which may depend on all of it."""
        return range(1, len(shape_of(self.input)))

    def size_relations(self, contents: SizeContents) -> Iterator[Relation]:
        """Every axis has room for one window; channels are what the weights say."""
        x, weight = shape_of(self.input), shape_of(self.weight)
        yield from window_relations(x, weight[2:], self.get("pads"), self.get("dilations"))
        if isinstance(weight[1], int):
            yield "equal", x[1], weight[1] * self.get("group")

    def kernel_shapes(
        self, operands: list[tuple[int, ...]], output: tuple[int, ...]
    ) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
        """Windows of one pixel: all rows of a picture are one long row."""
        x, w, bias, residual = self.split_operands(operands)
        numbers = (*w[2:], *self.get("strides"))
        if len(x) != 4 or set(numbers) != {1} or any(self.get("pads")):
            return operands, output
        shapes = [(*x[:2], 1, x[2] * x[3]), w]
        shapes += [bias] if bias is not None else []
        shapes += [(*residual[:2], 1, x[2] * x[3])] if residual is not None else []
        shapes += self.at_run_time(operands).present
        return shapes, (*output[:2], 1, output[2] * output[3])

    def why_not_blocked(self, block: int) -> str:
        if self.sums is not None and not self.multiplies_bytes:
            return "it multiplies integers that no dot product takes"
        if not isinstance(self.weight.owner, WeightOp):
            return "its filters are not constant, so that they cannot be packed"
        if self.bias is not None and not isinstance(self.bias.owner, WeightOp):
            return "its bias is computed, and has no zeros for the channels that fill up a block"
        if self.get("group") != 1 and not self.is_depthwise:
            channels = static_shape(self.output)[CHANNELS]
            inside = (static_shape(self.weight)[1], channels // self.get("group"))
            if self.sums is not None or any(size % block for size in inside):
                return f"its {self.get('group')} groups would cut through blocks"
        return ""

    @property
    def adds_up_input(self) -> bool:
        return self.get("group") == 1 and self.has_filter_offset

    @property
    def is_depthwise(self) -> bool:
        """Every channel by itself: one filter for each."""
        channels, weights = shape_of(self.input)[1], shape_of(self.weight)
        return self.get("group") == channels == weights[0] and channels != 1

    def infer_types(self) -> list[Attribute]:
        x, w = shape_of(self.input), shape_of(self.weight)
        group, rank = self.get("group"), len(x) - 2
        if rank not in SPATIAL or len(w) != rank + 2:
            raise ValueError(f"input {x} and weight {w} are not those of a 1- to 3-d convolution")
        if group < 1 or (isinstance(w[0], int) and w[0] % group):
            raise ValueError(f"{w[0]} filters cannot be shared out among {group} groups")
        if isinstance(x[1], int) and isinstance(w[1], int) and x[1] != w[1] * group:
            raise ValueError(f"input has {x[1]} channels, weight expects {w[1]} x {group} groups")
        require_counts(
            self.name,
            rank,
            strides=(self.get("strides"), rank, 1),
            dilations=(self.get("dilations"), rank, 1),
            pads=(self.get("pads"), 2 * rank, 0),
        )
        require_slices(element_type_of(self.weight), w)
        pads, spatial = self.get("pads"), []
        for axis in range(rank):
            window = w[2 + axis]
            if not isinstance(window, int) or window < 1:
                raise ValueError(f"the size of the window {w[2:]} along axis {axis}: 1 or more")
            spatial.append(
                window_output(
                    x[2 + axis],
                    window,
                    self.get("strides")[axis],
                    pads[axis],
                    pads[rank + axis],
                    self.get("dilations")[axis],
                )
            )
        shape = (x[0], w[0], *spatial)
        self.check_others(shape, w[0])
        return [tensor_type(self.result_element(), shape)]

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x, w, bias, residual = self.split_operands(operands)
        x, w = self.factors(x, w, self.at_run_time(operands))
        rank, group = x.ndim - 2, self.get("group")
        strides, dilations, pads = self.get("strides"), self.get("dilations"), self.get("pads")
        padding = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
        padded = np.pad(x, padding, constant_values=self.padding_factor)
        spatial = [
            (padded.shape[2 + a] - (w.shape[2 + a] - 1) * dilations[a] - 1) // strides[a] + 1
            for a in range(rank)
        ]
        grouped = padded.reshape(x.shape[0], group, x.shape[1] // group, *padded.shape[2:])
        filters = w.reshape(group, w.shape[0] // group, *w.shape[1:])
        pixels = int(np.prod(spatial))
        result = np.zeros((x.shape[0], group, filters.shape[1], *spatial), x.dtype)
        for position in product(*[range(s) for s in w.shape[2:]]):
            window = tuple(
                slice(p * d, p * d + (n - 1) * s + 1, s)
                for p, d, n, s in zip(position, dilations, spatial, strides, strict=True)
            )
            taps = filters[(..., *position)]
            source = grouped[(..., *window)].reshape(x.shape[0], group, taps.shape[-1], pixels)
            result += np.matmul(taps, source).reshape(result.shape)
        result = result.reshape(x.shape[0], w.shape[0], *spatial)
        if bias is not None:
            bias = bias.reshape(-1, *[1] * rank)
        given = self.at_run_time(operands).mapped(
            lambda array: array.reshape(-1, *[1] * rank) if array.ndim else array
        )
        if self.sums is not None:
            return (self.finish_integers(result, bias, residual, given),)
        return (self.finish_meaning(result, bias, residual).astype(x.dtype),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        x, w, bias, residual = self.split_operands(inputs)
        zeros, factors = self.table_accesses(inputs)
        held, given = self.held_sums(k, output), self.at_run_time(inputs)
        rank = x.rank - 2
        group = self.get("group")
        spatial = dict(zip(SPATIAL[rank], output.shape[2:], strict=True))
        window = dict(zip(WINDOW[rank], w.shape[2:], strict=True))
        n, o = output.shape[:2]

        def position(outer: Sequence, inner: Sequence) -> list[Subscript]:
            strides, dilations, pads = self.get("strides"), self.get("dilations"), self.get("pads")
            return [
                i * s + p * d - pad if pad else i * s + p * d
                for i, p, s, d, pad in zip(outer, inner, strides, dilations, pads, strict=False)
            ]

        domain = {"n": n, "o": o, **spatial}
        if group == 1 or self.is_depthwise:
            offsets = None
            if self.adds_up_input:
                # Channels that fill up the last block stand for nothing: they are not added.
                own = static_shape(self.input)[1]
                offsets = self.define_offsets(
                    k,
                    {"n": n, **spatial},
                    {**window, "c": own},
                    lambda *d: x.at(d[0], d[-1], *position(d[1 : 1 + rank], d[1 + rank : -1])),
                    (n, 1, *output.shape[2:]),
                    lambda *d: (d[0], 0, *d[1:]),
                )
            self.define_init(
                k,
                domain,
                lambda *d: d,
                lambda *d: d[1],
                bias,
                held,
                given,
                zeros,
                offsets,
                lambda *d: (d[0], 0, *d[2:]),
            )
            channels = {} if group != 1 else {"c": w.shape[1]}
            d = k.dimensions(**domain, **channels, **window)
            at, inner = d[2 : 2 + rank], d[len(d) - rank :]
            channel = d[2 + rank] if group == 1 else d[1]
            weight_channel: Subscript = d[2 + rank] if group == 1 else 0
            k.generic(
                "main",
                [
                    x.at(d[0], channel, *position(at, inner)),
                    w.at(d[1], weight_channel, *inner),
                    *self.inner_zeros(zeros, d[1]),
                ],
                held.at(d[0], d[1], *at),
                self.multiplied,
                reductions=" ".join([*channels, *window]),
                accumulates=True,
            )
            self.define_epilogue(k, domain, lambda *d: d[1], bias, residual, output, held, given)
            self.define_requantization(k, domain, held, output, factors)
            return "convolution" if group == 1 else "depthwise"
        per_group = o // group
        self.define_init(k, domain, lambda *d: d, lambda *d: d[1], bias, held, given)
        d = k.dimensions(n=n, g=group, o=per_group, **spatial, c=x.shape[1] // group, **window)
        at, inner = d[3 : 3 + rank], d[len(d) - rank :]
        channel = d[1] * (x.shape[1] // group) + d[3 + rank]
        k.generic(
            "main",
            [
                x.at(d[0], channel, *position(at, inner)),
                w.at(d[1] * per_group + d[2], d[3 + rank], *inner),
                *table_reads(zeros, d[1] * per_group + d[2]),
            ],
            held.at(d[0], d[1] * per_group + d[2], *at),
            self.multiplied,
            reductions=" ".join(["c", *window]),
            accumulates=True,
        )
        self.define_epilogue(k, domain, lambda *d: d[1], bias, residual, output, held, given)
        self.define_requantization(k, domain, held, output, factors)
        return "grouped_convolution"

    def kernel_parameters(self) -> dict[str, int]:
        strides = self.get("strides")
        return {"group": self.get("group"), "stride": strides[-1]}

    def macs(self) -> int:
        if not is_static(self.output) or not is_static(self.weight):
            return 0
        per_output = int(np.prod(static_shape(self.weight)[1:]))
        return int(np.prod(static_shape(self.output))) * per_output

    def label(self) -> str:
        window = "x".join(str(d) for d in shape_of(self.weight)[2:])
        kind = "depthwise" if self.is_depthwise else "conv"
        return f"{kind} {window}{self.label_suffix()}"


@irdl_op_definition
class MatMulOp(Reshapable, FusedOperation):
    """a (..., m, k) times b (..., k, n); batch dimensions broadcast.

    bias: (n,); residual: broadcasts to the result. fits_pairs: products of an unsigned byte with
    each of two neighbours along k (2i and 2i + 1) add up to a number of 16 bits, whatever the
    bytes are (`passes/quantized/weight_pairs.py`). splits_signs, sign_sums: see
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
    requantization = opt_prop_def(RequantizationAttr)
    subtracted = opt_prop_def(IntegerAttr)
    fits_pairs = opt_prop_def(BoolAttr)
    splits_signs = opt_prop_def(BoolAttr)
    output = result_def(TensorType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @property
    def adds_up_input(self) -> bool:
        return self.has_filter_offset

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
        if self.sums is not None:
            given = self.at_run_time(operands)
            sums = np.matmul(*self.factors(a, b, given))
            if self.get("splits_signs"):
                sums = sums + np.minimum(b.astype(np.float64), 0).sum(axis=0)
            return (self.finish_integers(sums, bias, residual, given),)
        return (self.finish_meaning(np.matmul(a, b), bias, residual),)

    def kernel_shapes(
        self, operands: list[tuple[int, ...]], output: tuple[int, ...]
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
        self.define_epilogue(k, domain, lambda *d: d[-1], bias, residual, output, held, given)
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
