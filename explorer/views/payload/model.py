"""The model's operators and what of it cannot be imported, as data for the explorer.

operators       [[domain, operator, version, family, nodes, made, parameters, problems,
                 explanation], ...]
source_lines    [[file, line, text, nodes, called], ...]
"""

from __future__ import annotations

from explorer.results import Trace
from explorer.views.payload.text import Json


def operators_payload(trace: Trace) -> Json:
    """One row for every operator, family by family; nodes by the identities they have at first."""
    return [
        [
            record.domain,
            record.operator,
            record.version,
            record.family,
            list(record.nodes),
            [list(pair) for pair in record.made],
            record.parameters,
            [list(pair) for pair in record.problems],
            record.explanation,
        ]
        for record in trace.operators
    ]


def problems_payload(trace: Trace) -> Json:
    """What cannot be imported: how many nodes of how many, and every reason by name."""
    nodes = {name for name, *_ in trace.model.source_nodes}
    refused = [name for name, _ in trace.problems if name in nodes]
    return {
        "nodes": len(refused),
        "of": trace.model.nodes,
        "reasons": [list(pair) for pair in trace.problems],
    }


def source_lines_payload(trace: Trace) -> Json:
    """Lines of the author's program; nodes by their indices in the chunk `source`."""
    index = {name: at for at, (name, *_) in enumerate(trace.model.source_nodes)}
    return [
        [
            line.place.file,
            line.place.line,
            line.place.text,
            [index[name] for name in line.nodes if name in index],
            [index[name] for name in line.called if name in index],
        ]
        for line in trace.model.source_lines
    ]
