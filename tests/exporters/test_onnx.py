"""Programs written as ONNX: onnxruntime computes what they mean, and they read back the same."""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import explorer
from explorer.errors import InputError, ModelError, UnsupportedError
from explorer.exporters.onnx import file as onnx_file
from explorer.exporters.onnx import model_of, write_onnx
from explorer.exporters.onnx.model import _writers
from explorer.ir.evaluation import entry_function, outputs_by_name
from explorer.ir.structure import record
from explorer.ir.top import OPERATIONS
from explorer.ir.weights import Weights

sys.path.insert(0, str(Path(__file__).parents[1]))
from programs import program, random_inputs
from source_models import source_model

NEVER_WRITTEN = {
    "top.weight",  # an initializer
    "top.return",  # the graph's outputs
    "top.transfer",  # only after placement
    "top.convert_layout",
    "top.matmul_blocks",  # only after `fuse-quantization`
    "top.integer_softmax",  # these three only after `compute-without-floats`
    "top.integer_log_softmax",
    "top.integer_layer_norm",
    "top.simulate_quantization",  # only in programs that simulate a quantization
    "top.node",  # a node that only contents decide
    "top.solve",  # ONNX has none of these
    "top.orthogonalize",
    "top.lu",
    "top.cholesky",
    "top.householder",
    "top.reflect",
}


LITERALLY = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


