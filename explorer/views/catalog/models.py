"""Two models side by side: matched tensors in the order of the first one, and where they part.

  node          operator  node of the other  operator  by         SQNR       max relative
✓ CONV_2D_0     CONV_2D   conv1              Conv      values     61.2 dB    1.3e-3
✗ CONV_2D_1     CONV_2D   conv2              Conv      structure  4.1 dB     0.7

The picture shows the error along the network, in decibels of the first model's tensors, and the
error that rounding explains.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from explorer.results import Trace
from explorer.results.model_comparison import (
    PART,
    ComparedModel,
    ModelComparison,
    TensorMatch,
    UnmatchedNode,
)
from explorer.views.fixed_numbers import TWO_FILES
from explorer.views.numbers import format_count, format_decibels
from explorer.views.parts.markup import shorten
from explorer.views.specification import (
    Cell,
    ChartSpec,
    Column,
    Dot,
    Facts,
    Label,
    Line,
    Mark,
    Part,
    Row,
    Section,
    Specification,
    TableSpec,
    Text,
)
from explorer.views.theme import EQUAL, WITHIN, WRONG, Look
from explorer.views.view import Pane, View

COLUMNS = (
    Column(key="state", title="", hint="equal, within what rounding explains, or different"),
    Column(key="node_a", title="node", format="name"),
    Column(key="operator_a", title="operator", format="name"),
    Column(key="node_b", title="node of the other", format="name"),
    Column(key="operator_b", title="operator", format="name"),
    Column(key="how", title="matched by"),
    Column(
        key="sqnr",
        title="SQNR",
        format="decibels",
        hint="signal to noise of the tensor",
        moves=TWO_FILES,
    ),
    Column(
        key="max_relative",
        title="max relative",
        format="error",
        hint="the largest difference in parts of the tensor's largest number",
        moves=TWO_FILES,
    ),
    Column(
        key="expected",
        title="explained",
        format="decibels",
        hint="what rounding explains",
        moves=TWO_FILES,
    ),
    Column(
        key="clipped",
        title="clipped",
        format="percent",
        hint="beyond a quantized range",
        moves=TWO_FILES,
    ),
    Column(key="tensor_a", title="tensor", format="name", is_for_page=True),
    Column(key="tensor_b", title="tensor of the other", format="name", is_for_page=True),
)
UNMATCHED = (
    Column(key="node", title="node", format="name"),
    Column(key="operator", title="operator", format="name"),
    Column(key="reason", title="why"),
)
MAX_UNMATCHED = 40
NAME = 48
"""Characters of a node's name in a sentence."""
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720.0, 130.0, 56.0, 24.0, 10.0
MAX_DB = 120.0
STEP_DB = 20
MAX_LINES = 4


def models(record: ModelComparison, letters: str = "AB") -> Specification:
    """What two models have in common, and the first tensor that differs.

    letters: what the models are called, the reference first.
    """
    table = TableSpec(
        title="matched tensors", columns=COLUMNS, rows=tuple(map(_row, record.matched))
    )
    parts: list[Part] = [
        Text(text=verdict(record), is_quiet=False, look=_verdict_look(record)),
        *[Text(text=text, is_quiet=False) for text in _errors(record)],
        *([_chart(record)] if record.matched else []),
        Facts(
            rows=(
                (f"{letters[0]}, the reference", _facts(record.a)),
                (letters[1], _facts(record.b)),
            )
        ),
        table,
        *_unmatched(record.a, record.unmatched_a),
        *_unmatched(record.b, record.unmatched_b),
    ]
    return Specification(
        title=f"{record.a.name} and {record.b.name}",
        subtitle=f"{format_count(len(record.matched), 'matched tensor')}, "
        f"{record.differing:,} different",
        parts=tuple(parts),
    )


def verdict(record: ModelComparison) -> str:
    """One sentence: whether the models agree, and where they part."""
    if not record.matched:
        return "the models have nothing in common: no tensor has equal numbers or a like place"
    first = record.first_difference
    if first is not None:
        return (
            f"the first difference is {shorten(first.node_a, NAME)} ({first.operator_a}) against "
            f"{shorten(first.node_b, NAME)} ({first.operator_b}): "
            f"{format_decibels(first.sqnr_db)}, while rounding explains "
            f"{format_decibels(_decibels(first.expected))}"
        )
    if not record.outputs:
        return "no tensor differs, but no output of one model is found in the other"
    grown = record.first_grown
    if grown is None:
        return "no tensor differs by more than rounding explains"
    where = "" if grown.node_a == grown.node_b else f" against {shorten(grown.node_b, NAME)}"
    return (
        f"no layer differs by itself, but errors grow from layer to layer: at "
        f"{shorten(grown.node_a, NAME)} ({grown.operator_a}){where} they are "
        f"{format_decibels(grown.sqnr_db)}, while {format_count(grown.roundings, 'rounding')} on "
        f"the way explain {format_decibels(_decibels(grown.explained))}; numbers that are no data "
        "of the task may do that"
    )


def _verdict_look(record: ModelComparison) -> Look:
    if not record.agrees:
        return WRONG
    return EQUAL if record.first_grown is None else WITHIN


