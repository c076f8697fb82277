"""Sensitivity of tensors, and mixed precision for what is wanted."""

import json
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.accuracy.metrics import decibels, noise_to_signal
from explorer.cli import main
from explorer.compilation.settings.settings import correcting_passes
from explorer.errors import InputError
from explorer.ir.evaluation import outputs_by_name
from explorer.quantization.table import Threshold, ThresholdTable, read_modes, write_thresholds
from explorer.results.encoding import from_json, to_json
from explorer.results.runs.sensitivity import MixedPrecision, Quality, TensorSensitivity
from explorer.tuning.mixed import Wanted, mixed_precision, modes_on_the_path
from explorer.tuning.sensitivity import Judge, qualities, sensitivities
from explorer.tuning.simulation import simulated_program

sys.path.insert(0, str(Path(__file__).parents[1]))
from source_models import source_model

PRODUCTS = """
products (float[1,6] x) => (float[1,3] y)
<float[6,8] w1, float[8,8] w2, float[8,3] w3> {
  p = MatMul (x, w1)
  r = Relu (p)
  q = MatMul (r, w2)
  s = Relu (q)
  y = MatMul (s, w3)
}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return source_model(tmp_path_factory.mktemp("model"), PRODUCTS)


@pytest.fixture(scope="module")
def data():
    return {"x": np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32)}


@pytest.fixture(scope="module")
def labels(model, data):
    c = explorer.compile(model, tuned=False)
    return np.array([c.run({"x": x[None]})["y"].argmax() for x in data["x"]])


@pytest.fixture(scope="module")
def table(model, data):
    """Good thresholds, but for that of r, which is far too small."""
    found = explorer.calibrate(model, data, method="min-max")
    return replace(found, thresholds={**found.thresholds, "r": Threshold("r", 0.2, 0.0, 0.2)})


@pytest.fixture(scope="module")
def found(model, table, data, labels):
    return mixed_precision(model, table, data, Wanted(sqnr_db=30), labels)


def outputs(model, data, **options):
    c = explorer.compile(model, tuned=False, **options)
    return [np.stack([c.run({"x": x[None]})["y"] for x in data["x"]])]


def test_the_layer_with_the_wrong_threshold_costs_most(found):
    by_name = {t.tensor: t for t in found.tensors}
    assert list(by_name) == ["x", "r", "s"]
    assert min(found.tensors, key=lambda t: t.alone.sqnr_db).tensor == "r"
    assert by_name["r"].without.sqnr_db > 30 > by_name["x"].without.sqnr_db
    assert by_name["r"].alone.differ > by_name["x"].alone.differ


def test_the_chosen_modes_reach_what_is_wanted_as_a_program(model, table, data, found):
    point = found.points[found.chosen]
    assert set(point.modes) == {"r"}
    exact = outputs(model, data)
    real = outputs(model, data, quantization=table, modes=point.modes)
    assert decibels(noise_to_signal(real, exact)) == pytest.approx(point.quality.sqnr_db)
    assert point.quality.sqnr_db >= 30
    assert point.is_measured


def test_the_path_goes_from_all_bytes_to_all_floats(found, labels):
    assert found.points[0].modes == {}
    assert found.points[-1].modes == dict.fromkeys(["x", "r", "s"], "F32")
    # Weights that the table's corrections rounded are those of the model again.
    last = found.points[-1].quality
    assert last.sqnr_db > 100 and (last.differ, last.accuracy) == (0, 100.0)
    costs = [point.cost for point in found.points]
    assert costs == sorted(costs)
    assert (costs[0], costs[-1]) == (1.0, 4.0)
    front = [p.quality.sqnr_db for p in found.points if p.is_best]
    assert front == sorted(front)
    assert len(front) >= 2


def test_int16_is_chosen_where_it_takes_most_of_the_noise_away():
    low, high = Quality(sqnr_db=20, differ=0), Quality(sqnr_db=40, differ=0)
    one = TensorSensitivity(tensor="a", macs=4, alone=low, without=high, wide=high)
    other = replace(one, tensor="b", macs=8, wide=low)
    assert modes_on_the_path([other, one]) == [
        {},
        {"a": "INT16"},
        {"a": "INT16", "b": "F32"},
        {"a": "F32", "b": "F32"},
    ]


def test_what_is_sent_to_another_process_finds_the_same(model, table, data):
    program = simulated_program(model)
    judge = Judge(table.thresholds, [{"x": x[None]} for x in data["x"][:4]])
    here = sensitivities(program, judge, jobs=1)
    sent = pickle.loads(pickle.dumps((program, judge)))
    assert sensitivities(*sent, jobs=2) == here
    with pytest.raises(InputError, match="backend 'nowhere'"):
        qualities(program, judge, [{}], backend="nowhere")


def test_the_record_is_json(found):
    assert from_json(MixedPrecision, to_json(found)) == found


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({}, "nothing is wanted"),
        ({"sqnr_db": -3.0}, "SQNR cannot be -3"),
        ({"accuracy": float("nan")}, "accuracy cannot be nan"),
        ({"accuracy": 101.0}, "accuracy of 101"),
    ],
)
def test_what_nobody_can_want_is_refused(wanted, message):
    with pytest.raises(InputError, match=message):
        Wanted(**wanted)


def test_labels_that_do_not_fit_are_refused(model, table, data, labels):
    with pytest.raises(InputError, match="an accuracy needs labels"):
        mixed_precision(model, table, data, Wanted(accuracy=90))
    with pytest.raises(InputError, match="expected are 30 integers"):
        mixed_precision(model, table, data, Wanted(accuracy=90), labels[:3])


@pytest.mark.sweep
def test_what_is_simulated_has_the_corrections_that_are_compiled(model, data):
    table = explorer.calibrate(model, data, method="min-max", corrections="adaround,bias")
    found = mixed_precision(model, table, data, Wanted(sqnr_db=1))
    bare = replace(table, corrections=None)
    without = mixed_precision(model, bare, data, Wanted(sqnr_db=1))
    real = outputs(model, data, quantization=table)
    measured = decibels(noise_to_signal(real, outputs(model, data)))
    simulated = simulated_program(model, corrections=correcting_passes(table.corrections))
    judge = Judge(table.thresholds, [{"x": x[None]} for x in data["x"]])
    judge = replace(judge, exact=outputs(model, data))
    (quality,) = qualities(simulated, judge, [{}])
    assert quality.sqnr_db == pytest.approx(measured, abs=0.3)
    # All float: weights are those of the model, with corrections or without.
    assert found.points[-1].quality.sqnr_db > 100
    assert without.points[-1].quality.sqnr_db > 100


def test_decibels_beyond_all_roundings_are_reached_with_corrections(model, data):
    table = explorer.calibrate(model, data, method="min-max", corrections="adaround,bias")
    found = mixed_precision(model, table, data, Wanted(sqnr_db=100))
    point = found.points[found.chosen]
    assert point.is_measured and point.quality.sqnr_db >= 100


def test_what_is_simulated_is_what_is_quantized_with_mixed_modes(model, data):
    """Weights and biases beside a float are the model's own, those beside others corrected. The
    pairs are compared: integers round biases as well."""
    table = explorer.calibrate(model, data, method="min-max", corrections="adaround,bias")
    simulated = simulated_program(model, corrections=correcting_passes(table.corrections))
    exact = outputs(model, data)
    judge = Judge(table.thresholds, [{"x": x[None]} for x in data["x"]], exact=exact)
    modes = [{"x": "F32"}, {"r": "F32"}, {"x": "F32", "s": "F32"}]
    for quality, own in zip(qualities(simulated, judge, modes), modes, strict=True):
        c = explorer.compile(model, quantization=table, modes=own, tuned=False)
        pairs = c["quantize-tensors"].after
        runs = [outputs_by_name(pairs.program, pairs.run({"x": x[None]})) for x in data["x"]]
        measured = decibels(noise_to_signal([np.stack([run["y"] for run in runs])], exact))
        assert quality.sqnr_db == pytest.approx(measured, abs=0.01)


def test_the_command_writes_a_table_of_modes(model, table, data, labels, tmp_path, capsys):
    thresholds, arrays, output = (tmp_path / name for name in ("t.table", "d.npz", "q.qtable"))
    write_thresholds(thresholds, table)
    np.savez(arrays, **data, right=labels)
    asked = ["mixed", str(model.path), "--table", str(thresholds), "--data", str(arrays)]
    assert main([*asked, "--labels", "right", "--sqnr", "30", "-o", str(output)]) == 0
    assert set(read_modes(output)) == {"r"}
    said = capsys.readouterr().out
    assert "wanted: SQNR 30 dB, 30 examples" in said and "F32 r" in said
    # What it was chosen by lies beside it, and comes into the trace with it.
    c = explorer.compile(model, quantization=thresholds, modes=output)
    assert c.quantization is not None and c.quantization.precision is not None
    assert c.quantization.precision.model == model.name
    assert "Pareto front" in str(c.view("sensitivity"))
    show = ["show", str(model.path), "--quantize", str(thresholds), "--qtable", str(output)]
    assert main([*show, "--what", "sensitivity"]) == 0
    assert "Pareto front" in capsys.readouterr().out
    beside = output.with_name("q.qtable.sensitivity.json")
    beside.write_text("{")
    assert main([*show, "--what", "sensitivity"]) == 2
    assert "q.qtable.sensitivity.json" in capsys.readouterr().err
    beside.unlink()
    assert main([*show, "--what", "sensitivity"]) == 2
    assert "has no search for modes" in capsys.readouterr().err


def test_a_case_has_the_data_and_their_labels(model, table, data, labels, tmp_path, capsys):
    """What the archive and its labels choose; some of the examples have their own labels."""
    thresholds, arrays, cases = (tmp_path / name for name in ("t.table", "d.npz", "cases.toml"))
    write_thresholds(thresholds, table)
    np.savez(arrays, **data, right=labels)
    source = '{kind = "arrays", file = "d.npz", data = "x", label = "right"}'
    cases.write_text(f"[models.{model.path.stem}]\nlabels = [{source}]\n")
    asked = ["mixed", str(model.path), "--table", str(thresholds), "--accuracy", "97", "--json"]

    def found(*more):
        assert main([*asked, *map(str, more)]) == 0
        record = from_json(MixedPrecision, json.loads(capsys.readouterr().out))
        return replace(record, seconds=0.0)

    assert found("--cases", cases) == found("--data", arrays, "--labels", "right")
    some = found("--cases", cases, "--examples", 10, "--seed", 1)
    assert some.examples == 10 and some.exact.accuracy == 100
    for more, said in (
        (("--cases", cases, "--labels", "right"), "the case has labels already"),
        (("--data", arrays, "--files", tmp_path), "--files without --cases says nothing"),
    ):
        assert main([*asked, *map(str, more)]) == 2
        assert said in capsys.readouterr().err


def test_a_search_is_drawn_where_it_is_returned_and_travels_with_a_trace(
    model, table, found, tmp_path
):
    assert str(found).startswith("wanted: SQNR 30 dB") and "F32 r" in str(found)
    explorer.compile(model)  # registers what notebooks draw
    html = found._repr_html_()
    assert html.count("<img") == 2 and "Pareto front" in html
    c = explorer.compile(model, quantization=table, modes=found)
    assert {t.name: t.mode for t in c.quantization.tensors} == {
        "x": "INT8",
        "r": "F32",
        "s": "INT8",
    }
    assert c.quantization.precision is found
    c.save(tmp_path / "net.nnx")
    opened = explorer.open(tmp_path / "net.nnx")
    assert opened.trace().quantization.precision == found
    assert str(opened.view("sensitivity")) == str(c.view("sensitivity"))


def test_what_cannot_be_reached_writes_nothing(model, data, table, labels, tmp_path, capsys):
    thresholds, arrays, output = (tmp_path / name for name in ("t.table", "d.npz", "q.qtable"))
    write_thresholds(thresholds, ThresholdTable(table.thresholds))
    np.savez(arrays, **data, right=(labels + 1) % 3)
    asked = ["mixed", str(model.path), "--table", str(thresholds), "--data", str(arrays)]
    assert main([*asked, "--labels", "right", "--accuracy", "99", "-o", str(output)]) == 2
    assert "the best that was is accuracy" in capsys.readouterr().err
    assert not output.exists()
    assert main([*asked, "--labels", "left", "--accuracy", "99", "-o", str(output)]) == 2
    assert "no array `left`" in capsys.readouterr().err
