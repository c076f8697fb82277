"""Compilations: options, fuel, forks, replays, edited text."""

import inspect
import re
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

import explorer
from explorer.compilation import Compilation
from explorer.compilation.settings.options import CompileOptions
from explorer.errors import InputError, ModelError
from explorer.ir.inspection.printing import show
from explorer.memory.planners import NoSharingPlanner
from explorer.session.options import OPTIONS

sources = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "source_models.py")))

# Sums of 72 products in another order, and rounding in two libraries.
TOLERANCE = 2e-6


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Convolution, batch norm, relu, convolution, relu."""
    return sources.source_model(tmp_path_factory.mktemp("model"), sources.CHAIN)


@pytest.fixture(scope="module")
def compiled(model) -> Compilation:
    return explorer.compile(model, "cpu")


def applied(compilation: Compilation, *, required: bool = False) -> list[str]:
    """Addresses of the rewrites that happened, of optional passes unless told otherwise."""
    optional = {p.name for p in compilation.pipeline if required or not p.is_required}
    return [
        r.address
        for result in compilation.passes
        for r in result.rewrites
        if r.applied and result.name in optional
    ]


def final_text(compilation: Compilation) -> tuple[str, ...]:
    return compilation.final.text.lines


# -- passes ----------------------------------------------------------------------------------------


def test_passes_are_found_by_name_and_index(compiled):
    assert compiled[0].name == "import"
    assert compiled["fuse-activation"] is compiled[compiled.names.index("fuse-activation")]
    assert compiled[-1].name == "plan-memory"
    assert len(compiled) == len(compiled.names)


def test_an_unknown_pass_is_answered_with_a_near_name(compiled):
    with pytest.raises(InputError) as raised:
        compiled["fuse-activations"]
    assert str(raised.value) == (
        "there is no pass 'fuse-activations'; try: did you mean 'fuse-activation'?"
    )


def test_snapshots_of_passes_that_changed_nothing_are_the_same_object(compiled):
    for before, result in zip(compiled.passes, compiled.passes[1:], strict=False):
        assert result.before is before.after
        assert result.changed == (result.after is not result.before)
    assert not compiled["remove-no-ops"].changed
    assert compiled["fold-batch-norm"].changed


def test_the_text_of_a_snapshot_is_that_of_its_whole_module(model):
    fresh = explorer.compile(model, "cpu")  # no module of a snapshot was asked for yet
    texts = [result.after.text for result in fresh.passes]
    assert texts == [show(result.after.module) for result in fresh.passes]
    assert len(fresh.final.kernel_texts) > 1


def test_a_disabled_pass_is_left_out(compiled, model):
    without = explorer.compile(model, "cpu", disable=["fuse-activation"])
    assert "fuse-activation" not in without.names
    assert without.names == [n for n in compiled.names if n != "fuse-activation"]
    assert [op.name for op in without["legalize"].after.operations.values()].count("top.unary") == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "fuse-activaton",
            "there is no pass 'fuse-activaton'; try: did you mean 'fuse-activation'?",
        ),
        ("lower-to-kernels", "pass 'lower-to-kernels' cannot be disabled: what follows needs it"),
    ],
)
def test_what_cannot_be_disabled_is_refused(model, name, message):
    with pytest.raises(InputError) as raised:
        explorer.compile(model, "cpu", disable=[name])
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("address", ["fuse-activaton/fuse-unary/relu1", "fuse-activaton", ""])
def test_an_address_that_leads_nowhere_is_refused(model, address):
    with pytest.raises(InputError) as raised:
        explorer.compile(model, "cpu", decisions={address: False})
    assert f"no decision has the address {address!r}" in str(raised.value)


def test_every_option_is_documented():
    """`explorer.compile` describes its options, and sessions take the same ones."""
    own = {"model", "target", "dimensions", "inputs", "args", "kwargs", "dynamic_shapes"}
    text = inspect.getdoc(explorer.compile) or ""
    parameters = inspect.signature(explorer.compile).parameters
    assert [name for name in parameters if not re.search(rf"\b{name}\b", text)] == []
    assert {
        name: parameter.annotation for name, parameter in parameters.items() if name not in own
    } == {name: hint.__forward_arg__ for name, hint in CompileOptions.__annotations__.items()}
    assert set(OPTIONS) == CompileOptions.__annotations__.keys()


# -- fuel ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fuel", range(6))
def test_fuel_is_the_number_of_optional_rewrites(compiled, model, fuel):
    limited = explorer.compile(model, "cpu", fuel=fuel)
    assert applied(limited) == applied(compiled)[:fuel]
    inputs = compiled.example_inputs()
    level = limited["eliminate-dead-code"].after
    values = level.run(inputs)
    last = compiled["eliminate-dead-code"].after.run(inputs)
    name = level.module.body.block.first_op.body.block.last_op.operands[0].name_hint
    other = final_top_value(compiled)
    np.testing.assert_allclose(values[name], last[other], rtol=0, atol=TOLERANCE)


def final_top_value(compilation: Compilation) -> str:
    module = compilation["eliminate-dead-code"].after.module
    return module.body.block.first_op.body.block.last_op.operands[0].name_hint


def test_a_fork_goes_on_with_the_fuel_that_is_left(model):
    limited = explorer.compile(model, "cpu", fuel=1)
    assert applied(limited) == ["fold-batch-norm/fold-into-weights/batchnormalization1"]
    fork = limited.fork(decisions={"fuse-activation/fuse-unary/relu2": False})
    assert fork["fold-batch-norm"] is limited["fold-batch-norm"]
    assert applied(fork) == applied(limited)


# -- forks -----------------------------------------------------------------------------------------


def test_a_fork_shares_the_passes_before_the_first_difference(compiled):
    fork = compiled.fork(disable=["fuse-activation"])
    number = compiled.names.index("fuse-activation")
    assert all(a is b for a, b in zip(compiled.passes[:number], fork.passes[:number], strict=True))
    assert fork.passes[number].name == "fuse-quantization"
    assert fork.passes[number] is not compiled.passes[number + 1]
    assert fork.label == "without fuse-activation"


def test_a_fork_without_a_difference_shares_everything(compiled):
    fork = compiled.fork()
    assert all(a is b for a, b in zip(compiled.passes, fork.passes, strict=True))
    assert fork.label == "fork"


def test_a_fork_does_not_touch_what_it_came_from(compiled):
    before = final_text(compiled)
    weights = set(compiled.final.weights)
    compiled.fork(disable=["fold-batch-norm"])
    assert final_text(compiled) == before
    assert set(compiled.final.weights) == weights


def test_declining_one_rewrite_leaves_the_others(compiled):
    address = "fuse-activation/fuse-unary/relu1"
    fork = compiled.fork(decisions={address: False})
    assert address not in applied(fork)
    assert "fuse-activation/fuse-unary/relu2" in applied(fork)
    (declined,) = [r for r in fork["fuse-activation"].rewrites if r.address == address]
    assert (declined.applied, declined.reason) == (False, "declined by an override")
    assert fork.label == "without fuse-unary at relu1"
    assert compiled.compare(fork).first_difference == (address, "true", "false")


def test_a_fork_may_undo_a_decision_of_its_parent(compiled):
    address = "fuse-activation/fuse-unary/relu1"
    child = compiled.fork(decisions={address: False})
    assert final_text(child.fork(decisions={address: True})) == final_text(compiled)


def test_equal_branches_have_no_difference(compiled):
    assert compiled.compare(compiled.fork()).first_difference is None


def test_an_unknown_option_of_a_fork_names_the_options(compiled):
    with pytest.raises(InputError, match="budget_bytes"):
        compiled.fork(budget=100)


def test_a_fork_with_another_planner_differs_only_in_addresses(compiled):
    fork = compiled.fork(planner=NoSharingPlanner())
    assert [a is b for a, b in zip(compiled.passes, fork.passes, strict=True)].index(False) == (
        len(compiled) - 1
    )
    assert fork.memory.peak_bytes >= fork.memory.total_bytes > compiled.memory.peak_bytes


# -- replays ---------------------------------------------------------------------------------------


def test_giving_all_decisions_back_replays_the_program(compiled, model):
    decisions = compiled.decisions()
    again = explorer.compile(model, "cpu", decisions=decisions)
    assert final_text(again) == final_text(compiled)
    assert again.decisions() == decisions
    assert again.program.source.lines == compiled.program.source.lines


def test_decisions_of_a_fork_replay_the_fork(compiled, model):
    fork = compiled.fork(decisions={"fuse-activation/fuse-unary/relu1": False})
    again = explorer.compile(model, "cpu", decisions=fork.decisions())
    assert final_text(again) == final_text(fork) != final_text(compiled)


def test_the_same_model_gives_the_same_text(compiled, model):
    again = explorer.compile(model, "cpu")
    for mine, other in zip(compiled.passes, again.passes, strict=True):
        assert mine.after.dump() == other.after.dump()
    assert again.program.source.lines == compiled.program.source.lines
    assert again.memory.offsets == compiled.memory.offsets


# -- edited text -----------------------------------------------------------------------------------


def test_compilation_continues_from_edited_text(compiled):
    result = compiled["fold-batch-norm"]
    text = result.after.dump()
    assert 'kind = "relu"' in text
    edited = compiled.continue_from(
        "fold-batch-norm", text.replace('kind = "relu"', 'kind = "abs"')
    )
    index = compiled.names.index("fold-batch-norm")
    assert all(a is b for a, b in zip(compiled.passes[:index], edited.passes[:index], strict=True))
    assert edited.names == compiled.names
    assert edited["fold-batch-norm"].description.endswith("(edited by hand)")
    activations = [
        op.get("activation")
        for op in edited["fuse-activation"].after.operations.values()
        if op.name == "top.conv"
    ]
    assert activations == ["abs", "abs"]
    inputs = compiled.example_inputs()
    ours, theirs = edited.run(inputs)["y"], compiled.run(inputs)["y"]
    assert not np.allclose(ours, theirs, atol=1e-3)
    expected = edited["fold-batch-norm"].after.run(inputs)
    name = edited["fold-batch-norm"].after.module.body.block.first_op.body.block.last_op
    reference = expected[name.operands[0].name_hint]
    assert np.max(np.abs(ours - reference)) / np.max(np.abs(reference)) <= TOLERANCE
    edited.close()
    compiled.close()


def test_unchanged_text_continues_to_the_same_program(compiled):
    result = compiled["place-on-device"]
    again = compiled.continue_from(result, result.after.dump())
    assert final_text(again) == final_text(compiled)


def test_text_as_people_see_it_can_be_continued_too(compiled):
    result = compiled["place-on-device"]
    again = compiled.continue_from(result, "\n".join(result.after.text.lines))
    assert final_text(again) == final_text(compiled)


def test_text_that_is_no_ir_is_refused(compiled):
    text = compiled["fold-batch-norm"].after.dump()
    with pytest.raises(ModelError, match="unknown kind 'rolu'"):
        compiled.continue_from("fold-batch-norm", text.replace('"relu"', '"rolu"'))


# -- running ---------------------------------------------------------------------------------------


def test_inputs_and_outputs_have_the_models_names(compiled):
    inputs = compiled.example_inputs()
    assert list(inputs) == ["x"]
    outputs = compiled.run(inputs)
    assert {name: array.shape for name, array in outputs.items()} == {"y": (1, 4, 8, 8)}
    compiled.close()


def test_the_schedule_is_a_set_of_decisions(compiled):
    schedule = compiled.schedule
    assert set(schedule) == set(compiled.kernels)
    kernel = next(name for name in schedule if name.startswith("conv"))
    assert all(isinstance(v, int | str) for v in schedule[kernel].values())
    decisions = compiled.decisions()
    for choice, value in schedule[kernel].items():
        assert decisions[f"schedule-loops/{kernel}/{choice}"] == value


def test_progress_is_told_before_every_pass(model):
    told = []
    compiled = explorer.compile(
        model, "cpu", progress=lambda name, number, count: told.append((name, number, count))
    )
    count = len(compiled.pipeline)
    assert told == [(p.name, i, count) for i, p in enumerate(compiled.pipeline)]
