"""One pass: what it changed, which rules fired where, and why candidates were declined.

    fuse-activation   17 -> 14 ops (−3)   1.8 ms
      fused    conv_1 <- relu_1
      ...
      activation-into-producer   fired 3 times   explorer/passes/fuse/fuse_activation.py:31
        ✓ conv_1, relu_1 -> conv_1
        ○ softmax_1 declined: softmax_1 is no elementwise operation

The picture shows what changed with its neighbours, before and after in one drawing.

Rewrite by rewrite, with the lines before and after and what differs inside them:

    1  fuse-unary at relu1
       - %conv4 = top.conv(%image, %w1, %w2) {dilations = (1, 1), ...
         ^^^^^^
       + %conv7 = top.conv(%image, %w1, %w2) {activation = relu, dilations = (1, 1), ...
         ^^^^^^                               ^^^^^^^^^^^^^^^^^^
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.results.graph import Graph, GraphDiff
from explorer.results.passes import PassRecord, RewriteEvent
from explorer.results.trace import Trace
from explorer.views.numbers import MINUS, format_change, format_count, format_exact, format_seconds
from explorer.views.parts.markup import (
    badge,
    card,
    code,
    escape,
    fold,
    note,
    paragraph,
    picture,
    plain,
    quiet,
    section,
    table,
)
from explorer.views.parts.plain import columns
from explorer.views.replay.lines import Row, paired
from explorer.views.replay.marks import Ranges, marks
from explorer.views.replay.states import Frame, Replay
from explorer.views.static.graph import GraphMarks, graph_marks, graph_svg, legend, placed
from explorer.views.theme import ADDED, CHANGED, EQUAL, FUSED, MONOSPACE, NOT_RUN, REMOVED, Look

LISTED = 10
"""Most changes or events that are listed of one kind."""
PICTURE_CENTRES = 16
"""Most changed operations of the picture; their neighbours come on top."""
MAX_FRAMES = 40
"""Rewrites whose lines a card has; a text has all."""


def pass_text(trace: Trace, index: int) -> str:
    """The pass at `index`: its numbers, its differences, its events by rule."""
    record, diff = trace.passes[index], trace.diffs[index]
    lines = [f"{plain(record.name)}   {_numbers(record)}"]
    if record.description:
        lines.append(f"  {plain(record.description)}")
    rows = [(look.glyph, look.name, _listed(names)) for look, names in _differences(diff)]
    lines += columns(rows)
    for rule, events in _by_rule(record).items():
        lines.append(f"  {plain(rule)}   {_counts(events)}   {plain(events[0].rule_source)}")
        lines += [f"    {_event(event)}" for event in _most_telling(events)]
        if len(events) > LISTED:
            lines.append(f"    and {len(events) - LISTED} more: trace.passes[{index}].events")
    return "\n".join(lines)


def pass_html(trace: Trace, index: int) -> str:
    """A card: summary of the difference, picture of what changed, events by rule."""
    record, diff = trace.passes[index], trace.diffs[index]
    body = paragraph(escape(record.description)) if record.description else ""
    if _differences(diff):
        before = trace.snapshots[index - 1].graph if index % len(trace.passes) else Graph((), ())
        body += _difference(diff, before, trace.snapshots[index].graph, f"trace.diffs[{index}]")
    elif index % len(trace.passes) == 0:
        body += note("The first snapshot: graph_html(trace.snapshots[0].graph) shows it.")
    else:
        body += note("The graph is the same as before.")
    for rule, events in _by_rule(record).items():
        body += _rule(rule, events, index)
    return card(record.name, body, subtitle=_numbers(record))


def changed_neighbourhood(
    before: Graph, after: Graph, diff: GraphDiff, limit: int = PICTURE_CENTRES
) -> tuple[Graph, int]:
    """What changed, with its neighbours before and after in one graph; and how many changed
    operations are beyond `limit` and left out."""
    touched = dict.fromkeys(
        name
        for name in (
            *(n for operation, parents in diff.fused for n in (operation, *parents)),
            *diff.added,
            *diff.removed,
            *(change.id for change in diff.changed),
        )
    )
    centres = set(list(touched)[:limit])
    nodes = {node.id: node for node in (*before.nodes, *after.nodes)}
    edges = dict.fromkeys((*before.edges, *after.edges))
    kept = set(centres)
    for edge in edges:
        if centres & {edge.source, edge.target}:
            kept |= {edge.source, edge.target}
    return Graph(
        tuple(node for name, node in nodes.items() if name in kept),
        tuple(edge for edge in edges if centres & {edge.source, edge.target}),
    ), len(touched) - len(centres)


def diff_text(diff: GraphDiff) -> str:
    """The operations by kind of change, all of them."""
    rows = [
        (look.glyph, look.name, format_exact(len(names)), ", ".join(names))
        for look, names in _differences(diff)
    ]
    return "\n".join(columns(rows, align="llrl")) or "no difference"


def diff_html(diff: GraphDiff, graphs: tuple[Graph, Graph] | None) -> str:
    """A card of the same; with the graphs before and after, a picture of what changed."""
    if not _differences(diff):
        return card("Difference", note("The graph is the same as before."))
    before, after = graphs or (None, None)
    return card("Difference", _difference(diff, before, after, "diff.to_text()"))


def _difference(diff: GraphDiff, before: Graph | None, after: Graph | None, rest: str) -> str:
    """A table and a picture; `rest`: what has all of it."""
    rows = [
        [badge(look, look.name), quiet(format_exact(len(names))), code(_listed(names))]
        for look, names in _differences(diff)
    ]
    html = table(rows, align="nrl")
    return html if before is None or after is None else html + _picture(diff, before, after, rest)


def _picture(diff: GraphDiff, before: Graph, after: Graph, rest: str) -> str:
    graph, left_out = changed_neighbourhood(before, after, diff)
    marks = graph_marks(diff)
    layout = placed(graph)
    shown = GraphMarks(
        {name: look for name, look in marks.looks.items() if name in layout.positions},
        marks.remarks,
    )
    body = picture(graph_svg(graph, layout, shown), layout.width, "what changed, with neighbours")
    body += legend(graph, shown)
    if left_out:
        body += note(f"{format_count(left_out, 'more changed operation')}: {rest}")
    return body


def _rule(rule: str, events: Sequence[RewriteEvent], index: int) -> str:
    html = section(rule)
    html += paragraph(f"{quiet(_counts(events))} &ensp; {code(events[0].rule_source)}")
    if events[0].explanation:
        html += paragraph(escape(events[0].explanation))
    rows = []
    for event in _most_telling(events):
        if event.applied:
            rows.append([badge(FIRED), code(_fired(event)), quiet(_microseconds(event))])
        else:
            rows.append([badge(DECLINED), code(event.site), escape(event.reason)])
    html += table(rows, align="nll")
    deltas = [event for event in _most_telling(events) if event.applied]
    if deltas:
        html += fold("lines before and after", "".join(_delta(event) for event in deltas))
    if len(events) > LISTED:
        html += note(f"and {len(events) - LISTED} more: trace.passes[{index}].events")
    return html


def _delta(event: RewriteEvent) -> str:
    pairs = [
        (was and was[1], now and now[1])
        for was, now in paired(_named(event.delta.removed), _named(event.delta.added))
    ]
    pairs += [(f"%{i} = {was}", f"%{i} = {now}") for i, was, now in event.delta.changed]
    rows = [Row("changed", was, now) for was, now in pairs]
    return table([cells for row in rows for cells in _html_rows(row)], align="nl")


def _named(operations: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(identity, f"%{identity} = {text}") for identity, text in operations]


def _numbers(record: PassRecord) -> str:
    change = format_change(record.operations_before, record.operations_after)
    return (
        f"{format_exact(record.operations_before)} → "
        f"{format_count(record.operations_after)} ({change}) · {format_seconds(record.seconds)}"
    )


def _differences(diff: GraphDiff) -> list[tuple[Look, list[str]]]:
    changed = dict.fromkeys(change.id for change in diff.changed)
    groups = (
        (FUSED, [f"{plain(op)} ⊃ {', '.join(plain(p) for p in ps)}" for op, ps in diff.fused]),
        (ADDED, [plain(name) for name in diff.added]),
        (REMOVED, [plain(name) for name in diff.removed]),
        (CHANGED, [plain(name) for name in changed]),
    )
    return [(look, names) for look, names in groups if names]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {more} more" if more > 0 else "")


def _by_rule(record: PassRecord) -> dict[str, list[RewriteEvent]]:
    rules: dict[str, list[RewriteEvent]] = {}
    for event in record.events:
        rules.setdefault(event.rule, []).append(event)
    return rules


def _most_telling(events: Sequence[RewriteEvent]) -> list[RewriteEvent]:
    """At most `LISTED` events, in order; where there are more, some of either outcome."""
    if len(events) <= LISTED:
        return list(events)
    fired = [i for i, e in enumerate(events) if e.applied]
    declined = [i for i, e in enumerate(events) if not e.applied]
    share = max(LISTED // 2, LISTED - len(declined))
    chosen = fired[:share]
    chosen += declined[: LISTED - len(chosen)]
    return [events[i] for i in sorted(chosen)]


def _counts(events: Sequence[RewriteEvent]) -> str:
    fired = sum(event.applied for event in events)
    declined = len(events) - fired
    text = f"fired {format_count(fired, 'time')}"
    return text + (f", declined {format_count(declined, 'time')}" if declined else "")


def _event(event: RewriteEvent) -> str:
    if event.applied:
        return f"{FIRED.glyph} {_fired(event)}"
    return f"{DECLINED.glyph} {plain(event.site)} declined: {plain(event.reason)}"


def _fired(event: RewriteEvent) -> str:
    produced = ", ".join(plain(name) for name in event.produced) or "nothing"
    return f"{', '.join(plain(name) for name in event.matched)} → {produced}"


def _microseconds(event: RewriteEvent) -> str:
    return format_seconds(event.microseconds / 1e6)


# -- rewrite by rewrite ----------------------------------------------------------------------------


def replay_text(trace: Trace, index: int) -> str:
    """The frames of the pass at `index`, one below the other."""
    replay = Replay(trace, index)
    lines = [f"{plain(trace.passes[index].name)}   {format_count(len(replay), 'event')}"]
    for number, frame in enumerate(replay, start=1):
        lines.append(f"{number:>3}  {plain(_frame_title(frame))}")
        for row in frame.rows if frame.event.applied else ():
            lines += _text_rows(row)
    return "\n".join(lines)


def replay_html(trace: Trace, index: int) -> str:
    """A card with a part to open for every rewrite."""
    replay = Replay(trace, index)
    body = ""
    for number, frame in enumerate(replay[:MAX_FRAMES], start=1):
        cells = [cells for row in frame.rows for cells in _html_rows(row)]
        body += fold(f"{number}  {_frame_title(frame)}", table(cells, align="nl"))
    if len(replay) > MAX_FRAMES:
        body += note(f"{len(replay) - MAX_FRAMES} more: explorer show MODEL --view rewrites")
    return card(trace.passes[index].name, body, format_count(len(replay), "event"))


def _frame_title(frame: Frame) -> str:
    event = frame.event
    if not event.applied:
        return f"{event.rule} declined at {event.site}: {event.reason}"
    return f"{event.rule} at {event.site}"


def _text_rows(row: Row) -> Iterator[str]:
    if row.kind == "fold":
        yield f"     {format_count(row.count, 'line')} as before"
        return
    if not row.kind:
        yield f"       {plain(row.after)}"
        return
    gone, new = marks(row.before or "", row.after or "")
    for sign, text, ranges in ((MINUS, row.before, gone), ("+", row.after, new)):
        if text is not None:
            yield f"     {sign} {plain(text)}"
            if ranges:
                yield f"       {_carets(ranges)}"


def _carets(ranges: Ranges) -> str:
    line = ""
    for begin, end in ranges:
        line += " " * (begin - len(line)) + "^" * (end - begin)
    return line


def _html_rows(row: Row) -> Iterator[list[str]]:
    if row.kind == "fold":
        yield ["", escape(f"{format_count(row.count, 'line')} as before")]
        return
    if not row.kind:
        yield ["", _marked_code(row.after or "", ())]
        return
    gone, new = marks(row.before or "", row.after or "")
    for look, text, ranges in ((REMOVED, row.before, gone), (ADDED, row.after, new)):
        if text is not None:
            yield [badge(look), _marked_code(text, ranges)]


_MARKED = "font-weight:700;text-decoration:underline"


def _marked_code(text: str, ranges: Ranges) -> str:
    """A line with what differs in it underlined and bold."""
    html, end = "", 0
    for begin, stop in ranges:
        html += escape(text[end:begin])
        html += f'<span style="{_MARKED}">{escape(text[begin:stop])}</span>'
        end = stop
    return f'<span style="font-family:{MONOSPACE};font-size:12px">{html}{escape(text[end:])}</span>'


FIRED = Look(
    name="fired",
    title="the rule fired here",
    glyph="✓",
    hue=EQUAL.hue,
    light=EQUAL.light,
    dark=EQUAL.dark,
)
DECLINED = Look(
    name="declined",
    title="a candidate that was left as it is",
    glyph="○",
    hue=NOT_RUN.hue,
    light=NOT_RUN.light,
    dark=NOT_RUN.dark,
)
