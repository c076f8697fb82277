"""Text with, for every line, what it belongs to: the link between the levels of a compilation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceText:
    """Lines of IR, C, OpenCL C or assembly.

    `owners[i]` holds the tags that line i (from 0) comes from; empty when it belongs to nothing.
    In IR of whole functions a tag is an operation's identity ("conv_3"). In kernels, which several
    operations may share, a tag is "kernel/statement" ("conv_1/main"); `KernelRecord.operations`
    leads from the kernel to the operations.
    """

    language: str
    """mlir, c, opencl, assembly or ptx."""
    lines: tuple[str, ...]
    owners: tuple[tuple[str, ...], ...]
