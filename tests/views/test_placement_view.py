"""The view of placement: prices, refusals, parts and what another bandwidth would move."""

from dataclasses import replace

import pytest

import explorer as ex
from explorer.errors import ExplorerError
from explorer.targets import load_target
from explorer.traces.saving import open_trace
from explorer.views.catalog.placement import matrix, placement
from explorer.views.renderers.text import text_of


@pytest.fixture(scope="module")
def compiled(sample_models):
    second = replace(load_target("cpu"), name="second")
    model = ex.load(sample_models / "digits_cnn.onnx")
    return ex.compile(model, target=["cpu", second], decisions={"assign/device/conv9": "second"})


def test_the_text_has_devices_prices_and_the_sum(compiled):
    text = text_of(placement(compiled.trace()), 120)
    assert "proven the least" in text
    assert "second alone" in text
    (row,) = [line for line in text.split("\n") if line.strip().startswith("conv9 ")]
    assert row.split()[1] == "second"
    assert "main_second" in text
    assert "where the cut" not in text  # titles are for those who hear them
    assert "×64" in text


def test_a_price_shows_its_source_and_a_refusal_its_reason(compiled):
    record = compiled.placement
    table = matrix(record)
    cell = table.rows[0].cells["on cpu"]
    assert cell.exact == "cost model"
    refused = replace(record.operations[0], prices=(), refusals=(("second", "it is too large"),))
    cell = matrix(replace(record, operations=(refused,))).rows[0].cells["on second"]
    assert (cell.text, cell.exact) == ("refused", "it is too large")


def test_a_saved_trace_shows_it_without_the_devices(compiled, tmp_path):
    compiled.save(tmp_path / "two.nnx")
    trace = open_trace(tmp_path / "two.nnx").trace()
    assert text_of(placement(trace), 120) == text_of(placement(compiled.trace()), 120)


def test_one_target_has_nothing_to_show(sample_models):
    alone = ex.compile(ex.load(sample_models / "digits_mlp.onnx"))
    with pytest.raises(ExplorerError, match="several targets"):
        alone.view("placement")
