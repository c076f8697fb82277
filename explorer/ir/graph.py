"""A module as the graph that a person looks at, and the difference of two snapshots."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from explorer.ir.operation import TopOperation, from_attribute, identity_of
from explorer.ir.origins import sources_of
from explorer.ir.structure import OperationRecord, device_of, functions, value_name
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.types import format_type
from explorer.results import Graph, GraphDiff, GraphEdge, GraphNode, NodeChange


def module_graph(module: ModuleOp) -> Graph:
    """Nodes are operations and the entry's inputs and outputs; weights are left out.

    Calls between functions are shown as the edges that they are: into the callee's arguments and
    out of its results.
    """
    builder = _GraphBuilder({f.sym_name.data: f for f in functions(module)})
    entry = builder.functions.get("main") or next(iter(builder.functions.values()))
    sources: dict[SSAValue, str] = {}
    for argument in entry.body.block.args:
        name = value_name(argument)
        kind = format_type(argument.type)
        builder.nodes.append(
            GraphNode(name, "input", name, "input", kind, (name,), device_of(entry))
        )
        sources[argument] = name
    outputs = builder.block(entry.body.block, sources, device_of(entry), "")
    for index, (source, value) in enumerate(outputs):
        identity = f"output{index + 1}"
        kind = format_type(value.type)
        builder.nodes.append(
            GraphNode(identity, "output", "output", "output", kind, (), device_of(entry))
        )
        if source:
            builder.edges.append(GraphEdge(source, identity, value_name(value), kind))
    return Graph(tuple(builder.nodes), tuple(builder.edges))


class _GraphBuilder:
    def __init__(self, functions_by_name: Mapping[str, func.FuncOp]):
        self.functions = functions_by_name
        self.nodes: list[GraphNode] = []
        self.edges: list[GraphEdge] = []

    def block(
        self, block: Block, sources: dict[SSAValue, str], device: str, scope: str
    ) -> list[tuple[str, SSAValue]]:
        """Adds a block's operations; returns the nodes that its terminator's operands come from."""
        for op in block.ops:
            if isinstance(op, ReturnOp | func.ReturnOp):
                return [(sources.get(o, ""), o) for o in op.operands]
            if isinstance(op, WeightOp):
                continue
            if isinstance(op, func.CallOp):
                called = self.functions[op.callee.string_value()]
                inner: dict[SSAValue, str] = {
                    a: sources[o]
                    for a, o in zip(called.body.block.args, op.operands, strict=True)
                    if o in sources
                }
                results = self.block(called.body.block, inner, device_of(called), scope)
                for result, (source, _) in zip(op.results, results, strict=True):
                    sources[result] = source
                continue
            self._operation(op, sources, device, scope)
        return []

    def _operation(
        self, op: Operation, sources: dict[SSAValue, str], device: str, scope: str
    ) -> None:
        identity = identity_of(op)
        is_top = isinstance(op, TopOperation)
        self.nodes.append(
            GraphNode(
                identity,
                op.name,
                op.label() if is_top else op.name,
                op.graph_family() if is_top else "control",
                format_type(op.results[0].type) if op.results else "",
                sources_of(op),
                device,
                _attributes(op),
                scope or _source_scope(sources_of(op)),
            )
        )
        for operand in op.operands:
            source = sources.get(operand)
            if source:
                self.edges.append(
                    GraphEdge(source, identity, value_name(operand), format_type(operand.type))
                )
        for result in op.results:
            sources[result] = identity
        for region in op.regions:
            for inner in region.blocks:
                for source, _ in self.block(inner, dict(sources), device, identity):
                    if source:
                        self.edges.append(GraphEdge(source, identity, "", ""))


def _attributes(op: Operation) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, _text(from_attribute(value)))
        for name, value in sorted(op.properties.items())
        if name != "operandSegmentSizes"
    )


def _text(value: object) -> str:
    return ", ".join(str(v) for v in value) if isinstance(value, tuple) else str(value)


def _source_scope(sources: tuple[str, ...]) -> str:
    """The name scope of the first source node: `/stage1/block0/conv` -> `stage1/block0`."""
    if not sources or "/" not in sources[0].strip("/"):
        return ""
    return sources[0].strip("/").rsplit("/", 1)[0]


def graph_diff(
    before: Mapping[str, OperationRecord],
    after: Mapping[str, OperationRecord],
    sources_before: Mapping[str, tuple[str, ...]],
    sources_after: Mapping[str, tuple[str, ...]],
) -> GraphDiff:
    """What appeared, disappeared, changed, and which new operation took over whose sources.

    Operations are matched by identity, weights left out.
    """
    added = tuple(k for k, r in after.items() if k not in before and r.name != WeightOp.name)
    removed = tuple(k for k, r in before.items() if k not in after and r.name != WeightOp.name)
    changed: list[NodeChange] = []
    for identity, new in after.items():
        old = before.get(identity)
        if old is not None and old != new and new.name != WeightOp.name:
            changed.extend(_changes(old, new))
    fused = []
    for identity in (*added, *dict.fromkeys(c.id for c in changed)):
        own = set(sources_after.get(identity, ()))
        parents = tuple(r for r in removed if own & set(sources_before.get(r, ())))
        if len(parents) + (identity in before) > 1:
            fused.append((identity, parents))
    return GraphDiff(added, removed, tuple(changed), tuple(fused))


def _changes(old: OperationRecord, new: OperationRecord) -> list[NodeChange]:
    changes = []
    if old.operands != new.operands:
        changes.append(
            NodeChange(new.identity, "operands", ", ".join(old.operands), ", ".join(new.operands))
        )
    old_types = ", ".join(format_type(t) for t in old.types)
    new_types = ", ".join(format_type(t) for t in new.types)
    if old_types != new_types:
        changes.append(NodeChange(new.identity, "type", old_types, new_types))
    before, after = dict(old.properties), dict(new.properties)
    for name in dict.fromkeys([*before, *after]):
        if before.get(name) != after.get(name):
            changes.append(
                NodeChange(
                    new.identity,
                    name,
                    _text(from_attribute(before[name])) if name in before else "",
                    _text(from_attribute(after[name])) if name in after else "",
                )
            )
    return changes