def session_of(model, level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL):
    """One thread."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def run(model, inputs, level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL):
    """Outputs by name."""
    session = session_of(model, level)
    names = {i.name for i in session.get_inputs()}
    found = session.run(None, {k: v for k, v in inputs.items() if k in names})
    return dict(zip([o.name for o in session.get_outputs()], found, strict=True))


def test_every_operation_has_a_writer():
    written = {kind.name for kind in _writers()}
    assert {kind.name for kind in OPERATIONS} - written == NEVER_WRITTEN


F = "tensor<2x4x6x6xf32>"
WINDOW = "dilations = [1, 1], pads = [1, 0, 1, 0], strides = [2, 1], window = [3, 2]"
ONE = {
    "unary leaky": f'%y = top.unary(%x) {{alpha = 0.3, kind = "leaky_relu"}} : {F}',
    "unary silu": f'%y = top.unary(%x) {{alpha = 1.7, kind = "silu"}} : {F}',
    "unary clip": f'%y = top.unary(%x) {{alpha = -0.5, beta = 0.5, kind = "clip"}} : {F}',
    "unary gelu": f'%y = top.unary(%x) {{kind = "gelu_tanh"}} : {F}',
    "unary infinite": """%e = top.unary(%x) {kind = "reciprocal"} : tensor<2x4x6x6xf32>
        %y = top.unary(%e) {kind = "is_infinite"} : tensor<2x4x6x6xi1>""",
    "binary mod": f"""%w = top.weight() {{weight = "w"}} : tensor<6xf32>
        %y = top.binary(%x, %w) {{kind = "mod"}} : {F}""",
    **{
        f"binary {kind}": f"""%w = top.weight() {{weight = "w"}} : tensor<6xf32>
        %y = top.binary(%x, %w) {{kind = "{kind}"}} : {F}"""
        for kind in ("hypot", "copy_sign")
    },
    "whole numbers": f"""%q = top.quantize(%x) {{to = !top.quantized<i32, 0.25:0>}} :
            tensor<2x4x6x6x!top.quantized<i32, 0.25:0>>
        %y = top.dequantize(%q) {{to = f32}} : {F}""",
    "quantize blocks": """%q, %s, %t = top.quantize_blocks(%x) {block = 3} :
            tensor<2x4x6x6x!top.quantized<i8, axis 3, block 3>>, tensor<2x4x6x2xf32>,
            tensor<2x4x6x2xi32>
        %y = top.dequantize_blocks(%q, %s) : tensor<2x4x6x6xf32>""",
    "cast": "%y = top.cast(%x) {to = i32} : tensor<2x4x6x6xi32>",
    "conv": """%w = top.weight() {weight = "w"} : tensor<6x2x3x3xf32>
        %b = top.weight() {weight = "b"} : tensor<6xf32>
        %y = top.conv(%x, %w, bias = %b) {activation = "relu", dilations = [1, 1], group = 2,
            pads = [1, 1, 0, 1], strides = [2, 1]} : tensor<2x6x3x6xf32>""",
    "matmul": """%w = top.weight() {weight = "w"} : tensor<6x5xf32>
        %b = top.weight() {weight = "b"} : tensor<5xf32>
        %y = top.matmul(%x, %w, bias = %b) : tensor<2x4x6x5xf32>""",
    "max pool": f'%y = top.pool(%x) {{kind = "max", {WINDOW}}} : tensor<2x4x3x5xf32>',
    "positions": f'%y = top.pool(%x) {{kind = "max_position", {WINDOW}}} : tensor<2x4x3x5xi64>',
    "average": f"""%y = top.pool(%x) {{includes_padding = false, kind = "average", {WINDOW}}}
        : tensor<2x4x3x5xf32>""",
    "reduce nothing": f'%y = top.reduce(%x) {{axes = [], keepdims = false, kind = "l2"}} : {F}',
    "reduce": """%y = top.reduce(%x) {axes = [1, 3], keepdims = false, kind = "log_sum_exp"}
        : tensor<2x6xf32>""",
    "softmax of masked rows": f"""%d = top.binary(%x, %x) {{kind = "sub"}} : {F}
        %l = top.unary(%d) {{kind = "log"}} : {F}
        %y = top.softmax(%l) {{axis = 3, logarithm = false, zero_masked = true}} : {F}""",
    "slice backwards": """%y = top.slice(%x) {starts = [0, 3, 5, 1], steps = [1, -1, -2, 2],
        stops = [2, -1, -1, 6]} : tensor<2x4x3x3xf32>""",
    "pad between": """%y = top.pad(%x) {high = [0, 0, 2, 0], interior = [0, 0, 1, 2],
        low = [0, 1, 1, 0], value = 0.5} : tensor<2x5x14x16xf32>""",
    "layer norm": f"""%s = top.weight() {{weight = "s"}} : tensor<4x1x6xf32>
        %y = top.layer_norm(%x, scale = %s, shift = %s) {{axis = 2, epsilon = 0.00001}} : {F}""",
    "rms norm": f"""%s = top.weight() {{weight = "s"}} : tensor<6xf32>
        %y = top.layer_norm(%x, scale = %s) {{axis = 3, centered = false,
            epsilon = 0.00001}} : {F}""",
    "local norm": f"""%y = top.local_response_norm(%x) {{alpha = 0.1, beta = 0.75, bias = 1.0,
        size = 3}} : {F}""",
    "attention": """%k = top.slice(%x) {starts = [0, 0, 0, 0], steps = [1, 1, 1, 1],
            stops = [2, 2, 5, 6]} : tensor<2x2x5x6xf32>
        %b = top.weight() {weight = "b"} : tensor<6x5xf32>
        %y = top.attention(%x, %k, %k, bias = %b) {scale = 0.4} : tensor<2x4x6x6xf32>""",
    "rotary": f"""%c = top.weight() {{weight = "c"}} : tensor<6x6xf32>
        %y = top.rotary(%x, %c, %c) {{interleaved = true}} : {F}""",
    "rotary halves": f"""%c = top.weight() {{weight = "c"}} : tensor<6x6xf32>
        %y = top.rotary(%x, %c, %c) : {F}""",
    "interpolate": """%p = top.weight() {weight = "p"} : tensor<3x2xi64>
        %t = top.weight() {weight = "t"} : tensor<3x2xf32>
        %y = top.interpolate(%x, %p, %t) {axis = 2} : tensor<2x4x3x6xf32>""",
    "cumulative": f"""%y = top.cumulative(%x) {{axis = 2, exclusive = true, kind = "sum",
        reverse = true}} : {F}""",
    "arg": """%y = top.arg(%x) {axis = 1, keepdims = true, kind = "min", select_last = true}
        : tensor<2x1x6x6xi64>""",
    "quantized moves": """%q = top.quantize(%x) {to = !top.quantized<i8, 0.05:3>}
            : tensor<2x4x6x6x!top.quantized<i8, 0.05:3>>
        %r = top.pad(%q) {high = [0, 0, 1, 0], interior = [0, 0, 0, 0], low = [0, 0, 1, 0],
            value = 0.0} : tensor<2x4x8x6x!top.quantized<i8, 0.05:3>>
        %y = top.dequantize(%r) {to = f32} : tensor<2x4x8x6xf32>""",
    "sixteen bits": f"""%q = top.quantize(%x) {{to = !top.quantized<i16, axis 1,
            {{0.001:0, 0.002:0, 0.003:0, 0.004:5}}>}}
            : tensor<2x4x6x6x!top.quantized<i16, axis 1, {{0.001:0, 0.002:0, 0.003:0, 0.004:5}}>>
        %y = top.dequantize(%q) {{to = f32}} : {F}""",
    "loop": f"""%y = top.loop(%x) attributes {{scans = 0, trip_count = 3}} {{
        ^bb0(%i : tensor<i64>, %state : {F}):
          %n = top.binary(%state, %x) {{kind = "add"}} : {F}
          top.return(%n)
        }} : {F}""",
}
"""Operations whose nodes are more than their name, each as the end of a program."""


@pytest.mark.parametrize("text", ONE.values(), ids=ONE.keys())
def test_onnxruntime_computes_what_an_operation_means(text):
    positions = np.array([[0, 5], [1, 2], [4, 4]], np.int64)
    source = f"func.func @main(%x : {F}) {{ {text}\n top.return(%y) }}"
    snapshot = program(source, {"p": positions}).snapshot
    inputs = random_inputs(snapshot)
    model = model_of(snapshot, "one")
    onnx.checker.check_model(model, full_check=True)
    (found,) = run(model, inputs).values()
    expected = snapshot.run(inputs)["y"]
    assert found.shape == expected.shape and found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("kind", "is_one"), [("i8", True), ("i16", True), ("i32", False)])
def test_numbers_of_up_to_16_bits_are_quantized_by_one_node(kind: str, is_one: bool):
    text = f"""func.func @main(%x : {F}) {{
        %q = top.quantize(%x) {{to = !top.quantized<{kind}, 0.25:0>}}
            : tensor<2x4x6x6x!top.quantized<{kind}, 0.25:0>>
        %y = top.dequantize(%q) {{to = f32}} : {F}
        top.return(%y) }}"""
    nodes = model_of(program(text, {}).snapshot, "one").graph.node
    assert ([node.op_type for node in nodes] == ["QuantizeLinear", "DequantizeLinear"]) == is_one


@pytest.mark.parametrize(
    ("scale", "shift", "operators"),
    [
        ("6x6", "6x6", ["LayerNormalization"]),
        ("6x6", "6", ["LayerNormalization", "Add"]),
        ("6", "6x6", ["LayerNormalization", "Mul", "Add"]),
    ],
)
def test_a_normalization_takes_what_has_the_shape_of_its_slices(scale, shift, operators):
    text = f"""func.func @main(%x : {F}) {{
        %s = top.weight() {{weight = "s"}} : tensor<{scale}xf32>
        %t = top.weight() {{weight = "t"}} : tensor<{shift}xf32>
        %y = top.layer_norm(%x, scale = %s, shift = %t) {{axis = 2, epsilon = 0.00001}} : {F}
        top.return(%y) }}"""
    snapshot = program(text, {}).snapshot
    inputs = random_inputs(snapshot)
    model = model_of(snapshot, "one")
    assert [node.op_type for node in model.graph.node] == operators
    (found,) = run(model, inputs).values()
    np.testing.assert_allclose(found, snapshot.run(inputs)["y"], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("integers", "apart"), [("pairs", 1), ("exact", 0)])
def test_averages_of_another_scale_are_a_step_apart_or_exact(integers, apart):
    """As pairs onnxruntime fuses them, and rounds in its own way."""
    kinds = "!top.quantized<ui8, 0.05:90>", "!top.quantized<i8, 0.03:5>"
    text = f"""%q = top.quantize(%x) {{to = {kinds[0]}}} : tensor<2x4x6x6x{kinds[0]}>
        %a = top.integer_average(%q) {{window = [3, 2], strides = [2, 1], pads = [1, 0, 1, 0],
            by = #top.requantization<{kinds[1]}, doubling_high_multiply, nearest_away_from_zero>}}
            : tensor<2x4x3x5x{kinds[1]}>
        %y = top.bitcast(%a) {{to = i8}} : tensor<2x4x3x5xi8>"""
    snapshot = program(f"func.func @main(%x : {F}) {{ {text}\n top.return(%y) }}", {}).snapshot
    inputs = random_inputs(snapshot)
    (found,) = run(model_of(snapshot, "one", integers=integers), inputs).values()
    steps = found.astype(int) - snapshot.run(inputs)["y"]
    assert np.abs(steps).max() <= apart


@pytest.mark.parametrize("shape", ["4x3", "2x4x3", "1x2x4x3"])
def test_products_of_integers_with_a_bias_have_any_number_of_axes(shape):
    """A Gemm has matrices alone."""
    byte, word = "!top.quantized<i8, 0.0625:3>", "!top.quantized<i32, 0.001953125:0>"
    out = f"{shape[:-1]}5"
    text = f"""func.func @main(%x : tensor<{shape}xf32>) -> tensor<{out}xf32> {{
        %q = top.quantize(%x) {{to = {byte}}} : tensor<{shape}x{byte}>
        %w = top.weight() {{weight = "w"}} : tensor<3x5x!top.quantized<i8, 0.03125:0>>
        %b = top.weight() {{weight = "b"}} : tensor<5x{word}>
        %s = top.matmul(%q, %w, bias = %b) : tensor<{out}x{word}>
        %y = top.dequantize(%s) {{to = f32}} : tensor<{out}xf32>
        top.return(%y)
    }}"""
    given = {"w": np.arange(15, dtype=np.int8).reshape(3, 5) - 7, "b": np.arange(5, dtype=np.int32)}
    snapshot = program(text, given).snapshot
    inputs = random_inputs(snapshot)
    (found,) = run(model_of(snapshot, "one"), inputs, LITERALLY).values()
    np.testing.assert_allclose(found, snapshot.run(inputs)["y"], rtol=0, atol=1e-5)


def test_names_are_those_of_the_source(tmp_path):
    graph = """named (float[1,3,8,8] x) => (float[1,4,8,8] y) <float[4,3,3,3] w> {
        [first] c = Conv <pads = [1,1,1,1]> (x, w)
        [second] y = Sigmoid (c)
    }"""
    model = explorer.compile(source_model(tmp_path, graph), tuned=False).to_onnx()
    assert [(node.name, *node.output) for node in model.graph.node] == [
        ("first", "c"),
        ("second", "y"),
    ]
    assert model.opset_import[0].version == 21 and model.producer_name == "explorer"
    assert [i.name for i in model.graph.value_info] == ["c"]


@pytest.mark.parametrize("name", ["digits_cnn", "digits_transformer"])
def test_a_float_model_written_back_computes_the_same(sample_models, name):
    c = explorer.compile(sample_models / f"{name}.onnx", tuned=False)
    inputs = c.example_inputs()
    original = run(onnx.load(sample_models / f"{name}.onnx"), inputs)
    written = run(c.to_onnx(), inputs)
    assert written.keys() == original.keys()
    for output, expected in original.items():
        largest = np.abs(expected).max()
        # Constants were folded and operations reordered: single precision, a few roundings.
        assert np.abs(written[output] - expected).max() <= 2e-6 * largest


# -- quantized -------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["digits_mlp", "digits_transformer"])
def pair(request, sample_models, tmp_path_factory):
    """A quantized compilation, and that of what it was written as; inputs."""
    images = np.load(sample_models / "digits_test.npz")["images"]
    model = explorer.load(sample_models / f"{request.param}.onnx")
    table = explorer.calibrate(model, {"image": images[:20]}, method="min-max")
    c = explorer.compile(model, quantization=table, tuned=False)
    path = tmp_path_factory.mktemp("written") / "quantized.onnx"
    c.to_onnx(path)
    return c, explorer.compile(path, tuned=False), path, images[200:220]


@pytest.mark.sampled(1)
def test_what_is_read_back_is_the_same_integer_program(pair):
    c, again, _, images = pair
    assert structure(c["fuse-quantization"].after) == structure(again["fuse-quantization"].after)
    for image in images[:4]:
        (first,), (second,) = (each.run({"image": image[None]}).values() for each in (c, again))
        assert np.array_equal(first, second)


def structure(snapshot):
    """The IR without names: operations, the numbers of their operands, arrays by content."""
    block = entry_function(snapshot.program).body.block
    known = {argument: ("input", number) for number, argument in enumerate(block.args)}
    rows = []
    for op in block.ops:
        if op.name == "top.weight":
            array = snapshot.weights[op.weight.data]
            known[op.results[0]] = (array.dtype.str, array.shape, array.tobytes())
            continue
        kept = record(op)
        rows.append((op.name, [known[o] for o in op.operands], kept.properties, kept.types))
        known |= {result: (len(rows), number) for number, result in enumerate(op.results)}
    return rows


def test_onnxruntime_is_at_most_a_step_away(pair):
    """Steps are of the outputs' range in 255: they are sums, which nothing quantizes again.

    What lies half-way between two integers goes either way, and attention carries that on. How far
    it goes is measured by onnxruntime alone: the results of the file move so far where its scales
    differ by a millionth, a few roundings of single precision. One input may have no tie or
    several, so that the farthest of all inputs are compared; half of them are within a step.
    """
    c, _, path, images = pair
    model, plain = onnx.load(path), explorer.compile(c.model, tuned=False)
    inputs = [{"image": image[None]} for image in images]
    files = [model, *(with_other_scales(model, 1e-6, seed) for seed in range(6))]
    literal, *others = (on_all(session_of(file, LITERALLY), inputs) for file in files)
    theirs = on_all(session_of(model), inputs)
    ours, real = (
        np.array([next(iter(compiled.run(given).values())) for given in inputs])
        for compiled in (c, plain)
    )
    axes = tuple(range(1, real.ndim))
    step = (real.max(axes) - real.min(axes)) / 255
    assert np.array_equal(ours.argmax(-1), theirs.argmax(-1))
    apart = np.abs(ours - theirs).max(axes) / step
    moved = [np.abs(other - literal).max(axes) / step for other in (theirs, *others)]
    assert apart.max() <= max(1, np.max(moved))
    assert np.median(apart) <= 1


def on_all(session, inputs):
    """The first output for each of the inputs."""
    return np.array([session.run(None, given)[0] for given in inputs])


def with_other_scales(model, relative, seed):
    """A copy with scales that differ by as much as that."""
    rng = np.random.default_rng(seed)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    pairs = {"QuantizeLinear", "DequantizeLinear"}
    scales = {node.input[1] for node in copy.graph.node if node.op_type in pairs}
    for tensor in copy.graph.initializer:
        if tensor.name in scales:
            array = onnx.numpy_helper.to_array(tensor)
            array = array * (1 + relative * rng.uniform(-1, 1, array.shape)).astype(array.dtype)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    return copy


def test_tensors_keep_their_names_behind_the_pair(pair):
    c, _, path, _ = pair
    model = onnx.load(path)
    names = {output for node in model.graph.node for output in node.output}
    quantized = set(c.settings.quantization.thresholds) - {"image"}
    assert quantized <= names
    told = {entry.key: entry.value for entry in model.metadata_props}
    assert told["explorer.thresholds"] == c.settings.quantization.digest
    assert told["explorer.after"] == "quantize-tensors"


def test_weights_are_unsigned_unless_asked(pair):
    c, _, path, _ = pair
    signed = c.to_onnx(weights="int8")
    for model, kind in ((onnx.load(path), onnx.TensorProto.UINT8), (signed, onnx.TensorProto.INT8)):
        arrays = [t for t in model.graph.initializer if len(t.dims) > 1]
        assert {t.data_type for t in arrays if "integers" in t.name} == {kind}
    with pytest.raises(InputError, match="weights cannot be 'int4'"):
        c.to_onnx(weights="int4")


def test_a_program_of_integers_is_refused_by_name(pair):
    c, *_ = pair
    with pytest.raises(UnsupportedError, match="cannot be written as ONNX") as refused:
        c.to_onnx(at="fuse-quantization")
    assert any("top.matmul" in problem for problem in refused.value.problems)
    assert "compute-in-integers" in refused.value.hint
    with pytest.raises(InputError, match="no pass 'fuse-quantisation'"):
        c.to_onnx(at="fuse-quantisation")


# -- files -----------------------------------------------------------------------------------------


def test_large_constants_lie_beside_the_model(sample_models, tmp_path):
    c = explorer.compile(sample_models / "digits_mlp.onnx", tuned=False)
    inside, outside = tmp_path / "inside.onnx", tmp_path / "outside.onnx"
    write_onnx(inside, c.to_onnx())
    write_onnx(outside, c.to_onnx(), most_inside=1 << 12)
    data = tmp_path / "outside.onnx.data"
    assert data.exists() and outside.stat().st_size + data.stat().st_size > inside.stat().st_size
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "inside.onnx",
        "outside.onnx",
        "outside.onnx.data",
    ]
    inputs = c.example_inputs()
    session = onnxruntime.InferenceSession(str(outside))
    np.testing.assert_array_equal(session.run(None, inputs)[0], run(c.to_onnx(), inputs)["logits"])


def test_nothing_is_written_that_the_checker_refuses(tmp_path, sample_models):
    model = explorer.compile(sample_models / "digits_mlp.onnx", tuned=False).to_onnx()
    model.graph.node[0].op_type = "Flattened"
    for limit in (onnx_file.MAX_INSIDE_BYTES, 0):
        with pytest.raises(ModelError, match="no valid ONNX"):
            write_onnx(tmp_path / "net.onnx", model, most_inside=limit)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="folder does not exist"):
        write_onnx(tmp_path / "none" / "net.onnx", model)


def test_outputs_that_are_inputs_or_constants_are_passed_on():
    snapshot = program(
        """func.func @main(%x : tensor<2xf32>) {
          %w = top.weight() {weight = "w"} : tensor<2xf32>
          %y = top.unary(%x) {kind = "neg"} : tensor<2xf32>
          top.return(%x, %w, %y, %y)
        }""",
    ).snapshot
    entry = entry_function(snapshot.program)
    from xdsl.dialects.builtin import ArrayAttr, StringAttr

    entry.attributes["output_names"] = ArrayAttr([StringAttr(n) for n in "abcd"])
    inputs = random_inputs(snapshot)
    expected = outputs_by_name(snapshot.program, snapshot.run(inputs))
    found = run(model_of(snapshot, "same"), inputs)
    assert list(found) == list("abcd") and isinstance(snapshot.weights, Weights)
    assert all(np.array_equal(found[name], expected[name]) for name in "abcd")
