"""Programs that are linked with a driver which was compiled for another program."""

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from explorer.errors import BuildError
from explorer.kernels.loops.scalar_types import FLOAT
from explorer.kernels.printing.printer import Parameter, PrintedKernel
from explorer.kernels.program import translation_unit
from explorer.kernels.program.shared_driver import MAX_SECTIONS, driver_source, without_driver
from explorer.kernels.program.translation_unit import emit_program
from explorer.results.kernels import PhaseRecord
from explorer.results.program import Argument, Launch
from explorer.runtime import shared_driver
from explorer.runtime.compilers import compile_shared_library, find_compiler
from explorer.runtime.shared_driver import compile_program

TASKS = 70


def source(step: int, launches: int = 3, work: int = 1_000_000) -> str:
    """A program that adds launches * step to each of 70 numbers, a task for each."""
    lines = (
        "static void add_phase0(float *restrict y, long lo, long hi)",
        "{",
        "    for (long task = lo; task < hi; task++)",
        f"        y[task] += {step}.0f;",
        "}",
    )
    kernel = PrintedKernel(
        name="add",
        language="c",
        lines=lines,
        owners=((),) * len(lines),
        phases=(PhaseRecord("add_phase0", TASKS),),
        parameters=(Parameter("y", "y", FLOAT, "output", True),),
        needs=(),
        work=(work,),
    )
    argument = Argument("y", "arena", 0, TASKS * 4, "output")
    calls = [Launch(f"add_{n}", "add", (argument,), ()) for n in range(launches)]
    return "\n".join(emit_program("c", [kernel], calls).source.lines) + "\n"


def run(library: ctypes.CDLL, threads: int, nanoseconds: np.ndarray | None = None) -> np.ndarray:
    arena = np.zeros(TASKS, np.float32)
    times = None if nanoseconds is None else ctypes.c_void_p(nanoseconds.ctypes.data)
    place = ctypes.c_void_p(arena.ctypes.data)
    assert library.explorer_run(place, None, threads, None, None, times) == 0
    return arena


@pytest.fixture
def compiled_sources(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The translation units that the compiler gets, in a process that has compiled nothing."""
    seen: list[str] = []

    def note(text: str, *arguments, **named) -> Path:
        seen.append(text)
        return compile_shared_library(text, *arguments, **named)

    monkeypatch.setattr(shared_driver, "compile_shared_library", note)
    shared_driver._driver_of.cache_clear()
    yield seen
    shared_driver._driver_of.cache_clear()  # later tests get a driver of their own


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], ctypes.CDLL]:
    return lambda text: ctypes.CDLL(str(compile_program(text, tmp_path, find_compiler())))


def test_the_driver_is_compiled_once_for_the_second_program(compiled_sources, load):
    texts = [source(step) for step in (1, 2, 3, 4)]
    libraries = [load(text) for text in texts]
    rests = [without_driver(text) for text in texts]
    assert compiled_sources == [texts[0], driver_source(), *rests[1:]]
    for step, library in enumerate(libraries, 1):
        for threads in (1, 2, 5):
            assert np.all(run(library, threads) == 3 * step)
    for library in libraries:
        library.explorer_stop()


def test_programs_of_one_driver_share_no_variables(compiled_sources, load, tmp_path):
    """Each has its own workers, table and records, also where all names are searched globally."""
    load(source(9))
    paths = [compile_program(source(s, s), tmp_path, find_compiler()) for s in (2, 5)]
    two, five = (ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL) for path in paths)
    two.explorer_record(1)
    for _ in range(20):
        times = np.zeros(10, np.uint64)
        assert np.all(run(two, 2, times) == 4) and np.all(run(five, 3, times) == 25)
    found = np.zeros(5 * 5, np.uint64)
    place = ctypes.c_void_p(found.ctypes.data)
    tasks = 0
    for thread in range(2):
        count = two.explorer_shares(thread, place, 5)
        tasks += int(found.reshape(5, 5)[:count, 4].sum())
    assert tasks == 2 * TASKS
    assert five.explorer_shares(0, place, 5) == 0
    two.explorer_stop()
    assert np.all(run(five, 3) == 25)
    five.explorer_stop()


def test_the_last_section_that_fits_has_times_and_shares(compiled_sources, load):
    load(source(1))
    library = load(source(1, MAX_SECTIONS))
    assert compiled_sources[1] == driver_source()
    library.explorer_record(1)
    times = np.zeros(2 * MAX_SECTIONS, np.uint64)
    assert np.all(run(library, 2, times) == MAX_SECTIONS)
    assert np.all(np.diff(times.astype(np.int64)) >= 0) and times[-1] > 0
    found = np.zeros((MAX_SECTIONS, 5), np.uint64)
    last = []
    for thread in range(2):
        count = library.explorer_shares(thread, ctypes.c_void_p(found.ctypes.data), MAX_SECTIONS)
        last += list(found[:count, 1])
    assert max(last) == MAX_SECTIONS - 1
    library.explorer_stop()


def test_a_program_with_little_to_share_is_run_by_the_caller(compiled_sources, load):
    load(source(1))
    small = load(source(1, work=10))
    small.explorer_record(1)
    assert np.all(run(small, 4, np.zeros(6, np.uint64)) == 3)
    place = ctypes.c_void_p(np.zeros(15, np.uint64).ctypes.data)
    assert [small.explorer_shares(thread, place, 3) for thread in (1, 2, 3)] == [0, 0, 0]


def changed(text: str) -> str:
    return text.replace("next_ticket = 1;", "next_ticket = 0xfffffff0u;")


@pytest.mark.parametrize(
    "text",
    [
        source(1, MAX_SECTIONS + 1),
        changed(source(1)),
        source(1) + "int answer(void) { return 42; }\n",
        "#define SECTION_COUNT 3\n" + source(1),
        "int answer(void) { return 42; }\n",
        "",
    ],
    ids=["too long", "another driver", "more text", "two counts", "no driver", "empty"],
)
def test_other_texts_are_compiled_as_they_are(compiled_sources, tmp_path, text):
    assert without_driver(text) is None
    for _ in range(3):
        compile_program(text, tmp_path, find_compiler())
    assert compiled_sources == [text] * 3


def test_a_program_in_parts_keeps_its_driver(monkeypatch):
    monkeypatch.setattr(translation_unit, "MIN_LINES_FOR_PARTS", 1)
    assert without_driver(source(1)) is None


def test_an_error_has_the_line_that_it_has_in_the_whole_text(compiled_sources, tmp_path):
    broken = source(1).replace("y[task] += 1.0f;", "y[task] += one;")
    line = broken[: broken.index("+= one;")].count("\n") + 1
    for _ in range(3):
        with pytest.raises(BuildError, match=rf":{line}:\d+: error: .one. undeclared"):
            compile_program(broken, tmp_path, find_compiler())


def test_where_the_driver_cannot_be_compiled_programs_are_whole(
    compiled_sources, monkeypatch, load
):
    monkeypatch.setattr("explorer.kernels.program.shared_driver.driver_source", lambda: "damaged")
    texts = [source(step) for step in (1, 2, 3)]
    for step, text in enumerate(texts, 1):
        assert np.all(run(load(text), 1) == 3 * step)
    assert compiled_sources == [texts[0], "damaged", *texts[1:]]


def test_other_flags_have_a_driver_of_their_own(compiled_sources, tmp_path):
    for step in (1, 2, 3):
        for flags in ((), ("-Og",)):
            compile_program(source(step), tmp_path, find_compiler(), flags)
    assert compiled_sources.count(driver_source()) == 2
