"""Control flow as ONNX nodes, whose graphs are written like the model's own."""

from __future__ import annotations

import numpy as np

from explorer.exporters.onnx.nodes import Nodes, writes
from explorer.ir.top.control import IfOp, LoopOp


@writes(IfOp)
def if_(op: IfOp, out: Nodes) -> list[str]:
    graphs = [out.write_region(region.block, out, ()) for region in op.regions]
    return out.nodes(
        "If", len(op.results), op.condition, then_branch=graphs[0], else_branch=graphs[1]
    )


@writes(LoopOp)
def loop(op: LoopOp, out: Nodes) -> list[str]:
    """ONNX's body always takes a condition and returns one: true where there is none."""
    is_open = op.condition is not None
    graph = out.write_region(op.body.block, out, () if is_open else ("go_on",))
    trips = op.get("trip_count")
    count = op.count if trips is None else out.constant(np.array(trips, np.int64))
    return out.nodes("Loop", len(op.results), count, op.condition, *op.states, body=graph)
