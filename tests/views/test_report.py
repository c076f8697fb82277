"""A compilation as Markdown: all parts, and no name of a model that is markup."""

import re
from dataclasses import replace

from explorer.results import Trace
from explorer.views.catalog.report import report_page, report_text


def test_a_report_has_all_that_is_known(trace: Trace):
    text = report_text(trace)
    heads = [line for line in text.splitlines() if line.startswith("#")]
    parts = ["insights", "Passes", "Memory", "Kernels", "Profile", "Accuracy"]
    found = [line for line in heads if line.startswith("## ")]
    assert all(part in line for part, line in zip(parts, found, strict=True))
    for step in trace.passes:
        assert re.search(rf"^\| .*\b{step.name}\b.* \|", text, re.MULTILINE)
    for kernel in trace.kernels:
        assert f"| `{kernel.name}` |" in text
    assert trace.accuracy is not None
    assert trace.accuracy.oracle in text


def test_a_report_of_an_unfinished_compilation_leaves_parts_out(trace: Trace):
    bare = replace(trace, memory=None, kernels=(), program=None, accuracy=None, profile=None)
    assert "## Kernels" not in report_text(bare)
    assert "not compared with the source model" in report_text(bare)


def test_a_report_page_stands_alone(trace: Trace):
    page = report_page(trace)
    assert page.startswith("<!doctype html>")
    assert "<script" not in page
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    assert '<meta name="color-scheme" content="light dark">' in page
    for title in ("Memory", "Kernels", "Profile", "Accuracy against onnxruntime on cpu"):
        assert f">{title}<" in page
    for kernel in trace.kernels:
        assert f">{kernel.name}<" in page
    hostile = replace(trace, model=replace(trace.model, name="<img src=x>"))
    assert "<img src=x>" not in report_page(hostile)


def test_a_name_is_no_markup(trace: Trace):
    hostile = "a`|<img src=x>\n# b"
    model = replace(trace.model, name=hostile, inputs=((hostile, "1 f32"),))
    text = report_text(replace(trace, model=model))
    assert "# a\\`\\|\\<img src=x\\>" in text
    assert not re.search(r"(?<!\\)<img", text)
    assert "\n# b" not in text
