"""What comes into the state of a page, and what is to be done because of it.

    step(state, {"kind": "fork", "settings": {...}})    ->  state', [Compile(2, request)]
    step(state', Reported(2, DrawnTrace(...)))          ->  state'', [KeepResult(request, trace)]

A message of the page is the mapping that it sent; the others are records. An effect is data, too:
`explorer/app/effects.py` does what it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explorer.app.protocol import (
    Bisection,
    CompileRequest,
    Died,
    DrawnTrace,
    Failure,
    Progressed,
    SearchProgress,
)
from explorer.app.searches import SearchOrder
from explorer.app.uploads import Upload

PageMessage = Mapping[str, Any]
"""JSON of a page: its `kind`, and what belongs to that."""

Report = Progressed | DrawnTrace | Failure | Bisection | SearchProgress | Died | None
"""What a worker says of a compilation or a search; None: a bisection found nothing wrong."""


@dataclass(frozen=True)
class Begun:
    """The page is there; its address said `link`."""

    link: object


@dataclass(frozen=True)
class Reported:
    """A worker's word on what was asked for under a key."""

    key: int
    report: Report


@dataclass(frozen=True)
class ModelExamined:
    """What a worker found in a file: see `worker/examining.py`."""

    path: str
    form: Mapping[str, Any]  # JSON


@dataclass(frozen=True)
class WorkerReplaced:
    """A worker that did not answer was ended: what it was at is to be asked of another one."""


@dataclass(frozen=True)
class UploadGrew:
    """A piece of a file arrived."""

    upload: Upload | None


@dataclass(frozen=True)
class UploadArrived:
    """A file is there, whole."""

    upload: Upload


@dataclass(frozen=True)
class FileRefused:
    """A file was not taken, and why."""

    reason: str


Message = (
    PageMessage
    | Begun
    | Reported
    | ModelExamined
    | WorkerReplaced
    | UploadGrew
    | UploadArrived
    | FileRefused
)


@dataclass(frozen=True)
class Compile:
    """To be compiled, stage by stage."""

    key: int
    request: CompileRequest
    may_be_known: bool = False
    """Whether a result that this app has of it already will do."""


@dataclass(frozen=True)
class Judge:
    """What was compiled is to be measured once more, on the data of the request."""

    key: int
    request: CompileRequest


@dataclass(frozen=True)
class ShowSweep:
    """What was compiled is to have the sweep in the file."""

    key: int
    request: CompileRequest
    path: str


@dataclass(frozen=True)
class Examine:
    """A model is to be looked at before it is compiled."""

    key: int
    path: str
    target: str


@dataclass(frozen=True)
class Prepare:
    """To be compiled in the background, so that forks of it are quick."""

    request: CompileRequest


@dataclass(frozen=True)
class Bisect:
    key: int
    request: CompileRequest


@dataclass(frozen=True)
class StartSearch:
    key: int
    request: CompileRequest
    order: SearchOrder


@dataclass(frozen=True)
class StartTiming:
    """Compilations to be timed in turns: the first one is the base of the others."""

    key: int
    requests: tuple[CompileRequest, ...]


@dataclass(frozen=True)
class Cancel:
    """To be given up."""

    key: int
    request: CompileRequest
    is_waited_for: bool
    """Whether a worker that does not hear of it in time is ended."""


@dataclass(frozen=True)
class Forget:
    """The worker may give back what it has of a branch."""

    key: int
    request: CompileRequest


@dataclass(frozen=True)
class KeepResult:
    """What other pages and later requests may be shown at once."""

    request: CompileRequest
    trace: DrawnTrace


@dataclass(frozen=True)
class ReceiveUpload:
    """A piece of a file, as the page sent it."""

    message: PageMessage


@dataclass(frozen=True)
class RemoveUpload:
    path: Path


@dataclass(frozen=True)
class PairUploads:
    """Two files become one model: a copy of its layers is put beside its weights."""

    layers: Path
    weights: Path


Effect = (
    Compile
    | Judge
    | ShowSweep
    | Examine
    | Prepare
    | Bisect
    | StartSearch
    | StartTiming
    | Cancel
    | Forget
    | KeepResult
    | ReceiveUpload
    | RemoveUpload
    | PairUploads
)
