"""A seeded sample of a wide parametrization for `make test`; the rest are sweeps.

    @pytest.mark.sampled(4)                              4 of these 12 cases run in `make test`
    @pytest.mark.parametrize("kind", ["conv", "matmul", "pool"])
    @pytest.mark.parametrize("lanes", [1, 4, 8, 16])

Cases are chosen so that every value of every axis occurs as often as possible: here all kinds and
all lanes do. Names break ties, so the same cases run on every machine.
"""

from collections.abc import Mapping, Sequence
from zlib import crc32

import pytest


def mark_what_is_left_out(items: Sequence[pytest.Item]) -> None:
    """Gives the marker `sweep` to what is not in the sample of its `sampled` function."""
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in families.values():
        (count,) = cases[0].get_closest_marker("sampled").args  # type: ignore[union-attr]
        chosen = sample({case.nodeid: axes_of(case) for case in cases}, count)
        for case in cases:
            if case.nodeid not in chosen:
                case.add_marker("sweep")


def axes_of(item: pytest.Item) -> dict[str, int]:
    """Which value of each parameter a case has."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        raise pytest.UsageError(f"{item.nodeid} is sampled, but it has no parameters")
    return dict(callspec.indices)


def sample(cases: Mapping[str, Mapping[str, int]], count: int) -> set[str]:
    """`count` names of cases: each next one has the most values that were seen least so far."""
    left = sorted(cases, key=lambda name: crc32(name.encode()))
    seen: dict[tuple[str, int], int] = {}
    chosen: set[str] = set()
    while left and len(chosen) < count:
        best = min(left, key=lambda name: [sum(seen.get(v, 0) for v in cases[name].items())])
        for value in cases[best].items():
            seen[value] = seen.get(value, 0) + 1
        chosen.add(best)
        left.remove(best)
    return chosen
