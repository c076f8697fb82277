"""The float64 yardstick: it excuses what the oracle rounds, and never what is imported wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from explorer.accuracy.exact import ExactReference, step, widened_program
from explorer.accuracy.metrics import is_right, tensor_error, with_exact
from explorer.compilation import compile_model
from explorer.importers import SourceModel
from explorer.importers.onnx.file.reading import from_proto
from explorer.ir.origins import Origin
from explorer.ir.program import Snapshot
from explorer.ir.types import element_type_of, numpy_dtype
from explorer.results import TensorError

TOLERANCE = 1e-4
X = np.linspace(-12, -8, 16, dtype=np.float32)


def model_of(*operators: str, element_type: int = TensorProto.FLOAT) -> SourceModel:
    """x -> t0 -> t1 ... -> y, one operator after the other."""
    names = ["x", *(f"t{i}" for i in range(len(operators) - 1)), "y"]
    nodes = [
        helper.make_node(operator, [a], [b])
        for operator, a, b in zip(operators, names[:-1], names[1:], strict=True)
    ]
    ports = [helper.make_tensor_value_info(n, element_type, [16]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "graph", ports[:1], ports[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return from_proto(proto, "model", None)


def imported(model: SourceModel) -> Snapshot:
    return compile_model(model).passes[0].after


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def judged(exact: ExactReference, actual: np.ndarray, mode: str = "accumulated") -> TensorError:
    error = tensor_error("y", "sigmoid1", actual, exact.oracle["y"])
    return exact.judged(error, Origin("y"), actual, mode)


def test_right_is_equal_to_the_oracle_up_to_the_tolerance():
    error = TensorError(
        tensor="t", operation="op", max_absolute=0.0, max_relative=0.9e-4, cosine=1.0, sqnr_db=0.0
    )
    assert is_right(error, TOLERANCE)
    assert not is_right(replace(error, max_relative=2e-4), TOLERANCE)
    assert not is_right(replace(error, max_relative=np.nan), TOLERANCE)


@pytest.mark.parametrize(
    ("from_oracle", "from_exact", "reachable", "right"),
    [
        (2e-2, 0.9e-4, 2e-2, True),  # the oracle is off
        (3e-3, 3e-3, 1.6e-3, True),  # as exact as the oracle
        (3e-3, 4e-3, 1.6e-3, False),
        (2e-4, 2e-4, 1e-6, False),  # ours is off
        (np.inf, np.inf, np.inf, False),
        (np.nan, np.nan, 1.0, False),
    ],
)
def test_right_is_also_what_is_as_near_to_the_exact_result_as_can_be_had(
    from_oracle: float, from_exact: float, reachable: float, right: bool
):
    error = TensorError(
        tensor="t",
        operation="op",
        max_absolute=0.0,
        max_relative=from_oracle,
        cosine=1.0,
        sqnr_db=0.0,
    )
    judged = with_exact(error, from_exact, reachable, TOLERANCE)
    assert is_right(judged, TOLERANCE) is judged.as_exact is right


@pytest.mark.parametrize("mode", ["accumulated", "isolated"])
def test_an_oracle_that_approximates_does_not_make_a_precise_program_wrong(mode: str):
    model = model_of("Sigmoid")
    coarse = (sigmoid(X) * 1.003).astype(np.float32)
    exact = ExactReference(model, imported(model), {"x": X}, {"y": coarse}, TOLERANCE)
    assert exact.refusal == ""
    error = judged(exact, sigmoid(X).astype(np.float32), mode)
    assert error.max_relative == pytest.approx(3e-3, rel=0.01)
    assert error.from_exact is not None and error.from_exact < 1e-7
    assert error.reachable == pytest.approx(3e-3, rel=0.01)
    assert is_right(error, TOLERANCE)
    assert not is_right(judged(exact, (sigmoid(X) * 1.01).astype(np.float32), mode), TOLERANCE)


def test_an_operator_that_was_imported_wrong_is_never_its_own_yardstick():
    """The imported program computes tanh where the model says sigmoid: float64 does not help it."""
    model, wrong = model_of("Sigmoid"), imported(model_of("Tanh"))
    oracle = {"y": sigmoid(X).astype(np.float32)}
    exact = ExactReference(model, wrong, {"x": X}, oracle, TOLERANCE)
    error = judged(exact, np.tanh(X))
    assert "Sigmoid" in exact.refusal
    assert error.from_exact is None
    assert not is_right(error, TOLERANCE)


def test_an_operator_that_nobody_else_computes_is_no_yardstick():
    model = model_of("Sigmoid")
    content = model.content
    content.proto.graph.node[0].domain = "some.where"  # pyright: ignore[reportAttributeAccessIssue]
    program = imported(model_of("Sigmoid"))
    coarse = (sigmoid(X) * 1.003).astype(np.float32)
    exact = ExactReference(model, program, {"x": X}, {"y": coarse}, TOLERANCE)
    assert "nobody else" in exact.refusal


def test_a_widened_program_is_a_copy_whose_floats_are_float64():
    program = imported(model_of("Abs"))
    assert widened_types(program) == {np.dtype(np.float64)}
    assert {numpy_dtype(element_type_of(o)) for o in results(program)} == {np.dtype(np.float32)}


def widened_types(program: Snapshot) -> set[np.dtype]:
    copy = widened_program(program.program)
    return {numpy_dtype(element_type_of(r)) for op in copy.walk() for r in op.results}


def results(program: Snapshot):
    return [result for op in program.program.walk() for result in op.results]


def test_half_precision_is_measured_in_its_own_steps():
    """Two roundings of the same numbers differ by a step of the type, which is 10 tolerances."""
    model = model_of("Sigmoid", "Exp", element_type=TensorProto.FLOAT16)
    x = np.linspace(-2, 2, 16, dtype=np.float16)
    oracle = {"t0": sigmoid(x).astype(np.float16)}
    oracle["y"] = np.exp(sigmoid(x)).astype(np.float16)  # rounded once, not twice
    exact = ExactReference(model, imported(model), {"x": x}, oracle, TOLERANCE)
    twice = np.exp(oracle["t0"].astype(np.float32)).astype(np.float16)
    for mode in ("accumulated", "isolated"):
        error = judged(exact, twice, mode)
        assert is_right(error, TOLERANCE), error
        off = judged(exact, (twice * np.float16(1.004)), mode)
        assert not is_right(off, TOLERANCE)
    assert step(np.dtype(np.float16)) == 2**-10
    assert step(np.dtype(np.int32)) == 0.0


def test_a_whole_check_passes_where_the_oracle_is_coarse():
    """onnxruntime's float32 sigmoid is an approximation, which shows where all of it is tiny."""
    compilation = compile_model(model_of("Sigmoid"))
    try:
        accuracy = compilation.accuracy({"x": X}, tolerance=1e-7)
        assert accuracy.passed, accuracy.summary
        compared = [t for p in accuracy.report.passes for t in p.tensors]
        assert compared
        for tensor in compared:
            if tensor.max_relative > 1e-7:
                assert tensor.from_exact is not None and tensor.reachable is not None
                assert tensor.from_exact <= max(1e-7, 2 * tensor.reachable)
    finally:
        compilation.close()


