"""PyTorch, alone in a process of its own: a graph node by node, with its kernels.

    {"do": "open", "model": ..., "constants": {"w": [0, "float32", [8, 3]]}, "inputs": ["x"],
     "complexes": [],
     "calls": [["aten.relu.default", {"self": {"ref": "x"}}, ["relu"], {"relu": "relu"}]],
     "outputs": ["relu"], "threads": 1, "compiles": false}
        {"inputs": ["x"], "outputs": [["relu", "float32"]]}
    {"do": "run", "inputs": {"x": ...}, "outputs": ["relu"]}              {"values": [...]}
    {"do": "time", "inputs": {...}, "least": 3, "budget_seconds": 0.02}   {"seconds": [...]}
    {"do": "close"}                                                       {}

The graph is what the explorer's own reader made of a file; `torch.export.load`, which evaluates
and unpickles, never sees one. Targets are overloads of `torch.ops.aten` and of
`torch.ops.quantized_decomposed`, and the functions of numbers listed here. The last of a call's
entries says which versions of tensors to take from which of them, as they are after the call.
Complex numbers come and go with both parts as a last axis.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any  # JSON, and PyTorch's own types, which are not known here

import numpy as np
import torch
from exchange import Exchange  # pyright: ignore[reportMissingImports]  beside this file
from serving import serve  # pyright: ignore[reportMissingImports]
from timing import time_calls  # pyright: ignore[reportMissingImports]


def _grouped_product(x: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Rows up to each end times a matrix of their own; zeros behind the last one."""
    y = x.new_zeros(x.shape[0], weights.shape[2])
    bounds = [0, *ends.tolist()]
    for begin, end, weight in zip(bounds, bounds[1:], weights, strict=False):
        y[begin:end] = x[begin:end] @ weight
    return y


_ATEN = re.compile(r"aten\.(\w+)\.(\w+)")
_QUANTIZATION = re.compile(r"quantized_decomposed\.(\w+)(?:\.(\w+))?")
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        f"_operator.{name}": getattr(operator, name)
        for name in (
            "add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "neg", "not_", "eq", "ne",
            "lt", "le", "gt", "ge", "and_", "or_",
        )
    },
    **{f"math.{name}": getattr(math, name) for name in ("floor", "ceil", "trunc")},
    "transformers.grouped_mm_fallback": _grouped_product,
    "torch.sym_max": max,
    "torch.sym_min": min,
    "torch.sym_float": float,
    "torch.sym_int": int,
    "torch.sym_not": operator.not_,
    "torch.sym_sqrt": math.sqrt,
    "torch._sym_sqrt": math.sqrt,
    "torch.sym_ite": lambda condition, a, b: a if condition else b,
}  # fmt: skip
_FORMATS = (
    torch.contiguous_format, torch.contiguous_format, torch.channels_last, torch.channels_last_3d,
    torch.preserve_format,
)  # fmt: skip


class Graph:
    """Calls in their order; nested graphs are run by what takes them."""

    def __init__(self, described: dict[str, Any]) -> None:
        self.inputs: list[str] = described["inputs"]
        self.outputs: list[Any] = described["outputs"]
        self.calls = [
            (_function(target), target, arguments, results, versions)
            for target, arguments, results, versions in described["calls"]
        ]

    def run(
        self,
        values: dict[str, Any],
        wanted: set[str] = frozenset(),  # pyright: ignore
    ) -> dict[str, Any]:
        """Fills `values`; what is wanted, as it is when it was made."""
        found = {name: _kept(values[name]) for name in wanted if name in values}
        for function, target, arguments, results, versions in self.calls:
            made = _called(function, target, arguments, values)
            flat = list(_flattened(made))
            values.update(zip(results, flat, strict=False))
            for version, name in versions.items():
                if version in wanted:
                    found[version] = _kept(values[name])
        return found

    def returned(self, arguments: list[Any]) -> list[Any]:
        values = dict(zip(self.inputs, arguments, strict=True))
        self.run(values)
        return [_argument(output, values) for output in self.outputs]


