"""What becomes of one architecture under `torch.compile(module, backend="explorer")`.

    judge("plain/lstm")        Result(name="plain/lstm", status="right", ...)

Every tensor that the compiled module gives must be eager's, as `judged` says it. `in part`: all are
right, but some nodes stayed PyTorch's, or Dynamo took the module to no backend. Recurrent layers go
to backends (`allow_rnn`), which Dynamo by default leaves to eager.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from judged import FAILED, NO_MEMORY, NOT_EXPORTED, RIGHT, WRONG, Result, make, one_line
from torch import nn
from torch.utils import _pytree

from explorer.session.torch_backend import explorer
from verification.conformance.pytorch.comparing import array_of, require_equal

IN_PART = "in part"
_LEFT = "PyTorch's"
"""In each warning of the backend that says what it leaves out."""


def judge(name: str) -> Result:
    """Whatever goes wrong is a result."""
    started = time.perf_counter()
    graphs: list[int] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        status, reason = _judged(name, graphs)
    left = [str(w.message) for w in caught if _LEFT in str(w.message)]
    if status == RIGHT and (left or not graphs):
        status, reason = IN_PART, one_line(left[0] if left else "Dynamo gave no graph")
    seconds = round(time.perf_counter() - started, 2)
    return Result(name=name, status=status, reason=reason, nodes=sum(graphs), seconds=seconds)


def _judged(name: str, graphs: list[int]) -> tuple[str, str]:
    try:
        with torch.no_grad():
            module, args, kwargs = make(name)
            given = copy.deepcopy((args, kwargs))
            expected = _tensors(copy.deepcopy(module)(*args, **kwargs))
    except Exception as error:  # torch's exceptions have no base of theirs
        return NOT_EXPORTED, one_line(f"{type(error).__name__}: {error}")
    try:
        found = _run(module, *given, graphs)
        pairs = list(enumerate(found))
        require_equal(
            {str(i): array_of(t) for i, t in pairs},
            {str(i): tensor for i, tensor in enumerate(expected)},
        )
    except AssertionError as error:
        return WRONG, one_line(error)
    except MemoryError:
        return NO_MEMORY, "while compiling or running"
    except Exception as error:  # a defect of the project is a result here, and not the end
        return FAILED, one_line(f"{type(error).__name__}: {error}")
    return RIGHT, "" if len(graphs) == 1 else f"{len(graphs)} graphs"


def _run(
    module: nn.Module, args: Sequence[Any], kwargs: dict[str, Any], graphs: list[int]
) -> list[torch.Tensor]:
    """The compiled module's tensors. `graphs` gets how many nodes each graph has."""

    def counted(graph: Any, examples: Sequence[Any]) -> Callable[..., Any]:
        graphs.append(len(graph.graph.nodes))
        return explorer(graph, examples)

    torch._dynamo.reset()
    torch._dynamo.config.allow_rnn = True
    with torch.no_grad():
        return _tensors(torch.compile(module, backend=counted)(*args, **kwargs))


def _tensors(results: Any) -> list[torch.Tensor]:
    return [value for value in _pytree.tree_leaves(results) if torch.is_tensor(value)]
