"""Which device runs which operation, at the least total cost.

    costs = {"conv": {"cpu": 3e-3, "gpu": 1e-3}, "sort": {"cpu": 1e-4}}
    values = {"features": ("conv", 4096, ["sort"])}
    transfers = {("cpu", "gpu"): (2e-5, 1e10), ("gpu", "cpu"): (2e-5, 1e10)}
    least_cost(costs, values, transfers).devices      {"conv": "gpu", "sort": "cpu"}

problem.py      the costs as whole numbers, and what is refused of them
flow.py         the maximum flow of a network, in whole numbers
cut.py          two devices: the minimum cut of a network
starts.py       single devices, greedy rules, and improvements by cuts over pairs of devices
messages.py     a lower bound by messages between operations
search.py       more devices: dynamic programming over what is live, within the bound
makespan.py     devices that work at the same time
choosing.py     `least_cost`, which puts these together
"""

from explorer.placement.choosing import (
    OBJECTIVES,
    Assignment,
    Transferred,
    least_cost,
    total_cost,
)

__all__ = ["OBJECTIVES", "Assignment", "Transferred", "least_cost", "total_cost"]
