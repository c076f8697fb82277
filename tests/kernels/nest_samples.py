"""Kernels of every family, and their execution through generated C."""

import ctypes
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from runpy import run_path

import numpy as np
from xdsl.dialects import math
from xdsl.dialects.builtin import IndexType, f32, i32

from explorer.ir.compute import KernelBuilder, clamp_index
from explorer.kernels.printing.c import print_c
from explorer.kernels.program.translation_unit import emit_program
from explorer.kernels.steps.narrow import narrowed_weights
from explorer.kernels.steps.winograd.matrices import transform_weights
from explorer.kernels.steps.winograd.step import winograd_weights
from explorer.results.program import Argument, Launch
from explorer.runtime.core_at_hand import restrictions_at_hand

without_driver = run_path(str(Path(__file__).parents[1] / "alone.py"))["without_driver"]

FLAGS = [
    "-O1",
    "-march=native",
    *restrictions_at_hand(),
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-std=gnu11",
    "-shared",
    "-fPIC",
    "-pthread",
]
CANARY = 77.0


# -- kernels -----------------------------------------------------------------------------------


def convolution(
    outputs,
    channels,
    height,
    width,
    kernel=3,
    stride=1,
    dilation=1,
    batch=1,
    bias=True,
    residual=False,
    activation="relu",
    halo=0,
    shift=0,
):
    """y[n,o,i+halo,j+halo] = activation(bias + conv(x) + residual); border of y filled with 0."""
    k = KernelBuilder("conv")
    reach = (kernel - 1) * dilation + 1 + shift
    rows, columns = (height - 1) * stride + reach, (width - 1) * stride + reach
    x = k.argument("x", (batch, channels, rows, columns), f32, "input")
    w = k.argument("w", (outputs, channels, kernel, kernel), f32, "weight")
    b = k.argument("b", (outputs,), f32, "weight") if bias else None
    r = k.argument("r", (batch, outputs, height, width), f32, "input") if residual else None
    shape = (batch, outputs, height + 2 * halo, width + 2 * halo)
    y = k.argument("y", shape, f32, "output")
    if halo:
        for row in (0, height + halo):
            n, o, i, j = k.dimensions(n=batch, o=outputs, i=halo, j=width + 2 * halo)
            k.generic("halo", [], (y, (n, o, i + row, j)), lambda s: s.constant(0.0))
        for column in (0, width + halo):
            n, o, i, j = k.dimensions(n=batch, o=outputs, i=height, j=halo)
            k.generic("halo", [], (y, (n, o, i + halo, j + column)), lambda s: s.constant(0.0))
    n, o, i, j = k.dimensions(n=batch, o=outputs, i=height, j=width)
    to = (y, (n, o, i + halo, j + halo))
    if b is not None:
        k.generic("init", [(b, (o,))], to, lambda s, b: b)
    else:
        k.generic("init", [], to, lambda s: s.constant(0.0))
    n, o, i, j, c, p, q = k.dimensions(
        n=batch, o=outputs, i=height, j=width, c=channels, p=kernel, q=kernel
    )
    source = (n, c, i * stride + p * dilation + shift, j * stride + q * dilation + shift)
    k.generic(
        "main",
        [(x, source), (w, (o, c, p, q))],
        to,
        lambda s, x, w, y: y + x * w,
        reductions="c p q",
        accumulates=True,
    )
    _epilogue(k, y, to[1], r, (n, o, i, j), activation, n=batch, o=outputs, i=height, j=width)
    return k.finish("convolution")


def depthwise(channels, height, width, kernel=3, stride=1, activation="relu"):
    """kernel: rows and columns of the filter, or one number for both."""
    k = KernelBuilder("depthwise")
    high, wide = (kernel, kernel) if isinstance(kernel, int) else kernel
    rows, columns = (height - 1) * stride + high, (width - 1) * stride + wide
    x = k.argument("x", (1, channels, rows, columns), f32, "input")
    w = k.argument("w", (channels, 1, high, wide), f32, "weight")
    b = k.argument("b", (channels,), f32, "weight")
    y = k.argument("y", (1, channels, height, width), f32, "output")
    n, o, i, j = k.dimensions(n=1, o=channels, i=height, j=width)
    to = (y, (n, o, i, j))
    k.generic("init", [(b, (o,))], to, lambda s, b: b)
    n, o, i, j, p, q = k.dimensions(n=1, o=channels, i=height, j=width, p=high, q=wide)
    k.generic(
        "main",
        [(x, (n, o, i * stride + p, j * stride + q)), (w, (o, 0, p, q))],
        to,
        lambda s, x, w, y: y + x * w,
        reductions="p q",
        accumulates=True,
    )
    _epilogue(k, y, to[1], None, to[1], activation, n=1, o=channels, i=height, j=width)
    return k.finish("depthwise")


