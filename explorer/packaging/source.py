"""What a package is made of, collected from a compilation; nothing here compiles."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from explorer.backends import backend_of
from explorer.kernels.printing.printer import PrintedKernel
from explorer.packaging.sizes import SizesInC, open_sizes_of
from explorer.results import KernelRecord, MemoryPlan, Port, Program, WeightSlot
from explorer.targets import Target

if TYPE_CHECKING:
    from explorer.runtime.opencl.binaries import DeviceBinary

Storage = Literal["array", "file"]
STORAGES: tuple[Storage, ...] = ("array", "file")
DEFAULT_ALIGNMENT_BYTES = 64


@dataclass(frozen=True, kw_only=True)
class PackagePort:
    """An input or output: where it lies in the arena, and what its integers stand for."""

    port: Port
    scale: float = 0.0
    """real = (stored - zero_point) * scale; 0: the numbers are what they are."""
    zero_point: int = 0


@dataclass(frozen=True)
class Copy:
    """A value on its way to another part, by its places in the arena."""

    value: str
    source_bytes: int
    destination_bytes: int
    size_bytes: int


@dataclass(frozen=True)
class NpuPart:
    """What the user's `run_npu` is called for, with places in the arena."""

    number: int
    device: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@dataclass(frozen=True, kw_only=True)
class PackagePart:
    """A function of the program: launches [first, end) of the table, or an NPU's."""

    function: str
    launches: tuple[int, int]
    copies: tuple[Copy, ...] = ()
    """Before it runs."""
    npu: NpuPart | None = None


@dataclass(frozen=True)
class Vector:
    """Inputs of one run and the outputs that the just-in-time program computed, in port order."""

    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]
    sizes: tuple[int, ...] = ()
    """Of the open dimensions, in their order."""
    npu_inputs: tuple[tuple[np.ndarray, ...], ...] = ()
    """Of every part that an NPU runs, by its number."""
    npu_outputs: tuple[tuple[np.ndarray, ...], ...] = ()


@dataclass(frozen=True, kw_only=True)
class PackageSource:
    """All that the files of a package are made of."""

    name: str
    """Begins the names of all files, functions and macros: a C identifier."""
    model: str
    model_digest: str | None
    """SHA-256 of the model's file; None for a model that was made in memory."""
    device: str
    """The name of the target that the model was compiled for."""
    target: Target
    """Of the functions in C: that target, or an NPU's companion."""
    program: Program
    weights: np.ndarray
    """The block of bytes."""
    weight_types: Mapping[str, np.dtype]
    """Of the elements of every weight, by the slot's name."""
    kernels: tuple[PrintedKernel, ...]
    records: Mapping[str, KernelRecord]
    """By the kernel's name."""
    plan: MemoryPlan
    parts: tuple[PackagePart, ...]
    npu_files: Mapping[str, bytes]
    """By their paths in the package."""
    inputs: tuple[PackagePort, ...]
    outputs: tuple[PackagePort, ...]
    vectors: tuple[Vector, ...]
    settings: Mapping[str, Any]  # JSON values
    """Arguments of `explorer.compile` that replay the compilation."""
    accuracy: Mapping[str, Any]  # JSON values
    """Of the vectors' outputs against the source model, or why no reference computed them."""
    table_files: Mapping[str, bytes] = field(default_factory=dict)
    """What quantized the model, by path in the package: its settings name them."""
    opencl_lines: tuple[str, ...] = ()
    """The kernels' text, of a target that is programmed in OpenCL C."""
    opencl_binary: DeviceBinary | None = None
    """What the driver at hand made of it."""
    storage: Storage = "array"
    is_stripped: bool = False
    threads: int = 1
    """That share a run; more than one are threads of POSIX."""

    @property
    def is_opencl(self) -> bool:
        return backend_of(self.target).needs_host_program

    @property
    def sizes(self) -> SizesInC | None:
        """What is open, if something is."""
        if open_sizes_of(self.program) is None:
            return None
        return SizesInC(self.program, self.is_stripped)

    @property
    def npu_parts(self) -> list[tuple[PackagePart, NpuPart]]:
        """Those that the user's `run_npu` runs, in order."""
        return [(part, part.npu) for part in self.parts if part.npu is not None]

    @property
    def is_small(self) -> bool:
        """Whether the target prefers small code to fast code."""
        return self.target.optimize == "size"

    @property
    def has_vectors(self) -> bool:
        """Whether its C has vector types, which are an extension of compilers."""
        return self.target.vector_floats != 1

    @property
    def alignment_bytes(self) -> int:
        """Of the arena and of the weights: the target's, and no less than that of an element."""
        found = [m.alignment_bytes for m in self.target.memories if m.kind == "arena"]
        return max(max(found, default=DEFAULT_ALIGNMENT_BYTES), self.element_alignment_bytes)

    @property
    def element_alignment_bytes(self) -> int:
        parameters = (p for kernel in self.kernels for p in kernel.parameters)
        return max((p.element.size_bytes for p in parameters), default=1)

    @property
    def version(self) -> str:
        """Of the content: twelve digits that are others where the model or its numbers are."""
        digest = hashlib.sha256((self.model_digest or "").encode() + self.weights.tobytes())
        return digest.hexdigest()[:12]

    @property
    def macro(self) -> str:
        """What begins the names of macros."""
        return self.name.upper()


def with_weights_packed(source: PackageSource) -> PackageSource:
    """The same with weights at the target's alignment, which takes less room than cache lines."""
    alignment = source.alignment_bytes
    moved: dict[int, int] = {}
    slots: list[WeightSlot] = []
    end = 0
    for slot in source.program.weights:
        moved[slot.offset_bytes] = end
        slots.append(replace(slot, offset_bytes=end))
        end += -(-slot.size_bytes // alignment) * alignment
    block = np.zeros(max(end, alignment), np.uint8)
    for old, new in zip(source.program.weights, slots, strict=True):
        part = source.weights[old.offset_bytes : old.offset_bytes + old.size_bytes]
        block[new.offset_bytes : new.offset_bytes + new.size_bytes] = part
    launches = tuple(
        replace(
            launch,
            arguments=tuple(
                replace(a, offset_bytes=moved[a.offset_bytes]) if a.space == "weights" else a
                for a in launch.arguments
            ),
        )
        for launch in source.program.launches
    )
    program = replace(
        source.program, launches=launches, weights=tuple(slots), weights_bytes=len(block)
    )
    return replace(source, program=program, weights=block)
