"""A whole compilation as data: what `Compilation.save` writes and the views read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from explorer.results.accuracy import AccuracyReport
from explorer.results.constraints import ConstraintRecord
from explorer.results.displayed import Displayed
from explorer.results.encoding import from_json, to_json
from explorer.results.graph import Graph, GraphDiff
from explorer.results.kernels import KernelRecord
from explorer.results.knobs import Knob
from explorer.results.memory import MemoryPlan
from explorer.results.operators import OperatorRecord
from explorer.results.passes import PassRecord, RuleRecord
from explorer.results.program import Program
from explorer.results.runs.events import ProfileRecord
from explorer.results.runs.lookups import ProgramLookup
from explorer.results.runs.ports import PortsRecord
from explorer.results.runs.quantization import QuantizationRecord
from explorer.results.runs.tuning import CostEstimate, KernelSearch
from explorer.results.source import SourceLine, SourceText

TRACE_VERSION = 1

Record = TypeVar("Record")


@dataclass(frozen=True, kw_only=True)
class ModelRecord:
    name: str
    format: str
    producer: str
    opset: str
    nodes: int
    parameters: int
    inputs: tuple[tuple[str, str], ...]
    """(name, type), e.g. ("images", "1x1x8x8 f32")."""
    outputs: tuple[tuple[str, str], ...]
    source_nodes: tuple[tuple[str, str, str], ...] = ()
    """(name, operator, text) of every node of the source model, for the source pane."""
    source_lines: tuple[SourceLine, ...] = ()
    """Lines of the author's program, where the format keeps them."""
    judge: str = ""
    """Who is right about it: `onnxruntime, optimizations off`; empty where nobody is known."""
    differences: tuple[str, ...] = ()
    """Where its format's layout and rounding are not ONNX's, in sentences."""


@dataclass(frozen=True)
class SnapshotRecord:
    """The program after one pass. Unchanged snapshots are the same object."""

    text: SourceText
    graph: Graph


@dataclass(frozen=True, kw_only=True, repr=False)
class Trace(Displayed):
    version: int
    model: ModelRecord
    target: str
    """Names of all targets that were given, joined by `+`."""
    device: str
    label: str
    """Name of the fork; empty for the first compilation."""
    passes: tuple[PassRecord, ...]
    """The first record is the import."""
    snapshots: tuple[SnapshotRecord, ...]
    """One per pass, `snapshots[i]` after `passes[i]`."""
    diffs: tuple[GraphDiff, ...]
    """`diffs[i]` between the snapshots before and after `passes[i]`; of the import from
    `source`."""
    decisions: tuple[tuple[str, str], ...]
    """(address, value as JSON): overrides that replay this compilation."""
    memory: MemoryPlan | None
    kernels: tuple[KernelRecord, ...]
    program: Program | None
    accuracy: AccuracyReport | None
    profile: ProfileRecord | None
    knobs: tuple[Knob, ...] = ()
    """What may be decided otherwise, in the order of the passes, with the values that are legal."""
    rules: tuple[RuleRecord, ...] = ()
    """The text of every rule that fired or declined, as far as it is known."""
    source: SnapshotRecord | None = None
    """The model as it is, before the first pass; None in traces that do not hold it."""
    operators: tuple[OperatorRecord, ...] = ()
    """The model's operators, family by family."""
    problems: tuple[tuple[str, str], ...] = ()
    """(node, input or weight of the model, why it cannot be imported). There are passes only
    where this is empty."""
    needs_quantization: bool = False
    """The target refuses the model because nothing in it is quantized."""
    constraints: tuple[ConstraintRecord, ...] = ()
    """What the model asks of its symbolic dimensions, in the order of its operations."""
    lookups: tuple[ProgramLookup, ...] = ()
    """Where the binary came from, each time that the program was opened."""
    searches: tuple[KernelSearch, ...] = ()
    """What searches for schedules tried, the last one of each kernel."""
    language: str = ""
    """What kernels are written in, as a person says it: OpenCL C. Older traces have none."""
    costs: tuple[CostEstimate, ...] = ()
    """What the cost model predicts of one launch of each kernel, on as many threads as `profile`
    was measured with; empty where nothing was measured, and of GPUs, of which it knows nothing."""

    processor: str = ""
    """The family of the processor that compiled it, as LLVM names it; empty where that is unknown,
    and in older traces."""
    quantization: QuantizationRecord | None = None
    """How a float model was quantized; None where it was not, and in older traces."""
    ports: PortsRecord | None = None
    """What limits its hot loops on a core; None where nobody asked, and in older traces."""
    parts: Mapping[str, object] = field(default_factory=dict)
    """Records of further kinds by name; `part` reads one."""

    def part(self, name: str, kind: type[Record]) -> Record | None:
        """The record of that name, or None; ValueError where a file holds something else."""
        found = self.parts.get(name)
        if found is None or isinstance(found, kind):
            return found
        return from_json(kind, found, name)

    def with_part(self, name: str, record: object) -> Trace:
        """The same trace with a record of that name; parts that nobody has read stay to be made."""
        makers = {known: partial(self.parts.__getitem__, known) for known in self.parts}
        return replace(self, parts=MadeParts({**makers, name: lambda: record}))

    @property
    def source_language(self) -> str:
        """`language`; of a trace without, what its target says."""
        return self.language or ("OpenCL C" if self.target.startswith("opencl") else "C")


class MadeParts(Mapping[str, object]):
    """Parts of a trace, each made when it is first read, and kept. They equal those of a file."""

    def __init__(self, makers: Mapping[str, Callable[[], object]]) -> None:
        self._makers = dict(makers)
        self._made: dict[str, object] = {}

    def __getitem__(self, name: str) -> object:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return to_json(self) == to_json(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType]  (as a dict)

    def __reduce__(self) -> tuple[object, ...]:
        return dict, (dict(self),)  # a pickle holds what was made, and cannot hold what makes it
