"""Reducing keeps the fault and loses the rest; parts compute what they computed in the whole."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import explorer as ex
from explorer.errors import InputError
from explorer.importers.onnx.file.reads import reads
from explorer.reducing import Candidate, Outcome, differing, reduce
from explorer.reducing.candidate import candidate_of, candidate_of_proto
from explorer.reducing.graphs import part
from explorer.reducing.steps.operations import pass_by_operations
from explorer.reducing.trials import Folder


def outputs_of(candidate: Candidate) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(candidate.model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(candidate.inputs)), strict=True))


def test_a_part_computes_what_it_computed_in_the_whole(tower: Candidate):
    for low, high in ((0, 7), (5, 61), (59, 64), (100, tower.operations)):
        found = part(tower, range(low, high))
        assert found is not None
        onnx.checker.check_model(found.model, full_check=True)
        assert found.operations == high - low
        every = part(tower, range(high))
        assert every is not None
        whole = outputs_of(every) if high < tower.operations else outputs_of(tower)
        computed = outputs_of(found)
        assert computed.keys() & whole.keys()
        for name in computed.keys() & whole.keys():
            np.testing.assert_allclose(computed[name], whole[name], rtol=1e-4, atol=1e-5)
        for name, array in computed.items():
            np.testing.assert_allclose(found.expected[name], array, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "operators", [("Softmax",), ("Mul", "Softmax"), ("Relu", "Add", "Conv"), ("Add", "Relu")]
)
def test_only_the_guilty_operations_are_left(tower: Candidate, has, operators: tuple[str, ...]):
    found = reduce(tower, has(*operators))
    left = found.candidate.model.graph
    assert sorted(node.op_type for node in left.node) == sorted(operators)
    assert found.candidate.elements <= 12
    assert found.trials < 120
    onnx.checker.check_model(found.candidate.model, full_check=True)
    assert outputs_of(found.candidate).keys() == found.candidate.expected.keys()


def test_numbers_that_matter_stay(make_model):
    """The fault shows where a sum is more than 2."""

    def wrong(candidate: Candidate) -> dict[str, np.ndarray]:
        graph = candidate.model.graph
        sums = {name for node in graph.node if node.op_type == "Add" for name in node.output}
        right = outputs_of(candidate)
        return {n: np.minimum(a, 2.0) if n in sums else a for n, a in right.items()}

    values = {"x": np.linspace(-3, 3, 96, dtype=np.float32).reshape(1, 4, 4, 6)}
    nodes = [
        helper.make_node("Sin", ["x"], ["s"]),
        helper.make_node("Mul", ["s", "two"], ["m"]),
        helper.make_node("Add", ["m", "x"], ["y"]),
    ]
    model = make_model(nodes, values, ["y"], two=np.array(2, np.float32))
    found = reduce(candidate_of_proto(model, values), differing(wrong))
    (node,) = found.candidate.model.graph.node
    assert node.op_type == "Add"
    assert found.kind == "differs"
    (total,) = found.candidate.expected.values()
    assert total.max() > 2
    assert total.size <= 4
    assert "expected" in found.reason and "came 2.0" in found.reason


def test_attributes_and_operands_without_effect_go(has, make_model):
    values = {"x": np.ones((2, 8, 9, 9), np.float32)}
    node = helper.make_node(
        "Conv", ["x", "w", "b"], ["y"], kernel_shape=[3, 3], pads=[2, 2, 2, 2],
        strides=[2, 2], dilations=[2, 2], group=4,
    )  # fmt: skip
    model = make_model(
        [node], values, ["y"], w=np.ones((8, 2, 3, 3), np.float32), b=np.ones(8, np.float32)
    )
    found = reduce(candidate_of_proto(model, values), has("Conv"))
    (left,) = found.candidate.model.graph.node
    assert [attribute.name for attribute in left.attribute] in ([], ["group"])
    assert list(left.input) == ["x", "w"]
    assert found.candidate.elements <= 16


def test_sizes_in_constants_are_cut_with_the_tensors(has, make_model):
    values = {"x": np.arange(60, dtype=np.float32).reshape(3, 20)}
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("Relu", ["r"], ["y"]),
    ]
    model = make_model(nodes, values, ["y"], shape=np.array([20, 3]))
    found = reduce(candidate_of_proto(model, values), has("Relu", "Reshape"))
    assert found.candidate.inputs["x"].size == 1


def test_what_an_inner_graph_reads_is_an_input(has, make_model):
    inner = helper.make_graph(
        [helper.make_node("Mul", ["outer", "outer"], ["z"])], "then", [],
        [helper.make_tensor_value_info("z", 1, None)],
    )  # fmt: skip
    other = helper.make_graph(
        [helper.make_node("Neg", ["outer"], ["z2"])], "else", [],
        [helper.make_tensor_value_info("z2", 1, None)],
    )  # fmt: skip
    nodes = [
        helper.make_node("Sin", ["x"], ["outer"]),
        helper.make_node("If", ["yes"], ["w"], then_branch=inner, else_branch=other),
        helper.make_node("Cos", ["w"], ["y"]),
    ]
    values = {"x": np.ones(4, np.float32)}
    model = make_model(nodes, values, ["y"], yes=np.array(True))
    assert reads(nodes[1]) == ["yes", "outer"]
    found = reduce(candidate_of_proto(model, values), has("If"))
    assert [node.op_type for node in found.candidate.model.graph.node] == ["If"]
    assert list(found.candidate.inputs) == ["outer"]


def test_another_failure_is_told_and_not_taken(tower: Candidate, has):
    """Without its relu, what follows fails otherwise."""
    pair, alone = has("Relu", "Add"), has("Add")

    def condition(candidate: Candidate) -> Outcome:
        if pair(candidate):
            return Outcome("differs", "as at first")
        return Outcome("SIGSEGV", "otherwise") if alone(candidate) else Outcome("")

    found = reduce(tower, condition)
    assert sorted(n.op_type for n in found.candidate.model.graph.node) == ["Add", "Relu"]
    assert found.others == {"SIGSEGV": "otherwise"}
    assert (found.kind, found.reason) == ("differs", "as at first")


def test_what_does_not_fail_or_hangs_is_refused(tower: Candidate):
    with pytest.raises(InputError, match="does not fail"):
        reduce(tower, lambda candidate: False)
    with pytest.raises(InputError, match=r"hangs: 3 s.*--seconds"):
        reduce(tower, lambda candidate: Outcome("hung", "3 s"))
    with pytest.raises(InputError, match="nothing runs the model"):
        reduce(Candidate(tower.model, tower.inputs), lambda candidate: True)


def test_an_interrupted_reduction_goes_on_where_it_was(tower: Candidate, has, tmp_path):
    tower = part(tower, range(90, tower.operations)) or tower
    wanted = reduce(tower, has("Mul", "Relu"))
    asked: list[str] = []

    def interrupted_after(count: int):
        def condition(candidate: Candidate) -> bool:
            if len(asked) >= count:
                raise KeyboardInterrupt
            asked.append(candidate.digest)
            return has("Mul", "Relu")(candidate)

        return condition

    place = tmp_path / "small.onnx.reducing"
    with pytest.raises(KeyboardInterrupt):
        reduce(tower, interrupted_after(9), Folder(place, {"candidate": tower.digest}))
    with (place / "tried.jsonl").open("a") as file:
        file.write('{"digest": "cut')  # killed in the midst of a line
    with pytest.raises(KeyboardInterrupt):
        reduce(tower, interrupted_after(16), Folder(place, {"candidate": tower.digest}))
    kept = ex.load(place / "current.onnx")
    assert len(kept.nodes) < tower.operations
    found = reduce(tower, interrupted_after(10**6), Folder(place, {"candidate": tower.digest}))
    assert found.candidate.operations == wanted.candidate.operations == 2
    assert found.candidate.elements == wanted.candidate.elements
    repeated = [digest for digest in asked if asked.count(digest) > 1]
    assert set(repeated) == {tower.digest}, "the whole alone is run again"
    with pytest.raises(InputError, match="another model, input or condition"):
        Folder(place, {"candidate": "of another model"})


def test_constants_are_initializers_whatever_holds_them(make_model):
    tensor = numpy_helper.from_array(np.array([2.0], np.float32))
    nodes = [
        helper.make_node("Constant", [], ["k"], value=tensor),
        helper.make_node("Mul", ["x", "k"], ["y"]),
    ]
    values = {"x": np.ones(3, np.float32)}
    found = candidate_of_proto(make_model(nodes, values, ["y"]), values)
    assert found.operations == 1
    np.testing.assert_array_equal(found.expected["y"], [2, 2, 2])
    with pytest.raises(InputError, match="no array for the input 'x'"):
        candidate_of_proto(make_model(nodes, values, ["y"]), {})


def test_constants_of_another_file_come_along(make_model, has, tmp_path):
    values = {"x": np.ones((2, 64), np.float32)}
    weight = np.arange(4096, dtype=np.float32).reshape(64, 64)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Relu", ["m"], ["y"]),
    ]
    model = make_model(nodes, values, ["y"], w=weight)
    path = tmp_path / "net.onnx"
    onnx.save(model, path, save_as_external_data=True, location="net.data", size_threshold=16)
    found = candidate_of(ex.load(path), values)
    np.testing.assert_array_equal(found.expected["y"][0], weight.sum(axis=0))
    left = reduce(found, has("MatMul")).candidate
    assert left.elements == 2
    onnx.checker.check_model(left.model, full_check=True)


def test_a_model_that_one_file_cannot_hold_is_refused(make_model, monkeypatch):
    values = {"x": np.ones(3, np.float32)}
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], values, ["y"])
    monkeypatch.setattr("explorer.reducing.candidate.MAX_BYTES", 10)
    with pytest.raises(InputError, match="more than 2 GiB"):
        candidate_of_proto(model, values)


def test_the_imported_program_stands_in_where_onnxruntime_refuses(make_model, has):
    """Operators of other tools: onnxruntime has no Quant."""
    domain = "qonnx.custom_op.general"
    attributes = {"signed": 1, "narrow": 0, "rounding_mode": "ROUND"}
    nodes = [
        helper.make_node("Sin", ["x"], ["s"]),
        helper.make_node(
            "Quant", ["s", "step", "zero", "bits"], ["q"], domain=domain, **attributes
        ),
        helper.make_node("Relu", ["q"], ["y"]),
    ]
    numbers = {"step": 0.5, "zero": 0.0, "bits": 4.0}
    values = {"x": np.linspace(-3, 3, 8, dtype=np.float32)}
    model = make_model(nodes, values, ["y"], **{n: np.float32(a) for n, a in numbers.items()})
    model.opset_import.append(helper.make_opsetid(domain, 1))
    found = candidate_of_proto(model, values)
    assert found.is_interpreted
    left = reduce(found, has("Quant")).candidate
    assert [node.op_type for node in left.model.graph.node] == ["Quant"]
    assert left.inputs["s"].size == 1


def test_old_models_have_initializers_that_are_inputs(make_model, has):
    values = {"x": np.ones(3, np.float32)}
    model = make_model(
        [helper.make_node("Mul", ["x", "k"], ["y"])], values, ["y"], k=np.ones(3, "f")
    )
    model.graph.input.append(helper.make_tensor_value_info("k", 1, [3]))
    model.ir_version = 3
    assert not candidate_of_proto(model, values).is_interpreted
    assert list(reduce(candidate_of_proto(model, values), has("Mul")).candidate.inputs) == ["x"]


def test_an_operation_between_others_is_passed_by_and_that_of_an_output_stays(make_model):
    values = {"x": np.array([1, -2], np.float32)}
    nodes = [
        helper.make_node("Sin", ["x"], ["s"]),
        helper.make_node("Neg", ["s"], ["n"]),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    whole = candidate_of_proto(make_model(nodes, values, ["y"]), values)
    trials: Any = SimpleNamespace(report=lambda *words: None, fails=lambda candidate: True)
    (node,) = pass_by_operations(trials, whole).model.graph.node
    assert (node.op_type, list(node.input), list(node.output)) == ("Relu", ["x"], ["y"])
