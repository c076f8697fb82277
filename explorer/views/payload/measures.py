"""What was planned and measured, as data for the explorer: memory, accuracy, profile, kernels.

Numbers keep four significant digits in pictures (`rounded`) and all of them where a person reads
one. What JSON cannot say is a string: "NaN", "Infinity", "-Infinity".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from explorer.results import (
    AccuracyReport,
    KernelRecord,
    MemoryPlan,
    PassAccuracy,
    ProfileRecord,
    ProgramLookup,
    TensorError,
)
from explorer.results.memory import memories_of
from explorer.views.payload.counted_layers import counted_payload
from explorer.views.payload.details import DetailPages
from explorer.views.payload.text import Json, LineTable
from explorer.views.renderers.page import parts_of
from explorer.views.theme import judged_error
from explorer.views.verdicts import costliest_parts, grounds

TENSORS_PER_PAGE = 50
"""Tensors whose errors over all passes travel in one message."""
METRICS: dict[str, Callable[[TensorError], float]] = {
    "sqnr": lambda error: error.sqnr_db,
    "cosine": lambda error: 1 - error.cosine,
}
"""What a heat map may show besides the relative error; the cosine as its distance from 1."""


def number(value: float) -> float | str:
    """A number that JSON can hold."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def rounded(value: float) -> float | str:
    """A number with four significant digits that JSON can hold."""
    return number(float(f"{value:.4g}"))


def memory_payload(plan: MemoryPlan) -> Json:
    """Buffers with the values in some of their bytes, and refused places, which name buffers by
    their place here."""
    places = {p.buffer.id: index for index, p in enumerate(plan.placements)}
    return {
        "buffers": [
            [p.buffer.id, list(p.buffer.values), p.buffer.size_bytes, p.buffer.first,
             p.buffer.last, p.offset_bytes, p.buffer.alignment_bytes,
             [[part.value, part.offset_bytes, part.size_bytes, part.first, part.last, part.is_view]
              for part in p.buffer.parts], p.buffer.state]
            for p in plan.placements
        ],
        "peak": plan.peak_bytes,
        "bound": plan.bound_bytes,
        "optimal": plan.optimal,
        "refusals": [
            [places[r.buffer], r.offset_bytes, places[r.obstacle], r.overlap_bytes]
            for r in plan.refusals
            if r.buffer in places and r.obstacle in places
        ],
        "refusalsLeftOut": plan.refusals_left_out,
        "live": list(plan.live_bytes),
        "steps": list(plan.steps),
        "total": plan.total_bytes,
        "memories": [[m.name, m.first_byte, m.size_bytes] for m in memories_of(plan)],
    }  # fmt: skip


def lookups_payload(lookups: Sequence[ProgramLookup]) -> Json:
    """Where the binary came from, the latest first."""
    return [
        {
            "tier": found.tier,
            "digest": found.digest,
            "seconds": rounded(found.seconds),
            "reason": found.reason,
            "key": [list(pair) for pair in found.key],
        }
        for found in reversed(lookups)
    ]


def profile_payload(profile: ProfileRecord) -> Json:
    return {
        "device": profile.device,
        "threads": profile.threads,
        "repeats": profile.repeats,
        "milliseconds": number(profile.milliseconds),
        "peakGflops": number(profile.peak_gflops),
        "peakGbytes": number(profile.peak_gbytes_per_second),
        "caches": [[c.name, c.size_bytes, number(c.gbytes_per_second)] for c in profile.caches],
        "counted": None if profile.counted is None else counted_payload(profile.counted),
        "events": [
            [
                e.name,
                e.operation,
                e.kernel,
                e.lane,
                e.start_ns,
                e.end_ns,
                e.flops,
                e.bytes_moved,
                e.cycles,
            ]
            for e in profile.events
        ],
    }


def kernel_payload(kernel: KernelRecord) -> Json:
    """A kernel with the steps of its schedule; lines that the steps share stand once."""
    table = LineTable(page_characters=1 << 60)
    steps = [
        {
            "name": step.name,
            "arguments": [list(pair) for pair in step.arguments],
            "operations": step.operations,
            "text": table.add(step.text),
        }
        for step in kernel.steps
    ]
    source = table.add(kernel.source)
    assembly = None if kernel.assembly is None else table.add(kernel.assembly)
    return {
        "name": kernel.name,
        "kind": kernel.kind,
        "operations": list(kernel.operations),
        "flops": kernel.flops,
        "bytes": kernel.bytes_moved,
        "phases": [[phase.function, phase.tasks] for phase in kernel.phases],
        "steps": steps,
        "schedule": kernel.schedule,
        "source": source,
        "assembly": assembly,
        "assemblyLines": [list(lines) for lines in kernel.assembly_lines],
        "assemblyNote": kernel.assembly_note,
        "note": kernel.note,
        "page": table.page(0),
    }


