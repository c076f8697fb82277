"""The model as it is, as the step before the first pass of a trace.

    passes of a trace     import, fold-constants, ...
    steps of a view       model, import, fold-constants, ...

So the model is reached, linked and searched like the program after any pass, and what the import
did to it is a difference like any other. A trace of a model of which not everything can be
imported has this step only.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.results import GraphDiff, PassRecord, Trace

MODEL_STEP = "model"
SOURCE_LEVEL = "source"


def with_model_step(trace: Trace) -> Trace:
    """The trace with the model as its first pass; the same one where it has it, or holds none."""
    if trace.source is None or (trace.passes and trace.passes[0].level == SOURCE_LEVEL):
        return trace
    count = trace.model.nodes
    record = PassRecord(
        name=MODEL_STEP,
        description=f"The {trace.model.format or 'model'} file as it is: its own operators, before "
        "anything is made of them.",
        level=SOURCE_LEVEL,
        seconds=0.0,
        changed=False,
        operations_before=count,
        operations_after=count,
        macs=0,
        peak_bytes=0,
        events=(),
    )
    return replace(
        trace,
        passes=(record, *trace.passes),
        snapshots=(trace.source, *trace.snapshots),
        diffs=(GraphDiff(), *trace.diffs),
    )
