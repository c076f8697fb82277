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
        Column(key="text", title="must hold", format="name"),
        Column(key="kind", title="kind"),
        Column(key="operation", title="operation"),
        Column(key="nodes", title="nodes"),
    )
    table: Part = TableSpec(title="constraints of symbolic sizes", columns=columns, rows=rows)
    return Specification(
        title="constraints", parts=(table if rows else Text(text="no constraints"),)
    )


VIEW = View(
    name="constraints",
    title="what must hold between symbolic sizes",
    specification=constraints,
    json=lambda trace, _: trace.constraints,
)
