"""A model that cannot be compiled, shown as it is, with where it fails.

refused_trace("net.onnx", {"sequence": 128}, error)
    ->  the model's own nodes; those at fault say why, and so do `Trace.problems`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from explorer.errors import ExplorerError, NotQuantizedError, UnsupportedError
from explorer.files import ModelPath
from explorer.results import Graph, Trace
from explorer.results.trace import SnapshotRecord

WHOLE = "the model"
"""What is at fault where the error names no node."""


def refused_trace(path: ModelPath, sizes: Mapping[str, int], error: Exception) -> Trace:
    """Whatever was raised when the model was to be compiled at these sizes.

    Raises what was raised then where the file holds no model that could be shown.
    """
    import explorer as ex

    try:
        trace = ex.inspect(path, dict(sizes) or None).trace()
    except ExplorerError:
        try:
            trace = ex.inspect(path).trace()  # the sizes themselves may be at fault
        except ExplorerError:
            raise error from None
    problems = trace.problems or _problems(error)
    needed = isinstance(error, NotQuantizedError)
    return _marked(replace(trace, problems=problems, needs_quantization=needed))


def _problems(error: Exception) -> tuple[tuple[str, str], ...]:
    """(what, why), one pair for each thing that the error names."""
    if isinstance(error, UnsupportedError) and error.problems:
        pairs = (problem.partition(": ") for problem in error.problems)
        return tuple((what, why) for what, _, why in pairs)
    if isinstance(error, ExplorerError):
        hint = f"; try: {error.hint}" if error.hint else ""
        return ((error.node or WHOLE, error.message + hint),)
    lines = str(error).strip().splitlines()
    words = f": {lines[0]}" if lines else ""
    return ((WHOLE, f"the compiler failed with {type(error).__name__}{words}"),)


def _marked(trace: Trace) -> Trace:
    """With the nodes at fault marked in the graph, too."""
    source = trace.source
    assert source is not None, "what was only inspected has its source"
    reasons = dict(trace.problems)
    nodes = []
    for node in source.graph.nodes:
        why = next((reasons[name] for name in (*node.sources, node.id) if name in reasons), "")
        is_new = why and not node.problem
        nodes.append(replace(node, problem=why) if is_new else node)
    graph = Graph(tuple(nodes), source.graph.edges)
    return replace(trace, source=SnapshotRecord(source.text, graph))
