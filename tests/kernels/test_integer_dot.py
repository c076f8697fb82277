"""Dot products of bytes: the step, its refusals, and the function on every instruction set."""

import ctypes
import itertools
import subprocess
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, Signedness, i8, i32

from explorer.ir.compute import KernelBuilder
from explorer.ir.loop_dialect import DotOp, DotUnsignedOp
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.nest import LoopNest, ScheduleError
from explorer.kernels.printing.c import CLanguage
from explorer.kernels.printing.language import Requirement
from explorer.kernels.printing.prelude import prelude_lines
from explorer.kernels.steps.dot import dot
from explorer.kernels.steps.pack import pack
from explorer.kernels.steps.restructure import reorder, split

U8 = IntegerType(8, Signedness.UNSIGNED)
COLUMNS, DEPTH = 32, 12
FLAGS = ["-std=gnu11", "-shared", "-fPIC", "-Wall", "-Wno-unused-function", "-Werror"]
INSTRUCTION_SETS = ["native", "icelake-server", "alderlake", "x86-64-v4", "x86-64-v3", "x86-64"]
"""The second one has AVX-512 VNNI, the third AVX-VNNI."""


def product_kernel(left: IntegerType = U8, right: IntegerType = i8, offset: int = 0, sums=i32):
    """sums[n] += (x[k] - offset) * w[k, n]."""
    k = KernelBuilder("product")
    x = k.argument("x", (DEPTH,), left, "input")
    w = k.argument("w", (DEPTH, COLUMNS), right, "weight")
    y = k.argument("y", (COLUMNS,), sums, "output")

    def body(s, a, b, y):
        factor = a.convert(sums)
        return y + (factor - offset if offset else factor) * b.convert(sums)

    n, c = k.dimensions(n=COLUMNS, k=DEPTH)
    k.generic("main", [(x, (c,)), (w, (c, n))], (y, (n,)), body, "k", accumulates=True)
    return k.finish("matmul")


def ready_for_dots(function, products=4, packed=True) -> LoopNest:
    nest = LoopNest(lower_to_loops(function))
    split(nest, loop="n", into="nt ni", factors=(16,))
    split(nest, loop="k", into="kg ku", factors=(products,))
    reorder(nest, order="nt kg ni ku")
    if packed:
        layout = [(1, 16, None), (0, products, None), (1, 1, 16), (0, 1, products)]
        pack(nest, buffer="w", layout=layout)
    return nest


def dots_in(nest: LoopNest) -> list[DotOp]:
    return [op for op in nest.function.walk() if isinstance(op, DotOp)]


@pytest.mark.parametrize(("left", "offset"), [(U8, 0), (i8, -128)])
def test_four_products_of_bytes_become_one_operation(left, offset):
    nest = ready_for_dots(product_kernel(left, offset=offset))
    dot(nest, lanes="ni", products="ku")
    (found,) = dots_in(nest)
    assert str(found.bytes.type) == f"vector<4x{left}>"
    assert str(found.filters.type) == "vector<64xi8>"
    assert not nest.has("ku")
    nest.function.verify()


@pytest.mark.parametrize(
    ("kernel", "options", "reason"),
    [
        (product_kernel(right=U8), {}, "not an unsigned and a signed byte"),
        (product_kernel(left=i8), {}, "not an unsigned and a signed byte"),
        (product_kernel(offset=3), {}, "not an unsigned and a signed byte"),
        (product_kernel(left=i8, offset=-127), {}, "not an unsigned and a signed byte"),
        (product_kernel(), {"packed": False}, "4 filters for each lane side by side"),
        (product_kernel(), {"products": 6}, "16 lanes of 6"),
    ],
)
def test_other_products_are_refused(kernel, options, reason):
    nest = ready_for_dots(kernel, **options)
    with pytest.raises(ScheduleError, match=reason):
        dot(nest, lanes="ni", products="ku")


def halves_kernel():
    """sums[n] += x[j, k] * the half j of w[k, n]."""
    k = KernelBuilder("product")
    x = k.argument("x", (2, DEPTH), i8, "input")
    w = k.argument("w", (DEPTH, COLUMNS), U8, "weight")
    y = k.argument("y", (COLUMNS,), i32, "output")

    def body(s, low, high, byte, y):
        wide = byte.convert(i32)
        first = low.convert(i32) * wide.logical_and(15)
        return y + (first + high.convert(i32) * wide.shift_right(4))

    n, c = k.dimensions(n=COLUMNS, k=DEPTH)
    reads = [(x, (0, c)), (x, (1, c)), (w, (c, n))]
    k.generic("main", reads, (y, (n,)), body, "k", accumulates=True)
    return k.finish("matmul")


