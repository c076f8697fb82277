"""Convolution, over one to three spatial dimensions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import product
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)

from explorer.ir.compute import KernelBuilder, Subscript
from explorer.ir.gradients import GradientBuild, NotDifferentiable
from explorer.ir.interfaces import (
    CHANNELS,
    Blockable,
    Differentiable,
    MixesAxes,
    SizeContents,
    Windowed,
)
from explorer.ir.operation import Access
from explorer.ir.requantization import RequantizationAttr
from explorer.ir.sizes.relations import Relation, window_relations
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.data import WeightOp
from explorer.ir.top.elementwise import UNARY
from explorer.ir.top.linear.fused import FusedOperation
from explorer.ir.top.linear.gradients import convolution_gradient
from explorer.ir.top.support.operands import (
    require_counts,
    require_slices,
)
from explorer.ir.top.support.quantized_scalars import table_reads
from explorer.ir.top.support.windows import SPATIAL, WINDOW, window_output
from explorer.ir.types import (
    QuantizedType,
    element_type_of,
    is_static,
    shape_of,
    static_shape,
    tensor_type,
)


@irdl_op_definition
class ConvOp(Differentiable, MixesAxes, Blockable, Windowed, FusedOperation):
    """Convolution (cross-correlation) over 1 to 3 spatial dimensions, as ONNX's Conv.

    x: (N, C, spatial...), w: (O, C / group, window...), bias: (O,), residual: the result's shape.
    pads: all begins, then all ends. Quantized operands, splits_signs and sign_sums: see
    `integer_products.py`.
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
    sign_sums = opt_operand_def(TensorType)
    strides = prop_def(DenseArrayBase)
    pads = prop_def(DenseArrayBase)
    dilations = prop_def(DenseArrayBase)
    group = prop_def(IntegerAttr)
    activation = opt_prop_def(StringAttr)
    alpha = opt_prop_def(FloatAttr)
    beta = opt_prop_def(FloatAttr)
    rounding = opt_prop_def(Attribute)
    to = opt_prop_def(QuantizedType)
    taken_as = opt_prop_def(QuantizedType)
    requantization = opt_prop_def(RequantizationAttr)
    subtracted = opt_prop_def(IntegerAttr)
    splits_signs = opt_prop_def(BoolAttr)
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
        self,
        operands: list[tuple[int, ...]],
        output: tuple[int, ...],
        kept: Collection[int] = (),
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
        if self.sums is not None and not (self.multiplies_bytes or self.get("splits_signs")):
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
            if self.get("splits_signs"):
                axes = tuple(range(1, w.ndim))
                negative = np.minimum(operands[1].astype(np.float64), 0).sum(axis=axes)
                result = result + negative.reshape(-1, *[1] * rank)
            return (self.finish_integers(result, bias, residual, given),)
        return (self.finish_meaning(result, bias, residual),)

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
            self.define_epilogue(
                k, domain, lambda *d: d[1], bias, residual, output, held, given, factors
            )
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
        self.define_epilogue(
            k, domain, lambda *d: d[1], bias, residual, output, held, given, factors
        )
        self.define_requantization(k, domain, held, output, factors)
        return "grouped_convolution"

    def kernel_parameters(self) -> dict[str, int]:
        strides = self.get("strides")
        own = {"group": self.get("group"), "stride": strides[-1]}
        return own | ({"splits_signs": 1} if self.get("splits_signs") else {})

    def macs(self) -> int:
        if not is_static(self.output) or not is_static(self.weight):
            return 0
        per_output = int(np.prod(static_shape(self.weight)[1:]))
        return int(np.prod(static_shape(self.output))) * per_output

    def label(self) -> str:
        window = "x".join(str(d) for d in shape_of(self.weight)[2:])
        kind = "depthwise" if self.is_depthwise else "conv"
        return f"{kind} {window}{self.label_suffix()}"

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        if self.rounds or self.fused_activation is not None:
            raise NotDifferentiable
        return convolution_gradient(self, index, g, build)
