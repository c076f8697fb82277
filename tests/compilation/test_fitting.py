"""Programs within a budget: decisions that are found, what they cost, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import explorer
from explorer.cli import main
from explorer.errors import InputError, MemoryBudgetError
from explorer.importers.onnx.file.reading import from_proto
from explorer.targets import load_target

NET = """<ir_version: 8, opset_import: ["": 17]>
  net (float[1, 3, 24, 14] x) => (float[1, 6, 12, 7] y) {
    a = Conv<pads = [1, 1, 1, 1]>(x, w1, b)
    r = Relu(a)
    d = Conv<pads = [1, 1, 1, 1], group = 24>(r, w2)
    p = Conv(d, w3)
    y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(p)
  }"""
SHAPES = {"w1": (24, 3, 3, 3), "w2": (24, 1, 3, 3), "w3": (6, 24, 1, 1), "b": (24,)}
CHAIN = "stream-rows/chain/"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, proto = np.random.default_rng(7), onnx.parser.parse_model(NET)
    for name, shape in SHAPES.items():
        array = rng.standard_normal(shape).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    path = tmp_path_factory.mktemp("fitting") / "net.onnx"
    onnx.save(proto, path)
    return path


@pytest.fixture(scope="module")
def plain(path: Path):
    return explorer.compile(path)


@pytest.fixture(scope="module")
def least(plain) -> int:
    """The least budget, as the refusal of a hopeless one says."""
    with pytest.raises(MemoryBudgetError) as refused:
        plain.fork(budget_bytes=1)
    error = refused.value
    assert error.budget_bytes == 1 < error.needed_bytes < plain.memory.bound_bytes
    assert f"{error.needed_bytes - 1:,} more than the budget of 1" in error.message
    assert error.operations and f"a budget of {error.needed_bytes:,} bytes" in error.hint
    return error.needed_bytes


@pytest.fixture(scope="module")
def half(plain, least: int):
    """A program within a budget between what it takes and the least."""
    return plain.fork(budget_bytes=(plain.memory.peak_bytes + least) // 2)


def test_a_program_that_fits_is_the_one_without_a_budget(plain):
    fork = plain.fork(budget_bytes=plain.memory.peak_bytes)
    assert fork.memory.placements == plain.memory.placements and fork.memory.fit == ()
    assert str(fork.final) == str(plain.final)


def test_a_budget_is_met_with_the_same_numbers(plain, least: int, half):
    fork = half
    assert fork.memory.peak_bytes <= (plain.memory.peak_bytes + least) // 2
    taken = [step for step in fork.memory.fit if step.taken]
    assert taken and all(step.bytes_after < step.bytes_before for step in taken)
    assert all(step.reason for step in fork.memory.fit if not step.taken)
    inputs = plain.example_inputs()
    np.testing.assert_allclose(fork.run(inputs)["y"], plain.run(inputs)["y"], rtol=1e-5, atol=1e-5)
    assert fork.accuracy(inputs, golden={}).passed
    assert fork.fork(budget_bytes=None).memory.placements == plain.memory.placements


def test_the_least_budget_that_a_refusal_names_is_met(plain, least: int):
    assert least < plain.memory.peak_bytes // 2
    assert plain.fork(budget_bytes=least).memory.peak_bytes == least
    with pytest.raises(MemoryBudgetError) as refused:
        plain.fork(budget_bytes=least - 1)
    assert refused.value.needed_bytes == least


def test_a_decision_of_a_person_stays(plain, least: int, half):
    fork = half
    (step,) = [s for s in fork.memory.fit if s.taken and s.address.startswith(CHAIN)][:1]
    other = {step.address: str(step.value).replace("roll", "recompute")}
    changed = fork.fork(decisions=other)
    assert step.address not in {s.address for s in changed.memory.fit}
    whole = {knob.address: "" for knob in plain.knobs if knob.address.startswith(CHAIN)}
    with pytest.raises(MemoryBudgetError):
        plain.fork(decisions=whole, budget_bytes=least)


@pytest.mark.sweep
def test_equal_settings_give_equal_programs_and_decisions_replay_them(plain, path, least: int):
    fork = plain.fork(budget_bytes=least)
    again = explorer.compile(path, budget_bytes=least)
    assert again.memory.fit == fork.memory.fit
    assert again.program.source == fork.program.source
    replayed = plain.fork(decisions=fork.decisions())
    assert replayed.memory.placements == fork.memory.placements
    assert replayed.program.source == fork.program.source


def test_a_target_that_states_its_arena_is_fitted_too(path, half):
    budget = half.memory.peak_bytes
    target = load_target("cpu", {"memories.arena.size_bytes": budget})
    fitted = explorer.compile(path, target).memory
    assert fitted.peak_bytes <= budget and any(step.taken for step in fitted.fit)


def test_compile_prints_what_each_decision_bought(path, half, capsys):
    budget = half.memory.peak_bytes
    assert main(["compile", str(path), "--budget", f"{budget}B", "--json"]) == 0
    fit = json.loads(capsys.readouterr().out)["fit"]
    assert fit and {*fit[0]} == {
        "lever", "address", "value", "bytes_before", "bytes_after", "microseconds", "taken",
        "reason",
    }  # fmt: skip
    assert fit[-1]["taken"] in (True, False)
    assert any(step["taken"] and step["lever"] == "bands" for step in fit)


def test_an_override_that_cannot_be_is_refused_as_without_a_budget(plain, least: int):
    with pytest.raises(InputError, match=r"FIRST:BANDS|cannot be"):
        plain.fork(decisions={f"{CHAIN}maxpool1": "what"}, budget_bytes=least)


RESIDUAL = """<ir_version: 8, opset_import: ["": 17]>
  net (float[1, 16, 32, 32] x) => (float[1, 16, 16, 16] y) {
    r = Conv<pads = [1, 1, 1, 1]>(x, w)
    a = Conv<pads = [1, 1, 1, 1]>(r, w)
    b = Conv<pads = [1, 1, 1, 1]>(a, w)
    s = Add(b, r)
    t = Relu(s)
    y = Conv<pads = [0, 0, 1, 1], strides = [2, 2]>(t, w)
  }"""


@pytest.fixture(scope="module")
def residual():
    """For one core, so that every machine has the same schedules."""
    proto = onnx.parser.parse_model(RESIDUAL)
    array = np.random.default_rng(3).standard_normal((16, 16, 3, 3)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(array, "w"))
    core = load_target("cpu", {"vector_floats": 16, "core": {"family": "zen4"}})
    return explorer.compile(from_proto(proto), core)


def test_what_costs_no_time_comes_first(residual):
    """Scratch that parts of a kernel share."""
    assert any("/scratch_" in p.buffer.id for p in residual.memory.placements)
    fork = residual.fork(budget_bytes=residual.memory.peak_bytes * 3 // 5)
    taken = [step for step in fork.memory.fit if step.taken]
    assert taken and {step.lever for step in taken} <= {"schedule", "layout"}
    assert all(step.microseconds < 1 for step in taken)
    assert any(step.address.endswith("/bands") for step in taken)


def test_a_halo_of_a_residual_is_a_decision(residual):
    (knob,) = [k for k in residual.knobs if "/residual-halo/" in k.address]
    assert knob.value is False
    fork = residual.fork(decisions={knob.address: True})
    assert fork.memory.bound_bytes < residual.memory.bound_bytes
    over = [event.site for event in fork["write-in-place"].rewrites if event.applied]
    assert knob.address.rpartition("/")[2] in over
    assert fork.fork(decisions={knob.address: None}).memory.bound_bytes == (
        residual.memory.bound_bytes
    )
    assert residual.fork(decisions=fork.decisions()).memory.bound_bytes == fork.memory.bound_bytes
