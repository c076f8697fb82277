"""Which lines are at work, by perf: told by line and instruction, or why not."""

import shutil
from collections import Counter

import pytest

import explorer
from explorer.errors import BuildError, DeviceError
from explorer.runtime.assembly import sampling
from explorer.runtime.assembly.disassembler import Instruction


@pytest.fixture(scope="module")
def compilation():
    compilation = explorer.compile("sample_models/digits_mlp.onnx")
    yield compilation
    compilation.close()


def sampled(compilation, seconds: float) -> sampling.ProgramSamples:
    built = compilation.built
    inputs = compilation.example_inputs()
    kernels = compilation.assembly()
    return sampling.sample_program(built.program, built.weights, inputs, kernels, seconds)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("perf"), reason="perf is not installed")
def test_a_program_is_sampled_while_it_runs(compilation):
    try:
        found = sampled(compilation, 2.0)
    except DeviceError as error:
        pytest.skip(f"this system forbids it: {error}")
    assert found.event in sampling.EVENTS
    seen = sum(sum(kernel.source.values()) for kernel in found.kernels.values())
    assert 0 < seen <= found.count
    for name, kernel in found.kernels.items():
        record = compilation.assembly()[name]
        assert all(record.source.lines[line].strip() for line in kernel.source)
        assert record.assembly is not None
        assert all(record.assembly.lines[line].startswith("\t") for line in kernel.assembly)


def test_samples_become_those_of_lines_and_instructions(compilation):
    (name, *_) = compilation.kernels
    kernel = compilation.assembly()[name]
    phase = kernel.phases[0].function
    own = sampling.kernel_ranges(compilation.program)[name]
    lines = [line for line in kernel.assembly.lines if line.startswith("\t")]

    def instruction(number: int, *source_lines: int) -> Instruction:
        return Instruction(phase, 0, 4 * number, "nop", frozenset(), source_lines)

    # The first comes from the prelude (line 0), which line 3 of the kernel calls.
    instructions = [instruction(0, 0, own.start + 3), instruction(1, own.start + 5)]
    instructions += [instruction(n, 0) for n in range(2, len(lines))]
    places = Counter({(phase, 0): 7, (phase, 4): 2, ("main", 0): 9})
    found = sampling._of_kernel(compilation.program, kernel, instructions, places)
    assert found.source == {3: 7, 5: 2}
    if len(kernel.phases) == 1 and f"{phase}:" in kernel.assembly.lines:
        assert sorted(found.assembly.values()) == [2, 7]
    # Another number of instructions is another build: nothing is told of single ones.
    fewer = sampling._of_kernel(compilation.program, kernel, instructions[:-1], places)
    assert fewer.assembly == {}


def test_without_perf_it_is_said(compilation, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sampling.shutil, "which", lambda name: None)
    with pytest.raises(BuildError, match="perf is not installed") as raised:
        sampled(compilation, 0.1)
    assert "apt install" in raised.value.hint
