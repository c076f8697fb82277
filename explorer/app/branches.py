"""The branches of one page: compilations, each named by what was decided otherwise.

Branch("1", CompileRequest("net.onnx", "cpu"))                             "first"
Branch("2", CompileRequest.deciding("net.onnx", "cpu", {"fuse-bias": False}))   "without fuse-bias"
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from explorer.app.protocol import Bisection, CompileRequest, DrawnTrace, missing_stages
from explorer.results.decisions import TARGET, words
from explorer.views.payload.comparison import Side, comparison_payload, side_of
from explorer.views.payload.difference import difference_payload

MAX_RESULTS = 12
MAX_ACTIVE_BRANCHES = 12
"""Branches of one model whose results are held; of more the oldest ones fall asleep."""
MAX_BRANCHES = 60
"""Of one page."""
MAX_COMPARED = 4
"""Branches side by side."""


class ResultStore:
    """The last few compilations of what all pages may open: going back to one costs nothing.

    Holds what is known so far, and forgets a result when its file has changed. What a page
    uploaded does not belong here.
    """

    def __init__(self, capacity: int = MAX_RESULTS) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._results: OrderedDict[tuple[CompileRequest, _Stamp], DrawnTrace] = OrderedDict()

    def get(self, request: CompileRequest) -> DrawnTrace | None:
        key = (request, _stamp(request.path))
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
            return self._results.get(key)

    def put(self, request: CompileRequest, result: DrawnTrace) -> None:
        key = (request, _stamp(request.path))
        with self._lock:
            before = self._results.get(key)
            if before is not None and len(before.stages) > len(result.stages):
                return
            self._results[key] = result
            self._results.move_to_end(key)
            while len(self._results) > self._capacity:
                self._results.popitem(last=False)


_Stamp = tuple[int, int]


def _stamp(path: str) -> _Stamp:
    """When a file was changed, in nanoseconds, and its bytes; (0, 0) where it is gone."""
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


@dataclass(frozen=True)
class Branch:
    """A compilation; one that is asleep has its decisions and what it came to, and is compiled
    again when somebody looks at it."""

    key: str
    request: CompileRequest
    trace: DrawnTrace
    name: str = ""
    """What the person calls it."""
    note: str = ""
    parent: str = ""
    """Key of the branch that it was forked from; empty for a model's first."""
    failed: tuple[str, ...] = ()
    """Stages that could not be made."""
    bisection: Bisection | None = None
    is_bisecting: bool = False

    @property
    def is_asleep(self) -> bool:
        return not self.trace.stages

    @property
    def pass_names(self) -> list[str]:
        """Of the passes that ran, in their order."""
        return [step["name"] for step in self.trace.head.get("passes", ())]

    def asleep(self) -> Branch:
        """What is left of it when its results are given back."""
        head = {name: self.trace.head[name] for name in ("label", "summary")}
        head["passes"] = [{"name": name} for name in self.pass_names]
        return Branch(
            key=self.key,
            request=self.request,
            trace=DrawnTrace(head, {}),
            name=self.name,
            note=self.note,
            parent=self.parent,
        )

    @property
    def pending(self) -> list[str]:
        """Stages that are still to come."""
        return missing_stages(self.request, (*self.trace.stages, *self.failed))

    def label(self, first_target: str) -> str:
        """What tells it from the other branches of its model: its name, or what was decided."""
        return self.name or self.decided(first_target)

    def decided(self, first_target: str) -> str:
        """What is decided otherwise than by default, in words."""
        if self.request.is_trace:
            return self.trace.head["label"] or "as saved"
        parts = [self.request.label]
        if self.request.target != first_target:
            parts.append(words(TARGET, self.request.target))
        return ", ".join(part for part in parts if part) or "first"


Find = Callable[[Branch, str], str]
"""Gives a chunk of a branch as JSON text, or raises KeyError."""


def compared(branches: Sequence[Branch], labels: Sequence[str], find: Find) -> str:
    """The comparison of branches with the first of them, as the chunk's JSON text."""
    sides = [_side(branch, find) for branch in branches]
    return json.dumps({**comparison_payload(sides), "labels": list(labels)})


def difference(branches: Sequence[Branch], place: str, find: Find) -> str:
    """How the programs differ after a pass (or at the end, for ""), as the chunk's JSON text."""
    return json.dumps(difference_payload([_side(branch, find) for branch in branches], place))


def _side(branch: Branch, find: Find) -> Side:
    return side_of(branch.trace.head, lambda key: json.loads(find(branch, key)))
