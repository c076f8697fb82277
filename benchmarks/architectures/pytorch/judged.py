"""What becomes of one architecture: exported, read, compiled and compared with eager.

    judge("plain/lstm")        Result(name="plain/lstm", status="right", ...)

torch exports the module into a file, of which all the rest is ours. Every output must be within
1e-4 of the largest number of its tensor; whole numbers must be equal. Of the modules' random
weights those with one axis, and the statistics of normalizations, are drawn around what torch
starts them with: at ones and zeros, or at 1e-6 for a whole branch, errors would not show.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree

import explorer
from explorer.compilation import compile_model
from explorer.errors import ExplorerError, UnsupportedError
from explorer.importers import SourceModel
from explorer.importers.pytorch.file.program import Ref
from explorer.importers.pytorch.file.reading import PytorchContent
from verification.conformance.coverage import not_generated
from verification.conformance.pytorch.comparing import require_equal

RIGHT, WRONG, REFUSED, FAILED = "right", "wrong", "refused", "failed"
NOT_EXPORTED, NO_MEMORY = "not exported", "no memory"


@dataclass(frozen=True, kw_only=True)
class Result:
    """How one went."""

    name: str
    status: str
    reason: str = ""
    """Of a refusal its problems, one a line; of one that is right, what ran on the host."""
    nodes: int = 0
    parameters: int = 0
    seconds: float = 0.0


@dataclass(kw_only=True)
class _Sizes:
    """What is known as soon as the file is read."""

    nodes: int = 0
    parameters: int = 0


def make(name: str) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    """A module ready to be exported, and its arguments, the same each time."""
    from registry import LIBRARIES

    torch.manual_seed(0)
    library, _, own = name.partition("/")
    module, args, kwargs = LIBRARIES[library].make(own)
    module.eval()
    _draw_vectors(module)
    return module, args, kwargs


def _draw_vectors(module: nn.Module) -> None:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim <= 1 and parameter.is_floating_point():
                parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
        for name, buffer in module.named_buffers():
            if name.endswith("running_mean"):
                buffer += 0.05 * torch.randn(buffer.shape, generator=generator)
            elif name.endswith("running_var"):
                buffer *= 0.75 + 0.5 * torch.rand(buffer.shape, generator=generator)


def judge(name: str) -> Result:
    """Whatever goes wrong is a result."""
    warnings.simplefilter("ignore")  # of torch and the libraries, about themselves
    started = time.perf_counter()
    sizes = _Sizes()
    status, reason = _judged(name, sizes)
    return Result(
        name=name,
        status=status,
        reason=reason,
        nodes=sizes.nodes,
        parameters=sizes.parameters,
        seconds=round(time.perf_counter() - started, 2),
    )


def _judged(name: str, sizes: _Sizes) -> tuple[str, str]:
    with tempfile.TemporaryDirectory(prefix="explorer-architectures-") as folder:
        path = Path(folder, "net.pt2")
        try:
            inputs, expected = _exported(name, path)
        except MemoryError:
            return NO_MEMORY, "while exporting"
        except Exception as error:  # torch's exceptions have no base of theirs
            return NOT_EXPORTED, one_line(f"{type(error).__name__}: {error}")
        try:
            return RIGHT, _compared(path, inputs, expected, sizes)
        except AssertionError as error:
            return WRONG, one_line(error)
        except UnsupportedError as error:
            return REFUSED, "\n".join(error.problems) or error.message
        except MemoryError:
            return NO_MEMORY, "while compiling or running"
        except ExplorerError as error:
            return FAILED, one_line(f"{type(error).__name__}: {error.message}")
        except Exception as error:  # a defect of the project is a result here, and not the end
            return FAILED, one_line(f"{type(error).__name__}: {error}")


def _exported(name: str, path: Path) -> tuple[list[np.ndarray], list[Any]]:
    """Writes the file. The inputs in their order, and eager's outputs."""
    module, args, kwargs = make(name)
    copies = _pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
    with torch.no_grad():
        expected = [v for v in _pytree.tree_leaves(module(*args, **kwargs)) if torch.is_tensor(v)]
        torch.export.save(torch.export.export(module, *copies), path)
    tensors = [v for v in _pytree.tree_leaves(copies) if torch.is_tensor(v)]
    return [tensor.numpy() for tensor in tensors], expected


def _compared(path: Path, given: list[np.ndarray], expected: list[Any], sizes: _Sizes) -> str:
    """What ran on the host. AssertionError where numbers differ."""
    model = explorer.load(path)
    sizes.nodes, sizes.parameters = len(model.nodes), model.parameters
    states = {state.input: state.initial for state in model.states}
    asked = [value.name for value in model.inputs if value.name not in states]
    inputs = dict(zip(asked, given, strict=True)) | states
    compilation = compile_model(model, "cpu")
    executable = compilation.open(isolated=False)
    try:
        found = executable.run(inputs)
    finally:
        executable.close()
    require_equal(found, dict(zip(_outputs(model), expected, strict=True)))
    left_out = not_generated(compilation, frozenset())
    return "" if left_out is None else one_line(": ".join(left_out))


def _outputs(model: SourceModel) -> list[str]:
    content = model.content
    assert isinstance(content, PytorchContent), model.format
    return [argument.name for argument in content.returned if isinstance(argument, Ref)]


def one_line(text: object, limit: int = 300) -> str:
    """Without its breaks, and shortened."""
    words = " ".join(str(text).split())
    return words if len(words) <= limit else words[: limit - 1] + "…"
