"""Every level of the kernel path computes what NumPy says, and so do the binaries.

Small programs are compiled side by side, many in one build. Each value of each program is read at
level kernels, loops, scheduled and memory (one buffer per value), and out of the planned binary on
the processor and on an OpenCL device.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

from explorer.accuracy.execution import CompiledRunner
from explorer.ir.evaluation import entry_function, entry_return
from explorer.kernels.kernel_cache import clear_kernel_caches
from explorer.kernels.passes import LowerToLoops, ScheduleLoops
from explorer.kernels.schedules import Machine
from explorer.memory.planning import PlanMemory
from explorer.passes.lower.assign_layouts import AssignLayouts
from explorer.passes.lower.lower_to_kernels import LowerToKernels
from explorer.passes.lower.place_on_device import PlaceOnDevice
from explorer.runtime.devices import DeviceRecord, list_devices

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

pytestmark = pytest.mark.usefixtures("quick_builds")

# float32 rounds by 6e-8; sums of at most 1,000 products in another order, and exp, tanh and
# division of two libraries, stay below thirty times that.
TOLERANCE = 2e-6


@pytest.fixture(scope="module")
def opencl_device() -> DeviceRecord:
    for device in list_devices():
        if device.kind == "opencl" and device.usable:
            return device
    pytest.skip("no OpenCL device")


@pytest.fixture(autouse=True)
def direct_convolutions(monkeypatch) -> Iterator[None]:
    """Winograd's forms round otherwise, within bounds of their own (`test_winograd.py`)."""
    clear_kernel_caches()
    monkeypatch.setattr("explorer.kernels.schedules.winograd_cost.MIN_CYCLES", math.inf)
    yield
    clear_kernel_caches()


# -- programs as text ------------------------------------------------------------------------------


