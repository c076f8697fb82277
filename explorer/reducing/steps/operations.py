"""Leaves out operations: delta debugging over nodes, then nodes that only pass a value on.

conv -> relu -> add      without relu: its result is an input, with the reference's value
conv -> relu -> add      past relu:    add reads what conv made
"""

from __future__ import annotations

from collections.abc import Iterator

from onnx import NodeProto

from explorer.importers.onnx.file.reads import reads
from explorer.reducing.candidate import Candidate, intermediates
from explorer.reducing.graphs import changed, copied, part, with_outputs
from explorer.reducing.trials import Trials


def drop_outputs(trials: Trials, candidate: Candidate) -> Candidate:
    """Without outputs that nothing depends on, and without what only they need."""
    names = [value.name for value in candidate.model.graph.output]
    if len(names) > 1:
        trials.report("leaving out outputs", candidate)
    for chosen in ([name] for name in names) if len(names) > 1 else ():
        found = with_outputs(candidate, chosen)
        if found is not None and trials.fails(found):
            return found
    for name in names:
        rest = [v.name for v in candidate.model.graph.output if v.name != name]
        found = with_outputs(candidate, rest) if rest else None
        if found is not None and trials.fails(found):
            candidate = found
    return candidate


def drop_operations(trials: Trials, candidate: Candidate) -> Candidate:
    """Without nodes, in ever smaller groups of neighbours."""
    size = candidate.operations // 2
    while size:
        trials.report("leaving out operations", candidate)
        first = 0
        while first < candidate.operations and candidate.operations > 1:
            numbers = range(candidate.operations)
            kept = [n for n in numbers if not first <= n < first + size]
            found = part(candidate, kept) if kept else None
            if found is not None and trials.fails(found):
                candidate = found
            else:
                first += size
        size //= 2
    return candidate


def pass_by_operations(trials: Trials, candidate: Candidate) -> Candidate:
    """Without nodes of which the result may be replaced by an operand of its type and sizes."""
    number = 0
    while number < candidate.operations:
        trials.report("passing by operations", candidate)
        found = next((c for c in _past(candidate, number) if trials.fails(c)), None)
        if found is None:
            number += 1
        else:
            candidate = found
    return candidate


def _past(candidate: Candidate, number: int) -> Iterator[Candidate]:
    node = candidate.model.graph.node[number]
    outputs = {value.name for value in candidate.model.graph.output}
    if len(node.output) != 1 or node.output[0] in outputs:
        return
    result = node.output[0]
    constants = {tensor.name for tensor in candidate.model.graph.initializer}
    operands = [name for name in reads(node) if name not in constants]
    values = intermediates(candidate, [result, *operands])
    for name in operands:
        if name not in values or result not in values:
            continue
        if (values[name].shape, values[name].dtype) != (values[result].shape, values[result].dtype):
            continue
        graph = copied(candidate)
        del graph.node[number]
        for other in graph.node:
            _rename(other, result, name)
        found = changed(candidate, graph)
        if found is not None:
            yield found


def _rename(node: NodeProto, old: str, new: str) -> None:
    """In what the node reads, its inner graphs included."""
    for index, name in enumerate(node.input):
        if name == old:
            node.input[index] = new
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                _rename(inner, old, new)
            for value in graph.output:
                if value.name == old:
                    value.name = new
