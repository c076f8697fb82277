"""Fused attention: its numbers, its choices, and what it falls back to."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseArrayBase, i64

from explorer.kernels.loops.row_wise import ROWS, rows_of_kernel
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.passes.lower.lower_to_kernels import define_kernel

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

# Sums of at most 100 products of float32 in another order, and exp by a polynomial: 2e-7 each.
TOLERANCE = 2e-6


def attention(
    queries: tuple[int, ...],
    keys: tuple[int, ...],
    columns: int,
    bias: tuple[int, ...] = (),
    more: str = "",
) -> str:
    """A program of one attention; shapes of queries and keys, columns of the values."""
    values, result = (*keys[:-1], columns), (*queries[:-1], columns)
    types = ["x".join([*map(str, s), "f32"]) for s in (queries, keys, values, bias, result)]
    q, k, v, b, y = (f"tensor<{kind}>" for kind in types)
    added, taken = (", bias = %b", f", %b : {b}") if bias else ("", "")
    return f"""
func.func @main(%q : {q}, %k : {k}, %v : {v}{taken}) -> ({y}) {{
  %y = top.attention(%q, %k, %v{added}) {{scale = 0.25{more}}} : {y}
  top.return(%y)
}}
"""


CASES = {
    "whole tiles": attention((1, 2, 16, 8), (1, 2, 32, 8), 32),
    "rows left over": attention((1, 3, 37, 12), (1, 3, 19, 12), 16),
    "columns left over": attention((2, 2, 9, 8), (2, 2, 33, 8), 21),
    "one query": attention((1, 4, 1, 16), (1, 4, 50, 16), 16),
    "one key": attention((1, 1, 5, 4), (1, 1, 1, 4), 4),
    "a bias for every row": attention((1, 2, 20, 8), (1, 2, 20, 8), 8, (20, 20)),
    "a bias for every head": attention((1, 2, 20, 8), (1, 2, 16, 8), 8, (1, 2, 1, 16)),
    "shared heads": attention((2, 6, 10, 8), (2, 2, 40, 8), 16),
    "shared heads and a bias": attention((1, 4, 7, 8), (1, 2, 7, 8), 8, (4, 7, 7)),
    "masked rows": attention((1, 2, 20, 8), (1, 2, 37, 8), 8, (20, 37), ", zero_masked = true"),
}
MASKED = "masked rows"


@pytest.fixture(scope="module")
def built():
    """All cases as one program: its kernels, what it computed and what is right."""
    texts = {f"a{index}": text for index, text in enumerate(CASES.values())}
    working = programs.program(programs.side_by_side(texts))
    source = working.snapshot
    inputs = programs.random_inputs(source)
    bias = inputs[f"a{list(CASES).index(MASKED)}_b"]
    bias[:9], bias[9:, 5:] = -np.inf, -np.inf
    results = programs.lower(working)
    kernels = results[-2].artifacts["kernels"]
    return kernels, programs.run_binary(results, inputs, "c"), source.run(inputs)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES)
def test_fused_attention_computes_what_its_operation_means(built, case):
    _, values, expected = built
    name = f"a{list(CASES).index(case)}_y"
    assert programs.max_relative(values[name], expected[name]) < TOLERANCE


def test_rows_that_are_masked_as_a_whole_are_zero(built):
    _, values, _ = built
    found = values[f"a{list(CASES).index(MASKED)}_y"]
    assert np.isfinite(found).all() and not found[:, :, :9].any() and found[:, :, 9:].all()


def test_attention_is_scheduled_fused_and_keeps_scores_out_of_memory(built):
    kernels, _, _ = built
    assert {kernel.choices["schedule"] for kernel in kernels.values()} == {"fused"}
    for kernel in kernels.values():
        names = [argument.name_hint for argument in kernel.function.body.block.args]
        assert "turned" in names
        assert not {"scores", "sums", "greatest", "total", "factor"} & set(names)


def kernel_of(text: str):
    working = programs.program(text)
    (operation,) = [op for op in working.module.walk() if op.name == "top.attention"]
    return define_kernel(operation)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("rows", [1, 2, 7, 14])
def test_every_choice_of_rows_is_legal_for_every_machine(lanes, rows):
    kernel = kernel_of(CASES["rows left over"])
    scheduled = schedule_kernel(
        kernel, Machine(vector_floats=lanes, language="c"), {}, {"rows": rows, "key_vectors": 1}
    )
    assert scheduled.choices["rows"] == rows
    assert scheduled.steps[-1].name == "parallel"


def test_steps_of_fused_attention_are_snapshots_that_can_be_looked_at():
    kernel = kernel_of(CASES["whole tiles"])
    names = [
        step.name
        for step in schedule_kernel(kernel, Machine(vector_floats=16, language="c"), {}).steps
    ]
    for step in ("merge", "distribute", "accumulate", "forward", "localize", "vectorize"):
        assert step in names


def test_attention_with_a_mask_of_booleans_has_the_plain_schedule():
    text = CASES["whole tiles"].replace("%v : ", "%m : tensor<16x32xi1>, %v : ")
    text = text.replace("(%q, %k, %v)", "(%q, %k, %v, mask = %m)")
    kernel = kernel_of(text)
    assert (
        schedule_kernel(kernel, Machine(vector_floats=16, language="c"), {}).choices["schedule"]
        == "plain"
    )


def test_arguments_that_go_take_their_rows_along():
    kernel = kernel_of(CASES["whole tiles"])
    numbers = list(range(len(kernel.body.block.args)))
    kernel.attributes[ROWS] = DenseArrayBase.from_list(i64, numbers)
    names = [argument.name_hint for argument in kernel.body.block.args]
    scheduled = schedule_kernel(kernel, Machine(vector_floats=16, language="c"), {}).function
    left = [argument.name_hint for argument in scheduled.body.block.args]
    assert left == ["x1", "x2", "x3", "y", "turned"]
    assert [names[number] for number in rows_of_kernel(scheduled)] == left
