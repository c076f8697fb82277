"""The pane of hot loops in a real browser: the table, and the ports of the loop that is chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.results import LoopPorts, PortsRecord, Trace

pytestmark = pytest.mark.browser


def loop(kernel: str, limit: str, cycles: float) -> LoopPorts:
    return LoopPorts(
        kernel=kernel, loop=("task", "ci"), lines=(4, 9), share=cycles / 20, merged=1,
        text=(".L3:", "\tvfmadd231ps\t(%rdi), %ymm1, %ymm0", "\tjne\t.L3"), cycles=cycles,
        bound=6.0, limit=limit, ports=(("HWPort0", 6.0), ("HWPort2", 3.0)),
        counts=(("multiply-add", 12.0), ("branch", 1.0)), spills=0.0, predicted_cycles=6.0,
        predicted_bound="arithmetic", peak_cycles=6.0,
    )  # fmt: skip


def test_a_click_on_a_loop_shows_its_ports(opened: Any, trace: Trace):
    record = PortsRecord(
        core="haswell", model="haswell", analyser="LLVM 19.1.7", note="",
        compiler="gcc 12.2.0 -march=haswell", left_out=(("pool_1", "no innermost loop is hot"),),
        loops=(loop("conv_1", "multiply-add", 6.2), loop("conv_2", "load", 8.0)),
    )  # fmt: skip
    watched = opened(replace(trace, ports=record), link="dock=ports")
    page = watched.page
    pane = page.locator(".dock .with-details")
    expect(pane).to_contain_text("LLVM 19.1.7 counts the ports of haswell")
    expect(pane).to_contain_text("The cost model is within 15 % in 50")
    expect(pane).to_contain_text("not counted: pool_1: no innermost loop is hot")
    aside = pane.locator("aside")
    expect(aside.locator("h3")).to_have_text("conv_1: task > ci")
    page.get_by_role("row", name="conv_2").click()
    expect(aside.locator("h3")).to_have_text("conv_2: task > ci")
    expect(pane.locator("table[aria-label='hot loops'] tr.marked")).to_have_count(1)
    expect(aside.locator("tbody tr")).to_have_count(2)
    expect(aside.locator("pre")).to_contain_text("vfmadd231ps")
    bars = aside.locator(".share-bar").evaluate_all("all => all.map((bar) => bar.offsetWidth)")
    assert bars[0] == pytest.approx(2 * bars[1], abs=2)
    assert watched.is_clean(), watched