@dataclass(frozen=True)
class AccuracyTables:
    """An accuracy report by tensor: the columns of its heat map, and details in pages."""

    report: AccuracyReport
    pass_names: tuple[str, ...]
    """Names of the trace's passes, to which the report's are matched in order."""
    tensors: tuple[str, ...]
    """Every tensor once, in the order of the first pass that has it."""

    @staticmethod
    def of(report: AccuracyReport, pass_names: Sequence[str]) -> AccuracyTables:
        names: dict[str, None] = {}
        for measured in (*report.passes, *report.isolated, *report.against_float):
            names.update(dict.fromkeys(error.tensor for error in measured.tensors))
            # An index that is tied is compared with nothing, and still has a column.
            names.update(dict.fromkeys(tie.tensor for tie in measured.near_ties if tie.tensor))
        return AccuracyTables(report, tuple(pass_names), tuple(names))

    def page_count(self) -> int:
        return -(-len(self.tensors) // TENSORS_PER_PAGE)

    def heat_map(self) -> Json:
        """Per mode one row per pass: the relative error of every tensor, null where it is gone."""
        return {
            "oracle": self.report.oracle,
            "tolerance": number(self.report.tolerance),
            "passed": self.report.passed,
            "tensors": list(self.tensors),
            "makers": self._makers(),
            "accumulated": self._rows(self.report.passes),
            "isolated": self._rows(self.report.isolated),
            "float": self._rows(self.report.against_float),
            "outputs": [_error_row(error) for error in self.report.outputs],
            "grounds": grounds(self.report),
            "fault": self.first_fault(),
            "costliest": parts_of(costliest_parts(self.report)),
            "guilty": self._guilty(),
            "byFloat64": self._by_float64(),
            "detailPages": self.details.page_count(),
            "detailsLeftOut": self.details.left_out,
        }

    def _by_float64(self) -> Json:
        """Of tensors that the oracle cannot judge at the end, by name: the distance from float64
        and the most that is allowed."""
        tolerance = self.report.tolerance
        last = self.report.passes[-1].tensors if self.report.passes else ()
        return {
            error.tensor: [number(n) for n in error.judged(tolerance)]
            for error in last
            if error.is_judged_by_float64
        }

    @cached_property
    def details(self) -> DetailPages:
        """Histograms and worst elements, in the order of the columns."""
        return DetailPages(self.report, self.tensors)

    def _guilty(self) -> Json | None:
        """What a bisection found, in the form that the app's has."""
        fault = self.report.fault
        if fault is None:
            return None
        return {
            "pass": fault.pass_name,
            "rule": fault.rule,
            "operation": fault.operation,
            "address": fault.address,
        }

    def culprit(self) -> Json | None:
        """Where a person looks first in a wrong program: the pass that a bisection blamed, else
        the first after which something is wrong, and the operation."""
        if self.report.fault is not None and self.report.fault.pass_name in self.pass_names:
            place = self.pass_names.index(self.report.fault.pass_name)
            return {"pass": place, "operation": self.report.fault.operation}
        first = None if self.report.passed else self.first_fault()
        if first is None or first["pass"] < 0:
            return None
        return {"pass": first["pass"], "operation": first["operation"]}

    def metric(self, name: str) -> Json:
        """Per mode the values of another metric, in the rows and columns of the heat map."""
        of = METRICS[name]
        return {
            "accumulated": [self._values(p, of) for p in self.report.passes],
            "isolated": [self._values(p, of) for p in self.report.isolated],
            "float": [self._values(p, of) for p in self.report.against_float],
        }

    def first_fault(self) -> Json | None:
        """The first pass after which a tensor is out of tolerance, and the first such tensor.

        The isolated comparison blames the guilty tensor, so that it is asked first.
        """
        isolated = self.report.isolated or self.report.passes
        tolerance = self.report.tolerance
        for row, (together, apart) in enumerate(zip(self.report.passes, isolated, strict=True)):
            wrong = next(
                (
                    (mode, error)
                    for mode, accuracy in (("isolated", apart), ("accumulated", together))
                    for error in accuracy.tensors
                    if not judged_error(error, tolerance) <= tolerance
                ),
                None,
            )
            if wrong is not None:
                mode, error = wrong
                return {
                    "pass": self.places(self.report.passes)[row],
                    "name": together.name,
                    "mode": mode,
                    "tensor": error.tensor,
                    "operation": error.operation,
                    "relative": number(error.max_relative),
                }
        return None

    def page(self, index: int) -> Json:
        """Details of some tensors: tensor -> mode -> rows with their passes first.

        Most passes leave a tensor as it is: successive ones with the same errors share a row.
        """
        start = index * TENSORS_PER_PAGE
        wanted = {name: [] for name in self.tensors[start : start + TENSORS_PER_PAGE]}
        details = {}
        for mode, measured in (
            ("accumulated", self.report.passes),
            ("isolated", self.report.isolated),
            ("float", self.report.against_float),
        ):
            rows: dict[str, list[Json]] = {name: [] for name in wanted}
            for place, accuracy in zip(self.places(measured), measured, strict=True):
                for error in accuracy.tensors:
                    if error.tensor not in rows:
                        continue
                    of_tensor, row = rows[error.tensor], _error_row(error)
                    if of_tensor and of_tensor[-1][1:] == row:
                        of_tensor[-1][0].append(place)
                    else:
                        of_tensor.append([[place], *row])
            details[mode] = [rows[name] for name in wanted]
        return {"first": start, **details}

    def places(self, measured: Sequence[PassAccuracy]) -> list[int]:
        """Index of the trace's pass of each measured one, found in order; -1 where there is none.

        A pass may run several times under one name, so that a search starts where the last ended.
        """
        places, start = [], 0
        for accuracy in measured:
            try:
                place = self.pass_names.index(accuracy.name, start)
                start = place + 1
            except ValueError:
                place = -1
            places.append(place)
        return places

    def _makers(self) -> Json:
        """Per tensor the operations that make it: [first row, operation] wherever it changes."""
        makers: dict[str, list[list[Json]]] = {name: [] for name in self.tensors}
        for row, measured in enumerate(self.report.passes):
            for made in (*measured.tensors, *(tie for tie in measured.near_ties if tie.tensor)):
                noted = makers[made.tensor]
                if not noted or noted[-1][1] != made.operation:
                    noted.append([row, made.operation])
        return list(makers.values())

    def _rows(self, measured: Sequence[PassAccuracy]) -> Json:
        return [
            {
                "pass": place,
                "name": accuracy.name,
                "values": self._values(accuracy, lambda error: error.max_relative),
                "ties": [
                    [
                        tie.operation,
                        tie.tensor,
                        tie.elements,
                        list(tie.index),
                        tie.found,
                        tie.expected,
                        rounded(tie.gap),
                        tie.kind,
                    ]
                    for tie in accuracy.near_ties
                ],
            }
            for place, accuracy in zip(self.places(measured), measured, strict=True)
        ]

    def _values(self, accuracy: PassAccuracy, of: Callable[[TensorError], float]) -> Json:
        """A row of the heat map: null where the tensor is not there any more."""
        by_tensor = {error.tensor: rounded(of(error)) for error in accuracy.tensors}
        return [by_tensor.get(name) for name in self.tensors]


def judged_payload(worst: TensorError | None, tolerance: float) -> dict[str, Json]:
    """The number that a verdict rests on, the most that is allowed, and whether it is a distance
    from float64; None where nothing was compared."""
    if worst is None:
        return {"worst": None, "allowed": None, "isExact": False}
    found, allowed = worst.judged(tolerance)
    return {
        "worst": number(found),
        "allowed": number(allowed),
        "isExact": worst.is_judged_by_float64,
    }


def _error_row(error: TensorError) -> Json:
    """The last two, of an error that is right all the same: our distance from the model in float64,
    and that which others reach."""
    as_exact = (error.from_exact, error.reachable) if error.as_exact else (None, None)
    return [
        error.operation,
        number(error.max_relative),
        number(error.max_absolute),
        number(error.cosine),
        number(error.sqnr_db),
        list(error.worst_index),
        number(error.worst_value),
        number(error.expected_value),
        error.tensor,
        *(None if distance is None else number(distance) for distance in as_exact),
    ]
