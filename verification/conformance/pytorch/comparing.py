"""Whether our outputs are eager's: floats within 1e-4, all else equal.

require_equal({"y": array}, ["y"], [tensor])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any  # torch's own types, which are not known here

import numpy as np

TOLERANCE = 1e-4
"""Of the largest number of a tensor."""


def require_equal(
    found: Mapping[str, np.ndarray], names: Sequence[str], expected: Sequence[Any]
) -> None:
    """AssertionError where a type, shape or number differs; NaN and infinities have their places.

    names: of the outputs, in the order of the tensors `expected`.
    """
    for name, tensor in zip(names, expected, strict=True):
        ours, right = np.asarray(found[name]), tensor.detach().resolve_conj().numpy()
        if (ours.dtype, ours.shape) != (right.dtype, right.shape):
            raise AssertionError(
                f"{name} is {ours.dtype} {ours.shape}, {right.dtype} {right.shape} expected"
            )
        if right.dtype.kind == "f":
            largest = float(np.max(np.abs(right), initial=0, where=np.isfinite(right)))
            np.testing.assert_allclose(ours, right, rtol=0, atol=TOLERANCE * largest)
        else:
            np.testing.assert_array_equal(ours, right)
