"""Corrections: each does what its definition says, can be left out, and is part of the table."""

import itertools
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.errors import InputError
from explorer.ir.constants import constant
from explorer.ir.evaluation import entry_function
from explorer.ir.operation import identity_of
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.quantization.quantized import DequantizeOp
from explorer.ir.types import static_shape
from explorer.quantization.corrections.moments import grouped, moments_of, ungrouped, windows
from explorer.quantization.corrections.rounding import Moments, errors, nearest, rounded
from explorer.quantization.table import read_thresholds, write_thresholds
from explorer.runtime.cache.requests import ProgramRequest, request_of
from explorer.tuning.correcting import with_corrections

sys.path.insert(0, str(Path(__file__).parents[1]))
import programs
from source_models import SEPARABLE, source_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return source_model(tmp_path_factory.mktemp("model"), SEPARABLE)


@pytest.fixture(scope="module")
def data():
    return {"x": np.random.default_rng(0).normal(size=(16, 4, 8, 8)).astype(np.float32)}


@pytest.fixture(scope="module")
def table(model, data):
    return explorer.calibrate(model, data, method="min-max", corrections="bias,adaround")


@pytest.fixture(scope="module")
def plain(model):
    return explorer.compile(model)


@pytest.fixture(scope="module")
def corrected(model, table):
    return explorer.compile(model, quantization=table)


def linear(snapshot):
    ops = entry_function(snapshot.program).body.block.ops
    return {identity_of(op): op for op in ops if isinstance(op, ConvOp | MatMulOp)}


# -- rounding --------------------------------------------------------------------------------------


@pytest.fixture
def problem():
    """Sums of inputs that go together, so that roundings can make up for one another."""
    random = np.random.default_rng(1)
    x = random.normal(size=(200, 3)) @ random.normal(size=(3, 7)) + 0.1 * random.normal(size=7)
    y = np.rint(x * 8) / 8
    weights, scales = random.normal(size=(4, 7)), np.array([0.5, 0.3, 0.2, 0.7])
    return x, y, weights, scales, Moments(y.T @ y / 200, x.T @ y / 200, x.T @ x / 200)


def test_errors_are_those_of_the_sums(problem):
    x, y, weights, scales, moments = problem
    integers = nearest(weights, scales)
    by_hand = np.mean((x @ weights.T - y @ (integers * scales[:, None]).T) ** 2, axis=0)
    assert errors(weights, integers, scales, moments) == pytest.approx(by_hand)


def test_rounding_errs_less_than_the_nearest_and_no_less_than_the_best(problem):
    _, _, weights, scales, moments = problem
    found = errors(weights, rounded(weights, scales, moments), scales, moments)
    near = errors(weights, nearest(weights, scales), scales, moments)
    low = np.floor(weights / scales[:, None])
    choices = [low + np.array(up) for up in itertools.product((0, 1), repeat=7)]
    best = np.min([errors(weights, c, scales, moments) for c in choices], axis=0)
    assert np.all(found <= near) and np.all(found >= best - 1e-12)
    assert found.sum() < 0.5 * near.sum()


def test_of_few_steps_the_largest_stay_and_none_goes_beyond(problem):
    """Else quantizing the rounded weights would find another scale, and other integers."""
    _, _, weights, _, moments = problem
    scales = np.abs(weights).max(axis=1) / 7
    found = rounded(weights, scales, moments, 7)
    near = nearest(weights, scales, 7)
    np.testing.assert_array_equal(found[np.abs(near) == 7], near[np.abs(near) == 7])
    assert np.abs(found).max() == 7
    assert np.all(errors(weights, found, scales, moments) <= errors(weights, near, scales, moments))


def test_no_weight_alone_would_better_go_to_its_other_neighbour(problem):
    _, _, weights, scales, moments = problem
    integers, damped = rounded(weights, scales, moments), moments.damped()
    least = errors(weights, integers, scales, damped)
    other = np.where(integers * scales[:, None] < weights, 1, -1)
    for place in range(7):
        moved = integers.copy()
        moved[:, place] += other[:, place]
        assert np.all(errors(weights, moved, scales, damped) >= least)


def test_every_weight_becomes_one_of_its_two_neighbours(problem):
    _, _, weights, scales, moments = problem
    distance = np.abs(rounded(weights, scales, moments) - weights / scales[:, None])
    assert distance.max() < 1


