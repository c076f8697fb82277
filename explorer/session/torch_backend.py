"""PyTorch's `torch.compile(module, backend="explorer")`: inference graphs by this compiler.

    fast = torch.compile(module.eval(), backend="explorer")
    fast(x)                             compiled when it is first called
    explorer.last_compilation()         what was made of it, to look at

Dynamo gives a graph and example inputs. It is exported, with the parameters among the inputs as
constants, and compiled. Nodes that have no form here are left to torch, and what stands between
them is compiled in parts. A graph whose gradients are asked for is split first: its forward pass is
compiled, its backward pass is torch's, and a warning says so. Parameters that change afterwards are
noticed, and the graph is compiled again.

A program of the processor has as many threads as torch (`torch.get_num_threads()`) when it is
compiled, or as the option `threads` says:

    torch.compile(module, backend="explorer", options={"threads": 1})

torch loads this file by its entry point; nothing of ours loads torch otherwise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import getitem
from typing import TYPE_CHECKING, Any  # Any: torch's own types, which are not known here

import numpy as np

from explorer.errors import ExplorerError, UnsupportedError
from explorer.importers.pytorch.exporting import read_live
from explorer.importers.pytorch.file.program import Ref
from explorer.importers.pytorch.file.reading import PytorchContent

if TYPE_CHECKING:
    from explorer.compilation import Compilation
    from explorer.importers.model import SourceModel

Run = Callable[..., Any]


class _Last:
    """The compilation that was made last."""

    compilation: Compilation | None = None


_LAST = _Last()


def last_compilation() -> Compilation | None:
    return _LAST.compilation


def explorer(graph: Any, example_inputs: Sequence[Any], **options: Any) -> Run:
    """What torch calls with every graph: what runs it.

    options: `threads`, by default torch's; `target`, and all others of `explorer.compile`.
    """
    import torch

    options = dict(options.get("options") or options)
    if torch.is_grad_enabled() and any(_needs_gradient(value) for value in example_inputs):
        warnings.warn(
            "explorer compiles the forward pass of this graph; its backward pass is PyTorch's. "
            "Under torch.no_grad() all of it is inference.",
            stacklevel=2,
        )
        return _with_backward(graph, example_inputs, options)
    return _Compiled(graph, list(example_inputs), options)


def _needs_gradient(value: Any) -> bool:
    return bool(getattr(value, "requires_grad", False))


def _with_backward(graph: Any, example_inputs: Sequence[Any], options: dict[str, Any]) -> Run:
    """Both passes as functional graphs of ATen, of which the first is compiled."""
    from functorch.compile import make_boxed_func  # pyright: ignore[reportPrivateImportUsage]
    from torch._dynamo.backends.common import aot_autograd

    def forward(inner: Any, inputs: Sequence[Any]) -> Run:
        return make_boxed_func(_Compiled(inner, list(inputs), options))

    def backward(inner: Any, inputs: Sequence[Any]) -> Run:
        del inputs
        return make_boxed_func(inner.forward)

    return aot_autograd(fw_compiler=forward, bw_compiler=backward)(graph, example_inputs)


class _Compiled:
    """A graph that is compiled when it is first called, and again for other sizes or parameters."""

    def __init__(self, graph: Any, examples: list[Any], options: dict[str, Any]) -> None:
        import torch

        self._graph, self._options = graph, options
        self._fixed = [
            index
            for index, value in enumerate(examples)
            if isinstance(value, torch.nn.Parameter | torch.nn.Buffer)
            or getattr(value, "_dynamo_static_input_type", None) is not None
        ]
        self._runs: dict[tuple[Any, ...], Run] = {}

    def __call__(self, *inputs: Any) -> Any:
        import torch

        with torch.no_grad():
            key = tuple(self._key(index, value) for index, value in enumerate(inputs))
            run = self._runs.get(key)
            if run is None:
                for old in [k for k in self._runs if _is_outdated(k, key)]:
                    del self._runs[old]
                # In a thread of its own: torch may be in the midst of a graph's forward pass, whose
                # state of dispatch belongs to this one and is not for tracing.
                with ThreadPoolExecutor(1) as thread:
                    run = self._runs[key] = thread.submit(self._compile, inputs).result()
            return run(*inputs)

    def _key(self, index: int, value: Any) -> Any:
        """What a compiled graph is right for: sizes and types, and the contents of parameters."""
        if not hasattr(value, "shape"):
            return value
        kind = (tuple(value.shape), value.dtype, str(value.device))
        is_fixed = index in self._fixed
        return (*kind, value.data_ptr(), value._version) if is_fixed else kind

    def _compile(self, inputs: Sequence[Any]) -> Run:
        import torch

        with torch.no_grad():
            return self._made(inputs)

    def _made(self, inputs: Sequence[Any]) -> Run:
        import torch

        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        if any(not tensor.is_cpu for tensor in tensors):
            warnings.warn(
                "explorer runs on the processor; this graph stays PyTorch's", stacklevel=2
            )
            return self._graph
        if any(tensor.is_sparse for tensor in tensors):
            warnings.warn(
                "sparse tensors have no form here; this graph stays PyTorch's", stacklevel=2
            )
            return self._graph
        bound = _bound(self._graph, inputs, set(self._fixed))
        free = [
            value
            for index, value in enumerate(inputs)
            if index not in self._fixed and isinstance(value, torch.Tensor)
        ]
        program = torch.export.export(bound, tuple(free)).run_decompositions({})
        try:
            run = _whole(read_live(program), self._options)
        except UnsupportedError as error:
            warnings.warn(f"some nodes stay PyTorch's: {error.problems[0]}", stacklevel=2)
            run = _in_parts(program, self._options)
        places = [i for i, v in enumerate(inputs) if i not in self._fixed and torch.is_tensor(v)]
        return lambda *given: run(*(given[place] for place in places))


def _is_outdated(old: tuple[Any, ...], new: tuple[Any, ...]) -> bool:
    """Whether both differ by the contents of a parameter."""
    return any(
        isinstance(a, tuple) and isinstance(b, tuple) and len(a) == 5 and a != b
        for a, b in zip(old, new, strict=True)
    )


def _bound(graph: Any, inputs: Sequence[Any], fixed: set[int]) -> Any:
    """A module of the graph that takes tensors only; parameters are its own, numbers constants."""
    import torch
    from torch.fx.traceback import preserve_node_meta

    class Bound(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.numbers = {i: v for i, v in enumerate(inputs) if not isinstance(v, torch.Tensor)}
            for index in fixed:
                if isinstance(inputs[index], torch.Tensor):
                    self.register_buffer(f"fixed_{index}", inputs[index].detach())

        def forward(self, *free: Any) -> Any:
            rest = iter(free)
            values = [
                self.numbers[index]
                if index in self.numbers
                else getattr(self, f"fixed_{index}")
                if index in fixed
                else next(rest)
                for index in range(len(inputs))
            ]
            # Node by node, so that the lines of Python that made them stay known.
            with preserve_node_meta():
                return torch.fx.Interpreter(graph).run(*values)

    return Bound()


# -- what is compiled ------------------------------------------------------------------------------


def _whole(model: SourceModel, options: dict[str, Any]) -> Run:
    """The whole model as a function of torch's tensors. UnsupportedError where it is not."""
    from explorer.compilation import compile_model

    content = model.content
    assert isinstance(content, PytorchContent), model.format
    if model.states:
        raise UnsupportedError("it writes into its buffers", problems=["a buffer that changes"])
    settings = {"target": "cpu", **options}
    threads = settings.pop("threads", None)
    compilation = compile_model(model, **settings)
    _LAST.compilation = compilation
    executable = compilation.open(_threads(compilation, threads), isolated=False)
    names = [value.name for value in model.inputs]

    def run(*tensors: Any) -> Any:
        inputs = {name: _array(t) for name, t in zip(names, tensors, strict=True)}
        found = executable.run(inputs)
        return [
            _tensor(found[argument.name], argument.name in content.complexes)
            if isinstance(argument, Ref)
            else argument
            for argument in content.returned
        ]

    return run


