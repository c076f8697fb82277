"""Networks with residual sums, and what is measured of them."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.compilation.bit_exactness import is_bit_exact

TARGETS = ("edge-64", "tiny-8", "mac-128", "odd-12x20")


def chain(folder, seed=0, channels=8, size=8, count=4):
    """Convolutions with residual sums: every second result is read twice."""
    random = np.random.default_rng(seed)
    nodes, weights, last, skip = [], [], "x", None
    for index in range(count):
        ins = 3 if not index else channels
        kernel = int(random.choice([1, 3]))
        data = random.normal(0, 0.3, (channels, ins, kernel, kernel)).astype(np.float32)
        weights.append(numpy_helper.from_array(data, f"w{index}"))
        pads = [kernel // 2] * 4
        nodes.append(helper.make_node("Conv", [last, f"w{index}"], [f"c{index}"], pads=pads))
        nodes.append(helper.make_node("Relu", [f"c{index}"], [f"r{index}"]))
        last = f"r{index}"
        if skip is not None and random.random() < 0.7:
            nodes.append(helper.make_node("Add", [last, skip], [f"s{index}"]))
            last = f"s{index}"
        skip = last
    return saved(folder, nodes, weights, last, (1, 3, size, size), random)


def separable(folder, channels, size, count):
    """Depthwise convolutions, each before one of 1 x 1, with weights that fill their range."""
    random = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for index in range(count):
        for name, shape, fields in (
            (f"d{index}", (channels, 1, 3, 3), {"group": channels, "pads": [1] * 4}),
            (f"p{index}", (channels, channels, 1, 1), {}),
        ):
            data = random.uniform(-0.3, 0.3, shape).astype(np.float32)
            weights.append(numpy_helper.from_array(data, f"w{name}"))
            nodes.append(helper.make_node("Conv", [last, f"w{name}"], [f"c{name}"], **fields))
            nodes.append(helper.make_node("Relu", [f"c{name}"], [name]))
            last = name
    return saved(folder, nodes, weights, last, (1, channels, *size), random)


def saved(folder, nodes, weights, last, shape, random):
    """The file of a network that ends with a mean, its thresholds, and an input."""
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["y"]))
    graph = helper.make_graph(
        nodes, "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], weights,
    )  # fmt: skip
    path = folder / "chain.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    x = {"x": random.normal(0, 1, shape).astype(np.float32)}
    table = explorer.calibrate(path, x, method="min-max", corrections=(), arithmetic="integer")
    return path, table, x


def measured(model, target, **decisions):
    """A compilation, what it was counted as, and its outputs; compared with the simulator."""
    path, table, x = model
    c = explorer.compile(path, target, quantization=table, decisions=decisions)
    try:
        outputs = c.run(x)
        found = c.counted
        assert is_bit_exact(c["place-on-device"].after, c.executable, x)
        assert found.cycles == found.predicted_cycles
        assert found.bound_cycles <= found.cycles and found.bound_bytes <= found.bytes
        return c, found, outputs
    finally:
        c.close()
