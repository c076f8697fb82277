"""Predictions of levers by compiling with one decision changed."""

import pytest

import explorer
from explorer.compilation import Compilation
from explorer.compilation.levers import trials
from explorer.compilation.levers.finding import find_levers
from explorer.compilation.levers.trials import predict_by_trials, quantity_of
from explorer.errors import InputError
from explorer.importers.samples import sample
from explorer.results.levers import QUANTITIES, LeverOption, LeverRecord


@pytest.fixture(scope="module")
def c() -> Compilation:
    return explorer.compile(sample("digits_mlp"))


def lever(address: str, value: object = False) -> LeverRecord:
    option = LeverOption(value=str(value), decisions=((address, False),))
    return LeverRecord(
        address=address, group="pass", of="", title=address, value=True, options=(option,)
    )


def test_a_pass_is_predicted_as_the_program_without_it_has_it(c: Compilation):
    found = {one.address: one for one in c.levers("peak").levers}
    one = found["fuse-activation"]
    forked = c.fork(decisions=dict(one.options[0].decisions))
    assert one.options[0].change == forked.memory.peak_bytes - c.memory.peak_bytes
    assert one.source == trials.SOURCES["peak_bytes"]
    assert one.unpredicted == ""


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_every_lever_with_values_has_a_prediction_or_says_why_not(c: Compilation, quantity: str):
    for one in c.levers(quantity).levers:
        is_predicted = any(option.change is not None for option in one.options)
        assert is_predicted != bool(one.unpredicted) or not one.options, one


def test_few_decisions_are_tried_and_none_of_a_large_program(
    c: Compilation, monkeypatch: pytest.MonkeyPatch
):
    tried: list[object] = []

    def fork(decisions: dict[str, object]) -> Compilation:
        tried.append(decisions)
        return c

    levers = [lever("a"), lever("b"), lever("c")]
    monkeypatch.setattr(trials, "MAX_TRIALS", 2)
    found = list(predict_by_trials(levers, c, "peak_bytes", fork))
    assert tried == [{"a": False}, {"b": False}]
    assert [one.options[0].change for one in found] == [0.0, 0.0, None]
    assert "at most 2 decisions" in found[2].unpredicted
    monkeypatch.setattr(trials, "MAX_OPERATIONS", 1)
    (large, *_) = predict_by_trials(levers, c, "peak_bytes", fork)
    assert "take long" in large.unpredicted
    assert len(tried) == 2


def test_what_cannot_be_compiled_says_why(c: Compilation):
    def fork(decisions: dict[str, object]) -> Compilation:
        raise InputError("this core has no vectors")

    (found,) = predict_by_trials([lever("a")], c, "peak_bytes", fork)
    assert found.unpredicted == "False: this core has no vectors"
    assert found.options[0].change is None


def test_predictions_are_to_come_where_nothing_is_tried_yet(c: Compilation):
    found = find_levers(c, "peak_bytes")
    said = [one.unpredicted for one in found.levers if one.group == "pass"]
    assert said
    assert set(said) == {"it is being predicted"}


def test_code_is_known_once_the_program_was_opened():
    fresh = explorer.compile(sample("digits_mlp"))
    assert quantity_of(fresh, "code_bytes") is None
    fresh.open().close()
    size = quantity_of(fresh, "code_bytes")
    assert size is not None
    assert size > 0
    levers = {one.address: one for one in fresh.levers("code").levers}
    assert levers["fuse-activation"].options[0].change is not None
    assert fresh.levers("code").value == size


def test_work_of_a_machine_is_what_its_simulator_counts():
    # A layer transposes what stays on the chip for it.
    moved = {"arrange-inputs/permute/conv_2d2": "none"}
    npu = explorer.compile(sample("roundings_int8"), target="mac-128", decisions=moved)
    counted = npu.profile().counted
    assert counted is not None
    assert find_levers(npu, "traffic_bytes").value == counted.bytes > 0
    found = find_levers(npu, "energy_picojoules")
    assert found.value == pytest.approx(counted.energy_picojoules, rel=1e-12)
    assert "figures of the target" in found.value_source
    forked = lambda decisions: npu.fork(decisions=decisions)  # noqa: E731
    (grouped,) = predict_by_trials([lever("group-layers")], npu, "traffic_bytes", forked)
    apart = npu.fork(decisions={"group-layers": False}).profile().counted
    assert grouped.options[0].change == apart.bytes - counted.bytes > 0
    levers = npu.levers("traffic").levers
    assert any(one.address.startswith("tile-layers/") for one in levers)
    kept = [one for one in levers if one.address.startswith("group-layers/keep/")]
    assert len(kept) == sum(map(bool, (layer.kept_bytes for layer in counted.layers))) > 0
    sent = npu.fork(decisions=dict(kept[0].options[0].decisions)).profile().counted
    assert {layer.operation: layer.kept_bytes for layer in sent.layers}[kept[0].of] == 0


def test_arguments_of_kernels_are_the_traffic_of_a_processor(c: Compilation):
    sizes = {kernel.name: kernel.bytes_moved for kernel in c.kernels.values()}
    launched = sum(sizes[launch.kernel] for launch in c.program.launches)
    assert c.levers("traffic").value == launched
    energy = c.levers("energy")
    assert (energy.value, energy.levers) == (None, ())
    assert "no machine" in dict(energy.fixed)["energy"]


def test_cycles_of_a_machine_with_instructions_are_predicted_before_it_runs():
    npu = explorer.compile(sample("roundings_int8"), target="tiny-8")
    found = find_levers(npu, "cycles")
    counted = find_levers(npu, "cycles", profile=npu.profile())
    assert found.value == counted.value
    assert (found.value_source, counted.value_source) == (
        "predicted, not counted",
        "counted by the simulator",
    )
