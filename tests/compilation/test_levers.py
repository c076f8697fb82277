"""What moves a number: levers of a compilation, tested without a page."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import explorer
from explorer.cli.levers import change_words, explained
from explorer.compilation import Compilation
from explorer.compilation.levers import trials
from explorer.compilation.levers.finding import find_levers, in_order, quantity_named
from explorer.compilation.levers.memory import memory_levers
from explorer.compilation.levers.others import moves
from explorer.errors import InputError, MemoryBudgetError
from explorer.importers.samples import sample
from explorer.results import Knob
from explorer.results.decisions import BUDGET, PLANNER
from explorer.results.encoding import from_json, to_json
from explorer.results.levers import (
    QUANTITIES,
    SHORT,
    UNITS,
    LeverOption,
    LeverRecord,
    LeversRecord,
)
from explorer.views.payload.levers import MAX_OPTIONS, levers_payload


@pytest.fixture(scope="module")
def c() -> Compilation:
    return explorer.compile(sample("digits_cnn"))


@pytest.fixture(scope="module")
def peak(c: Compilation) -> LeversRecord:
    """What moves the peak, with the budgets that were tried."""
    return c.levers("peak")


def lever(address: str = "a", *changes: float | None, group: str = "pass") -> LeverRecord:
    options = tuple(
        LeverOption(value=number, decisions=((address, number),), change=change)
        for number, change in enumerate(changes)
    )
    return LeverRecord(
        address=address, group=group, of="", title=address, value=None, options=options
    )


def test_a_planner_is_predicted_to_the_byte(c: Compilation):
    found = {lever.address: lever for lever in find_levers(c, "peak_bytes").levers}
    memory = c.memory
    assert memory is not None
    for option in found[PLANNER].options:
        tried = c.fork(decisions=dict(option.decisions)).memory
        assert tried is not None
        assert option.change == tried.peak_bytes - memory.peak_bytes, option.value


def test_a_budget_that_is_offered_is_met(c: Compilation, peak: LeversRecord):
    before = c.memory.peak_bytes
    (untried,) = (one for one in find_levers(c, "peak_bytes").levers if one.address == BUDGET)
    assert (untried.options, untried.unpredicted) == ((), trials.IN_WORK)
    with pytest.raises(MemoryBudgetError) as refused:
        c.fork(decisions={BUDGET: 64})
    (found,) = (one for one in peak.levers if one.address == BUDGET)
    assert found.options[0].value == max(refused.value.needed_bytes, before // 2 // 64 * 64)
    for option in found.options:
        met = c.fork(decisions=dict(option.decisions)).memory.peak_bytes
        assert met <= int(str(option.value))
        assert option.change == met - before < 0


def test_a_program_that_no_budget_makes_smaller_is_offered_none(c: Compilation):
    def refuse(decisions: dict[str, object]) -> Compilation:
        raise MemoryBudgetError("no", budget_bytes=64, needed_bytes=c.memory.peak_bytes)

    (found,) = (one for one in memory_levers(c, refuse) if one.address == BUDGET)
    assert found.options == ()
    assert "no program with fewer bytes" in found.why


def test_a_schedule_is_predicted_as_the_cost_model_has_the_fork(c: Compilation):
    before = {cost.kernel: cost.microseconds for cost in c.costs()}
    found = [lever for lever in find_levers(c, "seconds").levers if lever.title == "pixels"]
    assert found
    for one in found[:2]:
        option = one.options[0]
        fork = c.fork(decisions=dict(option.decisions))
        after = {cost.kernel: cost.microseconds for cost in fork.costs()}
        launches = sum(launch.kernel == one.of for launch in c.program.launches)
        change = (after[one.of] - before[one.of]) * launches / 1e6
        assert option.change == pytest.approx(change, abs=1e-9)


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_every_decision_of_a_lever_is_legal_and_known(c: Compilation, quantity: str):
    found = find_levers(c, quantity_named(quantity))
    assert found.quantity == quantity
    known = {knob.address: knob for knob in c.knobs}
    for one in found.levers:
        assert one.options or one.commands or one.why
        for option in one.options:
            for address, value in option.decisions:
                choices = known[address].choices
                assert value is None or not choices or value in choices
        assert one.value not in [option.value for option in one.options] or not one.address
    assert from_json(LeversRecord, json.loads(json.dumps(to_json(found)))) == found


def test_requantization_moves_quantized_programs_only(c: Compilation):
    digits = np.load(sample("digits_test"))["images"][:4]
    table = explorer.calibrate(c.model, {"image": digits}, method="min-max")
    quantized = explorer.compile(c.model, quantization=table)
    fields = {"target/requantization.scheme", "target/arithmetic"}
    for name in ("dB", "latency"):
        quantity = quantity_named(name)
        assert not fields & {lever.address for lever in find_levers(c, quantity).levers}
        assert fields <= {lever.address for lever in find_levers(quantized, quantity).levers}


def test_time_to_compile_is_moved_by_passes_that_may_be_left_out(c: Compilation):
    found = c.levers("compile")
    taken = {result.name: result.seconds for result in c.passes}
    whole = sum(taken.values())
    assert found.value == pytest.approx(whole)
    optional = {pass_.name for pass_ in c.pipeline if not pass_.is_required}
    passes = [one for one in found.levers if one.group == "pass"]
    assert {one.address for one in passes} <= optional
    assert {one.address: one.options[0].change for one in passes} == {
        one.address: -taken[one.address] for one in passes
    }
    left = optional - {one.address for one in passes}
    assert all(taken.get(name, 0.0) < 0.002 * whole for name in left)
    assert "import" in dict(found.fixed)
    assert not {name for name, _ in found.fixed} & optional


def test_what_is_not_there_says_why(c: Compilation):
    cycles = c.levers("cycles")
    assert (cycles.value, cycles.levers) == (None, ())
    assert "no machine" in dict(cycles.fixed)["cycles"]
    assert c.levers("dB").value is None
    assert "calibrate" in c.levers("dB").levers[0].commands[0]


def test_a_quantity_has_two_names_and_others_are_refused(c: Compilation):
    assert {quantity_named(short) for short in SHORT} == set(QUANTITIES) == set(UNITS)
    with pytest.raises(InputError, match="there are no levers of 'weigths'; try: "):
        c.levers("weigths")


def test_the_most_helpful_come_first_and_what_takes_a_compilation_after_what_is_not_predicted():
    worse, free, unknown = lever("w", 5.0), lever("f", 0.0), lever("u", None)
    target = lever("t", None, group="target")
    best, good = lever("b", -2.0, -9.0, 4.0, None), lever("g", -3.0)
    trial = replace(lever("c", None), on_demand="trial")
    machine = replace(lever("m", None, group="machine"), on_demand="trial")
    found = in_order([worse, target, trial, machine, unknown, free, good, best], "peak_bytes")
    assert [one.address for one in found] == ["b", "g", "u", "m", "c", "t", "f", "w"]
    assert [option.change for option in found[0].options] == [-9.0, -2.0, 4.0, None]
    # More decibels are better.
    found = in_order([lever("less", -1.0), lever("more", 1.0)], "sqnr_db")
    assert [one.address for one in found] == ["more", "less"]


@pytest.mark.parametrize(
    ("address", "choices", "why", "quantities"),
    [
        ("fuse-activation", (True, False), "3 rewrites: x", {"peak_bytes", "seconds"}),
        ("fuse-activation", (True, False), "0 rewrites: x", set()),
        ("fuse-activation/fuse-unary", (True, False), "fired", set()),
        ("target/requantization.rounding", ("down", "up"), "", {"sqnr_db"}),
        ("target/optimize", ("speed", "size"), "", {"seconds", "code_bytes"}),
        (
            "tile-layers/conv_1/rows",
            (1, 2),
            "",
            {"cycles", "peak_bytes", "traffic_bytes", "energy_picojoules"},
        ),
        ("compute-in-integers/rows/matmul1", ("float", "int8"), "", {"seconds", "sqnr_db"}),
        (
            "narrow-past/type/past.0",
            ("float32", "float16", "int8"),
            "",
            {"seconds", "peak_bytes", "sqnr_db"},
        ),
        ("plan-memory/budget_bytes", (), "", set()),
        ("order", (), "", set()),
    ],
)
def test_which_decisions_move_which_quantity(
    address: str, choices: tuple, why: str, quantities: set[str]
):
    knob = Knob(address, choices[0] if choices else None, choices, why)
    found = {quantity for quantity in QUANTITIES if moves(knob, quantity)}
    assert quantities <= found
    assert bool(found) == bool(quantities)


@pytest.mark.parametrize(
    ("change", "also", "quantity", "words"),
    [
        (-147456.0, "12 µs more", "peak_bytes", "147,456 bytes less, 12 µs more"),
        (2048.0, "", "peak_bytes", "2,048 bytes more (worse)"),
        (0.0, "", "peak_bytes", "no change"),
        (None, "", "peak_bytes", "not predicted"),
        (9.25, "", "sqnr_db", "9.2 dB more"),
        (-1.0, "", "sqnr_db", "1.0 dB less (worse)"),
        (-3e-6, "", "seconds", "3.0 µs less"),
        (2.5e6, "", "energy_picojoules", "2.5 µJ more (worse)"),
        (-1024.0, "", "macs", "1,024 MACs less"),
    ],
)
def test_changes_in_words(change: float | None, also: str, quantity, words: str):
    option = LeverOption(value=1, decisions=(), change=change, also=also)
    assert change_words(option, quantity) == words


def test_the_command_prints_decisions_that_can_be_given_back(peak: LeversRecord):
    lines = list(explained(peak, top=2))
    assert lines[0].startswith("peak_bytes: ")
    assert any("--decide plan-memory/" in line for line in lines)
    assert any(line.startswith("  not moved by a decision: inputs") for line in lines)
    assert sum(line.startswith("  ") and not line.startswith("   ") for line in lines) >= 3


def test_the_page_gets_a_bounded_part():
    many = lever("a", *[float(-n) for n in range(40)])
    record = LeversRecord(
        quantity="sqnr_db", value=math.inf, value_source="y", levers=(many,), fixed=(("x", "why"),)
    )
    payload = levers_payload(record)
    assert payload["value"] == "Infinity"
    assert payload["rises"] is True
    assert len(payload["levers"][0]["options"]) == MAX_OPTIONS
    assert payload["levers"][0]["total"] == 40
    json.dumps(payload, allow_nan=False)
