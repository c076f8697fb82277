"""What finds elements by their values: nonzero, unique, non-maximum suppression.

    top.nonzero(%x)     x: [3, 0, 5]   ->   [[0, 2]]

How many are found depends on the contents: the size of the results is unknown ("?"), and only a
program that was made for certain contents declares it. Such a program can be compiled: its results
have as many places as the declared size says, which are filled in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    BoolAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.operation import Access, TopOperation
from explorer.ir.sizes.dimensions import UNKNOWN
from explorer.ir.top.definitions import load_element, load_index, scratch, store_element
from explorer.ir.top.support.operands import require_same_type
from explorer.ir.types import Shape, element_type_of, shape_of, static_shape, tensor_type


class SelectingOperation(TopOperation):
    """What they share: sizes that were declared stay, others are unknown."""

    FAMILY: ClassVar[str] = "movement"
    SIZED_BY_DATA: ClassVar[bool] = True

    def declared(self, index: int, shape: Shape) -> Shape:
        """The shape with what the declared result knows better."""
        if not self.results:
            return shape
        known = shape_of(self.results[index])
        if len(known) != len(shape):
            raise ValueError(f"{self.name}: result {index} is {known}, {shape} is expected")
        return tuple(d if size == UNKNOWN else size for size, d in zip(shape, known, strict=True))

    def missing_form(self) -> str:
        """Where nobody knows how large the results are."""
        if any(isinstance(size, str) for result in self.results for size in shape_of(result)):
            return (
                f"how many elements {self.name} finds depends on the inputs: only a program that "
                "is made for certain inputs can be compiled"
            )
        return ""


@irdl_op_definition
class NonZeroOp(SelectingOperation):
    """Positions of all elements other than 0, in order: (rank, how many), i64."""

    name = "top.nonzero"

    input = operand_def(TensorType)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        return [tensor_type(i64, self.declared(0, (len(shape_of(self.input)), UNKNOWN)))]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.argwhere(operands[0]).T.astype(np.int64),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """The elements are walked in order; a counter says where the next position goes."""
        self.check_form()
        (x,) = inputs
        places = output.shape[1]
        if not places:
            return "explicit"
        counter = _counter(k)
        loops = {f"d{axis}": size for axis, size in enumerate(static_shape(self.input))}

        def step(s: ScalarBuilder, *at: Scalar) -> None:
            is_found = _is_nonzero(load_element(s, x, at))
            number = load_element(s, counter, [s.index(0)])
            place = number.convert(IndexType()).minimum(places - 1)
            is_new = is_found.logical_and(number.compare("lt", places))
            for axis, index in enumerate(at):
                target = [s.index(axis), place]
                present = load_element(s, output, target)
                store_element(s, is_new.select(index.convert(i64), present), output, target)
            store_element(s, is_found.select(number + 1, number), counter, [s.index(0)])

        _clear(k, output)
        k.nest(loops, step)
        return "explicit"


@irdl_op_definition
class UniqueOp(SelectingOperation):
    """The different slices along an axis, in ascending order or as they first appear.

    Results, the last three i64: the slices; where each first stands; which of them each slice of
    the input is; how often each is there. Slices are compared element by element; a NaN is equal
    to a NaN and greater than any number.
    """

    name = "top.unique"

    input = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    is_sorted = prop_def(BoolAttr)
    values = result_def(TensorType)
    first = result_def(TensorType)
    inverse = result_def(TensorType)
    counts = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        shape, axis = shape_of(self.input), self.get("axis")
        if not 0 <= axis < len(shape):
            raise ValueError(f"{self.name}: axis {axis} of {shape}: 0 to {len(shape) - 1} expected")
        found = (*shape[:axis], UNKNOWN, *shape[axis + 1 :])
        return [
            tensor_type(element_type_of(self.input), self.declared(0, found)),
            tensor_type(i64, self.declared(1, (UNKNOWN,))),
            tensor_type(i64, (shape[axis],)),
            tensor_type(i64, self.declared(3, (UNKNOWN,))),
        ]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = operands
        axis = self.get("axis")
        along = None if x.ndim == 1 else axis  # with an axis NumPy takes no NaN for another
        _, first, inverse, counts = np.unique(
            x, axis=along, return_index=True, return_inverse=True, return_counts=True
        )
        inverse = inverse.reshape(-1)
        if not self.get("is_sorted"):
            order = np.argsort(first, kind="stable")
            first, counts = first[order], counts[order]
            inverse = np.argsort(order, kind="stable")[inverse]
        others = (array.astype(np.int64) for array in (first, inverse, counts))
        return (np.take(x, first, axis=axis), *others)

    def define(
        self, k: KernelBuilder, inputs: Sequence[Access], output: Access, *others: Access
    ) -> str:
        """Every slice is compared with every other; then each knows how many come before it.

        order[i, j]: -1, 0 or 1 as slice i is before, equal to or behind slice j.
        """
        self.check_form()
        (x,), (first, inverse, counts) = inputs, others
        shape, axis = static_shape(self.input), self.get("axis")
        size, found = shape[axis], first.shape[0]
        if not found:
            return "explicit"
        rest = {f"d{a}": extent for a, extent in enumerate(shape) if a != axis}
        order = scratch(k, "order", (size, size), i64)
        leader = scratch(k, "leader", (size,), i64)
        for access in (order, leader, first, inverse, counts):
            _clear(k, access)

        def element(s: ScalarBuilder, slice_index: Scalar, at: Sequence[Scalar]) -> Scalar:
            return load_element(s, x, [*at[:axis], slice_index, *at[axis:]])

        def compare(s: ScalarBuilder, i: Scalar, j: Scalar, *at: Scalar) -> None:
            a, b = element(s, i, at), element(s, j, at)
            present = load_element(s, order, [i, j])
            zero = present.constant(0)
            is_less, is_greater = a.compare("lt", b), a.compare("gt", b)
            if isinstance(element_type_of(self.input), AnyFloat):
                number_a, number_b = a.compare("eq", a), b.compare("eq", b)
                is_less = is_less.logical_or(number_a.logical_and(b.compare("ne", b)))
                is_greater = is_greater.logical_or(number_b.logical_and(a.compare("ne", a)))
            sign = is_less.select(-1, is_greater.select(1, zero))
            store_element(s, present.compare("eq", 0).select(sign, present), order, [i, j])

        def lead(s: ScalarBuilder, i: Scalar, j: Scalar) -> None:
            """The first slice that is equal to slice i: j counts downwards."""
            candidate = s.index(size - 1) - j
            is_equal = load_element(s, order, [i, candidate]).compare("eq", 0)
            present = load_element(s, leader, [i])
            store_element(s, is_equal.select(candidate.convert(i64), present), leader, [i])

        def rank(s: ScalarBuilder, i: Scalar, j: Scalar) -> None:
            """How many different slices come before slice i."""
            is_leader = load_element(s, leader, [j]).compare("eq", j.convert(i64))
            if self.get("is_sorted"):
                is_before = load_element(s, order, [j, i]).compare("lt", 0)
            else:
                is_before = j.convert(i64).compare("lt", load_element(s, leader, [i]))
            present = load_element(s, inverse, [i])
            more = is_leader.logical_and(is_before).select(present + 1, present)
            store_element(s, more, inverse, [i])

        def collect(s: ScalarBuilder, i: Scalar) -> None:
            place = [load_index(s, inverse, [i], found)]
            store_element(s, load_element(s, leader, [i]), first, place)
            store_element(s, load_element(s, counts, place) + 1, counts, place)

        def fetch(s: ScalarBuilder, number: Scalar, *at: Scalar) -> None:
            source = load_index(s, first, [number], size)
            target = [*at[:axis], number, *at[axis:]]
            store_element(s, element(s, source, at), output, target)

        k.nest({"i": size, "j": size, **rest}, compare, parallel="i j")
        k.nest({"i": size, "j": size}, lead, parallel="i")
        k.nest({"i": size, "j": size}, rank, parallel="i")
        k.nest({"i": size}, collect)
        k.nest({"number": found, **rest}, fetch, parallel=" ".join(["number", *rest]))
        return "explicit"


@irdl_op_definition
class NonMaxSuppressionOp(SelectingOperation):
    """Boxes that are kept when those that overlap a better one go: (how many, 3), i64.

    boxes: (batch, boxes, 4) as two opposite corners (y, x, y, x), or with `is_centered` as center
    and size (x, y, width, height). scores: (batch, classes, boxes). A row names batch, class and
    box; for each class the best box comes first, at most `limit` of them. A box goes if its
    intersection over union with one that is kept is above `overlap`, or its score not above
    `threshold`. Reference: ONNX, NonMaxSuppression.
    """

    name = "top.non_max_suppression"

    boxes = operand_def(TensorType)
    scores = operand_def(TensorType)
    limit = prop_def(IntegerAttr)
    overlap = prop_def(FloatAttr)
    threshold = prop_def(FloatAttr)
    is_centered = prop_def(BoolAttr)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        boxes, scores = shape_of(self.boxes), shape_of(self.scores)
        fits = len(boxes) == 3 and len(scores) == 3 and (boxes[2] == 4 or isinstance(boxes[2], str))
        sizes = zip((boxes[0], boxes[1]), (scores[0], scores[2]), strict=True) if fits else ()
        if not fits or any(a != b for a, b in sizes if isinstance(a, int) and isinstance(b, int)):
            raise ValueError(f"{self.name}: boxes {boxes} and scores {scores} do not fit")
        require_same_type("boxes and scores", (self.boxes, self.scores))
        if not isinstance(element_type_of(self.boxes), AnyFloat) or self.get("limit") < 0:
            raise ValueError(
                f"{self.name}: boxes of {element_type_of(self.boxes)}, at most "
                f"{self.get('limit')} of a class; floats, and a limit of 0 or more, expected"
            )
        return [tensor_type(i64, self.declared(0, (UNKNOWN, 3)))]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        boxes, scores = operands
        kept = []
        for batch, number in np.ndindex(*scores.shape[:2]):
            corners = [self._corners(box) for box in boxes[batch]]
            chosen: list[int] = []
            for box in np.argsort(-scores[batch, number], kind="stable"):
                if len(chosen) == self.get("limit"):
                    break
                if not scores[batch, number, box] > self.get("threshold"):
                    continue
                ratios = (_overlap(corners[box], corners[other]) for other in chosen)
                if all(ratio <= self.get("overlap") for ratio in ratios):
                    chosen.append(int(box))
            kept += [(batch, number, box) for box in chosen]
        return (np.array(kept, np.int64).reshape(-1, 3),)

    def _corners(self, box: np.ndarray) -> tuple[float, float, float, float]:
        """Lowest and highest x, then y (or the other way round, which is the same)."""
        if self.get("is_centered"):
            x, y, width, height = box
            return x - width / 2, x + width / 2, y - height / 2, y + height / 2
        return min(box[1], box[3]), max(box[1], box[3]), min(box[0], box[2]), max(box[0], box[2])

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """For each box to be kept two walks over all boxes: find the best, then drop what it hides.

        state[i]: 0 while box i may still be kept; best: the best so far, -1 for none.
        """
        self.check_form()
        boxes, scores = inputs
        places = output.shape[0]
        if not places:
            return "explicit"
        count = static_shape(self.boxes)[1]
        batches, classes = static_shape(self.scores)[:2]
        steps = min(self.get("limit"), count)
        state, best = scratch(k, "state", (count,), i64), scratch(k, "best", (1,), i64)
        counter = _counter(k)
        _clear(k, output)

        def corners(s: ScalarBuilder, batch: Scalar, box: Scalar) -> list[Scalar]:
            a, b, c, d = (load_element(s, boxes, [batch, box, s.index(i)]) for i in range(4))
            if self.get("is_centered"):
                return [a - c / 2, a + c / 2, b - d / 2, b + d / 2]
            return [b.minimum(d), b.maximum(d), a.minimum(c), a.maximum(c)]

        def step(
            s: ScalarBuilder, n: Scalar, c: Scalar, number: Scalar, walk: Scalar, i: Scalar
        ) -> None:
            zero = s.index(0)
            is_search = walk.compare("eq", 0)
            is_begin = number.compare("eq", 0).logical_and(is_search)
            own = is_begin.select(0, load_element(s, state, [i]))
            found = load_element(s, best, [zero])
            found = is_search.logical_and(i.compare("eq", 0)).select(-1, found)
            held = found.convert(IndexType()).maximum(zero)
            score, greatest = (load_element(s, scores, [n, c, box]) for box in (i, held))
            is_open = own.compare("eq", 0).logical_and(score.compare("gt", self.get("threshold")))
            is_better = found.compare("lt", 0).logical_or(score.compare("gt", greatest))
            takes = is_search.logical_and(is_open).logical_and(is_better)
            store_element(s, takes.select(i.convert(i64), found), best, [zero])
            # The second walk: the best box is written down once, and hides what it overlaps.
            is_drop = walk.compare("eq", 1).logical_and(found.compare("ge", 0))
            ratio = _compiled_overlap(corners(s, n, i), corners(s, n, held))
            is_self = i.convert(i64).compare("eq", found)
            is_hidden = ratio.compare("gt", self.get("overlap")).logical_or(is_self)
            hides = is_drop.logical_and(is_hidden)
            store_element(s, hides.select(1, own), state, [i])
            total = load_element(s, counter, [zero])
            writes = is_drop.logical_and(i.compare("eq", 0))
            is_new = writes.logical_and(total.compare("lt", places))
            row = total.convert(IndexType()).minimum(places - 1)
            for column, value in enumerate((n.convert(i64), c.convert(i64), found)):
                target = [row, s.index(column)]
                present = load_element(s, output, target)
                store_element(s, is_new.select(value, present), output, target)
            store_element(s, writes.select(total + 1, total), counter, [zero])

        loops = {"batch": batches, "label": classes, "number": steps, "walk": 2, "box": count}
        _clear(k, state)
        _clear(k, best)
        k.nest(loops, step)
        return "explicit"


def _overlap(
    first: tuple[float, float, float, float], second: tuple[float, float, float, float]
) -> float:
    """Intersection over union of two boxes; 0 for an empty one."""
    areas = [(box[1] - box[0]) * (box[3] - box[2]) for box in (first, second)]
    width = min(first[1], second[1]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[2], second[2])
    shared = max(width, 0) * max(height, 0)
    union = sum(areas) - shared
    return shared / union if min(areas) > 0 and union > 0 else 0.0


def _compiled_overlap(first: Sequence[Scalar], second: Sequence[Scalar]) -> Scalar:
    a, b = ((box[1] - box[0]) * (box[3] - box[2]) for box in (first, second))
    width = (first[1].minimum(second[1]) - first[0].maximum(second[0])).maximum(0)
    height = (first[3].minimum(second[3]) - first[2].maximum(second[2])).maximum(0)
    shared = width * height
    union = a + b - shared
    is_real = a.minimum(b).compare("gt", 0).logical_and(union.compare("gt", 0))
    return is_real.select(shared / is_real.select(union, 1), 0)


def _counter(k: KernelBuilder) -> Access:
    """A running number, 0 at first."""
    counter = scratch(k, "counter", (1,), i64)
    _clear(k, counter)
    return counter


def _clear(k: KernelBuilder, access: Access) -> None:
    d = k.dimensions(**{f"d{axis}": size for axis, size in enumerate(access.shape)})
    k.generic("plain", [], access.at(*d), lambda s: s.constant(0))


def _is_nonzero(value: Scalar) -> Scalar:
    return value.compare("ne", 0)