def _errors(record: ModelComparison) -> Iterator[str]:
    """Sentences: the first tensor that is not equal, and the layer with the largest error."""
    unequal = [match for match in record.matched if match.error != 0]
    if unequal:
        worst = max(unequal, key=lambda match: (math.isnan(match.error), match.error))
        yield f"first tensor that is not equal: {_error(unequal[0])}"
        yield f"largest error: {_error(worst)}"


def _error(match: TensorMatch) -> str:
    explained = ", which rounding explains"
    if match.differs:
        explained = ""
    elif match.has_grown:
        count = format_count(match.roundings, "rounding")
        explained = f", more than {count} on the way explain: errors grew from layer to layer"
    return (
        f"{shorten(match.node_a, NAME)} ({match.operator_a}) with "
        f"{format_decibels(match.sqnr_db)}, max relative {match.max_relative:.2g}{explained}"
    )


def _facts(model: ComparedModel) -> str:
    nodes = format_count(model.nodes, "node")
    return f"{model.name}, {model.format}, {nodes}; {model.judge}; inputs: {model.inputs}"


def _decibels(error: float) -> float:
    return -20 * math.log10(error) if error > 0 else math.inf


def _look(match: TensorMatch) -> Look:
    if match.differs:
        return WRONG
    return EQUAL if match.error == 0 else WITHIN


def _row(match: TensorMatch) -> Row:
    look = _look(match)
    return Row(
        operations=(match.node_a,),
        id=match.tensor_a,
        cells={
            "state": Cell(value=look.name, text=" ", look=look),
            "node_a": match.node_a,
            "operator_a": match.operator_a,
            "node_b": match.node_b,
            "operator_b": match.operator_b,
            "how": match.how,
            "sqnr": match.sqnr_db,
            "max_relative": match.max_relative,
            "expected": _decibels(match.expected),
            "clipped": match.clipped or None,
            "tensor_a": match.tensor_a,
            "tensor_b": match.tensor_b,
        },
    )


def _unmatched(model: ComparedModel, nodes: tuple[UnmatchedNode, ...]) -> Iterator[Part]:
    if not nodes:
        return
    rows = tuple(
        Row(cells={"node": n.node, "operator": n.operator, "reason": n.reason}) for n in nodes
    )
    table = TableSpec(
        title=f"nodes of {model.name} alone", columns=UNMATCHED, rows=rows, max_rows=MAX_UNMATCHED
    )
    yield Section(title=f"{format_count(len(nodes), 'node')} of {model.name} alone", parts=(table,))


def _chart(record: ModelComparison) -> ChartSpec:
    """The signal to noise of every matched tensor, from the inputs on the left to the outputs."""
    count = len(record.matched)
    right, low = WIDTH - 12, HEIGHT - BOTTOM

    def x(index: int) -> float:
        return round(LEFT + (right - LEFT) * (index + 0.5) / count, 1)

    reached = [m.sqnr_db for m in record.matched if math.isfinite(m.sqnr_db)]
    top = min(MAX_DB, STEP_DB * max(2, math.ceil(max(reached, default=MAX_DB) / STEP_DB)))

    def y(decibels: float) -> float:
        share = min(max(decibels, 0.0), top) / top
        return round(low - (low - TOP) * share, 1)

    marks: list[Mark] = []
    for decibels in range(0, int(top) + 1, STEP_DB * math.ceil(top / STEP_DB / MAX_LINES)):
        marks.append(Line(points=((LEFT, y(decibels)), (right, y(decibels)))))
        marks.append(Label(x=LEFT - 6, y=y(decibels) + 4, text=f"{decibels} dB", anchor="end"))
    explained = [(x(i), y(_decibels(m.expected))) for i, m in enumerate(record.matched)]
    marks.append(Line(points=tuple(explained), role="quiet", is_dashed=True, title="explained"))
    for i, match in enumerate(record.matched):
        look = _look(match)
        marks.append(
            Dot(
                x=x(i),
                y=y(match.sqnr_db),
                fill=f"{look.name}-fill",
                stroke=f"{look.name}-edge",
                shape="diamond" if match.differs else "circle",
                id=match.tensor_a,
                title=f"{match.node_a}: {format_decibels(match.sqnr_db)}",
            )
        )
    marks.append(Label(x=LEFT, y=HEIGHT - 6, text="inputs"))
    marks.append(Label(x=right, y=HEIGHT - 6, text="outputs", anchor="end"))
    return ChartSpec(
        title="signal to noise of every matched tensor; dashed: what rounding explains",
        width=WIDTH,
        height=HEIGHT,
        marks=tuple(marks),
        legend=((EQUAL, "equal"), (WITHIN, "rounding explains it"), (WRONG, "different")),
    )


def _of_trace(trace: Trace, index: int = -1) -> Specification:
    record = trace.part(PART, ModelComparison)
    assert record is not None, "the view needs it"
    return models(record)


VIEW = View(
    name="models",
    title="two models side by side: matched tensors and the first that differs",
    needs=(PART,),
    is_of_model=True,
    specification=_of_trace,
    json=lambda trace, _: trace.part(PART, ModelComparison),
    pane=Pane(moves=TWO_FILES, is_optional=True),
)
