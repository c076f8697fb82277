"""Names of the targets of this package, as a type with which editors complete them."""

from typing import Literal

TargetName = Literal[
    "cpu",
    "edge-64",
    "mac-128",
    "odd-12x20",
    "opencl",
    "opencl_gpu",
    "tiny-8",
    "vta-16",
    "vta-32",
]
"""One for each file of the folder; files elsewhere are given by their paths."""
