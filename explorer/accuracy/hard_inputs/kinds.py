"""Which hard inputs an operation gets: of its operator, its operands' types, and quantizations.

hard_inputs(part)        HardInput("offset 1e8", {"x": array}), ...
resized_inputs(part)     HardInput("size 0", {"x": array of (0, 4)}), ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from explorer.accuracy.hard_inputs import rounding, values
from explorer.accuracy.hard_inputs.operators import (
    ARITHMETIC,
    DIVISIONS,
    ELEMENTWISE,
    INDICES,
    MASKS,
    MOVES,
    QUANTIZERS,
    SEARCHES,
    SOFTMAX_LIKE,
    VARIANCE_LIKE,
)
from explorer.accuracy.hard_inputs.products import pair_of, product_of
from explorer.ir.types import is_float_dtype
from explorer.references.parts import SETTINGS, Arrays, Operand, Part, plain

OFFSETS = {"offset 1e4": 1e4, "offset 1e6": 1e6, "offset 1e8": 1e8}
KINDS = (
    "zeros", "integer ends", "every byte", "signed zeros", "infinities", "NaN", "denormals",
    "large numbers", *OFFSETS, "masked rows", "ties", "half steps", "requantization ties",
    "index ends", "size 0", "size 1",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class HardInput:
    kind: str
    """One of `KINDS`."""
    arrays: Arrays
    """All inputs of the operation by name."""


Change = Callable[[Operand, int], np.ndarray]
"""(operand, how many changed before it) -> its array."""


def hard_inputs(part: Part) -> Iterator[HardInput]:
    """Inputs of the shapes that the operation has in its model."""
    operator = plain(part.operator)
    yield from _of_floats(part, operator)
    yield from _of_integers(part, operator)
    yield from _of_rounding(part, operator)
    if operator in SEARCHES and (data := _data(part)):
        yield _changed(part, "ties", data, lambda o, _: values.ties(o.array.dtype, o.array.shape))
    if operator in INDICES:
        yield from _index_ends(part, INDICES[operator])


def resized_inputs(part: Part) -> Iterator[HardInput]:
    """Inputs with an axis of size 0 or 1, which an operation may refuse."""
    shapes = {o.array.shape for o in _data(part)}
    if not part.is_resizable or not any(shapes):
        return
    rank = max(len(shape) for shape in shapes)
    for kind, axis, size in (("size 0", 0, 0), ("size 0", -1, 0), ("size 1", -1, 1)):
        if rank == 1 and axis == 0:
            continue
        place = axis % rank - rank
        extent = max(shape[place] for shape in shapes if len(shape) >= -place)
        arrays = {
            name: np.take(array, range(size), place)
            if array.ndim >= -place and array.shape[place] == extent > size
            else array
            for name, array in part.inputs.items()
        }
        if any(arrays[name] is not array for name, array in part.inputs.items()):
            yield HardInput(kind=kind, arrays=arrays)


def _of_floats(part: Part, operator: str) -> Iterator[HardInput]:
    data = [o for o in _data(part) if is_float_dtype(o.array.dtype)]
    data = [o for o in data if ml_dtypes.finfo(o.array.dtype).bits >= 16]
    if not data:
        return

    def like(construct: Callable[..., np.ndarray]) -> Change:
        return lambda o, number: construct(o.array.dtype, o.array.shape, number)

    yield _changed(part, "signed zeros", data, like(values.signed_zeros))
    yield _changed(part, "denormals", data, like(values.denormals))
    if operator in ELEMENTWISE:
        yield _changed(part, "infinities", data, like(values.infinities))
        yield _changed(part, "NaN", data, like(values.not_numbers))
        yield _changed(part, "large numbers", data, like(values.largest))
    else:
        infinite = [np.inf, -np.inf]
        for operand in data:
            yield _changed(part, "infinities", [operand], _plant(infinite[:1]))
            yield _changed(part, "NaN", [operand], _plant([np.nan]))
        yield _changed(part, "infinities", data[:1], _plant(infinite))
        yield _changed(part, "large numbers", data, lambda o, _: values.scaled_up(o.array))
    if operator in SOFTMAX_LIKE | VARIANCE_LIKE:
        high = float(ml_dtypes.finfo(data[0].array.dtype).max)
        for kind, offset in OFFSETS.items():
            if offset < high / 4:
                yield _changed(part, kind, data[:1], _move(offset, operator in SOFTMAX_LIKE))
    if operator in SOFTMAX_LIKE:
        yield from _masked(part, operator, data)


def _masked(part: Part, operator: str, data: list[Operand]) -> Iterator[HardInput]:
    if operator not in MASKS:
        yield _changed(part, "masked rows", data[:1], lambda o, _: values.masked_rows(o.array))
        return
    for place in MASKS[operator]:
        mask = part.operands[place] if place < len(part.operands) else None
        if mask is not None and not mask.is_constant:
            hidden = values.mask_of_nothing(mask.array.dtype, mask.array.shape)
            yield _changed(part, "masked rows", [mask], lambda o, _, found=hidden: found)


def _of_integers(part: Part, operator: str) -> Iterator[HardInput]:
    data = [o for o in _data(part) if o.array.dtype.kind in "iub"]
    moved = part.operands[0] if operator in MOVES else None
    is_free = operator in ARITHMETIC
    data = [o for o in data if o.array.dtype.itemsize <= 2 or is_free or o is moved]
    if not data:
        return
    divided = part.operands[1] if operator in DIVISIONS and len(part.operands) > 1 else None

    def ends(operand: Operand, number: int) -> np.ndarray:
        construct = values.divisors if operand is divided else values.integer_ends
        return construct(operand.array.dtype, operand.array.shape, number)

    if operator == "pow":
        data = data[:1]
    yield _changed(part, "integer ends", data, ends)
    bytes_ = [o for o in data if o.array.dtype.itemsize == 1 and o.array.dtype.kind in "iu"]
    bytes_ = [o for o in bytes_ if ml_dtypes.iinfo(o.array.dtype).bits == 8 and o is not divided]
    if bytes_:
        size = max(max(o.array.size for o in bytes_), 1)
        turns = -(-256 // size) if len(bytes_) == 1 else 1
        for turn in range(min(turns, rounding.MAX_ARRAYS)):
            yield _changed(
                part,
                "every byte",
                bytes_,
                lambda o, n, turn=turn: values.every_byte(o.array.dtype, o.array.shape, n, turn),
            )


def _of_rounding(part: Part, operator: str) -> Iterator[HardInput]:
    data = _data(part)
    if not data:
        return
    first = data[0]
    if operator in QUANTIZERS and is_float_dtype(first.array.dtype):
        yield from _half_steps(part, first)
    product = product_of(part)
    if product is not None and first.array.ndim:
        shape, dtype = first.array.shape, first.array.dtype
        for array in rounding.product_ties(product, shape, dtype):
            yield HardInput(
                kind="requantization ties", arrays={**part.inputs, product.input: array}
            )
    combine = pair_of(part)
    if combine is not None and len(data) == 2 and data[0].array.shape == data[1].array.shape:
        dtypes = [o.array.dtype for o in data]
        pairs = rounding.pair_ties(combine, dtypes, first.array.shape)
        arrays = {o.name: array for o, array in zip(data, pairs, strict=True)}
        yield HardInput(kind="requantization ties", arrays={**part.inputs, **arrays})


def _half_steps(part: Part, operand: Operand) -> Iterator[HardInput]:
    """Of a quantizer, whose steps are operands of their own or the result's."""
    if part.result is not None:
        scale, zero, axis = part.result.scale, part.result.zero_point, part.result.axis
        dtype = np.dtype(str(part.attributes.get("result_type", "int8")))
    else:
        given = [None if o is None else o.array for o in part.operands[1:3]]
        if not given or given[0] is None:
            return
        scale = given[0]
        zero = given[1] if len(given) > 1 and given[1] is not None else np.array(0, np.uint8)
        dtype, axis = zero.dtype, int(str(part.attributes.get("axis", 1)))
    shape = operand.array.shape
    is_plain = np.size(scale) == 1 or (shape and np.size(scale) == shape[axis % len(shape)])
    if dtype.kind not in "iu" or not is_plain:
        return
    found = rounding.half_steps(scale, zero, dtype, shape, axis)
    found = found.astype(operand.array.dtype)
    yield HardInput(kind="half steps", arrays={**part.inputs, operand.name: found})


