"""Storages: values that are to lie in one buffer, before addresses are planned.

    concat of a and b                storage of y: y at 0, a at 0, b at 3136; written: a and b
    concat of y and c                storage of z: z and y and a at 0, b at 3136, c at 6272

Two storages are joined where a value of one becomes a part of a value of the other. Offsets and
sizes count elements of the tensors without padding, since the padding may still grow: all values of
a storage have the same layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod

from explorer.ir.layout import physical_shape
from explorer.ir.parts import offset_in
from explorer.ir.types import Layout

MAX_GROWTH = 1.25
"""Times that padding may enlarge a value that others read as well: their loops get shorter runs."""


class Refused(Exception):
    """Why values do not go together, for people."""


@dataclass(frozen=True)
class Tenant:
    """A value of a storage."""

    name: str
    shape: tuple[int, ...]
    layout: Layout
    is_fixed: bool = False
    """Its layout cannot change: it is given, returned or seen under another shape."""
    is_read: bool = False
    """More reads it than what joins it."""

    @property
    def size(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class Fit:
    """A part of a whole, elements from `start` on of an axis."""

    whole: tuple[int, ...]
    part: tuple[int, ...]
    itemsize: int
    axis: int
    start: int

    def check(self, layout: Layout) -> None:
        """Refused where the part is not one piece of the whole's bytes."""
        try:
            offset_in(self.whole, self.part, layout, self.itemsize, self.axis, self.start)
        except ValueError as error:
            raise Refused(str(error)) from None

    @property
    def begin(self) -> int:
        """Elements of the whole that lie before the part."""
        return self.start * prod(self.whole[self.axis + 1 :])


@dataclass(frozen=True, kw_only=True)
class Storage:
    layout: Layout
    tenants: Mapping[str, Tenant]
    offsets: Mapping[str, int]
    written: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Elements [begin, end) of the values that kernels write; they never overlap."""
    fits: tuple[Fit, ...] = ()
    is_input: bool = False

    @classmethod
    def of(cls, tenant: Tenant, is_input: bool = False) -> Storage:
        """The storage of one value that is written."""
        return replace(cls.view(tenant), written={tenant.name: (0, tenant.size)}, is_input=is_input)

    @classmethod
    def view(cls, tenant: Tenant) -> Storage:
        """The storage of one value that nothing writes itself."""
        return cls(layout=tenant.layout, tenants={tenant.name: tenant}, offsets={tenant.name: 0})

    def with_view(self, tenant: Tenant, of: str) -> Storage:
        """With another name for all of a value."""
        return replace(
            self,
            tenants={**self.tenants, tenant.name: tenant},
            offsets={**self.offsets, tenant.name: self.offsets[of]},
        )

    def joined(self, other: Storage, whole: str, part: str, fit: Fit) -> Storage:
        """One storage, in which `part` of the other is a part of `whole`; Refused with a reason."""
        begin = self.offsets[whole] + fit.begin
        if part in self.tenants:
            if self.offsets[part] != begin:
                raise Refused("it lies elsewhere in the same buffer already")
            fit.check(self.layout)
            return replace(self, fits=(*self.fits, fit))
        shift = begin - other.offsets[part]
        moved = {n: (lo + shift, hi + shift) for n, (lo, hi) in other.written.items()}
        for name, (low, high) in self.written.items():
            if any(low < end and start < high for start, end in moved.values()):
                raise Refused(f"its place is taken by {name}")
        layout = _common(self.layout, other.layout)
        moving = [storage for storage in (self, other) if storage.layout != layout]
        for storage in moving:
            storage.check_growth(layout)
        for each in [*(own for storage in moving for own in storage.fits), fit]:
            each.check(layout)
        return Storage(
            layout=layout,
            tenants={**self.tenants, **other.tenants},
            offsets={**self.offsets, **{n: o + shift for n, o in other.offsets.items()}},
            written={**self.written, **moved},
            fits=(*self.fits, *other.fits, fit),
            is_input=self.is_input or other.is_input,
        )

    def check_growth(self, layout: Layout) -> None:
        """Refused where a value cannot have another padding, or should not."""
        for tenant in self.tenants.values():
            if tenant.is_fixed:
                raise Refused(f"{tenant.name} cannot have padding")
            grown = prod(physical_shape(tenant.shape, layout))
            if tenant.is_read and grown > MAX_GROWTH * prod(
                physical_shape(tenant.shape, self.layout)
            ):
                raise Refused(f"padding would make {tenant.name} too large")

    def renamed(self, names: Mapping[str, str]) -> Storage:
        return Storage(
            layout=self.layout,
            tenants={
                names.get(n, n): replace(t, name=names.get(n, n)) for n, t in self.tenants.items()
            },
            offsets={names.get(n, n): offset for n, offset in self.offsets.items()},
            written={names.get(n, n): place for n, place in self.written.items()},
            fits=self.fits,
            is_input=self.is_input,
        )


def _common(first: Layout, second: Layout) -> Layout:
    """The layout with the padding of both."""
    if first.block != second.block:
        raise Refused(f"{_blocks(second)} do not go with {_blocks(first)}")
    bare = (0, 0, 0, 0)
    if first.halo != bare and second.halo != bare and first.fill != second.fill:
        raise Refused(f"padding of {second.fill} does not go with {first.fill}")
    top, left, bottom, right = map(max, first.halo, second.halo)
    fill = first.fill if first.halo != bare else second.fill
    return Layout(first.block, (top, left, bottom, right), fill)


def _blocks(layout: Layout) -> str:
    return f"blocks of {layout.block} channels" if layout.block else "plain tensors"
