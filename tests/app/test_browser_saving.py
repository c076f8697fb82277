"""Saving from the app: every file holds what it says, and a saved page opens at its place."""

import csv
import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser, expect

PNG = b"\x89PNG\r\n\x1a\n"


def saved(page: Any, control: str, folder: Path) -> Path:
    """The file that a button of the open dialog makes."""
    with page.expect_download() as download:
        page.locator(".dialog").get_by_role("button", name=control, exact=True).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


@pytest.mark.browser
def test_every_kind_of_file_is_saved_and_a_page_opens_at_its_place(
    opened_app: Callable[[], Any], browsing: ModuleType, chromium: Browser, tmp_path: Path
):
    visit = opened_app()
    page = visit.page
    visit.wait_until_done()
    page.get_by_role("tab", name="kernels").click()
    page.get_by_role("button", name="save", exact=True).click()
    expect(page.get_by_label("table")).to_have_value("kernels")
    rows = list(csv.DictReader(io.StringIO(saved(page, ".csv", tmp_path).read_text())))
    assert {"name", "flops", "bytes_moved"} <= set(rows[0])
    assert len(rows) == 7
    page.get_by_label("table").select_option("errors")
    errors = list(csv.DictReader(io.StringIO(saved(page, ".csv", tmp_path).read_text())))
    assert {row["mode"] for row in errors} == {"accumulated", "isolated"}
    drawing = ElementTree.parse(saved(page, ".svg", tmp_path)).getroot()
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    words = "".join(drawing.itertext())
    assert "conv 3x3" in words
    assert not [
        e for e in drawing.iter() if "data-open" in e.attrib or "fill:" in e.get("style", "")
    ]
    rules = drawing.findtext("{http://www.w3.org/2000/svg}style") or ""
    named = re.findall(r"^\.(s\d+) \{ fill: [^;]+; .*stroke-width: [\d.]+px", rules, re.MULTILINE)
    assert len(named) == len(set(named)) == rules.count("\n") + 1 < len(list(drawing.iter()))
    assert {e.get("class") for e in drawing.iter() if "class" in e.attrib} <= set(named)
    assert saved(page, ".png", tmp_path).read_bytes().startswith(PNG)
    source = saved(page, "source", tmp_path)
    assert source.name == "good.c"
    assert "void" in source.read_text()
    package = saved(page, "package .zip", tmp_path)
    assert "good/selftest.c" in zipfile.ZipFile(package).namelist()
    report = saved(page, ".md", tmp_path).read_text()
    for part in ("# tiny\\_resnet for cpu", "## Passes", "## Memory", "## Kernels", "## Accuracy"):
        assert part in report
    with visit.step("Parquet without pyarrow"):
        try:
            import pyarrow  # noqa: F401  # pyright: ignore[reportMissingImports]  (optional)
        except ImportError:
            page.locator(".dialog").get_by_role("button", name=".parquet").click()
            expect(page.locator(".saving-said")).to_contain_text("pip install pyarrow")
        else:
            assert saved(page, ".parquet", tmp_path).read_bytes().startswith(b"PAR1")
    page.keyboard.press("Escape")
    with visit.step("a saved page opens at its place anywhere"):
        page.locator(".pass-row", has_text="fuse-add").click()
        page.get_by_role("tab", name="compare", exact=True).click()
        page.get_by_role("button", name="share", exact=True).click()
        words = page.locator(".dialog").inner_text()
        assert re.search("this address works here, while this explorer runs", words)
        page.get_by_role("button", name="save a page").click()
        path = saved(page, ".html", tmp_path)
        with browsing.watched(chromium) as seen:
            seen.page.goto(path.as_uri())
            seen.page.wait_for_selector(".node")
            seen.expect_pass("fuse-add")
            # Panes that only the app has are no part of a page's address.
            assert "dock=" not in seen.page.url
            assert "model=" not in seen.page.url
            seen.page.keyboard.press("c")
            seen.page.keyboard.press("h")
            assert "dock=" not in seen.page.evaluate("location.hash")
            seen.page.get_by_role("button", name="share", exact=True).click()
            expect(seen.page.locator(".dialog")).to_contain_text("a file on this computer")
            assert seen.is_clean(), seen
    assert visit.is_clean(), visit
