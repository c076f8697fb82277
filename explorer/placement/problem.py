"""An assignment problem in whole numbers, so that sums, cuts and bounds are exact.

A float is a whole number of some power of two. All costs are written in the smallest such unit:

    0.5 s and 0.75 s  =>  2 and 3 units of 1/4 s

What is missing is impossible: a device of an operation, a direction of transfers.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from types import MappingProxyType

from explorer.errors import InputError
from explorer.results.names import near_name

Costs = Mapping[str, Mapping[str, float]]
"""Seconds by operation and device; a device that is missing cannot run the operation."""
Values = Mapping[str, tuple[str, int, Iterable[str]]]
"""By name: the operation that makes the value, its bytes, and the operations that read it."""
Groups = Iterable[Iterable[str]]
"""Operations that run on one device, whichever it is."""
Needs = Mapping[str, Mapping[str, Iterable[str]]]
"""By operation and device: operations that run on that device, too, where this one does."""
Transfers = Mapping[tuple[str, str], tuple[float, float]]
"""By (from, to): seconds of latency and bytes per second (`inf` where memory is shared)."""


@dataclass(frozen=True)
class Value:
    """What one operation makes and others read; operations and devices by their numbers."""

    name: str
    size_bytes: int
    maker: int
    readers: tuple[int, ...]
    """Other operations than the maker, each once."""
    sent: tuple[tuple[int | None, ...], ...]
    """Units of a transfer by (from, to); None where there is none."""
    is_rule: bool = False
    """Whether it only says which devices go together: nothing is sent."""


@dataclass(frozen=True)
class Problem:
    """Operations in an order in which they can run; costs in units of 1 / `scale` seconds."""

    operations: tuple[str, ...]
    devices: tuple[str, ...]
    costs: tuple[tuple[int | None, ...], ...]
    """By operation and device; None: impossible."""
    values: tuple[Value, ...]
    scale: int

    def total(self, chosen: Sequence[int]) -> int | None:
        """Units that an assignment takes, one device after the other; None: impossible."""
        total = 0
        for options, device in zip(self.costs, chosen, strict=True):
            cost = options[device]
            if cost is None:
                return None
            total += cost
        for value in self.values:
            sent = value.sent[chosen[value.maker]]
            for device in self.reached(value, chosen):
                cost = sent[device]
                if cost is None:
                    return None
                total += cost
        return total

    def reached(self, value: Value, chosen: Sequence[int]) -> list[int]:
        """Devices that a value is sent to, each once, in their order."""
        own = chosen[value.maker]
        return sorted({chosen[reader] for reader in value.readers} - {own})

    def seconds(self, units: int) -> float:
        return float(Fraction(units, self.scale))


def make_problem(
    costs: Costs,
    values: Values,
    transfers: Transfers,
    together: Groups = (),
    needs: Needs = MappingProxyType({}),
) -> Problem:
    """The problem in whole numbers; InputError for what is no price, name, size or direction."""
    devices = _devices(costs)
    seconds = {op: _row(op, of) for op, of in costs.items()}
    links = _links(transfers, devices)
    made = [_value(name, value, costs) for name, value in values.items()]
    sizes = {size for _, size, _, _ in made}
    by_size = {size: _by_direction(size, links, devices) for size in sizes}
    used = [*(c for row in seconds.values() for c in row.values())]
    used += [c for rows in by_size.values() for row in rows for c in row if c is not None]
    scale = max((number.as_integer_ratio()[1] for number in used), default=1)

    def units(number: float | None) -> int | None:
        if number is None:
            return None
        numerator, denominator = number.as_integer_ratio()
        return numerator * (scale // denominator)

    tables = {
        size: tuple(tuple(units(c) for c in row) for row in rows) for size, rows in by_size.items()
    }
    order = _in_order(list(costs), made)
    number_of = {op: number for number, op in enumerate(order)}
    return Problem(
        operations=tuple(order),
        devices=devices,
        costs=tuple(tuple(units(seconds[op].get(d)) for d in devices) for op in order),
        values=(
            *_ties(together, number_of, len(devices)),
            *_needs(needs, number_of, devices),
            *(
                Value(
                    name,
                    size,
                    number_of[maker],
                    tuple(sorted({number_of[reader] for reader in readers} - {number_of[maker]})),
                    tables[size],
                )
                for name, size, maker, readers in made
            ),
        ),
        scale=scale,
    )


def _ties(together: Groups, number_of: Mapping[str, int], devices: int) -> Iterator[Value]:
    """Values without bytes that cannot be sent: what makes one and what reads it stay together."""
    never = tuple(tuple(0 if a == b else None for b in range(devices)) for a in range(devices))
    for group in together:
        if isinstance(group, str):
            raise InputError(f"together: names of operations are needed, not {group!r}")
        members = list(group)
        for op in members:
            if op not in number_of:
                raise InputError(
                    f"together: there is no operation {op!r}", hint=near_name(str(op), number_of)
                )
        numbers = sorted({number_of[op] for op in members})
        for first, second in pairwise(numbers):
            yield Value("", 0, first, (second,), never, is_rule=True)


def _needs(needs: Needs, number_of: Mapping[str, int], devices: Sequence[str]) -> Iterator[Value]:
    """Values that cannot be sent between the device of an operation and any other."""
    for op, by_device in needs.items():
        for device, others in by_device.items():
            if isinstance(others, str):
                raise InputError(f"needs of {op!r}: names of operations, not {others!r}")
            for name in (op, *others):
                if name not in number_of:
                    raise InputError(
                        f"needs: there is no operation {name!r}", hint=near_name(name, number_of)
                    )
            if device not in devices:  # nobody runs there
                continue
            for other in others:
                first, second = sorted((number_of[op], number_of[other]))
                is_first = number_of[op] == first
                never = tuple(
                    tuple(
                        None if a != b and device == (a if is_first else b) else 0 for b in devices
                    )
                    for a in devices
                )
                if first != second:
                    yield Value("", 0, first, (second,), never, is_rule=True)


def _devices(costs: Costs) -> tuple[str, ...]:
    if not isinstance(costs, Mapping):
        raise InputError(f"costs: operations with seconds by device are needed, not {costs!r}")
    for op, of in costs.items():
        if not isinstance(op, str):
            raise InputError(f"costs: {op!r} is no name of an operation")
        if not isinstance(of, Mapping):
            raise InputError(f"costs of {op!r}: seconds by device are needed, not {of!r}")
        if not of:
            raise InputError(
                f"no device can run {op!r}", hint="give the seconds of one device at least"
            )
        for device in of:
            if not isinstance(device, str) or not device:
                raise InputError(f"costs of {op!r}: {device!r} is no name of a device")
    return tuple(dict.fromkeys(device for of in costs.values() for device in of))


def _row(op: str, of: Mapping[str, float]) -> dict[str, float]:
    return {
        device: checked(price, f"costs of {op!r} on {device!r}") for device, price in of.items()
    }


def checked(price: object, what: str, most: float = math.inf) -> float:
    """A price as a float: finite, 0 or more. InputError with what it is a price of."""
    if isinstance(price, bool) or not isinstance(price, int | float):
        try:
            number = float(price)  # pyright: ignore[reportArgumentType]: NumPy's numbers
        except (TypeError, ValueError):
            number = math.nan
        if isinstance(price, bool | str) or math.isnan(number):
            raise InputError(f"{what}: a number is needed, not {price!r}", hint="such as 2e-6")
    else:
        try:
            number = float(price)
        except OverflowError:
            number = math.inf
    if not 0 <= number < most:  # also NaN
        is_below = number < math.inf
        hint = "0 or more" if is_below else "leave out the device that cannot run it"
        raise InputError(f"{what}: {price!r} is not finite, or below 0", hint=hint)
    return number


def _links(
    transfers: Transfers, devices: Sequence[str]
) -> dict[tuple[str, str], tuple[float, float]]:
    if not isinstance(transfers, Mapping):
        raise InputError(
            f"transfers: (from, to) with seconds and bytes per second, not {transfers!r}"
        )
    links = {}
    for pair, link in transfers.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputError(f"transfers: {pair!r} is no pair of devices (from, to)")
        for device in pair:
            if device not in devices:
                raise InputError(
                    f"transfers: no operation has a price on {device!r}",
                    hint=near_name(str(device), devices),
                )
        what = f"transfers from {pair[0]!r} to {pair[1]!r}"
        if not isinstance(link, tuple | list) or len(link) != 2:
            raise InputError(f"{what}: (seconds, bytes per second) are needed, not {link!r}")
        latency = checked(link[0], what)
        rate = link[1]
        is_number = isinstance(rate, int | float) and not isinstance(rate, bool)
        if not is_number or not rate > 0:
            raise InputError(f"{what}: {rate!r} bytes per second", hint="above 0; inf if shared")
        links[pair] = latency, float(rate)
    return links


def _value(name: str, value: object, costs: Costs) -> tuple[str, int, str, tuple[str, ...]]:
    what = f"value {name!r}"
    if not isinstance(value, tuple | list) or len(value) != 3:
        raise InputError(f"{what}: (maker, bytes, readers) are needed, not {value!r}")
    maker, size, readers = value
    if isinstance(size, bool) or not hasattr(size, "__index__"):
        raise InputError(f"{what}: its bytes are not known ({size!r})", hint="a whole number")
    if int(size) < 0:
        raise InputError(f"{what}: {size} bytes")
    if isinstance(readers, str) or not isinstance(readers, Iterable):
        raise InputError(f"{what}: names of operations read it, not {readers!r}")
    found = tuple(readers)
    for op in (maker, *found):
        if not isinstance(op, str) or op not in costs:
            raise InputError(
                f"{what}: there is no operation {op!r}", hint=near_name(str(op), costs)
            )
    return name, int(size), maker, found


def _by_direction(
    size: int, links: Mapping[tuple[str, str], tuple[float, float]], devices: Sequence[str]
) -> list[list[float | None]]:
    def seconds(source: str, target: str) -> float | None:
        if source == target:
            return 0.0
        if (source, target) not in links:
            return None
        latency, rate = links[source, target]
        try:
            total = latency + size / rate
        except OverflowError:
            total = math.inf
        return checked(total, f"a transfer of {size} bytes from {source!r} to {target!r}")

    return [[seconds(source, target) for target in devices] for source in devices]


def _in_order(
    operations: Sequence[str], values: Sequence[tuple[str, int, str, tuple[str, ...]]]
) -> list[str]:
    """The operations so that makers come first, else as they are given; InputError of a cycle."""
    waits: dict[str, set[str]] = {op: set() for op in operations}
    readers: dict[str, list[str]] = {op: [] for op in operations}
    for _, _, maker, found in values:
        for reader in found:
            if reader == maker:
                raise InputError(f"operation {maker!r} reads what it makes", node=maker)
            if maker not in waits[reader]:
                waits[reader].add(maker)
                readers[maker].append(reader)
    order: list[str] = []
    ready = [op for op in operations if not waits[op]]
    number_of = {op: number for number, op in enumerate(operations)}
    heap = [number_of[op] for op in ready]
    heapq.heapify(heap)
    while heap:
        op = operations[heapq.heappop(heap)]
        order.append(op)
        for reader in readers[op]:
            waits[reader].discard(op)
            if not waits[reader]:
                heapq.heappush(heap, number_of[reader])
    if len(order) < len(operations):
        left = [op for op in operations if waits[op]]
        raise InputError(f"the values form a cycle through {left[0]!r}", node=left[0])
    return order