class Net:
    """Lines of one program; every method adds an operation named after its number."""

    def __init__(self, **inputs: Sequence[int]):
        self.shapes: dict[str, tuple[int, ...]] = {k: tuple(v) for k, v in inputs.items()}
        self.inputs = tuple(inputs)
        self.lines: list[str] = []

    def add(self, text: str, shape: Sequence[int], element: str = "f32") -> str:
        name = f"v{len(self.lines)}"
        self.shapes[name] = tuple(shape)
        self.lines.append(f"  %{name} = {text} : {tensor(shape, element)}")
        return name

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.lines)}"
        return self.add(f'top.weight() {{weight = "{name}"}}', shape)

    def conv(
        self,
        x: str,
        channels: int,
        window: int = 3,
        stride: int = 1,
        pads: Sequence[int] | None = None,
        dilation: int = 1,
        group: int = 1,
        residual: str = "",
        activation: str = "",
        bias: bool = True,
    ) -> str:
        n, c, h, w = self.shapes[x]
        if pads is None:
            pads = [window // 2] * 4
        filters = self.weight(channels, c // group, window, window)
        parts = [f"%{x}", f"%{filters}"]
        parts += [f"bias = %{self.weight(channels)}"] if bias else []
        parts += [f"residual = %{residual}"] if residual else []
        reach = (window - 1) * dilation + 1
        rows = (h + pads[0] + pads[2] - reach) // stride + 1
        columns = (w + pads[1] + pads[3] - reach) // stride + 1
        fused = f', activation = "{activation}"' if activation else ""
        return self.add(
            f"top.conv({', '.join(parts)}) {{strides = [{stride}, {stride}], pads = {[*pads]}, "
            f"dilations = [{dilation}, {dilation}], group = {group}{fused}}}",
            (n, channels, rows, columns),
        )

    def pool(self, x: str, kind: str, window: int, stride: int, pads: Sequence[int]) -> str:
        n, c, h, w = self.shapes[x]
        rows = (h + pads[0] + pads[2] - window) // stride + 1
        columns = (w + pads[1] + pads[3] - window) // stride + 1
        return self.add(
            f'top.pool(%{x}) {{kind = "{kind}", window = [{window}, {window}], '
            f"strides = [{stride}, {stride}], pads = {[*pads]}, dilations = [1, 1]}}",
            (n, c, rows, columns),
        )

    def unary(self, x: str, kind: str) -> str:
        return self.add(f'top.unary(%{x}) {{kind = "{kind}"}}', self.shapes[x])

    def binary(self, a: str, b: str, kind: str) -> str:
        shape = np.broadcast_shapes(self.shapes[a], self.shapes[b])
        return self.add(f'top.binary(%{a}, %{b}) {{kind = "{kind}"}}', shape)

    def reduce(self, x: str, axes: Sequence[int], keep: bool = True, kind: str = "mean") -> str:
        shape = np.mean(np.empty(self.shapes[x]), axis=tuple(axes), keepdims=keep).shape
        text = f'kind = "{kind}", axes = {[*axes]}, keepdims = {str(keep).lower()}'
        return self.add(f"top.reduce(%{x}) {{{text}}}", shape)

    def reshape(self, x: str, *shape: int) -> str:
        return self.add(f"top.reshape(%{x}) {{shape = {[*shape]}}}", shape)

    def matmul(self, a: str, b: str, extra: str = "") -> str:
        batch = np.broadcast_shapes(self.shapes[a][:-2], self.shapes[b][:-2])
        shape = (*batch, self.shapes[a][-2], self.shapes[b][-1])
        return self.add(f"top.matmul(%{a}, %{b}{extra})", shape)

    def text(self, *returned: str) -> str:
        arguments = ", ".join(f"%{n} : {tensor(self.shapes[n])}" for n in self.inputs)
        types = ", ".join(tensor(self.shapes[n]) for n in returned)
        values = ", ".join(f"%{n}" for n in returned)
        body = "\n".join(self.lines)
        return f"func.func @main({arguments}) -> ({types}) {{\n{body}\n  top.return({values})\n}}"


def tensor(shape: Sequence[int], element: str = "f32") -> str:
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


# -- the zoo ---------------------------------------------------------------------------------------


def convolutions() -> dict[str, str]:
    """(batch, channels in, channels out, rows, columns), window, stride, pads, dilation."""
    cases = {
        "pointwise1": ((1, 1, 1, 5, 7), 1, 1, None, 1),
        "stem": ((1, 3, 8, 8, 8), 3, 1, None, 1),
        "large_stem": ((1, 3, 24, 15, 13), 7, 2, None, 1),
        "asymmetric": ((1, 8, 17, 9, 11), 3, 2, (0, 0, 1, 1), 1),
        "odd_channels": ((1, 17, 24, 7, 7), 3, 1, None, 1),
        "pointwise": ((2, 24, 40, 6, 5), 1, 1, None, 1),
        "five": ((1, 40, 3, 9, 9), 5, 1, None, 1),
        "dilated": ((1, 24, 24, 9, 9), 3, 1, (2, 2, 2, 2), 2),
        "batch": ((3, 16, 32, 8, 8), 3, 1, (0, 1, 2, 0), 1),
        "strided_pointwise": ((1, 17, 17, 7, 7), 1, 2, None, 1),
        "to_one": ((1, 24, 1, 6, 6), 3, 1, None, 1),
        "single_pixel": ((1, 24, 24, 1, 1), 3, 1, None, 1),
    }
    texts = {}
    for name, ((n, c, o, rows, columns), window, stride, pads, dilation) in cases.items():
        net = Net(x=(n, c, rows, columns))
        first = net.conv("x", o, window, stride, pads, dilation)
        second = net.conv(net.conv("x", c, 1), o, window, stride, pads, dilation, bias=False)
        texts[name] = net.text(first, second)
    return texts


def depthwise_and_groups() -> dict[str, str]:
    texts = {}
    for channels in (3, 17, 24):
        net = Net(x=(1, 4, 9, 10))
        inner = net.conv("x", channels, 1)
        for window, stride, pads in ((3, 1, None), (3, 2, (0, 0, 1, 1)), (5, 1, None)):
            inner = net.conv(inner, channels, window, stride, pads, group=channels)
            inner = net.conv(inner, channels, 1, activation="relu")
        texts[f"separable{channels}"] = net.text(inner)
    net = Net(x=(1, 8, 9, 9))
    grouped = net.conv(net.conv("x", 32), 32, group=4)
    texts["grouped"] = net.text(net.conv(grouped, 24))
    net = Net(x=(1, 8, 9, 9))
    texts["multiplier"] = net.text(net.conv(net.conv("x", 16), 32, group=16))
    return texts


def joins_and_pools() -> dict[str, str]:
    texts = {}
    for channels in (8, 17, 24):
        net = Net(x=(1, 3, 9, 9))
        a = net.conv("x", channels)
        texts[f"residual{channels}"] = net.text(net.conv(a, channels, residual=a))
        net = Net(x=(1, 3, 9, 9), z=(1, channels, 9, 9))
        texts[f"residual_input{channels}"] = net.text(net.conv("x", channels, residual="z"))
        net = Net(x=(1, 3, 9, 9))
        a = net.conv("x", channels)
        wide, lopsided = net.conv(a, channels, 5), net.conv(a, channels, pads=(0, 1, 2, 1))
        texts[f"two_halos{channels}"] = net.text(net.binary(wide, lopsided, "add"))
        net = Net(x=(1, 3, 9, 9))
        a = net.conv("x", channels)
        greatest = net.pool(a, "max", 3, 1, (1, 1, 1, 1))
        texts[f"two_fills{channels}"] = net.text(
            net.binary(net.conv(a, channels), greatest, "add"),
            net.pool(a, "average", 3, 2, (1, 1, 1, 1)),
            net.pool(a, "max", 2, 2, (0, 0, 1, 1)),
        )
        net = Net(x=(1, 3, 9, 9))
        a = net.conv("x", channels)
        gate = net.conv(net.reduce(a, (2, 3)), channels, 1, activation="hard_sigmoid")
        texts[f"gate{channels}"] = net.text(net.conv(net.binary(a, gate, "mul"), channels))
    net = Net(x=(3, 16, 5, 7))
    a = net.conv("x", 24)
    texts["batch"] = net.text(net.conv(a, 24, residual=a))
    return texts


def pointwise() -> dict[str, str]:
    texts = {}
    for channels in (8, 17, 24):
        net = Net(x=(1, 3, 9, 9))
        a = net.conv("x", channels)
        for shape in ((1, channels, 1, 1), (channels, 1, 1), (1,), (9,), (9, 1), ()):
            a = net.binary(a, net.weight(*shape), "mul")
        texts[f"broadcast{channels}"] = net.text(a)
        net = Net(x=(1, 3, 9, 9))
        a = net.unary(net.conv("x", channels), "exp")
        texts[f"not_finite{channels}"] = net.text(net.conv(a, channels))
        net = Net(x=(1, 3, 9, 9))
        a = net.unary(net.conv("x", channels), "sigmoid")
        texts[f"halo_behind_sigmoid{channels}"] = net.text(net.conv(a, channels))
        net = Net(x=(1, 3, 9, 9), z=(1, 1, 9, 9), r=(9,), t=(channels, 9, 9), u=(1, channels, 9, 9))
        a = net.conv("x", channels)
        for other in "zrtu":
            a = net.binary(other, a, "add")
        texts[f"inputs{channels}"] = net.text(a)
        net = Net(x=(1, 3, 9, 9))
        a = net.conv("x", channels)
        rows, columns = net.reduce(a, (2,)), net.reduce(a, (3,))
        texts[f"outer{channels}"] = net.text(
            net.binary(rows, columns, "sub"), net.binary(a, net.reduce(a, (1,)), "sub")
        )
    return texts


def views_and_ports() -> dict[str, str]:
    texts = {}
    net = Net(x=(1, 3, 9, 9))
    a = net.conv("x", 17)
    flat = net.reshape(a, 1, 17 * 81)
    texts["flatten"] = net.text(net.matmul(flat, net.weight(17 * 81, 10)))
    net = Net(x=(1, 3, 9, 9))
    flat = net.unary(net.reshape(net.conv("x", 17), 1, 17, 81), "relu")
    texts["between_views"] = net.text(net.conv(net.reshape(flat, 1, 17, 9, 9), 17))
    net = Net(x=(1, 3, 9, 9))
    pooled = net.reduce(net.conv("x", 24), (2, 3))
    texts["classifier"] = net.text(net.reshape(net.conv(pooled, 10, 1), 1, 10))
    net = Net(x=(1, 3, 9, 9))
    a = net.conv("x", 24)
    texts["two_outputs"] = net.text(net.conv(a, 24), a)
    net = Net(x=(1, 3, 9, 9))
    texts["input_returned"] = net.text(net.unary("x", "relu"), "x", net.reshape("x", 243))
    net = Net(x=(4,))
    u = net.unary("x", "relu")
    texts["returned_twice"] = net.text(u, net.reshape(u, 2, 2), u)
    net = Net(x=(4,))
    returned, seen = net.weight(5), net.reshape(net.weight(2, 3), 6)
    texts["weights_returned"] = net.text(net.unary("x", "relu"), returned, seen)
    net = Net(x=(4,), unused=(3,))
    net.unary("x", "exp")
    texts["unused"] = net.text(net.unary("x", "relu"))
    for element in ("i32", "ui8"):
        net = Net(x=(1, 3, 5, 5))
        positive = net.unary("x", "abs")
        whole = net.add(f"top.cast(%{positive}) {{to = {element}}}", (1, 3, 5, 5), element)
        greatest = net.pool(whole, "max", 3, 1, (1, 1, 1, 1))
        net.lines[-1] = net.lines[-1].replace("f32", element)
        result = net.add(f"top.cast(%{greatest}) {{to = f32}}", (1, 3, 5, 5))
        texts[f"integers_{element}"] = net.text(result)
    return texts


def matrices() -> dict[str, str]:
    texts = {}
    for m, k, n in ((1, 7, 10), (1, 64, 17), (5, 13, 33), (8, 64, 64), (1, 300, 3)):
        net = Net(x=(m, k), b=(2, m, k), r=(2, m, n))
        one = net.matmul("x", net.weight(k, n), f", bias = %{net.weight(n)}")
        two = net.matmul("b", net.weight(k, n), ", residual = %r")
        texts[f"m{m}k{k}n{n}"] = net.text(one, two)
    return texts


def batched_matrices() -> str:
    """Two activations: no long matrix can be made of the batch."""
    net = Net(x=(2, 3, 5, 13), z=(2, 3, 13, 33))
    return net.text(net.matmul("x", "z"))


def outer_product() -> str:
    """A sum of a single product."""
    net = Net(x=(3, 1))
    return net.text(net.matmul("x", net.weight(1, 5)))


ZOO = {
    "convolutions": convolutions,
    "depthwise_and_groups": depthwise_and_groups,
    "joins_and_pools": joins_and_pools,
    "pointwise": pointwise,
    "views_and_ports": views_and_ports,
    "matrices": matrices,
}


def computed_values(source) -> list[str]:
    """Values that a kernel makes: all but weights and views."""
    return [
        identity
        for identity, op in source.operations.items()
        if op.name not in ("top.weight", "top.return") and not op.is_view
    ]


def output_names(source) -> list[str]:
    return [programs.value_name(o) for o in entry_return(entry_function(source.module)).operands]


def assert_same(values, expected, names, level: str) -> None:
    wrong = {
        name: error
        for name in names
        if not (error := programs.max_relative(values[name], expected[name])) <= TOLERANCE
    }
    assert not wrong, f"{level}: {wrong}"


def assert_same_outputs(values, expected, names, level: str) -> None:
    given = [array for name, array in values.items() if name.startswith("output:")]
    for name, actual in zip(names, given, strict=True):
        error = programs.max_relative(actual, expected[name])
        assert error <= TOLERANCE, f"{level}: output {name} is off by {error}"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ZOO)
def test_all_levels_and_the_binary_compute_what_numpy_does(name):
    working = programs.program(programs.side_by_side(ZOO[name]()))
    source = working.snapshot
    inputs = programs.random_inputs(source)
    expected, names = source.run(inputs), computed_values(source)
    results = programs.lower(working)
    levels = [r.after.level for r in results]
    assert levels == ["top", "top", "kernels", "loops", "scheduled", "memory"]
    runner = CompiledRunner()
    for result in results:
        is_top = result.after.level == "top"
        values = result.after.run(inputs) if is_top else runner.run(result.after, inputs, {})
        assert_same(values, expected, names, result.name)
    runner.close()
    values = programs.run_binary(results, inputs, "c")
    assert_same(values, expected, names, "binary")
    assert_same_outputs(values, expected, output_names(source), "binary")


@pytest.mark.sampled(3)
@pytest.mark.opencl
@pytest.mark.parametrize("name", ZOO)
def test_the_opencl_binary_computes_what_numpy_does(name, opencl_device):
    working = programs.program(programs.side_by_side(ZOO[name]()))
    source = working.snapshot
    inputs = programs.random_inputs(source)
    expected = source.run(inputs)
    results = programs.lower(working, lanes=16, language="opencl")
    values = programs.run_binary(results, inputs, "opencl", opencl_device)
    assert_same(values, expected, computed_values(source), "opencl")
    assert_same_outputs(values, expected, output_names(source), "opencl")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("lanes", [0, 4])
def test_any_width_of_vectors_computes_the_same(lanes):
    """Without blocks (0 lanes: everything plain but for halos) and with blocks of 4."""
    working = programs.program(programs.side_by_side(joins_and_pools()))
    source = working.snapshot
    inputs = programs.random_inputs(source)
    expected = source.run(inputs)
    passes = [
        PlaceOnDevice("cpu"),
        AssignLayouts(lanes),
        LowerToKernels(),
        LowerToLoops(),
        ScheduleLoops(Machine(vector_floats=lanes or 4, language="c")),
        PlanMemory(),
    ]
    results = programs.run_passes(working, passes)
    values = programs.run_binary(results, inputs, "c")
    assert_same(values, expected, computed_values(source), f"{lanes} lanes")


@pytest.mark.parametrize(
    "text",
    [
        batched_matrices(),
        outer_product(),
    ],
    ids=["batched", "outer product"],
)
def test_unusual_matrices_compute_what_numpy_does(text):
    working = programs.program(text)
    source = working.snapshot
    inputs = programs.random_inputs(source)
    expected = source.run(inputs)
    values = programs.run_binary(programs.lower(working), inputs, "c")
    assert_same(values, expected, computed_values(source), "binary")


def random_net(random: np.random.Generator) -> str:
    """Eight operations, each of any value so far: convolutions, pools, sums, activations."""
    net = Net(x=(1, 3, 8, 8))
    known = [net.conv("x", int(random.choice([5, 16, 20])))]
    for _ in range(8):
        value = known[random.integers(len(known))]
        _, channels, rows, columns = net.shapes[value]
        same = [k for k in known if net.shapes[k] == net.shapes[value]]
        kind = random.choice(["conv", "depthwise", "pool", "add", "residual", "unary", "gate"])
        if kind == "conv":
            pads = [int(p) for p in random.integers(0, 3, 4)]
            if min(rows + pads[0] + pads[2], columns + pads[1] + pads[3]) < 3:
                pads = [1, 1, 1, 1]
            outputs = int(random.choice([1, 8, 17, 24]))
            result = net.conv(value, outputs, 3, int(random.integers(1, 3)), pads)
        elif kind == "depthwise" and channels > 1:
            result = net.conv(value, channels, 3, group=channels, activation="relu")
        elif kind == "pool":
            which = str(random.choice(["max", "average"]))
            result = net.pool(value, which, 3, int(random.integers(1, 3)), (1, 1, 1, 1))
        elif kind == "add":
            result = net.binary(value, same[random.integers(len(same))], "add")
        elif kind == "residual":
            result = net.conv(value, channels, 3, residual=same[random.integers(len(same))])
        elif kind == "gate":
            result = net.binary(value, net.reduce(value, (2, 3)), "mul")
        else:
            result = net.unary(value, str(random.choice(["tanh", "sigmoid", "abs", "relu"])))
        known.append(result)
    outputs = dict.fromkeys([known[-1], known[random.integers(len(known))]])
    return net.text(*outputs)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.sweep)])
