"""A cache in memory of what is made of kernels: schedules and printed text.

    conv_1 of digits_cnn       scheduled in 9 ms, printed in 3
    conv_1 of a fork of it     compared in 1 ms, and taken

A fork, an edited model and the same network for another budget compile mostly kernels that this
process has compiled before. Equal means every attribute, type, operand and name, down to the sign
of a zero: names stand in the code. What was used last is kept, up to a number of operations.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from math import copysign
from threading import Lock
from typing import Generic, TypeVar
from weakref import WeakSet

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from explorer.ir.rewriting.copying import copy_operation
from explorer.ir.structure import walk_inside

MAX_OPERATIONS = 40_000
"""Of all kernels that are kept of one kind, about 30 MB."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class _Entry(Generic[Result]):
    kernel: func.FuncOp
    operations: int
    result: Result


class KernelCache(Generic[Result]):
    """Results by the kernel that they were made of and what else decided them. Thread-safe."""

    def __init__(self, max_operations: int = MAX_OPERATIONS):
        self.max_operations = max_operations
        self._entries: OrderedDict[Hashable, _Entry[Result]] = OrderedDict()
        self._operations = 0
        self._lock = Lock()
        _ALL.add(self)

    def get(self, kernel: func.FuncOp, key: Hashable, make: Callable[[], Result]) -> Result:
        """What was made of an equal kernel with the same key; otherwise what `make` returns."""
        operations = sum(1 for _ in walk_inside(kernel))
        place = (key, kernel.sym_name.data, kernel.function_type, operations)
        with self._lock:
            entry = self._entries.get(place)
        if entry is not None and is_same(entry.kernel, kernel):
            with self._lock:
                if place in self._entries:
                    self._entries.move_to_end(place)
            return entry.result
        result = make()
        self._keep(place, _Entry(copy_operation(kernel), operations, result))
        return result

    def _keep(self, place: Hashable, entry: _Entry[Result]) -> None:
        with self._lock:
            replaced = self._entries.pop(place, None)
            self._entries[place] = entry
            self._operations += entry.operations - (replaced.operations if replaced else 0)
            while self._operations > self.max_operations:
                _, oldest = self._entries.popitem(last=False)
                self._operations -= oldest.operations

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._operations = 0


_ALL: WeakSet[KernelCache] = WeakSet()


def clear_kernel_caches() -> None:
    """For code that changes how kernels are scheduled or printed while the process runs."""
    for cache in _ALL:
        cache.clear()


def is_same(
    left: Operation, right: Operation, values: dict[SSAValue, SSAValue] | None = None
) -> bool:
    """Whether two operations are equal with all that they contain, names of values included.

    `values` leads from values of the left to those of the right that they are equal to.
    """
    known = {} if values is None else values
    if left.name != right.name or left.location != right.location:
        return False
    if len(left.operands) != len(right.operands):
        return False
    if any(known.get(a) is not b for a, b in zip(left.operands, right.operands, strict=True)):
        return False
    if not _same_attributes(left.properties, right.properties):
        return False
    if not _same_attributes(left.attributes, right.attributes):
        return False
    if not _same_values(left.results, right.results, known):
        return False
    if len(left.regions) != len(right.regions):
        return False
    for region, other in zip(left.regions, right.regions, strict=True):
        blocks, others = tuple(region.blocks), tuple(other.blocks)
        if len(blocks) != len(others):
            return False
        if not all(_same_blocks(a, b, known) for a, b in zip(blocks, others, strict=True)):
            return False
    return True


def _same_blocks(left: Block, right: Block, known: dict[SSAValue, SSAValue]) -> bool:
    if not _same_values(left.args, right.args, known):
        return False
    operations, others = tuple(left.ops), tuple(right.ops)
    if len(operations) != len(others):
        return False
    return all(is_same(a, b, known) for a, b in zip(operations, others, strict=True))


def _same_values(left, right, known: dict[SSAValue, SSAValue]) -> bool:
    if len(left) != len(right):
        return False
    for a, b in zip(left, right, strict=True):
        if a.type != b.type or a.name_hint != b.name_hint:
            return False
        known[a] = b
    return True


def _same_attributes(left: Mapping[str, Attribute], right: Mapping[str, Attribute]) -> bool:
    return left == right and all(
        a is right[name] or _signs(a) == _signs(right[name]) for name, a in left.items()
    )


def _signs(attribute: Attribute) -> tuple[float, ...]:
    """Of numbers that are equal to others of the other sign: 0.0 == -0.0."""
    if isinstance(attribute, FloatAttr):
        return (copysign(1.0, attribute.value.data),)
    if isinstance(attribute, ArrayAttr):
        return tuple(sign for item in attribute for sign in _signs(item))
    if isinstance(attribute, DictionaryAttr):
        return tuple(sign for item in attribute.data.values() for sign in _signs(item))
    return ()
