"""Exact memory planning: a search that finds the least peak, or proves that none is lower.

ExactPlanner()(buffers)         -> MemoryPlan, optimal where the search says so
problem.py     buffers as columns, their sections and neighbours
search.py      places all buffers below a capacity, or proves that it is impossible
minimizing.py  node limits, bisection between the live bound and the best known peak
repairing.py   the search around the steps in which a long plan is too large
ejecting.py    how a plan becomes lower, by moves.py; joining.py  blocks that fit exactly
compiled.py    search and moves compiled by numba; prover.py  CP-SAT of OR-Tools
forbidden.py   bytes that no buffer may take
planner.py     greedy orders first, then all of these
"""

from explorer.memory.exact.planner import ExactPlanner
from explorer.memory.exact.result import ExactResult

__all__ = ["ExactPlanner", "ExactResult"]