def test_random_programs_compute_what_numpy_does(seed):
    random = np.random.default_rng(seed)
    texts = {f"random{i}": random_net(random) for i in range(10)}
    working = programs.program(programs.side_by_side(texts))
    source = working.snapshot
    inputs = programs.random_inputs(source)
    expected = source.run(inputs)
    results = programs.lower(working)
    values = programs.run_binary(results, inputs, "c")
    # Up to nine layers one behind the other add their rounding.
    wrong = {
        name: error
        for name in computed_values(source)
        if not (error := programs.max_relative(values[name], expected[name])) <= 5 * TOLERANCE
    }
    assert not wrong


# -- what stands in the program --------------------------------------------------------------------

TWO_LAYERS = """
func.func @main(%x : tensor<1x3x4x4xf32>) -> tensor<1x4x4x4xf32> {
  %w1 = top.weight() {weight = "w1"} : tensor<4x3x1x1xf32>
  %a = top.conv(%x, %w1) {strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1], group = 1}
    : tensor<1x4x4x4xf32>
  %y = top.unary(%a) {kind = "tanh"} : tensor<1x4x4x4xf32>
  top.return(%y)
}
"""


def test_launches_say_what_they_read_and_where_it_comes_from():
    results = programs.lower(programs.program(TWO_LAYERS), lanes=4)
    built = programs.build(results)
    program = built.program
    assert [launch.operation for launch in program.launches] == ["a", "y", "layout1"]
    conv = next(launch for launch in program.launches if launch.operation == "a")
    assert conv.sources == ("node_a",)
    roles = {a.name: (a.space, a.role) for a in conv.arguments}
    assert roles["x"] == ("arena", "input")
    assert roles["w"] == ("weights", "weight")
    assert roles["y"] == ("arena", "output")
    offsets = results[-1].artifacts["memory"].offsets
    written = next(a.offset_bytes for a in conv.arguments if a.role == "output")
    assert written == offsets["a"]
