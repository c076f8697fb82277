"""Liveness: from what each launch reads and writes to the buffers that memory must hold.

    input x, output matmul; flat is a view of relu

    step 0  conv     reads x       writes conv
    step 1  relu     reads conv    writes relu in the storage of conv
    step 2  matmul   reads flat    writes matmul        scratch 32 bytes

    ->  buffer             values              steps
        x                  x                   [0, 1)   from the start to its last use
        conv               conv, relu, flat    [0, 3)
        matmul             matmul              [2, 3)   until the end
        matmul/scratch_0   matmul              [2, 3)   its own step

A value is named by the operation that makes it. Weights are no values: their memory is their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from explorer.errors import InputError
from explorer.memory.uses import Use, verify_contents
from explorer.results.memory import BufferLifetime


def lifetimes(
    uses: Sequence[Use],
    sizes_bytes: Mapping[str, int],
    *,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    views: Mapping[str, str] | None = None,
    alignment_bytes: int = 64,
) -> list[BufferLifetime]:
    """The buffers of a program whose launch `uses[i]` is step i, ordered by birth.

    `views` leads from a value that no launch makes (a reshape) to the value whose bytes it shows.
    Views and aliases share one buffer, named by its owner, the value that lies in no other; it
    lives while any of them does. An input lives from step 0 to its last use, an output until the
    end. Raises `InputError` where a value is read before it is written, written twice, read
    after it was overwritten, without a size, or larger than the storage that it lies in.
    """
    views = dict(views or {})
    owners = Owners([*views.items(), *(alias for use in uses for alias in use.aliases)])
    # A program without launches still holds its inputs in one step.
    end = max(len(uses), 1)
    births: dict[str, int] = {}
    deaths: dict[str, int] = {}
    values: dict[str, dict[str, None]] = {}

    def touch(value: str, step: int) -> None:
        owner = owners.of(value)
        births.setdefault(owner, step)
        deaths[owner] = step + 1
        values.setdefault(owner, {owner: None})[value] = None

    def read(value: str, step: int, reader: str) -> None:
        if owners.of(value) not in births:
            near = get_close_matches(value, births, n=1)
            raise InputError(
                f"memory: {reader} reads {value!r}, which nothing has written before",
                hint=near[0] if near else "a program order in which values come before their uses",
            )
        touch(value, step)

    for value in inputs:
        touch(value, 0)
    for step, use in enumerate(uses):
        for value in use.reads:
            read(value, step, use.operation)
        for value in use.writes:
            touch(value, step)
    for value in outputs:
        read(value, end - 1, "the caller")
    verify_contents(uses, inputs, outputs, views)

    buffers = [
        BufferLifetime(
            id=owner,
            values=tuple(values[owner]),
            size_bytes=storage_bytes(owner, values[owner], sizes_bytes),
            first=births[owner],
            last=deaths[owner],
            alignment_bytes=alignment_bytes,
        )
        for owner in births
    ]
    buffers += scratch_buffers(uses, alignment_bytes)
    return sorted(buffers, key=lambda buffer: buffer.first)


class Owners:
    """Finds the value in whose storage another one lies, over any number of aliases."""

    def __init__(self, aliases: Iterable[tuple[str, str]]) -> None:
        self.parents: dict[str, str] = {}
        for value, other in aliases:
            parent = self.parents.get(value, other)
            if parent != other:
                raise InputError(
                    f"memory: {value!r} lies in the storage of both {parent!r} and {other!r}",
                    hint="a copy for one of them",
                )
            if self.of(other) == value:
                raise InputError(f"memory: {value!r} is an alias of itself through {other!r}")
            self.parents[value] = other

    def of(self, value: str) -> str:
        while value in self.parents:
            value = self.parents[value]
        return value


def storage_bytes(owner: str, members: Iterable[str], sizes_bytes: Mapping[str, int]) -> int:
    """The owner's size, which must hold every member."""
    for value in members:
        if value not in sizes_bytes:
            raise InputError(f"memory: no size is given for {value!r}")
        if sizes_bytes[value] > sizes_bytes[owner]:
            raise InputError(
                f"memory: {value!r} of {sizes_bytes[value]} bytes lies in the storage of "
                f"{owner!r}, which has {sizes_bytes[owner]}",
                hint="a buffer of its own",
            )
    return sizes_bytes[owner]


def scratch_buffers(uses: Sequence[Use], alignment_bytes: int) -> list[BufferLifetime]:
    return [
        BufferLifetime(
            id=f"{use.operation}/scratch_{index}",
            values=(use.operation,),
            size_bytes=size_bytes,
            first=step,
            last=step + 1,
            alignment_bytes=alignment_bytes,
        )
        for step, use in enumerate(uses)
        for index, size_bytes in enumerate(use.scratch_bytes)
    ]
