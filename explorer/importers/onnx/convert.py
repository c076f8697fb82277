"""From a parsed ONNX model to one function of `top` operations.

    ONNX                                     top
    y = Conv(x, w) <name = "/a/conv1">  ->   %w = top.weight() {weight = "w"}
                                             %conv1 = top.conv(%x, %w) {...}     loc("/a/conv1")
                                                      origin of %conv1: tensor "y"

Every node is converted by the function that its operator is declared for (`converters.py`); where
there is none, by ONNX's own function body of the operator. What cannot be converted is collected
and reported all at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from explorer.errors import ExplorerError, ModelError, UnsupportedError
from explorer.files import damage_of
from explorer.importers.building.build import Undecided, discard
from explorer.importers.building.expr import Expr
from explorer.importers.building.identifiers import stem_of
from explorer.importers.building.limits import MAX_ELEMENTS, check_rank
from explorer.importers.building.program import ProgramBuilder
from explorer.importers.building.quantized_types import as_stored
from explorer.importers.model import SourceModel, check_dimension_names
from explorer.importers.onnx.block_size import find_block_size
from explorer.importers.onnx.converters import find_converter, missing_reason
from explorer.importers.onnx.data_dependent import data_dependent_node
from explorer.importers.onnx.file.reading import OnnxContent, opset_versions, walk
from explorer.importers.onnx.file.tensors import read_tensor
from explorer.importers.onnx.program.blocks import Blocks, find_blocks, is_blocked
from explorer.importers.onnx.program.build import Build, Found
from explorer.importers.onnx.program.function_bodies import (
    function_body,
    type_of_operand,
    with_attributes,
)
from explorer.importers.onnx.program.mixed_types import as_declared, with_one_type
from explorer.importers.onnx.program.nodes import Node, Unsupported, attribute_value
from explorer.importers.onnx.program.quantized_types import with_suited_operands
from explorer.importers.onnx.program.scope import Scope
from explorer.importers.onnx.program.structures import (
    Imported,
    StringTensor,
    named_tensors,
    tensors_of,
)
from explorer.importers.onnx.schemas import check_node
from explorer.ir.types import (
    format_shape,
)
from explorer.ir.weights import Weights

_DEEPEST_FUNCTION = 8
"""How far ONNX's function bodies may nest in each other."""

MAX_NESTED_NODES = 10_000
"""Nodes of nested graphs that are converted, one of an unrolled loop once for each iteration: a
small file with loops in loops could ask for any number."""


def to_top(
    model: SourceModel, dimensions: Mapping[str, int] | None = None
) -> tuple[ModuleOp, Weights]:
    """A module with one function `main`, and its weights.

    `dimensions` gives sizes to symbolic dimensions of the inputs; others stay symbolic. The
    function's attributes `input_names` and `output_names` hold the model's own names.
    UnsupportedError lists every node that cannot be converted; ModelError names a node whose
    operands do not fit it.
    """
    result = convert(model, dimensions)
    assert result.module is not None
    return result.module, result.weights


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """What came of every node of a model."""

    module: ModuleOp | None
    """None for a model that was only examined, and has nodes that cannot be converted."""
    weights: Weights
    tensors: Mapping[str, Imported]
    """Values of the outermost graph by their names in the model."""
    arguments: Mapping[str, Imported]
    """What the inputs of nested graphs stood for, by name."""
    results: Mapping[str, Sequence[Imported | None]]
    """Of every node, by its name; those of an unrolled loop's last iteration."""
    microseconds: Mapping[str, float]
    """By node, what it contains included."""
    problems: Mapping[str, str]
    """Why nodes, by name, and outputs of the model cannot be converted."""


NOTHING = Conversion(
    module=None,
    weights=Weights(),
    tensors={},
    arguments={},
    results={},
    microseconds={},
    problems={},
)
"""Of a model of which nothing is converted yet."""


def convert(
    model: SourceModel,
    dimensions: Mapping[str, int] | None = None,
    has_deferred_nodes: bool = False,
) -> Conversion:
    """As `to_top`, with what became of every node and tensor.

    has_deferred_nodes: nodes of which a run decides the form become operations that the run
    imports (`data_dependent.py`).
    """
    check_dimension_names(model, dimensions or {})
    importing = _Import(model, dimensions or {}, has_deferred_nodes=has_deferred_nodes)
    try:
        module, _ = importing.run()
    except (ModelError, UnsupportedError) as error:
        if not error.file and model.path is not None:
            error.file = str(model.path)
        raise
    return importing.conversion(module)


