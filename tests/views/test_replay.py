"""Rewrites one by one: the states between them are exact, and lines say what differs in them."""

from itertools import pairwise
from types import SimpleNamespace

import pytest

import explorer as ex
from explorer.results import Trace
from explorer.views.model_step import with_model_step
from explorer.views.page import export_page
from explorer.views.payload import replay as payload
from explorer.views.replay.lines import Row, function_lines, line_difference, paired
from explorer.views.replay.marks import marks
from explorer.views.replay.states import Replay
from explorer.views.trace_payload import encode, trace_payload


def marked(before: str, after: str) -> tuple[list[str], list[str]]:
    gone, new = marks(before, after)
    return [before[a:b] for a, b in gone], [after[a:b] for a, b in new]


def test_an_attribute_that_came_is_marked_and_nothing_else():
    before = "%conv4 = top.conv(%x, %w) {dilations = (1, 1), group = 1} : 1x16x8x8 f32"
    after = before.replace("{", "{activation = relu, ")
    assert marked(before, after) == ([], ["activation = relu, "])
    assert marked(after, before) == (["activation = relu, "], [])


def test_a_name_differs_as_a_whole():
    assert marked("relu(%conv1)", "relu(%conv12)") == (["%conv1"], ["%conv12"])


def test_lines_that_have_nothing_in_common_have_no_marks():
    assert marked("alpha beta gamma", "1 2 3 4 5 6") == ([], [])
    assert marked("same", "same") == ([], [])


def test_what_is_the_same_operation_stands_beside_each_other():
    gone = [("relu1", "%relu1 = top.unary(%conv4)"), ("conv4", "%conv4 = top.conv(%x, %w1)")]
    new = [("conv7", "%conv7 = top.conv(%x, %w1)")]
    assert list(paired(gone, new)) == [(gone[0], None), (gone[1], new[0])]
    assert list(paired([], new)) == [(None, new[0])]


def test_equal_lines_are_folded_but_for_those_near_a_difference():
    before = [f"line {i}" for i in range(10)]
    after = [*before[:5], "new", *before[6:]]
    assert list(line_difference(before, after)) == [
        Row("fold", count=3),
        Row("", "line 3", "line 3"),
        Row("", "line 4", "line 4"),
        Row("changed", "line 5", "new"),
        Row("", "line 6", "line 6"),
        Row("", "line 7", "line 7"),
        Row("fold", count=2),
    ]


def test_a_function_is_cut_out_by_its_brackets():
    lines = ["module {", "  func.func @a() {", "    x", "  }", "  func.func @ab() {", "  }", "}"]
    assert function_lines(lines, "a") == ["func.func @a() {", "  x", "}"]
    assert function_lines(lines, "b") == []


@pytest.fixture(scope="module")
def compiled(sample_models) -> Trace:
    return with_model_step(ex.compile(sample_models / "digits_cnn.onnx").trace(with_code=False))


def identities(trace: Trace, index: int) -> set[str]:
    """Operations that have a line after a pass, calls of functions left out."""
    text = trace.snapshots[index].text
    return {
        name
        for line, owners in zip(text.lines, text.owners, strict=True)
        if (name := line.partition(" = ")[0].strip().removeprefix("%").partition(":")[0]) in owners
        and "func.call" not in line
    }


def test_replaying_all_rewrites_of_a_pass_gives_the_program_after_it(compiled: Trace):
    films = 0
    for index in range(1, len(compiled.passes)):
        replay = Replay(compiled, index)
        assert len(replay[:]) == len(compiled.passes[index].events)
        replayed = {name for name, line in replay.lines.items() if "func.call" not in line}
        assert replayed == identities(compiled, index), compiled.passes[index].name
        films += bool(replay)
    assert films > 8


