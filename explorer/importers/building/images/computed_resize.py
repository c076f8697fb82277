"""Resizes to a size that the inputs decide: where elements lie is computed when it runs.

    p = range(0, size of the result)            one number for each element along an axis
    p = (p + 0.5) / scale - 0.5                 where it lies in the operand, by the coordinates
    y = top.gather(x, round(p))                 nearest
    y = top.interpolate(x, [floor(p), floor(p) + 1], [1 - (p - floor(p)), p - floor(p)])

Numbers are those of `resizing.py`, in single precision. An axis that keeps its size, as far as that
can be seen (a scale of 1, or its own size among those that were joined to a vector), is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from explorer.importers.building.build import Build, Undecided, Unsupported
from explorer.importers.building.expr import Expr, where
from explorer.importers.building.images.interpolation import whole
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.interpolation import InterpolateOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.shapes import RangeOp
from explorer.ir.types import Dim

Element = int | float | str
"""Of a vector, as far as it is known: a number, or the name of a size."""


@dataclass(frozen=True)
class ComputedManner:
    """How elements between those of the operand are found."""

    mode: str
    coordinates: str
    nearest: str
    cubic_coefficient: float = -0.75
    exclude_outside: bool = False


def resize_by_data(
    x: Expr,
    vector: Expr,
    is_scales: bool,
    axes: Sequence[int],
    manner: ComputedManner,
    build: Build,
) -> Expr:
    """`vector`: scales (f32) or sizes (i64) of the axes, contents unknown."""
    if vector.shape != (len(axes),):
        raise ValueError(f"{vector.shape} numbers for {len(axes)} axes")
    known = _elements(vector, build)
    interpolates = manner.mode != "nearest"
    wide = x.astype(np.float64) if interpolates and not x.is_float else x
    result = wide
    for position, axis in enumerate(axes):
        if _keeps_size(known[position], x.shape[axis], is_scales):
            continue
        number = vector.slice(0, position, position + 1)
        scale = known[position] if is_scales else None
        result = _Computed(result, axis, number, is_scales, build, scale).resized(manner)
    if wide is x or result is wide:
        return x if result is wide else result
    return whole(result, x.dtype, manner.mode == "cubic")


def _elements(vector: Expr, build: Build) -> list[Element | None]:
    """The vector's elements, as far as they are known: of one that was joined, part by part."""
    (count,) = vector.sizes([0], "a vector of sizes")
    contents = build.knowledge.needed(vector)
    if contents is not None:
        return contents.tolist()
    sizes = None if vector.is_float else build.knowledge.sizes(vector)
    if sizes is not None:
        return list(sizes)
    made = vector.owner
    if isinstance(made, ConcatOp):
        return [e for part in build.exprs(made.operands) for e in _elements(part, build)]
    return [None] * count


def _keeps_size(element: Element | None, size: Dim, is_scales: bool) -> bool:
    return element is not None and element == (1.0 if is_scales else size)


def _ratio(scale: Element | None) -> Fraction | None:
    """A scale as a fraction with which sizes are computed in integers as in single precision."""
    if not isinstance(scale, int | float) or scale <= 0:
        return None
    found = Fraction(scale)
    return found if max(found.numerator, found.denominator) <= 64 else None


