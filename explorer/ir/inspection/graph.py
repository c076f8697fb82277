"""A module as the graph that a person looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from explorer.ir.evaluation import input_names, output_names_given
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import sources_of
from explorer.ir.states import states_of
from explorer.ir.structure import (
    device_of,
    functions,
    host_reason_of,
    value_name,
)
from explorer.ir.types import format_type
from explorer.results import Graph, GraphEdge, GraphNode

Known = Mapping[str, tuple[Operation, GraphNode]]
"""Operations of an earlier program by identity, each with its node."""


def module_graph(module: ModuleOp, known: Known | None = None) -> Graph:
    """Nodes are operations and the entry's inputs and outputs, by their names in the source model;
    weights are left out.

    Calls between functions are shown as the edges that they are: into the callee's arguments and
    out of its results. Operations that are what they were in an earlier program keep their nodes:
    most passes leave most operations alone.
    """
    builder = _GraphBuilder({f.sym_name.data: f for f in functions(module)}, known or {})
    entry = builder.functions.get("main") or next(iter(builder.functions.values()))
    sources: dict[SSAValue, str] = {}
    written = {state.output: state.input for state in states_of(entry)}
    kept = {state: output for output, state in written.items()}
    given = dict(zip(entry.body.block.args, input_names(entry), strict=False))
    for argument in entry.body.block.args:
        name = value_name(argument)
        label = given.get(argument, name)
        kind = format_type(argument.type)
        builder.nodes.append(
            GraphNode(
                id=name,
                operation="input",
                label=label,
                family="input",
                shape=kind,
                sources=(name,),
                device=device_of(entry),
                attributes=_state(f"kept from call to call; {kept[label]} is written to it")
                if label in kept
                else (),
            )
        )
        sources[argument] = name
    outputs = builder.block(entry.body.block, sources, device_of(entry), Nesting())
    names = output_names_given(entry)
    for index, (source, value) in enumerate(outputs):
        label = names[index] if index < len(names) else "output"
        identity = f"output{index + 1}"
        kind = format_type(value.type)
        builder.nodes.append(
            GraphNode(
                id=identity,
                operation="output",
                label=label,
                family="output",
                shape=kind,
                sources=(),
                device=device_of(entry),
                attributes=_state(f"written to {written[label]}, which the next call reads")
                if label in written
                else (),
            )
        )
        if source:
            builder.edges.append(GraphEdge(source, identity, value_name(value), kind))
    return Graph(tuple(builder.nodes), tuple(builder.edges))


def _state(words: str) -> tuple[tuple[str, str], ...]:
    return (("state", words),)


@dataclass(frozen=True)
class Nesting:
    """Where an operation stands: name scope of the outermost one around it, regions inside."""

    scope: str = ""
    regions: tuple[str, ...] = ()

    def inside(self, operation: str, region: str) -> Nesting:
        """In a region of an operation that stands here."""
        return Nesting(self.scope, (*self.regions, operation, region))


class _GraphBuilder:
    def __init__(self, functions_by_name: Mapping[str, func.FuncOp], known: Known):
        self.functions = functions_by_name
        self.known = known
        self.nodes: list[GraphNode] = []
        self.edges: list[GraphEdge] = []
        self.type_texts: dict[int, str] = {}

    def block(
        self, block: Block, sources: dict[SSAValue, str], device: str, place: Nesting
    ) -> list[tuple[str, SSAValue]]:
        """Adds a block's operations; returns the nodes that its terminator's operands come from."""
        last = block.last_op
        for op in block.ops:
            if op is last and op.has_trait(IsTerminator):
                return [(sources.get(o, ""), o) for o in op.operands]
            if isinstance(op, TopOperation) and op.is_data:
                continue
            if isinstance(op, func.CallOp):
                called = self.functions[op.callee.string_value()]
                inner: dict[SSAValue, str] = {
                    a: sources[o]
                    for a, o in zip(called.body.block.args, op.operands, strict=True)
                    if o in sources
                }
                results = self.block(called.body.block, inner, device_of(called), place)
                for result, (source, _) in zip(op.results, results, strict=True):
                    sources[result] = source
                continue
            self._operation(op, sources, device, place)
        return []

    def _operation(
        self, op: Operation, sources: dict[SSAValue, str], device: str, place: Nesting
    ) -> None:
        identity = identity_of(op)
        node = self._node(op, identity, device, place)
        self.nodes.append(node)
        for operand in op.operands:
            source = sources.get(operand)
            if source:
                self.edges.append(
                    GraphEdge(source, identity, value_name(operand), self.type_text(operand.type))
                )
        for result in op.results:
            sources[result] = identity
        if op.regions:
            self._regions(op, sources, device, Nesting(node.scope, place.regions))

    def type_text(self, kind: Attribute) -> str:
        """As `format_type`. Values share the objects of their types, which are found faster by
        their address than by what they hold."""
        if id(kind) not in self.type_texts:
            self.type_texts[id(kind)] = format_type(kind)
        return self.type_texts[id(kind)]

    def _node(self, op: Operation, identity: str, device: str, place: Nesting) -> GraphNode:
        # What holds regions stands in the box that is drawn around them.
        regions = (*place.regions, identity) if op.regions else place.regions
        if identity in self.known:
            before, node = self.known[identity]
            is_there = node.device == device and node.regions == regions
            if is_there and (not regions or node.scope == place.scope) and _is_same(op, before):
                return node
        is_top = isinstance(op, TopOperation)
        sources = sources_of(op)
        return GraphNode(
            id=identity,
            operation=op.name,
            label=op.label() if is_top else op.name,
            family=op.graph_family() if is_top else "control",
            shape=format_type(op.results[0].type) if op.results else "",
            sources=sources,
            device=device,
            attributes=_attributes(op),
            scope=place.scope if place.regions else _source_scope(sources),
            regions=regions,
            problem=op.graph_problem() if is_top else "",
        )

    def _regions(
        self, op: Operation, sources: dict[SSAValue, str], device: str, place: Nesting
    ) -> None:
        """What stands in an operation's regions, with edges from what a region takes to what it
        returns, which the operation hands on."""
        identity = identity_of(op)
        is_top = isinstance(op, TopOperation)
        names = op.region_names() if is_top else ("body",) * len(op.regions)
        for index, (region, name) in enumerate(zip(op.regions, names, strict=True)):
            inner = dict(sources)
            taken = op.region_operands(index) if is_top else ()
            for argument, operand in zip(region.block.args, taken, strict=False):
                if operand is not None and operand in sources:
                    inner[argument] = sources[operand]
            inside = place.inside(identity, name)
            for source, value in self.block(region.block, inner, device, inside):
                if source:
                    self.edges.append(
                        GraphEdge(source, identity, value_name(value), format_type(value.type))
                    )


def _is_same(op: Operation, before: Operation) -> bool:
    """Whether two operations have equal nodes, apart from where they stand.

    A node follows from properties, attributes, location, and the types of operands and results;
    copies share these objects, so that comparing them costs little.
    """
    return (
        type(op) is type(before)
        and op.location == before.location
        and op.properties == before.properties
        and op.attributes == before.attributes
        and [r.type for r in op.results] == [r.type for r in before.results]
        and [o.type for o in op.operands] == [o.type for o in before.operands]
        and not op.regions
    )


def _attributes(op: Operation) -> tuple[tuple[str, str], ...]:
    """What a person reads about an operation, with the reason why the host runs it."""
    own = op.graph_attributes() if isinstance(op, TopOperation) else ()
    reason = host_reason_of(op)
    return (*own, ("on the host", reason)) if reason else own


def _source_scope(sources: tuple[str, ...]) -> str:
    """The name scope of the first source node: `/stage1/block0/conv` -> `stage1/block0`."""
    if not sources or "/" not in sources[0].strip("/"):
        return ""
    return sources[0].strip("/").rsplit("/", 1)[0]
