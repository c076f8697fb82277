"""Costs of single loops: as many as the source has, and together the kernel's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import explorer
from explorer.compilation import Compilation
from explorer.compilation.measurements.costs import cost_machine_for
from explorer.kernels.cost.counting import count, count_bodies
from explorer.kernels.cost.loops import loop_costs
from explorer.kernels.loops.nest import name_of
from explorer.kernels.sections.phases import phases
from explorer.runtime.assembly.matching import source_loops
from explorer.targets import load_target

SAMPLES = Path(__file__).parents[2] / "sample_models"
LOOP = re.compile(r" *for \(long (\w+) = ")


@pytest.fixture(scope="module", params=["digits_cnn", "digits_transformer"])
def compiled(request: pytest.FixtureRequest) -> Compilation:
    target = load_target("cpu", {"core.family": "zen3", "vector_floats": 8})
    return explorer.compile(SAMPLES / f"{request.param}.onnx", target, tuned=False)


@pytest.mark.sampled(1)
def test_the_n_th_loop_is_the_n_th_of_the_source(compiled: Compilation):
    machine = cost_machine_for(compiled.target, 8)
    for name, kernel in compiled._scheduled.items():
        lines = compiled.kernels[name].source.lines
        printed = [LOOP.match(lines[loop.start]) for loop in source_loops(lines)]
        costs = loop_costs(kernel.function, machine)
        assert [found[1] for found in printed if found] == [cost.names[-1] for cost in costs]


def test_loops_around_all_others_have_all_cycles(compiled: Compilation):
    machine = cost_machine_for(compiled.target, 8)
    compared = 0
    for kernel in compiled._scheduled.values():
        nests = [nest for phase in phases(kernel.function) for nest in phase.nests]
        if len(nests) != 1 or not nests[0].parallel:
            continue
        tasks = loop_costs(kernel.function, machine)[0]
        whole = count(nests[0].operation, machine).busy
        # Loops over tasks that hold nothing but the next one cost something themselves.
        assert tasks.iterations * tasks.cycles == pytest.approx(whole, rel=0.05)
        compared += 1
    assert compared


def test_multiply_adds_of_products_are_those_of_their_tiles(compiled: Compilation):
    machine = cost_machine_for(compiled.target, 8)
    kernels = compiled._scheduled.items()
    products = [kernel for name, kernel in kernels if name.startswith(("conv", "matmul"))]
    assert products
    for kernel in products:
        most = max(loop_costs(kernel.function, machine), key=lambda cost: cost.multiply_adds)
        assert most.multiply_adds > 0
        assert most.cycles >= most.multiply_adds / machine.core.arithmetic_units


@pytest.mark.parametrize("compiled", ["digits_cnn"], indirect=True)
def test_a_loop_compares_jumps_and_advances_an_address_for_each_array(compiled: Compilation):
    machine = cost_machine_for(compiled.target, 8)
    found = 0
    for name, kernel in compiled._scheduled.items():
        for loop, counts in count_bodies(kernel.function, machine).items():
            if name.startswith("conv") and name_of(loop) == "ci":  # along inputs and weights
                assert counts.instructions["other"] == 4
                found += 1
            if name.startswith("max_pool") and name_of(loop) == "j":
                # Of four pixels: each compared, tested for NaN and selected; all of them stored.
                assert counts.instructions["arithmetic"] == 4 * 3
                assert counts.instructions["other"] == 4
                found += 1
    assert found
