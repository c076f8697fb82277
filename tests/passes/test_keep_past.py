"""A past that grows in a state with a capacity: onnxruntime judges, at every length."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import explorer as ex
from explorer.errors import InputError, UnsupportedError
from explorer.importers.onnx.file.reading import from_proto

decoders = SimpleNamespace(**run_path(str(Path(__file__).with_name("decoders.py"))))
CAPACITY = 9
CASES = [*((kind, 1) for kind in decoders.KINDS), ("given mask", 2)]


class Judge:
    """A decoder by onnxruntime, which is given the whole past."""

    def __init__(self, proto: onnx.ModelProto) -> None:
        self.session = onnxruntime.InferenceSession(proto.SerializeToString())
        self.inputs = [value.name for value in self.session.get_inputs()]
        heads = proto.graph.input[-1].type.tensor_type.shape.dim[1].dim_value
        self.shape = (1, heads, 0, decoders.SIZE)

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        names = [value.name for value in self.session.get_outputs()]
        return dict(zip(names, self.session.run(None, dict(inputs)), strict=True))

    def numbers(self, past: int, new: int, seed: int = 0) -> dict[str, np.ndarray]:
        """Inputs but for the past; some of what came before is masked."""
        random = np.random.default_rng(seed)
        mask = np.ones((1, past + new), np.int64)
        mask[0, : past // 3] = 0
        every = {
            "input_ids": random.integers(0, decoders.WORDS, (1, new)),
            "attention_mask": mask,
            "position_ids": np.arange(past, past + new)[None],
        }
        return {name: array for name, array in every.items() if name in self.inputs}

    def pasts(self, rows: int, seed: int = 0) -> dict[str, np.ndarray]:
        random = np.random.default_rng(seed)
        shape = (*self.shape[:2], rows, self.shape[3])
        names = [name for name in self.inputs if name.startswith("past")]
        return {name: random.standard_normal(shape).astype(np.float32) for name in names}


def close(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    for name, array in found.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("new", [1, 3])
@pytest.mark.parametrize(("kind", "shared"), CASES)
def test_one_program_is_right_for_every_length(kind: str, shared: int, new: int):
    proto = decoders.exported(kind, shared)
    judge = Judge(proto)
    compilation = ex.compile(from_proto(proto), dimensions={"seq": new}, capacity=CAPACITY)
    assert set(compilation["write-in-place"].artifacts["state copies"].values()) == {""}
    for past in (CAPACITY - new, 0, 1, 5):
        inputs = {**judge.numbers(past, new), **judge.pasts(past)}
        found, expected = compilation.run(inputs), judge.run(inputs)
        assert found["present.0.key"].shape == expected["present.0.key"].shape
        close(found, expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("kind", "shared"), CASES)
def test_states_are_what_a_caller_would_carry(kind: str, shared: int):
    proto = decoders.exported(kind, shared)
    judge = Judge(proto)
    compilation = ex.compile(from_proto(proto), dimensions={"seq": 1}, capacity=CAPACITY)
    past = {name: np.zeros(judge.shape, np.float32) for name in judge.pasts(0)}
    with compilation.open(isolated=False, remembers=True) as program:
        assert program.copied_bytes == 0
        for row in range(CAPACITY):
            inputs = judge.numbers(row, 1, seed=row)
            expected = judge.run({**inputs, **past})
            close(program.run(inputs), expected)
            past = {n: expected[n.replace("past_key_values", "present")] for n in past}
            close(program.state(), past)
        before = program.state()
        with pytest.raises(InputError, match="9 rows are valid and a call adds 1"):
            program.run(judge.numbers(CAPACITY, 1))
        close(program.state(), before)
        program.load({name: array[:, :, :4] for name, array in past.items()})
        other = program.fork()
        program.reset()
        assert (program.valid_rows, other.valid_rows) == (0, 4)
        kept = {name: array[:, :, :4] for name, array in past.items()}
        inputs = judge.numbers(4, 1, seed=7)
        close(other.run(inputs), judge.run({**inputs, **kept}))
        other.close()


@pytest.mark.sweep
def test_every_pass_is_checked_against_the_model():
    compilation = ex.compile(
        from_proto(decoders.exported("given positions")), dimensions={"seq": 1}, capacity=4
    )
    assert compilation.accuracy().passed


def appended(*nodes: onnx.NodeProto, inputs: tuple[str, ...] = ()) -> onnx.ModelProto:
    """present = concat(past, new), and what else becomes of it."""

    def value(name: str, *shape: int | str):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    joined = helper.make_node("Concat", ["past", "new"], ["present"], axis=1)
    graph = helper.make_graph(
        [joined, *nodes],
        "g",
        [value("new", 1, 1, 4), value("past", 1, "p", 4)],
        [value("present", 1, "all", 4), value("y", *inputs)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([helper.make_node("ReduceMean", ["present"], ["y"], axes=[1])], "mixes elements"),
        ([helper.make_node("ReduceSum", ["past"], ["y"])], "read without its new rows"),
        (
            [
                helper.make_node("Transpose", ["present"], ["t"], perm=[0, 2, 1]),
                helper.make_node("MatMul", ["t", "present"], ["y"]),
            ],
            "mixes elements",
        ),
    ],
)
def test_what_mixes_rows_is_refused_by_name(nodes: list[onnx.NodeProto], words: str):
    with pytest.raises(UnsupportedError, match=words):
        ex.compile(from_proto(appended(*nodes)), capacity=8)


def test_a_capacity_without_a_state_that_grows_is_refused():
    model = from_proto(appended(helper.make_node("Relu", ["new"], ["y"])))
    assert ex.compile(model, capacity=2).program.length is not None
    with pytest.raises(InputError, match="a call adds 1 rows, and the capacity is 1"):
        ex.compile(model, capacity=1)
    with pytest.raises(InputError, match="expected 1 to"):
        ex.compile(model, capacity=1 << 40)
    other = from_proto(decoders.exported("no mask"))
    with pytest.raises(InputError, match="it grows with each call"):
        ex.compile(
            other, dimensions={"seq": 1, "past": 3}, states="past_key_values.0.key=present.0.key"
        )


def test_inputs_that_disagree_about_the_length_are_refused():
    proto = decoders.exported("compared")
    judge = Judge(proto)
    compilation = ex.compile(from_proto(proto), dimensions={"seq": 1}, capacity=CAPACITY)
    inputs = {**judge.numbers(3, 1), **judge.pasts(3)}
    key = "past_key_values.0.key"
    with pytest.raises(InputError, match="disagree about the valid length"):
        compilation.run({**inputs, key: judge.pasts(4)[key]})
    with pytest.raises(InputError, match="9 rows are valid and a call adds 1"):
        compilation.run({**judge.numbers(9, 1), **judge.pasts(9)})
