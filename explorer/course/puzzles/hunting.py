"""Treasure hunt: from a line of generated code back to the node of the file that asked for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any

from explorer.compilation.compilation import Compilation
from explorer.course.puzzles.networks import compiled
from explorer.course.puzzles.puzzle import Puzzle, Standing
from explorer.errors import InputError

NETWORK = "digits_cnn"
TREASURE = "maximum_"
"""What the start's line calls: a maximum, which a Relu of the file has asked for."""
LAST_PASS = "legalize"
"""Later ones make code of operations, and no operations of others."""
NODE = "node "
"""How names of the file's nodes are shown."""
MAX_LOOKS = 1_000


class TreasureHunt(Puzzle):
    """`look(what)` says where something comes from and costs a look; `play` names the node."""

    name = "treasure-hunt"
    title = "Treasure hunt"
    unit = "looks"

    def __init__(self, student: int = 0) -> None:
        super().__init__(student)
        self.looks: list[str] = []

    @property
    def task(self) -> str:
        return (
            f"Line {self._line} of kernel {self._kernel} of {NETWORK} computes a maximum:\n"
            f"    {compiled(NETWORK).kernels[self._kernel].source.lines[self._line - 1].strip()}\n"
            "Which node of the file asked for it? A look says what something comes from. Look at "
            "what is named, until you see the node."
        )

    @property
    def moves(self) -> str:
        return f"look({self.start!r}) and so on, then play('/stage1/...')."

    @property
    def proof(self) -> str:
        return "the shortest path in the graph of what comes from what"

    @cached_property
    def _place(self) -> tuple[str, int]:
        """Kernel, and number of the line from 1."""
        kernels = compiled(NETWORK).kernels
        found = [
            (name, number)
            for name, kernel in kernels.items()
            for number, line in enumerate(kernel.source.lines, 1)
            if TREASURE in line and name.startswith("conv")
        ]
        return found[self.student % len(found)]

    @property
    def _kernel(self) -> str:
        return self._place[0]

    @property
    def _line(self) -> int:
        return self._place[1]

    @property
    def start(self) -> str:
        return f"{self._kernel}:{self._line}"

    @cached_property
    def treasure(self) -> str:
        """The node: of those that the kernel computes, the one that is a Relu."""
        operations = {node.name: node.operator for node in compiled(NETWORK).model.nodes}
        (found,) = (
            name.removeprefix(NODE)
            for name in _reached(self.start)
            if operations.get(name.removeprefix(NODE)) == "Relu"
        )
        return found

    @cached_property
    def optimum(self) -> float:
        return _reached(self.start)[f"{NODE}{self.treasure}"]

    def look(self, what: str) -> tuple[str, ...]:
        """What something comes from: code from operations, operations from others or from nodes.

        Raises:
            InputError: nothing has this name.
        """
        if not isinstance(what, str) or what not in _sources():
            raise InputError(f"nothing is called {what!r}", hint=f"begin with {self.start!r}")
        if len(self.looks) >= MAX_LOOKS:
            raise InputError("that are too many looks", hint="begin again with a new puzzle")
        self.looks.append(what)
        return _sources()[what]

    def play(self, state: Any) -> Puzzle:
        """Names the node; or takes looks and answer of a link."""
        if isinstance(state, Mapping):
            self.looks = []
            for what in state.get("looks", ()):
                self.look(what)
            state = state.get("answer")
        return super().play({"looks": list(self.looks), "answer": state})

    def judged(self, state: Any) -> Standing:
        answer, looks = state["answer"], state["looks"]
        nodes = [node.name for node in compiled(NETWORK).model.nodes]
        if answer not in nodes:
            raise InputError(f"the file has no node {answer!r}", hint="a name such as /stage1/...")
        seen = {self.start}
        for what in looks:
            if what in seen:
                seen.update(_sources()[what])
        if f"{NODE}{answer}" not in seen:
            return Standing(None, "your looks do not lead to it from the line: that is a guess")
        if answer != self.treasure:
            return Standing(None, f"{answer} is computed here too, but not by a maximum")
        return Standing(len(looks), f"found with {len(looks)} looks")


@cache
def _sources() -> Mapping[str, tuple[str, ...]]:
    """What each line, part of a kernel and operation comes from."""
    c = compiled(NETWORK)
    found: dict[str, list[str]] = {}
    for name, kernel in c.kernels.items():
        for number, owners in enumerate(kernel.source.owners, 1):
            found[f"{name}:{number}"] = [owner for owner in owners if owner]
        for owner in {o for owners in kernel.source.owners for o in owners if o}:
            found[owner] = list(kernel.operations)
    _add_rewrites(c, found)
    known = {
        name: [p for p in parents if p in found or p.startswith(NODE)]
        for name, parents in found.items()
    }
    return {name: tuple(dict.fromkeys(parents)) for name, parents in known.items()}


def _add_rewrites(c: Compilation, found: dict[str, list[str]]) -> None:
    """Operations of the import come from nodes, those that a rewrite made from what it matched."""
    for operation in c.trace(with_code=False).snapshots[0].graph.nodes:
        if operation.sources:
            found[operation.id] = [f"{NODE}{name}" for name in operation.sources]
    for result in c.passes[1 : c.names.index(LAST_PASS) + 1]:
        for event in result.events:
            for made in event.produced if event.applied else ():
                old = [name for name in event.matched if name != made]
                found.setdefault(made, []).extend(old)


def _reached(start: str) -> Mapping[str, int]:
    """Looks to everything that can be seen from the start."""
    looks = {start: 0}
    queue = deque([start])
    while queue:
        name = queue.popleft()
        for parent in _sources().get(name, ()):
            if parent not in looks:
                looks[parent] = looks[name] + 1
                queue.append(parent)
    return looks
