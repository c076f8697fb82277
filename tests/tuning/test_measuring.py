"""Measuring: numbers are compared first, and what crashes or hangs does so alone."""

from collections.abc import Callable
from pathlib import Path

import pytest

import explorer
from explorer.errors import InputError
from explorer.kernels.schedules import ScheduledKernel
from explorer.targets import load_target
from explorer.tuning import building, measuring
from explorer.tuning.building import BuiltLibrary, build_all, build_library, place_name
from explorer.tuning.measuring import Bench
from explorer.tuning.workloads import Workload, workloads_of

MODEL = Path(__file__).parents[2] / "sample_models" / "digits_cnn.onnx"


@pytest.fixture(scope="module")
def workload() -> Workload:
    # Other cores may take Winograd's algorithm, for which 4 pixels are not legal.
    target = load_target("cpu", {"core.family": "neoverse_v1"})
    compiled = explorer.compile(MODEL, target, tuned=False)
    return next(w for w in workloads_of(compiled) if w.kernel == "conv_3x3_2")


@pytest.fixture(scope="module")
def default(workload) -> ScheduledKernel:
    return workload.schedule()


@pytest.fixture(scope="module")
def default_library(workload, default) -> BuiltLibrary:
    with Bench(workload) as opened:
        return build_library(opened.source(default))


@pytest.fixture
def bench(workload, default, default_library, monkeypatch):
    monkeypatch.setattr(measuring, "TURN_SECONDS", 1e-4)
    monkeypatch.setattr(measuring, "MIN_LIMIT_SECONDS", 1.0)
    with Bench(workload) as opened:
        assert opened.try_default(default, default_library).status == "measured"
        yield opened


def built_with(bench: Bench, change: Callable[[str], str]) -> BuiltLibrary:
    source = bench.source(bench.workload.schedule())
    changed = change(source)
    assert changed != source
    return build_library(changed)


def in_tasks(statement: str) -> Callable[[str], str]:
    loop = "for (long task = lo; task < hi; task++) {"
    return lambda source: source.replace(loop, f"{loop} {statement}")


def test_another_schedule_is_timed_against_the_default(bench, workload):
    kernel = workload.schedule({"pixels": 4})
    found = bench.measure(kernel, build_library(bench.source(kernel)))
    assert found.status == "measured"
    assert found.microseconds > 0
    assert found.default_us > 0
    assert 0 < found.ratio < 100


def test_wrong_numbers_are_found_before_any_time_is_taken(bench, default):
    broken = built_with(bench, in_tasks("if (task == 1) continue;"))
    found = bench.measure(default, broken)
    assert found.status == "wrong"
    assert "differs from the default's: max_relative" in found.reason
    assert found.microseconds == 0


def test_a_crash_ends_the_candidate_and_nothing_else(bench, default, default_library):
    found = bench.measure(default, built_with(bench, in_tasks("__builtin_trap();")))
    assert found.status == "failed"
    assert found.reason
    again = bench.measure(default, default_library)
    assert again.status == "measured"


def test_an_endless_loop_is_ended(bench, default):
    endless = built_with(bench, in_tasks("for (volatile int i = 0;; i = 0) { }"))
    found = bench.measure(default, endless)
    assert (found.status, "did not finish within" in found.reason) == ("hung", True)


def test_what_does_not_compile_says_why(bench, default):
    library = built_with(bench, in_tasks("this is no C;"))
    assert library.content == b""
    found = bench.measure(default, library)
    assert found.status == "failed"
    assert "refused the program" in found.reason


def test_libraries_come_in_the_order_of_their_sources(bench, workload):
    kernels = [workload.schedule(), workload.schedule({"pixels": 4})]
    sources = [*map(bench.source, kernels), "no C"]
    built = build_all(sources, jobs=2, backend="threading")
    assert [bool(b.content) for b in built] == [True, True, False]
    assert {b.made_by for b in built} == {place_name()}
    assert bench.measure(kernels[1], built[1]).status == "measured"


def test_a_library_of_another_processor_is_built_again_here(bench, workload, monkeypatch):
    source = bench.source(workload.schedule())
    foreign = BuiltLibrary(b"foreign", made_by="another processor")

    class Elsewhere:
        def __init__(self, n_jobs):
            pass

        def __call__(self, calls):
            return [foreign for _ in calls]

    monkeypatch.setattr(building.joblib, "Parallel", Elsewhere)
    (built,) = build_all([source], 1, "threading")
    assert built.made_by == place_name()
    assert built.content.startswith(b"\x7fELF")


def test_processes_of_this_machine_compile_too(bench, workload):
    (built,) = build_all([bench.source(workload.schedule())], 1, "loky")
    assert bench.measure(workload.schedule(), built).status == "measured"


def test_a_backend_that_is_not_there_is_refused_with_a_way_out():
    with pytest.raises(InputError, match="backend 'clouds'"):
        build_all(["int x;"], 1, "clouds")
