"""Layers of a machine whose cycles are counted: predicted, simulated, and at their roof.

15,606 cycles on simulator of vta-16, predicted exactly; 17 % of the array used
  layer   kind                 predicted  simulated  array     bytes  roof
  conv10  conv 3x3 + requan…       2,351      2,351    1.5 %   1.2 KiB  4.1 % of matrix engine
"""

from __future__ import annotations

from explorer.results import Trace
from explorer.results.runs.counted import CountedLayer, CountedRun
from explorer.views.numbers import format_bytes, format_count, format_exact, format_percent
from explorer.views.static.parts import plain as text_form
from explorer.views.static.parts.markup import card, code, escape, fold, plain, section, table

HEADER = ("layer", "kind", "predicted", "simulated", "array used", "bytes", "of its roof", "roof")
ALIGN = "llrrrrrl"
TERMS = ("queue", "what", "times", "cycles", "why")
TERMS_ALIGN = "llrrl"
USES = ("scratchpad", "content", "elements", "from byte", "bytes", "from cycle", "ready", "to")
USES_ALIGN = "lllrrrrr"
SHOWN_USES = 24
"""Buffers of a layer that get a line: the first ones."""


def layers_text(trace: Trace, width: int) -> str:
    """A row for every layer, then of the longest one what its queues were to do."""
    run = counted_of(trace)
    lines = [_summary(trace, run)]
    lines += text_form.columns([_row(layer, run) for layer in run.layers], HEADER, ALIGN, 2, width)
    longest = max(run.layers, key=lambda layer: layer.cycles, default=None)
    if longest is not None and longest.predicted is not None:
        lines += ["", f"{plain(longest.operation)}, the longest, as predicted"]
        lines += text_form.columns(_terms(longest), TERMS, TERMS_ALIGN, 2, width)
    if longest is not None and longest.uses:
        lines += ["", f"scratchpads during {plain(longest.operation)}"]
        lines += text_form.columns(_uses(longest), USES, USES_ALIGN, 2, width)
        rest = len(longest.uses) + longest.uses_left_out - SHOWN_USES
        lines += [f"  and {format_count(rest, 'later buffer')}"] if rest > 0 else []
    return "\n".join(lines)


def layers_html(trace: Trace) -> str:
    """The same with the terms of every layer, folded."""
    run = counted_of(trace)
    rows = [
        [code(name), *map(escape, rest)] for name, *rest in (_row(la, run) for la in run.layers)
    ]
    body = table(rows, HEADER, ALIGN)
    folds = "".join(
        fold(
            layer.operation,
            table([[*map(escape, row)] for row in _terms(layer)], TERMS, TERMS_ALIGN)
            + table([[*map(escape, row)] for row in _uses(layer)], USES, USES_ALIGN),
        )
        for layer in run.layers
        if layer.predicted is not None
    )
    if folds:
        body += section("what queues were predicted to do, and the first buffers") + folds
    return card("Layers", body, subtitle=_summary(trace, run))


def counted_of(trace: Trace) -> CountedRun:
    assert trace.profile is not None and trace.profile.counted is not None, "the view needs it"
    return trace.profile.counted


def _summary(trace: Trace, run: CountedRun) -> str:
    device = trace.profile.device if trace.profile else ""
    predicted = "not predicted, for instructions were edited"
    if run.predicted_cycles is not None:
        is_exact = run.predicted_cycles == run.cycles
        predicted = "predicted exactly" if is_exact else f"{run.predicted_cycles:,} predicted"
    return (
        f"{format_count(run.cycles, 'cycle')} on {plain(device)}, {predicted}; "
        f"{format_percent(run.utilization)} of the array used, padding included"
    )


def _row(layer: CountedLayer, run: CountedRun) -> tuple[str, ...]:
    cycles = max(layer.cycles, 1)
    return (
        layer.operation,
        layer.title,
        "–" if layer.predicted is None else format_exact(layer.predicted.cycles),
        format_exact(layer.cycles),
        format_percent(layer.macs / (run.peak_macs_per_cycle * cycles)),
        format_bytes(layer.bytes),
        format_percent(layer.least_cycles / cycles),
        layer.bound,
    )


def _terms(layer: CountedLayer) -> list[tuple[str, ...]]:
    """Of every queue what it does, then what it waits for."""
    assert layer.predicted is not None
    rows = []
    for queue, _ in layer.busy:
        rows += [
            (
                t.queue,
                t.name.replace("_", " "),
                format_exact(t.count),
                format_exact(t.cycles),
                t.why,
            )
            for t in layer.predicted.terms
            if t.queue == queue
        ]
        rows += [
            (queue, f"waits for {cause}", "", format_exact(cycles), "")
            for name, cause, cycles in layer.predicted.waits
            if name == queue
        ]
    return rows


def _uses(layer: CountedLayer) -> list[tuple[str, ...]]:
    return [
        (
            use.scratchpad,
            use.content.replace("_", " "),
            f"{use.first_element:,} to {use.last_element:,}",
            *map(format_exact, (use.offset_bytes, use.size_bytes, use.start_cycle,
                                use.ready_cycle, use.end_cycle)),
        )
        for use in layer.uses[:SHOWN_USES]
    ]  # fmt: skip
