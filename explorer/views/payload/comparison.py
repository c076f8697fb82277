"""Compilations side by side: their passes, kernels and totals, and where each parts from the first.

    comparison_payload([side_of(head, chunk), side_of(head, chunk), ...])
        -> {"labels": ["", "without fuse-activation"], "differences": [{"first": [...]}], ...}

The first side is A; every other one is compared with it. Works on what the explorer gets and not
on traces, so that branches which were drawn earlier can be compared when only their drawings are
kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from explorer.views.partings import NOT_DECIDED, differing_decisions
from explorer.views.payload.text import Json, expanded_lines

MAX_SLICES = 1500
"""Launches of one side that the picture of both timelines has."""
MAX_DECISIONS = 100
"""Most decisions that are listed; of the rest the number is given."""


@dataclass(frozen=True)
class Side:
    """One compilation: its head, and what gives its chunks."""

    head: Json
    chunk: Callable[[str], Json]

    @cached_property
    def kernels(self) -> Json:
        return self.chunk("index")["kernels"]

    @cached_property
    def decisions(self) -> dict[str, str]:
        """Values as JSON by address: knobs (passes that are off included), then single rewrites."""
        knobs = {knob["address"]: json.dumps(knob["value"]) for knob in self.chunk("knobs")}
        return {**knobs, **dict(self.chunk("decisions"))}

    @cached_property
    def reasons(self) -> dict[str, str]:
        """Why a decision was taken, by its address, where that is known."""
        return {knob["address"]: knob["why"] for knob in self.chunk("knobs") if knob["why"]}

    @cached_property
    def profile(self) -> Json | None:
        return self.chunk("profile") if self.head["has"]["profile"] else None

    @property
    def launched(self) -> list[tuple[str, str]]:
        """(operation, kernel) in the order in which they run."""
        return [(operation, kernel) for operation, kernel, _ in self.chunk("index")["launches"]]

    @cached_property
    def places(self) -> list[tuple[str, int]]:
        """(buffer, offset in bytes)."""
        if not self.head["has"]["memory"]:
            return []
        return sorted((buffer[0], buffer[5]) for buffer in self.chunk("memory")["buffers"])

    def source_of(self, kernel: int) -> tuple[str, ...]:
        """Lines of a kernel's source."""
        raw = self.chunk(f"kernel/{kernel}")
        return tuple(expanded_lines(raw["source"], {0: raw["page"]}))


def side_of(head: Json, chunk: Callable[[str], Json]) -> Side:
    """From a payload's head and what gives its chunks."""
    return Side(head, chunk)


def comparison_payload(sides: Sequence[Side]) -> Json:
    """Lists hold one entry per side, `differences` one per side after the first."""
    return {
        "labels": [side.head["label"] or "first" for side in sides],
        "models": [side.head["model"]["name"] for side in sides],
        "modelFacts": [_model_facts(side.head) for side in sides],
        "targets": [side.head["target"] for side in sides],
        "summaries": [side.head["summary"] for side in sides],
        "operations": [side.head["passes"][-1]["after"] for side in sides],
        "kernelCounts": [len(side.kernels) for side in sides],
        "samePrograms": [_is_same_program(sides[0], side) for side in sides],
        "differences": [_difference(sides[0], side) for side in sides[1:]],
        "passes": _passes(sides),
        "kernels": _kernels(sides),
        "timelines": [_timeline(side) for side in sides],
    }


def _model_facts(head: Json) -> list[list[str]]:
    """[name, text] of what the file of a model says of itself."""
    model, exact = head["model"], head["summary"]["bitExact"]

    def types(name: str) -> str:
        return ", ".join(f"{tensor} {type_text}" for tensor, type_text in model[name])

    return [
        ["format", model["format"]],
        ["operator set", str(model["opset"] or "")],
        ["producer", model["producer"]],
        ["nodes", f"{model['nodes']:,}"],
        ["parameters", f"{model['parameters']:,}"],
        ["integer arithmetic", "" if exact is None else "yes"],
        ["inputs", types("inputs")],
        ["outputs", types("outputs")],
    ]


def _is_same_program(left: Side, right: Side) -> bool:
    """The same kernels, launched in the same order, with every buffer at the same place: what they
    take differs by chance only."""
    if left is right:
        return True
    if not left.kernels or len(left.kernels) != len(right.kernels):
        return False
    if left.launched != right.launched or left.places != right.places:
        return False
    numbers = {kernel["name"]: number for number, kernel in enumerate(right.kernels)}
    return all(
        kernel["name"] in numbers
        and left.source_of(number) == right.source_of(numbers[kernel["name"]])
        for number, kernel in enumerate(left.kernels)
    )


