"""A finished program as it is kept: all that running it needs, and what it was made for.

The binary and the weights lie beside it under the digests that stand here.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.results.program import Program


@dataclass(frozen=True)
class ModelInput:
    """An input as the model declares it."""

    name: str
    element_type: str
    """NumPy name: float32, int64 ..."""
    shape: tuple[int | str, ...] | None
    """Dimensions may be names; None where the file does not say it."""


@dataclass(frozen=True)
class ModelSheet:
    """What has to be known of a model to call its programs, without reading it."""

    name: str
    digest: str
    """Of the file's bytes."""
    inputs: tuple[ModelInput, ...]
    defaults: tuple[tuple[str, int], ...]
    """Sizes of symbolic dimensions that nobody has to give."""
    files: tuple[tuple[str, str], ...] = ()
    """Digests of the files with external data, by their path in the model's folder."""


@dataclass(frozen=True)
class FixedContent:
    """What an input holds that decides a shape: the program is right for these elements only."""

    name: str
    content: str
    """Its bytes as hexadecimal digits."""
    preview: str
    """For people."""


@dataclass(frozen=True)
class KeptProgram:
    """A compiled program that can be started without compiling."""

    model: ModelSheet
    path: str
    """Where the model's file was; empty where that was left out."""
    target: str
    options: str
    """What was decided otherwise than by default, as JSON."""
    sizes: tuple[tuple[str, int, int], ...]
    """(name, lowest, highest) of every symbolic dimension."""
    contents: tuple[FixedContent, ...]
    circumstances: tuple[tuple[str, str], ...]
    """What else decided it: (name, `place (details)`)."""
    program: Program
    """Without texts: they lie with the binary."""
    language: str
    """c or opencl."""
    binary: str
    """Digest of the binary's key."""
    weights: str
    """Digest of the packed weights; empty where there are none."""
    sums: str
    """What a start compares of them: see `explorer.runtime.cache.weights`."""
    compile_seconds: float
    made_at: str
    """ISO 8601, UTC."""