def _index_ends(part: Part, place: int) -> Iterator[HardInput]:
    data, indices = part.operands[0], part.operands[place]
    if data is None or indices is None or indices.is_constant or not data.array.ndim:
        return
    axis = int(str(part.attributes.get("axis", 0))) % data.array.ndim
    if data.array.shape[axis]:
        extent = data.array.shape[axis]
        found = values.index_ends(indices.array.dtype, indices.array.shape, extent)
        yield HardInput(kind="index ends", arrays={**part.inputs, indices.name: found})


def _data(part: Part) -> list[Operand]:
    """What is neither constant nor an index nor says how the operator works."""
    operator = plain(part.operator)
    fixed = {*SETTINGS.get(operator, ()), INDICES.get(operator, -1), *MASKS.get(operator, ())}
    found = (o for n, o in enumerate(part.operands) if n not in fixed)
    return list({o.name: o for o in found if o is not None and not o.is_constant}.values())


def _changed(part: Part, kind: str, operands: list[Operand], change: Change) -> HardInput:
    changed = {o.name: change(o, number) for number, o in enumerate(operands)}
    return HardInput(kind=kind, arrays={**part.inputs, **changed})


def _plant(numbers: list[float]) -> Change:
    return lambda operand, _: values.planted(operand.array, numbers)


def _move(offset: float, has_equal_maxima: bool) -> Change:
    def moved(operand: Operand, _: int) -> np.ndarray:
        base = values.with_equal_maxima(operand.array) if has_equal_maxima else operand.array
        return values.offsets(base, offset)

    return moved


def inputs_of_a_model(example: Arrays, has_special: bool) -> Iterator[HardInput]:
    """Inputs of a whole model: what its first operations meet reaches the others.

    example: ordinary inputs. Integers of 32 and 64 bits keep theirs, for they are mostly indices.
    has_special: infinities and NaN, too.
    """
    floats = {n: a for n, a in example.items() if is_float_dtype(a.dtype) and a.size}
    narrow = {n: a for n, a in example.items() if a.dtype.kind in "iub" and a.dtype.itemsize == 1}
    if floats or narrow:
        blank = {n: values.zeros(a.dtype, a.shape) for n, a in {**floats, **narrow}.items()}
        yield HardInput(kind="zeros", arrays={**example, **blank})
    if narrow:
        ends = {n: values.integer_ends(a.dtype, a.shape) for n, a in narrow.items()}
        yield HardInput(kind="integer ends", arrays={**example, **ends})
    for kind, number in (("infinities", np.inf), ("NaN", np.nan)):
        if floats and has_special:
            planted = {n: values.planted(a, [number]) for n, a in floats.items()}
            yield HardInput(kind=kind, arrays={**example, **planted})
