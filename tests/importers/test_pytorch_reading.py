"""Programs of torch.export without torch: names, lines, writes, sizes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.errors import InputError, ModelError, UnsupportedError
from explorer.importers.model import bind_dimensions
from explorer.importers.pytorch.file.expressions import size_of
from explorer.importers.pytorch.file.provenance import provenance_of
from explorer.results import SourcePlace
from tests.importers.pytorch_models import (
    TRACE,
    WEIGHT,
    Program,
    ints,
    linear_program,
    number,
    ref,
    refs,
)

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def test_a_program_is_read_with_its_names_and_lines(tmp_path: Path):
    program, y = linear_program()
    model = ex.load(program.write(tmp_path / "net.pt2", [y]))
    (node,) = model.nodes
    assert (node.name, node.operator) == ("head/linear", "aten.linear")
    assert node.text == "linear = aten.linear(x, head.weight)    # head (Linear)"
    assert node.places == (SourcePlace("nets/net.py", 7, "y = self.head(x)"),)
    assert list(model.constants) == ["head.weight"] and model.parameters == 20
    np.testing.assert_array_equal(model.constants["head.weight"], WEIGHT)
    assert not model.constants["head.weight"].flags.writeable
    (y,) = ex.interpret(model, {"x": X}).values()
    np.testing.assert_allclose(y, X @ WEIGHT.T, rtol=1e-6)


@pytest.mark.parametrize(
    ("file", "is_own"),
    [
        ("/home/ann/modules/net.py", True),
        ("/home/ann/torch/net.py", True),
        ("C:\\Users\\ann\\nn\\net.py", True),
        ("C:\\Python\\Lib\\site-packages\\torch\\nn\\modules\\linear.py", False),
        ("<ipython-input-3-1f0>", True),
        ("/opt/lib/torch/_higher_order_ops/scan.py", False),
        ("<eval_with_key>.7", False),
    ],
)
def test_the_authors_lines_are_told_from_those_of_pytorch(file: str, is_own: bool):
    trace = f'  File "/a/b.py", line 1, in f\n    g()\n  File "{file}", line 2, in g\n    h()'
    found = provenance_of({"stack_trace": trace})
    assert [frame.line for frame in found.own_frames] == ([1, 2] if is_own else [1])


def test_neither_reading_nor_compiling_loads_torch(tmp_path: Path):
    program, y = linear_program()
    path = program.write(tmp_path / "net.pt2", [y])
    code = (
        "import sys, explorer as ex\n"
        "c = ex.compile(sys.argv[1])\n"
        "c.run(c.example_inputs())\n"
        "c.close()\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def test_a_write_into_a_view_changes_the_tensor_and_its_other_views(tmp_path: Path):
    program = Program({"x": ("float32", [3, 4])})
    y = program.call(
        "aten.mul.Tensor", {"self": ref("x"), "other": {"as_float": 2.0}}, "float32", [3, 4]
    )
    column = program.call(
        "aten.select.int",
        {"self": ref(y), "dim": {"as_int": 1}, "index": {"as_int": 0}},
        "float32",
        [3],
    )
    row = program.call(
        "aten.select.int",
        {"self": ref(y), "dim": {"as_int": 0}, "index": {"as_int": 1}},
        "float32",
        [4],
    )
    filled = program.call(
        "aten.fill_.Scalar", {"self": ref(column), "value": {"as_float": 7.0}}, "float32", [3]
    )
    program.call("aten.add_.Scalar", {"self": ref(row), "other": {"as_float": 1.0}}, "float32", [4])
    model = ex.load(program.write(tmp_path / "net.pt2", [y, column, row, filled]))
    results = ex.interpret(model, {"x": X})
    expected = 2 * X
    expected[:, 0] = 7
    expected[1] += 1
    found = [results[value.name] for value in model.outputs]
    for value, wanted in zip(found, [expected, expected[:, 0], expected[1]], strict=False):
        np.testing.assert_array_equal(value, wanted)


def test_a_reshape_that_copies_is_not_changed_by_a_write(tmp_path: Path):
    program = Program({"x": ("float32", [3, 4])})
    y = program.call(
        "aten.mul.Tensor", {"self": ref("x"), "other": {"as_float": 1.0}}, "float32", [3, 4]
    )
    turned = program.call("aten.t.default", {"self": ref(y)}, "float32", [4, 3], name="turned")
    program.values["turned"]["strides"] = [{"as_int": 1}, {"as_int": 4}]
    flat = program.call(
        "aten.reshape.default", {"self": ref(turned), "shape": ints(12)}, "float32", [12]
    )
    program.call("aten.relu_.default", {"self": ref(turned)}, "float32", [4, 3], name="positive")
    model = ex.load(program.write(tmp_path / "net.pt2", [flat, "positive"]))
    first, second = (ex.interpret(model, {"x": X})[v.name] for v in model.outputs)
    np.testing.assert_array_equal(first, X.T.reshape(12))
    np.testing.assert_array_equal(second, np.maximum(X.T, 0))


def test_sizes_that_stay_open_have_their_ranges(tmp_path: Path):
    program = Program({"x": ("float32", ["s77", 4])}, ranges={"s77": {"min_val": 3, "max_val": 64}})
    rows = program.call("aten.sym_size.int", {"self": ref("x"), "dim": {"as_int": 0}})
    twice = program.call("_operator.mul", {"a": number(rows), "b": {"as_int": 2}})
    y = program.call(
        "aten.view.default",
        {"self": ref("x"), "size": {"as_sym_ints": [{"as_name": twice}, {"as_int": 2}]}},
        "float32",
        ["Mul(Integer(2), Symbol('s77'))", 2],
    )
    model = ex.load(program.write(tmp_path / "net.pt2", [y]))
    for count in (3, 5):
        x = np.arange(4 * count, dtype=np.float32).reshape(count, 4)
        (found,) = ex.interpret(model, {"x": x}).values()
        np.testing.assert_array_equal(found, x.reshape(-1, 2))
    assert bind_dimensions(model, {}) == {"s77": 3}
    with pytest.raises(InputError, match=r"'s77' cannot be 65.*give 3 to 64"):
        ex.compile(model, dimensions={"s77": 65})


def test_a_buffer_that_changes_is_a_state(tmp_path: Path):
    count = np.array([2.0], np.float32)
    program = Program({"x": ("float32", [1])}, {"count": count})
    program.call(
        "aten.add_.Tensor", {"self": ref("p_count"), "other": ref("x")}, "float32", [1], name="more"
    )
    y = program.call("aten.mul.Tensor", {"self": ref("p_count"), "other": ref("x")}, "float32", [1])
    model = ex.load(program.write(tmp_path / "net.pt2", [y]))
    (state,) = model.states
    assert (state.input, state.output) == ("count", "more")
    results = ex.interpret(model, {"x": np.array([3], np.float32), "count": count})
    assert results["more"] == 5 and results[y] == 15


def test_everything_that_is_missing_is_said_at_once_with_its_line(tmp_path: Path):
    program, y = linear_program()
    for target in ("aten.frobnicate.default", "mylib.secret.default"):
        y = program.call(target, {"self": ref(y)}, "float32", [3, 5], trace=TRACE)
    model = ex.load(program.write(tmp_path / "net.pt2", [y]))
    with pytest.raises(UnsupportedError) as caught:
        ex.compile(model)
    said = "\n".join(caught.value.problems)
    assert "aten.frobnicate" in said and "mylib.secret" in said
    assert said.count("nets/net.py:7") == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Integer(3)", 3),
        ("Symbol('s77', positive=True, integer=True)", "s77"),
        ("Add(Mul(Integer(2), Symbol('h')), Integer(-1))", "2*h-1"),
        ("torch.utils._sympy.functions.FloorDiv(Symbol('h'), Integer(2))", "h//2"),
        ("Max(Integer(1), Symbol('u0'))", "u0"),
        ("Symbol('__import__(\"os\")')", None),
        ("ToFloat(Symbol('h'))", None),
    ],
)
def test_sizes_have_a_grammar(text: str, expected: object):
    assert size_of(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('touch marker')",
        "Integer(3); print(1)",
        "[x for x in (1,)]",
        "lambda: 0",
        "(" * 1000,
        "Add(" * 1000 + "Integer(1)" + ")" * 1000,
        "Integer(" + "9" * 100 + ")",
        "Symbol('a' 'b')",
        "",
    ],
)
def test_a_text_that_is_no_size_is_refused(text: str):
    with pytest.raises(ModelError, match="no expression of sizes"):
        size_of(text)


def test_joined_tensors_have_one_element_type(tmp_path: Path):
    program = Program({"x": ("float32", [3, 4]), "i": ("int64", [1, 4])})
    y = program.call("aten.cat.default", {"tensors": refs("x", "i")}, "float32", [4, 4])
    model = ex.load(program.write(tmp_path / "net.pt2", [y]))
    numbers = np.arange(4).reshape(1, 4)
    (found,) = ex.interpret(model, {"x": X, "i": numbers}).values()
    np.testing.assert_array_equal(found, np.concatenate([X, numbers]).astype(np.float32))


def test_an_empty_batch_has_no_blocks(tmp_path: Path):
    program = Program({"x": ("float32", [0, 3, 4, 5])})
    y = program.call(
        "aten.im2col.default",
        {"self": ref("x"), **{k: ints(v, v) for k, v in _BLOCKS.items()}},
        "float32",
        [0, 12, 12],
    )
    model = ex.load(program.write(tmp_path / "net.pt2", [y]))
    (found,) = ex.interpret(model, {"x": np.zeros((0, 3, 4, 5), np.float32)}).values()
    assert found.shape == (0, 12, 12)


_BLOCKS = {"kernel_size": 2, "dilation": 1, "padding": 0, "stride": 1}


@pytest.mark.parametrize("width", [0, 1])
def test_a_number_without_axes_unfolds_to_one_axis(width: int, tmp_path: Path):
    program = Program({"x": ("float32", [])})
    settings = {"dimension": 0, "size": width, "step": 1}
    y = program.call(
        "aten.unfold.default",
        {"self": ref("x"), **{k: {"as_int": v} for k, v in settings.items()}},
        "float32",
        [width],
    )
    model = ex.load(program.write(tmp_path / "net.pt2", [y]))
    (found,) = ex.interpret(model, {"x": np.array(3, np.float32)}).values()
    np.testing.assert_array_equal(found, np.full(width, 3, np.float32))


def test_tensordot_sums_over_pairs_of_axes_and_repeats_single_ones(tmp_path: Path):
    program = Program({"x": ("float32", [2, 3, 4]), "y": ("float32", [5, 1, 3])})
    y = program.call(
        "aten.tensordot.default",
        {"self": ref("x"), "other": ref("y"), "dims_self": ints(-1, 1), "dims_other": ints(1, 2)},
        "float32",
        [2, 5],
    )
    model = ex.load(program.write(tmp_path / "net.pt2", [y]))
    values = np.random.default_rng(2)
    x = values.normal(size=(2, 3, 4)).astype(np.float32)
    other = values.normal(size=(5, 1, 3)).astype(np.float32)
    (found,) = ex.interpret(model, {"x": x, "y": other}).values()
    repeated = np.repeat(other, 4, axis=1)
    np.testing.assert_allclose(found, np.einsum("abc,dcb->ad", x, repeated), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("has_biases", [False, True])
def test_a_cell_of_a_recurrent_layer_is_one_step(has_biases: bool, tmp_path: Path):
    values = np.random.default_rng(3)
    shapes = {"w_ih": (12, 4), "w_hh": (12, 3), "b_ih": (12,), "b_hh": (12,)}
    shapes = shapes if has_biases else {k: v for k, v in shapes.items() if k[0] == "w"}
    weights = {k: values.normal(size=v).astype(np.float32) for k, v in shapes.items()}
    states = {name: values.normal(size=(3, 3)).astype(np.float32) for name in "hc"}
    program = Program(
        {"x": ("float32", [3, 4]), **dict.fromkeys("hc", ("float32", [3, 3]))}, weights
    )
    h = program.call(
        "aten.lstm_cell.default",
        {"input": ref("x"), "hx": refs("h", "c"), **{k: ref(f"p_{k}") for k in weights}},
        "float32",
        [3, 3],
    )
    c = "next_c"
    program.values[c] = program.values[h]
    program.nodes[-1]["outputs"].append(ref(c))
    model = ex.load(program.write(tmp_path / "net.pt2", [h, c]))
    found = list(ex.interpret(model, {"x": X, **states}).values())
    gates = X @ weights["w_ih"].T + states["h"] @ weights["w_hh"].T
    gates = gates + weights["b_ih"] + weights["b_hh"] if has_biases else gates
    i, f, g, o = np.split(gates, 4, axis=1)
    cell = states["c"] * _logistic(f) + _logistic(i) * np.tanh(g)
    np.testing.assert_allclose(found[1], cell, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[0], _logistic(o) * np.tanh(cell), rtol=1e-5, atol=1e-6)


def _logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))
