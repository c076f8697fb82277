"""Gradients: the graph between tensors is made again, and then walked backwards.

    c = Mul(a, b)                                       %c = top.binary(%a', %b') {kind = "mul"}
    da, db = Gradient(a, b) <xs = [a, b], y = c>   ->   %da = top.binary(%one, %b') {kind = "mul"}
                                                        %db = top.binary(%one, %a') {kind = "mul"}

The operands are the values at which the gradient is taken; they need not be the tensors that `xs`
and `zs` name. Where they are, the second forward computation is the same as the first, and later
passes merge both. A gradient of a gradient is found in the same way, since the inner one is a node
like any other.

Reference: ONNX operators, ai.onnx.preview.training.Gradient; reverse accumulation as in Griewank
and Walther, "Evaluating Derivatives", 2nd edition, chapter 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from onnx import GraphProto, NodeProto, ValueInfoProto
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from explorer.importers.building.expr import Expr, all_plain, plain
from explorer.importers.onnx.file.reading import subgraphs, walk
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.ir.gradients import GradientBuild, NotDifferentiable, unbroadcast
from explorer.ir.interfaces import Differentiable
from explorer.ir.operation import TopOperation
from explorer.ir.top.data import WeightOp
from explorer.ir.types import element_type_of
from explorer_extras.onnx.training import DOMAIN


@converts("Gradient", domain=DOMAIN)
def gradient(node: Node, build: Build) -> Sequence[Expr]:
    """dy/dx for each of `xs`; what `zs` names is held. y counts as the sum of its elements."""
    xs, zs = node.texts("xs") or (), node.texts("zs") or ()
    leaves, values, y = (*xs, *zs), node.given(), node.text("y")
    if not xs or len(values) != len(leaves) or len(set(leaves)) != len(leaves):
        raise ValueError(f"{len(values)} operands for the tensors xs = {xs} and zs = {zs}")
    # Copies tell the operands apart from each other, and from what the graph itself uses.
    inputs = [build.reshape(v, build.all_sizes(v)) for v in values]
    last = build.block.last_op
    graph = GraphProto(
        name=y,
        node=_between(leaves, y, build),
        input=[ValueInfoProto(name=name) for name in leaves],
        output=[ValueInfoProto(name=y)],
    )
    (result,) = build.inline(graph, inputs)
    if not isinstance(result, Expr) or not build.is_float(result):
        raise ValueError(f"{y!r} is no tensor of floats, so that it has no gradient")
    return gradients_of(result, inputs[: len(xs)], list(_operations_behind(last, build)), build)


def _between(leaves: Sequence[str], y: str, build: Build) -> list[NodeProto]:
    """The nodes from some tensors to y, in order, without names: they belong to the gradient's."""
    if y not in leaves and build.graphs.maker(y) is None:
        raise ValueError(f"no node makes {y!r}")
    reached = dict.fromkeys(leaves, True)
    found: list[NodeProto] = []
    pending = [y]
    while pending:
        maker = build.graphs.maker(pending[-1])
        if pending[-1] in reached or maker is None:
            reached.setdefault(pending.pop(), False)
            continue
        read = [n for n in _read_by(maker) if n]
        waiting = [name for name in read if name not in reached]
        if waiting:
            pending += waiting
            continue
        depends = any(reached[name] for name in read)
        reached.update((name, depends) for name in maker.output if name)
        if depends:
            copy = NodeProto.FromString(maker.SerializeToString())
            copy.name = ""
            found.append(copy)
    return found


def _read_by(node: NodeProto) -> list[str]:
    """What a node reads of its surroundings, through graphs inside of it as well."""
    made = {name for graph in subgraphs(node) for n in walk(graph) for name in n.output}
    made |= {i.name for graph in subgraphs(node) for i in (*graph.input, *graph.initializer)}
    inner = [name for graph in subgraphs(node) for n in walk(graph) for name in n.input]
    inner += [output.name for graph in subgraphs(node) for output in graph.output]
    return [*node.input, *(name for name in inner if name not in made)]


def _operations_behind(last: Operation | None, build: Build) -> Iterator[TopOperation]:
    op = build.block.first_op if last is None else last.next_op
    while op is not None:
        assert isinstance(op, TopOperation)
        yield op
        op = op.next_op


def gradients_of(
    result: Expr, inputs: Sequence[Expr], operations: Sequence[TopOperation], build: Build
) -> list[Expr]:
    """dy/dx by reverse accumulation; zeros where y does not depend on x."""
    y, xs = result.value, all_plain(inputs)
    depends = set(xs)
    for op in operations:
        if not depends.isdisjoint(_uses(op)):
            depends.update(r for r in op.results if isinstance(element_type_of(r), AnyFloat))
    gradients: dict[SSAValue, Expr] = {}
    if y in depends:
        gradients[y] = result.constant(1).broadcast_to(result.all_sizes())
    for op in reversed(operations):
        given = [r for r in op.results if r in gradients]
        if not given or depends.isdisjoint(_uses(op)):
            continue
        for index, operand in enumerate(op.operands):
            if operand in depends:
                part = _operand_gradient(op, index, gradients[given[0]], build)
                known = gradients.get(operand)
                gradients[operand] = part if known is None else known + part
    return [gradients[x.value] if x.value in gradients else _zeros(x) for x in inputs]


def _operand_gradient(op: TopOperation, index: int, g: Expr, build: Build) -> Expr:
    """What a gradient of the only result gives to an operand, in the operand's shape."""
    if not isinstance(op, Differentiable) or len(op.results) > 1:
        raise Unsupported(f"the derivative of {op.name} ({op.label()}) is not known")
    try:
        plain_build = cast(GradientBuild, _PlainBuild(build))
        gradient = op.operand_gradient(index, g.value, plain_build)
        return build.expr(unbroadcast(gradient, op.operands[index], plain_build))
    except NotDifferentiable as error:
        words = str(error) or f"the derivative of {op.name} ({op.label()}) is not known"
        raise Unsupported(words) from None


def _uses(op: TopOperation) -> set[SSAValue]:
    if isinstance(op, WeightOp):
        return set()
    return {operand for inner in op.walk() for operand in inner.operands}


def _zeros(x: Expr) -> Expr:
    return x.constant(0).broadcast_to(x.all_sizes())


class _PlainBuild:
    """The builder as rules of operations take it (`GradientBuild`): values without operators."""

    def __init__(self, build: Build) -> None:
        self._build = build

    def __getattr__(self, name: str) -> Any:  # any of the builder's methods
        method = getattr(self._build, name)

        def call(*arguments: Any, **settings: Any) -> Any:
            made = method(*arguments, **settings)
            return plain(made) if isinstance(made, Expr) else made

        return call
