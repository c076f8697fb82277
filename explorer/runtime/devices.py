"""What this machine can run programs on, tried out and not only listed.

    list_devices()
    -> DeviceRecord("cpu", "AMD EPYC", driver="/usr/bin/cc", version="gcc 12.2.0", usable=True ...)
       DeviceRecord("opencl", "NVIDIA H200", driver="NVIDIA CUDA 580.159.03", usable=True ...)
       DeviceRecord("opencl", "pthread-skylake-avx512", usable=False,
                    refusal="it cannot build and run a small kernel: unknown target CPU ...")

A device that cannot be used is listed with the reason.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any  # Any: values of JSON

from explorer.errors import BuildError, DeviceError
from explorer.processor import core_count, lanes_of, memory_bytes, processor_name
from explorer.results.displayed import Displayed
from explorer.runtime import opencl_probe
from explorer.runtime.compilers import compile_shared_library, find_compiler
from explorer.runtime.driver_caches import pocl_refusal, use_writable_caches
from explorer.runtime.features import features_of
from explorer.runtime.processes import run_command, signal_name
from explorer.runtime.scratch import own_folder
from explorer.runtime.vendors import vendor_variables

KINDS = ("cpu", "opencl")

_CL_VARIABLES = ("OCL_", "POCL_", "OPENCL_", "CUDA_VISIBLE", "PYOPENCL_", "LD_LIBRARY_PATH")

OPENCL_HINT = (
    "install a driver: the GPU vendor's, or PoCL for the processor (Debian: pocl-opencl-icd)"
)
HINTS = {"cpu": "install gcc or clang", "opencl": OPENCL_HINT}
HINTS_OF_DRIVERS = {"opencl": "remove the cause that is named, or install another driver"}
"""Where a driver is installed, and refuses."""
NO_DRIVER = "no OpenCL driver is installed"


@dataclass(frozen=True, kw_only=True, repr=False)
class DeviceRecord(Displayed):
    kind: str
    """cpu (C through a compiler) or opencl."""
    name: str
    driver: str
    """What runs programs on it: the C compiler's command, or OpenCL platform and driver."""
    version: str
    """Of the compiler, or the OpenCL version that the device offers."""
    compute_units: int
    memory_bytes: int = field(compare=False)
    """For a person to read. Some drivers say what is free at the moment, so it is no part of what
    the device is: equal records, and keys of what is kept for a device, do without."""
    vector_floats: int
    """float32 per vector that generated code should use: 4, 8 or 16."""
    usable: bool
    refusal: str
    """Why it is not usable; empty when it is."""
    processor: str = "cpu"
    """cpu, gpu or accelerator."""
    address: str = ""
    """OpenCL: `platform:device`, numbered as the loader lists them."""


def list_devices(
    kinds: Sequence[str] = KINDS, time_limit_seconds: float = 60.0
) -> list[DeviceRecord]:
    """All devices: the processor first, then OpenCL devices, GPUs before CPUs.

    Takes about a second: every device builds and runs something. `time_limit_seconds` is for
    each process that tries OpenCL devices.
    """
    searches: dict[str, Callable[[], list[DeviceRecord]]] = {
        "cpu": lambda: [examine_processor()],
        "opencl": lambda: sorted(probe_opencl(time_limit_seconds), key=_order),
    }
    return [device for kind in KINDS if kind in kinds for device in searches[kind]()]


def _order(device: DeviceRecord) -> int:
    return ("gpu", "accelerator", "cpu").index(device.processor)


def opencl_device() -> DeviceRecord:
    """The OpenCL device that programs run on: the first usable one, looked for once per process.

    `DeviceError` where there is none; then the next call looks again.
    """
    settings = {name: value for name, value in os.environ.items() if name.startswith(_CL_VARIABLES)}
    return _opencl_device(tuple(sorted(settings.items())))


# Trying the devices takes half a second, as long as compiling a small model.
@lru_cache(maxsize=4)
def _opencl_device(settings: tuple[tuple[str, str], ...]) -> DeviceRecord:
    """`settings`: the variables that decide which drivers are seen; an error is not kept."""
    return first_usable(list_devices(("opencl",)), "opencl")


def first_usable(devices: Sequence[DeviceRecord], kind: str) -> DeviceRecord:
    """The first usable device of a kind; `DeviceError` with every refusal where there is none."""
    for device in devices:
        if device.kind == kind and device.usable:
            return device
    refusals = [f"{d.name}: {d.refusal}" for d in devices if d.kind == kind]
    raise DeviceError(
        f"no {kind} device can be used on this machine" + "".join(f"; {r}" for r in refusals),
        hint=_hint(kind, devices),
    )


