"""Measured prices of operations, as decisions."""

from dataclasses import replace

import pytest

import explorer as ex
from explorer.errors import InputError
from explorer.targets import load_target
from explorer.tuning.prices import measured_prices

SECOND = replace(load_target("cpu"), name="second")


def test_measured_prices_take_the_place_of_predicted_ones(sample_models):
    c = ex.compile(ex.load(sample_models / "digits_mlp.onnx"), target=["cpu", SECOND])
    pinned = c.fork(decisions={"assign/device": "second"})
    prices = measured_prices(pinned, repeats=3)
    assert {address.split("/")[1] for address in prices} == {"cpu", "second"}
    assert all(seconds > 0 for seconds in prices.values())
    d = c.fork(decisions=prices)
    found = {
        f"price/{price.device}/{op.operation}": (price.seconds, price.source)
        for op in d.placement.operations
        for price in op.prices
    }
    assert all(found[address] == (seconds, "decided") for address, seconds in prices.items())
    least = d.placement.assignment
    assert least is not None
    assert least.seconds <= min(seconds for _, seconds in least.single)


def test_prices_of_one_target_are_refused(sample_models):
    c = ex.compile(ex.load(sample_models / "digits_mlp.onnx"))
    with pytest.raises(InputError, match="for several targets"):
        measured_prices(c)
