"""Programs of torch.export written by hand: the archive's few JSON files, and weights as bytes.

graph = Program({"x": ("float32", [3, 4])})
y = graph.call("aten.relu.default", {"self": ref("x")}, "float32", [3, 4])
graph.write(path, outputs=[y])
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

CODES = {"uint8": 1, "int32": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8, "bool": 12}

WEIGHT = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
TRACE = """  File "/home/ann/nets/net.py", line 7, in forward
    y = self.head(x)
  File "/usr/lib/python3/torch/nn/modules/linear.py", line 134, in forward
    return F.linear(input, self.weight, self.bias)"""


def ref(name: str) -> dict[str, Any]:
    return {"as_tensor": {"name": name}}


def refs(*names: str) -> dict[str, Any]:
    return {"as_tensors": [{"name": name} for name in names]}


def ints(*numbers: int) -> dict[str, Any]:
    return {"as_ints": list(numbers)}


def number(name: str) -> dict[str, Any]:
    return {"as_sym_int": {"as_name": name}}


def size(value: int | str) -> dict[str, Any]:
    if isinstance(value, int):
        return {"as_int": value}
    text = value if "(" in value else f"Symbol('{value}', positive=True, integer=True)"
    return {"as_expr": {"expr_str": text}}


def meta(kind: str, sizes: Sequence[int | str]) -> dict[str, Any]:
    steps: list[Any] = []
    step: Any = 1
    for extent in reversed(sizes):
        steps.insert(0, step)
        step = step * extent if isinstance(step, int) and isinstance(extent, int) else "s9"
    return {
        "dtype": CODES[kind],
        "sizes": [size(extent) for extent in sizes],
        "strides": [size(extent) for extent in steps],
        "storage_offset": {"as_int": 0},
        "layout": 7,
    }


class Program:
    """A graph under construction."""

    def __init__(
        self,
        inputs: Mapping[str, tuple[str, Sequence[int | str]]],
        weights: Mapping[str, np.ndarray] | None = None,
        ranges: Mapping[str, Any] | None = None,
    ) -> None:
        self.inputs, self.weights = inputs, dict(weights or {})
        self.ranges = ranges or {}
        self.nodes: list[dict[str, Any]] = []
        self.values = {name: meta(*kind) for name, kind in inputs.items()}
        for name, array in self.weights.items():
            self.values[f"p_{name}"] = meta(array.dtype.name, array.shape)

    def call(
        self,
        target: str,
        arguments: Mapping[str, Any],
        kind: str = "",
        sizes: Sequence[int | str] = (),
        *,
        name: str = "",
        trace: str = "",
        module: str = "",
    ) -> str:
        """Appends a call with one result, a tensor of this type; a number where there is none."""
        name = name or f"v{len(self.nodes)}"
        if kind:
            self.values[name] = meta(kind, sizes)
        output = ref(name) if kind else number(name)
        named = [{"name": key, "arg": value, "kind": 1} for key, value in arguments.items()]
        self.nodes.append(
            {
                "target": target if target.startswith("_") else f"torch.ops.{target}",
                "inputs": named,
                "outputs": [output],
                "metadata": {"stack_trace": trace, "nn_module_stack": module},
                "name": name,
            }
        )
        return name

    def model(self, outputs: Sequence[str]) -> dict[str, Any]:
        given = [f"p_{name}" for name in self.weights] + list(self.inputs)
        specs: list[Any] = [
            {"parameter": {"arg": {"name": f"p_{name}"}, "parameter_name": name}}
            for name in self.weights
        ]
        specs += [{"user_input": {"arg": ref(name)}} for name in self.inputs]
        graph = {
            "inputs": [ref(name) for name in given],
            "outputs": [ref(name) for name in outputs],
            "nodes": self.nodes,
            "tensor_values": self.values,
            "sym_int_values": {},
            "sym_bool_values": {},
        }
        signature = {
            "input_specs": specs,
            "output_specs": [{"user_output": {"arg": ref(name)}} for name in outputs],
        }
        return {
            "graph_module": {"graph": graph, "signature": signature},
            "range_constraints": dict(self.ranges),
            "schema_version": {"major": 8, "minor": 20},
            "torch_version": "2.13.0",
        }

    def config(self) -> dict[str, Any]:
        return {
            "config": {
                name: {
                    "path_name": f"weight_{index}",
                    "is_param": True,
                    "use_pickle": False,
                    "tensor_meta": meta(array.dtype.name, array.shape),
                }
                for index, (name, array) in enumerate(self.weights.items())
            }
        }

    def write(self, path: Path, outputs: Sequence[str]) -> Path:
        members = {
            "models/model.json": json.dumps(self.model(outputs)).encode(),
            "data/weights/model_weights_config.json": json.dumps(self.config()).encode(),
        }
        for index, array in enumerate(self.weights.values()):
            members[f"data/weights/weight_{index}"] = array.tobytes()
        return archive(path, members)


def archive(path: Path, members: Mapping[str, bytes], compression: int = 0) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in members.items():
            file.writestr(f"{path.stem}/{name}", content)
    return path


def linear_program() -> tuple[Program, str]:
    program = Program({"x": ("float32", [3, 4])}, {"head.weight": WEIGHT})
    y = program.call(
        "aten.linear.default",
        {"input": ref("x"), "weight": ref("p_head.weight")},
        "float32",
        [3, 5],
        name="linear",
        trace=TRACE,
        module="L__self__,,nets.Net;L__self__head,head,torch.nn.modules.linear.Linear",
    )
    return program, y