def _hint(kind: str, devices: Sequence[DeviceRecord]) -> str:
    """What helps: a driver that is installed and refuses is not installed once more."""
    has_driver = any(NO_DRIVER not in d.refusal for d in devices if d.kind == kind)
    return (HINTS_OF_DRIVERS if has_driver else HINTS).get(kind, HINTS.get(kind, ""))


def examine_processor() -> DeviceRecord:
    """This machine's processor, usable when a C compiler makes a shared library for it."""
    driver, version, width, refusal = "", "", 4, ""
    try:
        compiler = find_compiler()
        driver, version = " ".join(compiler.command), compiler.name
        width = lanes_of(features_of(compiler))
        with tempfile.TemporaryDirectory(prefix="device-", dir=own_folder()) as folder:
            compile_shared_library(
                "#include <math.h>\nfloat probe(float x) { return expf(x); }\n",
                Path(folder),
                compiler,
            )
    except BuildError as error:
        refusal = str(error)
    return DeviceRecord(
        kind="cpu",
        name=processor_name(),
        driver=driver,
        version=version,
        compute_units=core_count(),
        memory_bytes=memory_bytes(),
        vector_floats=width,
        usable=not refusal,
        refusal=refusal,
    )


def probe_opencl(
    time_limit_seconds: float, probe: Path = Path(opencl_probe.__file__)
) -> list[DeviceRecord]:
    """All OpenCL devices, in the loader's order, each tried in a child process.

    A device whose driver ends or blocks the child is refused, and another child goes on with the
    next one. `probe` is the program that the child runs.
    """
    if importlib.util.find_spec("pyopencl") is None:
        return [_no_opencl("the Python package pyopencl is not installed: pip install pyopencl")]
    use_writable_caches()
    devices: list[DeviceRecord] = []
    with (
        vendor_variables() as variables,
        tempfile.TemporaryDirectory(prefix="probe-", dir=own_folder()) as folder,
    ):
        while True:
            results = Path(folder, f"results-{len(devices)}")
            # -P: the probe's folder does not become a place to import from.
            command = [sys.executable, "-P", str(probe), str(results), str(len(devices))]
            failure = _run_probe(command, {**os.environ, **variables}, time_limit_seconds)
            lines = _read_lines(results)
            tried = _read_results(lines, failure)
            devices.extend(tried)
            if not failure or not tried:
                break
    if devices:
        return devices
    return [_no_opencl(failure or _why_empty([line["empty"] for line in lines if "empty" in line]))]


def _why_empty(platforms: Sequence[str]) -> str:
    """Why no device is listed: no driver, or drivers that show none."""
    if not platforms:
        return f"{NO_DRIVER}; {OPENCL_HINT}"
    is_pocl = any("Portable Computing Language" in name for name in platforms)
    reason = pocl_refusal(os.environ) if is_pocl else ""
    return ": ".join([f"the driver of {', '.join(platforms)} lists no device", reason]).rstrip(": ")


def _run_probe(command: list[str], environment: dict[str, str], time_limit_seconds: float) -> str:
    """How the child failed; empty when it came to its end."""
    try:
        finished = run_command(command, seconds=time_limit_seconds, environment=environment)
    except subprocess.TimeoutExpired:
        return f"its driver did not answer within {time_limit_seconds:g} s"
    if finished.status == 0:
        return ""
    last_words = finished.output.strip().splitlines()[-1:]
    ending = signal_name(finished.status) or f"status {finished.status}"
    return ": ".join([f"its driver ended the process with {ending}", *last_words])


def _read_lines(file: Path) -> list[dict[str, Any]]:
    """What a child wrote, line by line."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


def _read_results(lines: Sequence[dict[str, Any]], failure: str) -> list[DeviceRecord]:
    """The devices that a child has begun with; the one it did not end with is refused."""
    begun: dict[str, dict] = {}
    refusals: dict[str, str] = {}
    for line in lines:
        if "begin" in line:
            begun[line["begin"]["address"]] = line["begin"]
        elif "end" in line:
            refusals[line["end"]] = line["refusal"]
    devices = []
    for address, fields in begun.items():
        refusal = refusals.get(address, failure)
        devices.append(DeviceRecord(kind="opencl", usable=not refusal, refusal=refusal, **fields))
    return devices


def _no_opencl(refusal: str) -> DeviceRecord:
    """The entry that says why there is no OpenCL device at all."""
    return DeviceRecord(
        kind="opencl",
        name="OpenCL",
        driver="",
        version="",
        compute_units=0,
        memory_bytes=0,
        vector_floats=4,
        usable=False,
        refusal=refusal,
    )
