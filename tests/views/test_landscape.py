"""The landscape of a search for tiles: text, picture, table, and the pane."""

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.app.view_files import view_file
from explorer.results import Knob, Trace
from explorer.views.catalog import landscape
from explorer.views.catalog.landscape import _ticks
from explorer.views.renderers.text import text_of
from explorer.views.specification import Beside, ChartSpec, Dot, Line, Section, TableSpec


@pytest.fixture(scope="module")
def simulated(trace: Trace, synthetic: ModuleType) -> Trace:
    return synthetic.with_counts(trace)


def with_searches(trace: Trace, *searches: Any) -> Trace:
    profile = trace.profile
    assert profile is not None and profile.counted is not None
    counted = replace(profile.counted, searches=searches)
    return replace(trace, profile=replace(profile, counted=counted))


def test_text_has_a_row_for_each_layer_and_the_way_of_the_longest(simulated: Trace):
    text = text_of(landscape.landscape(simulated), 100)
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if "conv_" in line}
    assert simulated.profile is not None and simulated.profile.counted is not None
    layers = simulated.profile.counted.layers
    (among,) = (str(layer.cycles) for layer in layers if layer.operation == "conv_1")
    assert among != "230"  # of the layer by itself
    assert rows["conv_1"] == ["90", "3", "230", among, "180", "22", "%", "500", "ms"]
    assert "point 1: 400 cycles" in text and "at least 180 in any tiles" in text


def test_the_chart_joins_the_best_so_far_above_the_bound(simulated: Trace):
    first = landscape.landscape(simulated).parts[0].rows[0].details[0]  # pyright: ignore
    assert isinstance(first, Beside)
    over_order, over_bytes = first.parts
    assert isinstance(over_order, ChartSpec) and isinstance(over_bytes, ChartSpec)
    dots = {mark.id: mark for mark in over_order.marks if isinstance(mark, Dot)}
    assert list(dots)[-1] == "conv_1 point 2" and dots["conv_1 point 2"].shape == "diamond"
    assert [dots[f"conv_1 point {n}"].shape for n in (1, 3, 4)] == ["square", "square", "circle"]
    lines = [mark for mark in over_order.marks if isinstance(mark, Line)]
    (path,) = (line.points for line in lines if line.role == "accent")
    spots = [(dots[f"conv_1 point {n}"].x, dots[f"conv_1 point {n}"].y) for n in (1, 2, 3)]
    (x1, y1), (x2, y2), (x3, _) = spots
    assert path == ((x1, y1), (x2, y1), (x2, y2), (x3, y2))
    (floor,) = (line.points for line in lines if line.is_dashed)
    assert all(floor[0][1] >= dot.y for dot in dots.values())
    assert len([mark for mark in over_bytes.marks if isinstance(mark, Dot)]) == 3


def test_files_have_the_picture_and_every_point(simulated: Trace):
    drawn = view_file(landscape.VIEW, simulated, -1, "svg").decode()
    assert drawn.startswith("<svg") and "at least 180" in drawn
    data = view_file(landscape.VIEW, simulated, -1, "csv").decode()
    assert "conv_1,4,estimated,260,180,,rows=4 order=outputs" in data
    assert "conv_1,2,found,230,180,200,rows=2 order=outputs" in data


def test_without_a_search_it_says_why(simulated: Trace):
    text = text_of(landscape.landscape(with_searches(simulated)), 100)
    assert "Nothing was searched" in text


def test_one_point_at_its_bound_is_drawn(simulated: Trace):
    assert simulated.profile is not None and simulated.profile.counted is not None
    one = simulated.profile.counted.searches[1]
    point = replace(one.points[0], cycles=1, bound=1, bytes=0)
    found = with_searches(simulated, replace(one, points=(point,), cycles=1, bound=1, gap=0.0))
    assert "<svg" in view_file(landscape.VIEW, found, -1, "svg").decode()


@pytest.mark.parametrize("low", [0.95, 6000.0, 24000.0, 1e8])
@pytest.mark.parametrize("ratio", [1.1, 1.6, 4.0, 100.0])
def test_ticks_are_few_and_inside(low: float, ratio: float):
    found = _ticks(low, low * ratio)
    assert len(found) <= 8 and all(low <= tick <= low * ratio for tick in found)


@pytest.mark.browser
def test_a_chosen_layer_shows_its_picture(opened: Any, simulated: Trace):
    watched = opened(simulated, link="pass=8&dock=landscape")
    page = watched.page
    with watched.step("the longest one first, then another"):
        picture = page.get_by_role("img", name="cycles of conv_3, in the order of the search")
        expect(picture).to_be_visible()
        page.locator('.dock tr[data-of="conv_1"]').first.click()
        expect(page.get_by_role("img", name="cycles of conv_1", exact=False)).to_have_count(2)
        expect(page.get_by_text("86 more points")).to_be_visible()


def test_tiles_are_decided_where_the_last_pass_chose_them(simulated: Trace):
    addresses = ("tile-layers/conv_1/rows", "combine-layers/conv_1/rows", "unfold-inputs/x/y")
    knobs = tuple(Knob(address, 1, (1, 2), "") for address in addresses)
    *_, points = landscape.landscape(replace(simulated, knobs=knobs)).parts
    assert isinstance(points, Section)
    (table,) = points.parts
    assert isinstance(table, TableSpec)
    actions = [row.action for row in table.rows if row.cells["of"] == "conv_1"]
    assert {action.replaces for action in actions if action} == {"combine-layers/conv_1/"}
