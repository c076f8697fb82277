"""Whole programs: the table of launches, threads, taps and times, and what is refused."""

import ctypes
import errno
import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects import affine, func, math
from xdsl.dialects.builtin import StringAttr, f32

from explorer.errors import BuildError, InputError
from explorer.ir.compute import KernelBuilder
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.printing.c import OWN_VECTOR_FUNCTIONS, print_c
from explorer.kernels.printing.language import Requirement
from explorer.kernels.printing.opencl import print_opencl
from explorer.kernels.printing.printer import PrintedKernel
from explorer.kernels.program import translation_unit as emit
from explorer.kernels.program.translation_unit import EmittedProgram, emit_program, parts_of
from explorer.results.program import Argument, Launch
from explorer.runtime.compilers import MAX_PARTS, compile_shared_library, divisible_parts

ROWS, COLUMNS = 96, 50
SIZE_BYTES = ROWS * COLUMNS * 4
TAP = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)


def rowwise(name: str, body, rows: int = ROWS, weight: bool = False) -> func.FuncOp:
    """y[i, j] = body(x[i, j], w[j]), one task per row."""
    k = KernelBuilder(name)
    x = k.argument("x", (rows, COLUMNS), f32, "input")
    reads = [x]
    if weight:
        reads.append(k.argument("w", (COLUMNS,), f32, "weight"))
    y = k.argument("y", (rows, COLUMNS), f32, "output")
    i, j = k.dimensions(i=rows, j=COLUMNS)
    accesses = [(x, (i, j)), *((w, (j,)) for w in reads[1:])]
    k.generic("plain", accesses, (y, (i, j)), body)
    function = lower_to_loops(k.finish("elementwise"))
    outer = next(op for op in function.walk() if isinstance(op, affine.ForOp))
    outer.attributes["loop.kind"] = StringAttr("parallel")
    return function


def kernels() -> list[PrintedKernel]:
    scale = rowwise("scale", lambda s, x, w: x * w, weight=True)
    grow = rowwise("grow", lambda s, x: x.unary(math.ExpOp) + 1.0)
    return [print_c(scale, "scale"), print_c(grow, "grow")]


def launch_scale(operation: str, source: int, target: int) -> Launch:
    arguments = (
        Argument("x", "arena", source, SIZE_BYTES, "input"),
        Argument("w", "weights", 64, COLUMNS * 4, "weight"),
        Argument("y", "arena", target, SIZE_BYTES, "output"),
    )
    return Launch(operation, "scale", arguments, ("node",))


def launch_grow(operation: str, source: int, target: int) -> Launch:
    arguments = (
        Argument("x", "arena", source, SIZE_BYTES, "input"),
        Argument("y", "arena", target, SIZE_BYTES, "output"),
    )
    return Launch(operation, "grow", arguments, ())


def launches() -> list[Launch]:
    """scale, grow, scale, grow ... between two buffers; the last value is in the first one."""
    a, b = 0, SIZE_BYTES
    pairs = [(launch_scale(f"scale_{n}", a, b), launch_grow(f"grow_{n}", b, a)) for n in range(4)]
    return [launch for pair in pairs for launch in pair]


def memory() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    arena = np.zeros(2 * ROWS * COLUMNS, np.float32)
    arena[: ROWS * COLUMNS] = rng.normal(size=ROWS * COLUMNS)
    weights = np.zeros(16 + COLUMNS, np.float32)
    weights[16:] = rng.uniform(-1, 0, COLUMNS)
    return arena, weights


def expected_values() -> list[np.ndarray]:
    """What every launch writes."""
    arena, weights = memory()
    value = arena[: ROWS * COLUMNS].reshape(ROWS, COLUMNS)
    values = []
    for _ in range(4):
        value = value * weights[16:]
        values.append(value)
        value = np.exp(value) + 1
        values.append(value)
    return values


def text_of(program: EmittedProgram) -> str:
    return "\n".join(program.source.lines) + "\n"


def run(library: ctypes.CDLL, threads: int, tap=None, nanoseconds: np.ndarray | None = None):
    """The arena after a run."""
    arena, weights = memory()
    status = library.explorer_run(
        ctypes.c_void_p(arena.ctypes.data),
        ctypes.c_void_p(weights.ctypes.data),
        threads,
        TAP(lambda launch, context: tap(launch, arena)) if tap else None,
        None,
        ctypes.c_void_p(nanoseconds.ctypes.data) if nanoseconds is not None else None,
    )
    assert status == 0
    return arena


@pytest.fixture
def library(compile_c):
    loaded = compile_c(text_of(emit_program("c", kernels(), launches())))
    yield loaded
    loaded.explorer_stop()


# -- the driver --------------------------------------------------------------------------------


