"""Runs a C program in an arena full of a pattern, and compares what it writes with its plan.

    before a launch    every byte of no live buffer holds the pattern, also after the arena's end
    after it           these bytes hold the pattern still, or the launch has strayed

Two runs with patterns that differ in every bit find every byte that is written, whatever is written
there, and whether the outputs depend on bytes that nobody has written: then the runs differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from explorer.results import Program
from explorer.results.runs.arena import ArenaRecord, StrayWrite
from explorer.runtime.executable import Arrays, check_inputs
from explorer.runtime.native.program import NativeProgram
from explorer.runtime.native.shared_arena import SharedArena
from explorer.runtime.native.worker import TAP_FUNCTION, LoadedProgram

PATTERNS = (0xA5, 0x5A)
GUARD_BYTES = 4096
"""After the arena."""
MAX_STRAYS = 16
"""Stray writes that are kept."""

LiveRanges = Sequence[Sequence[tuple[int, int]]]
"""By launch: bytes [first, end) of the buffers that live in it."""


class WatchedProgram(NativeProgram):
    """A program in this process whose runs are watched; `records` has one for each run.

    A program of an open size is watched at the size of its inputs.
    """

    def __init__(
        self,
        program: Program,
        weights: np.ndarray,
        live: LiveRanges,
        planned_bytes: int,
        name: str,
        arena: SharedArena | None = None,
    ) -> None:
        """`arena`: one that other parts use, with bytes for the guard."""
        arena = arena or SharedArena(program.arena_bytes + GUARD_BYTES)
        super().__init__(program, weights, isolated=False, name=name, arena=arena)
        self._layout = self._layout._replace(arena_bytes=arena.size_bytes)
        self._live = live
        self._planned_bytes = planned_bytes
        self._title = name
        self.records: list[ArenaRecord] = []

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        check_inputs(self.program, inputs)
        with self._lock:
            self._execute(inputs)  # loads the library, and writes the inputs into the exchange
            loaded = self._loaded
            assert isinstance(loaded, LoadedProgram)
            strays: dict[StrayWrite, None] = {}
            written, outputs = 0, []
            for pattern in PATTERNS:
                written = max(written, self._run_once(loaded, pattern, strays))
                outputs.append(self._read_outputs())
        first, second = outputs
        self.records.append(
            ArenaRecord(
                function=self._title,
                planned_bytes=self._planned_bytes,
                written_bytes=written,
                launches=len(self.program.launches),
                strays=tuple(strays)[:MAX_STRAYS],
                depends_on_pattern=any(
                    first[name].tobytes() != second[name].tobytes() for name in first
                ),
            )
        )
        return second

    def _run_once(self, loaded: LoadedProgram, pattern: int, strays: dict[StrayWrite, None]) -> int:
        """The end of the highest byte that is no pattern after any launch."""
        arena = np.frombuffer(loaded.arena, np.uint8)
        arena[:] = pattern
        written = 0
        problems: list[BaseException] = []

        def judge(step: int, _context: int | None) -> None:
            nonlocal written
            try:
                other = arena != pattern
                other[self._place_of_size] = False
                end = len(other) - int(other[::-1].argmax()) if other.any() else 0
                written = max(written, end)
                for first, end in runs_of(np.flatnonzero(other & self._is_dead(step))):
                    strays[StrayWrite(self.program.launches[step].operation, first, end)] = None
                if step + 1 < len(self._live):
                    arena[self._is_dead(step + 1)] = pattern
            except BaseException as problem:  # none can pass through C
                problems.append(problem)

        loaded.execute_watched(TAP_FUNCTION(judge))
        if problems:
            raise problems[0]
        return written

    @property
    def _place_of_size(self) -> slice:
        """Where the size of an open dimension lies, which the plan does not know."""
        size = self.program.size
        return slice(0, 0) if size is None else slice(size.offset_bytes, None)

    def _is_dead(self, step: int) -> np.ndarray:
        """By byte of arena and guard: whether no buffer lives there in a step."""
        is_dead = np.ones(self._layout.arena_bytes, bool)
        for first, end in self._live[step]:
            is_dead[first:end] = False
        is_dead[self._place_of_size] = False
        return is_dead


def runs_of(places: np.ndarray) -> list[tuple[int, int]]:
    """[3, 4, 5, 9] -> [(3, 6), (9, 10)]."""
    if not len(places):
        return []
    breaks = np.flatnonzero(np.diff(places) != 1)
    firsts = places[np.concatenate(([0], breaks + 1))]
    lasts = places[np.concatenate((breaks, [len(places) - 1]))]
    return [(int(first), int(last) + 1) for first, last in zip(firsts, lasts, strict=True)]
