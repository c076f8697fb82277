"""Schedules as data: lists of steps that are read, checked, replayed and refused."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.kernels import schedules
from explorer.kernels.loops.nest import ScheduleError
from explorer.kernels.schedules import schedule_kernel
from explorer.kernels.schedules.listing import (
    GIVEN,
    MAX_STEPS,
    as_data,
    as_text,
    parse_steps,
    schedule_given,
)
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.schedule import ScheduledKernel
from explorer.kernels.steps.catalogue import STEPS
from explorer.targets import load_target

MODELS = Path(__file__).parents[2] / "sample_models"
NAMES = sorted(path.name for path in MODELS.glob("*.onnx"))
MACHINE = Machine(vector_floats=16, language="c")


def kernels_of(name: str, target: str) -> dict[str, ScheduledKernel]:
    overrides = {"vector_floats": 16}
    compilation = explorer.compile(MODELS / name, load_target(target, overrides))
    return dict(compilation._scheduled)


@pytest.fixture(scope="module")
def convolution() -> ScheduledKernel:
    """A convolution of 16 x 8 x 8 pixels with a fused epilogue."""
    kernels = kernels_of("digits_cnn.onnx", "cpu")
    return next(k for k in kernels.values() if k.choices["schedule"] == "direct")


def listed(kernel: ScheduledKernel) -> list[dict]:
    return json.loads(as_text(as_data(kernel.steps[-1].calls)))


def rescheduled(kernel: ScheduledKernel, data: object) -> ScheduledKernel:
    return schedule_given(kernel.steps[0].origin, MACHINE, kernel.given_packs, data)


def refusal(kernel: ScheduledKernel, data: object) -> str:
    with pytest.raises(ScheduleError) as caught:
        rescheduled(kernel, data)
    return caught.value.reason


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", ["cpu", pytest.param("opencl", marks=pytest.mark.opencl)])
def test_the_unchanged_list_gives_the_same_program(name, target):
    for kernel in kernels_of(name, target).values():
        language = "opencl" if target == "opencl" else "c"
        again = schedule_given(
            kernel.steps[0].origin,
            Machine(vector_floats=16, language=language),
            kernel.given_packs,
            listed(kernel),
        )
        assert str(again.function) == str(kernel.function)
        assert {n: list(p) for n, p in again.packs.items()} == {
            n: list(p) for n, p in kernel.packs.items()
        }
        assert [step.name for step in again.steps] == [step.name for step in kernel.steps]


def test_the_list_names_every_step_of_the_catalogue_by_its_function():
    assert all(name == step.__name__ for name, step in STEPS.items())


def test_every_step_that_a_schedule_applies_is_in_the_catalogue():
    """Otherwise the list of a kernel that has it could not be given back."""
    folder = Path(schedules.__file__).parent
    applied: set[str] = set()
    for path in folder.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        applied |= set(re.findall(r"schedule\.(?:apply|attempt)\(\s*(\w+)", text))
    assert {"split", "fuse_consumer"} <= applied
    assert applied - {"function"} <= set(STEPS)


def test_an_edited_list_makes_another_nest_of_the_same_kernel(convolution):
    data = listed(convolution)
    plain = [row for row in data if row["step"] != "unroll"]

    again = rescheduled(convolution, plain)

    assert "unroll" not in [step.name for step in again.steps]
    assert str(again.function) != str(convolution.function)
    assert again.choices == {"schedule": GIVEN, GIVEN: as_text(plain)}


def test_a_list_is_a_choice_of_the_kernel_and_another_schedule_puts_it_aside(convolution):
    origin, packs = convolution.steps[0].origin, convolution.given_packs
    text = as_text(listed(convolution))

    followed = schedule_kernel(origin, MACHINE, packs, {GIVEN: text})
    aside = schedule_kernel(origin, MACHINE, packs, {GIVEN: text, "schedule": "plain"})

    assert followed.choices["schedule"] == GIVEN
    assert set(followed.knobs[0].choices) == {"direct", "plain", GIVEN}
    assert aside.choices["schedule"] == "plain"
    with pytest.raises(ScheduleError, match="pixels = 3 has no effect beside a list of steps"):
        schedule_kernel(origin, MACHINE, packs, {GIVEN: text, "pixels": 3})


def changed(data: list[dict], position: int, **values: object) -> list[dict]:
    return [{**row, **values} if k == position else row for k, row in enumerate(data)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{", "no JSON"),
        ("7", "a list of steps is expected"),
        ({"step": "split"}, "a list of steps is expected"),
        ([["split"]], "step 1 has no name"),
        ([{"step": 3}], "step 1 has no name"),
        ([{"step": "spilt"}], "step 1: there is no step 'spilt' \\(did you mean 'split'"),
        ([{"step": "__import__"}], "there is no step '__import__'"),
        ([{"step": "split", "loop": "j"}], "into, factors missing; it takes loop, into, factors"),
        ([{"step": "unroll", "loop": "j"}], "no argument 'loop' \\(did you mean 'loops'"),
        ([{"step": "unroll", "loops": 3}], "loops is 3, expected a name"),
        ([{"step": "unroll", "loops": "j */ x"}], "letters, digits and underscores"),
        ([{"step": "cut", "loop": "j", "at": True}], "at is True, expected a whole number"),
        (
            [{"step": "split", "loop": "j", "into": "a b", "factors": [0]}],
            "factors is \\[0\\], expected a list of whole numbers",
        ),
        ([{"step": "pack", "buffer": "x", "layout": [[0, 1]]}], "layout is no layout"),
        ([{"step": "unroll", "loops": "zz"}], "step 1, unroll: there is no loop 'zz'; the loops"),
        ([{"step": "unroll", "loops": "j"}] * (MAX_STEPS + 1), "at most 2000"),
    ],
)  # fmt: skip
def test_a_list_that_is_none_is_refused_by_step_and_reason(convolution, data, message):
    assert re.search(message, refusal(convolution, data))


def test_a_refusal_says_which_step_is_illegal_and_what_would_be_possible(convolution):
    data = listed(convolution)
    position = next(k for k, row in enumerate(data) if row["step"] == "split")
    said = refusal(convolution, changed(data, position, factors=[7]))
    assert said.startswith(f"step {position + 1}, split: 7 does not divide the 16 iterations of o")
    assert "cut o at 14 first" in said


def test_a_dependence_is_not_broken(convolution):
    data = [{"step": "parallel", "loops": "n o i j c"}]
    assert "iterations of c touch the same elements" in refusal(convolution, data)


def test_activations_keep_the_layout_in_which_they_come(convolution):
    said = refusal(convolution, [])
    assert said.startswith("output y is left row-major, but it comes as [[0,1,null],[1,16,null],")
    assert said.endswith("step pack has to say so")


def test_a_layout_that_gives_two_elements_one_place_is_refused(convolution):
    (weight,) = [n for n, p in convolution.packs.items() if n == "w"]
    layout = [[0, 1, None], [1, 1, None], [2, 1, None]]
    said = refusal(convolution, [{"step": "pack", "buffer": weight, "layout": layout}])
    assert "dimension 3 is not cut into digits" in said


def test_what_the_compiler_would_write_out_for_ever_is_refused(convolution):
    plain = schedule_kernel(
        convolution.steps[0].origin, MACHINE, convolution.given_packs, {"schedule": "plain"}
    )
    rows = [row for row in listed(plain) if row["step"] != "parallel"]
    assert rescheduled(convolution, rows)
    written_out = {"step": "unroll", "loops": "o i j c p q"}
    assert "would be written out; at most" in refusal(convolution, [*rows, written_out])


def test_a_vector_that_the_language_has_not_is_refused():
    kernels = kernels_of("digits_mlp.onnx", "cpu")
    matmul = next(k for name, k in kernels.items() if name.startswith("matmul"))
    bias = [{"step": "cut", "loop": "init_n", "at": 3}, {"step": "vectorize", "loop": "init_n"}]
    assert "a vector of 3 elements; there are 2, 4, 8, 16, 32, 64" in refusal(matmul, bias)
    bias[0]["at"] = 4
    assert rescheduled(matmul, bias)


def test_loops_cannot_be_nested_in_their_namesakes(convolution):
    data = [{"step": "split", "loop": "j", "into": "i jp", "factors": [2]}]
    assert "loop i would lie inside of a loop i" in refusal(convolution, data)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_is_done_to_a_list_it_is_followed_or_refused(convolution, data):
    """Steps dropped, doubled, exchanged or given other numbers: never another exception."""
    rows = listed(convolution)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(rows) - 1))
        other = data.draw(st.integers(0, len(rows) - 1))
        action = data.draw(st.sampled_from(["drop", "double", "exchange", "number"]))
        if action == "drop" and len(rows) > 1:
            del rows[position]
        elif action == "double":
            rows.insert(other, rows[position])
        elif action == "exchange":
            rows[position], rows[other] = rows[other], rows[position]
        elif "factors" in rows[position]:
            factors = data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=3))
            rows[position] = {**rows[position], "factors": factors}
    try:
        again = rescheduled(convolution, rows)
    except ScheduleError:
        return
    assert parse_steps("k", as_text(rows)) == list(again.steps[-1].calls)