@pytest.mark.parametrize("spread", [0.0, 1e-9, -1e-9])
def test_inputs_that_never_change_leave_the_nearest_integers(problem, spread):
    """What is left of their moments is rounding, which may be negative."""
    _, _, weights, scales, _ = problem
    nothing = spread * np.eye(7)
    found = rounded(weights, scales, Moments(nothing, nothing, nothing))
    if spread <= 0:
        np.testing.assert_array_equal(found, nearest(weights, scales))
    assert np.abs(found - weights / scales[:, None]).max() < 1


def test_windows_times_weights_are_the_sums(corrected):
    """With groups, strides, dilations and padding."""
    snapshot, random = corrected["fuse-bias"].after, np.random.default_rng(2)
    for op in linear(snapshot).values():
        shapes = [static_shape(o) for o in op.operands[:2]]
        x, w = (random.normal(size=shape).astype(np.float32) for shape in shapes)
        plain = op.altered(bias=None)
        expected = plain.evaluate(x, w)[0]
        sums = grouped(op, w) @ windows(op, x)
        axis = op.channel_axes()[1]
        assert sums.reshape(-1, sums.shape[2]) == pytest.approx(
            np.moveaxis(expected, axis, 0).reshape(expected.shape[axis], -1), abs=1e-5
        )
        assert np.array_equal(ungrouped(op, grouped(op, w), w.shape), w)


def test_centered_moments_are_those_of_deviations(corrected):
    op = next(iter(linear(corrected["fuse-bias"].after).values()))
    x = np.random.default_rng(3).normal(size=(3, 1, 4, 8, 8)).astype(np.float32) + 2
    (moments,) = moments_of(op, list(x), list(x), is_centered=True)
    everything = np.concatenate([windows(op, a)[0] for a in x], axis=1)
    assert moments.quantized == pytest.approx(np.cov(everything, bias=True), abs=1e-4)


def test_the_quantization_finds_the_integers_that_were_chosen(corrected, table):
    snapshot = corrected["quantize-tensors"].after
    assert len(table.corrections.roundings) == 4
    for name, op in linear(snapshot).items():
        dequantize = op.operands[1].owner
        assert isinstance(dequantize, DequantizeOp)
        stored = constant(dequantize.input, snapshot.weights)
        assert np.array_equal(stored, table.corrections.roundings[name].integers)


def test_layers_err_less_over_the_data(table):
    assert table.corrections is not None
    for found in table.corrections.roundings.values():
        assert found.error_after <= found.error


# -- biases ----------------------------------------------------------------------------------------


def test_sums_have_no_mean_error_over_the_data(plain, data, corrected):
    """Of every layer, in the quantized program with all corrections."""
    snapshots = [plain["fuse-bias"].after, corrected["quantize-tensors"].after]
    runs = [[s.run({"x": x[None]}) for x in data["x"]] for s in snapshots]
    for name, op in linear(snapshots[1]).items():
        axis = op.channel_axes()[1]
        exact, found = (np.moveaxis(np.stack([v[name] for v in r]), axis + 1, 0) for r in runs)
        error = (exact - found).reshape(len(exact), -1)
        assert np.abs(error.mean(axis=1)).max() < 1e-6
        assert np.abs(error).max() > 1e-4


def test_biases_are_corrected_without_roundings_as_well(model, data):
    table = explorer.calibrate(model, data, method="min-max", corrections=["bias"])
    c = explorer.compile(model, quantization=table)
    assert not table.corrections.roundings
    assert [r.applied for r in c["correct-bias"].rewrites] == [True] * 4


# -- on and off ------------------------------------------------------------------------------------


def test_corrections_are_passes_before_the_quantization(corrected):
    place = corrected.names.index("quantize-tensors")
    assert list(corrected.names[place - 2 : place]) == ["round-weights", "correct-bias"]
    events = corrected["round-weights"].events
    assert len(events) == 4 and all("err" in event.explanation for event in events)


def test_without_a_correction_those_behind_it_know_that_they_do_not_fit(corrected):
    fork = corrected.fork(disable=["round-weights"])
    reasons = {r.reason for r in fork["correct-bias"].rewrites}
    assert reasons == {"the mean error was found with other weights"}
    plain = corrected.fork(disable=["round-weights", "correct-bias"])
    assert plain.run(plain.example_inputs())["y"] == pytest.approx(
        fork.run(plain.example_inputs())["y"], abs=0
    )


def test_one_operation_can_be_left_alone(corrected):
    site = corrected["correct-bias"].rewrites[0].site
    fork = corrected.fork(decisions={f"correct-bias/empirical/{site}": False})
    assert [r.applied for r in fork["correct-bias"].rewrites] == [False, True, True, True]
    with pytest.raises(InputError, match="cannot be 2"):
        corrected.fork(decisions={f"correct-bias/empirical/{site}": 2})


