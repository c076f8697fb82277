"""OpenCL's candidates run in a child: one that crashes or hangs ends itself and nothing else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.compilation.measurements.schedule_steps import NestProgram
from explorer.errors import DeviceError
from explorer.runtime.devices import DeviceRecord, list_devices
from explorer.tuning import candidate_child, measuring
from explorer.tuning.candidate_child import CandidateChild
from explorer.tuning.measuring import Bench
from explorer.tuning.workloads import Workload, workloads_of

MODEL = Path(__file__).parents[2] / "sample_models" / "digits_mlp.onnx"


@pytest.fixture(scope="module")
def device() -> DeviceRecord:
    found = [d for d in list_devices(["opencl"]) if d.usable]
    if not found:
        pytest.skip("no OpenCL device")
    return found[0]


@pytest.fixture(scope="module")
def workload(device) -> Workload:
    compiled = explorer.compile(MODEL, "opencl", tuned=False)
    return workloads_of(compiled)[0]


@pytest.fixture(scope="module")
def child():
    with CandidateChild() as started:
        yield started


def program_of(workload: Workload, before_task: str = "") -> NestProgram:
    """The default of a kernel, with a statement before its tasks."""
    made = workload.program(workload.schedule(), workload.arrays(0))
    if not before_task:
        return made
    lines = made.program.source.lines
    place = next(n for n, line in enumerate(lines) if "get_global_id(0)" in line)
    changed = (*lines[:place], lines[place] + before_task, *lines[place + 1 :])
    return replace(made, program=replace(made.program, source=replace(
        made.program.source, lines=changed)))  # fmt: skip


def test_results_and_times_come_from_the_child(child, workload):
    made = program_of(workload)
    opened = child.open(made, workload.backend, workload.device, None, 5.0)
    outputs = opened.run(made.inputs)
    assert set(outputs) == {port.name for port in made.program.outputs}
    assert all(np.isfinite(value).all() for value in outputs.values())
    assert any(value.any() for value in outputs.values())
    seconds = opened.time(made.inputs, 3)
    assert len(seconds) == 3
    assert min(seconds) > 0


def test_a_crash_is_a_reason_and_the_next_candidate_is_measured(child, workload):
    broken = program_of(workload, " __builtin_trap();")
    with pytest.raises(DeviceError, match="the process ended with"):
        child.open(broken, workload.backend, workload.device, None, 5.0).run(broken.inputs)
    made = program_of(workload)
    assert child.open(made, workload.backend, workload.device, None, 5.0).run(made.inputs)


def test_a_hang_is_ended_and_the_next_candidate_is_measured(child, workload, monkeypatch):
    endless = program_of(workload, " for (volatile int i = 0;; i = 0) { }")
    opened = child.open(endless, workload.backend, workload.device, None, 0.5)
    with monkeypatch.context() as patch:
        patch.setattr(candidate_child, "BUILD_SECONDS", 0.5)  # it is built: this is for the run
        with pytest.raises(DeviceError, match="did not finish within"):
            opened.run(endless.inputs)
    made = program_of(workload)
    assert child.open(made, workload.backend, workload.device, None, 5.0).run(made.inputs)


def test_what_the_driver_refuses_says_why(child, workload):
    wrong = program_of(workload, " this is no C;")
    with pytest.raises(DeviceError, match=r"refuse|error"):
        child.open(wrong, workload.backend, workload.device, None, 5.0)


def test_a_candidate_is_timed_against_the_default_in_children(workload, monkeypatch):
    monkeypatch.setattr(measuring, "TURN_SECONDS", 1e-4)
    knob = next(
        k for k in workload.schedule().knobs if len(k.choices) > 1 and k.address != "schedule"
    )
    other = next(value for value in knob.choices if value != knob.value)
    assert isinstance(other, int | str)
    with Bench(workload) as bench:
        assert bench.try_default(workload.schedule(), None).status == "measured"
        found = bench.measure(workload.schedule({knob.address: other}), None)
        assert found.status == "measured", found.reason
        assert found.ratio > 0
