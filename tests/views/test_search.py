"""What is shown of a search: all candidates as dots, names escaped, failures with reasons."""

import base64
import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from explorer.results import Candidate, CostEstimate, CostTerm, KernelSearch, SearchResult
from explorer.views.catalog.search import (
    MAX_DRAWN,
    cost,
    kernel_search,
    predicted_chart,
    search,
    ticks,
)
from explorer.views.renderers.html import html_of, svg_of
from explorer.views.renderers.text import text_of

CANDIDATES = (
    Candidate(
        choices=(("pixels", 14),),
        predicted_us=30.0,
        measured_us=48.0,
        spread_us=0.5,
        status="measured",
        reason="",
        default_us=48.0,
        origin="default",
    ),
    Candidate(
        choices=(("pixels", 7),),
        predicted_us=28.0,
        measured_us=40.0,
        spread_us=0.4,
        status="measured",
        reason="",
        default_us=48.0,
        origin="predicted",
    ),
    Candidate(
        choices=(("pixels", 3),),
        predicted_us=60.0,
        measured_us=90.0,
        spread_us=0.9,
        status="measured",
        reason="",
        default_us=48.0,
        origin="mutation of 0",
    ),
    Candidate(
        choices=(("pixels", 1),), predicted_us=90.0, status="hung", reason="it did not end <soon>"
    ),
)
SEARCH = KernelSearch(
    kernel="conv<1>",
    workload="3f",
    target="cpu",
    device="AMD",
    seed=0,
    default=0,
    chosen=1,
    candidates=CANDIDATES,
    seconds=12.0,
    why="tuned: 40.0 µs against 48.0",
)
RESULT = SearchResult(
    model="digits", target="cpu", device="AMD", threads=1, seed=0, kernels=(SEARCH,), seconds=12.0
)


def predicted_svg(found: KernelSearch) -> str:
    chart = predicted_chart(found)
    assert chart is not None
    return svg_of(chart)


def shapes(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return [element.tag.rpartition("}")[2] for element in root.iter()]


def test_the_text_says_before_after_and_why():
    text = text_of(search(RESULT), 120)
    assert text.startswith("4 candidates of 1 kernel of digits in 12 s, 1 tuned, 1 thread")
    assert "48 µs" in text
    assert "40 µs" in text
    assert "1.20 x" in text
    assert "tuned: 40.0 µs against 48.0" in text


def test_every_measured_candidate_is_a_dot_in_the_picture():
    found = shapes(predicted_svg(SEARCH))
    # A ground, the default's square, one other dot; the chosen one is a diamond.
    assert found.count("rect") == 2
    assert found.count("circle") == 1
    assert found.count("polygon") == 1


def test_what_lies_lower_was_measured_faster():
    svg = predicted_svg(replace(SEARCH, default=-1, chosen=-1))
    dots = [e for e in ElementTree.fromstring(svg).iter() if e.get("r") == "3.5"]
    places = [(float(e.get("cx", "")), float(e.get("cy", ""))) for e in dots]
    by_prediction = sorted(places)
    assert [y for _, y in by_prediction] == sorted((y for _, y in places), reverse=True)


def test_nothing_is_drawn_of_fewer_than_two_times():
    alone = replace(SEARCH, candidates=CANDIDATES[:1])
    assert predicted_chart(alone) is None
    assert "<img" not in html_of(kernel_search(alone))


def test_names_are_escaped_and_failures_say_why():
    html = html_of(search(RESULT))
    assert "conv<1>" not in html
    assert "conv&lt;1&gt;" in html
    assert "3 hung: it did not end &lt;soon&gt;" in html
    (data,) = re.findall(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", html)
    assert base64.b64decode(data).startswith(b"<svg")


def test_pictures_are_capped_and_the_rest_is_named():
    many = replace(RESULT, kernels=tuple(SEARCH for _ in range(MAX_DRAWN + 3)))
    html = html_of(search(many))
    assert html.count("<img") == MAX_DRAWN
    assert f"Details of {MAX_DRAWN} of {MAX_DRAWN + 3} rows" in html


@pytest.mark.parametrize(("low", "high"), [(0.8, 1.3), (1.0, 50.0), (0.02, 90_000.0)])
def test_ticks_are_round_few_and_inside(low, high):
    found = ticks(low, high)
    assert len(found) <= 7
    assert all(low <= tick <= high for tick in found)
    assert all(
        round(tick / 10 ** math.floor(math.log10(tick) + 1e-9)) in (1, 2, 5) for tick in found
    )


def test_a_cost_shows_its_terms_and_which_decides():
    terms = (CostTerm("arithmetic", 30.0, "<many>"), CostTerm("l2", 8.0, "bytes"))
    estimate = CostEstimate("conv_1", 32.0, (*terms, CostTerm("spills", 2.0, "40", True)))
    text, html = text_of(cost(estimate), 100), html_of(cost(estimate))
    assert text.startswith("32 µs predicted, 94 % of it arithmetic")
    assert "+ spills" in text
    assert "&lt;many&gt;" in html
