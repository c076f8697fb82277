"""What lesson 13 says, and what its cells show. The network of its end runs with the notebooks."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

from explorer.course import exercises

lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
KEY = {"fast": 256, "waits": "token", "faster": False, "stuck": "the last"}


@pytest.fixture(scope="module")
def lesson():
    lesson = lessons.Lesson("13_compile_for_an_npu")
    lesson.run("cell-18", KEY)
    return lesson


def test_predictions_answered_with_the_key_are_right(lesson):
    cells = ("cell-03", "cell-08", "cell-10", "cell-16")
    assert [lesson.shown[cell].state for cell in cells] == ["right"] * 4


def test_the_convolution_is_as_large_as_the_text_says(lesson):
    _, height, width = lesson["layer"].output_shape
    assert lesson["layer"].weights.size * height * width == 589_824
    assert "takes 5184 bytes of inputs, which has 4096" in lesson.printed["cell-05"]
    assert 18 * 18 * 16 == 5184 and 2 * 6 * 18 * 16 <= 4096  # "which fits twice"


def test_two_buffers_in_one_bank_lose_and_in_two_banks_win(lesson):
    single, double, overlapped = (lesson[n] for n in ("single", "double", "overlapped"))
    assert overlapped.cycles < single.cycles < double.cycles
    stalls = double.stalls["compute"]
    assert max(stalls, key=stalls.get) == "bank" and "bank" not in single.stalls["compute"]
    assert "bank" not in overlapped.stalls["compute"]
    for kind in ("activations", "weights"):  # "The bytes stay the same, but for micro-operations"
        loaded = [found.counters.loaded_bytes[kind] for found in (single, double)]
        assert loaded[0] == loaded[1]
    assert "b" in lesson["lanes"](double).splitlines()[1].removeprefix("compute")


def test_the_lost_token_stops_the_last_tile(lesson):
    assert "it waits for a token of the queue load" in str(lesson["findings"][0])
    assert "it waits forever" in lesson.printed["cell-18"]
    texts = lesson.printed["cell-14"].splitlines()
    assert "push_after" in texts[lesson["first"]] and any("pop_before" in text for text in texts)


def test_better_sizes_are_judged_by_their_cycles(lesson):
    run, banked = lesson["run"], lesson["banked"]
    better = exercises.takes_fewer_cycles(
        lambda sizes: run(banked, sizes=sizes, buffers=2)[1].cycles, lesson["overlapped"].cycles
    )
    assert better((4, 16, 2, 1)) is True
    assert "cycles" in better((2, 16, 2, 2)) and "inputs" in better((8, 16, 2, 2))
    for answer in (None, 4, "4", (4, 16), (4, 16, 2, 2.0), (0, 16, 2, 2)):
        assert better(answer) is not True
    lessons.refusals(better, {"four whole numbers": (4, 16), "at least one": (0, 1, 1, 1)})
