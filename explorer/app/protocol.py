"""The records that page, app and worker exchange.

CompileRequest("digits_cnn.onnx", "cpu", (("fuse-activation", "false"),))   what is to be compiled
    -> Stage("passes", trace), Stage("program", trace) ...        more is known after each
    -> DrawnTrace(head, chunks as JSON text, stages)              as the page takes it

Equal requests have equal results, so that a request is also the name of a branch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from explorer.errors import ExplorerError, MemoryBudgetError, NotQuantizedError, TextError
from explorer.results import Trace
from explorer.results.decisions import BUDGET, DIMENSIONS, Decisions, Value, label_of, place_of

Progress = Callable[[str, int, int], None]
"""Called with (what is done next, how many are done, how many there are)."""

STAGES = ("passes", "program", "kernels", "accuracy", "profile", "assembly", "texts")
"""What is made one after another; the page shows each as soon as it is there.

passes: the program after every pass. program: kernels with their source. kernels: the steps of
their schedules. Then errors, times, and the machine's instructions; and at last what nobody asked
for yet of the texts, drawings and measures of all passes."""
READ = "read"
"""What comes before all stages where a file is large: the model as it was read, not imported. It is
shown until the passes are done, and is no branch."""
JUDGED = ("accuracy", "profile")
"""Stages with results that rest on data."""
COMPLETE = "kernels"
"""The first stage of which the trace has all that is known; it measures nothing."""
TEXTS = "texts"
URGENT = STAGES[:2]
"""Stages that a person waits for: later ones of other compilations hold still meanwhile."""
MAX_EDIT_WORDS = 60
"""Characters of an edit of the model in a label."""
BUDGETS = "budgets"
"""Of levers: which budgets can be met."""
TRIALS = "trials"
"""Of levers that are predicted by compiling."""
ONE_LEVER = "one"
"""Of levers: one of them, by the address that follows, with predictions of its values."""
LEVERS = "levers/"
"""How keys of chunks begin that are computed when they are asked for, and never else: what moves
`levers/peak_bytes`, or `levers/cycles?conv3` of a layer."""
TWO_FILES = "files/"
"""How keys of chunks begin that compare two models: requests as JSON follow, or, from the page,
keys of branches."""
COMPUTED = (LEVERS, TWO_FILES)
"""How keys of chunks begin that no stage makes."""
TRACE_SUFFIX = ".nnx"


class Cancelled(BaseException):
    """Raised in `progress` where nobody waits for the result any more.

    No `Exception`, so that no handler of a compiler's fault takes it for one.
    """


@dataclass(frozen=True)
class CompileRequest:
    """What is to be compiled, and everything that was decided otherwise than by default."""

    path: str
    target: str
    decisions: tuple[tuple[str, str], ...] = ()
    """(address, value as JSON), sorted: what is decided otherwise (`results.decisions`)."""
    data: tuple[str, ...] = ()
    """Files with values for the inputs, and with labels: see `cases/data.py`."""
    data_name: str = ""
    """What the person calls them."""
    model_edits: tuple[str, ...] = ()
    """Edits of the model before it is compiled, as `editing/edits.py` has them."""
    quantize: tuple[str, ...] = ()
    """(method, files of data): how the model is calibrated before it is compiled; empty: it is
    compiled as it is, or with the table that the app was started with."""
    edit: tuple[str, ...] = ()
    """(pass, file): what is compiled from the IR in that file, in the place of what the pass made;
    empty for nothing edited."""

    @staticmethod
    def deciding(path: str, target: str, decisions: Decisions) -> CompileRequest:
        """With decisions by address."""
        return CompileRequest(path, target, sorted_pairs(decisions))

    @property
    def is_trace(self) -> bool:
        """Whether this is a saved compilation, which is opened and not compiled."""
        return Path(self.path).suffix.lower() == TRACE_SUFFIX

    @property
    def without_data(self) -> CompileRequest:
        """What is compiled, without what it is measured on."""
        return replace(self, data=(), data_name="")

    @property
    def base(self) -> CompileRequest:
        """The same model and target at the same sizes, with nothing else decided otherwise."""
        kept = tuple(pair for pair in self.decisions if pair[0].startswith(f"{DIMENSIONS}/"))
        return replace(self, decisions=kept, edit=())

    @property
    def sizes(self) -> dict[str, Any]:
        """The sizes of symbolic dimensions that are decided: numbers, or [lowest, highest]."""
        prefix = f"{DIMENSIONS}/"
        found = self.values.items()
        return {name.removeprefix(prefix): v for name, v in found if name.startswith(prefix)}

    @property
    def values(self) -> dict[str, Any]:
        """The decisions by address."""
        return {address: json.loads(value) for address, value in self.decisions}

    @property
    def disable(self) -> tuple[str, ...]:
        """Names of passes that are left out."""
        off = [address for address, value in self.decisions if value == "false"]
        return tuple(address for address in off if place_of(address).group == "pass")

    @property
    def label(self) -> str:
        """What is different from the defaults; empty when nothing is."""
        edited = f"edited after {self.edit[0]}" if self.edit else ""
        of_model = ", ".join(text[:MAX_EDIT_WORDS] for text in self.model_edits)
        quantized = f"quantized by {self.quantize[0]}" if self.quantize else ""
        parts = (of_model, quantized, label_of(self.values), edited)
        return ", ".join(part for part in parts if part)


def two_files_key(pair: Sequence[CompileRequest], files: Sequence[str]) -> str:
    """Names the comparison of two models on the data that they have now; `files`: as the person
    calls them."""
    return TWO_FILES + json.dumps([[asdict(side) for side in pair], [*files]])


@dataclass(frozen=True)
class Examined:
    """What can be said of a model before it is compiled: see `worker/examining.py`."""

    form: dict[str, Any]  # JSON


@dataclass(frozen=True)
class MadeChunk:
    """A chunk that was made apart from a stage; None where there is no such chunk."""

    key: str
    text: str | None
    reason: str = ""
    """Why there is none."""


@dataclass(frozen=True)
class Bisection:
    """What a bisection blamed first; `rule` is empty where the pass has no rules."""

    pass_name: str
    rule: str
    operation: str
    tensor: str
    address: str


SearchReport = Callable[[dict[str, Any]], None]
"""Called with what a search knows so far, as `explorer.views.catalog.search` has it."""


class Compiler(Protocol):
    """Compiles in the worker's process, and keeps there what forks can share."""

    def stage(self, request: CompileRequest, name: str, progress: Progress) -> Trace:
        """The trace when the stage `name` is done; asked for in the order of `STAGES`."""
        ...

    def read(self, request: CompileRequest, progress: Progress) -> Trace | None:
        """The model as its file has it, where that is large and is not compiled yet."""
        ...

    def take_sweep(self, request: CompileRequest, file: str) -> None:
        """The model's traces have the sweep in this file from now on."""
        ...

    def levers(self, request: CompileRequest, asked: str) -> dict[str, Any]:
        """What moves a number of a compilation, as JSON. InputError for an unknown quantity."""
        ...

    def two_files(self, pair: Sequence[CompileRequest], files: Sequence[str]) -> dict[str, Any]:
        """The tensors of two models on the same data, as JSON; see `worker/two_files.py`."""
        ...

    def examine(self, path: str) -> dict[str, Any]:
        """What a model asks for before it is compiled, as JSON."""
        ...

    def optional(self, request: CompileRequest) -> tuple[str, ...]:
        """Names of the passes that ran and may be left out."""
        ...

    def bisect(self, request: CompileRequest) -> Bisection | None:
        """The first rewrite that is wrong; None when nothing is."""
        ...

    def search(
        self,
        request: CompileRequest,
        order: Mapping[str, Any],
        progress: Progress,
        report: SearchReport,
    ) -> dict[str, Any]:
        """Measures schedules of a kernel: `order` has the fields of `searches.SearchOrder`."""
        ...

    def saved(self, request: CompileRequest, order: SaveOrder, progress: Progress) -> SavedFile:
        """A file of a branch."""
        ...

    def turns(
        self, request: CompileRequest, others: Sequence[CompileRequest], progress: Progress
    ) -> dict[str, Any]:
        """Times a compilation and others in turns; see `explorer.views.payload.interleaved`."""
        ...

    def forget(self, request: CompileRequest) -> None:
        """Gives back what was kept for a request."""
        ...


