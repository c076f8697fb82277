"""Results over operands that die, and states that are written where they lie.

NumPy judges the numbers, and a compilation without the pass: both are equal bit by bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from xdsl.dialects import affine, func
from xdsl.dialects.builtin import IntegerType, f32, i32, i64
from xdsl.ir.affine import AffineExpr

import explorer as ex
from explorer.compilation import Compilation
from explorer.compilation.arena_check import check_arena
from explorer.importers.onnx.file.reading import from_proto
from explorer.ir.compute import KernelBuilder
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.overwriting import NotInPlace, written_over
from explorer.kernels.printing.c import print_c

TYPES = {
    "float32": TensorProto.FLOAT,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
}
Values = Mapping[str, tuple[str, Sequence[int]]]


def model(nodes: Sequence, inputs: Values, outputs: Values, **constants: np.ndarray) -> ModelProto:
    def values(of: Values) -> list:
        return [helper.make_tensor_value_info(n, TYPES[t], s) for n, (t, s) in of.items()]

    weights = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(list(nodes), "g", values(inputs), values(outputs), weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def floats(*shape: int) -> tuple[str, Sequence[int]]:
    return "float32", shape


def over(compilation: Compilation) -> dict[str, str]:
    """What values took the place of, by their names."""
    found = {}
    for function in compilation.final.program.body.block.ops:
        for op in function.body.block.ops:
            if getattr(op, "overwritten", None) is not None:
                found[op.results[0].name_hint] = op.overwritten.name_hint
    return found


def both(proto: ModelProto, target: str = "cpu", **options):
    """The compilations with and without the pass."""
    source = from_proto(proto)
    return (
        ex.compile(source, target, **options),
        ex.compile(source, target, disable=["write-in-place"], **options),
    )


def equal(proto: ModelProto, target: str = "cpu", **options) -> Compilation:
    """The compilation with the pass, once its numbers are those without it in three calls."""
    with_pass, without = both(proto, target, **options)
    for seed in range(3):
        inputs = with_pass.example_inputs(seed)
        found, expected = with_pass.run(inputs), without.run(inputs)
        for name, array in expected.items():
            assert found[name].tobytes() == array.tobytes(), name
    return with_pass


CHAIN = model(
    [
        helper.make_node("Exp", ["x"], ["a"]),
        helper.make_node("Softmax", ["a"], ["b"]),
        helper.make_node("Sigmoid", ["b"], ["c"]),
        helper.make_node("Softmax", ["c"], ["y"]),
    ],
    {"x": floats(4, 37)},
    {"y": floats(4, 37)},
)


@pytest.mark.parametrize("target", ["cpu", "opencl"])
def test_elementwise_results_take_the_place_of_operands_that_die(target: str):
    compilation = equal(CHAIN, target)
    assert over(compilation) == {"exp1": "x.device", "sigmoid1": "softmax1"}
    declined = {e.site: e.reason for e in compilation["write-in-place"].rewrites if not e.applied}
    assert set(declined) == {"softmax1", "softmax2"}


def cast(source: str, result: str, kind: str):
    return helper.make_node("Cast", [source], [result], to=TYPES[kind])


OTHER_TYPES = {
    "casts": (
        model(
            [
                helper.make_node("Mul", ["x", "large"], ["a"]),
                cast("a", "b", "int32"),
                helper.make_node("Mul", ["b", "b"], ["c"]),
                cast("c", "d", "float32"),
                helper.make_node("Softmax", ["d"], ["y"]),
            ],
            {"x": floats(3, 70)},
            {"y": floats(3, 70)},
            large=np.array(9.5, np.float32),
        ),
        {"cast1": "mul1", "cast2": "mul2"},
    ),
    "bytes": (
        model(
            [
                helper.make_node("Add", ["x", "x"], ["a"]),
                cast("a", "b", "uint8"),
                helper.make_node("Max", ["b", "small"], ["c"]),
                cast("c", "d", "int8"),
                helper.make_node("Sub", ["d", "five"], ["y"]),
            ],
            {"x": ("int8", (5, 37))},
            {"y": ("int8", (5, 37))},
            small=np.array(17, np.uint8),
            five=np.array(5, np.int8),
        ),
        {"cast1": "add1", "cast2": "max1"},
    ),
    "scales": (
        model(
            [
                helper.make_node("QuantizeLinear", ["x", "s", "z"], ["a"]),
                helper.make_node("DequantizeLinear", ["a", "s", "z"], ["b"]),
                helper.make_node("Relu", ["b"], ["c"]),
                helper.make_node("QuantizeLinear", ["c", "t", "u"], ["d"]),
                helper.make_node("DequantizeLinear", ["d", "t", "u"], ["e"]),
                helper.make_node("Softmax", ["e"], ["y"]),
            ],
            {"x": floats(1, 8, 6, 6)},
            {"y": floats(1, 8, 6, 6)},
            s=np.array(0.03, np.float32),
            z=np.array(3, np.int8),
            t=np.array(0.02, np.float32),
            u=np.array(128, np.uint8),
        ),
        {"requantize1": "quantizelinear1"},
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", ["cpu", "opencl"])
@pytest.mark.parametrize("name", OTHER_TYPES)
def test_results_take_the_place_of_operands_of_another_type(name: str, target: str):
    """Of as many bytes: f32 and i32, i8 and ui8. No byte is read that has been overwritten."""
    model, found = OTHER_TYPES[name]
    compilation = equal(model, target)
    assert found.items() <= over(compilation).items()
    if target == "cpu":
        assert all(record.passed for record in check_arena(compilation))


def test_what_is_read_later_or_returned_keeps_its_place():
    compilation = equal(
        model(
            [
                helper.make_node("Exp", ["x"], ["a"]),
                helper.make_node("Sigmoid", ["a"], ["b"]),
                helper.make_node("Neg", ["b"], ["c"]),
                helper.make_node("Softmax", ["c"], ["d"]),
                helper.make_node("Add", ["d", "a"], ["y"]),
            ],
            {"x": floats(3, 5)},
            {"y": floats(3, 5), "b": floats(3, 5)},
        )
    )
    found = over(compilation)
    assert "a" not in {place[0] for place in found.values()}
    assert not {"exp1", "sigmoid1"} & set(found.values())


def test_an_operand_that_is_read_twice_is_not_written_over():
    compilation = equal(
        model(
            [helper.make_node("Softmax", ["x"], ["a"]), helper.make_node("Add", ["a", "a"], ["y"])],
            {"x": floats(2, 5)},
            {"y": floats(2, 5)},
        )
    )
    assert over(compilation) == {}


def test_launches_of_one_kernel_write_in_place_or_apart():
    """a + b is needed later, the other sums are not: one kernel in two forms."""
    compilation = equal(
        model(
            [
                helper.make_node("Softmax", ["x"], ["a"]),
                helper.make_node("Softmax", ["z"], ["b"]),
                helper.make_node("Sub", ["a", "b"], ["c"]),
                helper.make_node("Softmax", ["c"], ["d"]),
                helper.make_node("Sub", ["c", "d"], ["e"]),
                helper.make_node("Mul", ["a", "b"], ["f"]),
                helper.make_node("MatMul", ["e", "f"], ["y"]),
            ],
            {"x": floats(8, 8), "z": floats(8, 8)},
            {"y": floats(8, 8)},
        )
    )
    kernels = {launch.operation: launch.kernel for launch in compilation.program.launches}
    assert kernels["sub1"] == "sub_1" and kernels["sub2"] == "sub_1_over_x"
    assert "sub_1_over_x" in {estimate.kernel for estimate in compilation.costs()}
    assert not compilation.fork(decisions=compilation.decisions()).unmet


def test_the_live_bound_is_lower_by_what_shares_a_place():
    path = Path(__file__).parents[2] / "sample_models/digits_resnet.onnx"
    with_pass, without = ex.compile(path), ex.compile(path, disable=["write-in-place"])
    assert with_pass.memory.bound_bytes < without.memory.bound_bytes


def test_a_decision_keeps_a_value_apart():
    address = "write-in-place/over/exp1"
    compilation = equal(CHAIN, decisions={address: False})
    assert "exp1" not in over(compilation)
    assert {k.address: k.value for k in compilation.knobs}[address] is False


STATES = ["cache=cache:next", "h=h:next"]


def cached(*between: str) -> ModelProto:
    """A row is written into a cache; `between` come from the old cache after that."""
    nodes = [helper.make_node("ScatterND", ["cache", "place", "row"], ["cache:next"])]
    nodes += [helper.make_node("Exp", ["cache"], [name]) for name in between]
    nodes += [
        helper.make_node("ReduceSum", ["cache:next"], ["y"], keepdims=0),
        helper.make_node("Softmax", ["h"], ["s"]),
        helper.make_node("Add", ["s", "row"], ["t"]),
        helper.make_node("Softmax", ["t"], ["h:next"]),
    ]
    return model(
        nodes,
        {
            "cache": floats(9, 7),
            "h": floats(1, 7),
            "place": ("int64", (1, 1)),
            "row": floats(1, 7),
        },
        {
            "y": floats(),
            "cache:next": floats(9, 7),
            "h:next": floats(1, 7),
            **{name: floats(9, 7) for name in between},
        },
    )


@pytest.mark.parametrize("target", ["cpu", "opencl"])
def test_a_state_is_written_where_it_lies(target: str):
    compilation = equal(cached(), target, states=STATES)
    ports = {
        port.name: port for port in (*compilation.program.inputs, *compilation.program.outputs)
    }
    for before, after in (state.split("=") for state in STATES):
        assert ports[before].offset_bytes == ports[after].offset_bytes
    with compilation.open(isolated=False, remembers=True) as program:
        assert program.copied_bytes == 0
        cache = np.zeros((9, 7), np.float32)
        for place in (0, 3, 3, -1):
            row = np.full((1, 7), place + 2, np.float32)
            cache[place] = row
            found = program.run({"place": np.array([[place]]), "row": row})
            np.testing.assert_allclose(found["y"], cache.sum())
        np.testing.assert_array_equal(program.state()["cache"], cache)


def test_a_state_that_is_read_after_it_is_written_is_copied_with_the_reason():
    compilation = equal(cached("e"), states=STATES[:1])
    copies = compilation["write-in-place"].artifacts["state copies"]
    assert copies == {"cache": "exp1 reads it when scatternd1 is written already"}
    with compilation.open(isolated=False, remembers=True) as program:
        assert program.copied_bytes == 2 * 9 * 7 * 4
        row = np.ones((1, 7), np.float32)
        for place in range(3):
            found = program.run({"place": np.array([[place]]), "row": row, "h": row})
            assert (found["e"] != 1).any(axis=1).sum() == place


def test_a_state_is_one_buffer_with_its_name_through_all_steps():
    compilation = ex.compile(from_proto(cached()), states=STATES)
    buffers = {p.buffer.state: p.buffer for p in compilation.memory.placements if p.buffer.state}
    assert set(buffers) == {"cache", "h"}
    for buffer in buffers.values():
        assert (buffer.first, buffer.last) == (0, len(compilation.memory.steps))
    assert "state cache: cache.device, scatternd1" in str(compilation.memory)
    copied = ex.compile(from_proto(cached("e")), states=STATES[:1])
    assert not any(p.buffer.state for p in copied.memory.placements)


def random_graph(seed: int) -> ModelProto:
    """Elementwise operations and 1x1 convolutions over values that were made before, some of which
    are outputs, so that they may not be overwritten."""
    rng = np.random.default_rng(seed)
    names, nodes = ["x", "z"], []
    shape = (1, 8, 6, 6)
    weight = rng.normal(size=(8, 8, 1, 1)).astype(np.float32) / 4
    for i in range(int(rng.integers(4, 11))):
        kind = str(rng.choice(["Add", "Sub", "Mul", "Max", "Relu", "Neg", "Sigmoid", "Conv"]))
        recent = names[-4:]
        given = [str(rng.choice(recent))]
        if kind in ("Add", "Sub", "Mul", "Max"):
            given.append(str(rng.choice(recent)))
        if kind == "Conv":
            given.append("w")
        names.append(f"v{i}")
        nodes.append(helper.make_node(kind, given, [names[-1]]))
    made = names[2:]
    kept = {made[-1], *(name for name in made if rng.random() < 0.2)}
    outputs = {name: floats(*shape) for name in made if name in kept}
    return model(nodes, {"x": floats(*shape), "z": floats(*shape)}, outputs, w=weight)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(24))
def test_no_number_of_a_random_graph_changes(seed: int):
    """Bit by bit, and no byte is read that has been overwritten."""
    c = equal(random_graph(seed))
    assert all(record.passed for record in check_arena(c))


def two_types(kind: IntegerType = i32, is_reversed=False, is_needed_later=False) -> func.FuncOp:
    """y[i] = x[i] + z[i] as another type; x is read from its end on, or once more at last."""
    k = KernelBuilder("cast")
    x = k.argument("x", (9,), f32, "input")
    z = k.argument("z", (9,), f32, "input")
    y = k.argument("y", (9,), kind, "output")
    k.argument("t", (9,), f32, "scratch")
    (i,) = k.dimensions(i=9)
    place = AffineExpr.constant(8) - i if is_reversed else i
    k.generic("plain", [(x, [place]), (z, [i])], (y, [i]), lambda s, x, z: (x + z).convert(kind))
    kernel = lower_to_loops(k.finish("elementwise"))
    if is_needed_later:
        load = next(op for op in kernel.walk() if isinstance(op, affine.LoadOp))
        store = next(op for op in kernel.walk() if isinstance(op, affine.StoreOp))
        assert load.parent is store.parent is not None
        scratch = kernel.body.block.args[3]
        again = affine.StoreOp(load.result, scratch, store.indices, store.map)
        store.parent.insert_op_after(again, store)
    return kernel


def test_only_pointers_to_the_same_bytes_may_meet_in_c():
    """What C reads as f32 was stored as f32: it is read through a pointer of its own type."""
    text = "\n".join(print_c(written_over(two_types(), "x"), "cast").lines)
    assert "const float *x," in text and "int32_t *y," in text
    assert "const float *restrict z," in text
    assert "restrict x" in "\n".join(print_c(two_types(), "cast").lines)


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (two_types(is_reversed=True), "after others"),
        (two_types(kind=i64), "wider elements"),
        (two_types(is_needed_later=True), "needed after another type"),
    ],
)
def test_an_operand_of_another_type_is_not_written_over(kernel: func.FuncOp, reason: str):
    with pytest.raises(NotInPlace, match=reason):
        written_over(kernel, "x")
