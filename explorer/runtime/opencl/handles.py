"""The driver's handle for the record of a device, and for a part of a processor.

open_device(record)                  the device that the record was made of, or DeviceError
check_part(record, 1)                InputError where a program cannot take one compute unit of it
part_of(handle, record, 1)           a sub-device
"""

from __future__ import annotations

import os

import pyopencl as cl

from explorer.errors import DeviceError, InputError
from explorer.runtime.caller_devices import is_caller_device, listed, shown_caller_devices
from explorer.runtime.devices import DeviceRecord
from explorer.runtime.vendors import visible_drivers


def open_device(record: DeviceRecord) -> cl.Device:
    """The device that a record was made of."""
    found = find_device(record)
    if found is None:
        raise DeviceError(
            f"there is no OpenCL device at {record.address} any more",
            device=record.name,
            hint="list the devices again",
        )
    return found


def find_device(record: DeviceRecord) -> cl.Device | None:
    """None where it is gone, or where this process asked the driver before for other devices."""
    compile_kernels_once()
    with visible_drivers(), shown_caller_devices():
        platforms = [list(platform.get_devices()) for platform in cl.get_platforms()]
    for p, devices in enumerate(platforms):
        names = [device.name.strip() for device in devices]
        if is_caller_device(record):
            if record.address == f"{p}:0" and record.name in names:
                return devices[names.index(record.name)]
            continue
        for d, position in enumerate(listed(names)):
            if f"{p}:{d}" == record.address and names[position] == record.name:
                return devices[position]
    return None


def compile_kernels_once() -> None:
    """PoCL compiles a kernel anew for each shape of a launch, and once for any: only that one.

    The binary that the program cache keeps holds the general one in any case, and generated kernels
    gain nothing from knowing their work-group: the same times, half the wait for a first run. The
    variable is read at every launch, so it stays; where a person has set it, it is theirs.
    """
    os.environ.setdefault("POCL_WORK_GROUP_SPECIALIZATION", "0")


def check_part(record: DeviceRecord, compute_units: int) -> None:
    """InputError where a program cannot take so many of the device's compute units."""
    if record.processor != "cpu" and compute_units != record.compute_units:
        raise InputError(
            f"{record.name} is a {record.processor}: a program takes all of it, not "
            f"{compute_units} of its {record.compute_units} compute units",
            hint="leave the number of threads away",
        )
    if not 1 <= compute_units <= record.compute_units:
        raise InputError(
            f"{record.name} has {record.compute_units} compute units, not {compute_units}",
            hint=f"1 to {record.compute_units} threads",
        )


def part_of(handle: cl.Device, record: DeviceRecord, compute_units: int) -> cl.Device:
    """A sub-device with so many compute units. InputError where the device cannot be divided."""
    counts = [cl.device_partition_property.BY_COUNTS, compute_units]
    try:
        parts = handle.create_sub_devices(counts)  # pyright: ignore[reportArgumentType]
    except cl.Error as error:
        raise InputError(
            f"{record.name} cannot be divided: {error}",
            hint="leave the number of threads away",
        ) from error
    return parts[0]
