"""Numbers are short, and what is no number says so."""

import pytest

from explorer.views import numbers


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1,023 B"),
        (1024, "1 KiB"),
        (10.5 * 1024, "10.5 KiB"),
        (1_153_434, "1.1 MiB"),
        (14.25 * 1024, "14.3 KiB"),
        (1024**2 - 1, "1 MiB"),
        (3 * 1024**3, "3 GiB"),
        (-2048, "−2 KiB"),
    ],
)
def test_sizes_are_binary(size_bytes: float, text: str) -> None:
    assert numbers.format_bytes(size_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1.25, "1.3 s"),
        (0.0029, "2.9 ms"),
        (0.00034, "340 µs"),
        (0.0009996, "1 ms"),
        (85e-9, "85 ns"),
        (3.2e-10, "0.32 ns"),
        (125, "125 s"),
    ],
)
def test_times_take_the_unit_that_fits(seconds: float, text: str) -> None:
    assert numbers.format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("picojoules", "text"),
    [
        (0, "0 pJ"),
        (0.3, "0.3 pJ"),
        (999.6, "1 nJ"),
        (20_680_099, "20.7 µJ"),
        (3e12, "3,000 mJ"),
        (float("inf"), "∞"),
    ],
)
def test_energies_take_the_unit_that_fits(picojoules: float, text: str) -> None:
    assert numbers.format_picojoules(picojoules) == text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (0, "0"),
        (1.2e-6, "1.2e-6"),
        (0.000_999, "1.0e-3"),
        (0.0153, "0.015"),
        (12.34, "12"),
        (4.2e12, "4.2e12"),
        (float("inf"), "∞"),
        (float("nan"), "not a number"),
    ],
)
def test_errors_have_two_digits(error: float, text: str) -> None:
    assert numbers.format_error(error) == text


def test_counts_carry_their_noun() -> None:
    assert numbers.format_count(65) == "65 ops"
    assert numbers.format_count(1) == "1 op"
    assert numbers.format_count(1200, "pass", "passes") == "1,200 passes"


def test_changes_line_up() -> None:
    assert numbers.format_change(17, 14) == "−3"
    assert numbers.format_change(14, 17) == "+3"
    assert numbers.format_change(14, 14) == "="


def test_amounts_shares_and_ratios() -> None:
    assert numbers.format_amount(832) == "832"
    assert numbers.format_amount(12_345) == "12.3 k"
    assert numbers.format_amount(1_803_000_000) == "1.8 G"
    assert numbers.format_percent(0.384) == "38 %"
    assert numbers.format_percent(0.0038) == "0.38 %"
    assert numbers.format_ratio(3, 1) == "3× less"
    assert numbers.format_ratio(100, 121) == "21% more"
    assert numbers.format_ratio(100, 97) == "3% less"
    assert numbers.format_ratio(100, 100.2) == "≈"
    assert numbers.format_ratio(100, 250) == "2.5× more"
    assert numbers.format_ratio(2, 2) == "="
    assert numbers.format_ratio(0, 3e-7) == "0 → 3.0e-7"
    assert numbers.format_decibels(95.6) == "96 dB"
    assert numbers.format_decibels(float("inf")) == "equal"