def _difference(left: Side, right: Side) -> Json:
    names = [[record["name"] for record in side.head["passes"]] for side in (left, right)]
    differing = differing_decisions(left.decisions, right.decisions, *names)
    first = _first_that_matters(differing, left, right)
    return {
        "first": None if first is None else list(first),
        "reasons": [side.reasons.get(first[0], "") for side in (left, right)] if first else [],
        "decisions": [list(row) for row in differing[:MAX_DECISIONS]],
        "differing": len(differing),
    }


def _first_that_matters(
    differing: Sequence[tuple[str, str, str]], left: Side, right: Side
) -> tuple[str, str, str] | None:
    """The first difference, without passes that one side has in addition and that did nothing."""
    idle = {
        record["name"]
        for side in (left, right)
        for record in side.head["passes"]
        if not record["changed"]
    }
    matters = (row for row in differing if row[0] not in idle or NOT_DECIDED not in row[1:])
    return next(matters, differing[0] if differing else None)


def _passes(sides: Sequence[Side]) -> Json:
    """Rows of [name, [numbers or None per side]]; passes of any side, in the first one's order."""
    tables = [
        {
            record["name"]: {**record, "peak": peak}
            for record, peak in zip(
                side.head["passes"], side.chunk("measures")["peaks"], strict=True
            )
        }
        for side in sides
    ]
    names = dict.fromkeys(name for table in tables for name in table)
    return [[name, [_pass(table.get(name)) for table in tables]] for name in names]


def _timeline(side: Side) -> Json:
    """Slices in the order of time, the longest ones where there are many: None without times."""
    if side.profile is None:
        return None
    index = side.chunk("index")
    names = index["sources"]
    sources = {op: [names[number] for number in own] for op, _, own in index["launches"]}
    events = [event for event in side.profile["events"] if event[5] > event[4]]
    kept = sorted(events, key=lambda event: event[4] - event[5])[:MAX_SLICES]
    begin = min((event[4] for event in events), default=0)
    return {
        "milliseconds": side.profile["milliseconds"],
        "leftOut": len(events) - len(kept),
        "slices": [
            [event[1] or event[0], event[2], event[4] - begin, event[5] - begin,
             sources.get(event[1], [])]
            for event in sorted(kept, key=lambda event: event[4])
        ],
    }  # fmt: skip


def _pass(record: Mapping[str, Json] | None) -> Json:
    keys = ("after", "rewrites", "peak", "worst", "check")
    return None if record is None else {key: record[key] for key in keys}


def _kernels(sides: Sequence[Side]) -> Json:
    """Rows of [name, kind, [figures or None per side]].

    Figures' "source" is a number: equal numbers in one row are equal source texts.
    """
    tables = [{k["name"]: (number, k) for number, k in enumerate(s.kernels)} for s in sides]
    kinds = {name: k["kind"] for table in reversed(tables) for name, (_, k) in table.items()}
    names = dict.fromkeys(name for table in tables for name in table)
    rows = []
    for name in names:
        sources: dict[tuple[str, ...], int] = {}
        figures = []
        for side, table in zip(sides, tables, strict=True):
            if name not in table:
                figures.append(None)
                continue
            number, kernel = table[name]
            source = sources.setdefault(side.source_of(number), len(sources))
            figures.append({**_kernel(kernel, side), "source": source})
        rows.append([name, kinds[name], figures])
    return rows


def _by_launch(events: Sequence[Json]) -> list[list[Json]]:
    """Those of a layer on several queues together, and every other one by itself."""
    layers: dict[str, list[Json]] = {}
    for event in events:
        layers.setdefault(event[1], []).append(event)
    found: list[list[Json]] = []
    for own in layers.values():
        has_queues = len({lane for _, _, _, lane, *_ in own}) > 1
        found += [own] if has_queues else [[event] for event in own]
    return found


def _length(events: Sequence[Json]) -> int:
    return max(event[5] for event in events) - min(event[4] for event in events)


def _kernel(kernel: Mapping[str, Json], side: Side) -> dict[str, Json]:
    spent = None
    if side.profile is not None:
        events = [e for e in side.profile["events"] if e[2] == kernel["name"]]
        spent = sum(map(_length, _by_launch(events)))
    prefix = f"schedule-loops/{kernel['name']}/"
    choices = [
        f"{address.removeprefix(prefix)} {json.loads(value)}"
        for address, value in side.decisions.items()
        if address.startswith(prefix)
    ]
    return {"flops": kernel["flops"], "nanoseconds": spent, "choices": choices}
