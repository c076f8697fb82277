"""Try matrix instructions on an OpenCL device; in a child process.

    python -P tensor_core_probe.py ADDRESS SOURCE WAY

A driver may crash on inline PTX that it does not know. So this file is run by its path, imports
nothing of ours, and prints one line of JSON: {"refusal": ""}, or why the device is not to use them.
ADDRESS is `platform:device`; the kernel `one_tile` in the file SOURCE multiplies the fragments of a
warp; WAY is `ptx`, for NVIDIA's devices from compute capability 8.0 on alone, or `emulated`.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

EXTENSION = "cl_nv_device_attribute_query"
MIN_CAPABILITY = (8, 0)
"""mma.m16n8k16 for halves came with sm_80 (PTX ISA 8.5, section 9.7.14.5, "Target ISA Notes")."""

TOLERANCE = 1e-5
"""Of sums of 16 products of about one in float32, whatever their order."""


def capability_refusal(device: Any) -> str:
    """Why a device has no such instructions by its own account. Any: pyopencl's objects."""
    if EXTENSION not in device.extensions.split():
        return f"it does not list {EXTENSION}: no device of NVIDIA's"
    found = (device.compute_capability_major_nv, device.compute_capability_minor_nv)
    if found < MIN_CAPABILITY:
        return f"its compute capability is {found[0]}.{found[1]}; 8.0 is the least"
    return ""


def number_refusal(device: Any, source: str) -> str:
    """What was wrong with the numbers of one tile; empty when they were right."""
    import numpy as np
    import pyopencl as cl

    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((16, 16), (16, 8)))
    c = random.standard_normal((16, 8)).astype(np.float32)
    expected = c + a.astype(np.float32) @ b.astype(np.float32)
    # Fragments: lane 4 r + q has rows r and r + 8 and columns 2 q, 2 q + 1 of C, and so on.
    lanes = np.arange(32)
    r, q = lanes // 4, lanes % 4
    left = np.stack(
        [a[r + 8 * (i % 2), 2 * q + e + 8 * (i // 2)] for i in range(4) for e in range(2)], 1
    )
    right = np.stack([b[2 * q + e + 8 * i, r] for i in range(2) for e in range(2)], 1)
    places = [(r + 8 * (i // 2), 2 * q + i % 2) for i in range(4)]
    sums = np.stack([c[place] for place in places], 1)
    try:
        context = cl.Context([device])
        program = cl.Program(context, source).build()
        queue = cl.CommandQueue(context)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        arrays = [np.ascontiguousarray(array) for array in (left, right, sums)]
        buffers = [cl.Buffer(context, flags, hostbuf=array) for array in arrays]
        kernel = cl.Kernel(program, "one_tile")
        for index, buffer in enumerate(buffers):
            kernel.set_arg(index, buffer)
        cl.enqueue_nd_range_kernel(queue, kernel, (32,), (32,))
        cl.enqueue_copy(queue, arrays[2], buffers[2])
        queue.finish()
    except cl.Error as error:
        return f"it cannot build and run one tile: {str(error).strip().splitlines()[0]}"
    wanted = np.stack([expected[place] for place in places], 1)
    worst = float(np.abs(arrays[2] - wanted).max())
    return "" if worst <= TOLERANCE else f"one tile was wrong by up to {worst:.2g}"


def main() -> None:
    import pyopencl as cl

    warnings.simplefilter("ignore")
    address, source, way = sys.argv[1:]
    platform, device = map(int, address.split(":"))
    found = cl.get_platforms()[platform].get_devices()[device]
    refusal = capability_refusal(found) if way == "ptx" else ""
    refusal = refusal or number_refusal(found, Path(source).read_text(encoding="ascii"))
    print(json.dumps({"refusal": refusal}))


if __name__ == "__main__":
    main()
