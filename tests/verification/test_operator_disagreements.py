"""Entries of the table of disagreements hold for named inputs and differences; proofs are exact."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import helper

from verification.operators import process
from verification.operators.case_files import case_of_files, write_case
from verification.operators.drawing import Case
from verification.operators.explaining import GIVEN, ONLY, is_explained, is_given
from verification.operators.judges import NoOpinion, ask
from verification.operators.nodes import ROUNDED, by_nodes, node_cases
from verification.operators.pairs import Pair
from verification.operators.proofs import proof
from verification.operators.trying import try_drawn
from verification.operators.verdicts import (
    DEFECTS,
    Disagreement,
    Verdict,
    disagreements,
    verdict,
)
from verification.random_models.reducing import reduce_defect

HEADER = '<ir_version: 10, opset_import: ["" : 23]>'
PAIR = Pair("MaxPool", "float32")
RIGHT = np.array([1.0, 2.0], np.float32)


def entry(given: str = "", only: str = "", right: str = "ours") -> Disagreement:
    return Disagreement(("MaxPool",), (), right, "the reason", given=given, only=only)


@pytest.mark.parametrize(
    ("given", "only", "x", "found", "status"),
    [
        ("", "", [1.0], [1.0, 3.0], "documented"),
        ("NaN", "", [1.0], [1.0, 3.0], "differs"),
        ("NaN", "", [np.nan], [1.0, 3.0], "documented"),
        ("", "NaN", [1.0], [1.0, 3.0], "differs"),
        ("", "NaN", [1.0], [1.0, np.nan], "documented"),
        ("", "not finite", [1.0], [1.0, np.inf], "documented"),
        ("", "one step", [1.0], [1.0, 3.0], "documented"),
        ("", "one step", [1.0], [1.0, 3.5], "differs"),
        ("ends", "", [3e38], [1.0, 3.0], "documented"),
        ("ends", "", [3e30], [1.0, 3.0], "differs"),
        ("large", "", [3e30], [1.0, 3.0], "documented"),
    ],
)
def test_an_entry_is_for_its_inputs_and_differences(given, only, x, found, status):
    opinions = {"onnxruntime": [RIGHT], "onnx": [RIGHT]}
    inputs = {"x": np.array(x, np.float32)}
    ours = [np.array(found, np.float32)]
    assert verdict(PAIR, opinions, ours, [entry(given, only)], inputs).status == status


def test_every_judge_that_is_wrong_needs_an_entry():
    ours = [np.array([1.0, np.nan], np.float32)]
    opinions = {"onnxruntime": [RIGHT], "onnx": [RIGHT + 5]}
    table = [entry(only="NaN")]
    assert verdict(PAIR, opinions, ours, table, {}).status == "disputed"
    table.append(entry(right="onnxruntime"))
    assert verdict(PAIR, opinions, ours, table, {}).status == "documented"


def test_a_proof_stands_above_an_entry():
    ours = [RIGHT + 1]
    opinions = {"onnxruntime": [RIGHT], "proof": [RIGHT.astype(np.float64)]}
    assert verdict(PAIR, opinions, ours, [entry()], {}).status == "differs"
    opinions["proof"] = [ours[0].astype(np.float64)]
    assert verdict(PAIR, opinions, ours, [], {}).status == "right"


def test_shapes_and_types_are_not_explained():
    assert not is_explained(["NaN"], [RIGHT], [RIGHT[:1]], "float32")
    assert not is_explained(["NaN"], [RIGHT], [RIGHT.astype(np.float64)], "float32")


def test_several_entries_explain_each_element_once():
    opinions = {"onnxruntime": [RIGHT], "onnx": [RIGHT]}
    ours = [np.array([np.nan, 3.0], np.float32)]
    table = [entry(only="NaN")]
    assert verdict(PAIR, opinions, ours, table, {}).status == "differs"
    table.append(entry(only="one step"))
    assert verdict(PAIR, opinions, ours, table, {}).status == "documented"
    ours = [np.array([np.nan, 4.0], np.float32)]
    assert verdict(PAIR, opinions, ours, table, {}).status == "differs"


def test_all_entries_name_known_kinds():
    assert all(e.given in ("", *GIVEN) and e.only in ("", *ONLY) for e in disagreements())
    assert is_given("shifts by no bit of the type", {"x": np.int8([1]), "s": np.int8([8])})
    assert not is_given("shifts by no bit of the type", {"x": np.int8([1]), "s": np.int8([7])})


def model_of(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{HEADER} {text}")


def proved(node: str, **inputs: np.ndarray) -> np.ndarray:
    values = []
    for name, array in inputs.items():
        number = helper.np_dtype_to_tensor_dtype(array.dtype)
        values.append(helper.make_tensor_value_info(name, number, array.shape))
    model = model_of(f"g (float[1] x) => (float[1] y) {{ y = {node} }}")
    del model.graph.input[:]
    model.graph.input.extend(values)
    found = proof(model, inputs)
    assert found is not None
    return found[0]


TOP = 2**63 - 1


def test_proofs_of_whole_numbers_do_not_wrap_around_on_the_way():
    x = np.array([[2**62, 2**61, 3]])
    axes = np.array([1])
    mean = proved("ReduceMean (x, a)", x=x, a=axes)
    np.testing.assert_array_equal(mean, [[(2**62 + 2**61 + 3) // 3]])
    square = np.array([[3037000499, 3037000499, 1]])
    norm = proved("ReduceL2 (x, a)", x=square, a=axes)
    np.testing.assert_array_equal(norm, [[math.isqrt(2 * 3037000499**2 + 1)]])
    gemm = proved("Gemm (x, y)", x=np.array([[TOP, 2]]), y=np.array([[3], [1]]))
    np.testing.assert_array_equal(gemm, [[3 * TOP + 2 - 2**64]])
    shrunk = proved("Shrink <lambd = 1.0, bias = 2.0> (x)", x=np.array([TOP, -TOP, 1, -5]))
    np.testing.assert_array_equal(shrunk, [TOP - 2, -TOP + 2, 0, -3])


def test_proofs_of_functions_keep_the_digits_of_small_numbers():
    import torch

    x = np.array([-6.2108617, -1e-30, 3.0])
    gelu = torch.nn.functional.gelu(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(proved("Gelu (x)", x=x)[1:], gelu[1:], rtol=1e-14)
    assert proved("Gelu (x)", x=x)[0] == pytest.approx(-1.6364e-9, rel=1e-3)
    for node, right in (
        ("Selu (x)", torch.nn.functional.selu),
        ("Elu <alpha = 2.0> (x)", lambda t: torch.nn.functional.elu(t, 2.0)),
        ("Celu <alpha = 2.0> (x)", lambda t: torch.nn.functional.celu(t, 2.0)),
    ):
        np.testing.assert_allclose(
            proved(node, x=x), right(torch.from_numpy(x)).numpy(), rtol=1e-7, err_msg=node
        )


def test_a_slope_does_not_meet_numbers_that_it_is_not_for():
    found = proved("PRelu (x, s)", x=np.array([0.0, 2.0, -1.0]), s=np.array([np.inf] * 3))
    np.testing.assert_array_equal(found, [0.0, 2.0, -np.inf])


def test_a_transform_is_that_of_numpy():
    x = np.arange(8.0).reshape(1, 4, 2)
    found = proved("DFT <axis = 1> (x)", x=x)
    right = np.fft.fft(x[..., 0] + 1j * x[..., 1], axis=1)
    np.testing.assert_allclose(found, np.stack([right.real, right.imag], -1), atol=1e-12)


def test_casts_around_other_types_do_not_hide_a_proof():
    model = model_of("""g (float[2] x) => (float[2] y) {
      x_inside = Cast <to = 16> (x)
      y_inside = Elu (x_inside)
      y = Cast <to = 1> (y_inside)
    }""")
    found = ask(model, {"x": np.array([-1e-30, 1], np.float32)})["proof"]
    assert not isinstance(found, NoOpinion) and found[0].shape == (2,)


CHAIN = """g (float[3] x) => (float[3] y) {
  a = Relu (x)
  b = Cast <to = 17> (a)
  c = Identity (b)
  d = Cast <to = 1> (c)
  y = Floor (d)
}"""
DRAWN = Case(
    Pair("chain", "float32"),
    0,
    model_of(CHAIN),
    {"x": np.array([-1, 0.3, np.nan], np.float32)},
    "drawn",
    23,
)


def test_nodes_of_a_chain_are_cases_of_their_own():
    cases = {node.op_type: one for node, one in node_cases(DRAWN)}
    assert [n.op_type for n in cases["Identity"].model.graph.node] == ["Cast", "Identity", "Cast"]
    (given,) = cases["Floor"].inputs.values()
    np.testing.assert_array_equal(given, np.array([0, 0.3125, np.nan], np.float32))
    assert cases["Relu"].pair == Pair("Relu", "float32")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("right", Verdict("documented", ROUNDED)),
        ("documented", Verdict("documented", "Relu: why")),
        ("differs", Verdict("differs", "Relu a: why")),
        ("illegal", Verdict("disputed", "the whole")),
    ],
)
def test_a_chain_is_as_right_as_its_nodes(status: str, expected: Verdict):
    whole = Verdict("disputed", "the whole")
    assert by_nodes(DRAWN, whole, lambda _: Verdict(status, "why")) == expected


def test_sequences_and_strings_come_back_from_files(tmp_path: Path):
    model = model_of("""g (seq(string[2]) s, optional(float[2]) o, optional(float[2]) n,
      float[1] x, seq(float[1]) e) => (float[1] y) { y = Identity (x) }""")
    texts = [np.array(["a", "été"], object), np.array(["", "b"], object)]
    inputs = {"s": texts, "o": RIGHT, "n": None, "x": RIGHT[:1], "e": []}
    write_case(Case(PAIR, 1, model, inputs, "", 23), tmp_path / "case")
    found = case_of_files(PAIR, 1, tmp_path / "case.onnx", tmp_path / "case.npz").inputs
    assert [t.tolist() for t in found["s"]] == [t.tolist() for t in texts]
    assert found["s"][0].dtype == object
    np.testing.assert_array_equal(found["o"], RIGHT)
    assert found["n"] is None and found["e"] == []


def test_a_defect_is_made_smaller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A converter that is wrong about Softmax: of a chain only that is left."""
    from explorer.importers.onnx import convert
    from explorer.importers.onnx.converters import find_converter

    def planted(operator: str, *rest: Any) -> Any:
        return find_converter("Identity" if operator == "Softmax" else operator, *rest)

    monkeypatch.setattr(convert, "find_converter", planted)
    model = model_of("""g (float[3] x) => (float[3] y, float[3] z) {
      a = Neg (x)
      b = Softmax (a)
      y = Exp (b)
      z = Cos (x)
    }""")
    case = Case(Pair("chain", "float32"), 1, model, {"x": RIGHT[[0, 1, 1]]}, "drawn", 23)
    answer = try_drawn(case, ("INTERPRETER",), lambda _: None, tmp_path)
    assert answer["status"] == "differs" and "Softmax" in answer["reason"]

    class Here:
        """As a child process, in this one."""

        def ask(self, request: dict[str, Any], seconds: float) -> Any:
            return process.answer(request, tmp_path)

        def close(self) -> None:
            pass

    request = {"operator": "chain", "type": "float32", "seed": 1, "devices": ["INTERPRETER"]}
    told = reduce_defect(tmp_path, "chain-float32-1", request, Here, DEFECTS)  # pyright: ignore
    assert told.startswith("Softmax, in ")
    small = onnx.load(tmp_path / "chain-float32-1.small.onnx")
    assert [node.op_type for node in small.graph.node] == ["Softmax"]
    assert (tmp_path / "chain-float32-1.small.md").is_file()


def test_what_has_no_onnx_model_is_not_made_smaller(tmp_path: Path):
    told = reduce_defect(tmp_path, "ADD-1", {"devices": ["CPU"]}, lambda: None)  # pyright: ignore
    assert told == "it is not reduced: there is no ONNX model of it"


def test_a_case_without_a_defect_leaves_no_file(tmp_path: Path):
    model = model_of("g (float[2] x) => (float[2] y) { y = Neg (x) }")
    case = Case(Pair("Neg", "float32"), 1, model, {"x": RIGHT}, "drawn", 23)
    assert try_drawn(case, ("INTERPRETER",), lambda _: None, tmp_path)["status"] == "right"
    assert not list(tmp_path.iterdir())
