"""One page's state: what is open, what a worker is asked for, and what stays when it fails."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from explorer.app import effects as module
from explorer.app.branches import ResultStore
from explorer.app.catalog import Choice, choices_of, first_request, offered_files
from explorer.app.effects import Page
from explorer.app.protocol import (
    STAGES,
    CompileRequest,
    Died,
    DrawnTrace,
    Failure,
    Progressed,
    SearchProgress,
    Stopped,
    stages_of,
    two_files_key,
)
from explorer.app.searches import SearchOrder
from explorer.app.server.serving import opening_link
from explorer.app.state.opening import MAX_OPEN
from explorer.app.state.page_json import searches_json
from explorer.app.state.page_state import PageState
from explorer.app.uploads import Uploads
from explorer.app.worker.process import NOBODY
from explorer.errors import InputError

HEAD = {
    "label": "",
    "target": "cpu",
    "model": {"name": "net"},
    "summary": {"verdict": "not-run"},
    "passes": [{"name": "import", "after": 3}],
    "has": {"profile": False},
}
NO_SETTINGS: dict[str, Any] = {
    "target": "cpu", "disable": [], "decisions": {}, "budget": None, "pins": [], "order": [],
}  # fmt: skip


class FakeWorker:
    """Notes what it is asked for; the test reports in its name."""

    def __init__(self) -> None:
        self.is_alive = True
        self.asked: dict[int, CompileRequest] = {}
        self.prepared: list[CompileRequest] = []
        self.cancelled: list[int] = []
        self.forgotten: list[int] = []
        self.needed: list[tuple[int, str, bool]] = []

    def adopt(self, report: Callable[[int, Any], None]) -> None:
        self.report = report

    def compile(self, key: int, request: CompileRequest) -> None:
        self.asked[key] = request

    bisect = compile

    def has(self, key: int) -> bool:
        return key in self.asked

    def need(self, key: int, chunk: str, is_to_come: bool = False) -> None:
        self.needed.append((key, chunk, is_to_come))

    def read(self, request: CompileRequest) -> DrawnTrace | None:
        return None

    def search(self, key: int, request: CompileRequest, order: SearchOrder) -> None:
        self.asked[key] = request
        self.searched = order

    def turns(self, key: int, request: CompileRequest, others: Sequence[CompileRequest]) -> None:
        self.asked[key] = request
        self.timed = (request, *others)

    def prepare(self, request: CompileRequest) -> None:
        self.prepared.append(request)

    def cancel(self, key: int, request: CompileRequest) -> None:
        self.cancelled.append(key)

    def forget(self, key: int, request: CompileRequest) -> None:
        self.forgotten.append(key)

    def end(self) -> None:
        self.is_alive = False

    def finish(self, key: int, count: int = len(STAGES)) -> None:
        """The first stages of what was asked for are there."""
        stages = stages_of(self.asked[key])[:count]
        self.report(key, DrawnTrace(HEAD, {"index": "{}"}, ("fuse",), stages))


class Visit:
    """A page on two models and a trace, with all workers that it took."""

    def __init__(
        self, folder: Path, results: ResultStore, name: str = "page", opening: object = None
    ) -> None:
        self.workers: list[FakeWorker] = []
        self.published: list[Any] = []
        for file in ("a.onnx", "b.onnx", "run.nnx"):
            (folder / file).write_bytes(b"")
        uploads = folder / name
        uploads.mkdir()
        files = [folder / file for file in ("a.onnx", "b.onnx", "run.nnx")]
        choices = choices_of(files)
        self.page = Page(
            PageState(choices, ("cpu", "opencl"), "cpu", first_request(choices[0], "cpu")),
            self._take,  # pyright: ignore[reportArgumentType]  (a stand-in)
            results,
            Uploads(uploads),
            self.published.append,
            opening=opening,
        )

    def _take(self, _request: CompileRequest) -> FakeWorker:
        self.workers.append(FakeWorker())
        return self.workers[-1]

    @property
    def worker(self) -> FakeWorker:
        return self.workers[-1]

    @property
    def state(self) -> Any:
        return self.page.state

    def say(self, kind: str, **values: Any) -> None:
        self.page.handle({"kind": kind, **values})

    def fork(self, **changes: Any) -> None:
        self.say("fork", settings={**NO_SETTINGS, **changes})

    def labels(self) -> list[str]:
        return [self.state.full_label(branch) for branch in self.state.branches]


@pytest.fixture
def page(tmp_path: Path) -> Visit:
    visit = Visit(tmp_path, ResultStore())
    visit.page.begin()
    visit.worker.finish(1)
    return visit


def test_a_page_without_a_link_opens_what_it_was_served_with(tmp_path: Path):
    link = {"model": "b.onnx", "settings": {"target": "cpu", "decisions": {"fuse-bias": False}}}
    page = Visit(tmp_path, ResultStore(), opening=link)
    page.page.begin()
    page.worker.finish(1)
    asked = list(page.worker.asked.values())
    assert [request.values for request in asked] == [{}, {"fuse-bias": False}]
    assert {Path(request.path).name for request in asked} == {"b.onnx"}


def test_decisions_are_of_a_model_and_not_of_a_trace(tmp_path: Path):
    for name in ("a.onnx", "run.nnx"):
        (tmp_path / name).write_bytes(b"")
    model, trace = choices_of([tmp_path / "a.onnx", tmp_path / "run.nnx"])
    decided = {"fuse-bias": False}
    settings = {"target": "cpu", "decisions": decided}
    assert opening_link(model, "cpu", decided) == {"model": "a.onnx", "settings": settings}
    with pytest.raises(InputError, match="as it was decided"):
        opening_link(trace, "cpu", decided)
    with pytest.raises(InputError, match="takes no decisions"):
        opening_link(model, "cpu", {"fuse-bias": {"a": 1}})


def test_the_first_model_is_opened_once(page: Visit):
    page.page.begin()
    assert list(page.worker.asked) == [1]
    assert page.state.current == "1"
    assert page.state.status == "idle"


def test_models_and_traces_are_open_beside_each_other(page: Visit):
    page.say("open", model="1")
    page.worker.finish(2)
    page.say("open", model="2")
    page.worker.finish(3)
    assert page.labels() == ["a.onnx: first", "b.onnx: first", "run.nnx: as saved"]
    assert page.state.branch.request == CompileRequest(str(page.state.choices[2].path), "")
    assert page.state.branch.pending == []
    page.say("open", model="0")
    assert page.state.current == "1"
    assert len(page.worker.asked) == 3


def test_a_model_is_looked_at_again_as_it_was_left(page: Visit):
    page.fork(disable=["fuse"])
    page.worker.finish(2)
    page.say("open", model="1")
    page.worker.finish(3)
    page.say("open", model="0")
    assert page.state.label(page.state.branch) == "without fuse"


def test_closing_a_model_drops_its_branches_and_shows_another(page: Visit):
    page.fork(disable=["fuse"])
    page.worker.finish(2)
    page.say("open", model="1")
    page.worker.finish(3)
    page.say("close", model="0")
    assert page.labels() == ["first"]
    assert set(page.worker.forgotten) == {1, 2}
    page.say("close", model="1")
    assert page.state.current == ""
    assert page.state.branch is None
    page.say("open", model="1")  # what is known of it is still there
    assert page.labels() == ["first"]


def test_levers_of_what_was_known_already_are_found_in_a_compilation(page: Visit):
    page.say("close", model="0")
    page.say("open", model="0")
    key = int(page.state.current)
    assert key not in page.worker.asked
    for chunk in ("text/0", "levers/peak_bytes", "levers/seconds"):
        page.page.later._ask(page.state.branch, chunk)
    assert page.worker.needed == [
        (key, "text/0", False),
        (key, "levers/peak_bytes", True),
        (key, "levers/seconds", False),
    ]
    assert page.worker.asked[key] == page.state.branch.request


def test_the_models_of_two_branches_are_compared_on_the_data_that_they_have(page: Visit):
    page.say("open", model="1")
    page.worker.finish(2, 1)
    first, other = page.state.branches
    choices = [page.state.choice(side.request.path) for side in (first, other)]
    files = [choice.label for choice in choices if choice]
    branch, chunk = page.page.two_files(["1", "2"])
    assert branch is first
    assert chunk == two_files_key((first.request, other.request), files)
    measured = replace(other.request, data=("eval.npz",))
    assert chunk != two_files_key((first.request, measured), files)
    for keys in (["1"], ["1", "9"], ["1", "2", "1"], [""]):
        with pytest.raises(ValueError, match="not there any more"):
            page.page.two_files(keys)
    page.say("open", model="2")
    page.worker.finish(3, 1)
    with pytest.raises(ValueError, match="a saved trace holds no model"):
        page.page.two_files(["1", "3"])


def test_at_most_so_many_models_are_open(page: Visit):
    more = tuple(Choice(f"m{i}", f"m{i}.onnx", f"/m{i}.onnx") for i in range(MAX_OPEN))
    page.page.state = replace(page.state, choices=(*page.state.choices, *more))
    for number in range(MAX_OPEN):
        page.say("open", model=f"m{number}")
        page.worker.finish(max(page.worker.asked))
    assert len(page.state.branches) == MAX_OPEN
    assert page.state.status == "failed"
    assert page.state.error.what == "too many models are open"


def test_a_trace_is_never_compiled(page: Visit):
    page.say("open", model="2")
    page.worker.finish(2)
    asked = dict(page.worker.asked)
    page.fork(disable=["fuse"])
    page.say("bisect")
    assert page.worker.asked == asked
    assert page.state.error.what == "a saved trace cannot be compiled again"
    assert "open the model's file" in page.state.error.where


def test_a_cancelled_compilation_leaves_the_worker_with_the_rest(page: Visit):
    page.fork(disable=["fuse"])
    page.worker.report(2, Progressed("fuse", 1, 3))
    page.say("cancel")
    assert (page.state.status, page.worker.cancelled) == ("idle", [2])
    page.worker.report(2, Stopped())
    page.worker.report(2, Progressed("fuse", 2, 3))
    assert page.state.progress is None
    assert len(page.workers) == 1
    assert page.state.wanted == page.state.branch.request


def test_a_worker_that_does_not_hear_is_replaced(page: Visit, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "CANCEL_SECONDS", 0.01)
    page.fork(disable=["fuse"])
    page.worker.finish(2, count=1)
    page.fork(disable=["fuse", "fold"])
    deaf = page.worker
    page.say("cancel")
    (timer,) = page.page._timers.values()
    timer.join(5)
    assert not deaf.is_alive
    assert len(page.workers) == 2
    # The new one makes what is missing of branches, and is ready for forks of what is shown.
    assert page.worker.asked == {2: page.state.branches[1].request}
    assert [b.key for b in page.state.branches] == ["1", "2"]


def test_a_worker_that_dies_leaves_all_branches(page: Visit):
    page.fork(disable=["fuse"])
    page.worker.is_alive = False
    page.worker.report(NOBODY, Died({2: Failure("it died", "a.onnx for cpu", "Try again.")}))
    assert page.labels() == ["first"]
    assert (page.state.status, page.state.error.what) == ("failed", "it died")
    assert len(page.workers) == 2
    assert page.worker.prepared == [page.state.branches[0].request]
    page.say("retry")
    path = page.state.choices[0].path
    assert page.worker.asked == {3: CompileRequest.deciding(path, "cpu", {"fuse": False})}


def test_stages_that_failed_are_tried_again(page: Visit):
    page.say("open", model="1")
    page.worker.finish(2, count=4)
    lost = Failure("the device is gone", "b.onnx for cpu", "Try: plug it in", "profile")
    page.worker.report(2, lost)
    assert page.state.branch.pending == ["assembly", "texts"]
    page.worker.asked.clear()
    page.say("retry")
    assert page.worker.asked == {2: page.state.branch.request}
    assert page.state.branch.pending == ["profile", "assembly", "texts"]


SEARCH: dict[str, Any] = {"kernel": "conv_1", "candidates": 8, "seconds": 5, "keep": False}
FOUND = {"kernel": "conv_1", "candidates": [{"choices": [["pixels", 4]]}]}


def test_a_search_tells_what_it_knows_and_applies_to_forks_of_schedules_alone(page: Visit):
    page.say("search", **SEARCH)
    key = max(page.worker.asked)
    assert page.worker.searched == SearchOrder("conv_1", 8, 5.0, False)
    page.worker.report(key, SearchProgress(number=2, most=8))
    page.worker.report(key, SearchProgress(result=FOUND))
    (found,) = searches_json(page.state)
    assert (found["status"], found["number"], found["most"]) == ("running", 2, 8)
    assert found["result"] == FOUND
    page.worker.report(key, SearchProgress("done", result=FOUND))
    page.fork(decisions={"schedule-loops/conv_1/pixels": 4})
    page.worker.finish(max(page.worker.asked), 1)
    page.fork(disable=["fuse"])
    page.worker.finish(max(page.worker.asked), 1)
    (found,) = searches_json(page.state)
    assert found["status"] == "done"
    assert found["branches"] == [branch.key for branch in page.state.branches[:2]]


def test_one_kernel_is_searched_at_a_time_and_cancelling_asks_the_worker(page: Visit):
    page.say("search", **SEARCH)
    key = max(page.worker.asked)
    page.say("search", **{**SEARCH, "kernel": "conv_2"})
    assert max(page.worker.asked) == key
    page.say("cancel search")
    assert page.worker.cancelled == [key]
    page.worker.report(key, SearchProgress("cancelled"))
    page.say("search", **{**SEARCH, "kernel": "conv_2"})
    assert max(page.worker.asked) > key


@pytest.mark.parametrize(
    "change",
    [{"kernel": ""}, {"kernel": 3}, {"candidates": 1}, {"candidates": 10_000}, {"seconds": True},
     {"seconds": 1e9}, {"keep": "yes"}, {"candidates": None}],
)  # fmt: skip
def test_what_is_no_search_has_no_effect(page: Visit, change: dict[str, Any]):
    page.say("search", **{**SEARCH, **change})
    assert searches_json(page.state) == []


def test_a_worker_that_dies_fails_its_search_and_keeps_what_was_found(page: Visit):
    page.say("search", **SEARCH)
    key = max(page.worker.asked)
    page.worker.report(key, SearchProgress(result=FOUND))
    page.worker.report(0, Died({key: Failure("it ended", "a.onnx", "again")}))
    (found,) = searches_json(page.state)
    assert (found["status"], found["error"]) == ("failed", "it ended")
    assert found["result"] == FOUND


def test_a_trace_is_not_searched(page: Visit):
    page.say("open", model="2")
    page.worker.finish(max(page.worker.asked), 1)
    page.say("search", **SEARCH)
    assert searches_json(page.state) == []


def test_an_upload_is_named_as_its_owner_named_it(page: Visit):
    page.say("upload", name="my net.onnx", part=0, parts=1, bytes="YQ==")
    (key,) = [k for k, r in page.worker.asked.items() if "upload_1" in r.path]
    path = page.worker.asked[key].path
    page.worker.report(key, Failure(f"cannot read {path}", "file upload_1.onnx", "Try: x"))
    assert page.state.error.what == "cannot read my net.onnx"
    assert page.state.error.where == "file my net.onnx"
    page.say("upload", name="my net.onnx", part=0, parts=1, bytes="YQ==")
    page.worker.finish(max(page.worker.asked))
    assert page.state.choices[-1].label == "my net.onnx (2)"
    assert page.state.branch.trace.head["model"]["name"] == "my net"
    page.say("close", model=page.state.choices[-1].key)
    closed = Path(path.replace("upload_1", "upload_2"))
    assert closed.exists()  # as long as closing it can be undone
    page.say("upload", name="other.onnx", part=0, parts=1, bytes="YQ==")
    assert not closed.exists()
    assert Path(path).exists()


def test_results_of_uploads_are_not_shared(tmp_path: Path):
    results = ResultStore()
    mine = Visit(tmp_path, results, "mine")
    mine.page.begin()
    mine.worker.finish(1)
    mine.say("upload", name="n.onnx", part=0, parts=1, bytes="YQ==")
    mine.worker.finish(2)
    uploaded = mine.state.branch.request
    assert results.get(uploaded) is None
    assert results.get(mine.state.branches[0].request) is not None


def test_what_another_page_compiled_is_shown_at_once(tmp_path: Path):
    results = ResultStore()
    first, second = Visit(tmp_path, results, "1"), Visit(tmp_path, results, "2")
    first.page.begin()
    first.worker.finish(1, count=2)
    second.page.begin()
    assert second.state.branch.trace.stages == STAGES[:2]
    # The rest is made by its own worker, and forks begin from there.
    assert second.worker.asked == {1: second.state.branch.request}


def test_a_result_is_not_kept_beyond_a_change_of_its_file(tmp_path: Path):
    path = tmp_path / "net.onnx"
    path.write_bytes(b"one")
    results, request = ResultStore(), CompileRequest(str(path), "cpu")
    results.put(request, DrawnTrace(HEAD, {}, (), STAGES))
    assert results.get(request) is not None
    path.write_bytes(b"another")
    assert results.get(request) is None


@pytest.mark.parametrize(
    ("link", "asked", "notice"),
    [
        (None, ("a.onnx", ()), ""),
        ({"model": "b.onnx"}, ("b.onnx", ()), ""),
        ({"model": "b.onnx", "settings": {**NO_SETTINGS, "disable": ["fuse"]}},
         ("b.onnx", ("fuse",)), ""),
        ({"model": "gone.onnx"}, ("a.onnx", ()), "'gone.onnx', which is not offered here"),
        ({"model": "b.onnx", "settings": "unreadable"}, ("b.onnx", ()), "could not be read"),
        ({"model": "b.onnx", "settings": {**NO_SETTINGS, "target": "npu"}},
         ("b.onnx", ()), "could not be read"),
        ({"model": ["a.onnx"]}, ("a.onnx", ()), ""),
        ("b.onnx", ("a.onnx", ()), ""),
    ],
)  # fmt: skip
def test_a_link_opens_its_model_with_its_decisions(
    tmp_path: Path, link: object, asked: tuple[str, tuple[str, ...]], notice: str
):
    page = Visit(tmp_path, ResultStore())
    page.page.begin(link)
    for key in list(page.worker.asked):
        page.worker.finish(key)
    for key in set(page.worker.asked) - {1}:
        page.worker.finish(key)
    request = page.state.branch.request
    assert (Path(request.path).name, request.disable) == asked
    assert notice in page.state.notice
    assert bool(notice) == bool(page.state.notice)


def test_a_link_to_a_model_works_where_a_trace_is_shown_first(tmp_path: Path):
    page = Visit(tmp_path, ResultStore())
    state = page.page.state
    trace = state.choices[2]
    page.page.state = replace(state, wanted=CompileRequest(trace.path, ""))
    page.page.begin({"model": "b.onnx"})
    assert page.worker.asked == {1: CompileRequest(state.choices[1].path, "cpu")}


def test_a_link_whose_decisions_fail_shows_what_they_start_from(tmp_path: Path):
    page = Visit(tmp_path, ResultStore())
    page.page.begin({"model": "b.onnx", "settings": {**NO_SETTINGS, "disable": ["gone"]}})
    page.worker.finish(1)
    assert page.state.current == ""
    page.worker.report(2, Failure("there is no pass 'gone'", "b.onnx for cpu", "Try: fuse"))
    assert page.state.current == "1"
    assert page.state.error.what == "there is no pass 'gone'"


def test_files_of_the_same_name_are_told_apart(tmp_path: Path):
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "net.onnx").write_bytes(b"")
    (tmp_path / "new" / "run.nnx").write_bytes(b"")
    files = offered_files([tmp_path / "old", tmp_path / "new", tmp_path / "new" / "run.nnx"])
    labels = [choice.label for choice in choices_of(files)]
    assert labels == ["old/net.onnx", "new/net.onnx", "run.nnx"]


def test_a_folder_without_models_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="no model in this folder"):
        offered_files([tmp_path])
    with pytest.raises(InputError, match="no such file"):
        offered_files([tmp_path / "none.onnx"])
