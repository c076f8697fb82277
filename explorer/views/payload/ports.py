"""What limits every hot loop on a core's ports, as data for the explorer's pane."""

from __future__ import annotations

from explorer.results import LoopPorts, Trace
from explorer.views.payload.text import Json


def ports_payload(trace: Trace) -> Json:
    """None where nobody asked for it."""
    record = trace.ports
    if record is None:
        return None
    return {
        "core": record.core,
        "model": record.model,
        "analyser": record.analyser,
        "compiler": record.compiler,
        "note": record.note,
        "within": record.within,
        "loops": [_loop(loop) for loop in record.loops],
        "leftOut": [list(pair) for pair in record.left_out],
    }


def _loop(loop: LoopPorts) -> Json:
    return {
        "kernel": loop.kernel,
        "loop": " > ".join(loop.loop),
        "share": round(loop.share, 4),
        "cycles": round(loop.cycles, 2),
        "bound": round(loop.bound, 2),
        "limit": loop.limit,
        "ours": round(loop.predicted_cycles, 2),
        "oursLimit": loop.predicted_bound,
        "error": round(loop.error, 3),
        "peak": round(loop.peak_cycles, 2),
        "spills": round(loop.spills, 2),
        "merged": loop.merged,
        "ports": [[name, round(used, 2)] for name, used in loop.ports],
        "counts": [[kind, round(count, 2)] for kind, count in loop.counts],
        "text": list(loop.text),
    }