def examine(
    model: SourceModel,
    dimensions: Mapping[str, int] | None = None,
    has_deferred_nodes: bool = False,
) -> Conversion:
    """Converts as far as it goes and raises nothing: `problems` says what does not.

    A node that does not fit its operands, for which `convert` raises ModelError, is one of them.
    """
    importing = _Import(
        model, dimensions or {}, is_examined=True, has_deferred_nodes=has_deferred_nodes
    )
    try:
        module, _ = importing.run()
    except UnsupportedError:
        module = None
    except ModelError as error:
        importing.refused.setdefault(error.node, error.message)
        module = None
    return importing.conversion(module)


class _Import:
    def __init__(
        self,
        model: SourceModel,
        sizes: Mapping[str, int],
        is_examined: bool = False,
        has_deferred_nodes: bool = False,
    ) -> None:
        self.has_deferred_nodes = has_deferred_nodes
        """Whether nodes whose form a run decides become operations that it imports."""
        assert isinstance(model.content, OnnxContent)
        self.is_examined = is_examined
        """Whether to go on behind nodes that do not fit their operands."""
        self.results: dict[str, Sequence[Imported | None]] = {}
        self.arguments: dict[str, Imported] = {}
        self.microseconds: dict[str, float] = {}
        self.refused: dict[str, str] = {}
        """Why nodes cannot be converted, by name."""
        self.model = model
        self.content = model.content
        self.opsets = opset_versions(self.content.proto)
        self.program = ProgramBuilder(model, sizes)
        self.weights = self.program.weights
        self.problems: list[str] = []
        self.missing: dict[str, str] = {}
        """Tensors that could not be made; with a text where their first use is the problem."""
        self.nested_nodes = 0
        graph = self.content.proto.graph
        declared = [*graph.input, *graph.value_info]
        self.scope = Scope(self.content.weights, nodes=graph.node, declared=declared)
        self.build = Build(self.weights, self.program.knowledge, Block(), graphs=self)
        self.program.build = self.build

    def conversion(self, module: ModuleOp | None) -> Conversion:
        return Conversion(
            module=module,
            weights=self.weights,
            tensors=self.scope.values,
            arguments=self.arguments,
            results=self.results,
            microseconds=self.microseconds,
            problems=self.refused,
        )

    def run(self) -> tuple[ModuleOp, Weights]:
        graph = self.content.proto.graph
        for name in (t.values.name for t in graph.sparse_initializer):
            self.missing[name] = f"weight {name!r} is stored as a sparse tensor"
        for name, reason in self.content.problems.items():
            self.missing[name] = f"{name!r} ({reason})"
        self.scope.values |= self.program.inputs(left_out=self.content.problems)
        self._nodes(graph.node)
        results = [self._operand(output.name, "the model's output") for output in graph.output]
        if self.problems:
            count = len(self.problems)
            raise UnsupportedError(
                f"{count} node{'s' * (count > 1)} of {self.model.name} cannot be imported",
                problems=self.problems,
                hint="export the model with other operators, or cut it before these nodes; "
                "explorer.inspect(model) shows where they stand",
            )
        names = [output.name for output in graph.output]
        ports = [
            port
            for name, result in zip(names, results, strict=True)
            if result is not None
            for port in named_tensors(name, self._returned(result))
        ]
        return self.program.module(dict(ports)), self.weights

    def _returned(self, result: Imported) -> Imported:
        return self.program.returned(result) if isinstance(result, Expr) else result

    # -- graphs ----------------------------------------------------------------------------------
    def _nodes(self, nodes: Sequence[NodeProto]) -> None:
        for proto in nodes:
            begin = time.perf_counter()
            self._node(proto)
            self.microseconds[proto.name] = (time.perf_counter() - begin) * 1e6

    def _node(self, proto: NodeProto) -> None:
        """Converts a node of the model; its operations get identities, its results origins.

        Tensors of nested graphs are no origins: the oracle cannot show them.
        """
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        opset = self.opsets.get(domain, self.opsets[""] if not domain else 1)
        called = proto.name or self.build.source  # those of function bodies have no names
        reason = missing_reason(proto.op_type, domain, opset)
        if reason:
            self._problem(called, proto.op_type, domain, opset, reason)
        use = f"node {called}"
        names = ["" if self.scope.is_absent(name) else name for name in proto.input]
        operands = [self._operand(name, use) if name else None for name in names]
        is_open = any(name and o is None for name, o in zip(names, operands, strict=True))
        if reason or is_open:
            self._skip(proto)
            return
        self.program.begin(called)
        node: Node | None = None
        state = self.scope, self.opsets, self.build.block, self.build.block.last_op
        try:
            node = _make_node(proto, domain, opset, operands, called)
            if node.name in self.blocks().regroupings:
                node = replace(node, operator="Identity", operands=node.operands[:1])
            results = self._convert(node, proto, 0)
        except Undecided as undecided:
            if node is None or (found := self._left_to_a_run(node, proto, state)) is None:
                self._problem(called, proto.op_type, domain, opset, str(undecided))
                self._skip(proto)
                return
            results = found
        except Unsupported as unsupported:
            self._problem(called, proto.op_type, domain, opset, str(unsupported))
            self._skip(proto)
            return
        except UnsupportedError:
            raise
        # What a converter stumbles over is what it was given: nobody foresees all of it.
        except Exception as error:
            if self.is_examined and self.scope.outer is None:
                self._problem(called, proto.op_type, domain, opset, _first_line(error))
                self._skip(proto)
                return
            if isinstance(error, ExplorerError):
                error.node = error.node or called
                raise
            raise _not_converted(proto.op_type, called, error) from error
        for value in (tensor for r in results if r is not None for tensor in tensors_of(r)):
            check_rank(len(value.shape), f"the result of {node.operator}", node.name)
            sizes = [size for size in value.shape if isinstance(size, int)]
            if prod(size for size in sizes if size) > MAX_ELEMENTS:
                raise ModelError(
                    f"the result of {node.operator} has shape {format_shape(value.shape)}, "
                    f"more than {MAX_ELEMENTS:,} elements",
                    node=node.name,
                    hint="the file may be damaged",
                )
        self._finish(node, results)

    def _left_to_a_run(
        self, node: Node, proto: NodeProto, state: tuple[Scope, Any, Block, Operation | None]
    ) -> Sequence[Imported | None] | None:
        """The node as one operation that a run imports; None where that is not wanted or possible.

        What was made of the node so far is taken back.
        """
        if not self.has_deferred_nodes:
            return None
        self.scope, self.opsets, self.build.block, last = state
        discard(self.build.block, last)
        self.program.begin(node.name)
        return data_dependent_node(node, proto, self.opsets, self.build, to_top)

    def _finish(self, node: Node, results: Sequence[Imported | None]) -> None:
        self.results[node.name] = results
        for index, name in enumerate(node.results):
            value = results[index] if index < len(results) else None
            if value is None:
                self.missing[name] = f"result {index} ({name!r}) of {node.name} ({node.operator})"
            elif name:
                self.scope.values[name] = value
        final = [tensor for r in results if r is not None for tensor in tensors_of(r)]
        self.program.identify_all(node.name, node.operator, final)
        made = {
            name: value
            for name, value in zip(node.results, results, strict=False)
            if isinstance(value, Expr) and isinstance(value.value, OpResult) and name
        }
        is_outermost = self.scope.outer is None
        origins = {n: self.blocks().origin(n, v) for n, v in made.items() if is_outermost}
        self.program.finish(node.name, node.operator, made, origins)

    def _operand(self, name: str, use: str) -> Imported | None:
        """The tensor's value; None where it could not be made (which is, or becomes, a problem)."""
        found = self.scope.value(name)
        if found is not None:
            return found
        array = self.scope.array(name)
        if array is not None:
            self.program.begin("")
            value = self.build.contents(array, name)
            self.program.identify_weight()
            self.scope.values[name] = value
            return value
        reason = self.missing.get(name)
        if reason:
            self.problems.append(f"{use}: it uses {reason}, which is not supported")
            asks = use.removeprefix("node ")
            self.refused.setdefault(asks, f"it uses {reason}, which is not supported")
        self.missing[name] = ""
        return None

    def _skip(self, proto: NodeProto) -> None:
        """Goes on without a node and what needs its results; nested nodes are still checked."""
        for name in proto.output:
            self.missing[name] = ""
        for attribute in proto.attribute:
            if attribute.type != AttributeProto.GRAPH:
                continue
            for inner in walk(attribute.g):
                opset = self.opsets.get(inner.domain, 1)
                reason = missing_reason(inner.op_type, inner.domain, opset)
                if reason:
                    self._problem(inner.name, inner.op_type, inner.domain, opset, reason)

    def _problem(self, name: str, operator: str, domain: str, opset: int, reason: str) -> None:
        where = f"{domain or 'ai.onnx'} opset {opset}"
        self.refused.setdefault(name, reason)
        self.problems.append(f"node {name}: {operator} ({where}): {reason}")

    # -- nested graphs (`GraphImporter`) ---------------------------------------------------------
    def inline(self, graph: GraphProto, arguments: Sequence[Imported] = ()) -> list[Imported]:
        """A nested graph at the end of the current block; it sees the tensors around it."""
        build = self.build
        self.nested_nodes += len(graph.node) + 1
        if self.nested_nodes > MAX_NESTED_NODES:
            raise Unsupported(f"nested graphs of more than {MAX_NESTED_NODES:,} nodes in all")
        source, created, outer = build.source, build.created, self.scope
        arrays = {t.name: read_tensor(t, self.content.folder) for t in graph.initializer}
        names = [i.name for i in graph.input]
        declared = [*graph.input, *graph.value_info]
        self.scope = Scope(arrays, outer, nodes=graph.node, inputs=names, declared=declared)
        if len(arguments) != len(graph.input):
            raise ValueError(f"{len(arguments)} arguments for {len(graph.input)} inputs of a graph")
        for declared, argument in zip(graph.input, arguments, strict=True):
            if isinstance(argument, Expr) and _is_unnamed(argument.value):
                argument.value.name_hint = self.program.names.fresh(
                    stem_of(declared.name, "argument")
                )
            self.scope.values[declared.name] = self.arguments[declared.name] = argument
        problems = len(self.problems)
        made = list(created)
        for proto in graph.node:
            self._node(proto)
            made += build.created
            build.source = source
        found = [self._operand(output.name, "a nested graph") for output in graph.output]
        build.source, build.created = source, made
        results = [
            as_stored(r, build) if isinstance(r, Expr) else r for r in found if r is not None
        ]
        self.scope = outer
        if len(self.problems) > problems or len(results) != len(found):
            inner = self.problems[problems:]
            why = f" ({inner[0]})" if inner else ""
            raise Unsupported(f"nodes of its nested graph cannot be imported{why}")
        return results

    def convert(self, node: Node) -> list[Imported | None]:
        """The results of a node whose operands are numbers, where those of another are not."""
        converter = find_converter(node.operator, node.domain, node.opset)
        if converter is None or converter.on_strings:
            raise Unsupported(f"{node.operator} of strings")
        results = converter.convert(node, self.build)
        return [results] if isinstance(results, Imported) else list(results)

    def blocks(self) -> Blocks:
        """The tensors of this graph that onnxruntime laid out in blocks of channels."""
        scope = self.scope
        if scope.found_blocks is None:
            scope.found_blocks = Blocks(0)
            if is_blocked(scope.nodes):
                try:
                    scope.found_blocks = find_blocks(
                        scope.nodes, scope.array, scope.declared, self.block_size
                    )
                except (Unsupported, ValueError, IndexError) as error:
                    scope.found_blocks = Blocks(0, problem=str(error))
        return scope.found_blocks

    @cached_property
    def block_size(self) -> int:
        return find_block_size(self.content)

    def maker(self, tensor: str) -> NodeProto | None:
        """The node, here or around, that makes a tensor; None for inputs and weights."""
        return self.scope.maker(tensor)

    def attempt(self, build: Callable[[], Found]) -> Found | Exception:
        """What `build` returns; the exception, and no trace of it, where it is not possible."""
        state, scope, missing = self.build, self.scope, dict(self.missing)
        problems, refused, opsets = list(self.problems), dict(self.refused), self.opsets
        block, source, created = state.block, state.source, list(state.created)
        last = block.last_op
        try:
            return build()
        except (Unsupported, UnsupportedError, ModelError, ValueError) as error:
            self.scope, self.missing, self.opsets = scope, missing, opsets
            self.problems, self.refused = problems, refused
            state.block, state.source, state.created = block, source, created
            discard(block, last)
            return error

    # -- one node ----------------------------------------------------------------------------------
    def _convert(self, node: Node, proto: NodeProto, depth: int) -> list[Imported | None]:
        check_node(node)
        on_strings = any(isinstance(operand, StringTensor) for operand in node.operands)
        converter = find_converter(node.operator, node.domain, node.opset, on_strings)
        if converter is not None:
            suited = with_suited_operands(node, converter.knows_quantized, self.build)
            results = converter.convert(suited, self.build)
            is_one = isinstance(results, Imported)
            return [results] if is_one else list(results)
        suited = with_one_type(node, self.build)
        types = [type_of_operand(o) for o in suited.operands]
        body = function_body(suited, proto, types)
        suited = with_suited_operands(suited, False, self.build)
        if body is None or depth > _DEEPEST_FUNCTION:
            raise Unsupported("no conversion is known")
        axis, x = node.attributes.get("axis"), node.operands[0] if node.operands else None
        if isinstance(axis, int) and isinstance(x, Expr):
            self.build.axis(axis, x.rank)  # bodies slice shapes by it, which takes any number
        return as_declared(node, self._inline_function(suited, body, depth))

    def _inline_function(
        self, node: Node, body: FunctionProto, depth: int
    ) -> list[Imported | None]:
        """ONNX's own definition of an operator by other operators."""
        given = dict(zip(body.input, (*node.operands, *[None] * len(body.input)), strict=False))
        with self._function_scope(body, given) as values:
            for inner_proto in body.node:
                proto = with_attributes(inner_proto, node, body)
                operands = [values.get(name) for name in proto.input]
                opset = self.opsets.get(proto.domain, node.opset)
                inner = _make_node(proto, proto.domain, opset, operands, node.name)
                reason = missing_reason(inner.operator, inner.domain, opset)
                if reason:
                    raise Unsupported(f"its definition uses {inner.operator}: {reason}")
                results = self._convert(inner, proto, depth + 1)
                named = zip(proto.output, results, strict=False)
                values |= {name: value for name, value in named if name and value is not None}
            return [values.get(name) for name in body.output]

    @contextmanager
    def _function_scope(
        self, body: FunctionProto, given: Mapping[str, Imported | None]
    ) -> Iterator[dict[str, Imported]]:
        """A function sees its inputs and nothing else, under the opsets that it names itself."""
        scope, opsets = self.scope, self.opsets
        self.scope = Scope({}, None)
        self.scope.values = {name: v for name, v in given.items() if v is not None}
        self.scope.absent = {name for name, v in given.items() if v is None}
        self.opsets = {**opsets, **{o.domain: o.version for o in body.opset_import}}
        try:
            yield self.scope.values
        finally:
            self.scope, self.opsets = scope, opsets


def _not_converted(operator: str, called: str, error: Exception) -> ModelError:
    if isinstance(error, MemoryError):
        return ModelError(
            f"{operator} asks for more memory than there is",
            node=called,
            hint="look at the sizes in its attributes and constants; give smaller ones with "
            "--dim where they come from symbolic dimensions",
        )
    return ModelError(
        f"{operator} does not fit its operands: {damage_of(error)}",
        node=called,
        hint="check the sizes given to symbolic dimensions; else the file is damaged",
    )


def _is_unnamed(value: SSAValue) -> bool:
    return isinstance(value, BlockArgument) and value.name_hint is None


def _first_line(error: Exception) -> str:
    message = error.message if isinstance(error, ExplorerError) else damage_of(error)
    return message.split("\n")[0]


def _make_node(
    proto: NodeProto,
    domain: str,
    opset: int,
    operands: Sequence[Imported | None],
    name: str = "",
) -> Node:
    return Node(
        name=name or proto.name,
        operator=proto.op_type,
        domain=domain,
        opset=opset,
        attributes={a.name: attribute_value(a) for a in proto.attribute},
        operands=tuple(operands),
        results=tuple(proto.output),
    )