@pytest.mark.parametrize(
    ("kernel", "halves"),
    [(product_kernel(left=i8, right=U8), [None]), (halves_kernel(), ["low", "high"])],
)
def test_filters_without_a_sign_are_what_lies_four_by_four(kernel, halves):
    nest = ready_for_dots(kernel)
    dot(nest, lanes="ni", products="ku")
    found = [op for op in nest.function.walk() if isinstance(op, DotUnsignedOp)]
    assert [op.half and op.half.data for op in found] == halves
    assert {str(op.filters.type) for op in found} == {"vector<64xui8>"}
    nest.function.verify()


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("instructions", INSTRUCTION_SETS)
def test_every_instruction_set_multiplies_filters_without_a_sign(
    lanes, instructions, tmp_path: Path
):
    names = {"dot_unsigned": (0, 255), "dot_low": (0, 15), "dot_high": (4, 15)}
    needs = [Requirement(name, "int", lanes) for name in names]
    text = prelude_lines(CLanguage(), [Requirement("vector", "int", lanes), *needs])
    for name in names:
        text += [f"void run_{name}(int32_t *sums, const int32_t *few, const int32_t *filters)"]
        text += ["{", f"    const int{lanes} from = load_int{lanes}(sums);"]
        text += [f"    const int{lanes} packed = load_int{lanes}(filters);"]
        text += [f"    store_int{lanes}({name}_int{lanes}(from, *few, packed), sums);", "}"]
    functions = _built(text, instructions, tmp_path)
    random = np.random.default_rng(lanes)
    extremes = list(itertools.product((-128, -127, 127), (255, 128, 127)))
    for trial in range(60):
        few = random.integers(-128, 128, 4).astype(np.int8)
        filters = random.integers(0, 256, 4 * lanes).astype(np.uint8)
        if trial < len(extremes):
            few[:], filters[:] = extremes[trial]
        start = random.integers(-(2**31), 2**31, lanes).astype(np.int32)
        for name, (shift, mask) in names.items():
            sums = start.copy()
            getattr(functions, f"run_{name}")(_at(sums), _at(few), _at(filters))
            expected = reference(start, few, filters >> shift & mask)
            np.testing.assert_array_equal(sums, expected, name)


def test_a_loop_around_other_loops_is_refused():
    nest = ready_for_dots(product_kernel())
    with pytest.raises(ScheduleError, match="does not stand in"):
        dot(nest, lanes="kg", products="ku")


