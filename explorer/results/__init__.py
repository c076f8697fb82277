"""Records that every stage fills and every view reads: frozen, without behaviour, JSON-able.

This package is the schema of a trace. It imports nothing else of the project, so that a saved
compilation can be read without a compiler or a device. `TRACE_VERSION` rises with every change
that an older reader would misunderstand; see `explorer.results.trace`.
"""

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
from explorer.results.events import ProfileRecord, TimedEvent
from explorer.results.graph import Graph, GraphDiff, GraphEdge, GraphNode, NodeChange
from explorer.results.kernels import KernelRecord, PhaseRecord, ScheduleCall, ScheduleStep
from explorer.results.knobs import Knob, KnobValue
from explorer.results.lookups import TIERS, ProgramLookup
from explorer.results.memory import (
    BufferLifetime,
    MemoryPlan,
    PlacedBuffer,
    PlanAttempt,
    RefusedPlacement,
)
from explorer.results.operators import OperatorRecord
from explorer.results.passes import Delta, PassRecord, RewriteEvent, RuleRecord
from explorer.results.program import Argument, Launch, OpenDimension, Port, Program, WeightSlot
from explorer.results.sessions import Call, SessionProgram, SessionRecord
from explorer.results.source import SourceText
from explorer.results.trace import TRACE_VERSION, ModelRecord, Trace
from explorer.results.tuning import Candidate, CostEstimate, CostTerm, KernelSearch, SearchResult

__all__ = [
    "TIERS",
    "TRACE_VERSION",
    "AccuracyReport",
    "Argument",
    "BufferLifetime",
    "Candidate",
    "Call",
    "ConstraintRecord",
    "CostEstimate",
    "CostTerm",
    "Delta",
    "Fault",
    "Graph",
    "GraphDiff",
    "GraphEdge",
    "GraphNode",
    "KernelRecord",
    "KernelSearch",
    "Knob",
    "KnobValue",
    "Launch",
    "MemoryPlan",
    "ModelRecord",
    "NearTie",
    "NodeChange",
    "OpenDimension",
    "OperatorRecord",
    "PassAccuracy",
    "PassRecord",
    "PhaseRecord",
    "PlacedBuffer",
    "PlanAttempt",
    "Port",
    "ProfileRecord",
    "Program",
    "ProgramLookup",
    "RefusedPlacement",
    "RewriteEvent",
    "RuleRecord",
    "ScheduleCall",
    "ScheduleStep",
    "SessionProgram",
    "SessionRecord",
    "SearchResult",
    "SourceText",
    "TensorDetail",
    "TensorError",
    "TimedEvent",
    "Trace",
    "WeightSlot",
    "WorstElement",
]
