"""Text is found in a pane of code, however long it is, and in everything that a page holds."""

import re
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.results import RuleRecord, SourceText, Trace

pytestmark = pytest.mark.browser

LONG = 3000


def with_long_source(trace: Trace) -> Trace:
    """The first kernel's source gets so long that not all of its lines stand in the page."""
    first, *others = trace.kernels
    lines = tuple(f"    y[{n}] = {'needle' if n % 1000 == 999 else 'hay'}(x);" for n in range(LONG))
    source = SourceText("c", lines, tuple((f"{first.name}/main",) for _ in lines))
    return replace(trace, kernels=(replace(first, source=source), *others))


RULE = '''class FoldNothing(Rule):
    """Folds what is there, or else nothing:

    x is not y, while z is  ->  x
    """

    def rewrite(self, match):
        return None if match is None else match'''


def with_rule(trace: Trace) -> tuple[Trace, str]:
    """The first rule that fired, with a text that stands at line 20 of its file."""
    passes = list(trace.passes)
    place = next(index for index, record in enumerate(passes) if record.events)
    events = passes[place].events
    name = events[0].rule
    moved = tuple(
        replace(event, rule_source="rules/fold.py:20") if event.rule == name else event
        for event in events
    )
    passes[place] = replace(passes[place], events=moved)
    lines = tuple(RULE.split("\n"))
    text = SourceText("python", lines, tuple(() for _ in lines))
    return replace(trace, passes=tuple(passes), rules=(RuleRecord(name, text),)), name


def test_texts_are_found_in_panes_everywhere_and_in_rules(opened: Any, trace: Trace):
    long = with_long_source(with_rule(trace)[0])
    operation = long.kernels[0].operations[0]
    watched = opened(long, link=f"pass=8&selection={operation}&tab=c")
    page = watched.page
    with watched.step("a text in a long pane"):
        page.locator(".inspector .code").hover()
        page.keyboard.press("Control+f")
        expect(page.get_by_label("find in this text")).to_be_focused()
        page.keyboard.type("NEEDLE")
        expect(page.locator(".find-bar:visible .hits-count")).to_have_text("1 of 3")
        expect(page.locator("mark.current")).to_have_text("needle")
        page.keyboard.press("Enter")
        expect(page.locator(".line:has(mark.current)")).to_have_attribute("data-number", "2000")
        page.keyboard.press("Shift+Enter")
        page.keyboard.press("Shift+Enter")
        expect(page.locator(".line:has(mark.current)")).to_have_attribute("data-number", "3000")
        expect(page.locator(".line:has(mark.current)")).to_be_in_viewport()
        page.keyboard.press("Escape")
        expect(page.locator("mark")).to_have_count(0)
    with watched.step("everything is searched and the list stays"):
        page.keyboard.press("Control+Shift+f")
        page.get_by_label("find everywhere", exact=True).locator("visible=true").last.fill("conv_1")
        kinds = page.locator(".find-kinds .chip")
        for kind in ("operation", "ir", "c"):
            expect(page.locator(f'.find-kinds [data-kind="{kind}"]')).to_be_visible()
        source = page.locator(".find-row", has=page.locator("text=/^C$/")).first
        source.click()
        expect(page.locator(".inspector [data-tab=c]")).to_have_attribute("aria-selected", "true")
        expect(page.locator(".inspector mark").first).to_have_text("conv_1")
        expect(page.locator(".find-row[aria-current=true]")).to_have_count(1)
        position = page.locator(".find-everywhere .hits-count")
        expect(position).to_have_text(re.compile(r"^\d+ of \d+$"))
        before = position.inner_text()
        page.get_by_role("button", name="next hit").click()
        expect(position).not_to_have_text(before)
        shown = page.locator(".find-row").count()
        page.locator('.find-kinds [data-kind="c"]').click()
        assert page.locator(".find-row").count() < shown
        assert kinds.count() >= 3
        page.keyboard.press("Escape")
        expect(page.locator(".find-everywhere")).to_be_hidden()
        expect(page.locator(".inspector mark")).to_have_count(0)
    with watched.step("rules are shown at the place"):
        page.locator(".search").fill("while z")
        page.get_by_role("button", name="find everywhere").click()
        page.locator(".find-row", has_text="rules").first.click()
        dialog = page.locator(".rule-dialog")
        expect(dialog.locator("mark")).to_have_text("while z")
        # Numbers are those of the file, and words of a sentence are no keywords.
        expect(dialog.locator(".line").first).to_have_attribute("data-number", "20")
        assert dialog.locator(".code-word").all_inner_texts() == [
            "class", "def", "return", "if", "is", "else",
        ]  # fmt: skip
    assert watched.is_clean(), watched
