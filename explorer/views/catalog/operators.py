"""The model's operators by family, and what of it cannot be imported.

digits_cnn: 17 nodes, 32 k parameters
  family                                 operator  nodes  operator set  imported as
  ▦ convolution, matrix multiplication   Conv          3  ai.onnx 17    3 conv
  ƒ elementwise                          Relu          4  ai.onnx 17    4 unary
"""

from __future__ import annotations

from explorer.results import OperatorRecord, Trace
from explorer.views.catalog.constraints import constraints_table
from explorer.views.fixed_numbers import MODEL
from explorer.views.model_step import MODEL_STEP
from explorer.views.numbers import format_amount, format_exact
from explorer.views.parts.markup import shorten
from explorer.views.specification import (
    Cell,
    Column,
    Part,
    Row,
    Section,
    Specification,
    TableSpec,
)
from explorer.views.theme import UNSUPPORTED, family
from explorer.views.view import Pane, View

MAX_MADE = 4
"""Kinds of operations that an operator became, in a cell."""
COLUMNS = (
    Column(key="family", title="family"),
    Column(key="operator", title="operator", format="name"),
    Column(
        key="nodes",
        title="nodes",
        format="count",
        hint="how many nodes of the model; a click selects one after the other",
        moves=MODEL,
    ),
    Column(key="set", title="operator set"),
    Column(
        key="made",
        title="imported as",
        hint="operations that the import made of all of them",
    ),
    Column(
        key="parameters",
        title="parameters",
        format="amount",
        hint="elements of the constants that the nodes take",
        moves="weights_bytes",
    ),
    Column(
        key="problems",
        title="problems",
        format="count",
        hint="nodes that cannot be imported",
        is_for_page=True,
        moves=MODEL,
    ),
)


def operators(trace: Trace, index: int = -1) -> Specification:
    """What cannot be imported first, then the operators family by family."""
    parts: list[Part] = []
    if trace.problems:
        title = "cannot be imported" if _refused(trace) else "cannot be compiled"
        parts.append(Section(title=title, parts=(_problems(trace),)))
    if trace.constraints:
        table = constraints_table(trace)
        title = "What must hold between sizes"
        parts.append(Section(title=title, parts=(table,), is_for_page=True))
    parts.append(
        TableSpec(
            title="operators of the model",
            columns=COLUMNS,
            rows=tuple(_row(record, trace) for record in trace.operators),
            facet="family",
        )
    )
    words = _words(trace)
    if words.rows:
        parts.append(Section(title="explained", parts=(words,), is_for_page=False))
    return Specification(
        title=operators_title(trace), subtitle=operators_title(trace), parts=tuple(parts)
    )


def operators_title(trace: Trace) -> str:
    """`digits_cnn: 17 nodes, 32 k parameters`, or how many nodes cannot be imported."""
    model = trace.model
    name = shorten(model.name, 60)
    refused = _refused(trace)
    if refused:
        return f"{name}: {refused} of {format_exact(model.nodes)} nodes cannot be imported"
    if trace.problems:
        return f"{name}: cannot be compiled"
    return (
        f"{name}: {format_exact(model.nodes)} nodes, {format_amount(model.parameters)} parameters"
    )


def _refused(trace: Trace) -> int:
    """How many nodes cannot be imported; a problem may concern the whole model."""
    names = {node for node, *_ in trace.model.source_nodes}
    return sum(node in names for node, _ in trace.problems)


def _row(record: OperatorRecord, trace: Trace) -> Row:
    look = family(record.family)
    reasons = "\n".join(reason for _, reason in record.problems)
    return Row(
        operations=record.nodes,
        pass_name=MODEL_STEP,
        cells={
            "family": Cell(value=look.title, look=look),
            "operator": Cell(
                value=record.name,
                text=shorten(record.name, 60),
                exact=" ".join((record.name + ". " + record.explanation).split()),
            ),
            "nodes": len(record.nodes),
            "set": f"{shorten(record.domain or 'ai.onnx', 32)} {record.version}",
            "made": _made(record, trace),
            "parameters": record.parameters or None,
            "problems": Cell(value=len(record.problems), look=UNSUPPORTED, exact=reasons)
            if record.problems
            else None,
        },
    )


def _made(record: OperatorRecord, trace: Trace) -> Cell:
    made = [f"{count} {name.removeprefix('top.')}" for name, count in record.made]
    more = f" +{len(made) - MAX_MADE}" if len(made) > MAX_MADE else ""
    words = ", ".join(made[:MAX_MADE]) + more
    if record.problems:
        refused = f"{len(record.problems)} cannot be imported"
        return Cell(value=words, text="; ".join(filter(None, (refused, words))), look=UNSUPPORTED)
    if not words and not trace.problems:
        # Of a model that cannot be imported nothing was made, whatever stands in it.
        return Cell(value="nothing of its own")
    return Cell(value=words, exact=", ".join(made))


def _problems(trace: Trace) -> TableSpec:
    return TableSpec(
        title="what cannot be imported" if _refused(trace) else "why it cannot be compiled",
        columns=(Column(key="node", title="node", format="name"), Column(key="why", title="why")),
        rows=tuple(
            Row(
                cells={"node": Cell(value=shorten(name, 60), look=UNSUPPORTED), "why": reason},
                operations=(name,),
                pass_name=MODEL_STEP,
            )
            for name, reason in trace.problems
        ),
        max_rows=200,
    )


def _words(trace: Trace) -> TableSpec:
    """Operators and their explanations, once each: versions of one differ seldom."""
    pairs = dict.fromkeys(
        (shorten(r.name, 60), " ".join(r.explanation.split()))
        for r in trace.operators
        if r.explanation
    )
    return TableSpec(
        title="what the import makes of each operator",
        columns=(
            Column(key="operator", title="operator", format="name"),
            Column(key="words", title="what the import makes of it"),
        ),
        rows=tuple(Row(cells={"operator": name, "words": words}) for name, words in pairs),
    )


def _record(trace: Trace, index: int) -> object:
    problems = [{"name": name, "reason": reason} for name, reason in trace.problems]
    return {"operators": trace.operators, "problems": problems}


VIEW = View(
    name="operators",
    title="the model's operators by family, and what became of them",
    needs=("operators",),
    is_of_model=True,
    specification=operators,
    json=_record,
    pane=Pane(moves=MODEL, tab="model", key="o", is_optional=True),
)
