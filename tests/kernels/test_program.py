"""Every level of the kernel path computes what NumPy says, and so do the binaries.

Small programs are compiled side by side, many in one build. Each value of each program is read at
level kernels, loops, scheduled and memory (one buffer per value), and out of the planned binary on
the processor and on an OpenCL device.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

from explorer.accuracy.execution import CompiledRunner
from explorer.kernels.program import build_program, host_ports
from explorer.runtime.devices import DeviceRecord, list_devices

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

# float32 rounds by 6e-8; sums of at most 1,000 products in another order, and exp, tanh and
# division of two libraries, stay below thirty times that.
TOLERANCE = 2e-6


@pytest.fixture(scope="module")
def opencl_device() -> DeviceRecord:
    for device in list_devices():
        if device.kind == "opencl" and device.usable:
            return device
    pytest.skip("no OpenCL device")


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
        net = Net(
            x=(1, 3, 9, 9), z=(1, 1, 9, 9), r=(9,), t=(channels, 9, 9), u=(1, channels, 9, 9)
        )
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
    return texts


def matrices() -> dict[str, str]:
    texts = {}
    for m, k, n in ((1, 7, 10), (1, 64, 17), (5, 13, 33), (8, 64, 64), (1, 300, 3), (3, 1, 5)):
        net = Net(x=(m, k), b=(2, m, k), r=(2, m, n))
        one = net.matmul("x", net.weight(k, n), f", bias = %{net.weight(n)}")
        two = net.matmul("b", net.weight(k, n), ", residual = %r")
        texts[f"m{m}k{k}n{n}"] = net.text(one, two)
    return texts


ZOO = {
    "convolutions": convolutions,
    "depthwise_and_groups": depthwise_and_groups,
    "joins_and_pools": joins_and_pools,
    "pointwise": pointwise,
    "views_and_ports": views_and_ports,
    "matrices": matrices,
}


def assert_same(values, expected, level: str) -> None:
    """Every value that both know is within the tolerance, and the outputs are among them."""
    common = [name for name in expected if name in values]
    wrong = {
        name: error
        for name in common
        if not (error := programs.max_relative(values[name], expected[name])) <= TOLERANCE
    }
    assert not wrong, f"{level}: {wrong}"
    assert len(common) > len(expected) // 2, f"{level}: only {common} were compared"


def assert_same_outputs(values, working_outputs, level: str) -> None:
    given = [array for name, array in values.items() if name.startswith("output:")]
    assert len(given) == len(working_outputs)
    for number, (actual, expected) in enumerate(zip(given, working_outputs, strict=True)):
        error = programs.max_relative(actual, expected)
        assert error <= TOLERANCE, f"{level}: output {number} is off by {error}"


def outputs(snapshot, values) -> list[np.ndarray]:
    last = snapshot.module.body.block.first_op.body.block.last_op
    return [values[programs.value_name(o)] for o in last.operands]


@pytest.mark.parametrize("name", ZOO)
def test_all_levels_and_the_binary_compute_what_numpy_does(name):
    text = programs.side_by_side(ZOO[name]())
    working = programs.program(text)
    inputs = programs.random_inputs(working.snapshot)
    source = working.snapshot
    expected = source.run(inputs)
    results = programs.lower(working, lanes=16)
    assert [r.after.level for r in results] == [
        "top", "top", "kernels", "loops", "scheduled", "memory"
    ]  # fmt: skip
    runner = CompiledRunner()
    for result in results[:2]:
        assert_same(result.after.run(inputs), expected, result.name)
    for result in results[2:]:
        assert_same(runner.run(result.after, inputs, {}), expected, result.name)
    runner.close()
    values = programs.run_binary(results, inputs, "c")
    assert_same(values, expected, "binary")
    assert_same_outputs(values, outputs(source, expected), "binary")


@pytest.mark.opencl
@pytest.mark.parametrize("name", ZOO)
def test_the_opencl_binary_computes_what_numpy_does(name, opencl_device):
    text = programs.side_by_side(ZOO[name]())
    working = programs.program(text)
    source = working.snapshot
    inputs = programs.random_inputs(source)
    expected = source.run(inputs)
    results = programs.lower(working, lanes=8, language="opencl")
    values = programs.run_binary(results, inputs, "opencl", opencl_device)
    assert_same(values, expected, "opencl")
    assert_same_outputs(values, outputs(source, expected), "opencl")
