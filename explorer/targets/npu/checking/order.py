"""In which order the queues of a machine can execute a program, and which instructions never run.

Queues that wait for tokens and for room for them are a network of processes with bounded channels:
whether it gets stuck does not depend on who runs when (Kahn, "The Semantics of a Simple Language
for Parallel Programming", 1974). So one order tells of all, and cycles are not needed.

Each instruction gets a clock: of every queue, how many instructions have certainly ended before it
begins (Mattern, "Virtual Time and Global States of Distributed Systems", 1989). Tokens carry them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from explorer.targets.npu.encoding import COLUMN
from explorer.targets.npu.formats import OPCODES
from explorer.targets.npu.machine import CONTENTS, Machine

Clock = tuple[int, ...]
SIDES = ("before", "after")


@dataclass(frozen=True)
class Waiting:
    """An instruction that never runs: what for."""

    number: int
    reason: str


@dataclass(frozen=True)
class Order:
    """An order in which a program can run."""

    queues: tuple[int, ...]
    """Of every instruction."""
    positions: tuple[int, ...]
    """Of every instruction in its queue."""
    members: tuple[tuple[int, ...], ...]
    """Of every queue: its instructions."""
    executed: tuple[int, ...]
    """Instructions in an order that respects queues and tokens."""
    clocks: dict[int, Clock]
    waiting: tuple[Waiting, ...]
    """Heads of queues that never run; empty where all do."""
    left_over: tuple[tuple[int, str], ...]
    """Instructions whose token nobody takes, and for which queue it was."""


def queue_of_instructions(table: np.ndarray, machine: Machine) -> list[int]:
    """Index of the queue of every instruction."""
    kinds = {opcode: kind for kind, opcode in OPCODES.items()}
    found = []
    read = [COLUMN[name] for name in ("opcode", "memory", "prefetch")]
    for opcode, memory, prefetch in table[:, read].tolist():
        kind = kinds[opcode]
        if kind in ("load", "store"):
            found.append(machine.queue_of(CONTENTS[memory], kind == "load", bool(prefetch)))
        else:
            engine = machine.matrix if kind in ("multiply", "finish") else machine.vector
            assert engine is not None
            found.append(machine.queue_of_engine(engine.name))
    return found


@dataclass(frozen=True)
class Token:
    clock: Clock
    giver: int


class Execution:
    """Queues, tokens and clocks while an order is found."""

    def __init__(self, table: np.ndarray, machine: Machine) -> None:
        self.machine = machine
        names = [f"{action}_{side}" for action in ("pop", "push") for side in SIDES]
        self.flags = table[:, [COLUMN[name] for name in names]].astype(bool).tolist()
        self.queues = queue_of_instructions(table, machine)
        count = len(machine.queues)
        self.members: list[list[int]] = [[] for _ in range(count)]
        self.positions = []
        for number, queue in enumerate(self.queues):
            self.positions.append(len(self.members[queue]))
            self.members[queue].append(number)
        self.done = [0] * count
        self.fetched = 0
        self.fetched_of = [0] * count
        self.tokens: dict[tuple[int, int], deque[Token]] = {}
        """By giving and taking queue."""
        for queue in range(count - 1):
            self.tokens[queue, queue + 1] = deque()
            self.tokens[queue + 1, queue] = deque()
        self.clock_of: list[Clock] = [(0,) * count] * count
        self.clocks: dict[int, Clock] = {}
        self.executed: list[int] = []

    def neighbour(self, queue: int, side: str) -> int:
        return queue - 1 if side == "before" else queue + 1

    def fetch(self) -> None:
        while self.fetched < len(self.queues):
            queue = self.queues[self.fetched]
            if self.fetched_of[queue] - self.done[queue] >= self.machine.queues[queue].entries:
                return
            self.fetched_of[queue] += 1
            self.fetched += 1

    def obstacle(self, queue: int) -> str:
        """Why the head of a queue cannot run now; empty where it can."""
        number = self.members[queue][self.done[queue]]
        if self.done[queue] >= self.fetched_of[queue]:
            return "it is not fetched: a queue before it in the program is full"
        flags = self.flags[number]
        for side, pops in zip(SIDES, flags[:2], strict=True):
            tokens = self.tokens.get((self.neighbour(queue, side), queue))
            if pops and tokens is None:
                return f"it takes a token of a queue {side} its own, and there is none"
            if pops and not tokens:
                name = self.machine.queues[self.neighbour(queue, side)].name
                return f"it waits for a token of the queue {name}"
        for side, pushes in zip(SIDES, flags[2:], strict=True):
            taker = self.neighbour(queue, side)
            tokens = self.tokens.get((queue, taker))
            if pushes and tokens is None:
                return f"it gives a token to a queue {side} its own, and there is none"
            if pushes and tokens is not None and len(tokens) >= self.machine.queues[taker].tokens:
                name = self.machine.queues[taker].name
                return f"it waits for room for a token in the queue {name}"
        return ""

    def execute(self, queue: int) -> None:
        position = self.done[queue]
        number = self.members[queue][position]
        clock = self.clock_of[queue]
        for side, pops in zip(SIDES, self.flags[number][:2], strict=True):
            if pops:
                token = self.tokens[self.neighbour(queue, side), queue].popleft()
                clock = tuple(map(max, clock, token.clock))
        self.clocks[number] = clock
        # From here on, this instruction has ended.
        clock = (*clock[:queue], position + 1, *clock[queue + 1 :])
        self.clock_of[queue] = clock
        for side, pushes in zip(SIDES, self.flags[number][2:], strict=True):
            if pushes:
                token = Token(clock, number)
                self.tokens[queue, self.neighbour(queue, side)].append(token)
        self.done[queue] += 1
        self.executed.append(number)


def find_order(table: np.ndarray, machine: Machine) -> Order:
    """An order of the rows of `field_table`, and what never runs in any."""
    state = Execution(table, machine)
    progresses = True
    while progresses:
        progresses = False
        for queue, members in enumerate(state.members):
            state.fetch()
            while state.done[queue] < len(members) and not state.obstacle(queue):
                state.execute(queue)
                state.fetch()
                progresses = True
    waiting = [
        Waiting(members[state.done[queue]], state.obstacle(queue))
        for queue, members in enumerate(state.members)
        if state.done[queue] < len(members)
    ]
    left_over = [
        (token.giver, machine.queues[taker].name)
        for (_, taker), tokens in state.tokens.items()
        for token in tokens
    ]
    return Order(
        queues=tuple(state.queues),
        positions=tuple(state.positions),
        members=tuple(map(tuple, state.members)),
        executed=tuple(state.executed),
        clocks=state.clocks,
        waiting=tuple(waiting),
        left_over=() if waiting else tuple(sorted(left_over)),
    )
