"""A past of onnxruntime's GroupQueryAttention as onnxruntime-genai exports it: `seqlens_k` is the
sum of a mask without 1, and `total_sequence_length` its size. onnxruntime judges."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import explorer as ex
from explorer.compilation.checking_calls import check_calls
from explorer.errors import InputError, UnsupportedError
from explorer.importers.onnx.file.reading import from_proto
from explorer.importers.states import with_named_states

FOLDER = Path(__file__).parents[1] / "importers"
models = SimpleNamespace(**run_path(str(FOLDER / "language_models.py")))
HEADS, SHARED, SIZE = 4, 2, 16
OPERANDS = ["q", "k", "v", "past.key", "past.value", "lasts", "total"]
MORE = ["cosines", "sines", "positions", "bias", "sinks"]
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def attention(
    packed: bool = False,
    more: tuple[str, ...] = (),
    keepdims: int = 1,
    last: int = 1,
    past: int | str = "p",
    **attributes: Any,
) -> onnx.ModelProto:
    """A layer of open sizes. more: further operands; last: what is taken off the sum."""

    def value(name: str, *shape: int | str, kind: int = TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, kind, shape)

    angles = np.random.default_rng(5).standard_normal((64, SIZE // 2)).astype(np.float32)
    weights = {"axis": np.array([1]), "last": np.array([last]), "place": np.array(1)}
    weights |= {"cosines": np.cos(angles), "sines": np.sin(angles)} if "cosines" in more else {}
    columns = {"q": HEADS * SIZE, "k": SHARED * SIZE, "v": SHARED * SIZE}
    if packed:
        columns = {"q": (HEADS + 2 * SHARED) * SIZE}
    inputs = [value(name, "b", "rows", size) for name, size in columns.items()]
    inputs += [value("mask", "b", "all", kind=TensorProto.INT64)]
    inputs += [value(f"past.{n}", "b", SHARED, past, SIZE) for n in ("key", "value")]
    if "positions" in more:
        inputs.append(value("positions", "b", "rows", kind=TensorProto.INT64))
    if "bias" in more:
        inputs.append(value("bias", 1, 1, "rows", "all"))
    if "sinks" in more:
        weights["sinks"] = np.linspace(-1, 1, HEADS).astype(np.float32)
    names = [n if n not in ("k", "v") or not packed else "" for n in OPERANDS]
    names += [n if n in more else "" for n in MORE]
    while not names[-1]:
        names.pop()
    nodes = [
        helper.make_node("ReduceSum", ["mask", "axis"], ["tokens"], keepdims=keepdims),
        helper.make_node("Sub", ["tokens", "last"], ["before"]),
        helper.make_node("Cast", ["before"], ["lasts"], to=TensorProto.INT32),
        helper.make_node("Shape", ["mask"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "place"], ["size"], axis=0),
        helper.make_node("Cast", ["size"], ["total"], to=TensorProto.INT32),
        helper.make_node(
            "GroupQueryAttention",
            names,
            ["y", "present.key", "present.value"],
            domain="com.microsoft",
            num_heads=HEADS,
            kv_num_heads=SHARED,
            do_rotary=int("cosines" in more),
            **attributes,
        ),
    ]
    rows = past if isinstance(past, int) else "all"
    outputs = [value("y", "b", "rows", HEADS * SIZE)]
    outputs += [value(f"present.{n}", "b", SHARED, rows, SIZE) for n in ("key", "value")]
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


class Loop:
    """Calls with the past of the call before, each compared with onnxruntime's."""

    def __init__(self, proto: onnx.ModelProto, batch: int = 1, valid: int = 0) -> None:
        self.judge = onnxruntime.InferenceSession(proto.SerializeToString())
        self.random = np.random.default_rng(1)
        self.batch = batch
        self.past = {
            f"past.{name}": self.floats(batch, SHARED, valid, SIZE) for name in ("key", "value")
        }

    def floats(self, *shape: int) -> np.ndarray:
        return self.random.standard_normal(shape, np.float32)

    def inputs(self, rows: int = 1) -> dict[str, np.ndarray]:
        """Of a call that adds rows, with masks of ones."""
        before = self.past["past.key"].shape[2]
        found: dict[str, np.ndarray] = {}
        for value in self.judge.get_inputs():
            sizes = {"b": self.batch, "rows": rows, "p": before, "all": before + rows}
            shape = [sizes.get(size, size) for size in value.shape]
            if value.name == "mask":
                found["mask"] = np.ones(shape, np.int64)
            elif value.name == "positions":
                places = np.arange(before, before + rows)[None]
                found["positions"] = np.repeat(places, self.batch, 0)
            elif value.name not in self.past:
                found[value.name] = self.floats(*shape)
        return {**found, **self.past}

    def call(self, session: Any, inputs: dict[str, np.ndarray]) -> None:
        """Compares all outputs; the judge's present is the next past."""
        names = [value.name for value in self.judge.get_outputs()]
        expected = dict(zip(names, self.judge.run(None, inputs), strict=True))
        found = session.run(inputs)
        for name in names:
            assert found[name].shape == expected[name].shape
            np.testing.assert_allclose(found[name], expected[name], **TOLERANCE)
        self.past = {f"past.{n}": expected[f"present.{n}"] for n in ("key", "value")}


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "sums without the axis": {"keepdims": 0},
    "packed and turned": {"packed": True, "more": ("cosines", "sines")},
    "turned in pairs": {"more": ("cosines", "sines"), "rotary_interleaved": 1},
    "turned by positions": {"more": ("cosines", "sines", "positions")},
    "a window": {"local_window_size": 3},
    "capped in a window": {"softcap": 1.5, "local_window_size": 4},
    "smooth": {"smooth_softmax": 1},
    "sinks": {"more": ("sinks",), "scale": 0.2},
}