def test_weights_beside_a_tensor_that_stays_float_are_left_alone(
    corrected, plain, model, table, data
):
    """By a mode of the table or by a decision, of roundings and of biases."""
    modes = dict.fromkeys(table.thresholds, "F32")
    decisions = {f"quantize-tensors/mode/{tensor}": "F32" for tensor in modes}
    fork = corrected.fork(decisions=decisions)
    other = explorer.compile(model, quantization=table, modes=modes, tuned=False)
    inputs = {"x": data["x"][:1]}
    for c in (fork, other):
        for name in ("round-weights", "correct-bias"):
            reasons = {event.reason for event in c[name].events}
            assert reasons == {"what it reads stays float"} and not c[name].changed
        assert c.run(inputs)["y"] == pytest.approx(plain.run(inputs)["y"], rel=1e-5)


def test_integers_are_bit_exact_and_floats_are_measured_only(corrected, data):
    accuracy = corrected.accuracy({"x": data["x"][:1]})
    assert accuracy.passed and accuracy.report.bit_exact, accuracy.summary
    assert [p.name for p in accuracy.report.passes][: len(corrected.names)] == list(corrected.names)
    assert accuracy.report.against_float[0].name == "round-weights"


# -- files -----------------------------------------------------------------------------------------


def test_a_table_and_its_corrections_are_read_again(table, tmp_path):
    path = tmp_path / "net.table"
    write_thresholds(path, table)
    again = read_thresholds(path)
    assert again.corrections is not None
    assert again.corrections.digest == table.corrections.digest
    assert again.digest == table.digest != replace(table, corrections=None).digest
    before = (tmp_path / "net.table.corrections.npz").read_bytes()
    write_thresholds(path, again)
    assert (tmp_path / "net.table.corrections.npz").read_bytes() == before


def test_programs_with_other_corrections_are_other_programs(model, table, tmp_path):
    kinds = [table, replace(table, corrections=None)]
    for number, kind in enumerate(kinds):
        write_thresholds(tmp_path / f"{number}.table", kind)
    asked = [
        request_of(model.path, "cpu", {"quantization": choice})
        for choice in (*kinds, *(tmp_path / f"{n}.table" for n in range(2)))
    ]
    assert len({r.options for r in asked if isinstance(r, ProgramRequest)}) == 4


@pytest.mark.parametrize("harm", ["missing", "other", "damaged", "elsewhere"])
def test_corrections_that_are_not_the_tables_are_refused(table, tmp_path, harm):
    path = tmp_path / "net.table"
    write_thresholds(path, table)
    beside = tmp_path / "net.table.corrections.npz"
    if harm == "missing":
        beside.unlink()
    elif harm == "other":
        shifts = {**table.corrections.shifts}
        shifts.popitem()
        other = replace(table, corrections=replace(table.corrections, shifts=shifts))
        write_thresholds(tmp_path / "other.table", other)
        (tmp_path / "other.table.corrections.npz").replace(beside)
    elif harm == "damaged":
        beside.write_bytes(beside.read_bytes()[:-40])
    else:
        path.write_text(
            path.read_text().replace("net.table.corrections.npz", "../net.table.corrections.npz")
        )
    with pytest.raises(InputError, match="corrections"):
        read_thresholds(path)


def test_a_correction_that_there_is_not_is_refused(model, data):
    with pytest.raises(InputError, match="no correction 'adround'"):
        explorer.calibrate(model, data, corrections="adround")


def test_a_program_that_decides_what_is_computed_has_no_corrections_of_numbers():
    """Those that only move factors between channels stay."""
    snapshot = programs.program(
        """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %s = top.loop(%x) attributes {trip_count = 2, scans = 0} {
          ^bb0(%i: tensor<i64>, %state: tensor<2xf32>):
            %n = top.unary(%state) {kind = "exp"} : tensor<2xf32>
            top.return(%n)
          } : tensor<2xf32>
          top.return(%s)
        }"""
    ).snapshot
    observed: Any = SimpleNamespace(snapshot=snapshot, integers_only=False, data=None)
    table: Any = Noted()
    found: Any = with_corrections(table, observed, ("bias", "smooth", "adaround"))
    assert found.warnings == ("earlier", "no corrections: s decides what is computed")
    assert found.corrections.kinds == ("smooth",)


@dataclass(frozen=True)
class Noted:
    """What corrections change of a table."""

    corrections: object = None
    warnings: tuple[str, ...] = ("earlier",)
