"""Operators that call other subgraphs of the file.

    IF (condition, ...)         top.if; the branch alone where the condition is known
    WHILE (...)                 top.loop with a condition, which is computed once before it, too
    STABLEHLO_COMPOSITE (...)   the operators of its decomposition, in its place

What lies inside has no tensors to compare: a program that judges shows those of the model only.
Values go in and come out as they are stored; each operator inside takes them in the types that the
file says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps

from xdsl.dialects.builtin import i1, i64
from xdsl.ir import Region

from explorer.importers.building.build import Build, Unsupported, discard
from explorer.importers.building.expr import Expr, all_plain
from explorer.importers.building.quantized_types import as_stored
from explorer.importers.tflite.file.contents import Operator, Tensor
from explorer.importers.tflite.operators.node import TfliteNode, kind_of, typed
from explorer.ir.origins import set_origins
from explorer.ir.top.data import ReturnOp
from explorer.ir.types import tensor_type

Results = Expr | Sequence[Expr]
ConvertNode = Callable[[TfliteNode, Build], Results]


def converters(others: Mapping[str, ConvertNode]) -> dict[str, ConvertNode]:
    """Those of the operators that call; `others` are those of what may stand in a subgraph."""
    known = dict(others)
    made = {name: _with_calls(convert, known) for name, convert in _CALLING.items()}
    known |= made
    return made


def _with_calls(
    convert: Callable[[TfliteNode, _Calls], Results], known: Mapping[str, ConvertNode]
) -> ConvertNode:
    @wraps(convert)
    def converted(node: TfliteNode, build: Build) -> Results:
        return convert(node, _Calls(known, node, build))

    return converted


def _branch(node: TfliteNode, calls: _Calls) -> Results:
    """One of two subgraphs, as the first operand says."""
    build, operands = calls.build, calls.operands
    chosen = [calls.graph(f"{which}_subgraph_index") for which in ("then", "else")]
    condition = operands[0].reshape([])
    known = build.is_true(condition)
    if known is not None:
        return calls.inline(chosen[0 if known else 1], operands[1:])
    regions: list[Region] = []
    try:
        for graph in chosen:
            with build.inside([]) as block:
                results = calls.inline(graph, operands[1:])
                build.append(ReturnOp.make([all_plain(results)], []))
            regions.append(Region(block))
        return build.branch(condition, *regions)
    except Exception as error:
        for region in regions:
            discard(region.block)
        if isinstance(error, ValueError):
            raise Unsupported(f"its branches do not fit: {error}") from error
        raise


def _loop(node: TfliteNode, calls: _Calls) -> Results:
    """A subgraph again and again, as long as the other says so of its results."""
    build = calls.build
    condition, body = (calls.graph(f"{which}_subgraph_index") for which in ("cond", "body"))
    states = list(calls.operands)
    goes_on = _one(calls.inline(condition, states))
    arguments = [tensor_type(i64, ()), tensor_type(i1, ()), *(s.type for s in states)]
    with build.inside(arguments) as block:
        following = calls.inline(body, build.arguments(block)[2:])
        again = _one(calls.inline(condition, following))
        build.append(ReturnOp.make([all_plain([again, *following])], []))
    try:
        return build.loop(Region(block), states, condition=goes_on)
    except ValueError as error:
        discard(block)
        raise Unsupported(f"its states do not fit: {error}") from error


def _composite(node: TfliteNode, calls: _Calls) -> Results:
    """What an operator of another program consists of."""
    return calls.inline(calls.graph("decomposition_subgraph_index"), calls.operands)


_CALLING = {"IF": _branch, "WHILE": _loop, "STABLEHLO_COMPOSITE": _composite}


def _one(values: Sequence[Expr]) -> Expr:
    if len(values) != 1:
        raise ValueError(f"a condition of {len(values)} results")
    return values[0].reshape([])


class _Calls:
    """Subgraphs in the place of a node."""

    def __init__(
        self, converters: Mapping[str, ConvertNode], node: TfliteNode, build: Build
    ) -> None:
        self._converters = converters
        self._node = node
        self.build = build

    @property
    def operands(self) -> list[Expr]:
        """As they are stored."""
        count = len(self._node.given)
        return [as_stored(self._node.plain(index), self.build) for index in range(count)]

    def graph(self, option: str) -> int:
        """The number of a subgraph; ValueError for none, Unsupported for one that calls itself."""
        number, graphs = self._node.integer(option, -1), self._node.graphs
        if not 0 < number < len(graphs):
            raise ValueError(f"{option} is {number}; the file has {len(graphs)} subgraphs")
        if number in self._node.callers:
            raise Unsupported(f"subgraph {number} calls itself")
        return number

    def inline(self, number: int, operands: Sequence[Expr]) -> list[Expr]:
        """The results of a subgraph, as they are stored."""
        graph = self._node.graphs[number]
        if len(operands) != len(graph.inputs):
            raise ValueError(
                f"subgraph {number} takes {len(graph.inputs)} operands, not {len(operands)}"
            )
        values = {t.index: v for t, v in zip(graph.inputs, operands, strict=True)}
        first = len(self.build.created)
        for operator in graph.operators:
            self._convert(operator, number, values)
        results = [as_stored(self._value(t, values), self.build) for t in graph.outputs]
        for op in self.build.created[first:]:
            set_origins(op, [None] * len(op.results))
        return results

    def _convert(self, operator: Operator, number: int, values: dict[int, Expr]) -> None:
        convert = self._converters.get(operator.kind)
        if convert is None or any(t is not None and t.is_variable for t in operator.inputs):
            raise Unsupported(f"{operator.name} of its subgraph: {operator.kind} has no form there")
        given = [None if t is None else self._value(t, values) for t in operator.inputs]
        node = replace(
            self._node,
            name=operator.name,
            operator=operator.kind,
            file=operator,
            results=operator.outputs,
            given=given,
            callers=self._node.callers | {number},
        )
        try:
            made = convert(node, self.build)
        except Unsupported as unsupported:
            raise Unsupported(f"{operator.name} of its subgraph: {unsupported}") from unsupported
        results = [made] if isinstance(made, Expr) else list(made)
        for tensor, value in zip(operator.outputs, results, strict=True):
            values[tensor.index] = typed(value, tensor, self.build)

    def _value(self, tensor: Tensor, values: dict[int, Expr]) -> Expr:
        if tensor.index not in values and tensor.data is not None:
            # Where it is used: a block sees nothing of its neighbour.
            return self.build.weight(tensor.data, tensor.name, kind_of(tensor))
        if tensor.index not in values:
            raise ValueError(f"nothing makes the tensor {tensor.name!r} of a subgraph")
        return values[tensor.index]
