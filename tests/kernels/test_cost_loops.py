"""Costs of single loops: as many as the source has, and together the kernel's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import explorer
from explorer.compilation import Compilation
from explorer.compilation.measurements.costs import cost_machine_for
from explorer.kernels.cost.counting import count
from explorer.kernels.cost.loops import loop_costs
from explorer.kernels.sections.phases import phases
from explorer.runtime.assembly.matching import source_loops
from explorer.targets import load_target

SAMPLES = Path(__file__).parents[2] / "sample_models"
LOOP = re.compile(r" *for \(long (\w+) = ")


@pytest.fixture(scope="module", params=["digits_cnn", "digits_transformer"])
def compiled(request: pytest.FixtureRequest) -> Compilation:
    target = load_target("cpu", {"core.family": "zen3", "vector_floats": 8})
    return explorer.compile(SAMPLES / f"{request.param}.onnx", target, tuned=False)


def test_the_n_th_loop_is_the_n_th_of_the_source(compiled: Compilation):
    machine = cost_machine_for(compiled.target, 8)
    for name, kernel in compiled._scheduled.items():
        lines = compiled.kernels[name].source.lines
        printed = [LOOP.match(lines[loop.start]) for loop in source_loops(lines)]
        costs = loop_costs(kernel.function, machine)
        assert [found[1] for found in printed if found] == [cost.names[-1] for cost in costs]


def test_loops_around_all_others_have_all_cycles(compiled: Compilation):
    machine = cost_machine_for(compiled.target, 8)
    for kernel in compiled._scheduled.values():
        (phase, *others) = phases(kernel.function)
        if others or len(phase.nests) > 1 or not phase.nests[0].parallel:
            continue
        tasks = loop_costs(kernel.function, machine)[0]
        whole = count(phase.nests[0].operation, machine).busy
        # Loops over tasks that hold nothing but the next one cost something themselves.
        assert tasks.iterations * tasks.cycles == pytest.approx(whole, rel=0.05)


def test_multiply_adds_of_a_convolution_are_those_of_its_tile(compiled: Compilation):
    machine = cost_machine_for(compiled.target, 8)
    for name, kernel in compiled._scheduled.items():
        if not name.startswith("conv"):
            continue
        most = max(loop_costs(kernel.function, machine), key=lambda cost: cost.multiply_adds)
        assert most.multiply_adds > 0
        assert most.cycles >= most.multiply_adds / machine.core.arithmetic_units
