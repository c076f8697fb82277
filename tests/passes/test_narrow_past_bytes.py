"""Rows of a past as bytes with a scale: attention in NumPy and onnxruntime's float32 judge."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import IntegerType

import explorer as ex
from explorer.accuracy.steps import are_ties_of_rows
from explorer.compilation.checking_calls import check_calls
from explorer.errors import InputError
from explorer.importers.onnx.file.reading import from_proto
from explorer.ir.top.casting import CastOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.types import element_type_of
from explorer.runtime.stateful import StatefulProgram

decoders = SimpleNamespace(**run_path(str(Path(__file__).with_name("decoders.py"))))
TYPE = "narrow-past/type"
BYTES = {TYPE: "int8"}
HEADS, GROUP, SIZE = 2, 3, 8
TINY = np.finfo(np.float32).smallest_normal
ROWS = {
    "zeros": [0.0, -0.0] * 4,
    "outlier": [1e30, 1, -1, 1e28, 0, 4e27, 3.9e27, -2e29],
    "infinite": [1, np.inf, 2, 3, -4, 5, 6, 7],
    "minus infinite": [-np.inf, 0, 0, 0, 0, 0, 0, 0],
    "no number": [1, 2, np.nan, 4, 5, 6, 7, 8],
    "subnormal": [1e-45, -1e-40, 0, 5e-39, 0, 0, 1e-44, 0],
    "scale below normal": [126 * TINY, TINY, 0, 0, 0, 0, 0, 0],
    "smallest scale": [127 * TINY, 63.5 * TINY, TINY, -126 * TINY, 0, 0, 0, 0],
    "largest": [3.4028235e38, -3.4028235e38, 1e38, 1e37, 1e36, 1, 0, -1e38],
    "ties": [127, 0.5, 1.5, -2.5, 126.5, -126.5, 3.5, 0],
    "mixed": [0.3, -0.7, 0.11, 0.023, -0.0041, 0.9, -1.1, 1e-3],
}


def rounded(rows: np.ndarray) -> np.ndarray:
    """What rows are read as: in float64, with the scale rounded by its mantissa."""
    reach = np.abs(rows.astype(np.float64)).max(-1, keepdims=True, initial=0)
    with np.errstate(all="ignore"):
        mantissa, exponent = np.frexp(np.where(np.isfinite(reach), reach / 127, np.nan))
        scale = np.ldexp(np.floor(mantissa * 2**17 + 0.5) / 2**17, exponent)
        scale = np.where(reach / 127 < TINY * (1 - 1e-7), 0, scale)
        whole = np.rint(np.where(scale == 0, 0, rows / np.where(scale == 0, 1, scale)))
        return np.where(np.isnan(scale), np.nan, whole * scale).astype(np.float32)


def attention() -> ModelProto:
    """y = softmax(q · transpose(k) / sqrt(SIZE)) · v, where three heads read the rows of one."""

    def value(name: str, heads: int, rows: int | str):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, heads, rows, SIZE))

    def repeated(name: str) -> list:
        shape = ["one", f"{name} first", "group", f"{name} last"]
        return [
            helper.make_node("Concat", [f"past_{name}", name], [f"present_{name}"], axis=2),
            helper.make_node("Shape", [f"present_{name}"], [f"{name} first"], start=1, end=2),
            helper.make_node("Shape", [f"present_{name}"], [f"{name} last"], start=2, end=4),
            helper.make_node("Concat", shape, [f"{name} shape"], axis=0),
            helper.make_node("Unsqueeze", [f"present_{name}", "two"], [f"{name} apart"]),
            helper.make_node("Expand", [f"{name} apart", f"{name} shape"], [f"{name} more"]),
            helper.make_node("Concat", ["one", "heads", f"{name} last"], [f"{name} own"], axis=0),
            helper.make_node("Reshape", [f"{name} more", f"{name} own"], [f"every {name}"]),
        ]

    numbers = {"one": [1], "two": [2], "group": [GROUP], "heads": [HEADS * GROUP]}
    weights = [numpy_helper.from_array(np.array(n, np.int64), k) for k, n in numbers.items()]
    weights.append(numpy_helper.from_array(np.array(SIZE**-0.5, np.float32), "factor"))
    nodes = [
        *repeated("key"),
        *repeated("value"),
        helper.make_node("Transpose", ["every key"], ["columns"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["query", "columns"], ["products"]),
        helper.make_node("Mul", ["products", "factor"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "every value"], ["y"]),
    ]
    inputs = [value("query", HEADS * GROUP, 1)]
    inputs += [value(name, HEADS, 1) for name in ("key", "value")]
    inputs += [value(f"past_{name}", HEADS, "past") for name in ("key", "value")]
    outputs = [value("y", HEADS * GROUP, 1)]
    outputs += [value(f"present_{name}", HEADS, "all") for name in ("key", "value")]
    graph = helper.make_graph(nodes, "attention", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def attended(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """NumPy attention in float64."""
    keys, values = (np.repeat(a.astype(np.float64), GROUP, 1) for a in (keys, values))
    with np.errstate(invalid="ignore"):
        scores = query @ keys.swapaxes(2, 3) / np.sqrt(SIZE)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        return shares / shares.sum(-1, keepdims=True) @ values


def tokens(count: int) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(3)

    def drawn(heads: int) -> np.ndarray:
        rows = random.standard_normal((1, heads, 1, SIZE)) * 2.0 ** random.integers(-3, 4)
        return rows.astype(np.float32)

    return [
        {"query": drawn(HEADS * GROUP), "key": drawn(HEADS), "value": drawn(HEADS)}
        for _ in range(count)
    ]


def rows_model() -> ModelProto:
    """present = concat(past, new)"""
    shapes = {"new": (1, 1, SIZE), "past": (1, "p", SIZE), "present": (1, "all", SIZE)}
    new, past, present = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    )
    nodes = [
        helper.make_node("Concat", ["past", "new"], ["present"], axis=1),
        helper.make_node("Neg", ["present"], ["y"]),
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, shapes["present"])
    graph = helper.make_graph(nodes, "rows", [new, past], [present, y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("target", ["cpu", "opencl"])
@pytest.mark.parametrize("isolated", [False, True])
def test_hard_rows_are_rounded_once_and_stay_as_they_are(target: str, isolated: bool):
    rows = np.array(list(ROWS.values()), np.float32)
    expected = rounded(rows)[None]
    compilation = ex.compile(from_proto(rows_model()), target, capacity=len(rows), decisions=BYTES)
    with compilation.open(isolated=isolated, remembers=True) as program:
        for count, row in enumerate(rows, 1):
            found = program.run({"new": row[None, None]})["y"]
            np.testing.assert_array_equal(found, -expected[:, :count])
        with pytest.raises(InputError, match="the capacity is"):
            program.run({"new": rows[None, :1]})
        state = program.state()
        assert set(state) == {"past"} and state["past"].dtype == np.float32
        np.testing.assert_array_equal(state["past"], expected)
        other = program.fork()
        program.reset()
        assert program.state()["past"].shape == (1, 0, SIZE)
        np.testing.assert_array_equal(program.run({"new": rows[None, 10:]})["y"], -expected[:, 10:])
        program.load(state)  # what it gives, it takes as it is
        np.testing.assert_array_equal(program.state()["past"], expected)
        program.load({"past": rows[None, :-1]})
        np.testing.assert_array_equal(program.run({"new": rows[None, -1:]})["y"], -expected)
        np.testing.assert_array_equal(other.state()["past"], expected)
        other.close()
        with pytest.raises(InputError, match="int8"):
            program.load({"past": np.zeros((1, 1, SIZE))})
        np.testing.assert_array_equal(program.state()["past"], expected)


def test_errors_are_at_most_half_a_step_of_the_row():
    rows = np.array([row for name, row in ROWS.items() if "no number" not in name], np.float32)
    rows = rows[np.isfinite(rows).all(-1)]
    reach = np.abs(rows).max(-1, keepdims=True).astype(np.float64)
    assert (np.abs(rounded(rows) - rows) <= np.maximum(reach / 254 * (1 + 2**-9), 127 * TINY)).all()


def test_a_call_carries_float32_from_one_program_to_the_next():
    compilation = ex.compile(from_proto(rows_model()), capacity=3, decisions=BYTES)
    past = np.zeros((1, 0, SIZE), np.float32)
    rows = np.array([ROWS["mixed"], ROWS["no number"], ROWS["ties"]], np.float32)
    for count, row in enumerate(rows, 1):
        past = compilation.run({"new": row[None, None], "past": past})["present"]
        np.testing.assert_array_equal(past, rounded(rows[None, :count]))


@pytest.mark.parametrize("capacity", [2, 5])
def test_attention_reads_the_rounded_rows(capacity: int):
    proto = attention()
    judge = onnxruntime.InferenceSession(proto.SerializeToString())
    compilation = ex.compile(from_proto(proto), capacity=capacity, decisions=BYTES)
    products = [
        op
        for op in compilation["eliminate-dead-code"].after.program.walk()
        if isinstance(op, MatMulOp)
    ]
    assert [str(element_type_of(op.right)) for op in products] == ["i8", "i8"]
    copies = compilation["write-in-place"].artifacts["state copies"]
    assert isinstance(copies, dict) and set(copies.values()) == {""}
    given = tokens(capacity)
    with compilation.open(isolated=False, remembers=True) as program:
        for turn in range(2):  # full twice, with a reset between
            for count in range(1, capacity + 1):
                found = program.run(given[count - 1])["y"]
                keys, values = (
                    np.concatenate([token[name] for token in given[:count]], 2)
                    for name in ("key", "value")
                )
                own = attended(given[count - 1]["query"], rounded(keys), rounded(values))
                np.testing.assert_allclose(found, own, rtol=1e-5, atol=2e-6 * np.abs(values).max())
                fed = {"past_key": keys[:, :, :-1], "past_value": values[:, :, :-1]}
                exact = judge.run(["y"], {**given[count - 1], **fed})[0]
                assert np.abs(found - exact).max() <= bound(given[count - 1], keys, values)
                assert turn or np.abs(found - exact).max() > 1e-5  # it is rounded
            program.reset()


def bound(token: dict[str, np.ndarray], keys: np.ndarray, values: np.ndarray) -> float:
    """How far attention may be off where every number is off by half a step of its row."""
    step = np.abs(keys).max() / 254 * (1 + 2**-9)
    score = np.abs(token["query"]).sum(-1).max() * step / np.sqrt(SIZE)
    return float(np.abs(values).max() * (np.expm1(2 * score) + (1 + 2**-9) / 254) * (1 + 1e-5))


def test_a_row_that_is_no_number_makes_its_own_head_none():
    compilation = ex.compile(from_proto(attention()), capacity=3, decisions=BYTES)
    first, second = tokens(2)
    first["key"][0, 1, 0, 4] = np.inf
    with compilation.open(isolated=False, remembers=True) as program:
        program.run(first)
        found = program.run(second)["y"]
        assert np.isnan(found[:, GROUP:]).all() and np.isfinite(found[:, :GROUP]).all()
        program.reset()  # nothing of it is left
        program.run(tokens(1)[0])
        assert np.isfinite(program.run(second)["y"]).all()


def test_one_state_alone_and_back_by_a_fork():
    model = from_proto(attention())
    plain = ex.compile(model, capacity=4)
    one = plain.fork(decisions={f"{TYPE}/past_value": "int8"})
    ports = {port.name: (port.element_type, port.shape) for port in one.program.inputs}
    assert ports["past_value"] == ("int8", (1, HEADS, 4, SIZE))
    assert ports["past_value.scale"] == ("float32", (1, HEADS, 4, 1))
    assert ports["past_key"] == ("float32", (1, HEADS, SIZE, 4))  # columns of its product
    again = one.fork(decisions={f"{TYPE}/past_value": "float32"})
    assert [p.name for p in again.program.inputs] == [p.name for p in plain.program.inputs]
    mixed = plain.fork(decisions={f"{TYPE}/past_key": "float16", f"{TYPE}/past_value": "int8"})
    assert check_calls(mixed, 5).passed


@pytest.mark.sweep
@pytest.mark.parametrize(("kind", "shared"), [("given mask", 2), ("table", 1)])
def test_every_pass_is_held_to_the_declared_rounding(kind: str, shared: int):
    model = from_proto(decoders.exported(kind, shared))
    compilation = ex.compile(model, dimensions={"seq": 1}, capacity=4, decisions=BYTES)
    accuracy = compilation.accuracy()
    assert accuracy.passed
    assert accuracy.report.rounded == "rows of the past as int8"
    logits = next(o for o in accuracy.report.float_outputs if o.tensor == "logits")
    assert 1e-5 < logits.max_relative < 1e-2
    verdict = check_calls(compilation, 6)
    assert verdict.passed and verdict.calls == 6


@pytest.mark.parametrize(
    "wrong", [lambda x: x * 1.02, lambda x: np.roll(x, 1, -1), lambda x: np.trunc(x * 8) / 8]
)
def test_rows_that_are_rounded_otherwise_are_found(wrong, monkeypatch: pytest.MonkeyPatch):
    run = StatefulProgram.run

    def other(self, inputs):
        outputs = run(self, inputs)
        self.load({name: wrong(array).astype(np.float32) for name, array in self.state().items()})
        return outputs

    monkeypatch.setattr(StatefulProgram, "run", other)
    compilation = ex.compile(from_proto(attention()), capacity=4, decisions=BYTES)
    verdict = check_calls(compilation, 3)
    assert verdict.calls == 1 and "is off by" in verdict.problem


def test_a_session_rounds_on_the_way_in():
    proto = attention()
    judge = onnxruntime.InferenceSession(proto.SerializeToString())
    *past, last = tokens(4)
    given = {
        **last,
        "past_key": np.concatenate([token["key"] for token in past], 2),
        "past_value": np.concatenate([token["value"] for token in past], 2),
    }
    with ex.Session(from_proto(proto), isolated=False, decisions=BYTES) as session:
        found = session.run(given)
    keys, values = (
        np.concatenate([given[f"past_{name}"], given[name]], 2) for name in ("key", "value")
    )
    np.testing.assert_array_equal(found["present_key"], rounded(keys))
    exact = judge.run(["y"], given)[0]
    assert 1e-5 < np.abs(found["y"] - exact).max() <= bound(last, keys, values)


def test_what_is_a_tie_of_rows():
    row = np.array([[1.0, -0.5, 0.25, 0.125] * 50, [1e-6, 0, 0, 0] * 50], np.float32)
    wanted = row[None]
    step, small = 1 / 127, 1e-6 / 127

    def is_tie(changes: dict[tuple[int, int], float], rows: int = 1) -> bool:
        found = wanted.copy()
        for place, change in changes.items():
            found[0][place] += np.float32(change)
        return are_ties_of_rows(found, wanted, 1, rows, 1e-4)

    assert is_tie({}) and is_tie({(0, 1): step}) and is_tie({(1, 0): -small})
    assert not is_tie({(0, 1): 1.01 * step})
    assert not is_tie({(1, 1): step})  # a step of another row
    assert not is_tie({(0, 3): np.nan})
    assert is_tie({(0, c): step for c in range(4)})
    assert not is_tie({(0, c): step for c in range(5)})  # 2% of 200 numbers are four
    assert is_tie({(0, c): step for c in range(8)}, rows=2)
    assert not are_ties_of_rows(wanted * np.nan, wanted * np.nan, 1, 1, 1e-4)


def test_the_check_finds_rows_that_are_truncated(monkeypatch: pytest.MonkeyPatch):
    compilation = ex.compile(from_proto(attention()), capacity=4, decisions=BYTES)
    assert compilation.accuracy().passed
    evaluate = CastOp.evaluate

    def truncated(self, *operands):
        (x,) = operands
        if self.to == IntegerType(8):
            return (np.trunc(x * 0.99).astype(np.int8),)
        return evaluate(self, x)

    monkeypatch.setattr(CastOp, "evaluate", truncated)
    again = ex.compile(from_proto(attention()), capacity=4, decisions=BYTES)
    assert not again.accuracy().passed
