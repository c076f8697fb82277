"""Programs in C: numbers, taps and times, and what the caller sees when native code fails."""

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from explorer.errors import BuildError, DeviceError, InputError
from explorer.results import Port
from explorer.runtime.compilers import compile_shared_library
from explorer.runtime.native.program import NativeProgram

isolated_or_not = pytest.mark.parametrize("isolated", [True, False], ids=["worker", "here"])

EXPECTED = [[22, 44], [66, 88]]
"""(x + w) * 2"""


@isolated_or_not
def test_run_gives_the_outputs_by_name(c_program, weights, inputs, isolated):
    with NativeProgram(c_program, weights, isolated) as executable:
        outputs = executable.run(inputs)
    assert outputs["y"].tolist() == EXPECTED
    assert outputs["y"].dtype == np.float32


@isolated_or_not
def test_weights_may_be_bytes(c_program, weights, inputs, isolated):
    with NativeProgram(c_program, weights.tobytes(), isolated) as executable:
        assert executable.run(inputs)["y"].tolist() == EXPECTED


@isolated_or_not
def test_outputs_of_a_run_survive_the_next_run(c_program, weights, inputs, isolated):
    with NativeProgram(c_program, weights, isolated) as executable:
        first = executable.run(inputs)["y"]
        second = executable.run({"x": -inputs["x"]})["y"]
    assert first.tolist() == EXPECTED
    assert second.tolist() == [[-18, -36], [-54, -72]]


@isolated_or_not
def test_inputs_need_not_be_dense(c_program, weights, inputs, isolated):
    with NativeProgram(c_program, weights, isolated) as executable:
        assert executable.run({"x": inputs["x"].T})["y"].tolist() == [[22, 64], [46, 88]]


@isolated_or_not
def test_taps_are_the_values_right_after_their_launch(c_program, weights, inputs, isolated):
    """Both taps lie at the same bytes of the arena: scale_1 works in place."""
    with NativeProgram(c_program, weights, isolated) as executable:
        outputs, taps = executable.run_with_taps(inputs)
    assert outputs["y"].tolist() == EXPECTED
    assert taps.keys() == {("add_0", 0), ("scale_1", 0)}
    assert taps["add_0", 0].shape == (1, 1, 1, 1, 4)
    assert taps["add_0", 0].ravel().tolist() == [11, 22, 33, 44]
    assert taps["scale_1", 0].ravel().tolist() == [22, 44, 66, 88]


@isolated_or_not
def test_profile_has_one_event_per_launch(c_program, weights, inputs, isolated):
    with NativeProgram(c_program, weights, isolated) as executable:
        record = executable.profile(inputs, repeats=5)
    assert [(e.name, e.operation, e.kernel, e.flops, e.bytes_moved) for e in record.events] == [
        ("Add", "add_0", "add", 4, 48),
        ("scale_1", "scale_1", "scale", 4, 48),
    ]
    add, scale = record.events
    assert 0 <= add.start_ns <= add.end_ns <= scale.start_ns <= scale.end_ns
    assert record.repeats == 5
    assert record.milliseconds > 0


@isolated_or_not
def test_a_launch_that_has_nothing_to_run_takes_no_time(
    c_program, weights, inputs, isolated, with_source
):
    """A generated driver writes no times for a launch without tasks."""
    program = with_source(c_program, "nanoseconds[2] = now() - begin;", "{}")
    program = with_source(program, "nanoseconds[3] = now() - begin;", "{}")
    with NativeProgram(program, weights, isolated) as executable:
        add, scale = executable.profile(inputs, repeats=3).events
    assert scale.start_ns == scale.end_ns
    assert add.end_ns <= scale.start_ns < 60e9  # the longest that the run could have taken


def test_closing_in_this_process_ends_the_threads_of_the_library(
    c_program, weights, inputs, with_source, tmp_path
):
    """The library's `explorer_stop` writes a file here."""
    program = with_source(
        c_program,
        "int explorer_run(",
        "#include <stdio.h>\n"
        f'void explorer_stop(void) {{ fclose(fopen("{tmp_path}/stopped", "w")); }}\n'
        "int explorer_run(",
    )
    with NativeProgram(program, weights, isolated=False) as executable:
        executable.run(inputs)
    assert (tmp_path / "stopped").exists()


