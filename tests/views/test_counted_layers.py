"""Layers of a machine that counts cycles: under their roofs, and beside what was predicted."""

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.results import Trace
from explorer.results.graph import GraphEdge
from explorer.views.catalog.layers import layers
from explorer.views.renderers.text import text_of
from explorer.views.specification import TableSpec


@pytest.fixture(scope="module")
def simulated(trace: Trace, synthetic: ModuleType) -> Trace:
    return synthetic.with_counts(trace)


def test_text_has_predicted_and_simulated_cycles_side_by_side(simulated: Trace):
    lines = [line.split() for line in text_of(layers(simulated), 100).splitlines()]
    assert lines[0][:3] == ["600", "cycles", "on"] and "550" in lines[0]
    rows = {line[0]: line[3:] for line in lines[2:4]}
    # 1,600 of 16 x 200 and 16 x 400 multiply-accumulates; 200 and 100 cycles at the roof.
    assert rows["conv_1"] == ["200", "200", "50", "%", "160", "B", "100", "%", "matrix", "engine"]
    assert rows["conv_3"] == ["350", "400", "25", "%", "160", "B", "25", "%", "flash"]
    assert ["compute", "waits", "for", "token", "–", "300"] in lines


def test_text_counts_results_that_stay_on_the_chip(simulated: Trace):
    assert "kept" not in text_of(layers(simulated), 100).splitlines()[0]
    profile = simulated.profile
    assert profile is not None and profile.counted is not None
    first, *rest = profile.counted.layers
    counted = replace(profile.counted, layers=(replace(first, kept_bytes=64), *rest))
    kept = replace(simulated, profile=replace(profile, counted=counted))
    assert "1 result kept on the chip" in text_of(layers(kept), 200).splitlines()[0]


def test_groups_and_arranged_inputs_are_columns(simulated: Trace):
    """A view of the host next to a layer, one further away, and one that reaches none."""
    profile = simulated.profile
    assert profile is not None and profile.counted is not None
    one, other = (layer.operation for layer in profile.counted.layers[:2])
    counted = replace(profile.counted, groups=((one, other), ("alone",)))
    node = replace(simulated.snapshots[-1].graph.nodes[0], family="movement", operation="top.cast")
    views = [
        replace(node, id="u", operation="npu.unfold", label="unfold 2 x 3 by the host"),
        replace(node, id="p", operation="npu.permute", label="permute 1, 0 by the host"),
        replace(node, id="far", operation="npu.permute", label="not seen"),
        replace(node, id="cast"),
        replace(node, id="send", family="transfer"),
        *(replace(node, id=name, family="convolution") for name in (one, other)),
    ]
    pairs = [
        ("u", one),
        (one, other),
        (other, "cast"),
        ("cast", "p"),
        ("p", "send"),
        ("send", "far"),
    ]
    edges = tuple(GraphEdge(source=a, target=b, value=a, type="f32") for a, b in pairs)
    graph = replace(simulated.snapshots[-1].graph, nodes=tuple(views), edges=edges)
    last = replace(simulated.snapshots[-1], graph=graph)
    changed = replace(
        simulated,
        profile=replace(profile, counted=counted),
        snapshots=(*simulated.snapshots[:-1], last),
    )
    table = layers(changed).parts[0]
    assert isinstance(table, TableSpec)
    found = {row.operations[0]: row.cells for row in table.rows}
    assert (found[one]["group"].text, found[other]["group"].text) == ("1: 1 of 2", "1: 2 of 2")
    assert found[one]["group"].exact == f"{one}, {other}"
    assert found[one]["arranged"] == "unfold 2 x 3 by the host"
    assert found[other]["arranged"] == "permute 1, 0 by the host"
    plain = layers(simulated).parts[0]
    assert isinstance(plain, TableSpec)
    assert {row.cells["group"] for row in plain.rows} == {None}


