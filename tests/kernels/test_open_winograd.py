"""Winograd's tiles where a call decides the sizes: equal to the program of each size bit by bit,
and to onnxruntime, whatever the buffers hold beyond a call's elements."""

from functools import cache

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import explorer
from explorer.importers.onnx import from_proto

CHANNELS = 16


@cache
def graph(pads: str = "1,1,1,1", batch: str = "1", residual: bool = False) -> onnx.ModelProto:
    """Two convolutions of 16 channels, each with a bias and an activation."""
    random = np.random.default_rng(3)
    weights = [
        onnx.numpy_helper.from_array(random.normal(0, 0.1, shape).astype(np.float32), name)
        for name, shape in (("k", (16, 16, 3, 3)), ("l", (16, 16, 3, 3)), ("c", (16,)))
    ]
    end = "y = Add (v, x)" if residual else "y = Identity (v)"
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> '
        f"g (float[{batch},16,h,w] x) => (float[n,16,o,q] y) {{ "
        f"u = Conv <pads = [{pads}]> (x, k, c)  r = Relu (u) "
        f"v = Conv <pads = [{pads}]> (r, l, c)  {end} }}"
    )
    proto.graph.initializer.extend(weights)
    return proto


def compiled(proto: onnx.ModelProto, form: str, sizes, **settings):
    """With every convolution in one form."""
    names = {d.dim_param for d in proto.graph.input[0].type.tensor_type.shape.dim}
    sizes = {name: size for name, size in sizes.items() if name in names}
    first = explorer.compile(from_proto(proto, name="g"), dimensions=sizes, **settings)
    addresses = [
        knob.address
        for knob in first.knobs
        if knob.address.endswith("/schedule") and form in knob.choices
    ]
    assert len(addresses) == 2
    return first.fork(decisions=dict.fromkeys(addresses, form))


def given(sizes, seed: int = 0) -> dict[str, np.ndarray]:
    shape = (sizes.get("b", 1), CHANNELS, sizes["h"], sizes["w"])
    return {"x": np.random.default_rng(seed).normal(size=shape).astype(np.float32)}


def wanted(proto: onnx.ModelProto, inputs) -> np.ndarray:
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    return session.run(None, inputs)[0]


def assert_near(found: np.ndarray, proto: onnx.ModelProto, inputs) -> None:
    right = wanted(proto, inputs)
    assert found.shape == right.shape
    assert np.abs(found - right).max() <= 2e-5 * max(np.abs(right).max(), 1)


RANGES = {"h": (1, 10), "w": (1, 13)}
SEQUENCE = [(10, 13), (1, 1), (3, 4), (4, 3), (5, 12), (2, 13), (10, 1), (8, 8), (1, 5), (10, 13)]


@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize("form", ["winograd2", "winograd4"])
def test_sizes_that_grow_and_shrink_read_nothing_of_earlier_calls(form):
    proto = graph(residual=True)
    c = compiled(proto, form, RANGES)
    dirty = {"x": np.full((1, CHANNELS, 10, 13), np.nan, np.float32)}
    dirty["x"][:, ::2] = np.inf
    for threads in (1, 2):
        with c.open(threads=threads, isolated=False) as program:
            for place, (height, width) in enumerate(SEQUENCE):
                inputs = given({"h": height, "w": width}, place)
                program.run(dirty)
                assert_near(program.run(inputs)["y"], proto, inputs)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("form", "height", "width"),
    [("winograd2", 1, 1), ("winograd2", 5, 11), ("winograd4", 5, 11), ("winograd4", 8, 4)],
)
def test_bits_are_those_of_the_program_of_that_size(form, height, width):
    """Also of what Inf and NaN at the edges of the call spread to."""
    proto, sizes = graph(), {"h": height, "w": width}
    inputs = given(sizes)
    edges = {"x": inputs["x"].copy()}
    edges["x"][0, 0, -1, -1], edges["x"][0, 3, 0, -1], edges["x"][0, 5, -1, 0] = (
        np.nan,
        np.inf,
        -np.inf,
    )
    one, every = compiled(proto, form, sizes), compiled(proto, form, RANGES)
    with one.open(isolated=False) as fixed, every.open(isolated=False) as program:
        for own in (inputs, edges):
            right, found = fixed.run(own)["y"], program.run(own)["y"]
            assert np.isnan(right).any() == (own is edges)
            assert np.array_equal(found, right, equal_nan=True)


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize("pads", ["0,0,0,0", "0,1,2,0", "1,0,0,2"])
def test_pads_on_any_side(pads):
    """Without zeros around them, tiles at the end reach over what a call has."""
    proto = graph(pads)
    c = compiled(proto, "winograd4", {"h": (5, 10), "w": (5, 13)})
    with c.open(isolated=False) as program:
        program.run({"x": np.full((1, CHANNELS, 10, 13), np.nan, np.float32)})
        for height, width in ((5, 5), (8, 9), (10, 13), (7, 6)):
            inputs = given({"h": height, "w": width})
            assert_near(program.run(inputs)["y"], proto, inputs)


