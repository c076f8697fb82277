"""Names of the targets of this package, as a type with which editors complete them."""

from typing import Literal

TargetName = Literal[
    "aarch64-linux",
    "armv7-linux",
    "cortex-m0",
    "cortex-m4",
    "cpu",
    "edge-64",
    "mac-128",
    "odd-12x20",
    "opencl",
    "opencl_gpu",
    "riscv64-linux",
    "tiny-8",
    "vta-16",
    "vta-32",
    "wasm32-wasi",
    "x86-64",
    "x86-64-v3",
]
"""One for each file of the folder; files elsewhere are given by their paths."""