@pytest.mark.parametrize(("case", "batch"), [(c, 1 + i % 2) for i, c in enumerate(CASES)])
def test_a_loop_takes_two_compilations(case: str, batch: int):
    proto = attention(**CASES[case])
    loop = Loop(proto, batch)
    with ex.Session(from_proto(proto), isolated=False) as session:
        loop.call(session, loop.inputs(rows=3))
        for _ in range(6):
            loop.call(session, loop.inputs())
        assert Counter(call.event for call in session.calls) == {"compiled": 2, "hit": 5}


@pytest.mark.parametrize("isolated", [False, True])
def test_a_decoder_takes_two_compilations(isolated: bool):
    proto = models.language_model("com.microsoft")
    judge = onnxruntime.InferenceSession(proto.SerializeToString())
    names = [value.name for value in judge.get_outputs()]
    random, past, tokens = np.random.default_rng(0), None, np.array([[3, 1, 2]])
    with ex.Session(from_proto(proto), isolated=isolated) as session:
        for _ in range(12):
            inputs = models.model_inputs(tokens, past)
            found = session.run(inputs)
            past = dict(zip(names, judge.run(None, inputs), strict=True))
            for name in names:
                np.testing.assert_allclose(found[name], past[name], **TOLERANCE)
            tokens = random.integers(0, 32, (1, 1))
        assert Counter(call.event for call in session.calls) == {"compiled": 2, "hit": 10}


ZEROS = {
    "left": [(-1, slice(0, 2))],
    "right": [(-1, slice(-2, None))],
    "the last": [(0, slice(-1, None))],
    "middle": [(-1, slice(2, 4))],
    "all sequences": [(0, slice(1, 2)), (-1, slice(3, 4))],
}


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("batch", [1, 2])
def test_a_mask_with_zeros_has_another_program(batch: int, isolated: bool):
    """Calls with both kinds of masks take turns; the past has rows of which a sequence has none."""
    proto = attention(more=("cosines", "sines"), local_window_size=5)
    loop = Loop(proto, batch, valid=6)
    with ex.Session(from_proto(proto), isolated=isolated) as session:
        loop.call(session, loop.inputs())
        past = loop.past
        for places in ZEROS.values():
            loop.past = past
            inputs = loop.inputs()
            for row, part in places:
                inputs["mask"][row, part] = 0
            loop.call(session, inputs)
            assert "mask does not consist of ones" in session.why()
            loop.past = past
            loop.call(session, loop.inputs())
            assert session.calls[-1].event == "hit"
        assert Counter(call.event for call in session.calls)["compiled"] == 2


def test_a_capacity_of_the_caller_is_for_masks_of_ones():
    proto = attention()
    loop = Loop(proto, valid=3)
    with ex.Session(from_proto(proto), capacity=16, isolated=False) as session:
        loop.call(session, loop.inputs())
        inputs = loop.inputs()
        inputs["mask"][0, 1] = 0
        loop.call(session, inputs)
        loop.call(session, loop.inputs())
        assert [call.event for call in session.calls] == ["compiled", "compiled", "hit"]