@isolated_or_not
def test_time_gives_one_figure_per_repeat(c_program, weights, inputs, isolated):
    with NativeProgram(c_program, weights, isolated) as executable:
        seconds = executable.time(inputs, repeats=7)
    assert len(seconds) == 7
    assert min(seconds) > 0


@isolated_or_not
def test_inputs_are_copied_in_before_every_repeat(
    c_program, weights, inputs, isolated, with_source
):
    """A plan may reuse an input's bytes: here launch 1 overwrites x."""
    program = with_source(c_program, "(float *)(arena + 64), 0, 4);\n    if (nanoseconds) "
                          "nanoseconds[3]", "(float *)(arena + 0), 0, 4);\n    if (nanoseconds) "
                          "nanoseconds[3]")  # fmt: skip
    program = dataclasses.replace(
        program,
        outputs=(
            Port(name="y", element_type="float32", shape=(2, 2), offset_bytes=0, size_bytes=16),
        ),
    )
    with NativeProgram(program, weights, isolated) as executable:
        executable.time(inputs, repeats=3)
        assert executable.run(inputs)["y"].tolist() == EXPECTED


@isolated_or_not
def test_the_arena_starts_zeroed_and_everything_is_aligned(
    c_program, weights, inputs, isolated, with_source
):
    """The source is replaced by one that stores 1 into y[0] where a promise is broken."""
    program = with_source(
        c_program,
        "scale_phase0((const float *)(arena + 64), (float *)(arena + 64), 0, 4);",
        "((float *)(arena + 64))[0] = arena[100] != 0 || (size_t)arena % 64 "
        "|| (size_t)weights % 64;",
    )
    with NativeProgram(program, weights, isolated) as executable:
        assert executable.run(inputs)["y"][0, 0] == 0


@isolated_or_not
def test_element_types_come_back_as_declared(c_program, weights, inputs, isolated):
    ports = (
        Port(name="flags", element_type="bool", shape=(4,), offset_bytes=0, size_bytes=4),
        Port(name="count", element_type="int64", shape=(), offset_bytes=64, size_bytes=8),
        Port(name="nothing", element_type="float32", shape=(0, 3), offset_bytes=64, size_bytes=0),
    )
    program = dataclasses.replace(c_program, outputs=ports)
    with NativeProgram(program, weights, isolated) as executable:
        outputs = executable.run({"x": np.zeros((2, 2), np.float32)})
    assert outputs["flags"].dtype == np.bool_
    assert outputs["count"].shape == ()
    assert outputs["count"].dtype == np.int64
    assert outputs["nothing"].shape == (0, 3)


def test_two_programs_at_once_do_not_mix(c_program, weights, inputs, with_source):
    other = with_source(c_program, "* 2.0f", "* 3.0f")
    with NativeProgram(c_program, weights) as two, NativeProgram(other, weights) as three:
        results: dict[str, list[list[float]]] = {"two": [], "three": []}

        def run_often(name: str, executable: NativeProgram) -> None:
            for _ in range(50):
                results[name].append(executable.run(inputs)["y"].ravel().tolist())

        threads = [
            threading.Thread(target=run_often, args=("two", two)),
            threading.Thread(target=run_often, args=("three", three)),
            threading.Thread(target=run_often, args=("three", three)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results["two"] == [[22, 44, 66, 88]] * 50
    assert results["three"] == [[33, 66, 99, 132]] * 100


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"x": np.zeros((2, 3), np.float32)},
            "input `x`: expected float32 of shape (2, 2), got float32 of shape (2, 3)",
        ),
        (
            {"x": np.zeros((2, 2))},
            "input `x`: expected float32 of shape (2, 2), got float64 of shape (2, 2); "
            "try: array.astype('float32')",
        ),
        (
            {"x": np.zeros((2, 2), ">f4")},
            "input `x`: expected float32 of shape (2, 2), got >f4 of shape (2, 2); "
            "try: array.astype('float32')",
        ),
        ({}, "input `x` is missing: expected float32 of shape (2, 2)"),
        (
            {"x": [[1.0, 2.0], [3.0, 4.0]]},
            "input `x`: expected an array, float32 of shape (2, 2), got a list; "
            "try: numpy.asarray(value, dtype='float32')",
        ),
        (
            {"x1": np.zeros((2, 2), np.float32)},
            "the program has no input `x1`; its inputs are x; try: `x`",
        ),
    ],
)
def test_wrong_inputs_are_refused_by_name(c_program, weights, arrays, message):
    with NativeProgram(c_program, weights) as executable, pytest.raises(InputError) as caught:
        executable.run(arrays)
    assert str(caught.value) == message