def _threads(compilation: Compilation, asked: int | None) -> int | None:
    """As many as were asked for, else as many as torch uses; a driver has its own."""
    import torch

    if asked is not None:
        return asked
    return torch.get_num_threads() if compilation.backend.owns_threads else None


def _array(tensor: Any) -> np.ndarray:
    import torch

    tensor = tensor.detach()
    if tensor.is_complex():  # both parts are a last axis
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.dtype == torch.bfloat16:
        import ml_dtypes

        return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def _tensor(array: np.ndarray, is_complex: bool = False) -> Any:
    import torch

    if is_complex:
        return torch.view_as_complex(_tensor(array))
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _in_parts(program: Any, options: dict[str, Any]) -> Run:
    """Runs of nodes that are compiled, between those that torch runs."""
    from torch.fx.passes.split_module import split_module

    from explorer.compilation import inspect_model

    part_of = _part_class()
    problems = inspect_model(read_live(program)).problems
    refused = {name.rsplit("/", 1)[-1] for name in problems}
    module = program.module(check_guards=False)
    part, was_refused, parts = 0, False, {}
    for node in module.graph.nodes:
        if node.op in ("placeholder", "output", "get_attr"):
            continue
        if node.target is getitem and node.args[0] in parts:  # between parts go single tensors
            parts[node] = parts[node.args[0]]
            continue
        is_refused = node.op != "call_function" or node.name in refused
        if is_refused != was_refused:
            part, was_refused = part + 1, is_refused
        parts[node] = part
    split = split_module(module, module, lambda node: parts[node])
    for name, inner in list(split.named_children()):
        if name.startswith("submod_"):
            setattr(split, name, part_of(inner, options))
    return lambda *tensors: split(*tensors)


def _part_class() -> Any:
    import torch

    class Part(torch.nn.Module):
        """A part that is compiled when it is first called, where it can be."""

        def __init__(self, inner: Any, options: dict[str, Any]) -> None:
            super().__init__()
            self.inner, self.options = inner, options
            self.run: Run | None = None

        def forward(self, *tensors: Any) -> Any:
            if self.run is None:
                self.run = self._compiled(tensors)
            return self.run(*tensors)

        def _compiled(self, tensors: Sequence[Any]) -> Run:
            before = _LAST.compilation
            try:
                run = _whole(read_live(self.inner, tensors), self.options)
            except ExplorerError:
                return self.inner
            after = _LAST.compilation
            assert after is not None
            if before is not None and len(before.model.nodes) > len(after.model.nodes):
                _LAST.compilation = before
            is_single = not isinstance(self.inner(*tensors), tuple | list)
            return (lambda *given: run(*given)[0]) if is_single else run

    return Part


__all__ = ["explorer", "last_compilation"]
