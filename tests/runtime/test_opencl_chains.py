"""Chains on a device: a run in few dispatches computes what launches one by one do."""

import dataclasses

import numpy as np
import pytest

import explorer
from explorer.results.kernels import KernelRecord, PhaseRecord
from explorer.results.program import Chain
from explorer.runtime.devices import list_devices

pytestmark = pytest.mark.opencl

CHAIN = """
__kernel void chain(
    __global char *arena, __global const char *weights, const int first, const int last)
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


def test_the_chain_runs_neighbouring_steps_in_one_dispatch(device, opencl_program, weights, inputs):
    """A planted chain writes which steps it was asked for."""
    from explorer.runtime.opencl import OpenCLProgram

    program = planted(opencl_program, Chain("chain", ((0, 0), (1, 0))))
    with OpenCLProgram(program, weights, device) as executable:
        assert [d.work_items for d in executable._plan] == [1]
        assert executable.run(inputs)["y"].tolist() == [[2, 2], [2, 2]]


def test_a_gpu_gets_its_launches_one_by_one(device, opencl_program, weights, inputs):
    from explorer.runtime.opencl import OpenCLProgram

    program = planted(opencl_program, Chain("chain", ((0, 0), (1, 0))))
    gpu = dataclasses.replace(device, processor="gpu")
    with OpenCLProgram(program, weights, gpu) as executable:
        assert executable.run(inputs)["y"].tolist() == [[22, 44], [66, 88]]


def test_a_group_that_the_device_does_not_allow_is_refused(device, opencl_program, weights):
    from explorer.errors import BuildError
    from explorer.runtime.opencl import OpenCLProgram

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
