"""What tests of printed kernels share: types, runners, and a textbook nest."""

from collections.abc import Callable, Sequence

import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    Float16Type,
    Float64Type,
    IntegerType,
    Signedness,
    f32,
    i64,
)

from explorer.ir.compute import KernelBuilder, clamp_index
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.printing.printer import PrintedKernel

f16, f64 = Float16Type(), Float64Type()
u8 = IntegerType(8, Signedness.UNSIGNED)
RUNNERS = ["run_c", pytest.param("run_opencl", marks=pytest.mark.opencl)]


def elementwise(body: Callable, types: Sequence, result_type, extent: int = 8) -> func.FuncOp:
    """y[i] = body(s, a[i], b[i], ...) as a textbook nest."""
    k = KernelBuilder("kernel_1")
    buffers = [
        k.argument(name, (extent,), t, "input") for name, t in zip("abc", types, strict=False)
    ]
    y = k.argument("y", (extent,), result_type, "output")
    (i,) = k.dimensions(i=extent)
    k.generic("plain", [(b, (i,)) for b in buffers], (y, (i,)), body)
    return lower_to_loops(k.finish("elementwise"))


def body_lines(printed: PrintedKernel) -> list[str]:
    """The lines between the braces of the first function, without their common indentation."""
    opening = printed.lines.index("{")
    closing = printed.lines.index("}")
    return [line.removeprefix("    ") for line in printed.lines[opening + 1 : closing]]


def gather() -> func.FuncOp:
    k = KernelBuilder("gather")
    data = k.argument("data", (5, 3), f32, "weight")
    indices = k.argument("indices", (7,), i64, "input")
    y = k.argument("y", (7, 3), f32, "output")

    def body(s, i, j):
        loaded = s.load(indices, [i]).convert(s.index(0).value.type)
        s.store(s.load(data, [clamp_index(s, loaded, 5), j]), y, [i, j])

    k.nest({"i": 7, "j": 3}, body, parallel="i")
    return k.finish("explicit")
