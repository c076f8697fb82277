"""The model's operators by family, and what of it cannot be imported, for notebooks and terminals.

digits_cnn: 17 nodes, 32 k parameters
     family                              operator  nodes  operator set  imported as
  ▦  convolution, matrix multiplication  Conv          3  ai.onnx 17    3 conv
  ƒ  elementwise                         Relu          4  ai.onnx 17    4 unary

operator  what the import makes of it
Conv      A convolution of images, ...
"""

from __future__ import annotations

from explorer.results import OperatorRecord, Trace
from explorer.views.numbers import format_amount, format_exact
from explorer.views.parts import plain as text_form
from explorer.views.parts.markup import (
    badge,
    card,
    escape,
    note,
    paragraph,
    plain,
    section,
    shorten,
    table,
)
from explorer.views.theme import UNSUPPORTED, family

_HEADER = ("", "family", "operator", "nodes", "operator set", "imported as", "parameters")
_ALIGN = "nllrllr"
_WORDS_HEADER, _WORDS_ALIGN = ("operator", "what the import makes of it"), "nl"
MOST_PROBLEMS = 40
MOST_MADE = 4
NAME_CHARACTERS, REASON_CHARACTERS = 60, 200


def operators_text(trace: Trace, width: int = text_form.WIDTH) -> str:
    """One line per operator, and one for everything that cannot be imported.

    The table's lines have at most `width` characters.
    """
    lines = [operators_title(trace)]
    shown = trace.problems[:MOST_PROBLEMS]
    lines += [
        f"  {UNSUPPORTED.glyph} {shorten(name, NAME_CHARACTERS)}: "
        f"{shorten(reason, REASON_CHARACTERS)}"
        for name, reason in shown
    ]
    lines += [f"  {text}" for text in _left_out(trace)]
    rows = [(family(r.family).glyph, *_cells(r, trace)) for r in trace.operators]
    lines += text_form.columns(rows, _HEADER, _ALIGN, width=width)
    words = _words(trace)
    if words:
        lines += ["", *text_form.columns(words, _WORDS_HEADER, _WORDS_ALIGN, width=width)]
    return "\n".join(lines)


def operators_html(trace: Trace) -> str:
    """A card: what cannot be imported first, then the operators family by family."""
    body = ""
    if trace.problems:
        body += section("cannot be imported")
        body += "".join(
            paragraph(
                badge(UNSUPPORTED)
                + f" {escape(shorten(name, NAME_CHARACTERS))}: "
                + escape(shorten(reason, REASON_CHARACTERS))
            )
            for name, reason in trace.problems[:MOST_PROBLEMS]
        )
        body += "".join(note(text) for text in _left_out(trace))
    cells = [
        [badge(family(r.family)), *(escape(cell) for cell in _cells(r, trace))]
        for r in trace.operators
    ]
    body += table(cells, _HEADER, _ALIGN)
    words = [[escape(cell) for cell in row] for row in _words(trace)]
    if words:
        body += table(words, _WORDS_HEADER, _WORDS_ALIGN)
    return card(operators_title(trace), body)


def operators_title(trace: Trace) -> str:
    """`digits_cnn: 17 nodes, 32 k parameters`, or how many nodes cannot be imported."""
    model = trace.model
    name = shorten(model.name, NAME_CHARACTERS)
    names = {node for node, *_ in model.source_nodes}
    refused = sum(node in names for node, _ in trace.problems)
    if refused:
        return f"{name}: {refused} of {format_exact(model.nodes)} nodes cannot be imported"
    if trace.problems:
        return f"{name}: cannot be compiled"
    return (
        f"{name}: {format_exact(model.nodes)} nodes, {format_amount(model.parameters)} parameters"
    )


def _cells(record: OperatorRecord, trace: Trace) -> tuple[str, ...]:
    made = [f"{count} {name.removeprefix('top.')}" for name, count in record.made]
    more = f" +{len(made) - MOST_MADE}" if len(made) > MOST_MADE else ""
    words = ", ".join(made[:MOST_MADE]) + more
    refused = len(record.problems)
    if refused:
        words = f"{UNSUPPORTED.glyph} {refused} cannot be imported" + (f"; {words}" if made else "")
    elif not words:
        # Of a model that cannot be imported nothing was made, whatever stands in it.
        words = "" if trace.problems else "nothing of its own"
    return (
        family(record.family).title,
        plain(shorten(record.name, NAME_CHARACTERS)),
        format_exact(len(record.nodes)),
        f"{shorten(record.domain or 'ai.onnx', 32)} {record.version}",
        words,
        format_amount(record.parameters) if record.parameters else "",
    )


def _words(trace: Trace) -> list[tuple[str, str]]:
    """Operators and their explanations, once each: versions of one differ seldom."""
    pairs = (
        (plain(shorten(r.name, NAME_CHARACTERS)), plain(" ".join(r.explanation.split())))
        for r in trace.operators
        if r.explanation
    )
    return list(dict.fromkeys(pairs))


def _left_out(trace: Trace) -> list[str]:
    rest = len(trace.problems) - MOST_PROBLEMS
    return [f"and {rest} more; all of them: inspection.problems"] if rest > 0 else []