def _function(target: str) -> Callable[..., Any] | None:
    """None for what takes graphs."""
    if target in _FUNCTIONS:
        return _FUNCTIONS[target]
    match = _ATEN.fullmatch(target)
    if match is not None:
        return getattr(getattr(torch.ops.aten, match.group(1)), match.group(2))
    match = _QUANTIZATION.fullmatch(target)
    if match is not None:
        import_module("torch.ao.quantization.fx._decomposed")  # which declares them
        library = torch.ops.quantized_decomposed
        return getattr(getattr(library, match.group(1)), match.group(2) or "default")
    if target in _HIGHER_ORDER:
        return None
    raise ValueError(f"{target} is no function that is run here")


def _called(
    function: Callable[..., Any] | None, target: str, arguments: dict[str, Any], values: Any
) -> Any:
    if function is None:
        return _HIGHER_ORDER[target]([_argument(a, values) for a in arguments.values()])
    placed, named = _split(target, {n: _argument(a, values) for n, a in arguments.items()})
    return function(*placed, **named)


def _split(target: str, given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by their places and by their names: `self` is one of Python's own methods, too."""
    if target.startswith("quantized_decomposed."):
        return [], given
    if not target.startswith("aten."):
        return list(given.values()), {}
    count = list(given).index("self") + 1 if "self" in given else 0
    placed = list(given.values())[:count]
    return placed, dict(list(given.items())[count:])


def _argument(described: Any, values: dict[str, Any]) -> Any:
    if isinstance(described, list):
        return [_argument(part, values) for part in described]
    if not isinstance(described, dict):
        return described
    ((kind, value),) = described.items()
    match kind:
        case "ref":
            return values[value]
        case "dtype":
            return getattr(torch, value)
        case "memory_format":
            return _FORMATS[value]
        case "layout":
            return torch.strided
        case "device":
            return torch.device("cpu")
        case "complex":
            return complex(*value)
        case "graph":
            return Graph(value)
    raise ValueError(f"an argument of unknown kind {kind}")


def _flattened(made: Any) -> Any:
    if isinstance(made, list | tuple):
        for part in made:
            yield from _flattened(part)
    else:
        yield made


def _kept(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


# -- control ---------------------------------------------------------------------------------------


def _cond(arguments: list[Any]) -> list[Any]:
    condition, if_true, if_false, operands = arguments[:4]
    return (if_true if bool(condition) else if_false).returned(list(operands))


def _while_loop(arguments: list[Any]) -> list[Any]:
    condition, body, carried, others = arguments[:4]
    carried = list(carried)
    while bool(condition.returned([*carried, *others])[0]):
        carried = body.returned([*carried, *others])
    return carried


def _scan(arguments: list[Any]) -> list[Any]:
    body, carried, rows, others = arguments[:4]
    carried, made = list(carried), []
    for index in range(rows[0].shape[0]):
        results = body.returned([*carried, *(row[index] for row in rows), *others])
        carried, row = results[: len(carried)], results[len(carried) :]
        made.append(row)
    return [*carried, *(torch.stack(list(column)) for column in zip(*made, strict=True))]


_HIGHER_ORDER: dict[str, Callable[[list[Any]], list[Any]]] = {
    "higher_order.cond": _cond,
    "higher_order.while_loop": _while_loop,
    "higher_order.scan": _scan,
}


class Torch:
    """A graph, where one is open, with its constants."""

    def __init__(self) -> None:
        self._graph: Any = None
        self._constants: dict[str, Any] = {}
        self._inputs: dict[str, Any] = {}
        self._numbers: list[str] = []
        self._complexes: list[str] = []
        self._compiled: Any = None

    def answer(self, request: dict[str, Any], exchange: Exchange) -> dict[str, Any]:
        match request["do"]:
            case "open":
                return self._open(request, exchange)
            case "close":
                self.__init__()
                return {}
        if request["inputs"] is not None:
            self._inputs = {
                name: _tensor(exchange.take(described))
                for name, described in request["inputs"].items()
            }
        if request["do"] == "time":
            return {"seconds": self._time(request)}
        names = request["outputs"]
        with torch.no_grad():
            found = self._graph.run(self._values(), set(names))
        exchange.clear()
        return {"values": [exchange.put(_array(found[name])) for name in names]}

    def _values(self) -> dict[str, Any]:
        inputs = {
            name: int(value) if name in self._numbers else self._whole(name, value.clone())
            for name, value in self._inputs.items()
        }
        return {**self._constants, **inputs}

    def _whole(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """Complex numbers as PyTorch has them."""
        return torch.view_as_complex(value) if name in self._complexes else value

    def _open(self, request: dict[str, Any], exchange: Exchange) -> dict[str, Any]:
        self.__init__()
        content = bytearray(exchange.take(request["model"]))
        exchange.clear()
        torch.set_num_threads(request["threads"])
        self._complexes = request["complexes"]
        for name, (begin, kind, shape) in request["constants"].items():
            dtype, count = getattr(torch, kind), math.prod(shape)
            flat = torch.empty(0, dtype=dtype)
            if count:
                flat = torch.frombuffer(content, dtype=dtype, count=count, offset=begin)
            self._constants[name] = self._whole(name, flat.reshape(shape))
        self._numbers = request["numbers"]
        self._graph = Graph({**request, "outputs": [{"ref": name} for name in request["shown"]]})
        self._compiled = None
        self._compiles = request["compiles"]
        shown = [[name, kind] for name, kind in request["shown"].items()]
        return {"inputs": request["inputs"], "outputs": shown}

    def _time(self, request: dict[str, Any]) -> list[float]:
        if self._compiled is None:
            module = _module(self._graph, self._constants)
            self._compiled = torch.compile(module) if self._compiles else module
        values = self._values()
        inputs = [values[name] for name in self._graph.inputs]
        with torch.inference_mode():
            self._compiled(*inputs)
            return time_calls(
                lambda: self._compiled(*inputs), request["least"], request["budget_seconds"]
            )


def _module(graph: Graph, constants: dict[str, Any]) -> Any:
    """The graph as a module of torch.fx, which PyTorch's compiler takes: plain calls."""
    root = torch.nn.Module()
    made = torch.fx.Graph()
    nodes: dict[str, Any] = {}
    for number, name in enumerate(graph.inputs):
        nodes[name] = made.placeholder(f"input_{number}")
    for number, (name, tensor) in enumerate(constants.items()):
        root.register_buffer(f"constant_{number}", tensor)
        nodes[name] = made.get_attr(f"constant_{number}")
    for function, target, arguments, results, _ in graph.calls:
        if function is None:
            raise ValueError(f"{target} is not timed")
        given = {name: _argument(a, nodes) for name, a in arguments.items()}
        placed, named = _split(target, given)
        call = made.call_function(function, tuple(placed), named)
        if not results:
            continue
        if _is_single(function, results):
            nodes[results[0]] = call
        else:
            for index, name in enumerate(results):
                if name:
                    nodes[name] = made.call_function(operator.getitem, (call, index))
    made.output(tuple(_argument(output, nodes) for output in graph.outputs))
    return torch.fx.GraphModule(root, made)


def _is_single(function: Any, results: list[str]) -> bool:
    """Whether a call gives one value, and not a list of one."""
    schema = getattr(function, "_schema", None)
    if schema is None:
        return len(results) == 1
    returns = schema.returns
    return len(returns) == 1 and not isinstance(returns[0].type, torch.ListType)


def _tensor(array: np.ndarray) -> Any:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(np.ascontiguousarray(array).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(array, order="C"))


def _array(value: Any) -> np.ndarray:
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    if value.dtype == torch.bfloat16:
        import ml_dtypes  # seldom needed

        return value.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    if value.is_complex():
        value = torch.view_as_real(value.resolve_conj())
    return value.resolve_neg().contiguous().numpy()


if __name__ == "__main__":
    serve(Torch())
