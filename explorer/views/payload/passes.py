"""What every pass did, as data for the explorer: counts, rewrites, rules, makers.

pass/3    {"diff": ..., "events": [[address, rule, applied, site, ...], ...]}
makers    {"conv_8": [[0, 3, "conv_2"], [5, 2, ""]]}: pass 5 made conv_8 of what the import made
"""

from __future__ import annotations

from explorer.results import AccuracyReport, GraphDiff, PassRecord, RewriteEvent, Trace
from explorer.views.model_step import SOURCE_LEVEL
from explorer.views.payload.graph import diff_payload
from explorer.views.payload.measures import AccuracyTables, judged_payload, number
from explorer.views.payload.text import Json
from explorer.views.replay.descent import lines_of_makers
from explorer.views.theme import judge, judged_error
from explorer.views.verdicts import worst_judged


def pass_summary(record: PassRecord) -> Json:
    applied = sum(event.applied for event in record.events)
    return {
        "name": record.name,
        "description": record.description,
        "level": record.level,
        "seconds": number(record.seconds),
        "changed": record.changed,
        "before": record.operations_before,
        "after": record.operations_after,
        "rewrites": applied,
        "declined": len(record.events) - applied,
    }


def first_pass(trace: Trace) -> int:
    """The pass with most to see, where a first visitor begins: the first of those that fused most.

    Where nothing was fused, the first that removed most; else the import.
    """
    imported = next((i for i, r in enumerate(trace.passes) if r.level != SOURCE_LEVEL), 0)
    best, most = imported, 0
    for index in range(imported + 1, len(trace.passes)):
        diff = trace.diffs[index]
        weight = 1000 * len(diff.fused) + len(diff.removed)
        if weight > most:
            best, most = index, weight
    return best


def measures_payload(trace: Trace) -> Json:
    """What takes a walk over every program to know, in the order of the passes."""
    return {
        "macs": [record.macs for record in trace.passes],
        "peaks": [record.peak_bytes for record in trace.passes],
    }


def pass_payload(record: PassRecord, diff: GraphDiff) -> Json:
    return {
        "diff": diff_payload(diff),
        "events": [_event_payload(event) for event in record.events],
    }


def _event_payload(event: RewriteEvent) -> Json:
    delta = event.delta
    return [
        event.address,
        event.rule,
        event.applied,
        event.site,
        list(event.matched),
        list(event.produced),
        event.reason,
        number(event.microseconds),
        [list(pair) for pair in delta.removed],
        [list(pair) for pair in delta.added],
        [list(triple) for triple in delta.changed],
    ]


def makers_payload(trace: Trace) -> Json:
    """Per operation (pass, event, identity) of the rewrites that led to it; see `lines_of_makers`.

    The identity is that of the ancestor that was made, empty where it is the operation itself.
    """
    return {
        operation: [
            [step.index, step.event, "" if step.made == operation else step.made] for step in line
        ]
        for operation, line in lines_of_makers(trace).items()
    }


def rules_payload(trace: Trace) -> Json:
    """What every rule does and where its source stands; the same at each of its sites."""
    rules: dict[str, list[str]] = {}
    for record in trace.passes:
        for event in record.events:
            if event.rule not in rules:
                rules[event.rule] = [event.explanation, event.rule_source]
    return [[name, *about] for name, about in rules.items()]


def rule_texts_payload(trace: Trace) -> Json:
    """Lines by the rule's name, for those whose text the trace holds."""
    return {rule.name: list(rule.text.lines) for rule in trace.rules}


def checks_of_passes(
    report: AccuracyReport | None, tables: AccuracyTables | None
) -> dict[int, Json]:
    """Verdict and worst error by index of the pass."""
    if report is None or tables is None:
        return {}
    checks = {}
    for place, accuracy in zip(tables.places(report.passes), report.passes, strict=True):
        worst = worst_judged(accuracy.tensors, report.tolerance)
        error = None if worst is None else judged_error(worst, report.tolerance)
        checks[place] = {
            "check": judge(error, report.tolerance).name,
            **judged_payload(worst, report.tolerance),
        }
    return checks
