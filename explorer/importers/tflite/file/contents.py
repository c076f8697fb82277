"""A TFLite file as records: subgraphs of tensors and operators, with names for all fields.

Reference: the schema, `schema.fbs` of version 3. What a file holds in numbers (codes of operators,
types, enumerations) stands here by its name in the schema; one that the schema does not know keeps
its number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from explorer.importers.model import State
from explorer.ir.operation import PropertyValue

SCHEMA_VERSION = 3
"""Of all files since 2017. Later additions to the schema did not change it."""


@dataclass(frozen=True, eq=False)
class Quantization:
    """real = (stored - zero point) * scale, one of each or one for each slice of `axis`."""

    scales: np.ndarray
    """f32; empty where the tensor holds plain numbers."""
    zero_points: np.ndarray
    """i64, as many as scales, or one."""
    axis: int
    details: str = ""
    """Of a form that the schema foresees beside scales; empty for none."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor of a subgraph."""

    index: int
    name: str
    """The file's; unique among all tensors of the file (`t12`, `name#12`)."""
    element_type: str
    """NumPy's name; that of the schema in lower case where NumPy has none (string, resource)."""
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    """The shape with -1 where a size is not fixed; empty where the file has none."""
    quantization: Quantization | None
    data: np.ndarray | None
    """What it holds from the beginning; a view of the file. None for what is computed."""
    is_variable: bool = False
    is_sparse: bool = False
    """Whether the file leaves out zeros, which `data` has."""

    @property
    def is_quantized(self) -> bool:
        return self.quantization is not None and self.quantization.scales.size > 0


@dataclass(frozen=True, eq=False)
class Operator:
    """A node of a subgraph."""

    name: str
    """Unique in the file: `Conv2D_3`-like, of its kind and place."""
    kind: str
    """CONV_2D; `custom.NAME`; BUILTIN_300 where the schema has no name for the code."""
    version: int
    inputs: tuple[Tensor | None, ...]
    """None for an operand that is left out."""
    outputs: tuple[Tensor, ...]
    options: Mapping[str, PropertyValue]
    intermediates: tuple[Tensor, ...] = ()
    custom_options: bytes = b""


@dataclass(frozen=True, eq=False)
class Subgraph:
    name: str
    tensors: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    operators: tuple[Operator, ...]


@dataclass(frozen=True)
class Flow:
    """What an operator reads and makes, states included."""

    inputs: tuple[str, ...]
    """Names; empty for an operand that is left out."""
    results: tuple[Tensor, ...]
    outputs: tuple[str, ...]
    """As many names as results."""


@dataclass(frozen=True, eq=False)
class States:
    """The states of a model; `flows` by the names of its operators."""

    flows: Mapping[str, Flow]
    found: tuple[State, ...]
    tensors: Mapping[str, Tensor]
    """By the names of the states' inputs and outputs: tensors of that type, of which the ones of
    outputs hold them after a run."""
    constants: Mapping[str, np.ndarray]
    """Resources that nothing assigns."""
    resources: frozenset[str]
    """Inputs that are resources: a program that judges cannot be given their contents."""


@dataclass(frozen=True, eq=False)
class TfliteContent:
    """A whole file; `subgraphs[0]` is the model, the others are what its operators call."""

    subgraphs: tuple[Subgraph, ...]
    file: bytes | memoryview
    """All of it, as a program that judges it gets it."""
    states: States
    """What it remembers, and what each operator of the model reads and makes."""
    metadata: Mapping[str, int] = field(default_factory=dict)
    """Names of what lies in the file besides, with the bytes that it takes."""
    signatures: tuple[str, ...] = ()

    @property
    def main(self) -> Subgraph:
        return self.subgraphs[0]
