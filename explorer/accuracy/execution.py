"""Executing snapshots below `top`: their kernels as C, one buffer per value, every value tapped.

The values come back as logical tensors by name, as `Snapshot.run` of the upper levels has them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from explorer.ir.evaluation import check_inputs, entry_function
from explorer.ir.layout import unpack_tap
from explorer.ir.program import Snapshot
from explorer.ir.structure import device_of, functions, kernel_functions
from explorer.kernels.program import BuiltProgram, build_program, host_ports
from explorer.memory.planners import NoSharingPlanner
from explorer.memory.planning import plan_function, value_offsets
from explorer.results.program import Tap
from explorer.runtime.executable import Executable
from explorer.runtime.native import NativeProgram


def build_unshared(snapshot: Snapshot) -> BuiltProgram:
    """The snapshot as C with a buffer of its own for every value: no plan can hide a fault."""
    (function,) = [f for f in functions(snapshot.module) if device_of(f) != "host"]
    plan = plan_function(function, kernel_functions(snapshot.module), NoSharingPlanner(), 64)
    inputs, outputs = host_ports(snapshot)
    return build_program(
        snapshot, value_offsets(plan), plan.peak_bytes, "cpu", "c", inputs, outputs
    )


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
        self._key: tuple[tuple[str, ...], bytes] | None = None
        self._executable: NativeProgram | None = None

    def run(
        self,
        snapshot: Snapshot,
        inputs: Mapping[str, np.ndarray],
        replaced: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        """As `execute_compiled`."""
        arrays = check_inputs(entry_function(snapshot.module), inputs)
        built = build_unshared(snapshot)
        executable = self._open(built)
        ports = executable.program.inputs
        named = {port.name: a for port, a in zip(ports, arrays, strict=True)}
        values = tapped_values(executable, named, replaced)
        for port, name in zip(built.program.outputs, host_ports(snapshot)[1], strict=True):
            values.setdefault(name, values[f"output:{port.name}"])
        return values

    def _open(self, built: BuiltProgram) -> NativeProgram:
        key = (built.program.source.lines, hashlib.sha256(built.weights).digest())
        if self._executable is None or key != self._key:
            self.close()
            self._executable = NativeProgram(built.program, built.weights)
            self._key = key
        return self._executable

    def close(self) -> None:
        if self._executable is not None:
            self._executable.close()
        self._executable, self._key = None, None


def tapped_values(
    executable: Executable,
    inputs: Mapping[str, np.ndarray],
    replaced: Mapping[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """Runs a built program and returns every value that it makes, as logical tensors by name.

    With `replaced` it runs twice: the second time each of those values, once it has been read, is
    overwritten in its buffer (halo and padding channels stay as the kernel wrote them).
    """
    by_key = {(tap.operation, tap.result): tap for tap in executable.program.taps}
    outputs, taps = executable.run_with_taps(inputs)
    if replaced:
        fed = {
            key: replace_interior(physical, replaced[key[0]], by_key[key])
            for key, physical in taps.items()
            if key[0] in replaced
        }
        outputs, taps = executable.run_with_taps(inputs, fed)
    values = dict(inputs)
    for key, physical in taps.items():
        tap = by_key[key]
        values[tap.operation] = unpack_tap(physical, tap.logical_shape, tap.block, tap.halo)
    for name, array in outputs.items():
        values[f"output:{name}"] = array
    return values


def replace_interior(physical: np.ndarray, logical: np.ndarray, tap: Tap) -> np.ndarray:
    """A copy of a buffer's array with another logical tensor inside."""
    positions = np.arange(physical.size).reshape(physical.shape)
    inside = unpack_tap(positions, tap.logical_shape, tap.block, tap.halo)
    copy = np.array(physical)
    copy.reshape(-1)[inside.reshape(-1)] = logical.reshape(-1)
    return copy
