"""The other side of the comparison: a network by PyTorch's operators, in a Python that has torch.

    python peer.py FOLDER      graph.json and arrays.npz; answers each line of its standard input

`run` writes outputs.npz, `time REPEATS` answers the processor seconds of the fastest inference.
Modules are traced, frozen (which folds batch normalizations into convolutions) and optimized for
inference (which gives oneDNN packed weights and layouts of its own); channels last is tried, too,
and the fastest one stays. Nothing of the explorer is imported here.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

WARM_UP = 3


def padded(x, attributes, fill=0.0):
    """(input, symmetric padding): what is not symmetric is added before."""
    begin_end = attributes.get("pads", [0, 0, 0, 0])
    rank = len(begin_end) // 2
    begin, end = begin_end[:rank], begin_end[rank:]
    if begin == end:
        return x, begin
    sides = [side for pair in zip(reversed(begin), reversed(end), strict=True) for side in pair]
    return functional.pad(x, sides, value=fill), [0] * rank


def convolution(attributes, x, weight, bias=None):
    x, pads = padded(x, attributes)
    ones = [1] * len(pads)
    strides, dilations = (attributes.get(name, ones) for name in ("strides", "dilations"))
    return functional.conv2d(x, weight, bias, strides, pads, dilations, attributes.get("group", 1))


def max_pool(attributes, x):
    x, pads = padded(x, attributes, float("-inf"))
    size = attributes["kernel_shape"]
    ceil = bool(attributes.get("ceil_mode", 0))
    return functional.max_pool2d(x, size, attributes.get("strides", 1), pads, ceil_mode=ceil)


def average_pool(attributes, x):
    size, pads = attributes["kernel_shape"], attributes.get("pads", [0, 0, 0, 0])
    strides = attributes.get("strides", [1, 1])
    counts = bool(attributes.get("count_include_pad", 0))
    ceil = bool(attributes.get("ceil_mode", 0))
    if pads[:2] == pads[2:] or counts:
        return functional.avg_pool2d(x, size, strides, pads[:2], ceil, counts)
    inside, _ = padded(torch.ones_like(x[:1, :1]), attributes)
    x, none = padded(x, attributes)
    total, number = (
        functional.avg_pool2d(a, size, strides, none, ceil, divisor_override=1) for a in (x, inside)
    )
    return total / number


def gemm(attributes, a, b, c=None):
    a = a.T if attributes.get("transA", 0) else a
    b = b if attributes.get("transB", 0) else b.T
    return functional.linear(a, b, c)


def reshaped(attributes, x, shape):
    sizes = [x.shape[d] if n == 0 else int(n) for d, n in enumerate(shape.tolist())]
    return x.reshape(sizes)


def unsqueezed(attributes, x, axes=None):
    for axis in sorted(attributes.get("axes", [] if axes is None else axes.tolist())):
        x = x.unsqueeze(int(axis))
    return x


def normalized(attributes, x, scale, bias, mean, variance):
    epsilon = attributes.get("epsilon", 1e-5)
    return functional.batch_norm(x, mean, variance, scale, bias, eps=epsilon)


OPERATORS = {
    "Conv": convolution,
    "BatchNormalization": normalized,
    "Relu": lambda a, x: functional.relu(x),
    "Clip": lambda a, x, low=None, high=None: torch.clamp(
        x,
        a.get("min", low if low is None else float(low)),
        a.get("max", high if high is None else float(high)),
    ),
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": lambda a, x: functional.adaptive_avg_pool2d(x, 1),
    "Flatten": lambda a, x: x.flatten(a.get("axis", 1)),
    "Reshape": reshaped,
    "Transpose": lambda a, x: x.permute(a["perm"]),
    "Gemm": gemm,
    "MatMul": lambda a, x, y: torch.matmul(x, y),
    "Add": lambda a, x, y: x + y,
    "Sum": lambda a, *x: sum(x[1:], x[0]),
    "Mul": lambda a, x, y: x * y,
    "Div": lambda a, x, y: x / y,
    "Softmax": lambda a, x: functional.softmax(x, a.get("axis", -1 if x.dim() != 4 else 1)),
    "LayerNormalization": lambda a, x, scale, bias: functional.layer_norm(
        x, scale.shape, scale, bias, a.get("epsilon", 1e-5)
    ),
    "Erf": lambda a, x: torch.erf(x),
    "Concat": lambda a, *x: torch.cat(x, a["axis"]),
    "Unsqueeze": unsqueezed,
    "Gather": lambda a, x, index: x.select(a.get("axis", 0), int(index)),
    "LRN": lambda a, x: functional.local_response_norm(
        x, a["size"], a.get("alpha", 1e-4), a.get("beta", 0.75), a.get("bias", 1.0)
    ),
    "Dropout": lambda a, x, *more: x,
}
"""By ONNX's names: attributes, then inputs."""


class Network(torch.nn.Module):
    """The nodes in their order; weights are constants."""

    def __init__(self, graph, weights):
        super().__init__()
        self.graph = graph
        self.weights = {name: torch.from_numpy(array) for name, array in weights.items()}

    def forward(self, *inputs):
        known = {"": None, **self.weights, **dict(zip(self.graph["inputs"], inputs, strict=True))}
        for kind, attributes, read, written in self.graph["nodes"]:
            known[written] = OPERATORS[kind](attributes, *(known[name] for name in read))
        return tuple(known[name] for name in self.graph["outputs"])


def seconds_of(network, inputs, repeats):
    best = float("inf")
    for _ in range(repeats):
        started = time.thread_time()
        network(*inputs)
        best = min(best, time.thread_time() - started)
    return best


def fastest(network, inputs):
    """The form of the network, and of its inputs, in which it is fastest."""
    last = [x.to(memory_format=torch.channels_last) if x.dim() == 4 else x for x in inputs]
    forms = []
    for given in (inputs, last):
        traced = torch.jit.freeze(torch.jit.trace(network, given, check_trace=False).eval())
        forms.append((traced, given))
    optimized = torch.jit.trace(network, inputs, check_trace=False).eval()
    forms.append((torch.jit.optimize_for_inference(torch.jit.freeze(optimized)), inputs))
    timed = []
    for number, (form, given) in enumerate(forms):
        seconds_of(form, given, WARM_UP)
        timed.append((seconds_of(form, given, WARM_UP), number))
    return forms[min(timed)[1]]


def main(folder):
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)
    graph = json.loads((folder / "graph.json").read_text())
    arrays = dict(np.load(folder / "arrays.npz"))
    inputs = [torch.from_numpy(arrays.pop(f"input {name}")) for name in graph["inputs"]]
    with torch.no_grad():
        network, given = fastest(Network(graph, arrays).eval(), inputs)
        print(torch.__version__, flush=True)
        for line in sys.stdin:
            command, *arguments = line.split()
            if command == "time":
                print(seconds_of(network, given, int(arguments[0])), flush=True)
            else:
                outputs = [x.contiguous().numpy() for x in network(*given)]
                names = dict(zip(graph["outputs"], outputs, strict=True))
                np.savez(folder / "outputs.npz", **names)
                print("written", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
