"""If, Loop and Scan: what becomes a region, what is resolved, and what is refused by name.

Models are written in ONNX's text form; results are compared with onnxruntime.
"""

from collections.abc import Callable

import numpy as np
import onnx
import onnx.parser
import pytest

import explorer.onnx_backend as backend
from explorer.compilation import compile_model
from explorer.errors import UnsupportedError
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import entry_function, specialized_inputs
from explorer.ir.operation import TopOperation
from explorer.ir.structure import operations
from explorer.ir.top.control import IfOp, LoopOp

EXACT = 0.0
X = np.arange(12, dtype=np.float32).reshape(3, 4)


def parse(graph: str, opset: int = 16) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {graph}')


def found(snapshot, kind: type[TopOperation]) -> list:
    return [op for op in operations(snapshot.program) if isinstance(op, kind)]


SUMS = """agraph (float[3, 4] x, float[4] start) => (float[4] last, float[3, 4] all) {
    last, all = Scan (start, x) <num_scan_inputs = 1, body = body
        (float[4] state, float[4] row) => (float[4] next, float[4] out) {
            next = Add (state, row)
            out = Identity (next)
        }>
}"""


def test_a_scan_becomes_a_loop_over_slices(snapshot: Callable, compare: Callable) -> None:
    model = from_proto(parse(SUMS))
    (loop,) = found(snapshot(model), LoopOp)
    assert (loop.get("trip_count"), loop.get("scans")) == (3, 1)
    assert compare(model, {"x": X, "start": np.ones(4, np.float32)}) == EXACT


def test_a_scan_over_a_symbolic_axis_keeps_its_count_as_an_operand(
    snapshot: Callable, compare: Callable
) -> None:
    model = from_proto(parse(SUMS.replace("3, 4", '"n", 4')))
    (loop,) = found(snapshot(model), LoopOp)
    assert loop.get("trip_count") is None and loop.count is not None
    inputs = {"x": X, "start": np.ones(4, np.float32)}
    assert compare(model, inputs) == EXACT
    assert compare(model, inputs, {"n": 3}) == EXACT


def test_a_scan_may_walk_other_axes_backwards(compare: Callable) -> None:
    attributes = (
        "num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], "
        "scan_output_axes = [1], scan_output_directions = [1]"
    )
    text = SUMS.replace("num_scan_inputs = 1", attributes).replace("float[4]", "float[3]")
    model = from_proto(
        parse(text.replace("float[3, 4] all", "float[3, 4] rows").replace("all", "rows"))
    )
    assert compare(model, {"x": X, "start": np.ones(3, np.float32)}) == EXACT


def test_a_loop_ends_by_its_condition(snapshot: Callable, compare: Callable) -> None:
    text = """agraph (float x, float limit) => (float last, float[n] all) {
        most = Constant <value = int64 {10}> ()
        go = Constant <value = bool {1}> ()
        last, all = Loop (most, go, x) <body = body
            (int64 i, bool before, float state) => (bool goes_on, float next, float out) {
                two = Constant <value = float {2.0}> ()
                next = Mul (state, two)
                out = Identity (state)
                goes_on = Less (next, limit)
            }>
    }"""
    model = from_proto(parse(text))
    (loop,) = found(snapshot(model), LoopOp)
    assert loop.get("trip_count") == 10 and loop.condition is not None
    for limit in (1, 20, 1e9):
        inputs = {"x": np.array(1.5, np.float32), "limit": np.array(limit, np.float32)}
        assert compare(model, inputs) == EXACT


NESTED = """agraph (int64 count, float[2] x) => (float[2] last) {
    go = Constant <value = bool {1}> ()
    last = Loop (count, go, x) <body = outer
        (int64 i, bool a, float[2] state) => (bool b, float[2] next) {
            b = Identity (a)
            three = Constant <value = int64 {3}> ()
            inner = Loop (three, b, state) <body = inside
                (int64 j, bool c, float[2] held) => (bool d, float[2] changed) {
                    d = Identity (c)
                    number = Cast <to = 1> (i)
                    moved = Add (held, x)
                    changed = Add (moved, number)
                }>
            next = Neg (inner)
        }>
}"""


