"""What the app's other side tells of a kernel when it is asked: other builds, cycles of a loop."""

import platform
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the first choice is AVX2"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed"),
]


def test_a_loop_tells_its_cycles_and_another_build_stands_beside(
    visit: Callable[..., Any], tmp_path: Path
):
    """Of the convolution with most work, its assembly next to its source."""
    seen = visit()
    page = seen.page
    page.keyboard.press("S")
    page.get_by_role("button", name="Follow a convolution").first.click()
    page.keyboard.press("5")
    page.locator(".tab-body:visible .line", has_text="vfmadd").first.wait_for(timeout=120_000)
    with seen.step("a loop tells its cycles, or how to get them"):
        page.get_by_role("button", name="cycles", exact=True).first.click()
        words = page.locator(".loop-cycles")
        if shutil.which("llvm-mca") is None:
            expect(words).to_contain_text("install llvm-mca")
        else:
            expect(words).to_contain_text("cycles an iteration")
            expect(words).to_contain_text("Limited by")
            cost = page.locator(".cost.hot").first
            expect(cost).to_have_text(re.compile(r"^\d+\.\d\d$"))
        # What arrives draws the code anew, with the answer.
        before = words.inner_text()
        seen.wait_until_done()
        words.evaluate("node => { node.dataset.old = 'yes'; }")
        np.savez(tmp_path / "eval.npz", image=np.zeros((2, 1, 8, 8), np.float32))
        page.get_by_label("data on which the model is judged").set_input_files(
            tmp_path / "eval.npz"
        )
        expect(page.locator(".loop-cycles:not([data-old])")).to_have_text(before, timeout=60_000)
    with seen.step("another build is shown next to it"):
        page.keyboard.press("7")
        page.get_by_label("instruction set", exact=True).select_option("SSE2")
        other = page.locator(".code-host", has=page.locator(".build-command"))
        expect(other.locator(".build-command")).to_contain_text("-march=x86-64")
        expect(other.locator(".line", has_text="mulps").first).to_be_attached()
        line = other.locator(".line.hovered")
        page.locator(".tab-body:visible .line", has_text="+= x_value").first.hover()
        expect(line.first).to_be_attached()
        expect(page).to_have_url(re.compile(r"build=gcc\.SSE2\.-O2"))
    with seen.step("a missing compiler is reported"):
        page.get_by_label("instruction set", exact=True).select_option("NEON")
        if shutil.which("aarch64-linux-gnu-gcc") is None:
            expect(page.get_by_role("alert")).to_contain_text("there is no aarch64-linux-gnu-gcc")
            expect(page.get_by_role("alert")).to_contain_text("pip install ziglang")
    assert seen.is_clean(), seen
