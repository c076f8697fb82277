"""What a search tried, in the page: with its kernel, capped, and without what JSON lacks."""

import json
import math
from dataclasses import replace

import pytest

from explorer.results import Candidate, KernelSearch
from explorer.results.encoding import from_json, to_json
from explorer.views.catalog.search import MAX_DOTS, search_payload
from explorer.views.trace_payload import encode, trace_payload


def candidate(predicted: float, ratio: float, **others) -> Candidate:
    given = {"status": "measured", "measured_us": 10 * ratio, "default_us": 10.0, **others}
    return Candidate(
        choices=(("pixels", 4), ("schedule", "direct")), predicted_us=predicted, **given
    )


def search(*candidates: Candidate, kernel: str = "conv_1") -> KernelSearch:
    return KernelSearch(
        kernel=kernel,
        workload="w",
        target="cpu",
        device="a processor",
        seed=0,
        default=0,
        chosen=1,
        candidates=candidates,
        seconds=1.5,
    )


def test_times_that_are_sorted_alike_correlate_and_others_do_not():
    alike = [candidate(p, r) for p, r in ((1, 1.0), (2, 1.1), (5, 1.2), (9, 4.0))]
    assert search(*alike).rank_correlation == pytest.approx(1.0)
    assert search(*alike[:2]).rank_correlation != search(*alike[:2]).rank_correlation  # NaN
    turned = [candidate(p, r) for p, r in ((1, 3.0), (2, 2.0), (3, 1.0))]
    assert search(*turned).rank_correlation == pytest.approx(-1.0)
    equal = [candidate(1, r) for r in (1.0, 2.0, 3.0)]
    assert math.isnan(search(*equal).rank_correlation)


def test_what_was_not_measured_is_left_out_of_the_correlation():
    failed = candidate(100, 0.0, status="failed", measured_us=0.0)
    alike = [candidate(p, p) for p in (1, 2, 3)]
    assert search(failed, *alike).rank_correlation == pytest.approx(1.0)


def test_a_payload_is_json_with_every_candidate_up_to_a_cap():
    refused = candidate(math.nan, 0.0, status="refused", reason="x" * 10_000, measured_us=0.0)
    many = search(refused, *[candidate(1 + n, 1 + n) for n in range(MAX_DOTS)])
    found = json.loads(encode(search_payload(many)))
    chart, table, *texts = found["parts"]
    assert sum(mark[0] == "dot" for mark in chart["marks"]) == MAX_DOTS - 1
    assert len(table["rows"]) == MAX_DOTS
    said = [text["text"] for text in texts]
    assert "1 more are not drawn" in said and max(map(len, said)) < 400
    head = f"schedule-loops/{many.kernel}/"
    action = table["rows"][0][0][4]
    assert action["decisions"] == {f"{head}pixels": 4, f"{head}schedule": "direct"}
    assert action["replaces"] == head


def test_a_trace_shows_the_search_beside_its_kernel(module_of_tests):
    trace = module_of_tests("views/synthetic.py").make_trace()
    kernel = trace.kernels[1].name
    found = search(candidate(1, 1.0), candidate(2, 0.9), kernel=kernel)
    payload = trace_payload(replace(trace, searches=(found,)))
    assert payload.chunk("kernel/0")["search"] is None
    assert payload.chunk("kernel/1")["search"] == search_payload(found)


def test_a_search_survives_the_file_of_a_trace():
    found = search(candidate(1, 1.0), candidate(2, 0.9))
    assert from_json(KernelSearch, json.loads(json.dumps(to_json(found)))) == found
