"""The options of a compilation that sessions and starts pass on, as types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from explorer.compilation.settings.quantizing import ModesChoice, TableChoice
    from explorer.compilation.settings.settings import Progress
    from explorer.ir.rewriting.passes import Pass
    from explorer.memory.choosing import PlannerName
    from explorer.memory.planners import Planner
    from explorer.results.pass_names import PassName


class CompileOptions(TypedDict, total=False):
    """The options of `explorer.compile`, less those of the model and its sizes."""

    disable: Sequence[PassName | str]
    decisions: Mapping[str, object] | None
    fuel: int | None
    planner: Planner | PlannerName | str | None
    budget_bytes: int | None
    flash_bytes: int | None
    pipeline: Sequence[Pass] | None
    tuned: bool
    tuned_threads: int
    host: bool
    quantization: TableChoice
    modes: ModesChoice
    states: str | Sequence[str]
    capacity: int | None
    clusters: Mapping[str, str] | None
    fallback: bool
    progress: Progress | None
