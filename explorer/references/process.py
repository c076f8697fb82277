"""A child process with another program in it: started when first asked, replaced when it died.

    process = ReferenceProcess("onnxruntime", PROGRAM)
    process.ask({"do": "run", "inputs": process.put_all(inputs)}, "ran", "net")     the answer

A child that dies, hangs or takes too much memory is a ModelError that says which signal ended it
and at which model.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from explorer.errors import ModelError
from explorer.references.exchange import Exchange
from explorer.runtime.child import Child
from explorer.runtime.processes import signal_name

MEMORY_SHARE = 0.8
"""Of the machine's memory, which a child may take at most."""
IDLE_SECONDS = 60


@dataclass(frozen=True)
class Limits:
    """What a child may take."""

    seconds: float = 600.0
    """Of one request."""
    memory_bytes: int = 0
    """Private memory; 0: a share of the machine's."""

    @property
    def bytes(self) -> int:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return self.memory_bytes or int(MEMORY_SHARE * machine)


class ReferenceProcess:
    """One child at a time. Who uses it claims it from the first request to the last that belong
    together; others wait meanwhile."""

    def __init__(
        self, name: str, program: Path, limits: Limits | None = None, idle_seconds: int = 0
    ) -> None:
        """`name` of the other program; `program`: the file to run. `idle_seconds`: a child that
        nobody asks for so long ends by itself, 0 for never; what was open in it is then gone."""
        self.name = name
        self._lock = threading.Lock()
        self._owner = 0
        self._limits = limits or Limits()
        self.exchange = Exchange.create()
        self._child = Child(
            [str(program)],
            [str(self.exchange.descriptor), str(self._limits.bytes), str(idle_seconds)],
            inherited=[self.exchange.descriptor],
        )
        # Also when the interpreter ends, so that no child outlives it.
        self.close = weakref.finalize(self, _end, self._child, self.exchange, os.getpid())

    def start(self) -> None:
        """Starts the child now, so that it is ready when it is first asked."""
        if self._lock.acquire(blocking=False):  # otherwise somebody asks it already
            try:
                self._child.start()
            finally:
                self._lock.release()

    def claim(self) -> None:
        """Waits until nobody else asks. A thread that has claimed it already cannot."""
        thread = threading.get_ident()
        assert self._owner != thread, "close the model that is open in this child first"
        self._lock.acquire()
        self._owner = thread

    def release(self) -> None:
        """What was claimed; any thread may do that."""
        self._owner = 0
        self._lock.release()

    def put_all(self, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
        return {name: self.exchange.put(array) for name, array in arrays.items()}

    def ask(self, request: dict[str, Any], doing: str, model: str, file: str = "") -> Any:
        """The answer, JSON. `doing`: what the child does meanwhile, "run" or "load"; `model`: the
        name of the model that the error is about."""
        answer = self._child.ask(request, self._limits.seconds)
        if request["do"] == "open" and self._has_left(answer):
            # It ended by itself in the very moment in which it was asked.
            answer = self._child.ask(request, self._limits.seconds)
        if "error" in answer:
            text = f"{self.name} cannot {doing} the model: {answer['error']}"
            raise ModelError(text, file=file)
        if answer.get("status") in ("crashed", "hung", "finding"):
            raise ModelError(self._last_words(answer, doing, model), file=file)
        return answer

    def _last_words(self, answer: dict[str, Any], doing: str, model: str) -> str:
        if answer["status"] == "hung":
            limit = f"{self._limits.seconds:g} s"
            return f"{self.name} did not {doing} the model {model!r} within {limit}"
        signal = signal_name(self._child.exit_status)
        ended = f"was ended by {signal}" if signal else f"gave no answer ({answer['reason']})"
        return f"{self.name} {ended} when it {'ran' if doing == 'run' else 'loaded'} {model!r}"

    def _has_left(self, answer: dict[str, Any]) -> bool:
        return answer.get("status") == "crashed" and self._child.exit_status == 0

    @property
    def is_running(self) -> bool:
        return self._child.is_running

    def leave(self) -> None:
        """What was open in the child is of no use any more."""
        if self._child.is_running:
            self._child.ask({"do": "close"}, self._limits.seconds)

    def forget_ended(self) -> None:
        """Before the first of some requests: a child that ended by itself is replaced."""
        if not self._child.is_running:
            self._child.close()


def _end(child: Child, exchange: Exchange, owner: int) -> None:
    if os.getpid() != owner:
        return  # a fork of the owner: the child is not its own
    child.close()
    exchange.close()
