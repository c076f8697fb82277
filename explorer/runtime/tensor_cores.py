"""Whether a device's matrix instructions can be used: tried out, not only listed.

    tensor_core_refusal(device)    "" or "it does not list cl_nv_device_attribute_query: ..."

A small kernel multiplies one tile in a child process, and its numbers are compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

from explorer.kernels.printing.language import Requirement
from explorer.kernels.printing.opencl import OpenCLLanguage
from explorer.kernels.printing.prelude import prelude_lines
from explorer.kernels.steps.tensor_cores import EMULATED, PTX
from explorer.runtime import tensor_core_probe
from explorer.runtime.devices import DeviceRecord
from explorer.runtime.processes import run_command, signal_name
from explorer.runtime.scratch import own_folder
from explorer.runtime.vendors import vendor_variables

TIME_LIMIT_SECONDS = 60.0

ONE_TILE = """
__kernel void one_tile(__global const uint *a, __global const uint *b, __global float *sums)
{
    __local uint fragments[192];
    const int lane = (int)get_local_id(0);
    uint left[4], right[2];
    float own[4];
    for (int i = 0; i < 4; i++) left[i] = a[lane * 4 + i];
    for (int i = 0; i < 2; i++) right[i] = b[lane * 2 + i];
    for (int i = 0; i < 4; i++) own[i] = sums[lane * 4 + i];
    $CALL
    for (int i = 0; i < 4; i++) sums[lane * 4 + i] = own[i];
}
"""
CALLS = {
    PTX: "mma_ptx(own, left, right);",
    EMULATED: "mma_emulated(own, left, right, fragments);",
}


def probe_source(way: str) -> str:
    """OpenCL C of one tile: what the generated kernels call, on fragments from memory."""
    prelude = prelude_lines(OpenCLLanguage("int"), [Requirement(f"mma_{way}")])
    return "\n".join(prelude) + ONE_TILE.replace("$CALL", CALLS[way])


@lru_cache(maxsize=8)
def tensor_core_refusal(device: DeviceRecord, way: str = PTX) -> str:
    """Why kernels for an OpenCL device may not use its matrix instructions; empty if they may.

    Takes about half a second, once per process and device.
    """
    if not device.address:
        return "it is no OpenCL device"
    with (
        vendor_variables() as variables,
        tempfile.TemporaryDirectory(prefix="probe-", dir=own_folder()) as folder,
    ):
        source = Path(folder, "one_tile.cl")
        source.write_text(probe_source(way), encoding="ascii")
        probe = str(Path(tensor_core_probe.__file__))
        command = [sys.executable, "-P", probe, device.address, str(source), way]
        try:
            done = run_command(
                command, seconds=TIME_LIMIT_SECONDS, environment={**os.environ, **variables}
            )
        except subprocess.TimeoutExpired:
            return f"its driver did not answer within {TIME_LIMIT_SECONDS:g} s"
    lines = done.output.strip().splitlines()
    if done.status:
        ending = signal_name(done.status) or f"status {done.status}"
        return ": ".join([f"its driver ended the process with {ending}", *lines[-1:]])
    return str(json.loads(lines[-1])["refusal"])
