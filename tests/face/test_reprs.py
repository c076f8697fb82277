"""`repr`, `str` and HTML of every public object fit a screen, whatever the model's size."""

import re
from pathlib import Path
from typing import Any

import pytest

import explorer as ex
from explorer.quantization.table import Threshold, ThresholdTable
from explorer.reducing import Reduced
from explorer.results import Trace
from explorer.results.displayed import Displayed
from explorer.results.runs.sensitivity import MixedPoint, MixedPrecision, Quality
from explorer.results.runs.tuning import Candidate as Tried
from explorer.results.runs.tuning import KernelSearch, SearchResult
from explorer.traces.tables import table_of
from explorer.views.register import VIEWS, shown_views
from explorer.views.renderers.fitting import (
    MAX_LINES,
    cut,
    html_fits,
    text_fits,
    visible_text,
)
from explorer.views.view import Shown

MODEL = Path(__file__).parents[2] / "sample_models" / "digits_cnn.onnx"
NAME = "a_layer_with_a_long_name/" * 12


@pytest.fixture(scope="module")
def shown(tmp_path_factory) -> dict[str, Displayed]:
    """Public objects by their class, of a model that has more of all than a screen."""
    c = ex.compile(MODEL)
    accuracy = c.accuracy()
    fork = c.fork(disable=["fuse-activation"])
    saved = ex.open(c.save(tmp_path_factory.mktemp("saved") / "net.nnx"))
    objects = [
        c, saved, c["import"], saved["import"], c["import"].diff, c.compare(fork), accuracy,
        accuracy.report, c.memory, c.profile(repeats=1), c.program, c.program.source, c.final,
        c.final.graph, c.source, c.passes, c.kernels, c.knobs, c.trace(), c.target, c.model,
        max(c.kernels.values(), key=lambda kernel: len(kernel.source.lines)), c.costs()[0],
        ex.inspect(MODEL), ex.devices()[0], table_of(c.trace(), "events"), *many(),
    ]  # fmt: skip
    with ex.start(MODEL) as started, ex.Session(MODEL) as session:
        session.run(c.example_inputs())
        objects += [started, session, session.record()]
        yield {type(o).__name__: o for o in objects} | views(c.trace())
    c.close()


@pytest.fixture(scope="module")
def texts(shown) -> dict[str, str]:
    return {name: repr(found) for name, found in shown.items()}


def many() -> list[Displayed]:
    """Results of searches, with a hundred of whatever they hold."""
    tried = [Tried(choices=((f"{NAME}{i}", i),), predicted_us=1.0) for i in range(100)]
    search = KernelSearch(
        kernel=NAME,
        workload=NAME,
        target="cpu",
        device="",
        seed=0,
        default=0,
        chosen=1,
        candidates=tuple(tried),
        seconds=1.0,
        why=NAME,
    )
    quality = Quality(sqnr_db=30.0, differ=0)
    points = tuple(
        MixedPoint(modes={f"{NAME}{i}": "F32"}, cost=i, quality=quality) for i in range(100)
    )
    thresholds = {f"{NAME}{i}": Threshold(f"{NAME}{i}", 1.0, -1.0, 1.0) for i in range(100)}
    others = {f"{NAME}{i}": NAME for i in range(100)}
    candidate: Any = None  # a model, of which nothing is shown
    return [
        search,
        SearchResult(
            model=NAME, target="", device="", threads=1, seed=0, kernels=(search,) * 99, seconds=1.0
        ),
        MixedPrecision(
            model=NAME,
            wanted=NAME,
            examples=1,
            exact=quality,
            tensors=(),
            points=points,
            chosen=0,
            seconds=1.0,
        ),
        ThresholdTable(thresholds),
        Reduced(
            candidate=candidate, whole=candidate, kind=NAME, reason=NAME, others=others, trials=1
        ),
    ]


def views(trace: Trace) -> dict[str, Displayed]:
    """Every view that this compilation has."""
    return {
        f"view {view.name}": Shown(view=view, trace=trace, index=len(trace.passes) - 1)
        for view in shown_views(VIEWS)
        if view.missing(trace) is None
    }


def test_everything_that_is_shown_fits_a_screen(shown, texts):
    for name, found in shown.items():
        assert text_fits(texts[name]), name
        assert html_fits(found._repr_html_() or ""), name


def test_there_is_one_text_for_terminal_debugger_and_pytest(shown, texts):
    for name, found in shown.items():
        assert type(found).__str__ is Displayed.__str__, name
        assert type(found).__repr__ is Displayed.__repr__, name
        assert texts[name].strip() and "object at 0x" not in texts[name], name


def test_what_is_cut_names_the_method_that_has_all(shown, texts):
    cut = {name for name, text in texts.items() if ".to_text()" in text.splitlines()[-1]}
    assert cut > {"Snapshot", "view ir", "view report", "Comparison", "Knobs"}
    for name in cut:
        assert len(shown[name].to_text()) > len(texts[name]), name


def test_all_public_classes_are_shown(shown):
    """Those of the page of what is public."""
    page = (MODEL.parents[1] / "docs" / "public-interface.md").read_text(encoding="utf-8")
    for name in ("Compilation", "SavedCompilation", "Inspection", "PassResult", "SavedPass",
                 "Snapshot", "Comparison", "Accuracy", "Kernels", "Knobs", "Started", "Session",
                 "ThresholdTable", "MixedPrecision", "SearchResult", "Reduced", "DeviceRecord",
                 "SourceModel"):  # fmt: skip
        assert f"`{name}`" in page and name in shown


@pytest.mark.parametrize(
    "text",
    ["", "a", "a\n" * 39 + "a", "x" * 4000, "a\n" * 5000, "x" * 100_000, ("y" * 300 + "\n") * 60],
)
def test_a_cut_text_fits_and_begins_as_the_whole(text):
    found = cut(text)
    assert text_fits(found)
    assert found == text if text_fits(text) else found.startswith(text[:200].split("\n")[0])
    assert found.count("\n") < MAX_LINES


def test_a_closed_fold_is_not_visible():
    folded = "<table><tr><td>b</td></tr></table>"
    markup = f"<div>a</div><details x><summary>more</summary>{folded}</details>"
    assert visible_text(markup) == "a\nmore"


def test_passes_after_which_the_worst_tensor_is_the_same_are_one_row(shown):
    report = shown["AccuracyReport"]
    rows = [line for line in report.to_text().splitlines() if line.startswith("  ")]
    head = rows.index(next(row for row in rows if row.split() == ["pass", "worst", "at"]))
    table = " ".join(rows[head + 1 : head + 1 + len(report.passes)]).split("operation")[0]
    folded = [int(count) for count in re.findall(r"\((\d+)\s+passes\)", table)]
    assert folded and sum(folded) <= len(report.passes)
    assert report.passes[-1].name in table
    assert max(len(line) for line in report.to_text().splitlines()) <= 100
