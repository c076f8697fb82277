"""Rows of a past in fewer bytes: NumPy's float16 and onnxruntime's float32 judge."""

from __future__ import annotations

import json
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import explorer as ex
from explorer.cli import main
from explorer.compilation.checking_calls import check_calls
from explorer.errors import InputError
from explorer.importers.onnx.file.reading import from_proto
from explorer.runtime.stateful import StatefulProgram

decoders = SimpleNamespace(**run_path(str(Path(__file__).with_name("decoders.py"))))
CAPACITY = 9
KEY, VALUE = "past_key_values.0.key", "past_key_values.0.value"
TYPE, ORDER = "narrow-past/type", "narrow-past/order"
HALF = {TYPE: "float16"}
HARD = np.array(
    [0.0, -0.0, 1e-8, 6e-8, 65504, 65519.9, 65520, -1e9, np.inf, -np.inf, np.nan, 1 + 2**-11],
    np.float32,
)
"""Both zeros, subnormal numbers and less, both sides of the largest one, no numbers, a tie."""


def reader(rows: int = 1, columns: int = len(HARD)) -> onnx.ModelProto:
    """present = concat(past, new), and y = present + 0."""

    def value(name: str, *shape: int | str):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    nodes = [
        helper.make_node("Concat", ["past", "new"], ["present"], axis=1),
        helper.make_node("Neg", ["present"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [value("new", 1, rows, columns), value("past", 1, "p", columns)],
        [value("present", 1, "all", columns), value("y", 1, "all", columns)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def halves(array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return array.astype(np.float16).astype(np.float32)


@pytest.mark.parametrize("target", ["cpu", "opencl"])
@pytest.mark.parametrize("isolated", [False, True])
def test_a_row_is_rounded_once_when_it_is_appended(target: str, isolated: bool):
    compilation = ex.compile(from_proto(reader()), target, capacity=4, decisions=HALF)
    with compilation.open(isolated=isolated, remembers=True) as program:
        for call in range(3):
            new = np.roll(HARD, call)[None, None]
            found = program.run({"new": new})["y"]
            assert found.dtype == np.float32
            np.testing.assert_array_equal(found[:, call:], -halves(new))
        before = program.state()["past"]
        assert before.dtype == np.float32
        np.testing.assert_array_equal(before[:, 2:], halves(np.roll(HARD, 2)[None, None]))
        program.load({"past": before[:, :2]})  # what it gives, it takes as it is
        other = program.fork()
        program.reset()
        np.testing.assert_array_equal(other.state()["past"], before[:, :2])
        assert program.state()["past"].shape == (1, 0, len(HARD))
        program.load({"past": 3 * HARD[None, None]})
        np.testing.assert_array_equal(program.state()["past"], halves(3 * HARD[None, None]))
        with pytest.raises(InputError, match="float16"):
            program.load({"past": np.zeros((1, 1, len(HARD)))})
        other.close()


def test_a_call_takes_and_gives_float32():
    compilation = ex.compile(from_proto(reader()), capacity=3, decisions=HALF)
    for rows in range(3):
        past = np.stack([np.roll(HARD, 5 + row) for row in range(rows)] or [HARD])[None, :rows]
        found = compilation.run({"new": HARD[None, None], "past": past})
        expected = halves(np.concatenate([past, HARD[None, None]], axis=1))
        np.testing.assert_array_equal(found["present"], expected)
        np.testing.assert_array_equal(found["y"], -expected)


def test_states_take_half_the_bytes_and_are_written_where_they_lie():
    model = from_proto(decoders.exported("compared", 2))
    plain = ex.compile(model, dimensions={"seq": 1}, capacity=CAPACITY)
    half = plain.fork(decisions=HALF)
    sizes = [
        sum(p.size_bytes for p in c.program.inputs if p.name.startswith("past_key"))
        for c in (plain, half)
    ]
    assert sizes[0] == 2 * sizes[1] > 0
    assert set(half["write-in-place"].artifacts["state copies"].values()) == {""}
    knobs = [knob for knob in half.knobs if knob.address.startswith(f"{TYPE}/")]
    assert [k.value for k in knobs] == ["float16"] * 2
    one = plain.fork(decisions={f"{TYPE}/past_key_values.0.key": "float16"})
    types = {p.name: p.element_type for p in one.program.inputs}
    assert types["past_key_values.0.key"] == "float16"
    assert types["past_key_values.0.value"] == "float32"
    again = one.fork(decisions={f"{TYPE}/past_key_values.0.key": "float32"})
    assert again.program.arena_bytes == plain.program.arena_bytes


def test_other_types_are_refused_by_address():
    model = from_proto(reader())
    with pytest.raises(InputError, match="narrow-past/type/past cannot be 'float8'"):
        ex.compile(model, capacity=3, decisions={TYPE: "float8"})
    with pytest.raises(InputError, match="no decision has the address 'narrow-past/type'"):
        ex.compile(model, dimensions={"p": 3}, decisions=HALF)


@pytest.mark.sweep
@pytest.mark.parametrize(("kind", "shared"), [("given mask", 2), ("table", 1)])
def test_every_pass_is_held_to_the_declared_rounding(kind: str, shared: int):
    model = from_proto(decoders.exported(kind, shared))
    compilation = ex.compile(model, dimensions={"seq": 1}, capacity=4, decisions=HALF)
    accuracy = compilation.accuracy()
    assert accuracy.passed
    assert accuracy.report.rounded == "rows of the past as float16"
    logits = next(o for o in accuracy.report.float_outputs if o.tensor == "logits")
    assert 1e-6 < logits.max_relative < 1e-2


def test_calls_in_turn_are_held_to_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    proto, options = reader(), {"capacity": 4}
    verdict = check_calls(ex.compile(from_proto(proto), **options, decisions=HALF), 6)
    assert verdict.passed and verdict.calls == 6
    assert verdict.from_source is not None and 1e-6 < verdict.from_source < 1e-2
    assert check_calls(ex.compile(from_proto(proto), **options), 2).from_source is None
    path = tmp_path / "decoder.onnx"
    onnx.save(proto, path)
    command = ["check", str(path), "--capacity", "4", "--calls", "3", "--json"]
    assert main([*command, "--decide", f"{TYPE}=float16"]) == 0
    assert json.loads(capsys.readouterr().out)["calls"]["from_source"] > 0


@pytest.mark.parametrize("wrong", [lambda x: x * 1.01, lambda x: np.trunc(x * 512) / 512])
def test_rows_that_are_rounded_otherwise_are_found(wrong, monkeypatch: pytest.MonkeyPatch):
    run = StatefulProgram.run

    def other(self, inputs):
        outputs = run(self, inputs)
        self.load({name: halves(wrong(array)) for name, array in self.state().items()})
        return outputs

    monkeypatch.setattr(StatefulProgram, "run", other)
    model = from_proto(decoders.exported("no mask"))
    compilation = ex.compile(model, dimensions={"seq": 1}, capacity=4, decisions=HALF)
    verdict = check_calls(compilation, 3)
    assert verdict.calls == 1 and "is off by" in verdict.problem


def test_a_step_is_near_to_float32_and_the_same_in_a_session():
    proto = decoders.exported("compared")
    judge = onnxruntime.InferenceSession(proto.SerializeToString())
    names = [value.name for value in judge.get_outputs()]
    past = {
        value.name: np.random.default_rng(1).standard_normal((1, value.shape[1], 5, 8), np.float32)
        for value in judge.get_inputs()[1:]
    }
    given = {"input_ids": np.array([[3]]), **past}
    expected = dict(zip(names, judge.run(None, given), strict=True))
    with ex.Session(from_proto(proto), isolated=False, decisions=HALF) as session:
        found = session.run(given)
        prompt = {n: a[:, :, :0] for n, a in past.items()}
        whole = session.run({"input_ids": np.array([[3, 1]]), **prompt})  # nothing is stored yet
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], rtol=5e-3, atol=2e-3)
    stored = found["present.0.key"][:, :, :5]
    np.testing.assert_array_equal(stored, halves(past["past_key_values.0.key"]))
    prompt_keys = judge.run(["present.0.key"], {"input_ids": np.array([[3, 1]]), **prompt})[0]
    np.testing.assert_allclose(whole["present.0.key"], prompt_keys, rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match="cannot be 'half'"):
        ex.Session(from_proto(proto), decisions={TYPE: "half"}).run(given)


@pytest.mark.parametrize("stored", ["float32", "float16"])
def test_keys_lie_as_their_product_reads_them(stored: str):
    model = from_proto(decoders.exported("compared", 2))
    decisions = {TYPE: stored}
    compilation = ex.compile(model, dimensions={"seq": 1}, capacity=CAPACITY, decisions=decisions)
    shapes = {port.name: port.shape for port in compilation.program.inputs}
    assert shapes["past_key_values.0.key"] == (1, 1, 8, CAPACITY)
    assert shapes["past_key_values.0.value"] == (1, 1, CAPACITY, 8)
    text = compilation["eliminate-dead-code"].after.text.to_text()
    assert "top.transpose" not in text
    past = {f"past_key_values.0.{n}": np.arange(24, dtype=np.float32) for n in ("key", "value")}
    past = {name: array.reshape(1, 1, 3, 8) for name, array in past.items()}
    for isolated in (False, True):
        with compilation.open(isolated=isolated) as program:
            found = program.run({"input_ids": np.array([[1]]), **past})
            np.testing.assert_array_equal(found["present.0.key"][:, :, :3], past[KEY])
            assert found["present.0.key"].shape == (1, 1, 4, 8)
        with compilation.open(isolated=isolated, remembers=True) as program:
            program.load(past)
            np.testing.assert_array_equal(program.state()[KEY], past[KEY])
            for step in range(2):
                program.run({"input_ids": np.array([[step]])})
                np.testing.assert_array_equal(program.state()[KEY][:, :, :3], past[KEY])


def test_columns_of_float32_are_what_rows_would_be():
    """Every bit of the pasts: zeros of both signs, numbers that are none, the largest ones."""
    model = from_proto(decoders.exported("compared", 2))
    columns = ex.compile(model, dimensions={"seq": 1}, capacity=CAPACITY)
    rows = columns.fork(decisions={f"{ORDER}/{KEY}": "rows"})
    assert [k.choices for k in columns.knobs if k.address == f"{ORDER}/{KEY}"] == [
        ("rows", "columns")
    ]
    assert {p.name: p.shape for p in rows.program.inputs}[KEY] == (1, 1, CAPACITY, 8)
    for length in (CAPACITY - 1, 0, 1, 5):
        key = np.resize(HARD, (1, 1, length, 8))
        value = np.linspace(-1, 1, length * 8, dtype=np.float32).reshape(key.shape)
        given = {"input_ids": np.array([[3]]), KEY: key, VALUE: value}
        one, other = (c.run(given)["present.0.key"] for c in (columns, rows))
        assert one.shape == (1, 1, length + 1, 8)
        assert one.view(np.int32).tolist() == other.view(np.int32).tolist()
        assert one[:, :, :length].view(np.int32).tolist() == key.view(np.int32).tolist()


def test_whole_arrays_may_be_as_the_source_or_the_program_has_them():
    compilation = ex.compile(
        from_proto(decoders.exported("compared", 2)), dimensions={"seq": 1}, capacity=CAPACITY
    )
    length = compilation.program.length
    assert length is not None
    random = np.random.default_rng(2)
    key, value = random.standard_normal((2, 1, 1, CAPACITY, 8)).astype(np.float32)
    key[:, :, 4:], value[:, :, 4:] = 0, 0
    given = {"input_ids": np.array([[3]]), VALUE: value}
    given[length.name] = np.array(4)
    for isolated in (False, True):
        with compilation.open(isolated=isolated) as program:
            of_source = program.run({**given, KEY: key})
            of_program = program.run({**given, KEY: np.ascontiguousarray(key.swapaxes(2, 3))})
        np.testing.assert_array_equal(of_source["logits"], of_program["logits"])
        assert of_source["present.0.key"].shape == (1, 1, CAPACITY, 8)
        turned = of_program["present.0.key"].swapaxes(2, 3)
        np.testing.assert_array_equal(of_source["present.0.key"], turned)
        np.testing.assert_array_equal(turned[:, :, :4], key[:, :, :4])


@pytest.mark.parametrize(
    ("rows", "capacity", "reason"),
    [(1, 8, "a row is as long as the capacity"), (17, 34, "adds more than 16 rows")],
)
def test_why_keys_of_float32_stay_rows(rows: int, capacity: int, reason: str):
    model = from_proto(decoders.exported("compared", 2))
    compilation = ex.compile(model, dimensions={"seq": rows}, capacity=capacity)
    assert {p.name: p.shape for p in compilation.program.inputs}[KEY] == (1, 1, capacity, 8)
    declined = [r.reason for r in compilation["narrow-past"].rewrites if not r.applied]
    assert len(declined) == 2 and reason in declined[0]
    assert "no product reads its rows as columns" in declined[1]
    with pytest.raises(InputError, match=f"{ORDER}/{KEY} cannot be 'lines'"):
        compilation.fork(decisions={f"{ORDER}/{KEY}": "lines"})


@pytest.mark.parametrize("stored", ["float32", "float16"])
def test_states_of_which_every_row_is_valid_are_loaded(stored: str):
    compilation = ex.compile(from_proto(reader()), capacity=2, decisions={TYPE: stored})
    full = {"past": np.arange(2 * len(HARD), dtype=np.float32).reshape(1, 2, -1)}
    with compilation.open(isolated=False, remembers=True) as program:
        program.load(full)
        np.testing.assert_array_equal(program.state()["past"], full["past"])
        with pytest.raises(InputError, match="the capacity is 2"):
            program.run({"new": HARD[None, None]})
        with pytest.raises(InputError, match="3 rows are valid"):
            program.load({"past": np.zeros((1, 3, len(HARD)), np.float32)})
        program.load({"past": full["past"][:, :1]})
        assert program.run({"new": HARD[None, None]})["y"].shape == (1, 2, len(HARD))