@pytest.mark.parametrize("rows", [1, 2])
def test_a_program_with_a_capacity_refuses_other_masks(rows: int):
    proto = attention(more=("cosines", "sines"))
    batch = 3 - rows  # onnxruntime takes several rows after a past of one sequence only
    loop = Loop(proto, batch, valid=3)
    c = ex.compile(from_proto(proto), dimensions={"rows": rows, "b": batch}, capacity=8)
    assert all((a == 1).all() for n, a in c.example_inputs().items() if n == "mask")
    loop.call(c, loop.inputs(rows))
    inputs = loop.inputs(rows)
    for number in (0, 2, -1):
        wrong = {**inputs, "mask": inputs["mask"].copy()}
        wrong["mask"][-1, 2] = number
        for isolated in (False, True):
            with c.open(isolated=isolated) as program:
                with pytest.raises(InputError, match="`mask` has other numbers than 1"):
                    program.run(wrong)
                loop.call(program, inputs)
                loop.past = {name: inputs[name] for name in loop.past}
        for made in (0, 1, -1):
            with pytest.raises(InputError, match="`mask` has other numbers than 1"):
                c.passes[made].after.run(wrong)
    assert c.accuracy().passed
    for rest in (inputs["mask"][:, :-1], np.ones((batch, 9), np.int64)):
        with pytest.raises(InputError, match="disagree about the valid length"):
            c.run({**inputs, "mask": rest})


def test_states_of_a_program_follow_masks_of_ones():
    proto = attention(more=("cosines", "sines"))
    c = ex.compile(from_proto(proto), dimensions={"rows": 1}, capacity=8)
    assert check_calls(c, 5).passed
    loop = Loop(proto)
    with c.open(isolated=False, remembers=True) as program:
        for count in range(4):
            inputs = loop.inputs()
            own = {name: a for name, a in inputs.items() if name not in loop.past}
            if count == 2:
                wrong = {**own, "mask": np.array([[1, 0, 1]])}
                with pytest.raises(InputError, match="other numbers than 1"):
                    program.run(wrong)
            expected = loop.judge.run(None, inputs)
            np.testing.assert_allclose(program.run(own)["y"], expected[0], **TOLERANCE)
            loop.past = dict(zip(loop.past, expected[1:], strict=True))


def test_a_buffer_of_a_fixed_size_has_no_capacity():
    """Past and present have one shape: new rows are written where the mask says."""
    proto = attention(more=("cosines", "sines"), past=8)
    loop = Loop(proto, valid=8)
    with ex.Session(from_proto(proto), isolated=False) as session:
        inputs = loop.inputs()
        inputs["mask"] = np.ones((1, 4), np.int64)
        loop.call(session, inputs)
    with pytest.raises(InputError, match="no state of the model grows"):
        ex.compile(from_proto(proto), dimensions={"rows": 1, "all": 4}, capacity=8)


def test_a_buffer_of_an_open_size_has_no_capacity():
    """A mask that is shorter than the past with new rows: the past is a buffer."""
    proto = attention()
    loop = Loop(proto, valid=8)
    with ex.Session(from_proto(proto), isolated=False) as session:
        inputs = loop.inputs()
        inputs["mask"] = np.ones((1, 5), np.int64)
        loop.call(session, inputs)
        loop.call(session, loop.inputs())
        programs = [p.compilation.program for p in session.programs if p.compilation]
        assert [program.length is None for program in programs] == [True, False]


@pytest.mark.parametrize("last", [0, 2])
def test_other_lengths_than_those_of_a_mask_have_no_capacity(last: int):
    """`seqlens_k` is one more or less: a mask of ones does not say that all rows count."""
    reason = "present.key has .* rows: all decides it, and not p"
    with pytest.raises(UnsupportedError, match=reason):
        ex.compile(from_proto(attention(last=last)), dimensions={"rows": 1}, capacity=8)


def test_a_past_that_is_no_state_stays_what_it_is():
    """Keys are a state and values are none: a mask does not say that all of both count."""
    model = from_proto(attention())
    model = with_named_states(model, "past.key=present.key")
    with pytest.raises(UnsupportedError, match="all decides it, and not p"):
        ex.compile(model, dimensions={"rows": 1}, capacity=8)


def test_a_package_and_a_model_of_onnx_take_no_masks_that_they_cannot_check(tmp_path: Path):
    c = ex.compile(from_proto(attention()), dimensions={"rows": 1}, capacity=8)
    with pytest.raises(UnsupportedError, match="`mask`"):
        c.package(tmp_path / "package")
    with pytest.raises(UnsupportedError, match="`mask`"):
        c.to_onnx()
