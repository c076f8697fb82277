"""A program between two passes: a module and its weights, executable and comparable.

`Snapshot` is what a person inspects after a pass. Snapshots of passes that changed nothing are
the same object; text, graphs and operation records are made when first asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NoReturn

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType

from explorer.errors import DeviceError, InputError
from explorer.ir.evaluation import EvaluationCache, evaluate_module
from explorer.ir.inspection.graph import module_graph
from explorer.ir.inspection.measures import module_macs, peak_bytes
from explorer.ir.inspection.printing import dump, show, with_functions
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import Origin, origin_of, sources_of
from explorer.ir.structure import (
    OperationRecord,
    index_operations,
    kernel_functions,
    operations,
    value_name,
)
from explorer.ir.types import QuantizedType, element_type_of
from explorer.ir.weights import Weights
from explorer.results import Graph, SourceText
from explorer.results.displayed import Displayed

DO_NOTHING = ("top.weight", "top.return", "source.constant", "source.return")
"""Operations that only say where data comes from or goes to."""

Executor = Callable[
    ["Snapshot", Mapping[str, np.ndarray], Mapping[str, np.ndarray]], dict[str, np.ndarray]
]


@dataclass(eq=False, repr=False)
class Snapshot(Displayed):
    """A module that nobody changes any more. `level` is one of `rewriting.passes.LEVELS`."""

    program: ModuleOp
    """The functions of tensor operations, and whatever kernels are not shared."""
    weights: Weights
    level: str = "top"
    execute_compiled: Executor | None = field(default=None, repr=False)
    """Runs a snapshot below `top`: through generated code, or as its backend does; set by whoever
    can compile."""
    shared_kernels: tuple[func.FuncOp, ...] = field(default=(), repr=False)
    """Kernels that stand in another module too: passes replace kernels and never change one."""
    kernel_texts: dict[func.FuncOp, SourceText] = field(default_factory=dict, repr=False)
    """Texts of shared kernels, which snapshots of one compilation have in common."""
    earlier: Snapshot | None = field(default=None, repr=False)
    """The program before the pass, with which this one has most operations in common."""
    _adding: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False)
    """Held while kernels are added to the program, or while it is printed."""

    def __reduce__(self) -> NoReturn:
        raise InputError(
            "a snapshot shares its program with those of other passes, and cannot be pickled",
            hint="pickle its text and graph, or c.trace(), or use c.save(path)",
        )

    @cached_property
    def module(self) -> ModuleOp:
        """The whole program in one module; shared kernels are copied when it is first asked for."""
        with self._adding:
            if "module" not in self.__dict__:  # else another thread was here first
                kernels = [kernel.clone() for kernel in self.shared_kernels]
                self.program.body.block.add_ops(kernels)
                self.__dict__["module"] = self.program
        return self.program

    @cached_property
    def kernels(self) -> dict[str, func.FuncOp]:
        """The kernels by name, to be read only."""
        shared = {kernel.sym_name.data: kernel for kernel in self.shared_kernels}
        return {**kernel_functions(self.program), **shared}

    @cached_property
    def text(self) -> SourceText:
        with self._adding:
            return self._printed()

    def _printed(self) -> SourceText:
        if "module" in self.__dict__:  # then the kernels stand in the program, as copies
            return show(self.module)
        for kernel in self.shared_kernels:
            if kernel not in self.kernel_texts:
                self.kernel_texts[kernel] = show(kernel)
        return with_functions(
            show(self.program), [self.kernel_texts[kernel] for kernel in self.shared_kernels]
        )

    @cached_property
    def graph(self) -> Graph:
        earlier = self.earlier
        if earlier is None or "graph" not in earlier.__dict__:
            return module_graph(self.program)
        found = earlier.operations
        known = {n.id: (found[n.id], n) for n in earlier.graph.nodes if n.id in found}
        return module_graph(self.program, known)

    @cached_property
    def index(self) -> dict[str, OperationRecord]:
        """What every identified operation is, as data."""
        return index_operations(self.walked)

    @cached_property
    def walked(self) -> list[TopOperation]:
        """Every operation in program order."""
        return list(operations(self.program))

    @cached_property
    def operations(self) -> dict[str, TopOperation]:
        """Every identified operation by its identity."""
        return {identity_of(op): op for op in self.walked}

    @cached_property
    def sources(self) -> dict[str, tuple[str, ...]]:
        """The source nodes that every operation comes from, by its identity."""
        # Operations share the objects of their locations, with copies of themselves and with others
        # that came from the same node, and are told by their addresses.
        of_location: dict[int, tuple[str, ...]] = {}
        found = {}
        for identity, op in self.operations.items():
            place = id(op.location)
            if place not in of_location:
                of_location[place] = sources_of(op)
            found[identity] = of_location[place]
        return found

    @cached_property
    def operation_count(self) -> int:
        """Operations that do something: weights and returns do not count."""
        return sum(op.name not in DO_NOTHING for op in self.walked)

    @cached_property
    def macs(self) -> int:
        return module_macs(self.program)

    @cached_property
    def peak_bytes(self) -> int:
        return peak_bytes(self.program)

    @cached_property
    def origins(self) -> dict[str, Origin]:
        """Origin of every value that has one, by the value's name, in program order."""
        found: dict[str, Origin] = {}
        for op in operations(self.program):
            for result in op.results:
                origin = origin_of(result)
                if origin is not None:
                    found[value_name(result)] = origin
        return found

    @cached_property
    def quantized(self) -> dict[str, QuantizedType]:
        """The type of every quantized value, by the value's name, but for numbers in blocks: what
        these mean is not in their type alone."""
        found: dict[str, QuantizedType] = {}
        for op in operations(self.program):
            for result in op.results:
                kind = element_type_of(result) if isinstance(result.type, TensorType) else None
                if isinstance(kind, QuantizedType) and not kind.block_size:
                    found[value_name(result)] = kind
        return found

    def dump(self) -> str:
        """Complete text, which `explorer opt` reads back."""
        return dump(self.module)

    def run(
        self,
        inputs: Mapping[str, np.ndarray],
        cache: EvaluationCache | None = None,
        replaced: Mapping[str, np.ndarray] | None = None,
    ) -> dict[str, np.ndarray]:
        """All values by name, intermediates included, through the operations' NumPy meanings.

        `replaced` feeds values (by name) to their users instead of what was computed: the
        isolated mode of accuracy comparison. Below level top the kernels' C code is executed.
        """
        if self.level != "top":
            if self.execute_compiled is None:
                raise DeviceError(
                    f"a program of level {self.level} is executed through generated code",
                    hint="open the model with explorer.compile; a saved trace cannot run",
                )
            return self.execute_compiled(self, inputs, replaced or {})
        return evaluate_module(self.program, self.weights, inputs, cache, replaced)