def narrow_inside() -> SourceModel:
    """Floats around a product of half precision, as converters of float models write them."""
    generator = np.random.default_rng(0)
    weight = numpy_helper.from_array(generator.standard_normal((16, 8)).astype(np.float16), "w")
    nodes = [
        helper.make_node("Cast", ["x"], ["narrow"], to=TensorProto.FLOAT16),
        helper.make_node("MatMul", ["narrow", "w"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["wide", "shape"], ["y"]),
    ]
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 16]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [32]),
    ]
    shape = numpy_helper.from_array(np.array([32]), "shape")
    graph = helper.make_graph(nodes, "graph", ports[:1], ports[1:], [weight, shape])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return from_proto(proto, "model", None)


def test_explicit_casts_to_half_precision_leave_the_float64_run_trusted():
    """What they round is none of float64, and floats behind them have the narrow type's steps."""
    c = compile_model(narrow_inside(), tuned=False)
    x = np.random.default_rng(1).standard_normal((4, 16)).astype(np.float32)
    accuracy = c.accuracy({"x": x})
    assert accuracy.passed, accuracy.summary
    snapshot = c.passes[0].after
    oracle = {name: np.asarray(array) for name, array in snapshot.run({"x": x}).items()}
    values = {o.tensor: oracle[name] for name, o in snapshot.origins.items() if name in oracle}
    exact = ExactReference(c.model, snapshot, {"x": x}, values, TOLERANCE)
    assert not exact.refusal
    half = step(np.dtype(np.float16))
    for steps, is_fine in ((0.5, True), (3, False)):
        off = values["y"] * np.float32(1 + steps * half)
        error = tensor_error("y", "reshape1", off, values["y"])
        judged_error = exact.judged(error, Origin("y"), off, "isolated")
        assert is_right(judged_error, TOLERANCE) == is_fine
