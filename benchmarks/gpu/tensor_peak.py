"""What a device's matrix instructions do at best: products of halves with sums of float32.

    tensor_gigaflops(device)    9.0e5

Every warp keeps some tiles of sums in registers and adds products to them, nothing else.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.kernels.printing.language import Requirement
from explorer.kernels.printing.opencl import OpenCLLanguage
from explorer.kernels.printing.prelude import prelude_lines
from explorer.kernels.steps.tensor_cores import COLUMNS, DEPTH, EMULATED, PTX, ROWS
from explorer.runtime.devices import DeviceRecord
from explorer.runtime.opencl.program import OpenCLProgram
from explorer.runtime.roofline import best_seconds, one_launch

GROUP = 256
WARP = 32
CHAINS = 8
"""Independent sums of a warp: an instruction takes some dozen cycles until its sums are there."""

GROUPS_PER_UNIT = 8
ROUNDS = {PTX: 4096, EMULATED: 4}


def source(way: str) -> str:
    prelude = "\n".join(prelude_lines(OpenCLLanguage("int"), [Requirement(f"mma_{way}")]))
    exchange = ", fragments" if way == EMULATED else ""
    declared = f"__local uint fragments[{GROUP // WARP * 192}];" if way == EMULATED else ""
    return f"""{prelude}
__kernel void peak(__global char *arena, __global const char *weights, const ulong offset0) {{
    __global float *kept = (__global float *)(arena + offset0);
    {declared}
    const uint bits = as_uint(kept[get_global_id(0)]) & 0x03ff03ffu;
    const uint a[4] = {{bits, bits + 1u, bits + 2u, bits + 3u}}, b[2] = {{bits, bits + 5u}};
    float sums[{CHAINS}][4];
    for (int i = 0; i < {CHAINS}; i++)
        for (int j = 0; j < 4; j++) sums[i][j] = 0.0f;
    for (int round = 0; round < {ROUNDS[way]}; round++) {{
        UNROLL({CHAINS})
        for (int i = 0; i < {CHAINS}; i++) mma_{way}(sums[i], a, b{exchange});
    }}
    float total = 0.0f;
    for (int i = 0; i < {CHAINS}; i++) total += sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3];
    kept[get_global_id(0)] = total;
}}
"""


def tensor_gigaflops(device: DeviceRecord, way: str = PTX) -> float:
    """Billions of operations in a second, a multiply-add counted as two."""
    groups = device.compute_units * GROUPS_PER_UNIT
    items = groups * GROUP
    program = one_launch("opencl", source(way), 4 * items, groups)
    (kernel,) = program.kernels
    (phase,) = kernel.phases
    phase = replace(phase, group_items=GROUP, work_items=items)
    program = replace(program, kernels=(replace(kernel, phases=(phase,)),))
    operations = 2 * ROWS * COLUMNS * DEPTH * CHAINS * ROUNDS[way] * items // WARP
    with OpenCLProgram(program, b"", device) as executable:
        return operations / best_seconds(executable) * 1e-9