def test_launches_run_in_order_on_one_thread(library):
    found = run(library, threads=1)[: ROWS * COLUMNS].reshape(ROWS, COLUMNS)
    np.testing.assert_allclose(found, expected_values()[-1], rtol=1e-6)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_compute_exactly_what_one_thread_does(library, threads):
    alone = run(library, threads=1)
    for _ in range(50):
        np.testing.assert_array_equal(run(library, threads), alone)


def test_the_number_of_threads_may_change_from_run_to_run(library):
    alone = run(library, threads=1)
    for threads in (4, 1, 2, 6, 3):
        np.testing.assert_array_equal(run(library, threads), alone)
    library.explorer_stop()
    np.testing.assert_array_equal(run(library, 2), alone)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_tap_sees_every_launch_once_and_before_the_next_one(library, threads):
    seen = []
    values = []

    def tap(launch: int, arena: np.ndarray) -> None:
        seen.append(launch)
        half = ROWS * COLUMNS
        written = arena[half:] if launch % 2 == 0 else arena[:half]
        values.append(written.reshape(ROWS, COLUMNS).copy())

    run(library, threads, tap)
    assert seen == list(range(8))
    for found, expected in zip(values, expected_values(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("threads", [1, 2])
def test_times_of_launches_follow_one_another(library, threads):
    times = np.full(16, 2**64 - 1, np.uint64)
    run(library, threads, nanoseconds=times)
    assert np.all(np.diff(times.astype(np.int64)) >= 0)
    assert times[-1] > times[0]


def mixed_launches() -> list[Launch]:
    """Two that are not worth sharing, one that is, and three that are not: s s g s s s."""
    a, b = 0, SIZE_BYTES
    alone = [launch_scale(f"scale_{n}", *places) for n, places in enumerate([(a, b), (b, a)] * 2)]
    return [*alone[:2], launch_grow("grow", a, b), alone[1], alone[2], alone[3]]


def test_neighbours_that_are_not_worth_sharing_are_one_claim(compile_c):
    program = emit_program("c", kernels(), mixed_launches())
    rows = [line for line in program.source.lines if "_section, &offsets[" in line]
    assert [int(row.split("}")[0].split(", ")[5]) for row in rows] == [2, 0, 1, 3, 0, 0]
    forced = text_of(program).replace("MIN_SHARED_OPERATIONS 100000", "MIN_SHARED_OPERATIONS 1")
    library = compile_c(forced)
    alone = run(library, threads=1)
    for threads in (2, 3, 8):
        for _ in range(50):
            times = np.full(12, 2**64 - 1, np.uint64)
            np.testing.assert_array_equal(run(library, threads, nanoseconds=times), alone)
            assert np.all(np.diff(times.astype(np.int64)) >= 0)
    for threads in (1, 2):
        seen: list[int] = []

        def tap(launch: int, arena: np.ndarray, seen: list[int] = seen) -> None:
            seen.append(launch)

        np.testing.assert_array_equal(run(library, threads, tap), alone)
        assert seen == list(range(6))
    library.explorer_stop()


def test_an_impossible_number_of_threads_is_refused(library):
    arena, weights = memory()
    for threads in (0, -1, 100_000):
        status = library.explorer_run(
            ctypes.c_void_p(arena.ctypes.data),
            ctypes.c_void_p(weights.ctypes.data),
            threads,
            None,
            None,
            None,
        )
        assert status == errno.EINVAL
    np.testing.assert_array_equal(arena, memory()[0])


def test_a_program_without_launches_does_nothing(compile_c):
    library = compile_c(text_of(emit_program("c", [], [])))
    for threads in (1, 2):
        np.testing.assert_array_equal(run(library, threads), memory()[0])
    library.explorer_stop()


# -- parts -------------------------------------------------------------------------------------


@pytest.fixture
def divisible(monkeypatch) -> str:
    """The source of a program that several compilers can share."""
    monkeypatch.setattr(emit, "MIN_LINES_FOR_PARTS", 1)
    return text_of(emit_program("c", kernels(), launches()))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_a_program_in_parts_computes_what_the_whole_does(divisible, library, parts, tmp_path):
    """With three parts the last has no kernel."""
    path = compile_shared_library(divisible, tmp_path, parts=parts)
    together = ctypes.CDLL(str(path))
    np.testing.assert_array_equal(run(together, 2), run(library, 1))
    together.explorer_stop()


def test_an_error_in_any_part_is_told(divisible, tmp_path):
    broken = divisible.replace("const long", "const lung", 1)
    with pytest.raises(BuildError, match="lung"):
        compile_shared_library(broken, tmp_path, parts=2)


def test_the_longest_kernels_lie_in_different_parts():
    long, short, middle = (
        replace(kernels()[0], name=name, lines=("",) * count, owners=((),) * count)
        for name, count in (("long", 500), ("short", 50), ("middle", 300))
    )
    assert parts_of([long, short, middle]) == {"long": 0, "middle": 1, "short": 2}
    assert parts_of([short]) == {}


def test_what_nobody_divides_is_compiled_in_one_part(divisible):
    assert divisible_parts(text_of(emit_program("c", [], []))) == 1
    assert 1 <= divisible_parts(divisible) <= MAX_PARTS


# -- the text ----------------------------------------------------------------------------------


def test_the_table_names_offsets_tasks_and_portions():
    program = emit_program("c", kernels(), launches()[:2])
    lines = program.source.lines
    start = lines.index("static const size_t offsets[] = {")
    end = lines.index("    {NULL, offsets, 0, 0, -1, 1, 0, 0}")
    assert (
        "\n".join(lines[start : end + 2])
        == """\
static const size_t offsets[] = {
    // scale_0: scale
    0,  // arena x
    64,  // weights w
    19200,  // arena y
    // grow_0: grow
    19200,  // arena x
    0,  // arena y
    0
};

#define SECTION_COUNT 2

// Operations of all sections of which several threads can have a part.
#define SHARED_OPERATIONS 67200ull

// {function, offsets, tasks, tasks claimed at once, launch, sections together,
//  tasks before the first round of rows, tasks of a round}
static const struct Section sections[SECTION_COUNT + 1] = {
    {scale_phase0_section, &offsets[0], 96, 96, 0, 1, 0, 0},  // scale_0: node
    {grow_phase0_section, &offsets[3], 96, 15, 1, 1, 0, 0},  // grow_0
    {NULL, offsets, 0, 0, -1, 1, 0, 0}
};"""
    )
    row = lines.index("    {grow_phase0_section, &offsets[3], 96, 15, 1, 1, 0, 0},  // grow_0")
    assert program.source.owners[row] == ("grow_0",)


@pytest.mark.parametrize(
    ("work", "portion"), [(960_000, "4"), (96_000, "10"), (9_600, "96"), (0, "4")]
)
def test_a_claim_is_worth_its_cost_and_threads_get_several(work, portion):
    """Tasks of 10,000, 1,000 and 100 operations; and none that anybody counted."""
    printed = [replace(k, work=(work,) if work else ()) for k in kernels()]
    lines = emit_program("c", printed, launches(), claims_per_section=24).source.lines
    rows = [line for line in lines if "_section, &offsets[" in line]
    assert {row.split(", ")[3] for row in rows} == {portion}


@pytest.mark.parametrize(("work", "shared"), [(96_000, 8 * 96_000), (9_600, 0)])
def test_what_nobody_can_share_is_not_counted_as_shared(work, shared):
    printed = [replace(k, work=(work,)) for k in kernels()]
    text = text_of(emit_program("c", printed, launches()))
    assert f"#define SHARED_OPERATIONS {shared}ull" in text


def test_wrappers_find_arguments_by_offset():
    lines = emit_program("c", kernels(), launches()).source.lines
    start = lines.index("static void scale_phase0_section(")
    assert (
        "\n".join(lines[start : start + 7])
        == """\
static void scale_phase0_section(
    char *arena, const char *weights, const size_t *offsets, long lo, long hi)
{
    scale_phase0(
        (const float *)(arena + offsets[0]), (const float *)(weights + offsets[1]),
        (float *)(arena + offsets[2]), lo, hi);
}"""
    )


def test_kernels_are_found_by_their_lines_with_their_owners():
    printed = kernels()
    program = emit_program("c", printed, launches())
    for kernel in printed:
        where = program.kernel_lines[kernel.name]
        assert program.source.lines[where.start : where.stop] == kernel.lines
        assert program.source.owners[where.start : where.stop] == kernel.owners
    assert len(program.source.lines) == len(program.source.owners)


def test_a_program_contains_only_what_its_kernels_call():
    text = text_of(emit_program("c", kernels(), launches()))
    assert "float16" not in text
    needs = (Requirement("tanh", "float", 8), Requirement("reduce_maximum", "int", 8))
    text = text_of(emit_program("c", [replace(kernels()[1], needs=needs)], []))
    for name in ("tanh_float8", "larger_float8", "select_float8", "maximum_int4", "int32_t"):
        assert name in text
    assert text.index("float8 larger_float8(") < text.index("float8 tanh_float8(")
    assert "exp_float8" not in text


def test_names_of_a_model_cannot_leave_a_comment():
    launch = replace(launches()[0], operation="x */ evil\\\n", sources=("a\nb",))
    lines = emit_program("c", kernels(), [launch]).source.lines
    assert any("x *<U+002F> evil<U+005C><U+000A>" in line for line in lines)
    assert all("\n" not in line and line.isascii() for line in lines)


def test_the_same_input_gives_the_same_text():
    assert emit_program("c", kernels(), launches()) == emit_program("c", kernels(), launches())


def test_opencl_programs_are_prelude_and_kernels():
    scale = rowwise("scale", lambda s, x, w: (x * w).maximum(0.0), weight=True)
    program = emit_program("opencl", [print_opencl(scale, "scale")], launches()[:1])
    kinds = [line for line in program.source.lines if line.startswith(("#", "static", "__kernel"))]
    assert kinds == [
        "#define UNROLL(count) __attribute__((opencl_unroll_hint(count)))",
        "#define INLINE static inline",
        "static inline float maximum_float(float a, float b)",
        "__kernel void scale_phase0(",
    ]


# -- what is refused ---------------------------------------------------------------------------


def test_a_launch_of_an_unknown_kernel_is_refused():
    launch = replace(launches()[0], kernel="shrink")
    with pytest.raises(InputError, match=r"shrink, which was not printed.*kernels are scale, grow"):
        emit_program("c", kernels(), [launch])


def test_a_launch_with_other_arguments_is_refused():
    launch = replace(launches()[0], kernel="grow")
    with pytest.raises(InputError, match="gives 3 arguments to kernel grow, which takes 2"):
        emit_program("c", kernels(), [launch])


def test_an_argument_in_the_wrong_space_is_refused():
    x, w, y = launches()[0].arguments
    launch = replace(launches()[0], arguments=(x, replace(w, space="arena"), y))
    with pytest.raises(InputError, match=r"w of scale_0 lies in the arena.*role weight"):
        emit_program("c", kernels(), [launch])


def test_an_offset_that_no_element_can_have_is_refused():
    x, w, y = launches()[0].arguments
    launch = replace(launches()[0], arguments=(replace(x, offset_bytes=6), w, y))
    with pytest.raises(InputError, match="multiples of the element's 4 bytes"):
        emit_program("c", kernels(), [launch])


def test_kernels_that_would_share_a_function_are_refused():
    one, other = (print_c(rowwise("k", lambda s, x: x), name) for name in ("conv/1", "conv_1"))
    with pytest.raises(InputError, match=r"conv/1 and conv_1 both make .* conv_1_phase0"):
        emit_program("c", [one, other], [])
    with pytest.raises(InputError, match="two kernels named conv_1"):
        emit_program("c", [other, other], [])
    with pytest.raises(InputError, match="is printed as c, not opencl"):
        emit_program("opencl", [one], [])
    with pytest.raises(InputError, match="no language 'cuda'"):
        emit_program("cuda", [], [])


# -- other compilers and processors ------------------------------------------------------------


def every_prelude_function(lanes: int) -> str:
    """A program whose prelude holds all vector functions."""
    functions = [*OWN_VECTOR_FUNCTIONS, "maximum", "minimum", "select"]
    reductions = [f"reduce_{f}" for f in ("add", "multiply", "maximum", "minimum")]
    needs = [Requirement(f, "float", lanes) for f in (*functions, *reductions)]
    needs += [Requirement(f"reduce_{f}", "int", lanes) for f in ("and", "or", "xor", "maximum")]
    needs += [Requirement(f, "long", 0) for f in ("floor_divide", "power", "absolute", "maximum")]
    needs += [Requirement("absolute", "short", lanes), Requirement("vector", "uchar", lanes)]
    needs += [Requirement("lanewise", "float", lanes, "sin")]
    needs += [Requirement("lanewise2", "double", lanes, "pow")]
    scale, grow = kernels()
    return text_of(emit_program("c", [scale, replace(grow, needs=tuple(needs))], launches()))


def test_gcc_takes_vectors_of_eight_for_a_processor_without_avx512(compile_c):
    if not Path("/proc/cpuinfo").exists() or "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("the code for haswell only runs on x86-64 with AVX2")
    library = compile_c(every_prelude_function(8), "-march=haswell")
    found = run(library, threads=2)[: ROWS * COLUMNS].reshape(ROWS, COLUMNS)
    np.testing.assert_allclose(found, expected_values()[-1], rtol=1e-6)
    library.explorer_stop()


@pytest.mark.parametrize("target", ["x86_64-linux-gnu", "aarch64-linux-gnu"])
def test_clang_compiles_the_driver_and_the_prelude(tmp_path, target):
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("the clang of ziglang is not installed (pip install ziglang)")
    source = tmp_path / "program.c"
    source.write_text(every_prelude_function(4))
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-O2", "-std=gnu11"]
    command += ["-Wall", "-Werror", "-Wno-unused-function", "-fPIC", "-pthread", "-c"]
    command += [str(source), "-o", str(tmp_path / "program.o")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
