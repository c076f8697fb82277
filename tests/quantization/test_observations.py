"""What calibration saw travels with a table, in few bins, and decides nothing."""

import numpy as np
import pytest

import explorer
from explorer.compilation.settings.quantizing import read_table
from explorer.errors import InputError
from explorer.quantization.histogram import Histogram
from explorer.quantization.methods import RANGES
from explorer.quantization.observations import (
    MAX_BINS,
    compact,
    observed_tensor,
    path_beside,
    read_observations,
    write_observations,
)
from explorer.quantization.table import Threshold, ThresholdTable, write_thresholds


def seen(numbers: np.ndarray):
    histogram = Histogram().including(numbers)
    ranges = [(name, find(histogram, 8), None) for name, find in RANGES.items()]
    return observed_tensor(histogram, ranges, 8)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 300.0])
def test_few_bins_count_every_number_where_it_is(scale):
    numbers = (np.random.default_rng(0).standard_normal(5000) * scale + scale).astype(np.float32)
    histogram = compact(Histogram().including(numbers))
    assert len(histogram.counts) <= MAX_BINS
    edges = histogram.start + histogram.width * np.arange(len(histogram.counts) + 1)
    counted, _ = np.histogram(numbers.astype(np.float64), edges)
    assert counted.tolist() == list(histogram.counts)
    assert histogram.count == numbers.size
    assert (histogram.low, histogram.high) == (numbers.min(), numbers.max())


def test_a_tensor_of_zeros_has_a_histogram():
    histogram = compact(Histogram().including(np.zeros(7, np.float32)))
    assert histogram.count == histogram.zeros == 7


def test_what_was_written_is_read_again(tmp_path):
    found = {"a b": seen(np.arange(9.0)), "ü": seen(-np.ones(4))}
    path = path_beside(tmp_path / "net.table")
    write_observations(path, found, "0123")
    assert path.name == "net.table.observed.npz"
    assert read_observations(path, "0123") == found
    assert read_observations(path, "") == found
    assert read_observations(path, "4567") == {}, "those of another model"


def test_a_table_is_the_same_without_its_histograms(tmp_path):
    path = tmp_path / "net.table"
    table = ThresholdTable({"x": Threshold("x", 2.0, -2.0, 2.0)})
    write_thresholds(path, table)
    assert read_table(path).observations == {}
    write_observations(path_beside(path), {"x": seen(np.arange(3.0))}, "")
    with_them = read_table(path)
    assert set(with_them.observations) == {"x"}
    assert with_them.digest == table.digest


def test_a_damaged_file_is_named(tmp_path):
    path = path_beside(tmp_path / "net.table")
    path.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(InputError, match="file of histograms") as caught:
        read_observations(path, "")
    assert caught.value.file == str(path)


def test_calibration_says_what_all_methods_would_and_what_the_best_measured():
    digits = np.load("sample_models/digits_test.npz")["images"][:4]
    model = explorer.load("sample_models/digits_mlp.onnx")
    table = explorer.calibrate(model, {model.inputs[0].name: digits}, corrections=())
    assert set(table.observations) == set(table.thresholds)
    for observed in table.observations.values():
        assert [c.method for c in observed.candidates] == list(RANGES)
        widest = observed.candidates[0]
        assert observed.histogram.low >= widest.low and observed.histogram.high <= widest.high
        measured = [c.outputs_db for c in observed.candidates if c.outputs_db is not None]
        assert measured and all(10 < decibels < 90 for decibels in measured)
    plain = explorer.calibrate(model, {"image": digits}, method="mse", corrections=())
    candidates = [c for observed in plain.observations.values() for c in observed.candidates]
    assert all(c.outputs_db is None for c in candidates), "nobody measured them"
