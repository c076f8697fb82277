"""What a device's driver makes of a program, as bytes that the same driver takes again."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import pyopencl as cl

from explorer.errors import BuildError
from explorer.runtime.devices import DeviceRecord
from explorer.runtime.opencl.handles import open_device
from explorer.runtime.opencl.program import NO_WARNINGS, PHASES


@dataclass(frozen=True)
class DeviceBinary:
    """A program that was built, and what it was built for."""

    data: bytes
    device: tuple[str, str, str]
    """Name of the device, its version of OpenCL, and the version of the driver."""


def binary_for(lines: Sequence[str], record: DeviceRecord) -> DeviceBinary:
    """The program's binary; every phase is a kernel of its own. BuildError where it is refused."""
    device = open_device(record)
    program = cl.Program(cl.Context([device]), "\n".join(lines) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what comes next, and of the driver's words
        _ = program.int_ptr  # keeps pyopencl's own cache out of it
        try:
            built = program.build([NO_WARNINGS, PHASES], devices=[device])
        except cl.RuntimeError as error:
            raise BuildError(f"the OpenCL compiler refused the program: {error}") from error
    binaries = cast(list[bytes], built.get_info(cl.program_info.BINARIES))
    facts = (device.name, device.version, device.driver_version)
    return DeviceBinary(bytes(binaries[0]), facts)
