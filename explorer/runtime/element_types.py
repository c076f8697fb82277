"""Element types by name, also those that NumPy has not of its own (bfloat16, int4 ...)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def know_element_types(names: Iterable[str]) -> None:
    """Types that NumPy has not of its own are known once they are imported."""
    try:
        for name in set(names):
            np.dtype(name)
    except TypeError:
        import ml_dtypes  # noqa: F401


def element_bytes(name: str) -> int:
    """Of one element; TypeError for a name that nobody knows."""
    know_element_types([name])
    return np.dtype(name).itemsize
