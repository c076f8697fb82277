"""Ties of indices: an argmax or top-k that picks another candidate which is equally good.

    scores [1.0, 1.0000002, 0]   ->   the reference picks 1, a program that rounds otherwise 0

Such an index is not wrong, but all that is computed with it differs. It is reported, and what
follows from it is compared in the isolated run, where every operation is fed the reference's index.
What the outputs are all the same, end to end, is told beside that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from explorer.accuracy.steps import MAX_TIES, rounding_ties
from explorer.ir.evaluation import entry_function, entry_return, output_names
from explorer.ir.operation import TopOperation
from explorer.ir.program import Snapshot
from explorer.ir.structure import value_name
from explorer.results import NearTie

Values = Mapping[str, np.ndarray]
TIE = 1e-5
"""Two candidates that are this close, relative to the largest, are a tie."""
QUANTIZER = "top.dynamic_quantize"
SEARCHES = ("top.arg", "top.top_k")
"""Operations whose results are positions of the best elements along an axis."""
OUTPUT = "output:"
"""Before the name of an output among the values of a run."""


@dataclass(frozen=True)
class Tie:
    """A near-tie, and the name that its index has among the values of the snapshot."""

    value: str
    record: NearTie


def near_ties(
    snapshot: Snapshot,
    values: Values,
    expected: Values,
    searches: Mapping[str, TopOperation] | None = None,
    may_tie: Collection[str] | None = None,
    most_ties: float = MAX_TIES,
) -> tuple[Tie, ...]:
    """Indices that differ from the expected ones where the candidates are equally good, and
    quantized numbers that differ by a step where rounding may go either way (`steps.py`).

    `searches`: the operations of `SEARCHES` in earlier snapshots by identity, for launches that
    were made of them; by default the snapshot's own. `may_tie`, `most_ties`: of quantized
    numbers, see `rounding_ties`.
    """
    known = snapshot.operations if searches is None else searches
    ties = []
    for identity, op in snapshot.operations.items():
        search = known.get(identity)
        if search is None or search.name not in SEARCHES:
            continue
        name = index_name(identity, search)
        found, wanted = values.get(name), expected.get(name)
        scores = expected.get(value_name(op.operands[0]))
        if found is None or wanted is None or scores is None or np.array_equal(found, wanted):
            continue
        gap = gap_between(found, wanted, scores, search)
        if gap <= TIE:
            origin = snapshot.origins.get(name)
            ties.append(
                Tie(name, tie_record(identity, origin.tensor if origin else "", found, wanted, gap))
            )
    quantizers = {identity for identity, op in known.items() if op.name == QUANTIZER}
    found = rounding_ties(snapshot, values, expected, quantizers, may_tie, most_ties)
    ties += [Tie(name, record) for name, record in found]
    return tuple(ties)


def index_name(identity: str, search: TopOperation) -> str:
    """The index is the only result of an argmax and the second one of a top-k."""
    return f"{identity}.1" if search.name == "top.top_k" else identity


def gap_between(
    found: np.ndarray, wanted: np.ndarray, scores: np.ndarray, search: TopOperation
) -> float:
    """How far the scores are apart that both indices pick, relative to the largest score.

    Infinite where they cannot stand for one another: an index that picks nothing, or a top-k that
    picks an element twice.
    """
    axis: int = search.get("axis")
    if found.shape != wanted.shape or not np.all((found >= 0) & (found < scores.shape[axis])):
        return float("inf")
    picks = [found, wanted]
    if search.name == "top.top_k":
        in_order = np.sort(found, axis=axis)
        if np.any(np.diff(in_order, axis=axis) == 0):
            return float("inf")
    elif not search.get("keepdims"):
        picks = [np.expand_dims(index, axis) for index in picks]
    chosen = [
        np.take_along_axis(scores, i.astype(np.int64), axis).astype(np.float64) for i in picks
    ]
    scale = max(float(np.max(np.abs(scores))), 1e-6)
    largest = float(np.max(np.abs(chosen[0] - chosen[1]))) / scale
    return largest if np.isfinite(largest) else float("inf")


def tie_record(
    operation: str, tensor: str, found: np.ndarray, wanted: np.ndarray, gap: float
) -> NearTie:
    differing = np.argwhere(found != wanted)
    first = tuple(int(i) for i in differing[0])
    return NearTie(
        operation=operation,
        tensor=tensor,
        elements=len(differing),
        index=first,
        found=int(found[first]),
        expected=int(wanted[first]),
        gap=gap,
    )


def after_ties(snapshot: Snapshot, values: Values, isolated: Values, ties: Sequence[Tie]) -> Values:
    """Values (and outputs) that depend on a tied index are taken from the isolated run, or left
    out where there was none; the index itself is left out.
    """
    if not ties:
        return values
    tied = {tie.value for tie in ties}
    tainted = reached_from(snapshot, tied)
    origins = snapshot.origins
    tensors = {origins[name].tensor for name in origins if stands_for(name, tainted)}
    tensors |= {n for n, v in returned_values(snapshot) if stands_for(value_name(v), tainted)}
    chosen: dict[str, np.ndarray] = {}
    for name, array in values.items():
        is_output = name.startswith(OUTPUT) and name.removeprefix(OUTPUT) in tensors
        if name in tied:
            continue
        if not is_output and not stands_for(name, tainted):
            chosen[name] = array
        elif name in isolated:
            chosen[name] = isolated[name]
    return chosen


def returned_values(snapshot: Snapshot) -> list[tuple[str, SSAValue]]:
    """The program's outputs under the source model's names, and the values that they are."""
    function = entry_function(snapshot.program)
    return list(zip(output_names(function), entry_return(function).operands, strict=True))


def reached_from(snapshot: Snapshot, values: Collection[str]) -> set[str]:
    """The values, and the operations that depend on them.

    The host's function stands before the device's, whose results it receives: one walk over the
    program does not reach all.
    """
    reached, count = set(values), -1
    while len(reached) > count:
        count = len(reached)
        for identity, op in snapshot.operations.items():
            if any(stands_for(value_name(operand), reached) for operand in op.operands):
                reached.add(identity)
    return reached


def stands_for(name: str, values: Collection[str]) -> bool:
    """Is the value one of these, a further result of one, or what a device returns for one?

    `conv_1.1` and `conv_1.device` belong to `conv_1`.
    """
    parts = name.split(".")
    return any(".".join(parts[: count + 1]) in values for count in range(len(parts)))
