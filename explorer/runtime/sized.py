"""What the host interprets, compiled for sizes that come again: by the sizes of its arguments.

programs = SizedPrograms(host, compile_for, hot_after=2)
programs.run(arguments)      None: interpret it; the second time with these sizes what was compiled

`MAX_COMPILED` programs are kept at most; sizes that come seldom cost no compilation.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.ir import SSAValue

from explorer.errors import ExplorerError
from explorer.ir.functions.host_functions import HostFunction, RegionFunction
from explorer.ir.operation import TopOperation
from explorer.results.program import Program
from explorer.runtime.executable import Arrays, Executable

HOT_AFTER = 2
"""Runs with the same sizes until these are compiled for."""
HOT_ITERATIONS = 16
"""Of a loop, until its body is compiled for the sizes that they have: one run may have many, so
that more of them have to be interpreted before compiling is the shorter way."""
MAX_COMPILED = 8
"""Programs of one part that are kept, each for its sizes."""
MAX_COUNTED_SIZES = 10_000
"""Sizes that are counted."""

Sizes = tuple[tuple[int, ...], ...]
CompileFor = Callable[[HostFunction, Sequence[np.ndarray]], Executable]
"""Compiles a function of the host for the sizes of its arguments."""


class SizedPrograms:
    """The programs of one function of the host; close it."""

    def __init__(self, host: HostFunction, compile_for: CompileFor, hot_after: int) -> None:
        self._host = host
        self._compile_for = compile_for
        self._hot_after = hot_after
        self._seen: Counter[Sizes] = Counter()
        self.compiled: OrderedDict[Sizes, Executable] = OrderedDict()
        """By the sizes of the arguments, the last used last."""
        self.refused: dict[Sizes, str] = {}
        """Why it cannot be compiled for certain sizes."""

    def run(self, arguments: Sequence[np.ndarray]) -> list[np.ndarray] | None:
        """What the function returns; None where there is no program for these sizes."""
        compiled = self.find(arguments)
        if compiled is None:
            return None
        found = compiled.run(named(compiled.program, arguments))
        return [found[port.name] for port in compiled.program.outputs]

    def find(self, arguments: Sequence[np.ndarray]) -> Executable | None:
        """The program for the arguments' sizes; None where these are new, or cannot be had."""
        sizes = tuple(array.shape for array in arguments)
        if sizes in self.compiled:
            self.compiled.move_to_end(sizes)
            return self.compiled[sizes]
        if sizes in self.refused:
            return None
        if len(self._seen) >= MAX_COUNTED_SIZES:
            self._seen.clear()
        self._seen[sizes] += 1
        if self._seen[sizes] < self._hot_after or any(0 in shape for shape in sizes):
            return None
        try:
            self.compiled[sizes] = self._compile_for(self._host, arguments)
        except ExplorerError as error:
            self.refused[sizes] = str(error)
            return None
        while len(self.compiled) > MAX_COMPILED:
            self.compiled.popitem(last=False)[1].close()
        return self.compiled[sizes]

    def close(self) -> None:
        while self.compiled:
            self.compiled.popitem()[1].close()


class RegionPrograms:
    """Bodies of loops and branches that the host runs, each compiled by itself."""

    def __init__(self, host: HostFunction, compile_for: CompileFor) -> None:
        self._host = host
        self._compile_for = compile_for
        self._regions: dict[tuple[TopOperation, int], tuple[RegionFunction, SizedPrograms]] = {}

    @property
    def programs(self) -> Mapping[str, SizedPrograms]:
        """By the names of the regions that ran."""
        return {region.host.name: programs for region, programs in self._regions.values()}

    def run(
        self,
        op: TopOperation,
        index: int,
        arguments: Sequence[np.ndarray],
        outside: Callable[[SSAValue], np.ndarray],
    ) -> list[np.ndarray] | None:
        """As `explorer.ir.evaluation.RunRegion`."""
        found = self._regions.get((op, index))
        if found is None:
            region = self._host.region(op, index)
            hot_after = HOT_ITERATIONS if op.REPEATS else HOT_AFTER
            found = region, SizedPrograms(region.host, self._compile_for, hot_after)
            self._regions[op, index] = found
        region, programs = found
        return programs.run([*arguments, *map(outside, region.captured)])

    def close(self) -> None:
        for _, programs in self._regions.values():
            programs.close()


def named(program: Program, arguments: Sequence[np.ndarray]) -> Arrays:
    """Arguments in order under the names of a program's inputs."""
    ports = program.inputs
    return {port.name: array for port, array in zip(ports, arguments, strict=True)}
