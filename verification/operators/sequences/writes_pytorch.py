"""PyTorch modules that write into their buffers and inputs, three calls each, judged by eager.

    m.a.mul_(0.5).add_(v); x[0] = v[0]; return x + m.a
    compiled    through torch.compile(backend="explorer"): results, inputs and buffers afterwards
    exported    through torch.export: results and buffers, which are states of the program

A module is a few of STATEMENTS, drawn from a seed. Inputs live on from call to call, so that what
one call writes is what the next one reads.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any  # Any: torch's own types, which are not known here

import numpy as np
import torch

import explorer as ex
from explorer.compilation import compile_model
from explorer.importers.model import SourceModel
from explorer.importers.pytorch.file.program import Ref
from explorer.importers.pytorch.file.reading import PytorchContent
from explorer.onnx_backend.backend import TARGETS
from verification.operators.comparing import same
from verification.operators.numbers import hostile

TYPES = ("float32", "float64", "int64")
KINDS = ("normal", "ties", "zeros", "special")
CALLS = 3
SHAPE = (3, 4)
Statement = Callable[[Any, Any, Any, Any], Any]
"""Of the module, its inputs x and v, and what the statements before made; the new value of it."""


def _accumulated(m: Any, x: Any, v: Any, out: Any) -> Any:
    m.a.add_(x)
    return out + m.a


def _decayed(m: Any, x: Any, v: Any, out: Any) -> Any:
    m.a.mul_(2).sub_(v)
    return out - m.a


def _counted(m: Any, x: Any, v: Any, out: Any) -> Any:
    m.count += 1
    return out * m.count


def _pushed(m: Any, x: Any, v: Any, out: Any) -> Any:
    m.ring[:-1] = m.ring[1:].clone()
    m.ring[-1] = x[0]
    return out + m.ring.sum(0)


def _rolled(m: Any, x: Any, v: Any, out: Any) -> Any:
    m.ring.copy_(torch.roll(m.ring, 1, 0))
    return out + m.ring[0]


def _placed(m: Any, x: Any, v: Any, out: Any) -> Any:
    """Where the count says: an index that changes with every call."""
    place = (m.count % m.ring.shape[0]).reshape(1)
    m.ring.index_copy_(0, place, v[:1])
    m.count.add_(1)
    return out + m.ring.sum()


def _into_a_row(m: Any, x: Any, v: Any, out: Any) -> Any:
    x[0] = v[0]
    return out


def _clamped(m: Any, x: Any, v: Any, out: Any) -> Any:
    x.clamp_(-1, 1)
    return out + x


def _transposed(m: Any, x: Any, v: Any, out: Any) -> Any:
    x.T[0].mul_(2)
    return out


def _added_twice(m: Any, x: Any, v: Any, out: Any) -> Any:
    """One place twice: both additions count."""
    x.index_add_(0, torch.tensor([1, 1]), v[:2])
    return out * x


def _masked(m: Any, x: Any, v: Any, out: Any) -> Any:
    x.masked_fill_(v > 0, 3)
    return out


def _copied(m: Any, x: Any, v: Any, out: Any) -> Any:
    v.copy_(x * 2)
    return out + v


def _swapped(m: Any, x: Any, v: Any, out: Any) -> Any:
    before = m.a.clone()
    m.a.copy_(x)
    x.copy_(before)
    return out


def _strided(m: Any, x: Any, v: Any, out: Any) -> Any:
    x.view(-1)[1::2] = 0
    return out - x


def _chosen(m: Any, x: Any, v: Any, out: Any) -> Any:
    m.a.copy_(torch.where(x > 0, x, m.a))
    return out + m.a


def _rectified(m: Any, x: Any, v: Any, out: Any) -> Any:
    x.relu_()
    return x - out


def _filled(m: Any, x: Any, v: Any, out: Any) -> Any:
    m.a[:, 1:3].fill_(2)
    m.a.diagonal().zero_()
    return out + m.a


STATEMENTS: Mapping[str, Statement] = {
    function.__name__.strip("_"): function
    for function in (
        *(_accumulated, _decayed, _counted, _pushed, _rolled, _placed, _into_a_row, _clamped),
        *(_transposed, _added_twice, _masked, _copied, _swapped, _strided, _chosen, _rectified),
        _filled,
    )
}
INTO_INPUTS = frozenset(
    ("into_a_row", "clamped", "transposed", "added_twice", "masked", "copied", "swapped")
) | {"strided", "rectified"}


class Written(torch.nn.Module):
    """The statements one after the other."""

    def __init__(self, names: Sequence[str], dtype: Any, start: Any) -> None:
        super().__init__()
        self.statements = [STATEMENTS[name] for name in names]
        self.register_buffer("a", start.clone())
        self.register_buffer("ring", torch.zeros(5, SHAPE[1], dtype=dtype))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Any, v: Any) -> Any:
        out = x + v
        for statement in self.statements:
            out = statement(self, x, v, out)
        return out


def drawn(how: str, seed: int) -> tuple[Callable[[str], None], dict[str, Any]]:
    """What runs the calls on a device, or raises AssertionError; type and kind of the numbers."""
    warnings.simplefilter("ignore")  # of torch, about itself
    torch.set_num_threads(1)
    random = np.random.default_rng([seed, 11])
    names = [str(n) for n in random.choice([*STATEMENTS], int(random.integers(1, 5)), False)]
    if how == "exported":
        names = [n for n in names if n not in INTO_INPUTS] or ["accumulated"]
    dtype = str(random.choice(TYPES))
    kind = str(random.choice(KINDS)) if "float" in dtype else "small"

    def tensor() -> Any:
        return torch.from_numpy(hostile(random, dtype, SHAPE, kind))

    module = Written(names, getattr(torch, dtype), tensor()).eval()
    inputs = [tensor(), tensor()]
    run = _compiled if how == "compiled" else _exported
    words = {"type": dtype, "kind": f"{kind} {' '.join(names)}"}
    return lambda device: run(module, inputs, device, dtype), words


def _called(
    function: Callable[..., Any], module: Any, inputs: Sequence[Any]
) -> list[list[np.ndarray]]:
    """After each call: the result, the inputs, and the buffers."""
    inputs, found = [x.clone() for x in inputs], []
    with torch.no_grad():
        for _ in range(CALLS):
            result = function(*inputs)
            tensors = [result, *inputs, *(b for _, b in module.named_buffers())]
            found.append([t.detach().numpy().copy() for t in tensors])
    return found


def _require(
    found: Sequence[Sequence[np.ndarray]], right: Sequence[Sequence[np.ndarray]], dtype: str
) -> None:
    for number, (ours, expected) in enumerate(zip(found, right, strict=True)):
        problem = same(ours, expected, dtype)
        if problem:
            raise AssertionError(f"call {number}: {problem}")


def _compiled(module: Any, inputs: Sequence[Any], device: str, dtype: str) -> None:
    """INTERPRETER has no such form: it is judged on the processor."""
    own = copy.deepcopy(module)
    target = TARGETS.get(device, TARGETS["CPU"])
    torch._dynamo.reset()
    fast = torch.compile(own, backend="explorer", options={"target": target})
    eager = copy.deepcopy(module)
    expected = _called(eager, eager, inputs)
    _require(_called(fast, own, inputs), expected, dtype)


def _exported(module: Any, inputs: Sequence[Any], device: str, dtype: str) -> None:
    eager = copy.deepcopy(module)
    expected = _called(eager, eager, inputs)
    model = ex.load(torch.export.export(copy.deepcopy(module), tuple(x.clone() for x in inputs)))
    arrays = [x.numpy() for x in inputs]
    found = _run_all(model, arrays, device)
    buffers = [name for name, _ in module.named_buffers()]
    for number, (results, states) in enumerate(found):
        right = dict(zip(buffers, expected[number][1 + len(inputs) :], strict=True))
        kept = [right[name] for name in states]
        _require([[*results, *states.values()]], [[expected[number][0], *kept]], dtype)


def _run_all(
    model: SourceModel, arrays: Sequence[np.ndarray], device: str
) -> list[tuple[list[np.ndarray], dict[str, np.ndarray]]]:
    """Results and states after each call."""
    content = model.content
    assert isinstance(content, PytorchContent)
    states = {state.input: state for state in model.states}
    names = [value.name for value in model.inputs if value.name not in states]
    given = dict(zip(names, arrays, strict=True))
    held = {name: state.initial for name, state in states.items()}
    returned = [a.name for a in content.returned if isinstance(a, Ref)]
    results = [n for n in returned if n not in {s.output for s in states.values()}]
    executable = None
    if device != "INTERPRETER":
        executable = compile_model(model, TARGETS[device]).open(isolated=False)
    found = []
    try:
        for _ in range(CALLS):
            inputs = {**given, **held}
            outputs = ex.interpret(model, inputs) if executable is None else executable.run(inputs)
            held = {name: np.array(outputs[state.output]) for name, state in states.items()}
            found.append(([np.array(outputs[name]) for name in results], dict(held)))
    finally:
        if executable is not None:
            executable.close()
    return found
