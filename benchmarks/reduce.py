"""Reducing planted faults: operations that are left, and processor time.

    python benchmarks/reduce.py                  ten faults in networks of the size of ResNet-50
    python benchmarks/reduce.py --only kernel    those with this in the name
    python benchmarks/reduce.py --width 12 --size 64      narrow networks, to try it out

Each fault is a wrong rewrite rule, kernel or importer, put into this process. The condition
compiles a candidate for the processor and compares its outputs with onnxruntime's. Processor time
is that of this process and of all that it started and that ended; the program cache is off.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any  # Any: patched functions
from unittest import mock

import numpy as np
import onnx
from onnx import helper, numpy_helper
from xdsl.dialects import math

from explorer.compilation import compile_model
from explorer.importers.onnx import from_proto
from explorer.importers.onnx.converters import find_converter
from explorer.ir.rewriting import Rule
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.reductions.normalization import SoftmaxOp
from explorer.ir.types import static_shape
from explorer.kernels.printing import operators
from explorer.passes.simplify import fold_batch_norm
from explorer.reducing import Candidate, differing, reduce
from explorer.reducing.candidate import candidate_of_proto
from explorer.reducing.trials import Report
from explorer.references.onnx_runtime import shared_process

OPSET, FORMAT = 17, 8


class Network:
    """Nodes and weights, with fresh names."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name, **attributes))
        return name

    def weight(self, array: np.ndarray) -> str:
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def normal(self, *shape: int, scale: float = 0.1) -> str:
        return self.weight(self.random.normal(size=shape, scale=scale))

    def model(self, result: str, shape: tuple[int, ...]) -> onnx.ModelProto:
        x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
        y = helper.make_tensor_value_info(result, onnx.TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "network", [x], [y], self.weights)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=FORMAT)


