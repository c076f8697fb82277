"""What the prices of a placement predict, on the clock of a profile: parts and transfers in order.

    main_cpu on cpu, 1 µs; image to opencl, 20 µs; main_opencl on opencl, 6 µs
    ->
    cpu     main_cpu 0..1,000
    opencl  image 1,000..21,000   main_opencl 21,000..27,000

A profile measures one part after the other, so that predicted ones follow one another, too. A
value is sent before the first part on its device that runs after the part that makes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.results import Trace
from explorer.results.placement import PART, PlacedTransfer, PlacementRecord


@dataclass(frozen=True, kw_only=True)
class PredictedSpan:
    """A part, or a value on its way to the device."""

    device: str
    name: str
    start_ns: int
    end_ns: int
    is_transfer: bool


def predicted_spans(trace: Trace) -> tuple[PredictedSpan, ...]:
    """In the order in which they run; none where one target was given, or a part has no price."""
    record = trace.part(PART, PlacementRecord)
    if record is None or record.assignment is None or len(record.parts) < 2:
        return ()
    if any(part.predicted_us is None for part in record.parts):
        return ()
    return tuple(_spans(record))


def predicted_name(device: str) -> str:
    """Of the lane with what was predicted."""
    return f"{device} predicted"


def lanes_with_predicted(lanes: Sequence[str], predicted: Sequence[PredictedSpan]) -> list[str]:
    """The lanes in their order, that of a prediction above the first measured one of its device.

    A device's lanes have its name, or begin with it. What nothing was measured of comes last.
    """
    devices = list(dict.fromkeys(span.device for span in predicted))
    found: list[str] = []
    for lane in lanes:
        own = [device for device in devices if lane == device or lane.startswith(f"{device} ")]
        devices = [device for device in devices if device not in own]
        found += [*map(predicted_name, own), lane]
    return [*found, *map(predicted_name, devices)]


def _spans(record: PlacementRecord) -> Iterator[PredictedSpan]:
    now = 0.0
    waiting: dict[int, list[PlacedTransfer]] = {
        number: [] for number in range(len(record.parts) + 1)
    }
    for transfer in record.transfers:
        waiting[_part_before(record, transfer)].append(transfer)

    def span(
        device: str, name: str, microseconds: float | None, is_transfer: bool
    ) -> PredictedSpan:
        nonlocal now
        start, now = now, now + (microseconds or 0.0)
        return PredictedSpan(
            device=device,
            name=name,
            start_ns=round(1e3 * start),
            end_ns=round(1e3 * now),
            is_transfer=is_transfer,
        )

    for number, part in enumerate(record.parts):
        for sent in waiting[number]:
            yield span(sent.target, _sending(sent), sent.predicted_us, True)
        yield span(part.device, part.function, part.predicted_us, False)
    for sent in waiting[len(record.parts)]:
        yield span(sent.target, _sending(sent), sent.predicted_us, True)


def _sending(transfer: PlacedTransfer) -> str:
    return f"{transfer.value} to {transfer.target}"


def _part_before(record: PlacementRecord, transfer: PlacedTransfer) -> int:
    """The number of the part that the value is sent before; how many there are: it is an output."""
    made = next((i for i, p in enumerate(record.parts) if transfer.value in p.operations), -1)
    return next(
        (
            number
            for number, part in enumerate(record.parts)
            if number > made and part.device == transfer.target
        ),
        len(record.parts),
    )