def grouped(groups, per_group_out, per_group_in, height, width, kernel=3):
    """y[n, g*O+o, i, j] of the inputs of group g alone."""
    k = KernelBuilder("grouped")
    outputs, channels = groups * per_group_out, groups * per_group_in
    shape = (1, channels, height + kernel - 1, width + kernel - 1)
    x = k.argument("x", shape, f32, "input")
    w = k.argument("w", (outputs, per_group_in, kernel, kernel), f32, "weight")
    y = k.argument("y", (1, outputs, height, width), f32, "output")
    n, o, i, j = k.dimensions(n=1, o=outputs, i=height, j=width)
    k.generic("init", [], (y, (n, o, i, j)), lambda s: s.constant(0.0))
    n, g, o, i, j, c, p, q = k.dimensions(
        n=1, g=groups, o=per_group_out, i=height, j=width, c=per_group_in, p=kernel, q=kernel
    )
    k.generic(
        "main",
        [(x, (n, g * per_group_in + c, i + p, j + q)), (w, (g * per_group_out + o, c, p, q))],
        (y, (n, g * per_group_out + o, i, j)),
        lambda s, x, w, y: y + x * w,
        reductions="c p q",
        accumulates=True,
    )
    return k.finish("grouped_convolution")


def matmul(rows, depth, columns, batch=0, weight=True, bias=True, residual=False, activation=""):
    """y[b,m,n] = activation(bias[n] + x[b,m,k] @ w[(b,)k,n] + residual)."""
    k = KernelBuilder("matmul")
    lead = (batch,) if batch else ()
    x = k.argument("x", (*lead, rows, depth), f32, "input")
    right = (depth, columns) if weight else (*lead, depth, columns)
    w = k.argument("w", right, f32, "weight" if weight else "input")
    b = k.argument("b", (columns,), f32, "weight") if bias else None
    r = k.argument("r", (*lead, rows, columns), f32, "input") if residual else None
    y = k.argument("y", (*lead, rows, columns), f32, "output")
    outer = {"b": batch} if batch else {}
    *g, m, n = k.dimensions(**outer, m=rows, n=columns)
    to = (y, (*g, m, n))
    if b is not None:
        k.generic("init", [(b, (n,))], to, lambda s, b: b)
    else:
        k.generic("init", [], to, lambda s: s.constant(0.0))
    *g, m, n, d = k.dimensions(**outer, m=rows, n=columns, k=depth)
    from_right = (d, n) if weight else (*g, d, n)
    k.generic(
        "main",
        [(x, (*g, m, d)), (w, from_right)],
        (y, (*g, m, n)),
        lambda s, x, w, y: y + x * w,
        reductions="k",
        accumulates=True,
    )
    _epilogue(k, y, to[1], r, to[1], activation, **outer, m=rows, n=columns)
    return k.finish("matmul")


def pool(channels, height, width, kernel=3, stride=2):
    k = KernelBuilder("pool")
    shape = (1, channels, (height - 1) * stride + kernel, (width - 1) * stride + kernel)
    x = k.argument("x", shape, f32, "input")
    y = k.argument("y", (1, channels, height, width), f32, "output")
    n, o, i, j = k.dimensions(n=1, o=channels, i=height, j=width)
    k.generic("init", [], (y, (n, o, i, j)), lambda s: s.constant(float("-inf")))
    n, o, i, j, p, q = k.dimensions(n=1, o=channels, i=height, j=width, p=kernel, q=kernel)
    k.generic(
        "main",
        [(x, (n, o, i * stride + p, j * stride + q))],
        (y, (n, o, i, j)),
        lambda s, x, y: y.maximum(x),
        reductions="p q",
        accumulates=True,
    )
    return k.finish("pool")


