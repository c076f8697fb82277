"""A small decoder in onnxruntime's operators and in ONNX's: prompt and next token, against
onnxruntime, interpreted and as C."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.accuracy.oracle import reference
from explorer.importers.onnx import from_proto, to_top
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.program import Snapshot

# By its path: xDSL's wheel installs a top-level package `tests`.
_FILE = Path(__file__).parent / "language_models.py"
_SPEC = importlib.util.spec_from_file_location("language_models", _FILE)
assert _SPEC is not None and _SPEC.loader is not None
models = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(models)

DOMAINS = {"onnxruntime": models.MICROSOFT, "onnx": ""}
TOKENS = np.array([[3, 7, 1, 30], [9, 9, 2, 5]])
# Two blocks of float32 products of up to 96 elements, in another order.
TOLERANCE = 1e-5


@pytest.fixture(scope="module", params=DOMAINS.values(), ids=DOMAINS)
def decoder(request):
    """The model; inputs and expected outputs of the prompt, and of the token behind it."""
    model = from_proto(models.language_model(request.param))
    prompt = models.model_inputs(TOKENS)
    first = _expected(model, prompt)
    token = models.model_inputs(np.array([[4], [8]]), first)
    return model, {"prompt": (prompt, first), "token": (token, _expected(model, token))}


def _expected(model, inputs):
    return reference(model, inputs, [value.name for value in model.outputs])


def _sizes(inputs):
    batch, rows = inputs["input_ids"].shape
    total = inputs["attention_mask"].shape[1]
    return {"batch": batch, "rows": rows, "past": total - rows, "total": total}


def _assert_close(found, expected):
    assert set(found) == set(expected)
    for name, array in expected.items():
        tolerance = TOLERANCE * np.abs(array).max()
        assert np.allclose(found[name], array, rtol=0, atol=tolerance), name


@pytest.mark.parametrize("step", ["prompt", "token"])
def test_the_imported_program_decodes(decoder, step):
    model, steps = decoder
    inputs, expected = steps[step]
    module, weights = to_top(model, _sizes(inputs))
    _assert_close(outputs_by_name(module, Snapshot(module, weights).run(inputs)), expected)


@pytest.mark.sampled(1)
def test_the_compiled_program_decodes_behind_its_past(decoder):
    model, steps = decoder
    inputs, expected = steps["token"]
    compiled = explorer.compile(model, dimensions=_sizes(inputs))
    _assert_close(compiled.run(inputs), expected)


def test_a_compiled_prompt_has_an_empty_past():
    model = from_proto(models.language_model(models.MICROSOFT))
    inputs = models.model_inputs(TOKENS)
    compiled = explorer.compile(model, dimensions=_sizes(inputs))
    assert "imported at batch = 2" in compiled["import"].description
    _assert_close(compiled.run(inputs), _expected(model, inputs))
