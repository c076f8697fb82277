"""Look at every OpenCL device, and let each build and run a small kernel; in a child process.

    python -P opencl_probe.py RESULTS FIRST

A broken driver may crash or hang. So this file is run by its path, imports nothing of ours, and
writes to the file RESULTS, one line of JSON each, before and after a device is tried:

    {"begin": {"address": "0:0", "name": ..., "driver": ..., ...}}
    {"end": "0:0", "refusal": ""}
    {"empty": "Portable Computing Language"}          a driver that lists no device

FIRST says how many devices to leave out: those that an earlier child was through with.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

PROBE_SOURCE = """
__kernel void probe(__global const float *x, __global const float *y, __global float *z)
{
    const size_t i = get_global_id(0);
    float16 sum = vload16(i, x) + vload16(i, y);
    sum = sum * (float16)(2.0f);
    vstore16(sum, i, z);
}
"""
ITEMS = 8
FLOATS = 16 * ITEMS

GPU_VECTOR_FLOATS = 4
"""GPUs report a width of 1, which is their lanes' view; 16-byte loads are what serves them."""


def installed_platforms() -> list[Any]:
    """All platforms; none where the loader knows no driver, which it reports as an error."""
    import pyopencl as cl

    try:
        return cl.get_platforms()
    except cl.LogicError as error:
        if "PLATFORM_NOT_FOUND" in str(error):
            return []
        raise


def describe(address: str, platform: Any, device: Any) -> dict[str, object]:
    """The fields of a `DeviceRecord`. Any: pyopencl is imported late, in `main`."""
    import pyopencl as cl

    is_gpu = bool(device.type & cl.device_type.GPU)
    is_cpu = bool(device.type & cl.device_type.CPU)
    width = max(1, device.native_vector_width_float)
    return {
        "address": address,
        "name": device.name.strip(),
        "processor": "gpu" if is_gpu else "cpu" if is_cpu else "accelerator",
        "driver": f"{platform.name.strip()} {device.driver_version.strip()}",
        "version": device.version.strip(),
        "compute_units": device.max_compute_units,
        "memory_bytes": device.global_mem_size,
        "vector_floats": GPU_VECTOR_FLOATS if is_gpu else min(16, max(4, width)),
    }


def refusal_of(device: Any) -> str:
    """Why this device is of no use; empty when it gave the right numbers."""
    import numpy as np
    import pyopencl as cl

    if not device.available or not device.compiler_available:
        return "the driver says that the device or its compiler is not available"
    try:
        context = cl.Context([device])
        program = cl.Program(context, PROBE_SOURCE).build()
        queue = cl.CommandQueue(context)
        x = np.arange(FLOATS, dtype=np.float32)
        y = np.full(FLOATS, 0.5, dtype=np.float32)
        z = np.zeros(FLOATS, dtype=np.float32)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffers = [cl.Buffer(context, flags, hostbuf=array) for array in (x, y, z)]
        kernel = cl.Kernel(program, "probe")
        for index, buffer in enumerate(buffers):
            kernel.set_arg(index, buffer)
        cl.enqueue_nd_range_kernel(queue, kernel, (ITEMS,), None)
        cl.enqueue_copy(queue, z, buffers[2])
        queue.finish()
    except cl.Error as error:
        return f"it cannot build and run a small kernel: {error}"
    wrong = np.flatnonzero(z != (x + y) * 2)
    if len(wrong):
        i = int(wrong[0])
        return f"a small kernel gave {z[i]} instead of {(x[i] + y[i]) * 2} at index {i}"
    return ""


def main() -> None:
    results, first = Path(sys.argv[1]), int(sys.argv[2])

    warnings.simplefilter("ignore")  # pyopencl warns of every line that a compiler prints

    def write(**line: object) -> None:
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    devices = []
    for p, platform in enumerate(installed_platforms()):
        listed = platform.get_devices()
        devices += [(f"{p}:{d}", platform, device) for d, device in enumerate(listed)]
        if not listed:
            write(empty=platform.name.strip())
    for address, platform, device in devices[first:]:
        write(begin=describe(address, platform, device))
        write(end=address, refusal=refusal_of(device))


if __name__ == "__main__":
    main()
