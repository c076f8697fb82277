"""Memory that a target or a command states: it is obeyed, and refused where it is nonsense."""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import explorer
from explorer.cli import main
from explorer.cli.arguments import size
from explorer.errors import InputError, MemoryBudgetError
from explorer.results.decisions import BUDGET, FLASH
from explorer.runtime.cache.requests import ProgramRequest, request_of
from explorer.targets import load_target

ARENA = "memories.arena.size_bytes"
ALIGNMENT = "memories.arena.alignment_bytes"


@pytest.fixture(scope="module")
def model(sample_models: Path) -> Path:
    return sample_models / "digits_cnn.onnx"


def test_the_arena_of_a_target_is_a_budget(model: Path):
    peak = explorer.compile(model).memory.peak_bytes
    least = set()
    for budget, stated in ((None, 64), (10 * peak, 64), (64, None)):
        target = load_target("cpu", {ARENA: stated} if stated else {})
        with pytest.raises(MemoryBudgetError) as refusal:
            explorer.compile(model, target, budget_bytes=budget)
        assert refusal.value.budget_bytes == 64
        least.add(refusal.value.needed_bytes)
    assert len(least) == 1 and 64 < least.pop() < peak
    exact = load_target("cpu", {ARENA: peak})
    assert explorer.compile(model, exact).memory.peak_bytes == peak


@pytest.mark.parametrize("alignment", [1, 4, 16, 256])
def test_the_alignment_of_a_target_is_obeyed_and_changes_no_number(model: Path, alignment: int):
    images = np.load(model.parent / "digits_test.npz")["images"][:1]
    c = explorer.compile(model, load_target("cpu", {ALIGNMENT: alignment}))
    wanted = max(alignment, 4)  # a float lies at a multiple of 4
    assert all(p.offset_bytes % wanted == 0 for p in c.memory.placements)
    assert {p.buffer.alignment_bytes for p in c.memory.placements} == {wanted}
    np.testing.assert_array_equal(
        c.run({"image": images})["logits"],
        explorer.compile(model).run({"image": images})["logits"],
    )


def test_doubles_lie_at_multiples_of_eight(tmp_path: Path):
    """An odd number of floats before a double, with an alignment of one byte."""
    value = lambda name, kind: helper.make_tensor_value_info(name, kind, [3])  # noqa: E731
    nodes = [
        helper.make_node("Exp", ["x"], ["y"]),
        helper.make_node("Cast", ["y"], ["z"], to=TensorProto.DOUBLE),
        helper.make_node("Tanh", ["z"], ["w"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT)], [value("w", TensorProto.DOUBLE)]
    )
    path = tmp_path / "doubles.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    c = explorer.compile(path, load_target("cpu", {ALIGNMENT: 1}))
    assert all(p.offset_bytes % 8 == 0 for p in c.memory.placements)
    x = np.array([-1, 0, 0.5], np.float32)
    np.testing.assert_allclose(
        c.run({"x": x})["w"], np.tanh(np.exp(x).astype(np.float64)), rtol=1e-6
    )


def test_opencl_keeps_its_own_alignment(model: Path):
    target = load_target("opencl", {ALIGNMENT: 4})
    c = explorer.compile(model, replace(target))
    assert {p.buffer.alignment_bytes for p in c.memory.placements} == {64}


def test_an_edited_program_keeps_the_alignment(model: Path):
    c = explorer.compile(model, load_target("cpu", {ALIGNMENT: 4}))
    fork = c.fork(decisions={"plan-memory/planner": "no-sharing"})
    assert {p.buffer.alignment_bytes for p in fork.memory.placements} == {4}


@pytest.mark.parametrize("budget", [0, -1, 1.5, "lots", True])
@pytest.mark.parametrize("address", [BUDGET, FLASH])
def test_what_is_no_budget_is_refused(model: Path, address: str, budget: object):
    for refused in (
        lambda: explorer.compile(model, decisions={address: budget}),
        lambda: explorer.compile(model).fork(decisions={address: budget}),
        lambda: explorer.compile(model, **{address.rpartition("/")[2]: budget}),
    ):
        with pytest.raises(InputError, match="_bytes"):
            refused()


