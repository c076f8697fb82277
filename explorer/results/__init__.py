"""Records that every stage fills and every view reads: frozen, without behaviour, JSON-able.

This package is the schema of a trace. It imports nothing else of the project, so that a saved
compilation can be read without a compiler or a device. `TRACE_VERSION` rises with every change
that an older reader would misunderstand; see `explorer.results.trace`.

A record's file is loaded with the first use of its name: whoever runs a program needs few of them,
and making the classes of all takes longer than starting a small program.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from explorer.results.accuracy import (
        AccuracyReport,
        Fault,
        NearTie,
        PassAccuracy,
        TensorDetail,
        TensorError,
        WorstElement,
    )
    from explorer.results.constraints import ConstraintRecord
    from explorer.results.graph import Graph, GraphDiff, GraphEdge, GraphNode, NodeChange
    from explorer.results.indices import OutsideIndex
    from explorer.results.kernels import KernelRecord, PhaseRecord, ScheduleCall, ScheduleStep
    from explorer.results.knobs import Knob, KnobValue
    from explorer.results.memory import (
        BufferLifetime,
        BufferPart,
        MemoryPlan,
        PlacedBuffer,
        PlanAttempt,
        RefusedPlacement,
    )
    from explorer.results.operators import OperatorRecord
    from explorer.results.package import (
        PackageBuffer,
        PackageBuild,
        PackageFile,
        PackageLayer,
        PackageRecord,
        PackagesRecord,
    )
    from explorer.results.passes import Delta, PassRecord, RewriteEvent, RuleRecord
    from explorer.results.program import Argument, Launch, OpenDimension, Port, Program, WeightSlot
    from explorer.results.runs.events import ProfileRecord, ThreadShare, TimedEvent
    from explorer.results.runs.lookups import TIERS, ProgramLookup
    from explorer.results.runs.ports import LoopPorts, PortsRecord
    from explorer.results.runs.quantization import (
        BlockedWeights,
        CostliestLayer,
        LayerErrors,
        ObservedTensor,
        QuantizationErrors,
        QuantizationRecord,
        QuantizedTensor,
        RangeCandidate,
        Saturation,
        ValueHistogram,
        WeightRanges,
    )
    from explorer.results.runs.sessions import SessionCall, SessionProgram, SessionRecord
    from explorer.results.runs.tuning import (
        Candidate,
        CostEstimate,
        CostTerm,
        KernelSearch,
        SearchResult,
    )
    from explorer.results.source import SourceLine, SourcePlace, SourceText
    from explorer.results.trace import TRACE_VERSION, ModelRecord, Trace

_HOMES = {
    "accuracy": "AccuracyReport Fault NearTie PassAccuracy TensorDetail TensorError WorstElement",
    "constraints": "ConstraintRecord",
    "runs.events": "ProfileRecord ThreadShare TimedEvent",
    "graph": "Graph GraphDiff GraphEdge GraphNode NodeChange",
    "indices": "OutsideIndex",
    "kernels": "KernelRecord PhaseRecord ScheduleCall ScheduleStep",
    "knobs": "Knob KnobValue",
    "runs.lookups": "TIERS ProgramLookup",
    "memory": "BufferLifetime BufferPart MemoryPlan PlacedBuffer PlanAttempt RefusedPlacement",
    "operators": "OperatorRecord",
    "package": "PackageBuffer PackageBuild PackageFile PackageLayer PackageRecord PackagesRecord",
    "passes": "Delta PassRecord RewriteEvent RuleRecord",
    "program": "Argument Launch OpenDimension Port Program WeightSlot",
    "runs.ports": "LoopPorts PortsRecord",
    "runs.quantization": (
        "BlockedWeights CostliestLayer LayerErrors ObservedTensor QuantizationErrors "
        "QuantizationRecord QuantizedTensor RangeCandidate Saturation ValueHistogram WeightRanges"
    ),
    "runs.sessions": "SessionCall SessionProgram SessionRecord",
    "source": "SourceLine SourcePlace SourceText",
    "trace": "TRACE_VERSION ModelRecord Trace",
    "runs.tuning": "Candidate CostEstimate CostTerm KernelSearch SearchResult",
}
"""Names by the file that they are defined in: those that type checkers see above."""


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names.split():
            value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(name for names in _HOMES.values() for name in names.split())
