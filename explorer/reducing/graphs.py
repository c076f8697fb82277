"""Parts of a model: nodes that are cut out, with the reference's values as new inputs.

    conv -> relu -> add -> mul                 part(candidate, [1, 2])
                                               inputs  conv's result, add's other operand
                                               outputs add's result

What a part reads and does not compute is an input with the value that it had in the whole model,
so that each part computes what it computed there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from onnx import GraphProto, ModelProto, NodeProto

from explorer.editing.graphs import keep_named, needed_nodes
from explorer.importers.onnx.file.reads import reads
from explorer.reducing.candidate import Candidate, intermediates, settled, value_info


def part(candidate: Candidate, chosen: Sequence[int]) -> Candidate | None:
    """The nodes of these numbers as a model; None where there is none, or no value to begin with.

    Outputs are those of the whole model, and what the other nodes or nobody reads.
    """
    graph = candidate.model.graph
    wanted = set(chosen)
    nodes = [graph.node[number] for number in sorted(wanted)]
    made = {name for node in nodes for name in node.output if name}
    inside = {name for node in nodes for name in reads(node)}
    others = (node for number, node in enumerate(graph.node) if number not in wanted)
    outside = {name for node in others for name in reads(node)}
    outside |= {value.name for value in graph.output}
    outputs = [n for node in nodes for n in node.output if n in outside or (n and n not in inside)]
    constants = {tensor.name for tensor in graph.initializer}
    needed = [name for node in nodes for name in reads(node) if name not in made | constants]
    return _model(candidate, nodes, list(dict.fromkeys(needed)), list(dict.fromkeys(outputs)))


def with_outputs(candidate: Candidate, outputs: Collection[str]) -> Candidate | None:
    """The model with some of its outputs, and without what only the others need."""
    graph = candidate.model.graph
    nodes, needed = needed_nodes(graph.node, outputs)
    made = {name for node in nodes for name in node.output}
    given = [v.name for v in graph.input if v.name in needed and v.name not in made]
    kept = [value.name for value in graph.output if value.name in outputs]
    return _model(candidate, nodes, given, kept)


def changed(
    candidate: Candidate, graph: GraphProto, inputs: dict | None = None
) -> Candidate | None:
    """The model with another graph, without nodes and constants that no output needs."""
    model = ModelProto()
    model.CopyFrom(candidate.model)
    model.graph.CopyFrom(graph)
    given = dict(candidate.inputs if inputs is None else inputs)
    nodes, needed = needed_nodes(graph.node, {value.name for value in graph.output})
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    keep_named(model.graph.initializer, needed)
    keep_named(model.graph.input, needed)
    inputs = {name: array for name, array in given.items() if name in needed}
    return settled(model, inputs, candidate.is_interpreted)


def copied(candidate: Candidate) -> GraphProto:
    graph = GraphProto()
    graph.CopyFrom(candidate.model.graph)
    return graph


def _model(
    candidate: Candidate, nodes: Iterable[NodeProto], needed: list[str], outputs: list[str]
) -> Candidate | None:
    whole = candidate.model
    nodes = list(nodes)
    values = intermediates(candidate, [*needed, *outputs])
    kept = [name for name in outputs if name in values]
    if not nodes or not kept or any(name not in values for name in needed):
        return None
    read = {name for node in nodes for name in reads(node)}
    model = ModelProto(ir_version=whole.ir_version, functions=whole.functions)
    model.opset_import.extend(whole.opset_import)
    model.graph.name = whole.graph.name
    model.graph.node.extend(nodes)
    model.graph.input.extend(value_info(name, values[name]) for name in needed)
    model.graph.output.extend(value_info(name, values[name]) for name in kept)
    model.graph.initializer.extend(t for t in whole.graph.initializer if t.name in read)
    inputs = {name: values[name] for name in needed}
    expected = {name: values[name] for name in kept}
    return Candidate(model, inputs, expected, is_interpreted=candidate.is_interpreted)
