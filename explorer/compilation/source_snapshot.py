"""The model as it is: the snapshot before the first pass, and its operators in a table.

    source_snapshot(model, opened.source, weights).run(inputs)     the reference itself

It has no operations of ours to execute: whoever runs the source model is the reference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType

from explorer.accuracy.oracle import reference
from explorer.importers import SourceModel
from explorer.importers.building.decomposition import NOT_EXPLAINED
from explorer.ir.dialects.source import SOURCE_LEVEL, ConstantOp, NodeOp
from explorer.ir.operation import identity_of
from explorer.ir.origins import sources_of
from explorer.ir.program import Executor, Snapshot
from explorer.ir.rewriting import Rewrite
from explorer.ir.structure import functions, operations, value_name
from explorer.ir.top.data import WeightOp
from explorer.ir.types import is_static, static_shape
from explorer.ir.weights import Weights
from explorer.results import OperatorRecord


def source_snapshot(model: SourceModel, source: ModuleOp, weights: Weights) -> Snapshot:
    """The program of the model's own nodes; running it runs the model in the oracle."""
    return Snapshot(source, weights, SOURCE_LEVEL, _executor(model))


def _executor(model: SourceModel) -> Executor:
    def execute(
        snapshot: Snapshot, inputs: Mapping[str, np.ndarray], replaced: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        del replaced  # the model runs as it is: nothing is put into it
        names = tensor_names(snapshot)
        tensors = reference(model, inputs, list(names.values()))
        return {value: tensors[name] for value, name in names.items() if name in tensors}

    return execute


def tensor_names(source: Snapshot) -> dict[str, str]:
    """The model's names of the values of its outermost graph."""
    (function,) = functions(source.program)
    return {
        value_name(result): name
        for op in function.body.block.ops
        if isinstance(op, NodeOp)
        for result, name in zip(op.results, op.tensor_names(), strict=True)
        if name
    }


def operator_records(
    source: Snapshot,
    rewrites: tuple[Rewrite, ...],
    problems: Mapping[str, str] | None = None,
    explanations: Mapping[str, str] | None = None,
) -> tuple[OperatorRecord, ...]:
    """One record for every operator of the model, family by family, the most frequent first.

    rewrites: of the import, for what each became. problems: by node, where the model was only
    examined. explanations: by identity; those of the rewrites where it is None.
    """
    made = {r.site: [a.name for a in r.added if a.name != WeightOp.name] for r in rewrites}
    words = {r.site: r.explanation for r in rewrites} if explanations is None else explanations
    words = {site: said for site, said in words.items() if said != NOT_EXPLAINED}
    groups: dict[tuple[str, str, int], list[NodeOp]] = {}
    for op in operations(source.program):
        if isinstance(op, NodeOp):
            key = op.domain_name, op.operator.data, op.get("version")
            groups.setdefault(key, []).append(op)
    records = [_record(key, nodes, made, problems or {}, words) for key, nodes in groups.items()]
    return tuple(sorted(records, key=lambda r: (r.family, -len(r.nodes), r.domain, r.operator)))


def _record(
    key: tuple[str, str, int],
    nodes: list[NodeOp],
    made: Mapping[str, list[str]],
    problems: Mapping[str, str],
    explanations: Mapping[str, str],
) -> OperatorRecord:
    domain, operator, version = key
    counts: dict[str, int] = {}
    for node in nodes:
        for name in made.get(identity_of(node), ()):
            counts[name] = counts.get(name, 0) + 1
    return OperatorRecord(
        domain=domain,
        operator=operator,
        version=version,
        family=nodes[0].graph_family(),
        nodes=tuple(identity_of(node) for node in nodes),
        made=tuple(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))),
        parameters=sum(_parameters(node) for node in nodes),
        problems=tuple(
            (identity_of(node), problems[sources_of(node)[0]])
            for node in nodes
            if sources_of(node)[0] in problems
        ),
        explanation=next((w for n in nodes if (w := explanations.get(identity_of(n)))), ""),
    )


def _parameters(node: NodeOp) -> int:
    """Elements of the constants that the node takes; one that several take counts for each."""
    return sum(
        math.prod(static_shape(operand))
        for operand in node.operands
        if isinstance(operand.owner, ConstantOp)
        and isinstance(operand.type, TensorType)
        and is_static(operand)
    )