@pytest.mark.browser
def test_layers_of_a_counted_run_are_shown_with_queues_buffers_and_tiles(
    opened: Any, simulated: Trace
):
    watched = opened(simulated, link="pass=8&dock=layers")
    page = watched.page
    aside = page.locator(".layers-pane aside")
    with watched.step("buffers of the chosen layer lie in their scratchpad"):
        # The longest one, by its node of the file; on hover it has the compiler's name.
        expect(aside.locator("h3")).to_have_text("Conv_8")
        expect(aside.locator("h3")).to_have_attribute("title", "conv_3")
        cell = page.locator('.layers-pane tr[data-of="conv_3"] td').first
        expect(cell.locator("[title]")).to_have_attribute("title", "Conv_8, conv_3 to the compiler")
        expect(aside.locator(".pad-title")).to_have_text("buffers: 768 B of 2 KiB, 2 of 4 banks")
        uses = aside.locator(".pad-use")
        expect(uses).to_have_count(2)
        expect(uses.nth(1)).to_have_attribute(
            "title",
            "activations, elements 64 to 95, 256 B from byte 512, bank 1, cycle 220 to 600",
        )
        expect(aside).to_contain_text("3 later buffers not shown")
        first, second = (uses.nth(place).bounding_box() for place in (0, 1))
        # The second begins while the first is used, two thirds down.
        assert first["x"] < second["x"] < first["x"] + first["width"]
        assert second["y"] - first["y"] == pytest.approx(2 * first["height"], abs=3)
    with watched.step("a tile is followed from what it reads through the queues"):
        tiles = page.locator(".layers-pane .tiles")
        expect(tiles.locator(".tile-choice")).to_contain_text("tile 1 of 4")
        captions = tiles.locator("figcaption")
        expect(captions.nth(0)).to_have_text(
            "reads input: rows -1 to 4, columns -1 to 4 of 4 × 8, "
            "of it padding 1 above, 1 below, 1 left"
        )
        expect(captions.nth(1)).to_have_text("makes rows 0 to 3, columns 0 to 3 of 4 × 8")
        expect(tiles.locator(".tile-way tbody tr")).to_have_text(
            ["loadactivations × 2works 20, 64 B", "computemultiply × 2works 35╱token 5"]
        )
        tiles.locator(".tile-choosable").nth(1).click()
        expect(tiles.locator(".tile-choice")).to_contain_text("tile 2 of 4")
        expect(captions.nth(1)).to_contain_text("columns 4 to 7")
        expect(tiles.get_by_role("button", name="›")).to_be_disabled()
        # What both halves read: two columns, the halo.
        first, second = (
            tiles.locator(".tile-picture").nth(0).locator(".tile-other").nth(place).bounding_box()
            for place in (0, 1)
        )
        assert first and second
        assert first["x"] + first["width"] > second["x"] + 1
        expect(page.locator(".layers-pane")).to_contain_text("2 later tiles not shown")
    with watched.step("the chosen layer shows its queues and is linked to its operation"):
        expect(aside.locator(".queue-words")).to_have_text(
            ["works 300╱token 300", "works 300╱token 300"]
        )
        expect(aside.locator(".queue-terms")).to_contain_text("multiply × 2")
        page.locator(".layers-pane").locator('tr[data-of="conv_1"]').click()
        expect(page.locator(".subject h2")).to_have_text("conv_1")
        expect(aside.locator("h3")).to_have_attribute("title", "conv_1")
        name = page.locator(".subject .layer-name").inner_text()
        expect(aside.locator("h3")).to_have_text(name)
        expect(page.locator(".layers-pane tr.marked")).to_have_count(1)
        # Waits that began before the layer did: 100 of work and 300 of waiting in 200 cycles.
        parts = page.locator(".layers-pane .queue-part").evaluate_all(
            "a => a.map((b) => b.offsetWidth)"
        )
        bar = page.locator(".layers-pane .queue-bar").first.bounding_box()
        assert parts[1] == pytest.approx(3 * parts[0], abs=3)
        assert parts[0] + parts[1] == pytest.approx(bar["width"], abs=2)
    with watched.step("the time of a kernel is that of its layers, in cycles"):
        page.locator('.dock .tab[data-tab="timeline"]').click()
        page.get_by_role("tab", name="by kernel").click()
        rows = page.locator(".dock tbody tr")
        expect(rows.filter(has_text="conv_1")).to_contain_text("200 cycles")
    with watched.step("layers stand under the lines of the target file"):
        page.locator('.dock .tab[data-tab="roofline"]').click()
        expect(page.locator(".dock .chart circle")).to_have_count(2)
        for label in "array 16 MAC/cycle", "sram 8 B/cycle on 2 channels", "flash 0.5 B/cycle":
            expect(page.locator(".dock .chart text", has_text=label)).to_have_count(1)
        assert watched.texts(".dock tbody td:nth-child(2)") == ["25 %", "100 %"]
        about = page.locator(".dock .chart [data-operation='conv_3'] title")
        expect(about).to_contain_text("4 MAC/cycle at 10 MAC per byte")
        expect(about).to_contain_text("25 % of its roof, bound by flash")
        expect(about).to_contain_text("25 % of the array is used, 25 % for padding")
    assert watched.is_clean(), watched