def residual_network(width: int = 64, size: int = 224) -> onnx.ModelProto:
    """ResNet-50: 16 bottleneck blocks, 175 operations, with seeded weights."""
    net = Network(0)

    def convolved(x: str, sizes: tuple[int, int, int], stride: int = 1, relu: bool = True) -> str:
        depth, count, window = sizes
        scale = (2 / (depth * window * window)) ** 0.5
        weight = net.normal(count, depth, window, window, scale=scale)
        pads, steps = [window // 2] * 4, [stride] * 2
        y = net.add("Conv", x, weight, kernel_shape=[window] * 2, pads=pads, strides=steps)
        gain, spread = (net.weight(net.random.uniform(0.5, 1.5, count)) for _ in range(2))
        y = net.add("BatchNormalization", y, gain, net.normal(count), net.normal(count), spread)
        return net.add("Relu", y) if relu else y

    x = convolved("x", (3, width, 7), 2)
    x = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    depth = width
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner = width << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = convolved(convolved(x, (depth, inner, 1)), (inner, inner, 3), stride)
            y = convolved(y, (inner, 4 * inner, 1), relu=False)
            other = x if block else convolved(x, (depth, 4 * inner, 1), stride, relu=False)
            x, depth = net.add("Relu", net.add("Add", y, other)), 4 * inner
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    x = net.add("Gemm", x, net.normal(depth, 1000), net.normal(1000))
    return net.model(x, (1, 3, size, size))


def encoder(width: int = 384, tokens: int = 64, layers: int = 12) -> onnx.ModelProto:
    """A transformer of 12 layers, 22 million weights, 270 operations."""
    net, heads = Network(1), 6
    split = net.weight(np.array([0]))  # replaced below: sizes are whole numbers
    net.weights[-1] = numpy_helper.from_array(np.array([tokens, heads, width // heads]), split)
    joined = "joined"
    net.weights.append(numpy_helper.from_array(np.array([tokens, width]), joined))
    square = (1 / width) ** 0.5

    def normalized(x: str) -> str:
        gain = net.weight(net.random.uniform(0.5, 1.5, width))
        return net.add("LayerNormalization", x, gain, net.normal(width), axis=-1)

    def projected(x: str, depth: int, count: int) -> str:
        return net.add("Add", net.add("MatMul", x, net.normal(depth, count, scale=square)),
                       net.normal(count))  # fmt: skip

    x = "x"
    for _ in range(layers):
        y = normalized(x)
        q, k, v = (net.add("Reshape", projected(y, width, width), split) for _ in range(3))
        q, v = (net.add("Transpose", each, perm=[1, 0, 2]) for each in (q, v))
        k = net.add("Transpose", k, perm=[1, 2, 0])
        scores = net.add("Mul", net.add("MatMul", q, k), net.weight(np.array(0.125)))
        y = net.add("MatMul", net.add("Softmax", scores, axis=-1), v)
        y = net.add("Reshape", net.add("Transpose", y, perm=[1, 0, 2]), joined)
        x = net.add("Add", x, projected(y, width, width))
        y = net.add("Relu", projected(normalized(x), width, 2 * width))
        x = net.add("Add", x, projected(y, 2 * width, width))
    return net.model(normalized(x), (tokens, width))


# -- faults ----------------------------------------------------------------------------------------


class ForgetRelu(Rule):
    """relu of the smallest pictures   =>   abs"""

    matches = (UnaryOp,)

    def rewrite(self, op: Any, rewriter: Any) -> None:
        shape = static_shape(op.input.type)
        if op.kind.data == "relu" and len(shape) == 4 and shape[-1] < 10:
            rewriter.update(op, kind="abs")


class SubtractShortcut(Rule):
    """batch_norm + batch_norm   =>   batch_norm - batch_norm"""

    matches = (BinaryOp,)

    def rewrite(self, op: Any, rewriter: Any) -> None:
        names = [getattr(operand.owner, "name", "") for operand in op.operands]
        if op.kind.data == "add" and names == ["top.batch_norm"] * 2:
            rewriter.update(op, kind="sub")


class MovePads(Rule):
    """A convolution of 3 x 3 with strides, with its pads at the end"""

    matches = (ConvOp,)

    def rewrite(self, op: Any, rewriter: Any) -> None:
        if tuple(op.get("strides")) == (2, 2) and tuple(op.get("pads")) == (1, 1, 1, 1):
            rewriter.update(op, pads=(0, 0, 2, 2))


class RefuseFlat(Rule):
    """An error at a reshape to a matrix of one row"""

    matches = (ReshapeOp,)

    def rewrite(self, op: Any, rewriter: Any) -> None:
        if static_shape(op.output.type)[0] == 1:
            raise KeyError("no such shape")


class DoubleSoftmax(Rule):
    """softmax(q k)   =>   softmax of its half"""

    matches = (SoftmaxOp,)

    def rewrite(self, op: Any, rewriter: Any) -> None:
        axis = op.get("axis")
        shape = static_shape(op.input.type)
        if shape[0] > 1 and axis in (-1, len(shape) - 1) and shape[-1] == shape[-2]:
            rewriter.update(op, axis=len(shape) - 2)


class SwapOperands(Rule):
    """a - b   =>   b - a, a relu and a product before it"""

    matches = (BinaryOp,)

    def rewrite(self, op: Any, rewriter: Any) -> None:
        left = op.left.owner
        if op.kind.data == "add" and isinstance(left, MatMulOp):
            before = left.left.owner
            if isinstance(before, UnaryOp) and before.kind.data == "relu":
                rewriter.update(op, kind="sub")


@contextmanager
def wrong_pool_kernel() -> Iterator[None]:
    with mock.patch("explorer.ir.top.pooling.lowest", return_value=1.0):
        yield


@contextmanager
def wrong_root_kernel() -> Iterator[None]:
    with mock.patch.dict(operators.MATH_FUNCTIONS, {math.SqrtOp: "fabs"}):
        yield


@contextmanager
def wrong_folding() -> Iterator[None]:
    """Offsets of more than 300 channels are 1 too large."""
    right = fold_batch_norm.factor_and_offset

    def wrong(op: Any, rewriter: Any) -> Any:
        factor, offset = right(op, rewriter)
        return factor, offset + (1.0 if factor.size > 300 else 0.0)

    with mock.patch.object(fold_batch_norm, "factor_and_offset", wrong):
        yield


@contextmanager
def wrong_import() -> Iterator[None]:
    """The mean of a picture is a fourth too large."""

    def wrong(operator: str, *rest: Any) -> Any:
        found = find_converter(operator, *rest)
        if operator != "GlobalAveragePool" or found is None:
            return found

        def convert(node: Any, build: Any) -> Any:
            right = found.convert(node, build)
            return build.binary("mul", right, build.scalar_like(1.25, right))

        return replace(found, convert=convert)

    with mock.patch("explorer.importers.onnx.convert.find_converter", wrong):
        yield


@dataclass(frozen=True)
class Fault:
    name: str
    network: Callable[..., onnx.ModelProto]
    rule: type[Rule] | None = None
    planted: Callable[[], AbstractContextManager[None]] = nullcontext


FAULTS = (
    Fault("rule: relu of small pictures", residual_network, ForgetRelu),
    Fault("rule: a sum of two branches", residual_network, SubtractShortcut),
    Fault("rule: pads of strided convolutions", residual_network, MovePads),
    Fault("rule: an error at a reshape", residual_network, RefuseFlat),
    Fault("rule: another axis of softmax", encoder, DoubleSoftmax),
    Fault("rule: a sum behind relu and product", encoder, SwapOperands),
    Fault("kernel: pooling begins at 1", residual_network, None, wrong_pool_kernel),
    Fault("kernel: no square root", encoder, None, wrong_root_kernel),
    Fault("pass: folded offsets", residual_network, None, wrong_folding),
    Fault("importer: a mean times 1.25", residual_network, None, wrong_import),
)


def computed(rule: type[Rule] | None) -> Callable[[Candidate], dict[str, np.ndarray]]:
    """Compiles for the processor, with a rule that is inserted behind the import."""

    def compute(candidate: Candidate) -> dict[str, np.ndarray]:
        c = compile_model(from_proto(candidate.model), "cpu")
        try:
            if rule is not None:
                c = c.insert(rule, after="import")
            return c.run(candidate.inputs)
        finally:
            c.close()

    return compute


def seconds() -> float:
    own, others = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return sum(r.ru_utime + r.ru_stime for r in (own, others))


def reporter(begun: float) -> Report:
    """Prints each step with the processor time since then."""

    def report(doing: str, candidate: Candidate, count: int) -> None:
        left = f"{candidate.operations} operations, {candidate.elements} numbers"
        print(f"{seconds() - begun:6.1f} {count:4} {doing}: {left}", flush=True)

    return report


def measured(fault: Fault, options: dict[str, int], shows_steps: bool) -> str:
    """A line of the table."""
    model = fault.network(**options)
    sizes = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(2).normal(size=sizes).astype(np.float32)
    before, begun = seconds(), time.perf_counter()
    with fault.planted():
        found = reduce(
            candidate_of_proto(model, {"x": x}),
            differing(computed(fault.rule)),
            report=reporter(before) if shows_steps else None,
        )
    shared_process().close()  # onnxruntime's, which counts when it has ended
    left = found.candidate
    operators = ", ".join(node.op_type for node in left.model.graph.node)
    return (
        f"| {fault.name} | {found.whole.operations} | {left.operations} ({operators}) | "
        f"{left.elements} | {found.trials} | {seconds() - before:.0f} | "
        f"{time.perf_counter() - begun:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="faults with this in the name")
    parser.add_argument("--width", type=int, default=0, help="channels of the first layer")
    parser.add_argument("--size", type=int, default=224, help="of the picture")
    parser.add_argument("--steps", action="store_true", help="print what is done")
    arguments = parser.parse_args()
    os.environ["EXPLORER_CACHE"] = "off"
    print("| fault | operations | left | numbers left | trials | processor s | wall s |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for fault in FAULTS:
        if arguments.only in fault.name:
            options = {"width": arguments.width} if arguments.width else {}
            if fault.network is residual_network:
                options["size"] = arguments.size
            print(measured(fault, options, arguments.steps), flush=True)


if __name__ == "__main__":
    main()
