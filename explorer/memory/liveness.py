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

from collections.abc import Collection, Mapping, Sequence

from explorer.errors import InputError
from explorer.memory.places import Containment, Place, places_of
from explorer.memory.uses import Use, verify_contents
from explorer.results.memory import BufferLifetime, BufferPart
from explorer.results.names import near_name


def lifetimes(
    uses: Sequence[Use],
    sizes_bytes: Mapping[str, int],
    *,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    views: Mapping[str, str] | None = None,
    parts: Sequence[Containment] = (),
    alignment_bytes: int = 64,
) -> list[BufferLifetime]:
    """The buffers of a program whose launch `uses[i]` is step i, ordered by birth.

    `views` leads from a value that no launch makes (a reshape, a slice) to the value whose bytes
    it shows: from the first on, unless `parts` says where. `parts` also has the pieces of a value
    that no launch makes either (a concat). Views, parts and aliases share one buffer, named by its
    owner, the value that lies in no other; it lives while any of them does. An input lives from
    step 0 to its last use, an output until the end. Raises `InputError` where a value is read
    before it is written, written twice or over another one, read after it was overwritten,
    without a size, or larger than what it lies in, and where places contradict each other.
    """
    views = dict(views or {})
    places = places_in(uses, sizes_bytes, views, parts)
    # A program without launches still holds its inputs in one step.
    end = max(len(uses), 1)
    births: dict[str, int] = {}
    spans: dict[str, tuple[int, int]] = {}
    """Steps from the first touch of a value to its last."""
    values: dict[str, dict[str, None]] = {}

    def touch(value: str, step: int) -> None:
        if value not in places:
            raise InputError(f"memory: no size is given for {value!r}")
        owner = places[value].storage
        births.setdefault(owner, step)
        spans[value] = (spans.get(value, (step, step))[0], step)
        values.setdefault(owner, {owner: None})[value] = None

    def read(value: str, step: int, reader: str) -> None:
        if value not in places or places[value].storage not in births:
            order = "a program order in which values come before their uses"
            raise InputError(
                f"memory: {reader} reads {value!r}, which nothing has written before",
                hint=near_name(value, births, otherwise=order),
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
    verify_contents(uses, inputs, outputs, views, places)

    written = {*inputs, *(value for use in uses for value in use.writes)}
    buffers = [
        buffer_of(owner, tuple(values[owner]), places, spans, written, alignment_bytes)
        for owner in births
    ]
    buffers += scratch_buffers(uses, alignment_bytes)
    return sorted(buffers, key=lambda buffer: buffer.first)


def places_in(
    uses: Sequence[Use],
    sizes_bytes: Mapping[str, int],
    views: Mapping[str, str],
    parts: Sequence[Containment],
) -> dict[str, Place]:
    """The place of every value, by views, parts and what launches write over."""
    placed = {part.value for part in parts}
    relations = [
        *(Containment(value, shown) for value, shown in views.items() if value not in placed),
        *parts,
        *(Containment(value, other) for use in uses for value, other in use.aliases),
    ]
    return places_of(relations, sizes_bytes)


def buffer_of(
    owner: str,
    values: Sequence[str],
    places: Mapping[str, Place],
    spans: Mapping[str, tuple[int, int]],
    written: Collection[str],
    alignment_bytes: int,
) -> BufferLifetime:
    """The buffer of some values, which ends where the last of them does."""
    size_bytes = max(places[value].end for value in values)
    touched = [spans[value] for value in values if value in spans]
    parts = [
        BufferPart(
            value,
            place.start,
            place.end - place.start,
            spans[value][0],
            spans[value][1] + 1,
            is_view=value not in written,
            run_bytes=place.run_bytes,
            pitch_bytes=place.pitch_bytes,
        )
        for value in values
        if (place := places[value]).end - place.start < size_bytes and value in spans
    ]
    return BufferLifetime(
        id=owner,
        values=tuple(values),
        size_bytes=size_bytes,
        first=min(first for first, _ in touched),
        last=max(last for _, last in touched) + 1,
        alignment_bytes=alignment_bytes,
        parts=tuple(parts),
    )


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
