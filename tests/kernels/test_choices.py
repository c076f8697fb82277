"""Overrides of choices that a schedule has on some processors only."""

import ast
from pathlib import Path

import pytest

from explorer.kernels import schedules
from explorer.kernels.loops.nest import ScheduleError
from explorer.kernels.schedules.choices import NEUTRAL, Choices

# Each takes the name from its caller, where the test finds the call.
INDIRECT = {"_choose": 1}


def names_of_choices():
    """The first argument of each call of `choices.word` and `choices.number` in the schedules."""
    for file in Path(schedules.__file__).parent.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
            function = call.func
            if isinstance(function, ast.Attribute) and function.attr in ("word", "number"):
                argument = call.args[0]
            elif isinstance(function, ast.Name) and function.id in INDIRECT:
                argument = call.args[INDIRECT[function.id]]
            else:
                continue
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield argument.value


def test_every_choice_of_a_schedule_has_a_neutral_value_or_is_listed_without_one():
    assert set(names_of_choices()) == set(NEUTRAL)


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, v in NEUTRAL.items() if v is not None])
def test_a_neutral_value_is_accepted_by_a_schedule_without_the_choice(name, value):
    for given in (value, str(value)):
        choices = Choices("conv", {name: given, "unroll": 2})
        choices.number("unroll", 1, (1, 2))
        assert choices.finish() == {"unroll": 2}
        assert [knob.address for knob in choices.knobs] == ["unroll"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"prefetch": "weights"}, "prefetch = weights; this kernel .* only none is legal"),
        ({"pixels": 4}, "pixels = 4; this kernel has no such choice, only 1 is legal"),
        ({"vectors": "1.0"}, "vectors = 1.0; this kernel .* only 1 is legal"),
        ({"rows": 1, "instruction": "matrix"}, "instruction = matrix; .* only dot is legal"),
        ({"depth": 1}, "there is no choice 'depth'; there are: none"),
        ({"prefetches": "none"}, "there is no choice 'prefetches'"),
    ],
    ids=str,
)
def test_other_values_are_refused_by_a_schedule_without_the_choice(given, reason):
    with pytest.raises(ScheduleError, match=reason):
        Choices("conv", given).finish()


def test_a_neutral_value_that_is_not_legal_where_the_choice_exists_is_refused():
    with pytest.raises(ScheduleError, match="pixels = 1; 2, 4 are legal"):
        Choices("conv", {"pixels": 1}).number("pixels", 4, (2, 4))
