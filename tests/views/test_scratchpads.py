"""Scratchpads over the whole program: results that stay, buffers of layers, and groups."""

from dataclasses import replace

import pytest

import explorer
from explorer.results import Trace
from explorer.views.catalog.scratchpads import LOOKS, scratchpads
from explorer.views.renderers.text import text_of
from explorer.views.specification import ChartSpec, Label, Line, Rect, TableSpec
from tests.backends.npu.chains import chain


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    path, table, _ = chain(tmp_path_factory.mktemp("chain"), seed=3, channels=16, count=2)
    c = explorer.compile(path, target="edge-64", quantization=table)
    c.profile()
    return c.trace()


def charts_and_table(trace: Trace) -> tuple[list[ChartSpec], TableSpec]:
    *charts, table = scratchpads(trace).parts
    assert isinstance(table, TableSpec)
    assert all(isinstance(one, ChartSpec) for one in charts)
    return [one for one in charts if isinstance(one, ChartSpec)], table


def test_each_result_that_stays_has_a_row_and_a_rectangle_until_its_last_reader(counted: Trace):
    assert counted.profile is not None and counted.profile.counted is not None
    run = counted.profile.counted
    charts, table = charts_and_table(counted)
    layers = {layer.operation: layer for layer in run.layers}
    kept = [layer.operation for layer in run.layers if layer.kept_bytes]
    assert kept and [row.cells["layer"] for row in table.rows] == kept
    drawn = [mark for mark in charts[0].marks if isinstance(mark, Rect)]
    for row in table.rows:
        name = str(row.cells["layer"])
        readers = [layers[reader] for reader in row.operations[1:]]
        assert readers, "a result that nobody reads would not stay"
        assert row.cells["end"] == max(one.last_cycle for one in (layers[name], *readers))
        assert row.cells["bytes"] == layers[name].kept_bytes
        wide = [mark for mark in drawn if mark.id == name and "read by" in mark.title]
        assert len(wide) == 1 and wide[0].role == f"{LOOKS['result'].name}-fill"


def test_rectangles_lie_inside_of_the_scratchpad_and_of_the_run(counted: Trace):
    charts, _ = charts_and_table(counted)
    for chart in charts:
        (base, top) = (mark for mark in chart.marks if isinstance(mark, Line) and mark.width == 1)
        (left, bottom), (right, _) = base.points
        for mark in chart.marks:
            if isinstance(mark, Rect):
                assert mark.x >= left and mark.x + mark.width <= right + 1.1
                assert mark.y >= top.points[0][1] - 1.1 and mark.y + mark.height <= bottom + 1.1


def test_groups_stand_above_their_layers(counted: Trace):
    assert counted.profile is not None and counted.profile.counted is not None
    charts, _ = charts_and_table(counted)
    several = [group for group in counted.profile.counted.groups if len(group) > 1]
    words = [mark.text for mark in charts[0].marks if isinstance(mark, Label)]
    named = [text for text in words if text.startswith("group")]
    assert named == [f"group {n}: {len(group)} layers" for n, group in enumerate(several, 1)]


def test_a_program_of_which_nothing_stays_is_described_in_words(counted: Trace):
    profile = counted.profile
    assert profile is not None and profile.counted is not None
    layers = tuple(replace(layer, kept_bytes=0) for layer in profile.counted.layers)
    run = replace(profile.counted, layers=layers, groups=())
    bare = replace(counted, profile=replace(profile, counted=run))
    _, table = charts_and_table(bare)
    assert not table.rows
    assert "Every result goes to global memory" in text_of(scratchpads(bare), 100)
    empty = replace(run, layers=(), cycles=0)
    nothing = replace(counted, profile=replace(profile, counted=empty))
    assert "Every result" in text_of(scratchpads(nothing), 100)
