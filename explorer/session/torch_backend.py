"""PyTorch's `torch.compile(module, backend="explorer")`: inference graphs by this compiler.

    fast = torch.compile(module.eval(), backend="explorer")
    fast(x)                             compiled when it is first called
    explorer.last_compilation()         what was made of it, to look at

Dynamo gives a graph and example inputs. It is exported, with the parameters among the inputs as
constants, and compiled. Nodes that have no form here are left to torch, and what stands between
them is compiled in parts. A graph whose gradients are asked for is split first: its forward pass is
compiled, its backward pass is torch's, and a warning says so. Parameters that change afterwards are
noticed, and the graph is compiled again.

A graph that writes into its inputs or buffers, or that returns views of them, becomes a functional
one (AOTAutograd): what is compiled returns the new values, and PyTorch writes them back:

    def step(cache, v):               def compiled(cache, v):
        cache[1:2] += v          ->       new = slice_scatter(cache, cache[1:2] + v, 0, 1, 2)
        return cache.sum()                return new, new.sum()         # cache.copy_(new)

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
        return make_boxed_func(_Compiled(inner, list(inputs), options, is_functional=True))

    def backward(inner: Any, inputs: Sequence[Any]) -> Run:
        del inputs
        return make_boxed_func(inner.forward)

    return aot_autograd(fw_compiler=forward, bw_compiler=backward)(graph, example_inputs)


def _with_write_back(graph: Any, inputs: Sequence[Any], constants: set[int], options: Any) -> Run:
    """A functional graph that is compiled, with what writes its results into `inputs`.

    constants: addresses of the memory of parameters that the graph only reads.
    """
    from functorch.compile import make_boxed_func  # pyright: ignore[reportPrivateImportUsage]
    from torch._dynamo.backends.common import aot_autograd

    def forward(inner: Any, given: Sequence[Any]) -> Run:
        run = _Compiled(inner, list(given), options, is_functional=True, constants=constants)
        return make_boxed_func(run)

    return aot_autograd(fw_compiler=forward, inference_compiler=forward)(graph, list(inputs))


class _Compiled:
    """A graph that is compiled when it is first called, and again for other sizes or parameters."""

    def __init__(
        self,
        graph: Any,
        examples: list[Any],
        options: dict[str, Any],
        *,
        is_functional: bool = False,
        constants: set[int] | None = None,
    ) -> None:
        """is_functional: whether it writes nowhere and may return copies for views. constants:
        addresses of what is fixed in such a graph, as soon as it is called."""
        import torch

        self._graph, self._options = graph, options
        self._is_functional, self._constants = is_functional, constants
        self._writes = False
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
            if self._constants is not None:
                found, self._constants = self._constants, None
                self._fixed = [i for i, value in enumerate(inputs) if _address(value) in found]
            key = self._whole_key(inputs)
            run = self._runs.get(key)
            if run is None:
                for old in [k for k in self._runs if _is_outdated(k, key)]:
                    del self._runs[old]
                # In a thread of its own: torch may be in the midst of a graph's forward pass, whose
                # state of dispatch belongs to this one and is not for tracing.
                with ThreadPoolExecutor(1) as thread:
                    run = thread.submit(self._compile, inputs).result()
                self._runs[self._whole_key(inputs)] = run
            return run(*inputs)

    def _whole_key(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        key = tuple(self._key(index, value) for index, value in enumerate(inputs))
        return (*key, ("memory", _sharing(inputs))) if self._writes else key

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
        shared = {index for index, *_ in _sharing(inputs)}  # torch 2.13 exports no such inputs
        bound = _bound(self._graph, inputs, set(self._fixed), shared)
        free = [
            value.clone() if index in shared else value
            for index, value in enumerate(inputs)
            if index not in self._fixed and isinstance(value, torch.Tensor)
        ]
        program = _exported(bound, free)
        if program is None:
            return self._graph
        if not self._is_functional and (_writes(program) or _returns_views(self._graph, inputs)):
            return self._written_back(program, inputs)
        try:
            run = _whole(read_live(program), self._options)
        except UnsupportedError as error:
            warnings.warn(f"some nodes stay PyTorch's: {error.problems[0]}", stacklevel=2)
            run = _in_parts(program, self._options)
        places = [i for i, v in enumerate(inputs) if i not in self._fixed and torch.is_tensor(v)]
        return lambda *given: run(*(given[place] for place in places))

    def _written_back(self, program: Any, inputs: Sequence[Any]) -> Run:
        written = {int(name.removeprefix("fixed_")) for name in _written_buffers(program)}
        # What shares memory with another input changes when that is written into.
        written |= {index for index, *_ in _sharing(inputs)}
        self._fixed = [index for index in self._fixed if index not in written]
        self._writes = True
        constants = {_address(inputs[index]) for index in self._fixed} - {0}
        return _with_write_back(self._graph, inputs, constants, self._options)


def _exported(bound: Any, free: Sequence[Any]) -> Any:
    """The graph as a program of ATen; None, with a warning, where torch cannot export it."""
    import torch

    try:
        return torch.export.export(bound, tuple(free)).run_decompositions({})
    except Exception as error:  # torch's own have no base class in common
        said = " ".join(str(error).split())[:200]
        warnings.warn(
            f"torch cannot export this graph, which stays PyTorch's: {said}", stacklevel=2
        )
        return None


def _address(value: Any) -> int:
    """Of a tensor's first element; 0 for what has none."""
    return value.data_ptr() if hasattr(value, "data_ptr") else 0


