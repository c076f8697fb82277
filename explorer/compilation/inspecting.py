"""A model that is opened and looked at, whether it can be compiled or not.

found = inspect_model("net.onnx")
found.problems          {"Decode_3": "unknown operator", ...}: all of them, with the reason
found.operators         what is in it, family by family
found.source            every node, as a program that can be looked at
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from explorer.calling import named_arguments
from explorer.compilation.source_snapshot import operator_records, source_snapshot
from explorer.compilation.tracing import model_record, snapshot_record
from explorer.files import ModelPath
from explorer.importers import ExaminedModel, SourceModel, as_read, examine, load_to_examine
from explorer.importers.model import symbolic_dimensions
from explorer.ir.program import Snapshot
from explorer.ir.weights import Weights
from explorer.results import TRACE_VERSION, OperatorRecord, Trace
from explorer.traces.exploring import Explorable
from explorer.traces.tables import FrameKind, to_frame


def inspect_model(
    model: SourceModel | ModelPath, dimensions: Mapping[str, int] | None = None
) -> Inspection:
    """Opens a model, from its file or as it was loaded, as far as that goes.

    dimensions: sizes of symbolic dimensions by name. ModelError where there is no model in the
    file; what is merely not supported is a part of the result.
    """
    source = model if isinstance(model, SourceModel) else load_to_examine(model)
    return Inspection(source, examine(source, dimensions), bool(dimensions))


def read_trace(model: SourceModel) -> Trace:
    """The model as its file has it, before anything is imported: nodes and edges, and of types what
    the file says. ModelError for a node whose operand nothing makes."""
    return _trace(model, source_snapshot(model, as_read(model), Weights()))


def _trace(
    model: SourceModel,
    source: Snapshot,
    operators: tuple[OperatorRecord, ...] = (),
    problems: tuple[tuple[str, str], ...] = (),
) -> Trace:
    return Trace(
        version=TRACE_VERSION,
        model=model_record(model),
        target="",
        device="",
        label="",
        passes=(),
        snapshots=(),
        diffs=(),
        decisions=(),
        memory=None,
        kernels=(),
        program=None,
        accuracy=None,
        profile=None,
        source=snapshot_record(source),
        operators=operators,
        problems=problems,
    )


class Inspection(Explorable):
    """A model as it is, with what of it cannot be imported. Made by `inspect_model`."""

    model: SourceModel

    def __init__(self, model: SourceModel, examined: ExaminedModel, is_sized: bool = False):
        self.model = model
        self._is_sized = is_sized
        self._examined = examined

    @property
    def problems(self) -> dict[str, str]:
        """Why nodes, inputs or weights cannot be imported, by name; empty where all can."""
        return dict(self._examined.problems)

    @property
    def can_be_imported(self) -> bool:
        return not self._examined.problems

    @property
    def hint(self) -> str:
        """What might help where there are problems; empty where nothing is known to."""
        names = symbolic_dimensions(self.model)
        if self.can_be_imported or self._is_sized or not names:
            return ""
        sizes = ", ".join(f"{name!r}: ..." for name in names)
        return f"with sizes for its dimensions there may be fewer: dimensions={{{sizes}}}"

    @cached_property
    def source(self) -> Snapshot:
        """The model node by node; nodes that cannot be imported say why."""
        return source_snapshot(self.model, self._examined.source, Weights())

    @cached_property
    def operators(self) -> tuple[OperatorRecord, ...]:
        """The model's operators, family by family."""
        examined = self._examined
        return operator_records(
            self.source, examined.rewrites, examined.problems, examined.explanations
        )

    @named_arguments
    def to_frame(self, kind: FrameKind = "operators") -> Any:  # a DataFrame or a Table
        """The table of operators."""
        return to_frame(self.trace(), kind)

    def trace(self) -> Trace:
        """What is known as plain data, for views: the model, and no passes."""
        return _trace(self.model, self.source, self.operators, tuple(self.problems.items()))
