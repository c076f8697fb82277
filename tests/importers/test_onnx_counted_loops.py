"""Loops whose condition counts, as Keras and tf2onnx write recurrent layers.

Their number of iterations is found by counting, whatever else the body computes.
"""

import numpy as np
import onnx
import onnx.parser
import pytest

from explorer.compilation import compile_model
from explorer.errors import UnsupportedError
from explorer.importers.onnx import from_proto
from explorer.importers.onnx.operators import control
from explorer.ir.structure import operations
from explorer.ir.top.control import LoopOp

INPUTS = {
    "x": np.random.default_rng(0).standard_normal((6, 2, 4)).astype(np.float32),
    "h0": np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32),
}
# Six steps of tanh on sums of two numbers.
TOLERANCE = 1e-6

STEP = """
    one = Constant <value = int32 {1}> ()
    row_of_x = Gather <axis = 0> (x, time)
    total = Add (row_of_x, h)
    h1 = Tanh (total)
    time1 = Add (time, one)
    go = Less (time1, steps)
"""
ROWS = f"""(int64 i, bool c, int32 counter, int32 time, float[2,4] h) =>
    (bool both, int32 counter1, int32 time1, float[2,4] h1, float[2,4] row) {{ {STEP}
        row = Identity (h1)
        counter1 = Add (counter, one)
        below = Less (counter1, steps)
        both = And (go, below)
    }}"""
ARRAY = f"""(int64 i, bool c, int32 time, float[2,4] h, float[6,2,4] array) =>
    (bool go, int32 time1, float[2,4] h1, float[6,2,4] array1) {{ {STEP}
        shape = Constant <value = int64[2] {{1, 1}}> ()
        time64 = Cast <to = 7> (time)
        place = Reshape (time64, shape)
        first = Constant <value = int64[1] {{0}}> ()
        update = Unsqueeze (h1, first)
        array1 = ScatterND (array, place, update)
    }}"""
LIST = f"""(int64 i, bool c, int32 time, float[2,4] h, seq(float[2,4]) list) =>
    (bool go, int32 time1, float[2,4] h1, seq(float[2,4]) list1) {{ {STEP}
        list1 = SequenceInsert (list, h1)
    }}"""
GROWING = f"""(int64 i, bool c, int32 time, float[2,4] h, float[n,4] rows) =>
    (bool go, int32 time1, float[2,4] h1, float[m,4] rows1) {{ {STEP}
        rows1 = Concat <axis = 0> (rows, h1)
    }}"""
MANY = "many = Constant <value = int64 {9223372036854775807}> ()"
SIX = "steps = Constant <value = int32 {6}> ()"
LENGTH = """size = Shape <start = 0, end = 1> (x)
            number = Squeeze (size)
            steps = Cast <to = 6> (number)"""
START = """zero = Constant <value = int32 {0}> ()
           go0 = Less (zero, steps)"""


def loop(body: str, states: str, result: str, before: str = "", steps: str = SIX, limit="many"):
    """A model that runs the body; before, result: nodes around the loop."""
    names = ", ".join(f"state{i}" for i in range(states.count(",") + 1))
    rows = ", scanned" if "row = Identity" in body else ""
    return onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 16]>
        agraph (float[6,2,4] x, float[2,4] h0) => (y) {{
            {MANY} {steps} {START} {before}
            {names}{rows} = Loop ({limit}, go0, {states}) <body = b {body}>
            {result}
        }}"""
    )


ARRAY0 = "shape0 = Constant <value = int64[3] {6, 2, 4}> () array0 = ConstantOfShape (shape0)"
FORMS = {
    "rows": (ROWS, "zero, zero, h0", "y = Identity (scanned)"),
    "an array": (ARRAY, "zero, h0, array0", "y = Identity (state2)", ARRAY0),
    "a list": (
        LIST,
        "zero, h0, list0",
        "y = ConcatFromSequence <axis = 0, new_axis = 1> (state2)",
        "list0 = SequenceEmpty ()",
    ),
    "a tensor that grows": (GROWING, "zero, h0, h0", "y = Identity (state2)"),
}


@pytest.mark.parametrize("limit", ["many", ""], ids=["with a limit", "without"])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_counter_ends_the_loop(compare, snapshot, form, limit):
    model = from_proto(loop(*form, limit=limit))
    assert compare(model, INPUTS) <= TOLERANCE
    loops = [op for op in operations(snapshot(model).program) if isinstance(op, LoopOp)]
    for op in loops:
        assert op.get("trip_count") == 6 and op.condition is None


def test_a_counted_loop_is_compiled_at_the_length_of_its_input():
    proto = loop(*FORMS["rows"], steps=LENGTH)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "length"
    model = from_proto(proto)
    for length in (6, 3):
        inputs = INPUTS | {"x": INPUTS["x"][:length]}
        h, rows = inputs["h0"], []
        for row in inputs["x"]:
            h = np.tanh(row + h)
            rows.append(h)
        found = compile_model(model, dimensions={"length": length}).run(inputs)["y"]
        assert np.allclose(found, rows, rtol=0, atol=TOLERANCE)


def test_a_condition_that_data_decide_is_no_count(snapshot, compare):
    """It ends as soon as a sum is above a number."""
    body = ARRAY.replace(
        "go = Less (time1, steps)",
        """
        square = Mul (h1, h1)
        sum = ReduceSum <keepdims = 0> (square)
        most = Constant <value = float {5.5}> ()
        small = Less (sum, most)
        below = Less (time1, steps)
        go = And (small, below)""",
    )
    model = from_proto(loop(body, *FORMS["an array"][1:]))
    (op,) = (op for op in operations(snapshot(model).program) if isinstance(op, LoopOp))
    assert op.condition is not None
    assert compare(model, INPUTS) <= TOLERANCE


def test_a_loop_that_is_too_long_says_how_long_it_is():
    steps = SIX.replace("{6}", "{1000}")
    body = ROWS.replace("(x, time)", "(x, zero)")
    model = from_proto(loop(body, "zero, zero, h0", "y = Identity (state2)", steps=steps))
    with pytest.raises(UnsupportedError) as caught:
        compile_model(model, host=False)
    assert "operations 1,000 times; at most 4,096 in all" in caught.value.problems[0]
    assert "leave them to the host (without --no-host)" in caught.value.hint


def test_a_list_that_gets_too_long_is_refused(snapshot, monkeypatch):
    monkeypatch.setattr(control, "LONGEST_UNROLLED", 8)
    steps = SIX.replace("{6}", "{1000}")
    body = LIST.replace("(x, time)", "(x, zero)")
    form = (body, *FORMS["a list"][1:])
    with pytest.raises(UnsupportedError) as caught:
        snapshot(from_proto(loop(*form, steps=steps)))
    assert "more than 8 iterations; at most 8 are written out" in caught.value.problems[0]
