"""The planners of this package by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from explorer.errors import InputError
from explorer.memory.exact.planner import ExactPlanner
from explorer.memory.planners import GreedyPlanner, NoSharingPlanner, Planner
from explorer.memory.published import PublishedPlanner
from explorer.results.names import near_name

PlannerName = Literal["greedy", "exact", "no-sharing", "portions", "tflite-micro", "onnxruntime"]


def default_planners() -> dict[str, Planner]:
    """The planners of this package by name."""
    return {
        "greedy": GreedyPlanner(),
        "exact": ExactPlanner(),
        "no-sharing": NoSharingPlanner(),
        "portions": PublishedPlanner("portions"),
        "tflite-micro": PublishedPlanner("tflite-micro"),
        "onnxruntime": PublishedPlanner("onnxruntime"),
    }


def choose_planner(name: str, planners: Mapping[str, Planner]) -> Planner:
    """The planner of that name, or an error that lists the names there are."""
    if name in planners:
        return planners[name]
    hint = near_name(name, planners, otherwise=" or ".join(sorted(planners)))
    raise InputError(f"there is no memory planner {name!r}", hint=hint)
