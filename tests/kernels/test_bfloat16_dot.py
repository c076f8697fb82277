"""Dot products of two bfloat16: the step `dot`, its refusals, and the function it is printed as."""

import ctypes
import platform
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import bf16, f16, f32
from xdsl.utils.exceptions import VerifyException

from explorer.ir.compute import KernelBuilder
from explorer.ir.loop_dialect import DotPairsOp
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.nest import LoopNest, ScheduleError
from explorer.kernels.printing.c import CLanguage
from explorer.kernels.printing.language import Requirement
from explorer.kernels.printing.prelude import prelude_lines
from explorer.kernels.steps.dot import dot
from explorer.kernels.steps.pack import pack
from explorer.kernels.steps.restructure import reorder, split

COLUMNS, DEPTH = 32, 12
FLAGS = ["-O2", "-std=gnu11", "-shared", "-fPIC", "-Wall", "-Wno-unused-function", "-Werror"]


def ready_for_dots(kind=bf16, together: int = 2, packed: bool = True) -> LoopNest:
    """sums[n] += x[k] * w[k, n], cut and packed."""
    k = KernelBuilder("product")
    x = k.argument("x", (DEPTH,), kind, "input")
    w = k.argument("w", (DEPTH, COLUMNS), kind, "weight")
    y = k.argument("y", (COLUMNS,), f32, "output")
    n, c = k.dimensions(n=COLUMNS, k=DEPTH)
    reads = [(x, (c,)), (w, (c, n))]
    k.generic("main", reads, (y, (n,)), lambda s, a, b, y: y + a * b, "k", accumulates=True)
    nest = LoopNest(lower_to_loops(k.finish("matmul")))
    split(nest, loop="n", into="nt ni", factors=(16,))
    split(nest, loop="k", into="kg ku", factors=(together,))
    reorder(nest, order="nt kg ni ku")
    if packed:
        layout = [(1, 16, None), (0, together, None), (1, 1, 16), (0, 1, together)]
        pack(nest, buffer="w", layout=layout)
    return nest


def test_two_products_of_bfloat16_become_one_operation():
    nest = ready_for_dots()
    dot(nest, lanes="ni", products="ku")
    (found,) = [op for op in nest.function.walk() if isinstance(op, DotPairsOp)]
    kinds = [str(operand.type) for operand in found.operands]
    assert kinds == ["vector<16xf32>", "vector<2xbf16>", "vector<32xbf16>"]
    assert not nest.has("ku")
    nest.function.verify()
    wrong = DotPairsOp.create(
        operands=[found.sums, found.filters, found.pair], result_types=[found.result.type]
    )
    with pytest.raises(VerifyException, match="2 of bf16 with 32"):
        wrong.verify_()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"kind": f16}, "no product of two of bf16"),
        ({"kind": f32}, "no product of two of bf16"),
        ({"packed": False}, "2 filters for each lane side by side"),
        ({"together": 4}, "4, 8 or 16 lanes of 2"),
    ],
)
def test_other_products_of_floats_are_refused(options, reason):
    nest = ready_for_dots(**options)
    with pytest.raises(ScheduleError, match=reason):
        dot(nest, lanes="ni", products="ku")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="another architecture")
@pytest.mark.parametrize("architecture", ["x86-64", "native"])
def test_the_function_adds_exact_products_one_after_the_other(architecture, tmp_path):
    """On a processor without the instruction, whether it fuses multiply-adds or not."""
    if "avx512_bf16" in Path("/proc/cpuinfo").read_text() and architecture == "native":
        pytest.skip("this processor has the instruction, which flushes what is denormal")
    text = prelude_lines(CLanguage(), [Requirement("dot_pairs", "float", 4)])
    text += ["void run(float *sums, const int32_t *pair, const int32_t *filters)", "{"]
    text += ["    const int4 packed = load_int4(filters);"]
    text += ["    store_float4(dot_pairs_float4(load_float4(sums), *pair, packed), sums);", "}"]
    source, library = tmp_path / "pairs.c", tmp_path / "pairs.so"
    source.write_text("\n".join(text) + "\n")
    command = ["gcc", *FLAGS, f"-march={architecture}", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    run = ctypes.CDLL(str(library)).run
    random = np.random.default_rng(0)
    for _ in range(40):
        pair = random.normal(size=2).astype(ml_dtypes.bfloat16)
        filters = random.normal(size=(4, 2)).astype(ml_dtypes.bfloat16)
        sums = random.normal(size=4).astype(np.float32)
        wide, few = filters.astype(np.float32), pair.astype(np.float32)
        wanted = (sums + few[1] * wide[:, 1]) + few[0] * wide[:, 0]
        run(*(ctypes.c_void_p(array.ctypes.data) for array in (sums, pair, filters)))
        np.testing.assert_array_equal(sums, wanted)
