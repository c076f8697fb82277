"""Chains on a device: a run in few dispatches computes what launches one by one do."""

import dataclasses

import numpy as np
import pytest

import explorer
from explorer.results.kernels import KernelRecord, PhaseRecord
from explorer.results.program import Chain
from explorer.runtime.caller_devices import caller_device, device_for
from explorer.runtime.devices import list_devices
from explorer.targets import load_target
from explorer.views.register import VIEWS, view_named

pytestmark = pytest.mark.opencl

CHAIN = """
__kernel void chain(
    __global char *arena, __global const char *weights, volatile __global uint *progress,
    const int first, const int last, const uint run)
{
    __global float *result = (__global float *)(arena + 64);
    for (int i = 0; i < 4; i++) result[i] = (float)(10 * first + last);
}
"""


@pytest.fixture(scope="module")
def device():
    for record in list_devices(("opencl",)):
        if record.usable and record.processor == "cpu":
            return record
    pytest.skip("no OpenCL device that is a processor")


def test_a_model_runs_in_fewer_dispatches_than_launches(device):
    compilation = explorer.compile("sample_models/digits_transformer.onnx", target="opencl")
    inputs = compilation.example_inputs()
    with compilation.open() as executable:
        chained = executable.run(inputs)
        one_by_one, _ = executable.run_with_taps(inputs)
        assert len(executable._plan) < len(executable._launches) / 2
    for name, array in one_by_one.items():
        assert np.array_equal(chained[name], array)


def shared(compilation):
    """The program, with enough to do for every core, whatever it does."""
    program = compilation.built.program
    return dataclasses.replace(program, chain=dataclasses.replace(program.chain, is_shared=True))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("model", ["digits_cnn", "digits_transformer", "digits_resnet"])
def test_work_items_share_the_steps_of_every_run(device, model):
    """Run after run the account of claims goes on; the same numbers as launches one by one."""
    from explorer.runtime.opencl.program import OpenCLProgram

    compilation = explorer.compile(f"sample_models/{model}.onnx", target="opencl")
    inputs = compilation.example_inputs()
    with OpenCLProgram(shared(compilation), compilation.built.weights, device) as executable:
        assert [d.work_items for d in executable._plan] == [device.compute_units]
        one_by_one, _ = executable.run_with_taps(inputs)
        for _ in range(50):
            for name, array in executable.run(inputs).items():
                assert np.array_equal(array, one_by_one[name])


def test_the_run_after_a_failed_one_computes_everything(device, monkeypatch):
    """What was handed over in part has claims that nobody knows, so the account begins anew."""
    from explorer.runtime.opencl.program import OpenCLProgram

    compilation = explorer.compile("sample_models/digits_cnn.onnx", target="opencl")
    inputs = compilation.example_inputs()
    with OpenCLProgram(shared(compilation), compilation.built.weights, device) as executable:
        expected = executable.run(inputs)
        with monkeypatch.context() as patched:
            patched.setattr(executable, "_enqueue", fail)
            with pytest.raises(RuntimeError, match="no room in the queue"):
                executable.run(inputs)
        other = {name: np.zeros_like(array) for name, array in inputs.items()}
        executable.run(other)
        for name, array in executable.run(inputs).items():
            assert np.array_equal(array, expected[name])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("wake_seconds", [0.0, 1.0])
def test_the_cost_of_waking_decides_who_runs_a_program(device, wake_seconds):
    """What is dear is left alone, in the caller's thread, and the view says why."""
    if device.compute_units == 1:
        pytest.skip("nobody is woken")
    core = {"core.wake_seconds": wake_seconds, "core.barrier_seconds": 0.0}
    target = load_target("opencl").with_(vector_floats=8, **core)
    compilation = explorer.compile("sample_models/digits_resnet.onnx", target=target)
    chain = compilation.program.chain
    assert chain is not None
    assert chain.is_shared == (wake_seconds == 0.0)
    who = f"{device.compute_units} work-items share it" if chain.is_shared else "one work-item"
    assert chain.reason.startswith(who)
    shown = view_named("kernels", VIEWS).made_faces().text(compilation.trace(), 0, 80)
    assert shown.startswith(f"// {chain.reason}\n")
    runs_on = device_for(compilation.program, device)
    assert runs_on == (device if chain.is_shared else caller_device(device) or device)


def fail(*arguments: object) -> None:
    raise RuntimeError("no room in the queue")


def test_one_thread_is_the_callers(device):
    """PoCL divides a device for the eye only: a part of one core still runs on all threads."""
    from explorer.runtime.caller_devices import caller_device
    from explorer.runtime.opencl.handles import find_device
    from explorer.runtime.opencl.program import OpenCLProgram

    caller = caller_device(device)
    if caller is None or find_device(caller) is None:
        pytest.skip("the driver has no device of the caller's thread")
    compilation = explorer.compile("sample_models/digits_cnn.onnx", target="opencl")
    inputs = compilation.example_inputs()
    program, weights = shared(compilation), compilation.built.weights
    with (
        OpenCLProgram(program, weights, device, compute_units=1) as one,
        OpenCLProgram(program, weights, device) as all_units,
    ):
        assert one._runs_on == caller
        assert all_units._runs_on == device
        for name, array in one.run(inputs).items():
            assert np.array_equal(array, all_units.run(inputs)[name])


def test_the_chain_runs_neighbouring_steps_in_one_dispatch(device, opencl_program, weights, inputs):
    """A planted chain writes which steps it was asked for."""
    from explorer.runtime.opencl.program import OpenCLProgram

    program = planted(opencl_program, Chain("chain", ((0, 0), (1, 0))))
    with OpenCLProgram(program, weights, device) as executable:
        assert [d.work_items for d in executable._plan] == [1]
        assert executable.run(inputs)["y"].tolist() == [[2, 2], [2, 2]]


def test_a_gpu_gets_its_launches_one_by_one(device, opencl_program, weights, inputs):
    from explorer.runtime.opencl.program import OpenCLProgram

    program = planted(opencl_program, Chain("chain", ((0, 0), (1, 0))))
    gpu = dataclasses.replace(device, processor="gpu")
    with OpenCLProgram(program, weights, gpu) as executable:
        assert executable.run(inputs)["y"].tolist() == [[22, 44], [66, 88]]


def test_a_group_that_the_device_does_not_allow_is_refused(device, opencl_program, weights):
    from explorer.errors import BuildError
    from explorer.runtime.opencl.program import OpenCLProgram

    def with_groups(kernel: KernelRecord) -> KernelRecord:
        phases = tuple(
            PhaseRecord(phase.function, phase.tasks, 2**20, 2**20) for phase in kernel.phases
        )
        return dataclasses.replace(kernel, phases=phases)

    kernels = tuple(map(with_groups, opencl_program.kernels))
    program = dataclasses.replace(opencl_program, kernels=kernels)
    with pytest.raises(BuildError, match=r"needs groups of 1048576 work-items .* allows \d+"):
        OpenCLProgram(program, weights, device)


def planted(program, chain):
    source = dataclasses.replace(
        program.source,
        lines=(*program.source.lines, *CHAIN.splitlines()),
        owners=(*program.source.owners, *([()] * len(CHAIN.splitlines()))),
    )
    return dataclasses.replace(program, source=source, chain=chain)
