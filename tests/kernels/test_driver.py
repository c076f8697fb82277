"""The driver of generated C: every task runs once, whoever runs it, and late threads do no harm."""

import ctypes

import numpy as np
import pytest

from explorer.kernels.loops.scalar_types import FLOAT
from explorer.kernels.printing.printer import Parameter, PrintedKernel
from explorer.kernels.program.translation_unit import emit_program
from explorer.kernels.sections.locality import Rounds
from explorer.results.kernels import PhaseRecord
from explorer.results.program import Argument, Launch

LAUNCHES = 9
TAP = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)


def counting(tasks: int, rounds: Rounds, work: int) -> PrintedKernel:
    """y[task] += 1: a task that runs twice, or never, shows."""
    lines = (
        "static void count_phase0(float *restrict y, long lo, long hi)",
        "{",
        "    for (long task = lo; task < hi; task++)",
        "        y[task] += 1.0f;",
        "}",
    )
    return PrintedKernel(
        name="count",
        language="c",
        lines=lines,
        owners=((),) * len(lines),
        phases=(PhaseRecord("count_phase0", tasks),),
        parameters=(Parameter("y", "y", FLOAT, "output", True),),
        needs=(),
        work=(work,),
        rounds=(rounds,),
    )


def source(tasks: int, rounds: Rounds, work: int = 10_000_000) -> str:
    argument = Argument("y", "arena", 0, tasks * 4, "output")
    launches = [Launch(f"count_{n}", "count", (argument,), ()) for n in range(LAUNCHES)]
    program = emit_program("c", [counting(tasks, rounds, work)], launches)
    return "\n".join(program.source.lines) + "\n"


def counts(library: ctypes.CDLL, tasks: int, threads: int, tap=None, nanoseconds=None):
    arena = np.zeros(max(tasks, 16), np.float32)
    status = library.explorer_run(
        ctypes.c_void_p(arena.ctypes.data),
        None,
        threads,
        TAP(tap) if tap else None,
        None,
        ctypes.c_void_p(nanoseconds.ctypes.data) if nanoseconds is not None else None,
    )
    assert status == 0
    return arena[:tasks]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("tasks", "rounds"),
    [
        (96, Rounds()),
        (7, Rounds()),
        (168, Rounds(0, 7)),  # 24 rounds
        (172, Rounds(4, 7)),  # behind 4 tasks
        (179, Rounds(4, 14)),  # with 7 behind the last round
        (40, Rounds(3, 1)),  # rounds that no two threads can share
        (50, Rounds(30, 40)),  # not one whole round
    ],
)
def test_every_task_runs_once_for_any_number_of_threads(compile_c, tasks, rounds):
    library = compile_c(source(tasks, rounds))
    for threads in (1, 2, 3, 5, 17, 2):
        for _ in range(40):
            assert np.all(counts(library, tasks, threads) == LAUNCHES)
    library.explorer_stop()


def test_taps_and_times_change_nothing(compile_c):
    library = compile_c(source(179, Rounds(4, 14)))
    seen: list[int] = []
    for threads in (1, 2, 4):
        for _ in range(20):
            times = np.full(2 * LAUNCHES, 2**63, np.uint64)
            assert np.all(counts(library, 179, threads, nanoseconds=times) == LAUNCHES)
            assert np.all(np.diff(times.astype(np.int64)) >= 0)
        seen.clear()
        counted = counts(library, 179, threads, tap=lambda launch, context: seen.append(launch))
        assert seen == list(range(LAUNCHES))
        assert np.all(counted == LAUNCHES)
    library.explorer_stop()


@pytest.mark.parametrize("first", ["0x3ffffff0u", "0x7ffffff0u", "0xfffffffbu"])
def test_tickets_may_wrap_around(compile_c, first):
    """Also for lanes that were not used since the tickets before."""
    text = source(172, Rounds(4, 7))
    assert "next_ticket = 1;" in text
    library = compile_c(text.replace("next_ticket = 1;", f"next_ticket = {first};"))
    for threads in (2, 2, 2, 6, 2, 6):
        assert np.all(counts(library, 172, threads) == LAUNCHES)
    library.explorer_stop()
