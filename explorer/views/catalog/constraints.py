"""What must hold between the symbolic sizes of a model, and which nodes need it.

must hold  kind   operation  nodes
s <= 512   bound  position   Add_3
"""

from __future__ import annotations

from explorer.results import Trace
from explorer.views.specification import Column, Part, Row, Specification, TableSpec, Text
from explorer.views.view import View


def constraints(trace: Trace, index: int = -1) -> Specification:
    """One row per constraint."""
    table = constraints_table(trace)
    part: Part = table if table.rows else Text(text="no constraints")
    return Specification(title="constraints", parts=(part,))


def constraints_table(trace: Trace) -> TableSpec:
    """What must hold, and the operations and nodes that need it."""
    rows = tuple(
        Row(
            cells={
                "text": found.text,
                "kind": found.kind,
                "operation": found.operation,
                "nodes": ", ".join(found.nodes),
            },
            operations=(found.operation,),
        )
        for found in trace.constraints
    )
    columns = (
        Column(key="text", title="must hold"),
        Column(key="kind", title="kind"),
        Column(key="operation", title="operation"),
        Column(key="nodes", title="nodes"),
    )
    return TableSpec(title="constraints of symbolic sizes", columns=columns, rows=rows)


VIEW = View(
    name="constraints",
    title="what must hold between symbolic sizes",
    specification=constraints,
    json=lambda trace, _: trace.constraints,
)