def global_mean(channels, height, width):
    k = KernelBuilder("mean")
    x = k.argument("x", (1, channels, height, width), f32, "input")
    y = k.argument("y", (1, channels, 1, 1), f32, "output")
    n, o = k.dimensions(n=1, o=channels)
    k.generic("init", [], (y, (n, o, 0, 0)), lambda s: s.constant(0.0))
    n, o, i, j = k.dimensions(n=1, o=channels, i=height, j=width)
    k.generic(
        "main",
        [(x, (n, o, i, j))],
        (y, (n, o, 0, 0)),
        lambda s, x, y: y + x,
        reductions="i j",
        accumulates=True,
    )
    n, o = k.dimensions(n=1, o=channels)
    area = 1.0 / (height * width)
    k.generic("epilogue", [(y, (n, o, 0, 0))], (y, (n, o, 0, 0)), lambda s, y: y * area)
    return k.finish("reduce")


def softmax(rows, columns):
    k = KernelBuilder("softmax")
    x = k.argument("x", (rows, columns), f32, "input")
    y = k.argument("y", (rows, columns), f32, "output")
    t = k.argument("t", (rows,), f32, "scratch")
    u = k.argument("u", (rows,), f32, "scratch")
    (m,) = k.dimensions(m=rows)
    k.generic("plain", [], (t, (m,)), lambda s: s.constant(float("-inf")))
    m, d = k.dimensions(m=rows, d=columns)
    k.generic(
        "plain",
        [(x, (m, d))],
        (t, (m,)),
        lambda s, x, t: t.maximum(x),
        reductions="d",
        accumulates=True,
    )
    m, d = k.dimensions(m=rows, d=columns)
    k.generic(
        "plain", [(x, (m, d)), (t, (m,))], (y, (m, d)), lambda s, x, t: (x - t).unary(math.ExpOp)
    )
    (m,) = k.dimensions(m=rows)
    k.generic("plain", [], (u, (m,)), lambda s: s.constant(0.0))
    m, d = k.dimensions(m=rows, d=columns)
    k.generic(
        "plain",
        [(y, (m, d))],
        (u, (m,)),
        lambda s, y, u: u + y,
        reductions="d",
        accumulates=True,
    )
    m, d = k.dimensions(m=rows, d=columns)
    k.generic("plain", [(y, (m, d)), (u, (m,))], (y, (m, d)), lambda s, y, u: y / u)
    return k.finish("plain")


def elementwise(shape, activation="relu"):
    k = KernelBuilder("elementwise")
    x = k.argument("x", shape, f32, "input")
    z = k.argument("z", shape, f32, "input")
    y = k.argument("y", shape, f32, "output")
    names = "nchw"[: len(shape)] if len(shape) > 1 else "i"
    d = k.dimensions(**dict(zip(names, shape, strict=True)))
    k.generic(
        "plain", [(x, d), (z, d)], (y, d), lambda s, x, z: _activation(x + z * 2.0, activation)
    )
    return k.finish("elementwise")


def gather(rows, width, count):
    """y[i, j] = x[index[i], j], negative indices from the end."""
    k = KernelBuilder("gather")
    x = k.argument("x", (rows, width), f32, "input")
    index = k.argument("index", (count,), i32, "input")
    y = k.argument("y", (count, width), f32, "output")

    def body(s, i, j):
        row = clamp_index(s, s.load(index, [i]).convert(IndexType()), rows)
        s.store(s.load(x, [row, j]), y, [i, j])

    k.nest({"i": count, "j": width}, body, parallel="i")
    return k.finish("explicit")


def _activation(value, name):
    if name == "relu":
        return value.maximum(0.0)
    if name == "exponential":
        return value.unary(math.ExpOp)
    if name == "relu6":
        return value.maximum(0.0).minimum(6.0)
    if name == "leaky":
        return value.compare("lt", value.constant(0.0)).select(value * 0.1, value)
    return value


def _epilogue(k, y, at, r, at_residual, activation, **extents):
    if not activation and r is None:
        return
    k.dimensions(**extents)
    reads = [(r, at_residual)] if r is not None else []
    k.generic(
        "epilogue",
        [*reads, (y, at)],
        (y, at),
        (lambda s, r, y: _activation(y + r, activation))
        if r is not None
        else (lambda s, y: _activation(y, activation)),
    )


# -- execution ---------------------------------------------------------------------------------


