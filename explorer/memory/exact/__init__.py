"""Exact memory planning: a search that finds the least peak, or proves that none is lower.

ExactPlanner()(buffers)         -> MemoryPlan, optimal where the search says so
problem.py     buffers as columns, their sections and neighbours
search.py      places all buffers below a capacity, or proves that it is impossible
planner.py     orders, node limits, bisection between the live bound and the best known peak
"""

from explorer.memory.exact.planner import ExactPlanner, ExactResult

__all__ = ["ExactPlanner", "ExactResult"]
