"""PyTorch's operator samples (OpInfo), exported: eager says what is right.

    for case in load_cases():                      # abs, add, nn.functional.conv2d, ...
        outcome = Suite(is_decomposed=True).run(case.name, case.group, "CPU")

A case is an entry of `torch.testing._internal`'s list with float32: its first, middle and last
sample. An entry is left out (`random`, `not exported`) where eager gives other numbers the second
time, or torch.export takes none of its samples. Integers and booleans must be equal, floats within
1e-4 of the largest number of their tensor, NaN and infinities at the same places.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any  # torch's own types, which are not known here

import numpy as np

import explorer as ex
from explorer.compilation import compile_model
from explorer.importers.model import SourceModel
from explorer.importers.pytorch.file.program import Ref
from explorer.importers.pytorch.file.reading import PytorchContent
from explorer.onnx_backend.backend import TARGETS
from verification.conformance.coverage import not_generated
from verification.conformance.pytorch.comparing import array_of, require_equal
from verification.conformance.suite import Case, Outcome, judge, open_here

GROUPS = ("as exported", "decomposed")
SAMPLES = 3
MAX_SAMPLES = 200
"""That are drawn to choose from."""
SIGNS_ARE_FREE = ("svd", "linalg.svd", "linalg.eigh")
"""Entries whose vectors may have any signs: compared is what PyTorch's own tests make of them."""


class NotJudged(Exception):
    """Why an entry has nothing to compare with: its status."""


def entries(dtype: str = "float32") -> dict[str, Any]:
    """PyTorch's list of what has an element type, by name and variant; all of it without one."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    return {
        ".".join(filter(None, (entry.name, entry.variant_test_name))): entry
        for entry in op_db
        if not dtype or getattr(torch, dtype) in entry.dtypes
    }


def load_cases(is_decomposed: bool) -> list[Case]:
    group = GROUPS[is_decomposed]
    return [Case(name, group, (name,)) for name in sorted(entries())]


class Suite:
    """Runs entries by name."""

    def __init__(self, is_decomposed: bool) -> None:
        import torch

        warnings.simplefilter("ignore")  # of torch, about itself
        torch.set_num_threads(1)
        self._entries = entries()
        self._is_decomposed = is_decomposed

    def run(self, case: str, group: str, device: str) -> Outcome:
        """Runs one entry in this process; whatever it raises becomes an outcome."""
        started = time.perf_counter()
        status, reason = "", ""
        try:
            samples = self._samples(self._entries[case])
        except NotJudged as left_out:
            status, reason = str(left_out), str(left_out.__cause__ or "")[:200]
        else:
            status, reason = judge(lambda: _run_all(samples, device), device)
        seconds = time.perf_counter() - started
        return Outcome(
            case=case, group=group, device=device, status=status, reason=reason, seconds=seconds
        )

    def _samples(self, entry: Any) -> list[tuple[Any, list[Any], list[Any]]]:
        """Exported programs with inputs and what eager makes of them."""
        import torch

        drawn = []
        for sample in entry.sample_inputs("cpu", torch.float32, requires_grad=False):
            drawn.append(sample)
            if len(drawn) == MAX_SAMPLES:
                break
        # What nobody wrote may be the same twice.
        if "empty" in entry.name:
            raise NotJudged("random")
        found, refusal = [], None
        for number in sorted({0, len(drawn) // 2, len(drawn) - 1}):
            module, tensors = module_of(entry, drawn[number])
            with torch.no_grad():
                try:
                    expected = [flat(module(*(t.clone() for t in tensors))) for _ in range(2)]
                    require_same(*expected)
                    program = torch.export.export(module, tuple(tensors))
                    if self._is_decomposed:
                        program = program.run_decompositions()
                except NotJudged:
                    raise
                except Exception as error:  # torch's exceptions have no base of theirs
                    refusal = error
                    continue
            found.append((program, tensors, expected[0]))
        if not found:
            raise NotJudged("not exported") from refusal
        return found


def module_of(entry: Any, sample: Any) -> tuple[Any, list[Any]]:
    """A module of the operator, whose inputs are the sample's tensors."""
    import torch
    from torch.utils._pytree import tree_flatten, tree_unflatten

    leaves, spec = tree_flatten(((sample.input, *sample.args), sample.kwargs))

    class Operator(torch.nn.Module):
        def forward(self, *tensors):
            rest = iter(tensors)
            given = [next(rest) if torch.is_tensor(leaf) else leaf for leaf in leaves]
            args, kwargs = tree_unflatten(given, spec)
            made = entry.op(*args, **kwargs)
            if entry.name in SIGNS_ARE_FREE:
                made = sample.output_process_fn_grad(made)
            # Named tuples of torch's have no name in an archive.
            return tuple(made) if isinstance(made, tuple) else made

    tensors = [leaf.detach().clone() for leaf in leaves if torch.is_tensor(leaf)]
    return Operator(), tensors


def flat(value: Any) -> list[Any]:
    """All results in their order, numbers as tensors without axes, as Python holds them; what is
    left is None."""
    from torch import as_tensor, float64
    from torch.utils._pytree import tree_leaves

    def tensor_of(leaf: Any) -> Any:
        if isinstance(leaf, float):
            return as_tensor(leaf, dtype=float64)
        return as_tensor(leaf) if isinstance(leaf, bool | int) else leaf

    return [tensor_of(leaf) for leaf in tree_leaves(value)]


def require_same(first: Sequence[Any], second: Sequence[Any]) -> None:
    import torch

    for one, other in zip(first, second, strict=True):
        if torch.is_tensor(one) and not torch.allclose(one, other, equal_nan=True):
            raise NotJudged("random")


def _run_all(
    samples: Sequence[tuple[Any, list[Any], list[Any]]], device: str
) -> tuple[str, str] | None:
    """AssertionError where numbers differ; else what did not run as generated code."""
    left_out: tuple[str, str] | None = None
    for program, tensors, expected in samples:
        model = ex.load(program)
        inputs = {
            value.name: array_of(tensor)
            for value, tensor in zip(model.inputs, tensors, strict=True)
        }
        left_out = run_program(model, inputs, expected, device) or left_out
    return left_out


def run_program(
    model: SourceModel,
    inputs: dict[str, np.ndarray],
    expected: Sequence[Any],
    device: str,
    require: Callable[[Mapping[str, np.ndarray], Mapping[str, Any]], None] = require_equal,
) -> tuple[str, str] | None:
    """`require`: raises AssertionError where outputs are not the tensors of the same names."""
    content = model.content
    assert isinstance(content, PytorchContent), model.format
    pairs = zip(content.returned, expected, strict=True)
    judged = {argument.name: right for argument, right in pairs if isinstance(argument, Ref)}
    if device == "INTERPRETER":
        require(ex.interpret(model, inputs), judged)
        return None
    compilation = compile_model(model, TARGETS[device])
    executable = open_here(compilation)
    try:
        found = executable.run(dict(inputs))
    finally:
        executable.close()
    require(found, judged)
    return not_generated(compilation, frozenset())