def test_loops_nest_and_see_what_is_around_them(snapshot: Callable, compare: Callable) -> None:
    model = from_proto(parse(NESTED))
    outer, inner = found(snapshot(model), LoopOp)
    assert inner.parent_op() is outer
    assert outer.get("trip_count") is None and inner.get("trip_count") == 3
    assert outer.condition is None, "a condition that is always true is none"
    for count in (0, 1, 4):
        assert compare(model, {"count": np.array(count), "x": np.float32([1, 2])}) == EXACT


GROWING = """agraph (float[2] x) => (float[n] last) {
    COUNT
    go = Constant <value = bool {1}> ()
    last = Loop (count, go, x) <body = body
        (int64 i, bool a, float[m] state) => (bool b, float[k] next) {
            b = Identity (a)
            next = Concat <axis = 0> (state, x)
        }>
}"""


def test_a_state_that_grows_is_unrolled_where_the_count_is_known(
    snapshot: Callable, compare: Callable
) -> None:
    model = from_proto(parse(GROWING.replace("COUNT", "count = Constant <value = int64 {3}> ()")))
    assert not found(snapshot(model), LoopOp)
    assert compare(model, {"x": np.float32([1, 2])}) == EXACT


def test_a_state_that_grows_an_unknown_number_of_times_has_no_size(compare: Callable) -> None:
    text = GROWING.replace("COUNT", "").replace("(float[2] x)", "(float[2] x, int64 count)")
    model = from_proto(parse(text))
    for count in (0, 3):
        assert compare(model, {"x": np.float32([1, 2]), "count": np.array(count)}) == EXACT


def test_branches_of_different_rank_need_a_condition_that_is_known(snapshot: Callable) -> None:
    proto = parse("""agraph (bool go, float[1, 3] x) => (y) {
        y = If (go) <
            then_branch = yes () => (a) { a = Relu (x) },
            else_branch = no () => (b) { s = Constant <value_ints = [3]> () b = Reshape (x, s) }>
    }""")
    x = np.float32([[1, -2, 3]])
    with pytest.raises(UnsupportedError) as caught:
        snapshot(from_proto(proto))
    reason = "which branch is taken depends on the inputs, and one region returns 1x3 f32"
    assert reason in caught.value.problems[0]
    runner = backend.prepare(proto, "INTERPRETER")
    np.testing.assert_array_equal(runner.run([np.array(True), x])[0], [[1, 0, 3]])
    np.testing.assert_array_equal(runner.run([np.array(False), x])[0], [1, -2, 3])


def test_a_branch_that_does_not_fit_the_sizes_cannot_be_meant(
    snapshot: Callable, compare: Callable
) -> None:
    """The program is right only for inputs that lead to the other branch, and says so."""
    model = from_proto(
        parse("""agraph (int64 rate, float[m, n] x) => (y) {
        sixteen = Constant <value = int64 {16000}> ()
        go = Equal (rate, sixteen)
        y = If (go) <
            then_branch = yes () => (a) { v = Constant <value_floats = [1.0, 2.0, 3.0]> ()
                a = MatMul (x, v) },
            else_branch = no () => (b) { w = Constant <value_floats = [1.0, 2.0]> ()
                b = MatMul (x, w) }>
    }""")
    )
    sizes = {"m": 2, "n": 3}
    assert compare(model, {"rate": np.array(16000), "x": X[:2, :3]}, sizes) <= 2e-6
    program = snapshot(model, sizes).program
    assert specialized_inputs(entry_function(program)) == ("rate",)