def test_weights_of_another_size_are_refused(c_program):
    with pytest.raises(InputError, match="one block of 16 bytes, got 12"):
        NativeProgram(c_program, bytes(12))


def test_a_table_that_leaves_the_arena_is_refused(c_program, weights):
    outside = dataclasses.replace(
        c_program,
        outputs=(
            Port(name="y", element_type="float32", shape=(2, 2), offset_bytes=120, size_bytes=16),
        ),
    )
    with pytest.raises(DeviceError, match="port `y` lies at bytes 120 to 136 of an arena of 128"):
        NativeProgram(outside, weights)


def test_a_crash_ends_the_worker_and_names_the_launch(c_program, weights, inputs, with_source):
    """The kernel writes through NULL when x[0] is negative."""
    program = with_source(
        c_program,
        "for (long i = lo; i < hi; i++) y[i] = x[i] * 2.0f;",
        "if (x[0] < 0) y = NULL;\n"
        "    for (long i = lo; i < hi; i++) ((volatile float *)y)[i] = x[i] * 2.0f;",
    )
    with NativeProgram(program, weights) as executable:
        assert executable.run(inputs)["y"].tolist() == EXPECTED
        with pytest.raises(DeviceError) as caught:
            executable.run({"x": -inputs["x"]})
        assert caught.value.signal == "SIGSEGV"
        assert "ended by SIGSEGV, in launch 2 of 2, scale_1 (kernel scale)" in str(caught.value)
        # The next run starts a fresh worker.
        assert executable.run(inputs)["y"].tolist() == EXPECTED


def test_an_abort_reports_what_the_program_wrote(c_program, weights, inputs, with_source):
    program = with_source(
        c_program, "#include <stddef.h>", "#include <stddef.h>\n#undef NDEBUG\n#include <assert.h>"
    )
    program = with_source(program, "(void)threads;", "assert(threads == 7);")
    with NativeProgram(program, weights) as executable, pytest.raises(DeviceError) as caught:
        executable.run(inputs)
    assert caught.value.signal == "SIGABRT"
    assert "Assertion `threads == 7' failed" in caught.value.log
    assert "Assertion `threads == 7' failed" in str(caught.value)


def test_a_hang_is_ended_at_the_limit(c_program, weights, inputs, with_source):
    program = with_source(
        c_program, "(void)threads;", "while (*(volatile float *)arena < 0) continue;"
    )
    with NativeProgram(program, weights, time_limit_seconds=0.3) as executable:
        with pytest.raises(DeviceError) as caught:
            executable.run({"x": -inputs["x"]})
        assert "did not finish within 0.3 s, in launch 1 of 2, add_0 (kernel add)" in str(
            caught.value
        )
        assert executable.run(inputs)["y"].tolist() == EXPECTED


def test_the_limit_holds_for_one_repeat_and_not_for_all(c_program, weights, inputs, with_source):
    """Twenty repeats of 0.05 s with a limit of 0.4 s."""
    program = with_source(
        c_program,
        "(void)threads;",
        "struct timespec pause = {0, 50000000}; nanosleep(&pause, NULL);",
    )
    with NativeProgram(program, weights, time_limit_seconds=0.4) as executable:
        assert len(executable.time(inputs, repeats=20)) == 20


def test_a_killed_worker_is_reported_and_replaced(c_program, weights, inputs, with_source):
    program = with_source(
        c_program, "(void)threads;", "while (*(volatile float *)arena < 0) continue;"
    )
    with NativeProgram(program, weights) as executable:
        executable.run(inputs)
        worker = executable.worker_process_id
        assert worker is not None
        killer = threading.Timer(0.2, os.kill, (worker, signal.SIGKILL))
        killer.start()
        with pytest.raises(DeviceError, match="ended by SIGKILL"):
            executable.run({"x": -inputs["x"]})
        killer.join()
        assert executable.run(inputs)["y"].tolist() == EXPECTED
        # Killed between two runs: no run was lost, so there is nothing to report.
        worker = executable.worker_process_id
        assert worker is not None
        os.kill(worker, signal.SIGKILL)
        while executable.worker_process_id is not None:
            time.sleep(0.01)
        assert executable.run(inputs)["y"].tolist() == EXPECTED


