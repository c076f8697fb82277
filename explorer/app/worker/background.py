"""What a worker does while nobody waits: one thread, which holds still when somebody does.

background = Background(run)
background.add(task)                    run(task) in the thread, until task.waiting is empty
with background.held_still(): ...       the thread stops at its next `wait_while_held()`
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar


class Waiting(Protocol):
    """A task with the names of the stages that it still lacks."""

    waiting: list[str]


T = TypeVar("T", bound=Waiting)


class Background(Generic[T]):
    """Runs stage after stage; of several tasks the one that was added last goes first."""

    def __init__(self, run: Callable[[T], None]) -> None:
        self._run = run
        self._changed = threading.Condition()
        self._tasks: list[T] = []
        self._is_free = threading.Event()
        self._is_free.set()
        self.holds = 0
        """How often it was held still."""

    def start(self) -> None:
        threading.Thread(target=self._work, name="explorer-background", daemon=True).start()

    def add(self, task: T) -> None:
        with self._changed:
            self._tasks.append(task)
            self._changed.notify()

    def tasks(self) -> list[T]:
        """All that is not finished, the one that runs included."""
        with self._changed:
            return list(self._tasks)

    def drop(self, is_dropped: Callable[[T], bool]) -> None:
        with self._changed:
            self._tasks = [task for task in self._tasks if not is_dropped(task)]

    @contextmanager
    def held_still(self) -> Iterator[None]:
        self.holds += 1
        self._is_free.clear()
        try:
            yield
        finally:
            self._is_free.set()

    def wait_while_held(self) -> None:
        """To be called by what runs in the thread, as often as it can stop."""
        self._is_free.wait()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._tasks))
                task = self._tasks[-1]
            self.wait_while_held()
            self._run(task)
            if not task.waiting:
                self.drop(lambda other, done=task: other is done)