def test_a_branch_returns_a_sequence(snapshot: Callable) -> None:
    proto = parse("""agraph (bool go, float[2] x) => (seq(float[2]) y) {
        y = If (go) <
            then_branch = yes () => (seq(float[2]) a) { a = SequenceConstruct (x, x) },
            else_branch = no () => (seq(float[2]) b) { n = Neg (x) b = SequenceConstruct (x, n) }>
    }""")
    (branch,) = found(snapshot(from_proto(proto)), IfOp)
    assert len(branch.results) == 2
    first, second = backend.prepare(proto, "INTERPRETER").run(
        [np.array(False), np.float32([1, 2])]
    )[0]
    np.testing.assert_array_equal([first, second], [[1, 2], [-1, -2]])


def test_a_sequence_in_a_loop_of_unknown_length_is_refused_by_name(snapshot: Callable) -> None:
    proto = parse("""agraph (int64 count, float[2] x) => (seq(float[2]) y) {
        go = Constant <value = bool {1}> ()
        empty = SequenceEmpty ()
        y = Loop (count, go, empty) <body = body
            (int64 i, bool a, seq(float[2]) list) => (bool b, seq(float[2]) longer) {
                b = Identity (a)
                longer = SequenceInsert (list, x)
            }>
    }""")
    with pytest.raises(UnsupportedError) as caught:
        snapshot(from_proto(proto))
    assert "the state list is a sequence or an optional" in caught.value.problems[0]
    rows = backend.prepare(proto, "INTERPRETER").run([np.array(3), np.float32([1, 2])])[0]
    np.testing.assert_array_equal(rows, [[1, 2]] * 3)


SEQUENCES = [
    ("s = SequenceConstruct (x, y) z = SequenceAt (s, zero)", lambda x, y: x),
    ("s = SequenceConstruct (x, y) z = SequenceLength (s)", lambda x, y: np.array(2)),
    (
        "s = SequenceConstruct (x, y) t = SequenceInsert (s, y, zero) "
        "z = ConcatFromSequence <axis = 0> (t)",
        lambda x, y: np.concatenate([y, x, y]),
    ),
    (
        "s = SequenceConstruct (x, y, x) t = SequenceErase (s, zero) "
        "z = ConcatFromSequence <axis = 1, new_axis = 1> (t)",
        lambda x, y: np.stack([y, x], 1),
    ),
    (
        "s = SplitToSequence <axis = 1> (x, two) z = SequenceAt (s, zero)",
        lambda x, y: x[:, :2],
    ),
    (
        "s = SplitToSequence <keepdims = 0> (x) z = SequenceAt (s, zero)",
        lambda x, y: x[0],
    ),
    (
        "s = SequenceConstruct (x, y) t = SequenceMap (s, y) <body = body "
        "(float[3, 4] a, float[3, 4] b) => (float[3, 4] c) { c = Sub (a, b) }> "
        "z = SequenceAt (t, zero)",
        lambda x, y: x - y,
    ),
    ("o = Optional (x) z = OptionalGetElement (o)", lambda x, y: x),
    ("o = Optional (x) z = OptionalHasElement (o)", lambda x, y: np.array(True)),
]


@pytest.mark.parametrize(("nodes", "expected"), SEQUENCES)
def test_sequences_and_optionals_leave_only_tensors(nodes: str, expected: Callable) -> None:
    proto = parse(
        "agraph (float[3, 4] x, float[3, 4] y) => (z) {"
        "zero = Constant <value = int64 {0}> () two = Constant <value = int64 {2}> ()"
        f"{nodes} }}",
        opset=18,
    )
    (z,) = backend.prepare(proto, "INTERPRETER").run([X, X * 2 + 1])
    np.testing.assert_array_equal(z, expected(X, X * 2 + 1))


def test_sequences_as_inputs_and_outputs_of_the_backend() -> None:
    proto = parse(
        "agraph (seq(float[n]) s, float x) => (seq(float[n]) t) { t = SequenceInsert (s, x) }"
    )
    runner = backend.prepare(proto, "INTERPRETER")
    x = np.array(7, np.float32)
    for given in ([], [np.float32(1)], [np.float32(1), np.float32(2)]):
        assert runner.run([given, x])[0] == [*given, 7]
    with pytest.raises(UnsupportedError, match="input 's' is a sequence: which tensors it holds"):
        from_proto(proto)


