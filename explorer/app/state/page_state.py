"""What one page shows, as one value: what is open, what is looked at, what is waited for.

PageState(choices, targets, "cpu", first_request(choices[0], "cpu"))
    ->  nothing is open yet; `step` (step.py) makes another one of it with every message
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from explorer.app.branches import Branch
from explorer.app.catalog import Choice
from explorer.app.interleaved_timing import TimingOrder
from explorer.app.protocol import READ, CompileRequest, Failure, Progressed
from explorer.app.searches import Search
from explorer.app.state.dialog import OpenDialog
from explorer.app.state.points import Look, Point
from explorer.app.uploads import TEXT_SUFFIXES, Upload

MAX_NAMED_FILES = 2


@dataclass(frozen=True)
class PageState:
    """All that is known of a page. A page sees what page_json.py writes of it."""

    choices: tuple[Choice, ...]
    """What may be opened: what the app was started with, and what this page uploaded."""
    targets: tuple[str, ...]
    default_target: str
    wanted: CompileRequest
    """What was asked for last: it may still run, or have failed."""
    branches: tuple[Branch, ...] = ()
    """Of all models and traces that are open."""
    current: str = ""
    """Key of the branch that is looked at; empty when nothing is open."""
    read: Branch | None = None
    """A large model as it was read last; see `shown`."""
    status: str = "idle"
    """idle, working or failed."""
    progress: Progressed | None = None
    """Of what is waited for, or else of what is made in the background."""
    error: Failure | None = None
    upload: Upload | None = None
    """A file on its way."""
    waiting: tuple[Upload, ...] = ()
    """Weights that arrived before the layers that they are for."""
    missing: str = ""
    """The other file of a model of which the page sent one, in words."""
    refusals: int = 0
    """How many files were not taken so far: a page that sends one stops when this rises."""
    notice: str = ""
    """What of a link could not be restored."""
    searches: tuple[Search, ...] = ()
    """For schedules, the one that was begun last at the end."""
    turns: tuple[TimingOrder, ...] = ()
    """Measurements in turns, the one that was begun last at the end."""
    points: tuple[Point, ...] = ()
    """What was done, the oldest first: how things stood after each action."""
    at: int = -1
    """Index of the point at which things stand; those behind it were undone."""
    looks: Mapping[str, Look] = field(default_factory=dict)
    """Theme, sizes of panes and their like, as the page sent them."""
    place: str = ""
    """What the page looks at, as its address says it."""
    workspace: str = ""
    """The name under which all this outlives its page."""
    revision: int = 0
    """Rises whenever the branch that is looked at is another one, or more is known of it."""
    has_begun: bool = False
    asked: Mapping[int, CompileRequest] = field(default_factory=dict)
    """What a worker was asked for, by key."""
    count: int = 0
    """Keys that were given so far."""
    forked_from: Mapping[int, str] = field(default_factory=dict)
    """Keys of the branches from which those were asked for that are not there yet."""
    following: CompileRequest | None = None
    """A link's fork, or the second model of a pair: asked for when what comes before is there."""
    pair: tuple[str, ...] = ()
    """Paths of two models that the app was started with: both are opened and compared at once."""
    dialog: OpenDialog | None = None
    """What is asked before a model is compiled, while that is asked."""
    last: Mapping[str, str] = field(default_factory=dict)
    """Of every model, by path, the branch that was looked at last."""
    data: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Of models, by path, the files of data on which they are judged: (name, path of the file)."""
    arriving: tuple[tuple[str, str], ...] = ()
    """Files of data that are there, while further ones of the same data are on their way."""

    sweeps: Mapping[str, str] = field(default_factory=dict)
    """Of models, by path, the file of a sweep that the page sent."""

    @property
    def target(self) -> str:
        """The target that was looked at or asked for last; a trace has none."""
        branch = self.branch
        return (branch.request.target if branch else self.wanted.target) or self.default_target

    def judged(self, request: CompileRequest) -> CompileRequest:
        """The request with the data of its model."""
        files = self.data.get(request.path, ())
        if request.is_trace:
            return request
        if all(Path(file).suffix in TEXT_SUFFIXES for _, file in files):
            files = ()  # labels wait for what they are of
        return replace(
            request,
            data=tuple(path for _, path in files),
            data_name=name_of_data([name for name, _ in files]),
            quantize=self._calibrated_on(request, [path for _, path in files]),
        )

    def _calibrated_on(self, request: CompileRequest, files: Sequence[str]) -> tuple[str, ...]:
        """How it is calibrated: on the data that its model has now, where that is not said yet."""
        return (*request.quantize, *files) if len(request.quantize) == 1 else request.quantize

    @property
    def open_paths(self) -> set[str]:
        """Of the models and traces that are open."""
        return {branch.request.path for branch in self.branches}

    def is_private(self, request: CompileRequest) -> bool:
        """Whether this page alone may see what is made of a file."""
        choice = self.choice(request.path)
        has_files = bool(request.data or request.edit or request.path in self.sweeps)
        return choice is None or choice.is_upload or has_files

    @property
    def branch(self) -> Branch | None:
        """The branch that is looked at; None while a model is that is not compiled yet."""
        return None if self.is_reading else self.named(self.current)

    @property
    def is_reading(self) -> bool:
        """Whether a model is looked at as it was read, for its passes still run."""
        looked, read = self.named(self.current), self.read
        if read is None or self.status != "working" or read.request.path != self.wanted.path:
            return False
        compiled = self.named(read.key)
        is_first = looked is None or looked.request.path != read.request.path
        return is_first and (compiled is None or compiled.is_asleep)

    @property
    def shown(self) -> Branch | None:
        """What the page shows: a branch, or a model as it was read."""
        return self.read if self.is_reading else self.branch

    @property
    def shown_name(self) -> str:
        """Names what is shown: a branch's key, `read/` and a key, or nothing."""
        return f"{READ}/{self.read.key}" if self.read and self.is_reading else self.current

    def named(self, key: str) -> Branch | None:
        return next((branch for branch in self.branches if branch.key == key), None)

    def of_path(self, path: str) -> tuple[Branch, ...]:
        """The branches of one model or trace, the oldest first."""
        return tuple(branch for branch in self.branches if branch.request.path == path)

    def choice(self, path: str) -> Choice | None:
        return next((choice for choice in self.choices if choice.path == path), None)

    def asking(self, key: int, request: CompileRequest) -> PageState:
        """A worker was asked for it."""
        return replace(self, asked={**self.asked, key: request})

    def without_asked(self, *keys: int) -> PageState:
        """Nobody waits for these any more."""
        return replace(self, asked={k: r for k, r in self.asked.items() if k not in keys})

    def with_branch(self, branch: Branch, is_news: bool = False) -> PageState:
        """Another state of a branch; `is_news` when its trace tells more."""
        branches = tuple(branch if b.key == branch.key else b for b in self.branches)
        is_current = branch.key == self.current
        is_done = not branch.pending and is_current and self.status == "idle"
        return replace(
            self,
            branches=branches,
            revision=self.revision + (is_news and is_current),
            progress=None if is_done else self.progress,
        )

    def label(self, branch: Branch) -> str:
        """What tells a branch from the others of its model."""
        return branch.label(self.of_path(branch.request.path)[0].request.target)

    def decided(self, branch: Branch) -> str:
        """What was decided otherwise for a branch, in words."""
        return branch.decided(self.of_path(branch.request.path)[0].request.target)

    def full_label(self, branch: Branch) -> str:
        """With its model's name, where several are open."""
        label, choice = self.label(branch), self.choice(branch.request.path)
        return f"{choice.label}: {label}" if len(self.open_paths) > 1 and choice else label


def name_of_data(names: Sequence[str]) -> str:
    """`eval.npz`, `x.npz and labels.txt`, `12 files, the first cat.png`."""
    if len(names) > MAX_NAMED_FILES:
        return f"{len(names)} files, the first {names[0]}"
    return " and ".join(names)