@dataclass(frozen=True)
class DrawnTrace:
    """A trace as the page takes it: its head, and chunks as JSON text by key.

    Until the stage `texts` is done, more of them can be asked for; they join the others.
    """

    head: dict[str, Any]  # JSON, see explorer.views.trace_payload
    chunks: dict[str, str]
    optional: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    """What is there already."""

    @property
    def is_read_only(self) -> bool:
        """Whether this is a model as it was read, of which nothing is compiled yet."""
        return self.stages == (READ,)

    def is_complete(self, request: CompileRequest) -> bool:
        return not missing_stages(request, self.stages)


@dataclass(frozen=True)
class Failure:
    """Why something was not done, as a person reads it."""

    what: str
    where: str
    advice: str
    stage: str = "passes"
    """What was being done: a stage, bisect or search."""
    line: int = 0
    """Of the edited text, from 1; 0 where it is about none."""
    remedy: tuple[str, Value] | None = None
    """A decision (address, value) with which it would work, where one is known."""


@dataclass(frozen=True)
class Progressed:
    """`index` of `total` steps of a stage are done; `name` comes next."""

    name: str
    index: int = 0
    total: int = 0
    stage: str = field(default="passes", compare=False)


@dataclass(frozen=True)
class SearchProgress:
    """More is known of a search, or of a measurement in turns: how far it is, what was found, or
    how it ended."""

    status: str = "running"
    number: int = 0
    most: int = 0
    error: str = ""
    result: Any = None  # JSON; None where nothing new is known


