"""A saved program, the ahead-of-time artifact: all that running it needs, and what it was made for.

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
class ModelInterface:
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
    content: str | None
    """Its bytes as hexadecimal digits; None where nobody gave any: such a program is found only
    where none are given again."""
    preview: str = ""
    """For people."""


@dataclass(frozen=True, kw_only=True)
class SavedPart:
    """How a part of a program starts, by its function's name."""

    function: str
    binary: str = ""
    """Digest of the binary's key; empty for what the host runs."""
    weights_at: int = 0
    """Byte of the block of weights where its own begin."""
    text: str = ""
    """Of what the host runs: the IR, which names its weights."""


@dataclass(frozen=True, kw_only=True)
class SavedArray:
    """A weight that the host reads, in the block behind those of the device."""

    name: str
    element_type: str
    shape: tuple[int, ...]
    offset_bytes: int
    size_bytes: int
    is_splat: bool = False
    """One number stands for all."""


@dataclass(frozen=True)
class SavedProgram:
    """A compiled program that can be started without compiling."""

    model: ModelInterface
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
    """Digest of the binary's key; of several parts, of the first one's. Empty where the host runs
    all of it."""
    weights: str
    """Digest of the packed weights; empty where there are none."""
    sums: str
    """What a start compares of them: see `explorer.runtime.cache.weights`."""
    compile_seconds: float
    made_at: str
    """ISO 8601, UTC."""
    parts: tuple[SavedPart, ...] = ()
    """In the program's order; none where it is one."""
    arrays: tuple[SavedArray, ...] = ()

    @property
    def binaries(self) -> tuple[str, ...]:
        """Digests of all that is loaded, each once."""
        found = [part.binary for part in self.parts if part.binary]
        return tuple(dict.fromkeys(found)) if self.parts else (self.binary,)

    @property
    def block_bytes(self) -> int:
        """Of all weights: the device's, and behind them the host's."""
        end = self.program.weights_bytes
        return max([end, *(array.offset_bytes + array.size_bytes for array in self.arrays)])
