"""A line of Python and what was made of it, both ways, in a real browser."""

from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer.results import Trace
from tests.importers.pytorch_models import Program, ref

pytestmark = pytest.mark.browser

UPPER, LOWER = ".tab-body:not(.beside)", ".tab-body.beside"
CALLER = """  File "/home/ann/nets/net.py", line 20, in forward
    x = self.block(x)
"""
LINE = """  File "/home/ann/nets/net.py", line {}, in forward
    {}
  File "/opt/torch/nn/modules/module.py", line 9, in forward
    return F.f(x)
"""
PRODUCT = CALLER + LINE.format(7, "y = torch.relu(self.first(x))")
SUM = LINE.format(21, "return x.exp() + 1")


@pytest.fixture(scope="module")
def python_trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """x -> linear, relu on one line that another one calls; exp and add on a line of the caller."""
    kind = ("float32", [3, 4])
    program = Program({"x": kind}, {"first.weight": np.eye(4, dtype=np.float32)})
    x = program.call(
        "aten.linear.default",
        {"input": ref("x"), "weight": ref("p_first.weight")},
        *kind,
        name="linear",
        trace=PRODUCT,
        module="L__self__,,Net;L__self___first,first,torch.nn.Linear",
    )
    x = program.call("aten.relu.default", {"self": ref(x)}, *kind, name="relu", trace=PRODUCT)
    x = program.call("aten.exp.default", {"self": ref(x)}, *kind, name="exp", trace=SUM)
    x = program.call(
        "aten.add.Tensor",
        {"self": ref(x), "other": {"as_int": 1}},
        *kind,
        name="add",
        trace=SUM,
    )
    path = program.write(tmp_path_factory.mktemp("python") / "net.pt2", [x])
    return ex.compile(path).trace(with_assembly=True)


def test_lines_and_what_was_made_of_them_are_linked_both_ways(opened: Any, python_trace: Trace):
    watched = opened(python_trace, link="pass=1&tab=model&panes=graph_levels-model-ir")
    page = watched.page
    with watched.step("nodes stand under the lines that made them"):
        page.wait_for_selector(".python-line")
        page.wait_for_selector(f"{LOWER} .line")
        assert watched.names(f"{UPPER} .line") == [
            "nets/net.py",
            "y = torch.relu(self.first(x))",
            "    linear = aten.linear(x, first.weight)    # first (Linear)",
            "    relu = aten.relu(linear)",
            "x = self.block(x)",
            "return x.exp() + 1",
            "    exp = aten.exp(relu)",
            "    add = aten.add.Tensor(exp, other=1)",
        ]
        numbers = page.locator(".python-line").evaluate_all(
            "lines => lines.map((line) => line.dataset.number)"
        )
        assert numbers == ["7", "20", "21"]
    with watched.step("a line marks what was made of it and of what it calls"):
        page.locator(".python-line", has_text="self.block(x)").hover()
        for name in ("linear", "relu"):
            page.wait_for_selector(f'.node.hovered[data-id="{name}1"]')
        expect(page.locator(".node.hovered")).to_have_count(2)
        ir = watched.names(f"{LOWER} .line.hovered")
        assert any("top.matmul" in line for line in ir)
        assert not any('"exp"' in line for line in ir)
    with watched.step("the IR and the kernel lead back to their line"):
        page.locator(f"{LOWER} .line", has_text="%exp1 = ").hover()
        watched.expect_names(".python-line.hovered", ["return x.exp() + 1"])
        page.locator(".python-line", has_text="x.exp()").click()
        expect(page.locator(".python-of")).to_have_text("net.py:21return x.exp() + 1")
        page.get_by_role("tab", name="C", exact=True).click()
        page.locator(f"{LOWER} .line", has_text="expf").first.wait_for()
        page.locator(".python-of").click()
        page.wait_for_selector(".python-line.marked")
        assert watched.names(".python-line.marked") == ["return x.exp() + 1"]
    assert watched.is_clean(), watched


def test_a_click_on_a_line_marks_its_operations_and_its_kernel(opened: Any, python_trace: Trace):
    watched = opened(python_trace, link="pass=1&tab=model&beside=true")
    page = watched.page
    page.locator(".python-line", has_text="x.exp()").click()
    page.locator(f"{LOWER} .code.whole .line.marked", has_text="expf").first.wait_for()
    watched.expect_names(".python-line.marked", ["return x.exp() + 1"])
    watched.expect_names('.line-link[aria-current="true"]', ["net.py:21"])
    page.locator(f"{LOWER} .line", has_text="expf(").first.hover()
    hovered = page.locator(f"{LOWER} .line.marked.hovered").first
    expect(hovered).not_to_have_css("background-image", "none")
    marked = page.locator(".node.selected:not(.removed), .node.related:not(.removed)")
    expect(marked).to_have_count(2)
    assert set(marked.evaluate_all("all => all.map((one) => one.dataset.id)")) == {"exp1", "add1"}
    page.wait_for_url("**line=nets%2Fnet.py%3A21**")
    page.locator(".python-line", has_text="self.block(x)").click()
    inside = ["y = torch.relu(self.first(x))", "x = self.block(x)"]
    watched.expect_names(".python-line.marked", inside)
    watched.expect_names(".made-from .line-link", ["net.py:7"])
    page.keyboard.press("Escape")
    expect(page.locator(".line.marked")).to_have_count(0)
    with watched.step("a click on a line of the kernel marks the lines that made it"):
        watched = opened(python_trace, link="pass=1&selection=exp1&tab=c&panes=source")
        page = watched.page
        page.locator(".tab-body .line", has_text="expf(").first.click()
        watched.expect_names(".python-line.marked", ["return x.exp() + 1"])
        expect(page.locator(".subject h2")).to_have_text("exp1")
        source, assembly = page.locator(LOWER).nth(0), page.locator(LOWER).nth(1)
        expect(source.locator(".line.marked", has_text="expf(").first).to_be_attached()
        assert 0 < assembly.locator(".line.marked").count() < assembly.locator(".line").count()
        page.keyboard.press("Escape")
        expect(page.locator(".line.marked")).to_have_count(0)
        page.locator(".python-line", has_text="torch.relu(").click()
        page.locator(f"{LOWER} .code.whole .line.marked", has_text="\t").first.click()
        watched.expect_names(
            ".python-line.marked", ["y = torch.relu(self.first(x))", "x = self.block(x)"]
        )
        assert source.locator(".line.marked").count() < source.locator(".line").count()
        with watched.step("what a kernel is made from leads to the line"):
            page.keyboard.press("Escape")
            page.locator(".node[data-id=exp1]").click()
            page.locator(".made-from .line-link", has_text="net.py:21").first.click()
            watched.expect_names(".python-line.marked", ["return x.exp() + 1"])
            page.locator(f"{LOWER} .line", has_text="expf(").first.wait_for()
    assert watched.is_clean(), watched