Cell = str | float | int | bool | None
"""Of a table that a page sends."""


@dataclass(frozen=True, kw_only=True)
class SaveOrder:
    """A file that a person wants of a branch."""

    what: str
    """page, trace, source, package, report, report page, ir, samples, view, tries, or a table of
    `traces.tables.FRAMES`."""
    form: str
    """csv or parquet, of a table; svg or png, too, of a view."""
    stages: tuple[str, ...]
    """What is known of the branch, and so belongs into the file."""
    name: str
    """The model's, as the person calls it."""
    label: str = ""
    """The branch's, as the person calls it."""
    place: str = ""
    """What the page shows first, as the part of an address behind `#`."""
    after: str = ""
    """Of IR and of a view: the pass after which it is."""
    view: str = ""
    """Name of a view of `views.register.VIEWS`."""
    rows: tuple[tuple[Cell, ...], ...] = ()
    """Of tries: the table that the page has, names of its columns first."""


@dataclass(frozen=True, kw_only=True)
class SavedFile:
    """The file as it goes to the browser; `error` says why there is none."""

    name: str = ""
    kind: str = ""
    """Its media type."""
    content: str = ""
    """base64"""
    error: str = ""


@dataclass(frozen=True)
class Died:
    """The worker's process is no more; what it was asked for and had not finished, by key."""

    failures: Mapping[int, Failure]


@dataclass(frozen=True)
class Stopped:
    """The worker has given up what it was told to cancel."""


_DOING = {
    "accuracy": "comparing",
    "profile": "measuring",
    "assembly": "disassembling",
    "bisect": "bisecting",
    "search": "searching",
    "turns": "timing",
}


def failure_of(error: Exception, request: CompileRequest, stage: str = "passes") -> Failure:
    """What failed, where, and the way out."""
    doing = _DOING.get(stage, "compiling")
    where = where_of(request)
    if isinstance(error, ExplorerError):
        places = "; ".join(error.places()) or where
        advice = f"Try: {error.hint}" if error.hint else "Choose another target or model."
        if isinstance(error, TextError) and error.line:
            last = error.message.splitlines()[-1]  # below the line and its sign
            words = last.strip().removeprefix("not valid IR: ")
            places = f"line {error.line}, column {error.column} of the edited text"
            return Failure(f"not valid IR: {words}", places, advice, stage, error.line)
        return Failure(error.message, places, advice, stage, remedy=_remedy(error, request))
    if isinstance(error, MemoryError):
        what = "there is not enough memory for this model"
        return Failure(what, where, f"Close other models.\n{way_out(request, stage)}", stage)
    lines = [line for line in str(error).splitlines() if line.strip()]
    what = lines[0] if lines else type(error).__name__
    details = "\n".join(lines[1:6])
    where = f"{type(error).__name__} while {doing} {where}"
    advice = way_out(request, stage)
    return Failure(what, where, f"{details}\n{advice}" if details else advice, stage)


def _remedy(error: ExplorerError, request: CompileRequest) -> tuple[str, Value] | None:
    """The least budget that the decisions can meet, after one that they cannot; a calibration for
    a target that takes quantized models only."""
    if isinstance(error, NotQuantizedError):
        return "quantize", ""
    if isinstance(error, MemoryBudgetError) and BUDGET in request.values and error.needed_bytes:
        return BUDGET, error.needed_bytes
    return None


def where_of(request: CompileRequest) -> str:
    name = Path(request.path).name
    return name if request.is_trace else f"{name} for {request.target}"


def way_out(request: CompileRequest, stage: str) -> str:
    if request.is_trace:
        return "Save the trace again with this version; what was shown before stays usable."
    if stage != "passes":
        return "Everything that was shown before stays usable."
    if request.edit:
        return "Change the text, or compile what it was made of; what was shown stays usable."
    if request.disable:
        return f"Switch {', '.join(request.disable)} on again, or choose another target or model."
    if request.label:
        return "Take the change back, or choose another target or model."
    return "Choose another target or model; what was shown before stays usable."


def sorted_pairs(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Decisions in the form in which requests hold them."""
    return tuple((address, json.dumps(value)) for address, value in sorted(values.items()))


def stages_of(request: CompileRequest) -> tuple[str, ...]:
    """A saved trace is opened as it is: nothing is measured or made of it."""
    return (STAGES[0], TEXTS) if request.is_trace else STAGES


def missing_stages(request: CompileRequest, stages: Sequence[str]) -> list[str]:
    return [name for name in stages_of(request) if name not in stages]