@pytest.mark.parametrize(
    ("text", "found"),
    [("64KiB", 65536), ("64kB", 64000), ("1.5MiB", 1572864), ("2MB", 2000000), ("512B", 512)],
)
def test_sizes_have_units(text: str, found: int):
    assert size(text) == found


@pytest.mark.parametrize(
    "text", ["0B", "-4KiB", "64", "64KB", "64 KiB", "KiB", "", "1.5B", "nanB", "infMiB", "1e400B"]
)
def test_sizes_without_a_known_unit_or_of_nothing_are_refused(text: str):
    with pytest.raises(argparse.ArgumentTypeError, match="with one of the units"):
        size(text)


@pytest.mark.parametrize("command", ["serve", "quantize", "reduce", "bench", "run", "tune"])
def test_every_command_that_decides_refuses_a_budget_of_nothing(
    command: str, model: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit, match="2"):
        main([command, str(model), "--budget", "0B"])
    assert "expected bytes above 0" in capsys.readouterr().err


def test_weights_that_exceed_the_flash_are_refused_before_anything_is_built(model: Path):
    weights = explorer.compile(model).program.weights_bytes
    for options in ({"flash_bytes": weights - 1}, {"decisions": {FLASH: weights - 1}}):
        with pytest.raises(MemoryBudgetError, match="the weights take") as refusal:
            explorer.compile(model, **options)
        assert (refusal.value.budget_bytes, refusal.value.needed_bytes) == (weights - 1, weights)
    with pytest.raises(MemoryBudgetError, match="the weights take"):
        explorer.compile(model).fork(flash_bytes=1)


def test_code_counts_once_it_is_compiled(model: Path):
    """A flash that has room for the weights and for nothing else, and the one that the refusal
    names."""
    weights = explorer.compile(model).program.weights_bytes
    tight = explorer.compile(model, flash_bytes=weights)
    with pytest.raises(MemoryBudgetError, match="and the code") as refusal:
        tight.open()
    needed = refusal.value.needed_bytes
    assert needed > weights
    fork = tight.fork(flash_bytes=needed)
    assert needed == next(knob.value for knob in fork.knobs if knob.address == FLASH)
    with fork.open():
        pass


def test_sessions_and_kept_programs_carry_both_budgets(model: Path):
    found = []
    for options in ({}, {"budget_bytes": 1 << 20}, {"flash_bytes": 1 << 20}):
        request = request_of(model, "cpu", options)
        assert isinstance(request, ProgramRequest)
        found.append(request.options)
    assert len(set(found)) == 3
    image = np.zeros((1, 1, 8, 8), np.float32)
    for options in ({"budget_bytes": 64}, {"flash_bytes": 64}):
        with explorer.Session(model, **options) as session, pytest.raises(MemoryBudgetError):
            session.run({"image": image})


@pytest.mark.parametrize("command", ["compile", "run", "bench", "check", "show"])
def test_commands_take_a_flash(
    command: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    files = []
    if command == "run":
        np.savez(tmp_path / "in.npz", image=np.zeros((1, 1, 8, 8), np.float32))
        files = ["--input", str(tmp_path / "in.npz"), "--output", str(tmp_path / "out.npz")]
    assert main([command, str(model), "--flash", "4KiB", *files]) == 2
    found = capsys.readouterr().err
    assert "more than the flash of 4,096" in found and "digits_cnn.onnx" in found
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize("command", ["compile", "check", "show"])
def test_commands_take_a_budget(command: str, model: Path, capsys: pytest.CaptureFixture[str]):
    assert main([command, str(model), "--budget", "4KiB"]) == 2
    found = capsys.readouterr().err
    assert "more than the budget of 4,096" in found and "digits_cnn.onnx" in found
