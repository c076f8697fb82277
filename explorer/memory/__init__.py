"""Memory planning: where every activation lives in one arena, decided at compile time.

    lifetimes(uses, sizes)   what each launch reads and writes   ->  buffers with lifetimes
    GreedyPlanner()          buffers                             ->  MemoryPlan: offsets, bound
    ExactPlanner()           the same by a search                ->  proven, or the gap is stated
    verify_plan(plan)        raises where live buffers overlap or a number is not true
    refuse(plan, budget)     raises where the plan is larger than the budget, naming the layers

All are pure functions over the records of `explorer.results.memory`; nothing here knows the IR.
"""

from explorer.memory.bounds import live_bytes
from explorer.memory.budget import refuse
from explorer.memory.choosing import choose_planner, default_planners
from explorer.memory.exact import ExactPlanner
from explorer.memory.greedy import STRATEGIES, Strategy
from explorer.memory.instances import read_instance
from explorer.memory.liveness import lifetimes
from explorer.memory.pinned import PinnedPlanner
from explorer.memory.planners import (
    GreedyPlanner,
    NoSharingPlanner,
    Planner,
)
from explorer.memory.uses import Use
from explorer.memory.verify import verify_buffers, verify_plan

__all__ = [
    "Use",
    "lifetimes",
    "live_bytes",
    "Planner",
    "GreedyPlanner",
    "ExactPlanner",
    "NoSharingPlanner",
    "PinnedPlanner",
    "Strategy",
    "STRATEGIES",
    "default_planners",
    "choose_planner",
    "verify_buffers",
    "verify_plan",
    "refuse",
    "read_instance",
]