@isolated_or_not
def test_a_status_other_than_zero_is_an_error(c_program, weights, inputs, isolated, with_source):
    program = with_source(c_program, "return 0;", "return 3;")
    executable = NativeProgram(program, weights, isolated)
    with executable, pytest.raises(DeviceError, match="explorer_run returned 3 instead of 0"):
        executable.run(inputs)


@isolated_or_not
def test_a_library_without_the_function_is_refused(
    c_program, weights, inputs, isolated, with_source
):
    program = with_source(c_program, "int explorer_run(", "int another_name(")
    executable = NativeProgram(program, weights, isolated)
    with executable, pytest.raises(DeviceError, match=r"cannot load the program: .*explorer_run"):
        executable.run(inputs)


def test_a_compile_error_is_reported_in_the_compilers_words(c_program, weights, with_source):
    program = with_source(c_program, "y[i] = x[i] * 2.0f;", "y[i] = undeclared_thing;")
    with pytest.raises(BuildError) as caught:
        NativeProgram(program, weights)
    assert "error: " in str(caught.value)
    assert "undeclared_thing" in str(caught.value)
    assert "undeclared_thing" in caught.value.log


def test_build_is_the_seam_for_a_cache(c_program, weights, inputs, tmp_path):
    sources = []

    def build(source: str) -> Path:
        sources.append(source)
        return compile_shared_library(source, tmp_path)

    for _ in range(2):
        with NativeProgram(c_program, weights, build=build) as executable:
            assert executable.run(inputs)["y"].tolist() == EXPECTED
    assert sources[0] == sources[1]
    assert len(list(tmp_path.iterdir())) == 1


def test_closing_ends_the_worker_and_removes_the_build(c_program, weights, inputs):
    executable = NativeProgram(c_program, weights)
    executable.run(inputs)
    worker = executable.worker_process_id
    assert worker is not None
    assert executable.library.exists()
    executable.close()
    executable.close()
    assert not executable.library.exists()
    assert not is_running(worker)
    with pytest.raises(DeviceError, match="was closed"):
        executable.run(inputs)


def test_a_program_that_is_dropped_takes_its_worker_with_it(c_program, weights, inputs):
    executable = NativeProgram(c_program, weights)
    executable.run(inputs)
    worker = executable.worker_process_id
    assert worker is not None
    del executable
    assert not is_running(worker)


CALLER = """
import sys, threading, time
sys.path.insert(0, sys.argv[1])
import conftest, numpy
from explorer.runtime.native.program import NativeProgram
endless = "while (*(volatile float *)arena < 0) continue;"
source = conftest.C_SOURCE.replace("(void)threads;", endless)
executable = NativeProgram(conftest.make_program("cpu", source), bytes(16))
executable.run({"x": numpy.zeros((2, 2), numpy.float32)})
if sys.argv[2] == "hang":
    forever = {"x": -numpy.ones((2, 2), numpy.float32)}
    threading.Thread(target=executable.run, args=(forever,), daemon=True).start()
    time.sleep(0.2)
print(executable.worker_process_id, flush=True)
if sys.argv[2] == "hang":
    time.sleep(60)
"""


@pytest.mark.parametrize("ending", ["exit", "hang"])
def test_no_worker_outlives_its_caller(ending, tmp_path):
    """Whether the caller ends without closing, or is killed while a kernel runs endlessly.

    A killed caller cannot remove its build; it stays in the test's own folder.
    """
    with subprocess.Popen(
        [sys.executable, "-c", CALLER, str(Path(__file__).parent), ending],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)},
    ) as caller:
        assert caller.stdout is not None
        worker = int(caller.stdout.readline())
        if ending == "hang":
            assert is_running(worker)
            caller.kill()
    wait_until_gone(worker)
    assert (len(list(tmp_path.iterdir())) == 0) == (ending == "exit")


def is_running(process: int) -> bool:
    """Whether it exists and is not a zombie that waits for its parent."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(process: int) -> None:
    deadline = time.monotonic() + 20
    while is_running(process):
        assert time.monotonic() < deadline, f"worker {process} is still there"
        time.sleep(0.01)
