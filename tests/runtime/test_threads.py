"""Threads of a program in C: equal results however many there are and wherever they run."""

import os
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.errors import DeviceError, InputError
from explorer.runtime.native.affinity import check_affinity

SAMPLES = Path(__file__).resolve().parents[2] / "sample_models"
PROCESSORS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []

isolated_or_not = pytest.mark.parametrize("isolated", [True, False], ids=["worker", "here"])
needs_affinity = pytest.mark.skipif(len(PROCESSORS) < 2, reason="one processor, or none to name")


@pytest.fixture(scope="module")
def compilation():
    """A net of which several threads have a part."""
    compilation = explorer.compile(SAMPLES / "digits_cnn.onnx")
    shared = [line for line in compilation.program.source.lines if "SHARED_OPERATIONS " in line]
    assert int(shared[0].split()[-1].removesuffix("ull")) > 100_000
    yield compilation
    compilation.close()


def outputs_of(compilation, threads: int, runs: int = 5, **options) -> list[np.ndarray]:
    inputs = compilation.example_inputs()
    with compilation.open(threads, **options) as executable:
        return [array for _ in range(runs) for array in executable.run(inputs).values()]


@isolated_or_not
@pytest.mark.parametrize("threads", [2, 3, 8])
def test_any_number_of_threads_gives_the_same_bits(compilation, threads, isolated):
    (alone,) = outputs_of(compilation, 1, runs=1)
    for found in outputs_of(compilation, threads, isolated=isolated):
        np.testing.assert_array_equal(found, alone)


@needs_affinity
@isolated_or_not
def test_bound_threads_give_the_same_bits(compilation, isolated):
    (alone,) = outputs_of(compilation, 1, runs=1)
    for found in outputs_of(compilation, 2, isolated=isolated, affinity=PROCESSORS[:2]):
        np.testing.assert_array_equal(found, alone)


@needs_affinity
def test_each_thread_of_a_worker_runs_on_its_processor(compilation):
    chosen = PROCESSORS[1::-1]
    with compilation.open(2, affinity=chosen) as executable:
        executable.run(compilation.example_inputs())
        assert bound_threads(executable.worker_process_id) == {(chosen[0],), (chosen[1],)}


@needs_affinity
def test_in_this_process_the_callers_thread_stays_as_it_is(compilation):
    with compilation.open(2, isolated=False, affinity=PROCESSORS[:2]) as executable:
        executable.run(compilation.example_inputs())
        assert os.sched_getaffinity(0) == set(PROCESSORS)
        assert (PROCESSORS[1],) in bound_threads(os.getpid())


def bound_threads(process: int) -> set[tuple[int, ...]]:
    """The processors of those threads of a process that may not run on all."""
    allowed = [
        tuple(sorted(os.sched_getaffinity(int(t)))) for t in os.listdir(f"/proc/{process}/task")
    ]
    return {found for found in allowed if found != tuple(PROCESSORS)}


@pytest.mark.skipif(not PROCESSORS, reason="this system has no affinity")
@isolated_or_not
def test_a_profile_says_which_thread_did_what(compilation, isolated):
    inputs = compilation.example_inputs()
    with compilation.open(2, isolated=isolated) as executable:
        profile = executable.profile(inputs, repeats=3)
        assert executable.profile(inputs, repeats=1).shares  # again, without what was before
    events = {event.operation: event for event in profile.events}
    # Whoever had time for it: each launch is somebody's, within its own time.
    assert {share.operation for share in profile.shares} == {
        event.operation for event in profile.events if event.end_ns > event.start_ns
    }
    assert {share.thread for share in profile.shares} <= {0, 1}
    for share in profile.shares:
        event = events[share.operation]
        assert event.start_ns <= share.start_ns <= share.end_ns <= event.end_ns
        assert share.tasks >= 1


def test_one_thread_has_all_of_it_and_nothing_is_recorded(compilation):
    with compilation.open(1) as executable:
        assert executable.profile(compilation.example_inputs(), repeats=1).shares == ()


def test_a_processor_that_is_not_there_is_refused_by_its_number(compilation):
    missing = max(PROCESSORS) + 1
    with pytest.raises(InputError, match=f"may not run on processor {missing}") as caught:
        compilation.open(1, affinity=[missing])
    assert str(PROCESSORS[0]) in caught.value.hint


@needs_affinity
def test_affinity_names_one_processor_for_each_thread(compilation):
    with pytest.raises(InputError, match="1 processors for 2 threads"):
        compilation.open(2, affinity=PROCESSORS[:1])
    with pytest.raises(InputError, match="named twice"):
        compilation.open(2, affinity=PROCESSORS[:1] * 2)


def test_a_system_that_cannot_bind_threads_says_so(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert check_affinity(()) == ()
    with pytest.raises(DeviceError, match="no way to bind threads"):
        check_affinity([0])
