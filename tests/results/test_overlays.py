"""Own numbers on the graph: from mappings and files, and names that nothing has."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from explorer.errors import InputError
from explorer.results import Trace
from explorer.results.overlays import OverlayColumn
from explorer.results.runs.quantization import Saturation
from explorer.traces.overlays import operations_of, read_overlay
from explorer.views.static.overlay import overlay_html, overlay_text
from explorer.views.trace_payload import trace_payload


@pytest.fixture(scope="module")
def trace(module_of_tests: Callable[[str], ModuleType]) -> Trace:
    return module_of_tests("views/synthetic.py").make_trace()


def column(title: str, **values: float) -> OverlayColumn:
    return OverlayColumn(title=title, values=tuple(values.items()))


def test_a_mapping_is_one_column_or_several(trace: Trace):
    assert read_overlay({"conv_1": 3}, trace).columns == (column("own numbers", conv_1=3.0),)
    several = read_overlay({"power": {"conv_1": 3.5}, "heat": {"relu_1": 60}}, trace)
    assert several.columns == (column("power", conv_1=3.5), column("heat", relu_1=60.0))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("power.csv", "# measured\nname,power\nconv_1,3.5\nrelu_1,1e-1\n"),
        ("power.csv", "conv_1;3.5\nrelu_1;0.1\n"),
        ("power.tsv", '"conv_1"\t3.5\nrelu_1\t0.1\n'),
        ("power.json", json.dumps({"conv_1": 3.5, "relu_1": 0.1})),
        ("any.json", json.dumps({"power": {"conv_1": 3.5, "relu_1": 0.1}})),
        (
            "any.json",
            json.dumps([{"name": "conv_1", "power": 3.5}, {"name": "relu_1", "power": 0.1}]),
        ),
    ],
)  # fmt: skip
def test_a_file_is_read_in_every_form(tmp_path: Path, trace: Trace, name: str, text: str):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    overlay = read_overlay(path, trace)
    assert overlay.title == name
    assert overlay.columns == (column("power", conv_1=3.5, relu_1=0.1),)


def test_a_name_that_nothing_has_is_told_with_the_nearest(tmp_path: Path, trace: Trace):
    path = tmp_path / "power.csv"
    path.write_text("conv_1,1\nconv_l2,2\nx,3\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_overlay(path, trace)
    assert str(caught.value) == (
        "no operation and no node of the model has the name 'conv_l2', nor have 1 others; "
        "where: file power.csv; try: did you mean 'conv_2'?"
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"conv_1": "much"}, "'much' is no number; where: node conv_1"),
        ({"conv_1": float("nan")}, "nan is no number"),
        ({"power": {"conv_1": 1}, "heat": 3}, "'heat' is neither a number nor a table"),
        ({}, "own numbers holds no numbers"),
        ("missing.csv", "numbers cannot be read"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_says_so(trace: Trace, given: object, words: str):
    with pytest.raises(InputError) as caught:
        read_overlay(given, trace)  # pyright: ignore[reportArgumentType]
    assert words in str(caught.value)


def test_numbers_of_source_nodes_stand_at_what_became_of_them(trace: Trace):
    names = [record.name for record in trace.passes]
    overlay = read_overlay({"Conv_0": 2.0, "BatchNormalization_1": 0.5}, trace)
    assert operations_of(overlay, trace, 0) == {"conv_1": 2.0, "norm_1": 0.5}
    after = operations_of(overlay, trace, names.index("fold-batch-norm"))
    assert list(after.values()) == [2.5]


def test_the_picture_and_the_text_name_the_highest(trace: Trace):
    values = {"conv_1": 3.5, "relu_1": 0.1}
    assert overlay_text("power", values).splitlines() == [
        "power: 2 operations with a number, from 0.1 to 3.5",
        "  conv_1  3.5",
        "  relu_1  0.1",
    ]
    html = overlay_html(trace.snapshots[0].graph, "<b>power", values)
    assert "&lt;b&gt;power" in html
    assert "<b>" not in html


def test_the_page_gets_the_numbers_and_opens_with_them(trace: Trace):
    payload = trace_payload(trace, overlay=read_overlay({"conv_1": 3}, trace))
    assert payload.head["overlay"]
    chunk = payload.chunk("overlay")
    assert [c["title"] for c in chunk["columns"]] == ["own numbers"]
    assert "overlay" not in trace_payload(trace).head


@pytest.mark.parametrize(("clipped", "total", "share"), [(0, 0, 0), (1, 1, 1), (1, 4, 0.25)])
def test_a_share_of_no_numbers_is_zero(clipped: int, total: int, share: float):
    assert Saturation(tensor="x", operation="o", clipped=clipped, total=total).share == share
