"""What every reference can do with a model, whatever program it is.

judge = reference_of(model)
judge.tensors(model, {"image": image}, ["conv1_out", "logits"])     who is right
with judge.open(model, threads=2) as opened:                        who is faster
    opened.time({"image": image}, least=3, budget_seconds=0.02)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np

from explorer.errors import ModelError
from explorer.importers.format import format_named, loaded

if TYPE_CHECKING:
    from explorer.importers.model import SourceModel
    from explorer.references.parts import NoPart, Part


class OpenedModel(Protocol):
    """A model that another program has loaded, in a child process. Close it, or use it in a `with`
    statement.

    Every method raises ModelError where the other program refuses, dies or takes longer than it
    may; the message names the program, the model and what happened.
    """

    @property
    def name(self) -> str:
        """Of the program: onnxruntime."""
        ...

    @property
    def is_alive(self) -> bool:
        """Whether its child still lives; without it every request fails as the last one did."""
        ...

    def run(
        self, inputs: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """The outputs by name, all of them unless some are named. Any: an output may be a tensor,
        and in some formats a list of tensors or a mapping."""
        ...

    def time(
        self, inputs: Mapping[str, np.ndarray], least: int, budget_seconds: float
    ) -> list[float]:
        """Seconds of each of `least` inferences, and of more until the budget is spent.

        They are counted in the child around the inference alone.
        """
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *of_error: object) -> None: ...


@dataclass(frozen=True, kw_only=True)
class ReferenceNode:
    """One node of a model, which the reference can compute alone and in float64."""

    name: str
    operator: str
    inputs: tuple[str, ...]
    """Tensors; empty for one that is left out."""
    outputs: tuple[str, ...]
    evaluate: Callable[[Sequence[np.ndarray | None]], list[np.ndarray]]
    """Its results with floats in float64. Raises whatever it meets where nobody can compute it."""
    is_passed_on: bool = False
    """Whether its first result is its first input."""


class Reference(Protocol):
    """Who is right about the models of a format. Subclass it for what most have in common."""

    name: str
    """Of the program: onnxruntime."""
    title: str
    """What reports call it, with how it runs: `onnxruntime, optimizations off`."""

    has_float64: ClassVar[bool] = False
    """Whether somebody computes single nodes in float64 (`nodes`); else tensors of floats are held
    to the tolerance alone."""

    keeps_special: ClassVar[bool] = False
    """Whether NaN and infinities pass its kernels as IEEE 754 has it: others clamp them, or leave
    them out of a maximum."""

    def title_of(self, model: SourceModel) -> str:
        """What reports call it where it judges this model: not all models have the same judge."""
        del model
        return self.title

    def start(self) -> None:
        """Prepares for what will be asked soon, beside other work; nothing where that is quick."""

    def tensors(
        self, model: SourceModel, inputs: Mapping[str, np.ndarray], names: Sequence[str]
    ) -> list[tuple[str, np.ndarray]]:
        """Some of `model.tensors`, every node computed as the file says it. One that is no tensor
        of numbers comes in the form that the imported program has it in, or not at all.

        ModelError where the program does not load or run the model.
        """
        ...

    def open(
        self,
        model: SourceModel,
        *,
        threads: int = 1,
        is_exact: bool = False,
        sizes: Mapping[str, int] | None = None,
    ) -> OpenedModel:
        """The model as its users run it, in a child of its own, which ends when it is closed.

        `is_exact`: without what makes it faster and a little wrong. `sizes`: of symbolic
        dimensions, known beforehand. ModelError where the program does not load the model.
        """
        ...

    def may_tie(self, model: SourceModel) -> Collection[str] | None:
        """The quantized tensors whose rounding may go either way, because floats were rounded.
        Others have to be equal, bit by bit: the file states how they are rounded. None: all may."""
        del model
        return None

    def nodes(self, model: SourceModel) -> Mapping[str, ReferenceNode]:
        """By the tensors that they make, to judge a float64 run; none where the reference has no
        float64: then tensors that it rounds are held to the tolerance alone."""
        del model
        return {}

    def parts(
        self, model: SourceModel, values: Mapping[str, np.ndarray]
    ) -> Iterator[Part | NoPart]:
        """The operations as models of their own, which the reference runs alone. values: tensors of
        a run by name, inputs and constants included. ModelError where no operation is cut out."""
        del values
        raise ModelError(f"operations of {model.format} models are not cut out")


def reference_of(model: SourceModel) -> Reference:
    """Who is right about a model. ModelError where nobody is known."""
    found = format_named(model.format).reference
    if found is None:
        raise ModelError(f"nobody else runs {model.format} models here")
    return loaded(found)
