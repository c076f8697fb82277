"""Random models are valid and repeatable, and the devices agree with onnxruntime on them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

from explorer.compilation import Compilation
from verification.conformance.oracle import OracleRepresentation
from verification.random_models import differential
from verification.random_models.differential import DEFECTS, compare_seed, difference
from verification.random_models.draft import (
    MAX_ELEMENTS,
    STORED,
    TYPES,
    Draft,
    NotPossible,
    with_inner,
)
from verification.random_models.generation import OPSETS, generate
from verification.random_models.recipes import NEVER, RECIPES
from verification.random_models.reducing import reduce_defect
from verification.random_models.tried import Tried, known_operators

made = cache(generate)
"""For tests that look at the models of many seeds: most of them at the same ones."""


def open_here(compilation: Compilation):
    return compilation.open(isolated=False)


def test_a_seed_is_one_model():
    first, second = generate(3), generate(3)
    assert first.model == second.model
    assert first.model != generate(4).model
    for name, array in first.inputs.items():
        np.testing.assert_array_equal(array, second.inputs[name])


def test_models_are_valid_and_their_inputs_fit():
    for seed in range(80):
        generated = made(seed)
        onnx.checker.check_model(generated.model)
        declared = {i.name: i.type.tensor_type for i in generated.model.graph.input}
        assert declared.keys() == generated.inputs.keys()
        for name, array in generated.inputs.items():
            dims = declared[name].shape.dim
            sizes = [generated.sizes[d.dim_param] if d.dim_param else d.dim_value for d in dims]
            assert tuple(sizes) == array.shape
            assert array.size <= MAX_ELEMENTS
        assert generated.operators


def test_recipes_make_the_operators_that_the_importer_knows():
    """All but those that have a reason; drawn one by one, because a seed draws few of them."""
    made: set[str] = set()
    known = known_operators()
    assert len(known) > 200
    for seed in range(27):
        made |= drawn_of_all(seed)
        if not known - made - set(NEVER):
            break
    assert known - made - set(NEVER) == set()
    assert not made & set(NEVER)


@pytest.mark.sweep
def test_no_recipe_makes_what_is_never_made():
    assert not set().union(*map(drawn_of_all, range(27))) & set(NEVER)


def drawn_of_all(seed: int) -> set[str]:
    """The operators that all recipes draw, each with this seed."""
    found: set[str] = set()
    for recipe in RECIPES:
        opset = max(OPSETS[seed % len(OPSETS)], recipe.since)
        draft = Draft(np.random.default_rng(seed), opset, RECIPES)
        with suppress(NotPossible):
            recipe.draw(draft)
        found |= {node.op_type for node in with_inner(draft.nodes)}
    return found


def test_models_have_all_types():
    missing = {*TYPES, *STORED}
    for seed in range(600):
        missing -= {dtype for _, dtype in made(seed).types()}
        if not missing:
            break
    assert not missing


def test_a_graph_inside_reads_what_is_outside():
    generated = next(g for g in map(made, range(400)) if "Loop" in g.operators)
    loop = next(n for n in with_inner(generated.model.graph.node) if n.op_type == "Loop")
    body = loop.attribute[0].g
    assert len(body.input) >= 3
    assert body.node


def test_most_models_run_in_onnxruntime():
    rejected = 0
    for seed in range(100):
        generated = made(seed)
        try:
            OracleRepresentation(generated.model).run(list(generated.inputs.values()))
        except Exception:
            rejected += 1
    assert rejected < 5


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(40000, 40200, 40))
def test_the_interpreter_agrees_with_onnxruntime(first: int):
    seeds = range(first, first + 40)
    answers = [compare_seed(seed, ("INTERPRETER",), open_here) for seed in seeds]
    assert [a for a in answers if a["status"] in DEFECTS] == []
    assert sum(a["status"] == "agreed" for a in answers) > 30
    tried = Tried.of(answers)
    assert len(tried.operators) > 60
    assert len(tried.counts) > 100


def test_interpreter_and_c_agree_on_a_plain_model():
    assert compare_seed(plain_seed(), ("INTERPRETER", "CPU"), open_here)["status"] == "agreed"


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("first", range(1000, 1040, 10))
def test_interpreter_and_c_agree_with_onnxruntime(first: int):
    seeds = range(first, first + 10)
    answers = [compare_seed(seed, ("INTERPRETER", "CPU"), open_here) for seed in seeds]
    assert [a for a in answers if a["status"] in DEFECTS] == []
    assert sum(a["status"] == "agreed" for a in answers) > 5


@pytest.mark.opencl
def test_opencl_agrees_on_a_plain_model(opencl_device_record):
    assert compare_seed(plain_seed(), ("OPENCL",), open_here)["status"] == "agreed"


@pytest.mark.opencl
@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("first", range(1040, 1052, 4))
def test_opencl_agrees_with_onnxruntime(first: int, opencl_device_record):
    answers = [compare_seed(seed, ("OPENCL",), open_here) for seed in range(first, first + 4)]
    assert [a for a in answers if a["status"] in DEFECTS] == []
    assert any(a["status"] == "agreed" for a in answers)


PLAIN = {"Add", "Concat", "Max", "Min", "Mul", "Relu", "Reshape", "Sub", "Transpose"}


def plain_seed() -> int:
    """Of a model whose operators every device computes."""
    return next(seed for seed in range(200) if set(made(seed).operators) <= PLAIN)


class Wrong:
    """An executable whose numbers are slightly off."""

    def __init__(self, compilation: Compilation):
        self._right = compilation.open(isolated=False)

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: array + 1 for name, array in self._right.run(inputs).items()}

    def close(self) -> None:
        self._right.close()


def test_a_model_lies_there_while_it_is_tried(tmp_path, monkeypatch):
    """A process that crashes leaves it; one that agrees takes it away."""
    seen: list[list[str]] = []
    compare = differential._compared

    def look(*arguments):
        seen.append(sorted(path.name for path in tmp_path.iterdir()))
        return compare(*arguments)

    monkeypatch.setattr(differential, "_compared", look)
    answer = differential.compare_seed(1, ("INTERPRETER",), open_here, tmp_path)

    assert seen == [["1.npz", "1.onnx"]]
    assert answer["status"] not in differential.DEFECTS
    assert not list(tmp_path.iterdir())


def test_a_wrong_number_is_found_and_the_model_written_out(tmp_path):
    seed = plain_seed()
    answer = compare_seed(seed, ("CPU",), Wrong, tmp_path)  # pyright: ignore[reportArgumentType]
    assert answer["status"] == "differs"
    assert onnx.load(tmp_path / f"{seed}.onnx") == generate(seed).model
    with np.load(tmp_path / f"{seed}.npz") as arrays:
        assert set(arrays) == set(generate(seed).inputs)


class WrongChild:
    """Answers in this process, on a device that is off by one."""

    def ask(self, request: dict, seconds: float) -> dict:
        files = Path(request["model"]), Path(request["inputs"])
        return differential.compare_files(*files, request["seed"], request["devices"], Wrong)

    def close(self) -> None:
        pass


def test_a_defect_is_reduced(tmp_path):
    seed = plain_seed()
    compare_seed(seed, ("CPU",), Wrong, tmp_path)  # pyright: ignore[reportArgumentType]
    request = {"seed": seed, "devices": ["CPU"]}
    told = reduce_defect(tmp_path, str(seed), request, WrongChild)  # pyright: ignore[reportArgumentType]
    small = onnx.load(tmp_path / f"{seed}.small.onnx")
    assert len(small.graph.node) == 1
    assert told.startswith(small.graph.node[0].op_type)
    assert "differs" in (tmp_path / f"{seed}.small.md").read_text()
    (tmp_path / f"{seed}.npz").unlink()
    assert "not reduced: no such file" in reduce_defect(
        tmp_path,
        str(seed),
        request,
        WrongChild,  # pyright: ignore[reportArgumentType]
    )


def test_a_model_that_ends_the_process_was_written_out_before(tmp_path):
    """What is right is removed again."""
    seed = plain_seed()
    held = []

    def open_and_look(model, *rest):
        held.append(sorted(path.name for path in tmp_path.iterdir()))
        return open_here(model, *rest)

    assert compare_seed(seed, ("CPU",), open_and_look, tmp_path)["status"] == "agreed"
    assert held == [[f"{seed}.npz", f"{seed}.onnx"]]
    assert not list(tmp_path.iterdir())


ONES = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("actual", "expected", "found"),
    [
        (ONES, ONES, ""),
        (ONES * np.float32(1.00001), ONES, ""),
        (ONES * np.float32(1.001), ONES, "max relative 1.0e-03"),
        (ONES.astype(np.float64), ONES, "float64 of shape (3,) instead of float32 of shape (3,)"),
        (np.ones((3, 1), np.float32), ONES, "float32 of shape (3, 1) instead of"),
        (np.array([1, np.nan, 1], np.float32), ONES, "infinities or NaN stand elsewhere"),
        (ONES, np.array([1, np.inf, 1], np.float32), "infinities or NaN stand elsewhere"),
        (np.array([1, 2]), np.array([1, 3]), "1 of 2 elements differ"),
        (np.array([np.inf, 1]), np.array([np.inf, 1]), ""),
    ],
)
def test_differences_are_told(actual, expected, found):
    told = difference(actual, expected)
    assert told.startswith(found) if found else told == ""


def test_a_coarser_type_on_the_way_widens_the_tolerance():
    assert difference(ONES * np.float32(1.001), ONES, "float16") == ""
    assert difference(ONES * np.float32(1.001), ONES, "float64") != ""
    assert difference(np.array([1, 2]), np.array([1, 3]), "float16") != ""
