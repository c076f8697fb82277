"""PoCL's second view of the processor: a device that runs kernels in the thread that enqueues them.

    pthread-znver4   threads of its own; 10 to 30 microseconds until one has woken up
    basic-znver4     the caller's thread; about 1 microsecond

It serves what one thread runs anyway: a program with little to do, or one that was asked to take
one thread. PoCL shows it only where the variable POCL_DEVICES names it, which is read once per
process; where a person has set that variable, it stays as it is and nothing is hidden or added.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from explorer.results.program import Program
from explorer.runtime.devices import DeviceRecord

VARIABLE = "POCL_DEVICES"
THREADS, CALLER = "pthread-", "basic-"


@contextlib.contextmanager
def shown_caller_devices() -> Iterator[None]:
    """For a first call of OpenCL in this process."""
    if VARIABLE in os.environ:
        yield
        return
    os.environ[VARIABLE] = "pthread basic"
    try:
        yield
    finally:
        del os.environ[VARIABLE]


def caller_device(record: DeviceRecord) -> DeviceRecord | None:
    """The device that runs on the caller's thread; None where the driver has none.

    Its address is the one that a process sees that asks PoCL for this kind alone.
    """
    if record.processor != "cpu" or VARIABLE in os.environ or not record.name.startswith(THREADS):
        return None
    name = CALLER + record.name.removeprefix(THREADS)
    platform, _, _ = record.address.partition(":")
    return replace(record, name=name, compute_units=1, address=f"{platform}:0")


def device_for(
    program: Program, record: DeviceRecord, compute_units: int | None = None
) -> DeviceRecord:
    """The device that runs a program: the caller's thread where one thread does all of it.

    `compute_units`: how many it may take, all by default. A process that asked the driver for
    something before has no such device; then the record itself runs it.
    """
    chain = program.chain
    is_small = chain is not None and not chain.is_shared
    chained = {launch for launch, _ in chain.steps} if chain is not None else set()
    is_whole = len(chained) == len(program.launches)
    if compute_units != 1 and not (is_small and is_whole):
        return record
    return caller_device(record) or record


def is_caller_device(record: DeviceRecord) -> bool:
    return record.name.startswith(CALLER) and VARIABLE not in os.environ


def environment_of(record: DeviceRecord) -> dict[str, str]:
    """What a child process needs to see the device at the record's address."""
    return {VARIABLE: CALLER.rstrip("-")} if is_caller_device(record) else {}


def listed(names: Sequence[str]) -> list[int]:
    """Positions of a platform's devices that a process sees without the variable."""
    is_added = VARIABLE not in os.environ and any(name.startswith(THREADS) for name in names)
    return [i for i, name in enumerate(names) if not (is_added and name.startswith(CALLER))]
