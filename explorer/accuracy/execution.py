"""Executing snapshots below `top`: their kernels as C, one buffer per value, every value tapped.

The values come back as logical tensors by name, as `Snapshot.run` of the upper levels has them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects import func

from explorer.ir.functions.executing import run_parts
from explorer.ir.functions.host_functions import HostFunction
from explorer.ir.layout import unpack_tap
from explorer.ir.program import Snapshot
from explorer.ir.structure import COMPANION, value_name
from explorer.kernels.program.build import PACKED_LEVELS, BuiltProgram, build_program
from explorer.memory.planners import NoSharingPlanner
from explorer.memory.planning import plan_function, value_offsets
from explorer.results import MemoryPlan
from explorer.results.program import Tap
from explorer.runtime.executable import Arrays, Executable, Taps
from explorer.runtime.native.program import NativeProgram


def build_for_comparison(
    snapshot: Snapshot, function: func.FuncOp, plan: MemoryPlan | None = None
) -> BuiltProgram:
    """A device function as C; without a plan every value has a buffer of its own."""
    if plan is None:
        is_packed = snapshot.level in PACKED_LEVELS
        plan = plan_function(function, snapshot.kernels, NoSharingPlanner(), 64, is_packed)
    offsets = value_offsets(plan)
    names = [value_name(argument) for argument in function.body.block.args]
    return build_program(snapshot, offsets, plan.peak_bytes, "cpu", "c", names, function=function)


def execute_compiled(
    snapshot: Snapshot,
    inputs: Mapping[str, np.ndarray],
    replaced: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """All values by name. `replaced` overwrites values after they were read (isolated mode)."""
    runner = CompiledRunner()
    try:
        return runner.run(snapshot, inputs, replaced)
    finally:
        runner.close()


class CompiledRunner:
    """Executes snapshots below `top`; what was built last is kept while the code stays the same."""

    def __init__(self) -> None:
        self._keys: dict[str, tuple[tuple[str, ...], bytes]] = {}
        self._tapped: dict[str, TappedProgram] = {}
        self._built: tuple[Snapshot, dict[str, BuiltProgram]] | None = None

    def run(
        self,
        snapshot: Snapshot,
        inputs: Mapping[str, np.ndarray],
        replaced: Mapping[str, np.ndarray],
        plans: Mapping[str, MemoryPlan] | None = None,
    ) -> dict[str, np.ndarray]:
        """As `execute_compiled`; with plans by device function, at their addresses."""

        def run_device(
            function: func.FuncOp,
            given: Sequence[np.ndarray],
            replaced: Mapping[str, np.ndarray],
        ) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
            if COMPANION in function.attributes:  # its operations mean what they mean in NumPy
                return HostFunction(function, snapshot.weights).evaluate(given, replaced)
            built = self._build(snapshot, function, plans)
            return self._call(function.sym_name.data, built, given, replaced)

        return run_parts(snapshot, inputs, replaced, run_device)

    def _call(
        self,
        function: str,
        built: BuiltProgram,
        given: Sequence[np.ndarray],
        replaced: Mapping[str, np.ndarray],
    ) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
        """The results of a device function, and every value that it makes by name."""
        ports = built.program.inputs
        named = {port.name: array for port, array in zip(ports, given, strict=True)}
        values = self._open(function, built).values(named, replaced)
        names = [f"output:{port.name}" for port in built.program.outputs]
        made = [values[name] for name in names]  # a value may be returned twice
        return made, {name: array for name, array in values.items() if name not in names}

    def _build(
        self, snapshot: Snapshot, function: func.FuncOp, plans: Mapping[str, MemoryPlan] | None
    ) -> BuiltProgram:
        if self._built is None or self._built[0] is not snapshot:
            self._built = (snapshot, {})
        name = function.sym_name.data
        if name not in self._built[1]:
            plan = None if plans is None else plans[name]
            self._built[1][name] = build_for_comparison(snapshot, function, plan)
        return self._built[1][name]

    def _open(self, function: str, built: BuiltProgram) -> TappedProgram:
        key = (built.program.source.lines, hashlib.sha256(built.weights.data).digest())
        if key != self._keys.get(function):
            if function in self._tapped:
                self._tapped.pop(function).executable.close()
            self._tapped[function] = TappedProgram(NativeProgram(built.program, built.weights))
            self._keys[function] = key
        return self._tapped[function]

    def close(self) -> None:
        for tapped in self._tapped.values():
            tapped.executable.close()
        self._tapped, self._keys = {}, {}


class TappedProgram:
    """A built program whose every value can be read, and replaced after it was read.

    What was computed last is kept: the same question is answered without running again.
    """

    def __init__(self, executable: Executable):
        self.executable = executable
        self._taps = {(tap.operation, tap.result): tap for tap in executable.program.taps}
        # The questions that were answered last; holding their arrays keeps identities unique.
        self._inputs: Mapping[str, np.ndarray] = {}
        self._replaced: Mapping[str, np.ndarray] = {}
        self._plain: tuple[Arrays, Taps] | None = None
        self._fed: tuple[Arrays, Taps] | None = None

    def values(
        self, inputs: Mapping[str, np.ndarray], replaced: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Every value that the program makes, as logical tensors by name.

        Outputs stand under `output:NAME`, too. Each value of `replaced` takes the place of the
        computed one for whoever reads it; halo and padding channels stay as the kernel wrote them.
        """
        if self._plain is None or not _are_same(inputs, self._inputs):
            self._inputs, self._fed = dict(inputs), None
            self._plain = self.executable.run_with_taps(inputs)
        if not replaced:
            return self._named(inputs, self._plain)
        if self._fed is None or not _are_same(replaced, self._replaced):
            self._replaced = dict(replaced)
            fed = {
                key: replace_interior(physical, replaced[name], self._taps[key])
                for key, physical in self._plain[1].items()
                if (name := tapped_value(self._taps[key])) in replaced
            }
            self._fed = self.executable.run_with_taps(inputs, fed)
        return self._named(inputs, self._fed)

    def _named(
        self, inputs: Mapping[str, np.ndarray], result: tuple[Arrays, Taps]
    ) -> dict[str, np.ndarray]:
        outputs, taps = result
        values = dict(inputs)
        for key, physical in taps.items():
            tap = self._taps[key]
            values[tapped_value(tap)] = unpack_tap(physical, tap.logical_shape, tap.block, tap.halo)
        values.update({f"output:{name}": array for name, array in outputs.items()})
        return values


def tapped_value(tap: Tap) -> str:
    """The name of the value that a tap reads: the operation's, with a number from the second on."""
    return f"{tap.operation}.{tap.result}" if tap.result else tap.operation


def _are_same(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> bool:
    """The very same arrays under the same names."""
    return a.keys() == b.keys() and all(a[name] is b[name] for name in a)


def replace_interior(physical: np.ndarray, logical: np.ndarray, tap: Tap) -> np.ndarray:
    """A copy of a buffer's array with another logical tensor inside."""
    if -1 in tap.logical_shape:  # a value of the host, which lies in no buffer
        return np.array(logical)
    positions = np.arange(physical.size).reshape(physical.shape)
    inside = unpack_tap(positions, tap.logical_shape, tap.block, tap.halo)
    copy = np.array(physical)
    copy.reshape(-1)[inside.reshape(-1)] = logical.reshape(-1)
    return copy