def test_each_state_is_the_one_before_with_one_rewrite(compiled: Trace):
    index = next(i for i, p in enumerate(compiled.passes) if len(p.rules) and p.name != "import")
    replay, states = Replay(compiled, index), []
    for number in range(len(replay)):
        frame = replay[number]
        states.append(dict(replay.lines))
        for identity, _ in frame.event.delta.removed:
            if identity not in dict(frame.event.delta.added):
                assert identity not in replay.lines
        for identity, text in frame.event.delta.added:
            assert replay.lines[identity] == f"%{identity} = {text}"
    for (before, after), event in zip(
        pairwise(states), compiled.passes[index].events[1:], strict=True
    ):
        delta = event.delta
        touched = {n for n, *_ in (*delta.removed, *delta.added, *delta.changed)}
        assert {n for n in {*before, *after} if before.get(n) != after.get(n)} <= touched


def test_a_picture_shows_the_new_operation_with_what_it_reads_and_feeds(compiled: Trace):
    index = [record.name for record in compiled.passes].index("lower-to-kernels")
    for frame in Replay(compiled, index)[:4]:
        (made,) = frame.event.produced
        known = {node.id: node for node in frame.after.nodes}
        assert known[made].operation == "kernel.launch"
        assert any(made in (edge.source, edge.target) for edge in frame.after.edges)


def test_a_kernel_is_shown_as_its_lines_before_and_after(compiled: Trace):
    index = [record.name for record in compiled.passes].index("lower-to-loops")
    rows = Replay(compiled, index)[0].rows
    assert any("linalg.generic" in (row.before or "") for row in rows)
    assert any("affine.for" in (row.after or "") for row in rows)


def test_frames_travel_in_pages_that_fit_a_message(compiled: Trace):
    chunks = trace_payload(compiled)
    index = max(range(len(compiled.passes)), key=lambda i: len(compiled.passes[i].events))
    count = len(compiled.passes[index].events)
    pages = [
        chunks.chunk(key)["frames"]
        for key in chunks.chunk_keys()
        if key.startswith(f"film/{index}/") and not key.endswith("all")
    ]
    assert sum(map(len, pages)) == count and max(map(len, pages)) == payload.FRAMES_PER_PAGE
    assert all(len(encode(page)) < 400_000 for page in pages)
    assert len(chunks.chunk("rewrites")["rows"]) == sum(len(p.events) for p in compiled.passes)


def test_a_saved_page_holds_the_first_frames_of_every_pass(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(payload, "MAX_FRAMES_SAVED", 3 * payload.FRAMES_PER_PAGE)
    keys = ["index", "film/1/0", "film/1/1", "film/1/all", "film/2/0", "film/2/1", "film/2/2"]
    assert payload.saved_keys(keys) == ["index", "film/1/0", "film/1/1", "film/1/all", "film/2/0"]


@pytest.mark.browser
def test_the_film_is_narrowed_and_stepped_through(watched: SimpleNamespace, trace: Trace, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(export_page(trace), encoding="utf-8")
    page = watched.page
    page.goto(path.as_uri())
    page.wait_for_selector(".node")
    page.keyboard.press("w")
    page.wait_for_selector(".replay .replay-event")
    count = sum(len(record.events) for record in trace.passes)
    assert page.locator(".replay-event").count() == count
    page.get_by_label("outcome").select_option("declined")
    declined = sum(not event.applied for record in trace.passes for event in record.events)
    assert page.locator(".replay-event").count() == declined
    page.get_by_label("outcome").select_option("")
    page.get_by_label("text in rewrites").fill("activation")
    shown = page.locator(".replay-event").first
    shown.click()
    page.wait_for_selector('.replay-event[aria-current="true"]')
    page.wait_for_selector(".replay-picture .node.mark-changed, .replay-picture .node.mark-removed")
    page.wait_for_selector(".rows.beside mark")
    watched.wait_until(
        "document.querySelector('.replay-position').textContent.startsWith('rewrite 1')"
    )
    before = page.locator(".replay-position").inner_text()
    page.keyboard.press("Escape")  # out of the rewrite: the pass as a whole
    watched.wait_until("document.querySelector('.replay-position').textContent.includes('whole')")
    page.locator(".replay-bar input[type=range]").press("ArrowRight")
    watched.wait_until(f"document.querySelector('.replay-position').textContent === {before!r}")
    page.locator(".replay-bar button", has_text="side by side").click()
    page.wait_for_selector(".rows.unified mark")
    assert watched.is_clean(), watched