def pack_array(array, pack):
    """An array in the layout of a pack, new elements 0."""
    if not pack:
        return array
    shape = [-(-array.shape[d] // div) for d, div, mod in pack]
    shape = [min(e, mod) if mod else e for e, (_, _, mod) in zip(shape, pack, strict=True)]
    coordinates = np.indices(array.shape)
    new = tuple(
        coordinates[d] // div % mod if mod else coordinates[d] // div for d, div, mod in pack
    )
    packed = np.zeros(shape, array.dtype)
    packed[new] = array
    return packed


def unpack_array(packed, shape, pack):
    if not pack:
        return packed.reshape(shape)
    coordinates = np.indices(shape)
    new = tuple(
        coordinates[d] // div % mod if mod else coordinates[d] // div for d, div, mod in pack
    )
    return packed[new]


def argument_names(function):
    return [a.data for a in function.attributes["kernel.names"].data]


def argument_roles(function):
    return [a.data for a in function.attributes["kernel.roles"].data]


def random_arguments(function, seed=0):
    """Values for all arguments by name; results start as NaN, so that forgotten elements show."""
    generator = np.random.default_rng(seed)
    arrays = {}
    values = function.body.block.args
    named = zip(argument_names(function), argument_roles(function), values, strict=True)
    for name, role, value in named:
        shape = value.type.get_shape()
        if value.type.element_type == i32:
            arrays[name] = generator.integers(-3, 3, shape, dtype=np.int32)
        elif role in ("output", "scratch"):
            arrays[name] = np.full(shape, np.nan, np.float32)
        else:
            arrays[name] = generator.uniform(-1, 1, shape).astype(np.float32)
    return arrays


def run_nest(function, arrays, packs=None):
    """Executes a kernel of loop nests on logical arrays; returns all arguments by name.

    Buffers stand in one arena with canaries between them, which are checked afterwards.
    """
    packs = packs or {}
    function.verify()
    names = argument_names(function)
    arrays = as_the_kernel_takes_them(function, arrays)
    physical = {name: pack_array(arrays[name], packs.get(name)) for name in names}
    arenas = {"arena": np.full(64, CANARY, np.float32), "weights": np.full(64, CANARY, np.float32)}
    arguments, places = [], {}
    for name, role in zip(names, argument_roles(function), strict=True):
        space = "weights" if role == "weight" else "arena"
        data = physical[name].ravel().view(np.float32)
        places[name] = (space, arenas[space].size, data.size)
        arguments.append(Argument(name, space, 4 * arenas[space].size, 4 * data.size, role))
        padding = np.full(64 + -data.size % 64, CANARY, np.float32)
        arenas[space] = np.concatenate([arenas[space], data, padding])
    launch = Launch("launch", function.sym_name.data, tuple(arguments), ())
    printed = print_c(function, function.sym_name.data)
    run = built_program(tuple(emit_program("c", [printed], [launch]).source.lines))
    aligned = {space: _aligned(data) for space, data in arenas.items()}
    assert run(*[a.ctypes.data for a in aligned.values()], 1, None, None, None) == 0
    results = {}
    used = {space: np.zeros(data.size, bool) for space, data in arenas.items()}
    for name, (space, start, size) in places.items():
        used[space][start : start + size] = True
        data = aligned[space][start : start + size].view(physical[name].dtype)
        data = data.reshape(physical[name].shape)
        results[name] = unpack_array(data, arrays[name].shape, packs.get(name))
    for space, is_used in used.items():
        assert (aligned[space][~is_used] == CANARY).all(), "written outside of a buffer"
    return results


def as_the_kernel_takes_them(function, arrays):
    """Weights in the form that the kernel reads, and scratch that its schedule added."""
    outputs = winograd_weights(function)
    arrays = {
        name: array.astype(np.float16) if name in narrowed_weights(function) else array
        for name, array in arrays.items()
    }
    taken = {
        name: transform_weights(array, outputs[name]) if name in outputs else array
        for name, array in arrays.items()
    }
    for name, value in zip(argument_names(function), function.body.block.args, strict=True):
        if name not in taken:
            taken[name] = np.full(value.type.get_shape(), np.nan, np.float32)
    return taken


@cache
def built_program(lines):
    """The program's entry point; see kernels/program/translation_unit.py for its arguments.

    Each text is compiled once: many schedules are compared with one textbook nest.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.c")
        path.write_text(without_driver(lines))
        subprocess.run(["gcc", *FLAGS, str(path), "-o", f"{folder}/program.so", "-lm"], check=True)
        run = ctypes.CDLL(f"{folder}/program.so").explorer_run
    run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, *[ctypes.c_void_p] * 3]
    return run


def _aligned(data):
    room = np.empty(data.size + 16, np.float32)
    start = (-room.ctypes.data // 4) % 16
    room[start : start + data.size] = data
    return room[start : start + data.size]
