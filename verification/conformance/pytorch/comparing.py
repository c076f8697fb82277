"""Whether our outputs are eager's: floats within 1e-4, all else equal.

require_equal({"y": array}, {"y": tensor})
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any  # torch's own types, which are not known here

import numpy as np

from explorer.ir.types import ELEMENT_TYPES, numpy_dtype

TOLERANCE = 1e-4
"""Of the largest number of a tensor."""


_BFLOAT16 = numpy_dtype(ELEMENT_TYPES["bfloat16"])


def array_of(tensor: Any) -> np.ndarray:
    """A tensor of torch's as an array; NumPy has no bfloat16 of its own.

    Of complex numbers both parts are a last axis, as the explorer has them.
    """
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.is_complex():
        import torch

        tensor = torch.view_as_real(tensor)
    if str(tensor.dtype) == "torch.bfloat16":
        return tensor.float().numpy().astype(_BFLOAT16)
    return tensor.numpy()


def require_equal(found: Mapping[str, np.ndarray], expected: Mapping[str, Any]) -> None:
    """AssertionError where a type, shape or number differs; NaN and infinities have their places.

    expected: torch's tensors by the names of outputs.
    """
    for name, tensor in expected.items():
        ours, right = np.asarray(found[name]), array_of(tensor)
        if (ours.dtype, ours.shape) != (right.dtype, right.shape):
            raise AssertionError(
                f"{name} is {ours.dtype} {ours.shape}, {right.dtype} {right.shape} expected"
            )
        if right.dtype == _BFLOAT16:
            ours, right = (v.astype(np.float32) for v in (ours, right))
        if right.dtype.kind == "f":
            largest = float(np.max(np.abs(right), initial=0, where=np.isfinite(right)))
            np.testing.assert_allclose(ours, right, rtol=0, atol=TOLERANCE * largest)
        else:
            np.testing.assert_array_equal(ours, right)
