"""What lesson 11 says, and what its cells show."""

from itertools import pairwise
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

from explorer.course import exercises
from explorer.course.predictions import check

lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
KEY = {"left": 32, "passes": True, "half": "reads"}


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        # Without the keyword spotter, as in a clone.
        patch.setenv("EXPLORER_MODELS", str(tmp_path_factory.mktemp("models")))
        lesson = lessons.Lesson("11_quantization")
        lesson.run("cell-19", KEY)
        yield lesson


def numbers(text: str) -> list[float]:
    """Those that stand before `dB`."""
    words = text.replace(",", " ").split()
    return [float(number) for number, unit in pairwise(words) if unit == "dB"]


def test_predictions_answered_with_the_key_are_right(lesson):
    cells = ("cell-03", "cell-05", "cell-07")
    assert [lesson.shown[cell].state for cell in cells] == ["right"] * 3


def test_one_of_40_pictures_is_eight_times_as_bright(lesson):
    assert len(lesson["calibration"]) == 40
    largest = lesson["calibration"].max(axis=(1, 2, 3))
    assert sorted(largest)[-1] == 8 and max(sorted(largest)[:-1]) == 1
    assert lesson["tested"].max() == 1
    assert lesson["pixels"].high == pytest.approx(8, rel=1e-5)


def test_the_program_is_right_and_not_good(lesson):
    assert lesson["accuracy"].passed and lesson["report"].bit_exact
    bad, good = numbers(lesson.printed["cell-09"])
    assert good > bad + 6


def test_reading_costs_more_than_weights_and_the_picture_is_not_the_worst(lesson):
    assert lesson["reads"] > len(lesson["layers"]) / 2
    assert lesson["culprit"] != "image"  # "Not that of the picture: its layer is not the costliest"
    seen = next(t for t in lesson["c"].quantization.tensors if t.name == lesson["culprit"])
    histogram = seen.observed.histogram
    below = [c for i, c in enumerate(histogram.counts) if i * histogram.width < seen.high / 4]
    assert sum(below) > 0.95 * histogram.count  # "nearly all numbers lie in the first part"


def test_one_threshold_repairs_one_layer(lesson):
    before, after, network, repaired = numbers(lesson.printed["cell-11"])
    assert after > before + 6
    assert repaired > network


def test_the_kernel_takes_bytes_and_gives_bytes(lesson):
    printed = lesson.printed["cell-13"]
    assert "uint8_t *restrict x" in printed and "uint8_t *restrict y" in printed
    assert "const int8_t *restrict w" in printed and "const float *restrict ratios" in printed
    assert "dot" in printed.partition("ratios")[2]


def test_without_the_keyword_spotter_the_cell_says_how_to_get_it(lesson):
    assert "tiny_results_v0.7" in lesson.printed["cell-15"]
    assert "alibaba_kws.onnx" in lesson.printed["cell-15"]


def test_gptq_takes_no_bytes_and_makes_sums_better(lesson):
    nearest, gptq = numbers(lesson.printed["cell-17"])
    assert gptq > nearest + 3
    for weights in lesson["blocks"]:
        assert weights.weights_db < weights.nearest_db and weights.sums_gain_db > 0
    sizes = [line.split()[1:5:4] for line in lesson.printed["cell-17"].splitlines()]
    assert sizes[0] == sizes[1]


def test_exercise_1_wants_half_of_the_error_by_thresholds(lesson):
    c = lesson["c"]
    judge = exercises.nearer_by(c, {"image": lesson["tested"][:4]}, 6.0)
    modes = {f"quantize-tensors/mode/{lesson['culprit']}": "INT16"}
    slightly = f"quantize-tensors/threshold/{c.quantization.tensors[0].name}"
    lessons.refusals(
        judge,
        {
            "a compilation, such as c.fork(...)": 6,
            "at least": c.fork(decisions={slightly: 1.01}),
            "no threshold was decided": c,
            "change thresholds only": c.fork(decisions=modes),
            "no threshold was decided otherwise": lesson["saved"],
        },
    )
    thresholds = {
        f"quantize-tensors/threshold/{tensor.name}": tensor.threshold
        for tensor in lesson["saved"].quantization.tensors
    }
    assert check(c.fork(decisions=thresholds), judge).is_right


def test_exercise_2_wants_a_byte(lesson):
    judge = exercises.stored_byte(0.25, 0.0, 1.0)
    lessons.refusals(judge, {"that byte stands for 0.502": 128, "a number": "64"})
    assert check(64, judge).is_right


def test_exercise_3_wants_one_tensor_in_floats(lesson):
    c, culprit = lesson["c"], lesson["culprit"]
    judge = exercises.keeps_float(c, culprit)
    mode = "quantize-tensors/mode/"
    lessons.refusals(
        judge,
        {
            f"{culprit} is still INT8": c,
            "nothing is quantized there": lesson["plain"],
            "image is otherwise, too": c.fork(
                decisions={f"{mode}{culprit}": "F32", f"{mode}image": "F32"}
            ),
        },
    )
    assert check(c.fork(decisions={f"{mode}{culprit}": "F32"}), judge).is_right
