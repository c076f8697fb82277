"""One kernel as a search sees it: what it computes, how it may be scheduled, what that would cost.

for workload in workloads_of(compilation, threads=1):
    kernel = workload.schedule({"pixels": 7})          ScheduleError where that is not legal
    workload.predict(kernel).microseconds
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType

from explorer.backends import backend_named
from explorer.backends.interface import Backend
from explorer.compilation.compilation import Compilation
from explorer.compilation.measurements.costs import cost_machine_for
from explorer.compilation.measurements.schedule_steps import NestProgram, nest_program
from explorer.compilation.settings.tuned import schedules_for
from explorer.errors import DeviceError, InputError
from explorer.ir.dialects.kernel import kernel_arguments
from explorer.ir.types import numpy_dtype
from explorer.kernels.cost import CostMachine, estimate
from explorer.kernels.passes import ScheduleLoops
from explorer.kernels.schedules import Machine, Pack, ScheduledKernel, schedule_kernel
from explorer.kernels.schedules.schedule import Choice
from explorer.kernels.schedules.workload import workload_digest
from explorer.results import CostEstimate
from explorer.runtime.cache.tuned import TunedKey
from explorer.runtime.devices import DeviceRecord

NARROW = ("int8", "uint8")
"""Integers that are numbers of quantized tensors: random. Wider ones may be indices: zero."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A kernel with all that scheduling, predicting and measuring it needs."""

    kernel: str
    origin: func.FuncOp = field(repr=False)
    packs: Mapping[str, Pack] = field(repr=False)
    machine: Machine
    costs: CostMachine
    key: TunedKey
    launches: int = 1
    """How often the model runs it."""
    backend: Backend = field(default_factory=lambda: backend_named("c"))
    device: DeviceRecord | None = None
    """None for this processor."""

    def schedule(self, choices: Mapping[str, Choice] | None = None) -> ScheduledKernel:
        """The kernel scheduled by its default and these choices."""
        return schedule_kernel(self.origin, self.machine, self.packs, choices)

    def predict(self, kernel: ScheduledKernel) -> CostEstimate:
        return estimate(kernel.function, self.costs)

    def arrays(self, seed: int) -> dict[str, np.ndarray]:
        """Seeded logical values of all arguments by name; zeros for what the kernel writes."""
        generator = np.random.default_rng(seed)
        return {
            argument.name: _values(generator, argument.role, argument.type)
            for argument in kernel_arguments(self.origin)
        }

    def program(self, kernel: ScheduledKernel, arrays: Mapping[str, np.ndarray]) -> NestProgram:
        """A program of this kernel alone."""
        return nest_program(kernel.function, kernel.packs, arrays, self.backend)


def workloads_of(compilation: Compilation, threads: int = 1) -> list[Workload]:
    """All kernels of a compilation, those that take longest by the cost model first.

    DeviceError where there is nothing to measure with; InputError for a pipeline without kernels.
    """
    passes = [p for p in compilation.pipeline if isinstance(p, ScheduleLoops)]
    if not passes:
        raise InputError("this pipeline makes no kernels", hint="use the default pipeline")
    machine = passes[0].machine
    lookup = schedules_for(compilation.target, compilation.device, threads)
    if lookup is None:
        raise DeviceError(
            f"target {compilation.target.name}: there is nothing to measure with: its backend "
            f"{compilation.backend.name} finds no compiler and no device"
        )
    costs = cost_machine_for(compilation.target, machine.vector_floats, threads)
    counts = Counter(launch.kernel for launch in compilation.program.launches)
    found = []
    for name, kernel in compilation._scheduled.items():
        origin = kernel.steps[0].origin
        digest = workload_digest(origin, kernel.given_packs, machine)
        workload = Workload(
            kernel=name,
            origin=origin,
            packs=kernel.given_packs,
            machine=machine,
            costs=costs,
            key=lookup.key(digest),
            launches=counts[name],
            backend=compilation.backend,
            device=compilation.device,
        )
        cost = workload.predict(kernel).microseconds * counts[name]
        found.append((cost, workload))
    return [workload for _, workload in sorted(found, key=lambda item: -item[0])]


def _values(generator: np.random.Generator, role: str, kind: object) -> np.ndarray:
    assert isinstance(kind, MemRefType)
    shape, dtype = kind.get_shape(), numpy_dtype(kind.element_type)
    if role not in ("input", "weight"):
        return np.zeros(shape, dtype)
    if dtype.kind == "f":
        return generator.uniform(-1, 1, shape).astype(dtype)
    if dtype.name in NARROW:
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return np.zeros(shape, dtype)