@pytest.mark.usefixtures("quick_builds")
def test_images_of_a_batch():
    proto = graph(batch="b")
    c = compiled(proto, "winograd2", {**RANGES, "b": (1, 3)})
    with c.open(isolated=False) as program:
        program.run({"x": np.full((3, CHANNELS, 10, 13), np.nan, np.float32)})
        for sizes in (
            {"b": 2, "h": 5, "w": 6},
            {"b": 1, "h": 10, "w": 2},
            {"b": 3, "h": 3, "w": 13},
        ):
            inputs = given(sizes)
            assert_near(program.run(inputs)["y"], proto, inputs)


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize("open_axis", ["h", "w"])
def test_one_open_axis(open_axis):
    proto = graph()
    sizes = {"h": 9, "w": 9, open_axis: (1, 9)}
    c = compiled(proto, "winograd4", sizes)
    with c.open(isolated=False) as program:
        program.run(given({"h": 9, "w": 9}))
        for size in (1, 6):
            inputs = given({"h": 9, "w": 9, open_axis: size})
            assert_near(program.run(inputs)["y"], proto, inputs)


@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize(
    "plan",
    [
        {"order": "bands", "rows": 1, "band": 1, "bands": 5},
        {"order": "groups", "rows": 1, "band": 2},
        {"order": "bands", "rows": 1, "band": 2, "bands": 2, "pixels": 3},
    ],
    ids=str,
)
def test_orders_of_tiles(plan):
    """Rows of tiles one by one, several together with one left over, and groups of channels."""
    proto = graph()
    c = compiled(proto, "winograd2", RANGES)
    last = sorted({knob.address.split("/")[1] for knob in c.knobs if "conv_3x3" in knob.address})[
        -1
    ]
    decided = {f"schedule-loops/{last}/{name}": value for name, value in plan.items()}
    d = c.fork(decisions=decided)
    assert [d.decisions()[address] for address in decided] == list(decided.values())
    with d.open(isolated=False) as program:
        program.run({"x": np.full((1, CHANNELS, 10, 13), np.nan, np.float32)})
        for height, width in ((1, 1), (10, 13), (5, 6), (3, 12), (9, 2)):
            inputs = given({"h": height, "w": width})
            assert_near(program.run(inputs)["y"], proto, inputs)


@pytest.mark.opencl
def test_opencl():
    proto = graph(residual=True)
    c = compiled(proto, "winograd4", RANGES, target="opencl")
    with c.open() as program:
        program.run({"x": np.full((1, CHANNELS, 10, 13), np.nan, np.float32)})
        for height, width in SEQUENCE[:5]:
            inputs = given({"h": height, "w": width})
            assert_near(program.run(inputs)["y"], proto, inputs)


def test_launches_of_one_kernel_that_need_different_sizes_have_no_tiles():
    """One of them would mix what the other has with what its own call has not."""
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> '
        "g (float[1,16,h,w] x, float[1,16,w,h] z) => (float[1,16,h,w] y, float[1,16,w,h] v) "
        "{ y = Conv <pads = [1,1,1,1]> (x, k)  v = Conv <pads = [1,1,1,1]> (z, k) }"
    )
    proto.graph.initializer.append(graph().graph.initializer[0])
    c = explorer.compile(from_proto(proto, name="g"), dimensions={"h": (1, 64), "w": (1, 64)})
    (knob,) = [k for k in c.knobs if "conv_3x3" in k.address and k.address.endswith("/schedule")]
    assert not {"winograd2", "winograd4"} & set(knob.choices)
    assert "no winograd tiles: its launches need different sizes" in knob.why


@pytest.mark.parametrize(("least", "form"), [(1, "direct"), (14, "winograd4")])
def test_forms_are_chosen_for_the_sizes_of_all_calls(least, form):
    """A plane of one pixel takes 36 products for one output."""
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> '
        "g (float[1,96,h,w] x) => (float[1,32,h,w] y) { y = Conv <pads = [1,1,1,1]> (x, k) }"
    )
    weights = np.ones((32, 96, 3, 3), np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "k"))
    dimensions = {"h": (least, 20), "w": (least, 20)}
    c = explorer.compile(from_proto(proto, name="g"), dimensions=dimensions)
    (knob,) = [k for k in c.knobs if k.address == "schedule-loops/conv_3x3_1/schedule"]
    assert knob.value == form
    assert "mean of three sizes" in knob.why
