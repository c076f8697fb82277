"""What lesson 1 says, and what its cells show."""

import re
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))


@pytest.fixture(scope="module")
def lesson():
    lesson = lessons.Lesson("01_first_compilation")
    lesson.run("cell-29")
    return lesson


def test_the_file_has_what_the_text_finds_in_it(lesson):
    for operator in ("BatchNormalization", "Relu", "Identity", "Dropout"):
        assert f"  {operator} " in lesson.printed["cell-01"]


def test_every_norm_is_folded_and_the_numbers_stay_within_rounding(lesson):
    lines = lesson.printed["cell-11"].splitlines()
    applied = [line for line in lines if line.startswith("applied  fold-batch-norm/")]
    norms = sum(node.operator == "BatchNormalization" for node in lesson["model"].nodes)
    assert len(applied) == norms == lesson.printed["cell-13"].count(" computes what ")
    assert all(float(line.split()[-1]) < 1e-5 for line in lesson.printed["cell-13"].splitlines())


def test_activations_are_fused_and_layouts_change_types_only(lesson):
    assert any(event.applied for event in lesson.shown["cell-15"].events)
    assert "nchw" in lesson.printed["cell-17"]
    assert {change.field for change in lesson["diff"].changed} >= {"type"}


def test_the_ladder_begins_with_a_convolution_as_one_would_write_it(lesson):
    first = lesson.shown["cell-21"]
    assert lesson.printed["cell-19"].startswith("lower ")
    lines = [line.strip() for line in first.lines]
    loops = [line.split()[1] for line in lines if line.startswith("affine.for %")]
    assert loops[4:11] == [f"%{name}" for name in ("n", "o", "i", "j", "c", "p", "q")]
    assert loops[0] == "%init_n"
    assert len(lines) < 50


def test_the_c_has_vectors_of_single_precision(lesson):
    source = "\n".join(lesson.shown["cell-23"].lines)
    assert "float8" in source or "float16" in source or "float4" in source
    assert lesson.prose.count("it is *not* half precision") == 1


def test_memory_is_planned_above_its_bound(lesson):
    memory = lesson.shown["cell-25"]
    assert memory.bound_bytes <= memory.peak_bytes < memory.total_bytes


def test_digits_are_recognized_and_all_passes_hold(lesson):
    recognized = re.search(r"(\d+) of 100 test pictures", lesson.printed["cell-27"])
    assert recognized is not None
    assert int(recognized[1]) >= 95
    assert lesson.shown["cell-29"].passed


def test_what_the_card_says_about_passes_is_no_name_of_the_notebook(lesson):
    assert "trace.passes" not in repr(lesson.shown["cell-05"])
    assert lesson["c"].passes[0].events is not None