def _written_buffers(program: Any) -> list[str]:
    return list(program.graph_signature.buffers_to_mutate.values())


def _writes(program: Any) -> bool:
    """Whether an exported program writes into its inputs or buffers."""
    signature = program.graph_signature
    return bool(
        signature.buffers_to_mutate
        or signature.user_inputs_to_mutate
        or getattr(signature, "parameters_to_mutate", None)
    )


def _returns_views(graph: Any, inputs: Sequence[Any]) -> bool:
    """Whether a graph that writes nowhere returns memory of its inputs."""
    import torch
    from torch.utils._pytree import tree_leaves

    with torch.random.fork_rng(devices=[]):
        results = tree_leaves(torch.fx.Interpreter(graph).run(*inputs))
    memories = {_memory(value) for value in results if torch.is_tensor(value)}
    given = {_memory(value) for value in inputs if torch.is_tensor(value)}
    return bool((given & memories) - {0})


def _memory(tensor: Any) -> int:
    """Where the storage of a tensor begins; 0 for an empty one."""
    return tensor.untyped_storage().data_ptr() if tensor.numel() else 0


def _sharing(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """How tensors lie in memory that several share: what is written into one changes others."""
    import torch

    tensors = {i: value for i, value in enumerate(inputs) if torch.is_tensor(value)}
    memories = [_memory(value) for value in tensors.values()]
    return tuple(
        (index, memories.index(_memory(value)), value.storage_offset(), value.stride())
        for index, value in tensors.items()
        if _memory(value) and memories.count(_memory(value)) > 1
    )


def _is_outdated(old: tuple[Any, ...], new: tuple[Any, ...]) -> bool:
    """Whether both differ by the contents of a parameter."""
    return any(
        isinstance(a, tuple) and isinstance(b, tuple) and len(a) == 5 and a != b
        for a, b in zip(old, new, strict=False)  # one more where a graph was found to write
    )


def _bound(graph: Any, inputs: Sequence[Any], fixed: set[int], shared: set[int]) -> Any:
    """A module of the graph that takes tensors only; parameters are its own, numbers constants.

    shared: inputs that have their memory in common, of which it gets copies.
    """
    import torch
    from torch.fx.traceback import preserve_node_meta

    class Bound(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.numbers = {i: v for i, v in enumerate(inputs) if not isinstance(v, torch.Tensor)}
            for index in fixed:
                if isinstance(inputs[index], torch.Tensor):
                    own = inputs[index].detach()
                    own = own.clone() if index in shared else own
                    self.register_buffer(f"fixed_{index}", own)

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
