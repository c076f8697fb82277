"""Which elements of dimensions are needed, seen as those of another shape of the same elements.

(batch, 4, 8), batch below b     as     (batch * 4, 8)       rows below 4 * b
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from explorer.kernels.loops.extents import Need, Needs


def regrouped(needs: Needs, before: Sequence[int], after: Sequence[int]) -> Needs:
    """Needs of dimensions as those of another shape of the same elements.

    Dimensions that are joined are needed up to the last element of the first one that is more
    than 1; one that is taken apart is needed in its first part, and in all of the others.
    """
    found: list[Need] = [None] * len(after)
    left, right = list(range(len(before))), list(range(len(after)))
    while left and right:
        ours, theirs = [left.pop(0)], [right.pop(0)]
        a, b = before[ours[0]], after[theirs[0]]
        while a != b:
            if a < b and left:
                ours.append(left.pop(0))
                a *= before[ours[-1]]
            elif right:
                theirs.append(right.pop(0))
                b *= after[theirs[-1]]
            else:
                return tuple([None] * len(after))
        _regroup(needs, before, after, ours, theirs, found)
    return tuple(found)


def _regroup(
    needs: Needs,
    before: Sequence[int],
    after: Sequence[int],
    ours: Sequence[int],
    theirs: Sequence[int],
    found: list[Need],
) -> None:
    ours = [axis for axis in ours if before[axis] != 1]
    theirs = [axis for axis in theirs if after[axis] != 1]
    if not ours or not theirs or needs[ours[0]] is None:
        return
    need = needs[ours[0]]
    assert need is not None
    inner = prod(before[axis] for axis in ours[1:])
    rest = prod(after[axis] for axis in theirs[1:])
    elements = need * inner
    found[theirs[0]] = (elements + (rest - 1)).divided(rest)