def test_long_recurrent_layers_are_loops_and_short_ones_are_unrolled(
    make_model: Callable, snapshot: Callable, compare: Callable
) -> None:
    generator = np.random.default_rng(0)
    weights = {
        "W": generator.standard_normal((2, 12, 4)).astype(np.float32) / 4,
        "R": generator.standard_normal((2, 12, 3)).astype(np.float32) / 4,
    }
    for length, loops in ((5, 0), (100, 2)):
        x = generator.standard_normal((length, 2, 4)).astype(np.float32)
        node = onnx.helper.make_node(
            "LSTM", ["x", "W", "R"], ["y", "h", "c"], hidden_size=3, direction="bidirectional"
        )
        model = from_proto(make_model([node], {"x": x}, weights, 14))
        assert len(found(snapshot(model), LoopOp)) == loops
        assert compare(model, {"x": x}) <= 2e-6


def test_recurrent_layers_with_every_option(make_model: Callable, compare: Callable) -> None:
    generator = np.random.default_rng(1)

    def floats(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape).astype(np.float32) / 2

    inputs = {
        "x": floats(5, 2, 4),
        "w": floats(1, 12, 4),
        "r": floats(1, 12, 3),
        "b": floats(1, 24),
    }
    inputs |= {
        "n": np.int32([5, 2]),
        "h0": floats(1, 2, 3),
        "c0": floats(1, 2, 3),
        "p": floats(1, 9),
    }
    for direction in ("forward", "reverse"):
        for attributes in (
            {"clip": 0.3},
            {"input_forget": 1},
            {"activations": ["HardSigmoid", "Softsign", "Affine"], "activation_alpha": [0.3, 0.7]},
        ):
            node = onnx.helper.make_node(
                "LSTM",
                list(inputs),
                ["y", "h", "c"],
                hidden_size=3,
                direction=direction,
                **attributes,
            )
            assert compare(from_proto(make_model([node], inputs, {}, 14)), inputs) <= 4e-6


def test_loops_in_loops_cannot_ask_for_any_number_of_nodes(snapshot: Callable) -> None:
    """Three levels of 1,000 iterations with a state that grows: unrolled, a billion nodes."""
    body = "next = Concat <axis = 0> (STATE, x)"
    for level in range(3):
        inner, outer = f"s{level}", f"r{level}"
        body = (
            f"{outer} = Loop (many, go, STATE) <body = b{level} (int64 i{level}, bool a{level}, "
            f"float[m{level}] {inner}) => (bool c{level}, float[k{level}] "
            f"{'next' if level == 0 else f'r{level - 1}'}) "
            f"{{ c{level} = Identity (a{level}) {body.replace('STATE', inner)} }}>"
        )
    proto = parse(
        "agraph (float[2] x) => (r2) { many = Constant <value = int64 {1000}> () "
        f"go = Constant <value = bool {{1}}> () {body.replace('STATE', 'x')} }}"
    )
    with pytest.raises(UnsupportedError) as caught:
        snapshot(from_proto(proto))
    assert "more than 10,000 nodes in all" in " ".join(caught.value.problems)


def test_a_loop_of_symbolic_length_is_unrolled_when_it_is_compiled(make_model: Callable) -> None:
    floats = np.random.default_rng(0).standard_normal
    weights = {
        "W": floats((1, 12, 4)).astype(np.float32),
        "R": floats((1, 12, 3)).astype(np.float32),
    }
    node = onnx.helper.make_node("LSTM", ["x", "W", "R"], ["y"], hidden_size=3)
    proto = make_model([node], {"x": np.zeros((6, 1, 4), np.float32)}, weights, 14)
    for axis, name in enumerate(("length", "batch")):
        proto.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    compilation = compile_model(from_proto(proto), "cpu", dimensions={"length": 6, "batch": 1})
    assert found(compilation["import"].after, LoopOp)
    assert not found(compilation["fold-constants"].after, LoopOp)