def reference(sums: np.ndarray, few: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """Sums that wrap around at 32 bits."""
    wide = filters.astype(np.int64).reshape(-1, 4) @ few.astype(np.int64)
    return (sums.astype(np.int64) + wide).astype(np.int32)


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("instructions", INSTRUCTION_SETS)
def test_every_instruction_set_computes_the_same_dot_product(lanes, instructions, tmp_path: Path):
    needs = [
        Requirement("vector", "int", lanes),
        Requirement("dot", "int", lanes),
        Requirement("dot_of_signed", "int", lanes),
    ]
    text = [*prelude_lines(CLanguage(), needs)]
    for name in ("dot", "dot_of_signed"):
        text += [
            f"void run_{name}(int32_t *sums, const int32_t *few, const int32_t *filters)",
            "{",
            f"    const int{lanes} total = {name}_int{lanes}(load_int{lanes}(sums), *few,",
            f"        load_int{lanes}(filters));",
            f"    store_int{lanes}(total, sums);",
            "}",
        ]
    functions = _built(text, instructions, tmp_path)
    random = np.random.default_rng(lanes)
    extremes = [(255, 127), (255, -128), (0, -128)]
    for trial in range(40):
        few = random.integers(0, 256, 4).astype(np.uint8)
        filters = random.integers(-128, 128, 4 * lanes).astype(np.int8)
        if trial < len(extremes):
            few[:], filters[:] = extremes[trial]
        start = random.integers(-(2**31), 2**31, lanes).astype(np.int32)
        for name, given in (("dot", few), ("dot_of_signed", (few ^ 128).view(np.int8))):
            sums = start.copy()
            getattr(functions, f"run_{name}")(_at(sums), _at(given), _at(filters))
            np.testing.assert_array_equal(sums, reference(start, few, filters))


def split_reference(sums: np.ndarray, few: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """Sizes of filters times bytes less 128, of which a negative filter flips the bits."""
    wide, byte = filters.astype(np.int64).reshape(-1, 4), few.astype(np.int64) - 128
    products = np.abs(wide) * np.where(wide < 0, ~byte, byte)
    return (sums.astype(np.int64) + products.sum(axis=1)).astype(np.int32)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("instructions", INSTRUCTION_SETS)
def test_products_with_split_signs_never_leave_16_bits(lanes, instructions, tmp_path: Path):
    names = ("dot_split", "dot_split_of_signed")
    needs = [Requirement(name, "int", lanes) for name in names]
    text = prelude_lines(CLanguage(), [Requirement("vector", "int", lanes), *needs])
    for name in names:
        text += [f"void run_{name}(int32_t *sums, const int32_t *few, const int32_t *filters)"]
        text += ["{", f"    const int{lanes} from = load_int{lanes}(sums);"]
        text += [f"    const int{lanes} packed = load_int{lanes}(filters);"]
        text += [f"    store_int{lanes}({name}_int{lanes}(from, *few, packed), sums);", "}"]
    functions = _built(text, instructions, tmp_path)
    random = np.random.default_rng(lanes)
    extremes = list(itertools.product((0, 127, 128, 255), (-128, -127, 0, 127)))
    for trial in range(60):
        few = random.choice([0, 1, 127, 128, 255], 4).astype(np.uint8)
        filters = random.choice([-128, -127, -1, 0, 1, 127], 4 * lanes).astype(np.int8)
        if trial < len(extremes):
            few[:], filters[:] = extremes[trial]
        start = random.integers(-(2**31), 2**31, lanes).astype(np.int32)
        for name, given in zip(names, (few, (few ^ 128).view(np.int8)), strict=True):
            sums = start.copy()
            getattr(functions, f"run_{name}")(_at(sums), _at(given), _at(filters))
            np.testing.assert_array_equal(sums, split_reference(start, few, filters))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("kind", ["char", "uchar"])
@pytest.mark.parametrize("instructions", INSTRUCTION_SETS)
def test_every_instruction_set_keeps_the_lowest_bytes(kind, lanes, instructions, tmp_path: Path):
    needs = [Requirement("vector", "int", lanes), Requirement("narrow", kind, lanes)]
    text = prelude_lines(CLanguage(), needs)
    scalar = {"char": "int8_t", "uchar": "uint8_t"}[kind]
    text += [f"void run({scalar} *narrow, const int32_t *wide)", "{"]
    text += [f"    const int{lanes} from = load_int{lanes}(wide);"]
    text += [f"    store_{kind}{lanes}({kind}{lanes}_from_int{lanes}(from), narrow);", "}"]
    functions = _built(text, instructions, tmp_path)
    wide = np.random.default_rng(lanes).integers(-(2**31), 2**31, (20, lanes)).astype(np.int32)
    wide[0], wide[1], wide[2], wide[3] = -1, 255, 128, -(2**31)
    for row in wide:
        narrow = np.zeros(lanes, np.int8 if kind == "char" else np.uint8)
        functions.run(_at(narrow), _at(row))
        np.testing.assert_array_equal(narrow, row.astype(narrow.dtype))


def test_the_dot_product_is_one_instruction_where_the_processor_has_it(tmp_path: Path):
    if "avx512_vnni" not in _processor_flags():
        pytest.skip("this processor has no AVX-512 VNNI")
    needs = [Requirement("vector", "int", 16), Requirement("dot", "int", 16)]
    text = prelude_lines(CLanguage(), needs)
    text += ["int16 run(int16 sums, int32_t few, int16 filters)", "{"]
    text += ["    return dot_int16(sums, few, filters);", "}"]
    source = tmp_path / "dot.c"
    source.write_text("\n".join(text) + "\n")
    command = ["gcc", "-O2", "-march=native", "-std=gnu11", "-S", str(source), "-o", "-"]
    assembly = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "vpdpbusd" in assembly
    assert "vpmulld" not in assembly


def _built(text: list[str], instructions: str, folder: Path) -> ctypes.CDLL:
    """The compiled text; skips the test where this processor cannot run it."""
    source, library = folder / "functions.c", folder / "functions.so"
    source.write_text("\n".join(text) + "\n")
    command = ["gcc", "-O2", f"-march={instructions}", *FLAGS, str(source), "-o", str(library)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    if not _runs_here(instructions):
        pytest.skip(f"this processor has not all of {instructions}")
    return ctypes.CDLL(str(library))


def _at(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _processor_flags() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return set()
    lines = [line for line in text.splitlines() if line.startswith("flags")]
    return set(lines[0].split()) if lines else set()


def _runs_here(instructions: str) -> bool:
    wide = {"avx512f", "avx512bw", "avx512vl"}
    needed = {
        "icelake-server": {*wide, "avx512_vnni", "avx512_vbmi2", "vaes", "sha_ni"},
        "alderlake": {"avx2", "avx_vnni", "vaes", "sha_ni"},
        "x86-64-v4": wide,
        "x86-64-v3": {"avx2"},
    }
    return needed.get(instructions, set()) <= _processor_flags()
