"""What every reference can do with a model, whatever program it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np


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