class _Computed:
    """One axis of x that is resized: all values are f32 of shape (1) but where it is said."""

    def __init__(
        self,
        x: Expr,
        axis: int,
        number: Expr,
        is_scale: bool,
        build: Build,
        known: Element | None = None,
    ) -> None:
        """known: the scale, where it is a number; then the size has a name (2*h)."""
        self.x, self.axis, self.build = x, axis, build
        own = build.shape_vector([x.dim(axis)])
        self.size = own.astype(np.float32)
        if not is_scale:
            self.count = number.astype(np.int64)
            self.target = number.astype(np.float32)
            self.scale = self.target / self.size
            return
        self.scale = number.astype(np.float32)
        ratio = _ratio(known)
        if ratio is None:
            self.target = (self.size * self.scale).floor()
            self.count = self.target.astype(np.int64)
        else:
            self.count = own * ratio.numerator
            if ratio.denominator > 1:
                self.count = self.count / ratio.denominator
            self.target = self.count.astype(np.float32)

    def resized(self, manner: ComputedManner) -> Expr:
        places = self._places(manner.coordinates)
        if manner.mode == "nearest":
            index = self._inside(self._nearest(places, manner.nearest)).astype(np.int64)
            return self.build.value(GatherOp, [self.x, index], axis=self.axis)
        if manner.mode in ("linear", "bilinear"):
            positions, weights = self._linear(places)
        elif manner.mode == "cubic":
            positions, weights = self._cubic(places, manner)
        else:
            raise Unsupported(f"mode {manner.mode!r}")
        kind = np.float64 if self.x.dtype == np.float64 else np.float32
        operands = [self.x, positions.astype(np.int64), weights.astype(kind)]
        return self.build.value(InterpolateOp, operands, axis=self.axis)

    # -- arithmetic --------------------------------------------------------------------------------
    def _number(self, value: float) -> Expr:
        return self.build.weight(np.array([value], np.float32))

    def _do(self, kind: str, left: Expr | float, right: Expr | float) -> Expr:
        values = [self._number(v) if isinstance(v, int | float) else v for v in (left, right)]
        return self.build.binary(kind, *values)

    def _inside(self, positions: Expr) -> Expr:
        """Positions of elements that there are."""
        return self._do("min", self._do("max", positions, 0.0), self._do("sub", self.size, 1.0))

    # -- where elements lie ------------------------------------------------------------------------
    def _places(self, mode: str) -> Expr:
        """(size of the result): where each of its elements lies in the operand."""
        build, do = self.build, self._do
        bounds = [
            build.weight(np.array(0, np.int64)),
            self.count.squeeze([0]),
            build.weight(np.array(1, np.int64)),
        ]
        p = build.value(RangeOp, bounds).astype(np.float32)
        half = do("div", do("add", p, 0.5), self.scale)
        is_one = do("equal", self.target, 1.0)
        if mode == "half_pixel":
            return do("sub", half, 0.5)
        if mode == "pytorch_half_pixel":
            return where(is_one, self._number(0.0), do("sub", half, 0.5))
        if mode == "asymmetric":
            return do("div", p, self.scale)
        if mode == "tf_half_pixel_for_nn":
            return half
        if mode == "align_corners":
            last = do("max", do("sub", self.target, 1.0), 1.0)
            return do("div", do("mul", p, do("sub", self.size, 1.0)), last)
        if mode == "half_pixel_symmetric":
            adjusted = do("div", self.target, do("mul", self.scale, self.size))
            center = do("mul", do("div", self.size, 2.0), do("sub", 1.0, adjusted))
            return do("sub", do("add", center, half), 0.5)
        raise Undecided(f"coordinates {mode!r} of a size that the inputs decide")

    def _nearest(self, places: Expr, mode: str) -> Expr:
        floor, ceil = (places.unary(kind) for kind in ("floor", "ceil"))
        if mode == "simple":  # of opsets before 11
            return where(self._do("less", self.scale, 1.0), ceil, floor)
        if mode in ("floor", "ceil"):
            return floor if mode == "floor" else ceil
        if mode == "round_prefer_floor":
            return self._do("sub", places, 0.5).ceil()
        if mode == "round_prefer_ceil":
            return self._do("add", places, 0.5).floor()
        raise Unsupported(f"nearest_mode {mode!r}")

    # -- taps: positions and weights, (size of the result, taps) -----------------------------------
    def _linear(self, places: Expr) -> tuple[Expr, Expr]:
        """Two neighbours. Where one of them would weigh nothing, both are the other one: a tap
        without weight is multiplied, too, and 0 times infinity is NaN."""
        do = self._do
        places = self._inside(places)
        low = places.floor()
        part = do("sub", places, low)
        is_whole = do("equal", part, 0.0)
        high = where(is_whole, low, self._inside(do("add", low, 1.0)))
        part = where(is_whole, self._number(0.5), part)
        weights = [do("sub", 1.0, part), part]
        return self._taps([low, high]), self._taps(weights)

    def _cubic(self, places: Expr, manner: ComputedManner) -> tuple[Expr, Expr]:
        """Keys, "Cubic convolution interpolation for digital image processing", 1981."""
        do, a = self._do, manner.cubic_coefficient
        base = places.floor()
        positions = [do("add", base, float(offset)) for offset in (-1, 0, 1, 2)]
        weights = []
        for number, position in enumerate(positions):
            d = abs(do("sub", places, position))
            if number in (1, 2):  # (a + 2) d³ - (a + 3) d² + 1
                weight = do("sub", do("mul", do("mul", d, d), do("mul", d, a + 2)),
                            do("mul", do("mul", d, d), a + 3))  # fmt: skip
                weights.append(do("add", weight, 1.0))
                continue
            # a d³ - 5 a d² + 8 a d - 4 a, by Horner
            weight = do("add", do("mul", do("sub", do("mul", d, a), 5 * a), d), 8 * a)
            weights.append(do("sub", do("mul", weight, d), 4 * a))
        taps, table = self._taps(positions), self._taps(weights)
        if manner.exclude_outside:
            is_inside = do("equal", taps, self._inside(taps))
            table = where(is_inside, table, self._number(0.0))
            table = do("div", table, table.sum([1], keepdims=True))
        return self._inside(taps), table

    def _taps(self, columns: Sequence[Expr]) -> Expr:
        return self.build.concat([column.unsqueeze([1]) for column in columns], 1)
