"""One rewrite too many: which fusion costs memory?"""

from __future__ import annotations

from functools import cache, cached_property
from itertools import combinations
from typing import Any

from explorer.course.puzzles.networks import compiled
from explorer.course.puzzles.puzzle import Puzzle, Standing
from explorer.errors import ExplorerError, InputError

NETWORK = "digits_resnet"
IN_PLACE = "write-in-place"
LIMIT_BYTES = 17_000
PASSES = ("fuse-residual", "fuse-activation")


class OneRewriteTooMany(Puzzle):
    """Fusions are declined until the program fits; each costs launches."""

    name = "one-rewrite-too-many"
    title = "One rewrite too many"
    unit = "launches more"

    @property
    def task(self) -> str:
        return (
            f"{NETWORK} without `{IN_PLACE}` takes {self._plain[0]:,} bytes in {self._plain[1]} "
            f"launches. Decline fusions until it takes at most {LIMIT_BYTES:,} bytes, for as few "
            "launches more as can be."
        )

    @property
    def moves(self) -> str:
        return "puzzle.rewrites has the addresses; play([address, ...])."

    @property
    def proof(self) -> str:
        return "all sets of declined fusions of which each costs a launch or more were tried"

    @cached_property
    def rewrites(self) -> tuple[str, ...]:
        """Addresses of the fusions that may be declined."""
        c = compiled(NETWORK, IN_PLACE)
        return tuple(e.address for name in PASSES for e in c[name].events if e.applied)

    @cached_property
    def _plain(self) -> tuple[int, int]:
        return _measures(())

    @cached_property
    def optimum(self) -> float:
        """Every declined fusion is a launch more at least: larger sets need not be tried."""
        best = len(self.rewrites) * 2
        for count in range(len(self.rewrites) + 1):
            for declined in combinations(self.rewrites, count):
                if best <= count:
                    return best
                peak, launches = _measures(declined)
                if peak <= LIMIT_BYTES:
                    best = min(best, launches - self._plain[1])
        return best

    def judged(self, state: Any) -> Standing:
        if not isinstance(state, list | tuple) or not all(isinstance(a, str) for a in state):
            raise InputError("a list of addresses is asked for", hint="play([address, ...])")
        for address in state:
            if address not in self.rewrites:
                raise InputError(
                    f"no fusion has the address {address!r}", hint="see puzzle.rewrites"
                )
        try:
            peak, launches = _measures(tuple(sorted(set(state))))
        except ExplorerError as error:
            return Standing(None, f"it does not compile: {error}")
        more = launches - self._plain[1]
        told = f"{peak:,} bytes, {more} launches more"
        return Standing(more if peak <= LIMIT_BYTES else None, told)


@cache
def _measures(declined: tuple[str, ...]) -> tuple[int, int]:
    """Bytes and launches without these rewrites."""
    c = compiled(NETWORK, IN_PLACE)
    if declined:
        c = c.fork(decisions=dict.fromkeys(declined, False))
    assert c.memory is not None
    found = c.memory.peak_bytes, len(c.program.launches)
    if declined:
        c.close()
    return found
