"""What of the model cannot be imported, and its author's lines, as data for the explorer.

source_lines    [[file, line, text, nodes, called], ...]
"""

from __future__ import annotations

from explorer.results import Trace
from explorer.views.payload.text import Json


def problems_payload(trace: Trace) -> Json:
    """What cannot be imported: how many nodes of how many, and every reason by name."""
    nodes = {name for name, *_ in trace.model.source_nodes}
    refused = [name for name, _ in trace.problems if name in nodes]
    return {
        "nodes": len(refused),
        "of": trace.model.nodes,
        "reasons": [list(pair) for pair in trace.problems],
        "quantize": trace.needs_quantization,
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
