"""Knobs: every decision with its legal values; each of them can be chosen, and no other."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

import explorer
from explorer.compilation import Compilation
from explorer.errors import InputError
from explorer.memory import default_planners
from explorer.memory.pinned import PinnedPlanner
from explorer.memory.planners import NoSharingPlanner
from explorer.results import Knob
from explorer.targets import load_target

sources = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "source_models.py")))

# Sums of 72 products in another order.
TOLERANCE = 2e-6


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> Compilation:
    """Convolution, batch norm, relu, convolution, relu; the same on every processor."""
    model = sources.source_model(tmp_path_factory.mktemp("model"), sources.CHAIN)
    return explorer.compile(model, load_target("cpu", {"vector_floats": 16}))


def knob(compilation: Compilation, address: str) -> Knob:
    (found,) = [k for k in compilation.knobs if k.address == address]
    return found


def test_addresses_are_unique_and_values_legal(compiled):
    addresses = [k.address for k in compiled.knobs]
    assert len(addresses) == len(set(addresses))
    for k in compiled.knobs:
        assert k.value in k.choices or not k.choices, k
        assert k.why, k


def test_every_choice_of_a_schedule_is_a_knob(compiled):
    made = {
        f"schedule-loops/{kernel}/{name}": value
        for kernel, choices in compiled.schedule.items()
        for name, value in choices.items()
    }
    found = {k.address: k.value for k in compiled.knobs if k.address.startswith("schedule-loops/")}
    assert found == made


def test_passes_and_rules_are_switches(compiled):
    assert knob(compiled, "fuse-activation").choices == (True, False)
    rule = knob(compiled, "fuse-activation/fuse-unary")
    assert (rule.value, rule.why) == (True, "fired 2 times, declined 0 times")
    without = compiled.fork(decisions={"fuse-activation": False})
    assert "fuse-activation" not in without.names
    assert knob(without, "fuse-activation").value is False
    again = without.fork(decisions={"fuse-activation": True})
    assert again.settings == compiled.settings
    assert not [k for k in compiled.knobs if k.address == "plan-memory"]


def test_what_an_override_changed_says_so(compiled):
    address = next(k.address for k in compiled.knobs if k.address.endswith("/pixels"))
    fork = compiled.fork(decisions={address: 2})
    own = knob(compiled, address).value
    assert knob(fork, address).value == 2
    assert knob(fork, address).why.startswith(f"an override; by itself it would be {own}: ")
    assert fork.fork(decisions={address: None}).settings == compiled.settings


# A few of each kind: all of them would take minutes.
def some_choices(compilation: Compilation) -> list[tuple[str, object]]:
    chosen: dict[str, list[tuple[str, object]]] = {}
    for k in compilation.knobs:
        if k.address in ("target",):
            continue  # the other target may have no device here
        kind = k.address.split("/")[0] + k.address.split("/")[-1] * k.address.startswith("sched")
        others = [c for c in k.choices if c != k.value]
        for choice in (others[:1] + others[-1:])[: len(others)]:
            chosen.setdefault(kind, []).append((k.address, choice))
    return [pair for pairs in chosen.values() for pair in pairs[:2]]


@pytest.mark.sweep
@pytest.mark.slow
def test_every_kind_of_knob_can_be_turned_and_the_numbers_stay(compiled):
    inputs = compiled.example_inputs()
    expected = compiled.run(inputs)["y"]
    turned = some_choices(compiled)
    assert len({address.split("/")[0] for address, _ in turned}) > 6
    for address, choice in turned:
        fork = compiled.fork(decisions={address: choice})
        assert knob(fork, address).value == choice, address
        np.testing.assert_allclose(
            fork.run(inputs)["y"], expected, rtol=0, atol=TOLERANCE, err_msg=address
        )
        fork.close()


@pytest.mark.parametrize(
    ("choice", "value", "message"),
    [
        ("pixels", 99, "pixels = 99; 1 to 8 are legal"),
        ("pixels", True, "cannot be True: a number or a word is expected"),
        ("vectors", 3, "vectors = 3; 1 are legal"),
        ("schedule", "tiled", "schedule = tiled; direct, plain are legal"),
        ("pixel", 3, "there is no choice 'pixel'.*did you mean 'pixels'"),
    ],
)
def test_what_is_not_legal_is_refused_with_what_is(compiled, choice, value, message):
    kernel = next(k.address for k in compiled.knobs if k.address.endswith("/pixels")).split("/")[1]
    with pytest.raises(InputError, match=message):
        compiled.fork(decisions={f"schedule-loops/{kernel}/{choice}": value})


def test_memory_dimensions_and_target_have_addresses(compiled):
    fork = compiled.fork(
        decisions={"plan-memory/planner": "no-sharing", "plan-memory/budget_bytes": 2**20}
    )
    assert knob(fork, "plan-memory/planner").value == "no-sharing"
    assert knob(fork, "plan-memory/budget_bytes").value == 2**20
    assert knob(compiled, "plan-memory/budget_bytes") == Knob(
        "plan-memory/budget_bytes", None, (), "no limit"
    )
    assert compiled.fork(decisions={"target/vector_floats": 8}).target.vector_floats == 8
    assert knob(compiled, "target").value == "cpu"
    with pytest.raises(InputError, match="did you mean 'vector_floats'"):
        compiled.fork(decisions={"target/vector_float": 8})


def test_a_planner_of_ones_own_is_among_the_choices(compiled):
    fork = compiled.fork(planner=PinnedPlanner(()))
    found = knob(fork, "plan-memory/planner")
    assert found.value == "PinnedPlanner"
    assert found.choices == (*default_planners(), "PinnedPlanner")
    same = fork.fork(decisions={"plan-memory/planner": "PinnedPlanner"})
    assert same.settings == fork.settings

    def first_come(buffers, steps=()):
        return NoSharingPlanner()(buffers, steps)

    assert knob(compiled.fork(planner=first_come), "plan-memory/planner").value == "first_come"


def test_knobs_with_their_own_values_change_nothing(compiled):
    """Among them are switches of rules that meet no operation."""
    values = {knob.address: knob.value for knob in compiled.knobs}
    assert "compute-in-integers/quantize-rows" in values
    same = compiled.fork(decisions=values)
    assert str(same.final) == str(compiled.final)


def test_options_of_the_first_compilation_take_knobs_too(compiled):
    again = explorer.compile(
        compiled.model, "cpu", decisions={"fuse-activation": False, "target/vector_floats": 4}
    )
    assert "fuse-activation" not in again.names
    assert again.target.vector_floats == 4
    with pytest.raises(InputError, match="nothing in this program is decided by"):
        explorer.compile(compiled.model, "cpu", decisions={"schedule-loops/conv_9/pixels": 3})


def test_order_and_pins_are_knobs_whose_values_are_lists(compiled, tmp_path):
    assert knob(compiled, "order").value == knob(compiled, "plan-memory/pins").value == ()
    names = [n for n in compiled.names if n in ("fuse-bias", "fuse-activation")]
    asked = {"order": names[::-1], "plan-memory/pins": [["layout2", 1 << 20]]}
    fork = compiled.fork(decisions=asked)
    assert knob(fork, "order").value == tuple(names[::-1])
    assert knob(fork, "plan-memory/pins").value == (("layout2", 1 << 20),)
    saved = explorer.open(fork.save(tmp_path / "fork.nnx"))
    assert saved.knobs == fork.knobs
    again = compiled.fork(decisions={a: knob(fork, a).value for a in asked})
    assert again.settings == fork.settings
    back = fork.fork(decisions={a: knob(compiled, a).value for a in asked})
    assert back.settings == compiled.settings


def test_knobs_survive_saving(compiled, tmp_path):
    saved = explorer.open(compiled.save(tmp_path / "trace.nnx"))
    assert saved.knobs == saved.trace().knobs == compiled.knobs


def test_knobs_come_as_a_table(compiled, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    rows = list(compiled.to_frame("knobs"))
    assert [Knob(r["address"], r["value"], r["choices"], r["why"]) for r in rows] == list(
        compiled.knobs
    )
