"""One program for all sizes of several dimensions: equal to onnxruntime at each size, whatever
the buffers hold beyond a call's elements."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import explorer
from explorer.errors import ExplorerError, InputError, RangeError
from explorer.importers import to_top
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import entry_function, outputs_by_name
from explorer.ir.open_sizes import sizes_of_function
from explorer.ir.rewriting import Names, RewriteOptions
from explorer.ir.rewriting.passes import Working, run_pass
from explorer.ir.sizes.calls import cut_to_sizes, padded_to_largest
from explorer.ir.sizes.ranges import SizeRange
from explorer.kernels.loops import clipping
from explorer.passes.sizes.keep_sizes import KeepSizes

open_graphs = SimpleNamespace(**run_path(str(Path(__file__).with_name("open_graphs.py"))))
open_images = SimpleNamespace(**run_path(str(Path(__file__).with_name("open_images.py"))))
RANGES = {
    "b": (1, 3),
    "s": (1, 6),
    "h": (3, 9),
    "w": (3, 8),
    "p": (1, 4),
    "u": (1, 20),
    "v": (1, 20),
}
CALLS = [
    {"b": 3, "s": 6, "h": 9, "w": 8, "p": 4, "u": 20, "v": 20},
    {"b": 1, "s": 1, "h": 3, "w": 3, "p": 1, "u": 1, "v": 17},
    {"b": 2, "s": 4, "h": 7, "w": 5, "p": 3, "u": 5, "v": 18},
]

NUMBERS = ",".join(f"{n / 54 - 0.5:.3f}" for n in range(54))
KERNEL = f"<float[2,3,3,3] k = {{{NUMBERS}}}>"
BYTES = ",".join(str(n * 37 % 127 - 63) for n in range(54))
QUANTIZED = (
    "(float[1,3,h,w] x) => (float[1,2,o,q] y) "
    f"<int8[2,3,3,3] k = {{{BYTES}}}, int8[2,2,3,3] l = {{{','.join(BYTES.split(',')[:36])}}}, "
    "float s = {0.0625}, float t = {0.25}, uint8 z = {100}, int8 n = {0}> { "
    "xq = QuantizeLinear (x, s, z)  xd = DequantizeLinear (xq, s, z) "
    "kd = DequantizeLinear (k, s, n)  ld = DequantizeLinear (l, s, n) "
    "u = Conv <pads = [1,1,1,1], strides = [2,1]> (xd, kd)  r = Relu (u) "
    "uq = QuantizeLinear (r, t, z)  ud = DequantizeLinear (uq, t, z) "
    "v = Conv <pads = [1,1,1,1]> (ud, ld)  vq = QuantizeLinear (v, t, z) "
    "y = DequantizeLinear (vq, t, z) }"
)
GRAPHS = {
    "softmax": "(float[b,s,s] x) => (float[b,s,s] y) { y = Softmax <axis = 2> (x) }",
    "softmax of rows": "(float[b,s] x) => (float[b,s] y) { y = LogSoftmax <axis = 0> (x) }",
    "sum": "(float[b,s,4] x) => (float[b,4] y) <int64[1] a = {1}> "
    "{ y = ReduceSum <keepdims = 0> (x, a) }",
    "mean of both": "(float[b,s,4] x) => (float[1,1,4] y) { y = ReduceMean <axes = [0,1]> (x) }",
    "mean of an open and a fixed axis": "(float[2,s,4] x) => (float[2] y) "
    "{ y = ReduceMean <axes = [1,2], keepdims = 0> (x) }",
    "max": "(float[b,s] x) => (float[b,1] y) { y = ReduceMax <axes = [1]> (x) }",
    "min of integers": "(int64[b,s] i) => (int64[b] y) "
    "{ y = ReduceMin <axes = [1], keepdims = 0> (i) }",
    "product": "(float[b,s] x) => (float[b,1] y) { y = ReduceProd <axes = [1]> (x) }",
    "log sum exp": "(float[b,s] x) => (float[b,1] y) { y = ReduceLogSumExp <axes = [1]> (x) }",
    "arg": "(float[b,s] x) => (int64[b,1] y) { y = ArgMax <axis = 1> (x) }",
    "sum of products": "(float[b,4,s] x, float[b,s,4] z) => (float[b,4,4] y) { y = MatMul (x, z) }",
    "scores": "(float[b,s,4] x) => (float[b,s,s] y) "
    "{ r = Transpose <perm = [0,2,1]> (x)  y = MatMul (x, r) }",
    "joined and taken apart": "(float[b,s,4] x) => (float[r,4] y, float[b,s,2,2] z) "
    "<int64[2] one = {-1, 4}> { y = Reshape (x, one)  d = Shape <end = 2> (x) "
    "two = Constant <value_ints = [2, 2]> ()  all = Concat <axis = 0> (d, two) "
    "n = Neg (y)  z = Reshape (n, all) }",
    "sum over joined sizes": "(float[b,s,4] x) => (float[1,4] y) <int64[2] one = {-1, 4}> "
    "{ r = Reshape (x, one)  y = ReduceMean <axes = [0]> (r) }",
    "concat": "(float[b,p,4] x, float[b,s,4] z) => (float[b,total,4] y) "
    "{ y = Concat <axis = 1> (x, z) }",
    "concat of three": "(float[b,p] x, float[b,s] z) => (float[b,total] y) "
    "{ y = Concat <axis = 1> (x, z, x) }",
    "concat of joined sizes": "(float[b,s,4] x, float[p,4] z) => (float[total,4] y) "
    "<int64[2] one = {-1, 4}> { r = Reshape (x, one)  y = Concat <axis = 0> (r, z) }",
    "joined sizes, cut nowhere": "(float[b,s,4] x) => (float y, float[n,4] z) "
    "<int64[2] one = {-1, 4}, int64[1] a = {0}, int64[1] e = {1000}, int64 zero = {0}> "
    "{ r = Reshape (x, one)  c = Slice (r, a, e, a)  z = CumSum (c, zero)  t = Tanh (c) "
    "y = ReduceProd <axes = [0,1], keepdims = 0> (t) }",
    "place in joined sizes": "(float[b,s,4] x) => (int64[1,4] y) <int64[2] one = {-1, 4}> "
    "{ r = Reshape (x, one)  y = ArgMax <axis = 0> (r) }",
    "last row": "(float[b,s,4] x) => (float[b,4] y) <int64 last = {-1}> "
    "{ y = Gather <axis = 1> (x, last) }",
    "last rows": "(float[b,h,4] x) => (float[b,2,4] y) <int64[1] a = {-2}, int64[1] e = {100}, "
    "int64[1] one = {1}> { y = Slice (x, a, e, one) }",
    "all but the first": "(float[b,h] x) => (float[b,rest] y) <int64[1] a = {1}, "
    "int64[1] e = {100}, int64[1] one = {1}> { y = Slice (x, a, e, one) }",
    "rows from a place": "(float[b,p] x, float[b,s,4] z) => (float[b,s,4] y) "
    "{ r = Shape <start = 1, end = 2> (x)  q = Shape <start = 1, end = 2> (z)  e = Add (r, q) "
    "one = Constant <value_ints = [1]> ()  zero = Constant <value_ints = [0]> () "
    "ten = Constant <value_ints = [10]> ()  n = Constant <value_ints = [4]> () "
    "long = Constant <value_int = 10> ()  nil = Constant <value_int = 0> () "
    "step = Constant <value_int = 1> ()  i = Range (nil, long, step)  f = Cast <to = 1> (i) "
    "m = Unsqueeze (f, one)  t = Slice (m, r, e, zero, one)  y = Add (z, t) }",
    "positions": "(float[b,p] x, float[b,s] z) => (float[b,s] y) "
    "{ r = Shape <start = 1, end = 2> (x)  q = Shape <start = 1, end = 2> (z)  e = Add (r, q) "
    "a = Squeeze (r)  l = Squeeze (e)  one = Constant <value_int = 1> ()  i = Range (a, l, one) "
    "f = Cast <to = 1> (i)  y = Add (z, f) }",
    "size as a number": "(float[b,s] x) => (float[b,s] y, int64[2] n) "
    "{ n = Shape (x)  f = Cast <to = 1> (n)  o = Constant <value_int = 1> () "
    "l = Gather <axis = 0> (f, o)  y = Div (x, l) }",
    "convolution": f"(float[b,3,h,w] x) => (float[b,2,o,q] y) {KERNEL} "
    "{ y = Conv <pads = [1,1,1,1], strides = [2,2]> (x, k) }",
    "two convolutions": f"(float[b,3,h,w] x) => (float[b,2,o,q] y) {KERNEL} "
    "{ u = Conv <pads = [0,1,1,0]> (x, k)  e = Exp (u)  v = Concat <axis = 1> (e, e) "
    "a = Constant <value_ints = [0]> ()  z = Constant <value_ints = [3]> () "
    "o = Constant <value_ints = [1]> ()  g = Slice (v, a, z, o) "
    "y = Conv <pads = [1,1,1,1]> (g, k) }",
    "quantized": QUANTIZED,
    "transposed": f"(float[b,2,h,w] x) => (float[b,3,o,q] y) {KERNEL} "
    "{ y = ConvTranspose <strides = [2,2], pads = [1,1,1,1], output_padding = [1,0]> (x, k) }",
    "pools": "(float[b,3,h,w] x) => (float[b,3,o,q] y, float[b,3,1,1] g) "
    "{ y = MaxPool <kernel_shape = [3,3], pads = [1,1,1,1], strides = [2,2]> (x) "
    "g = GlobalAveragePool (x) }",
    "average": "(float[b,3,h,w] x) => (float[b,3,o,q] y) { y = AveragePool "
    "<kernel_shape = [3,3], pads = [1,1,1,1], count_include_pad = 1> (x) }",
    "average of what is inside": "(float[b,3,h,w] x) => (float[b,3,o,q] y, float[b,3,r,t] z) "
    "{ y = AveragePool <kernel_shape = [3,3], pads = [1,1,1,1]> (x)  z = AveragePool "
    "<kernel_shape = [2,3], pads = [0,1,1,1], strides = [1,2]> (x) }",
    "same padding, before and after": "(float[1,3,h,w] x) => (float[1,2,o,q] y, float[1,3,r,t] z) "
    f'{KERNEL} {{ c = Conv <auto_pad = "SAME_UPPER", strides = [2,3]> (x, k) '
    'd = MaxPool <auto_pad = "SAME_LOWER", kernel_shape = [2,2], strides = [2,2]> (c) '
    'y = Neg (d)  z = MaxPool <auto_pad = "SAME_UPPER", kernel_shape = [3,4], '
    "strides = [2,2]> (x) }",
    "sums of same sizes": "(float[1,3,h,w] x) => (float[1,2,o,q] y) "
    f"{KERNEL[:-1]}, int64[2] s = {{0,0}}, int64[2] e = {{1,1}}, int64[2] a = {{2,3}}> {{ "
    'f = Slice (k, s, e, a)  c = Conv <auto_pad = "SAME_UPPER", strides = [2,2]> (x, k) '
    "d = Conv <strides = [2,2]> (x, f)  y = Add (c, d) }",
    "sizes rounded up": "(float[b,3,h,w] x) => "
    "(float[b,3,o,q] y, float[b,3,r,t] z, float[b,3,r,t] l) "
    "{ l = AveragePool <kernel_shape = [3,3], strides = [2,2], ceil_mode = 1> (x) "
    "y = MaxPool <kernel_shape = [3,2], strides = [2,2], pads = [1,0,1,0], ceil_mode = 1> (x) "
    "z = AveragePool <kernel_shape = [3,3], strides = [2,2], ceil_mode = 1, "
    "count_include_pad = 1> (x) }",
    "the last of few": "(float[u,v] x) => (float[o,q] y, float[r,t] z) <int64[2] s = {-4,1}, "
    "int64[2] f = {-5,-3}, int64[2] e = {9999,-1}, int64[2] a = {0,1}, int64[2] k = {2,1}> "
    "{ i = Slice (x, s, e, a, k)  y = Neg (i)  l = Slice (x, f, e, a)  z = Neg (l) }",
    "softmax of both": "(float[u,v] x) => (float[u,v] y) "
    "{ c = Softmax <axis = 0> (x)  d = Softmax <axis = 1> (x)  y = Sub (c, d) }",
    "padding": "(float[b,s] x) => (float[b,longer] y) <int64[4] p = {0,1,0,2}, float f = {7.0}> "
    "{ q = Pad (x, p, f)  y = Pad (q, p, f) }",
    "running sums": "(float[b,s] x) => (float[b,s] y, float[b,s] z) <int64 a = {1}> "
    "{ y = CumSum (x, a)  z = CumSum <reverse = 1> (x, a) }",
    "twice as large": "(float[1,3,h,w] x) => (float[1,3,o,q] y) <float[4] f = {1.0,1.0,2.0,2.0}> "
    '{ y = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (x, , f) }',
    "half as large": "(float[1,3,h,w] x) => (float[1,3,o,q] y) <float[4] f = {1.0,1.0,0.5,0.5}> "
    '{ y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", '
    'nearest_mode = "floor"> (x, , f) }',
    "normalized": "(float[b,s,4] x) => (float[b,s,4] y) <float[4] g = {1.0,2.0,3.0,4.0}, "
    "float[4] c = {0.0,0.0,1.0,1.0}> { y = LayerNormalization <axis = -1> (x, g, c) }",
    "normalized over both": "(float[b,3,h,w] x) => (float[b,3,h,w] y) <float[3] g = {1.0,2.0,3.0}, "
    "float[3] c = {0.0,1.0,-1.0}> { y = InstanceNormalization (x, g, c) }",
    "groups normalized": "(float[b,4,h,w] x) => (float[b,4,h,w] y) <float[2] g = {1.0,2.0}, "
    "float[2] c = {0.0,1.0}, int64[3] r = {0,2,-1}> { d = Shape (x)  z = Reshape (x, r) "
    "n = InstanceNormalization (z, g, c)  y = Reshape (n, d) }",
    "normalized along the open axis": "(float[b,s,4] x, float[s] g) => (float[b,s,4] y) "
    "{ t = Transpose <perm = [0,2,1]> (x)  n = LayerNormalization <axis = -1> (t, g) "
    "y = Transpose <perm = [0,2,1]> (n) }",
    "neighbours": "(float[b,3,h,w] x) => (float[b,3,h,w] y) { y = LRN <size = 3> (x) }",
    "blocks": "(float[b,4,h,w] x) => (float[b,1,o,q] y) { y = DepthToSpace <blocksize = 2> (x) }",
    "batch statistics": "(float[b,2,h,w] x) => (float[b,2,h,w] y) <float[2] o = {1.0,2.0}> "
    "{ y = BatchNormalization (x, o, o, o, o) }",
}


def graph(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 17]> g {text}')


def arrays(model: onnx.ModelProto, call: dict[str, int]) -> dict[str, np.ndarray]:
    random = np.random.default_rng(len(model.graph.node))
    found = {}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        shape = [call[d.dim_param] if d.dim_param else d.dim_value for d in dims]
        if value.type.tensor_type.elem_type == onnx.TensorProto.INT64:
            found[value.name] = random.integers(-9, 9, shape)
        else:
            found[value.name] = random.standard_normal(shape).astype(np.float32)
    return found


def ranges_of(model: onnx.ModelProto) -> tuple[SizeRange, ...]:
    names = {d.dim_param for v in model.graph.input for d in v.type.tensor_type.shape.dim}
    return tuple(SizeRange(name, *RANGES[name]) for name in sorted(names - {""}))


def kept(model: onnx.ModelProto):
    module, weights = to_top(from_proto(model))
    ranges = ranges_of(model)
    wanted = KeepSizes(ranges, {found.name: found.highest for found in ranges})
    return run_pass(
        wanted, Working(module=module, weights=weights, names=Names.of(module)), RewriteOptions()
    ).after


@pytest.mark.parametrize("name", GRAPHS)
def test_equals_onnxruntime_at_each_size_whatever_stands_beyond_it(name):
    compare(graph(GRAPHS[name]), 2e-6)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(600))
def test_random_graphs_equal_onnxruntime(seed):
    compare(open_graphs.Graph(seed).model(), 3e-5)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(300))
def test_random_convolutions_equal_onnxruntime(seed):
    compare(open_images.ImageGraph(seed).model(), 1e-4)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(120))
def test_random_convolutions_compiled_equal_onnxruntime(seed):
    model = open_images.ImageGraph(seed).model()
    dimensions = {"h": (5, 38), "w": (5, 43)}
    judge = onnxruntime.InferenceSession(model.SerializeToString())
    names = [value.name for value in judge.get_outputs()]
    compiled = explorer.compile(from_proto(model), "cpu", dimensions=dimensions)
    with compiled.open(isolated=False) as program:
        for h, w in ((38, 43), (5, 5), (17, 33), (33, 16)):
            whole = arrays(model, {"h": 38, "w": 43})
            program.run({name: np.full_like(array, np.nan) for name, array in whole.items()})
            inputs = arrays(model, {"h": h, "w": w})
            found = program.run(inputs)
            for output, array in zip(names, judge.run(None, inputs), strict=True):
                np.testing.assert_allclose(found[output], np.asarray(array), 2e-4, 2e-4)


def compare(model, tolerance, make=arrays):
    """The program after the pass, by its NumPy meaning, at each size."""
    judge = onnxruntime.InferenceSession(model.SerializeToString())
    names = [value.name for value in judge.get_outputs()]
    used = {value.name for value in judge.get_inputs()}
    program = kept(model)
    sizes = sizes_of_function(entry_function(program.program))
    assert sizes is not None
    for call in CALLS:
        inputs = make(model, call)
        given = {name: array for name, array in inputs.items() if name in used}
        expected = dict(zip(names, judge.run(None, given), strict=True))
        with np.errstate(all="ignore"):
            values = program.run(poisoned(padded_to_largest(sizes, inputs), inputs))
        found = cut_to_sizes(sizes, outputs_by_name(program.program, values), call)
        for output, array in expected.items():
            array = np.asarray(array)
            np.testing.assert_allclose(found[output], array, tolerance, tolerance, err_msg=output)


def poisoned(padded, inputs):
    """NaN or the largest integer where a call has no element."""
    found = dict(padded)
    for name, array in inputs.items():
        fill = np.nan if array.dtype.kind == "f" else np.iinfo(array.dtype).max
        whole = np.full_like(padded[name], fill)
        whole[tuple(slice(size) for size in array.shape)] = array
        found[name] = whole
    return found


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", ["cpu", pytest.param("opencl", marks=pytest.mark.opencl)])
@pytest.mark.parametrize("name", GRAPHS)
def test_one_compiled_program_serves_all_sizes_in_any_order(name, target):
    model = graph(GRAPHS[name])
    dimensions = {r.name: (r.lowest, r.highest) for r in ranges_of(model)}
    judge = onnxruntime.InferenceSession(model.SerializeToString())
    names = [value.name for value in judge.get_outputs()]
    compiled = explorer.compile(from_proto(model), target, dimensions=dimensions)
    largest = arrays(model, CALLS[0])
    with compiled.open() as program:
        for call in (*CALLS, *CALLS[::-1], CALLS[0]):
            program.run({n: np.full_like(a, np.nan) if a.dtype.kind == "f" else a
                         for n, a in largest.items()})  # fmt: skip
            inputs = arrays(model, call)
            found = program.run(inputs)
            for output, array in zip(names, judge.run(None, inputs), strict=True):
                np.testing.assert_allclose(found[output], np.asarray(array), 1e-5, 1e-5)


@pytest.mark.parametrize("name", ["softmax", "pools", "concat", "size as a number"])
def test_numbers_and_masks_are_those_of_the_call_whatever_ran_before_it(name):
    model = graph(GRAPHS[name])
    dimensions = {r.name: (r.lowest, r.highest) for r in ranges_of(model)}
    judge = onnxruntime.InferenceSession(model.SerializeToString())
    names = [value.name for value in judge.get_outputs()]
    compiled = explorer.compile(from_proto(model), "cpu", dimensions=dimensions)
    sizes = compiled.program.sizes
    one, other = arrays(model, CALLS[2]), arrays(model, CALLS[1])
    between = [
        lambda program: None,
        lambda program: program.profile(other, repeats=1),
        lambda program: program.run_with_taps(other),
        lambda program: program.run(padded_to_largest(sizes, other)),
        lambda program: program.run(other),
    ]
    with compiled.open(isolated=False) as program:
        for run_between in between:
            program.run(one)
            run_between(program)
            found = program.run(one)
            for output, array in zip(names, judge.run(None, one), strict=True):
                np.testing.assert_allclose(found[output], np.asarray(array), 1e-5, 1e-5)


@pytest.mark.parametrize("loops", ["end with the call", "end nowhere"])
@pytest.mark.parametrize("channels", [3, 16])
def test_a_mask_before_a_sum_is_as_large_as_what_the_sum_reads(loops, channels, monkeypatch):
    if loops == "end nowhere":
        monkeypatch.setattr(clipping, "_end_of_sum", lambda *_: None)
    model = graph(
        f"(float[1,{channels},h,w] x) => (float[1,{channels},1,1] m, float[1,{channels},h,w] y) "
        "{ y = Exp (x)  m = GlobalAveragePool (y) }"
    )
    dimensions = {"h": (1, 40), "w": (1, 64)}
    compiled = explorer.compile(from_proto(model), "cpu", dimensions=dimensions)
    (mask,) = (k for k in compiled.program.kernels if k.name.startswith("select"))
    text = "\n".join(mask.source.lines)
    assert ("call_size0[0] + 15" in text) == (loops == "end with the call")
    judge = onnxruntime.InferenceSession(model.SerializeToString())
    nothing = np.full((1, channels, 40, 64), np.nan, np.float32)
    with compiled.open(isolated=False) as program:
        for height, width in ((40, 64), (1, 1), (24, 33), (25, 49), (40, 1), (1, 64), (39, 63)):
            program.run({"x": nothing})
            x = np.random.default_rng(0).random((1, channels, height, width), np.float32)
            found, wanted = program.run({"x": x}), judge.run(None, {"x": x})
            for name, array in zip("my", wanted, strict=True):
                np.testing.assert_allclose(found[name], array, 1e-5)


def test_a_copy_into_blocks_ends_with_the_rows_and_columns_of_a_call():
    model = graph(
        "(float[1,3,h,w] x) => (float[1,12,k,l] y) <int64[1] o = {0}, int64[1] n = {1}, "
        "int64[1] e = {999}, int64[1] i = {2}, int64[1] j = {3}, int64[1] t = {2}> "
        "{ p = Slice (x, o, e, i, t)  q = Slice (x, n, e, i, t)  a = Slice (p, o, e, j, t) "
        "b = Slice (q, o, e, j, t)  c = Slice (p, n, e, j, t)  d = Slice (q, n, e, j, t) "
        "y = Concat <axis = 1> (a, b, c, d) }"
    )
    compiled = explorer.compile(from_proto(model), "cpu", dimensions={"h": (2, 40), "w": (2, 64)})
    (kernel,) = (k for k in compiled.program.kernels if "transpose" in k.name)
    text = "\n".join(kernel.source.lines)
    assert ">= call_size0[0]" in text and "call_size1[0]" in text
    judge = onnxruntime.InferenceSession(model.SerializeToString())
    with compiled.open(isolated=False) as program:
        for height, width in ((40, 64), (2, 2), (14, 34), (40, 2), (2, 64)):
            x = np.random.default_rng(0).random((1, 3, height, width), np.float32)
            (wanted,) = judge.run(None, {"x": x})
            np.testing.assert_array_equal(program.run({"x": x})["y"], wanted)


def test_numbers_and_masks_that_are_read_are_kept_for_the_next_call():
    model = graph(GRAPHS["two convolutions"])
    compiled = explorer.compile(
        from_proto(model), "cpu", dimensions={"b": 1, "h": (3, 64), "w": 64}
    )
    steps = len(compiled.program.launches)
    ends = {p.buffer.id: p.buffer.last for p in compiled.memory.placements}
    # the first mask chooses in place, from where the sizes say on; the second one is read
    assert ends["valid1.device"] < steps == ends["valid2.device"] == ends["size2"]


def test_masks_leave_quantized_convolutions_in_integers():
    model = graph(QUANTIZED)
    dimensions = {"h": (3, 9), "w": (3, 8)}
    open_program, fixed = (
        explorer.compile(from_proto(model), "cpu", dimensions=own)
        for own in (dimensions, {"h": 9, "w": 8})
    )
    kernels = [k.name for k in open_program.program.kernels if not k.name.startswith("select")]
    assert kernels == [kernel.name for kernel in fixed.program.kernels]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "(float[b,h,w] x) => (int64[3,n] y) { y = NonZero (x) }",
            "top.nonzero",
        ),
        (
            "(float[b,s] x) => (int64[b,1] y) { y = ArgMax <axis = 1, select_last_index = 1> (x) }",
            "takes the last",
        ),
    ],
)
def test_what_mixes_an_open_axis_is_refused_by_name(text, reason):
    with pytest.raises(RangeError, match=reason):
        kept(graph(text))


def test_means_and_averages_are_compared_where_they_are_complete():
    model = graph(
        "(float[1,3,h,w] x) => (float[1,3,1,1] g) { y = AveragePool <kernel_shape = [3,3], "
        "pads = [1,1,1,1]> (x)  z = Relu (y)  g = GlobalAveragePool (z) }"
    )
    compiled = explorer.compile(from_proto(model), "cpu", dimensions={"h": (3, 9), "w": (3, 8)})
    assert compiled.accuracy().passed


def test_sizes_outside_of_their_bounds_or_relations_are_refused():
    model = graph("(float[b,s] x, float[b,s] z) => (float[b,s] y) { y = Add (x, z) }")
    compiled = explorer.compile(from_proto(model), "cpu", dimensions={"b": (1, 3), "s": (2, 6)})
    good = np.ones((2, 4), np.float32)
    with pytest.raises(InputError, match=r"s is 1 in .* is for s = 2\.\.6"):
        compiled.run({"x": good[:, :1], "z": good[:, :1]})
    with pytest.raises(InputError, match="b is 4 in the inputs"):
        compiled.run({"x": np.ones((4, 4), np.float32), "z": np.ones((4, 4), np.float32)})
    with pytest.raises(InputError, match="dimension 's' is 4 in input 'x', but 3 in 'z'"):
        compiled.run({"x": good, "z": good[:, :3]})
    assert (compiled.run({"x": good, "z": good})["y"] == 2).all()


def test_ranges_that_fit_no_memory_are_refused_with_their_bytes_before_compiling():
    model = graph("(float[b,s] x, float[b,t] z) => (float[b,s,t] y) <int64[1] i = {1}, "
                  "int64[1] j = {2}> { u = Unsqueeze (x, j)  v = Unsqueeze (z, i) "
                  "w = Mul (u, v)  y = Softmax <axis = 2> (w) }")  # fmt: skip
    ranges = {"b": (1, 60000), "s": (1, 1000), "t": (1, 10000)}
    # the products, the mask's result and the softmax's live at one time in pairs
    with pytest.raises(RangeError, match=f"about {8 * 60000 * 1000 * 10000:,} bytes"):
        explorer.compile(from_proto(model), "cpu", dimensions=ranges)


def test_an_npu_says_that_it_takes_no_range():
    model = graph("(float[b,s,4] x) => (float[b,s,4] y) { y = Softmax <axis = 1> (x) }")
    with pytest.raises(ExplorerError):
        explorer.compile(from_proto(model), "vta-16", dimensions={"b": (1, 3), "s": (2, 6)})


def test_tasks_beyond_the_sizes_of_a_call_are_skipped_row_by_row():
    model = graph("(float[1,4,s,s] x) => (float[1,4,s,s] y) { y = Softmax <axis = 3> (x) }")
    compiled = explorer.compile(from_proto(model), "cpu", dimensions={"s": (1, 128)})
    assert "{ task += 127 - task % 128; continue; }" in "\n".join(compiled.program.source.lines)
    for threads in (1, 3):
        with compiled.open(threads=threads, isolated=False) as program:
            for size in (1, 17, 127, 128):
                x = np.random.default_rng(0).standard_normal((1, 4, size, size))
                y = program.run({"x": x.astype(np.float32)})["y"]
                exponentials = np.exp(x)
                wanted = exponentials / exponentials.sum(3, keepdims=True)
                np.testing.assert_allclose(y, wanted, rtol=2e-6)


def test_a_mask_that_is_the_same_for_all_channels_chooses_vectors():
    model = graph(
        "(float[1,16,h,w] x, float[16,16,3,3] k) => (float[1,16,h,w] y)"
        "{ z = Conv <pads = [1,1,1,1]> (x, k) a = Relu (z) y = Conv <pads = [1,1,1,1]> (a, k) }"
    )
    compiled = explorer.compile(from_proto(model), "cpu", dimensions={"h": (2, 9), "w": (3, 8)})
    selects = [k for k in compiled.program.kernels if k.name.startswith("select")]
    texts = ["\n".join(kernel.source.lines) for kernel in selects]
    assert texts and not any("c_lane++" in text and "?" in text for text in texts)
