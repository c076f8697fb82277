"""Ties of rounding: a quantized number that differs by one step, in few places.

    exact result 12.5 steps   ->   the reference rounds to 12, a program that multiplies in another
                                   order to 13

Integer arithmetic rounds once where the literal graph rounds a float several times, so that a
result near half a step may go either way. Such a number is not wrong, but it differs in its
integer: it is reported, with the step in units of the source, and what follows from it is compared
in the isolated run. More than one step, or one step in many places, is a mistake (a truncation
instead of a rounding is off by a step in half of all places).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Attribute, OpResult

from explorer.ir.origins import origin_of
from explorer.ir.program import Snapshot
from explorer.ir.row_scales import is_step_of_rows
from explorer.ir.structure import value_name
from explorer.ir.top.support.quantized_scalars import real_array
from explorer.ir.types import QuantizedType, element_type_of
from explorer.results import NearTie

MAX_TIES = 0.02
"""Share of a tensor's elements that may differ by a step."""
FEW = 4
"""So many may always differ, in a tensor of few elements."""


STEPS: dict[Attribute, QuantizedType] = {
    kind: QuantizedType.get(kind, [1.0], [0])
    for kind in (IntegerType(8), IntegerType(8, Signedness.UNSIGNED))
}
"""Bytes whose scale is not in their type: gaps are told in steps."""


def rounding_ties(
    snapshot: Snapshot,
    values: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    quantizers: Collection[str] = (),
    may_tie: Collection[str] | None = None,
    most_ties: float = MAX_TIES,
) -> list[tuple[str, NearTie]]:
    """Quantized values, by name, that differ from the expected ones by ties of rounding only.

    quantizers: identities of operations whose plain bytes are quantized numbers, with parameters
    that are known at run time only. may_tie: tensors of the source whose rounding may go either
    way, all of them where it is None: others that differ are wrong. most_ties: share of a tensor's
    elements that may differ.
    """
    ties = []
    for identity, op in snapshot.operations.items():
        for result in op.results:
            name = value_name(result)
            found, wanted = values.get(name), expected.get(name)
            kind = element_type_of(result)
            if identity in quantizers:
                kind = STEPS.get(kind, kind)
            if found is None or wanted is None or not isinstance(kind, QuantizedType):
                continue
            if found.shape != wanted.shape or found.dtype != wanted.dtype:
                continue
            record = _record(identity, result, kind, found, wanted, most_ties)
            is_free = may_tie is None or identity in quantizers
            if record is not None and (is_free or record.tensor in (may_tie or ())):
                ties.append((name, record))
    return ties


def are_ties_of_rows(
    found: np.ndarray, wanted: np.ndarray, axis: int, rows: int, tolerance: float
) -> bool:
    """Whether rows that are stored as bytes (`explorer.ir.row_scales`) differ by at most a step of
    the row, in few places of the last `rows` rows along an axis. Less than the tolerance, relative
    to the largest number, is no difference."""
    nans = np.isnan(found), np.isnan(wanted)
    if found.shape != wanted.shape or not np.array_equal(*nans) or nans[0].all():
        return False
    with np.errstate(invalid="ignore"):
        far = np.abs(found - wanted) > tolerance * np.nanmax(np.abs(wanted))
    added = wanted.size // wanted.shape[axis] * rows
    if np.count_nonzero(far) > max(FEW, MAX_TIES * added):
        return False
    return bool(is_step_of_rows(found, wanted, axis)[far].all())


def _record(
    identity: str,
    result: OpResult,
    kind: QuantizedType,
    found: np.ndarray,
    wanted: np.ndarray,
    most_ties: float,
) -> NearTie | None:
    """The tie; None where the tensors are equal, or differ by more than rounding explains."""
    steps = found.astype(np.int64) - wanted.astype(np.int64)
    count = int(np.count_nonzero(steps))
    if not count or np.abs(steps).max() > 1 or count > max(FEW, most_ties * steps.size):
        return None
    first = tuple(int(i) for i in np.argwhere(steps)[0])
    origin = origin_of(result)
    real, target = real_array(found, kind), real_array(wanted, kind)
    gap = float(np.abs(real - target).max()) / max(float(np.abs(target).max()), 1e-6)
    tensor = origin.tensor if origin else ""
    values = int(found[first]), int(wanted[first])
    return NearTie(identity, tensor, count, first, *values, gap, kind="rounding")
