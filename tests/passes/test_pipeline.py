"""All passes in their order keep what the sample models compute, value by value."""

import numpy as np
import pytest

from explorer.importers import load, to_top
from explorer.ir.rewriting import Names
from explorer.ir.rewriting.passes import Working
from explorer.passes import TOP_PIPELINE, top_pipeline
from explorer.passes.quantize.compute_without_floats import ComputeWithoutFloats

MODELS = ("digits_mlp", "digits_cnn", "digits_resnet", "digits_mobilenet", "digits_transformer")

# Weights with a folded batch norm are rounded once more, and errors travel through the layers.
TOLERANCE = 1e-5


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MODELS)
def test_every_value_with_an_origin_stays_the_source_models(check_pipeline, sample_models, name):
    module, weights = to_top(load(sample_models / f"{name}.onnx"))
    working = Working(module=module, weights=weights, names=Names.of(module))
    with np.load(sample_models / "digits_test.npz") as arrays:
        image = arrays["images"][:1].astype(np.float32)
    results = check_pipeline(working, top_pipeline({}), {"image": image}, TOLERANCE)
    first, last = results[0].after, results[-1].after
    assert last.operation_count < first.operation_count
    assert last.macs == first.macs
    computed = {i for i, op in last.operations.items() if op.results and op.name != "top.weight"}
    # A number that moves ahead of a product makes other values of its operand's matmul, reshape
    # and transpose than the source model has.
    rewrites = [r for result in results for r in result.rewrites if r.applied]
    scaled = sum(r.rule == "scale-operand" for r in rewrites)
    assert len(computed - set(last.origins)) == 3 * scaled


@pytest.mark.parametrize("batch", [1, 3])
def test_a_symbolic_batch_takes_any_size(check_pipeline, sample_models, batch):
    module, weights = to_top(load(sample_models / "digits_mlp.onnx"))
    working = Working(module=module, weights=weights, names=Names.of(module))
    with np.load(sample_models / "digits_test.npz") as arrays:
        images = arrays["images"][:batch].astype(np.float32)
    passes = top_pipeline({"batch": batch})
    last = check_pipeline(working, passes, {"image": images}, TOLERANCE)[-1].after
    assert last.text.lines[-4].strip().endswith(f": tensor<{batch}x10xf32>")


def test_there_is_one_pass_of_each_kind_and_all_say_what_they_do():
    passes = top_pipeline({"batch": 2}, integers_only=True)
    assert [type(p) for p in passes] == list(TOP_PIPELINE)
    others = [type(p) for p in top_pipeline({"batch": 2})]
    assert others == [kind for kind in TOP_PIPELINE if kind is not ComputeWithoutFloats]
    names = [p.name for p in passes]
    assert len(set(names)) == len(names)
    assert all(p.description.endswith(".") for p in passes)


def test_every_rule_explains_itself_by_an_example():
    for pass_ in top_pipeline({}, integers_only=True):
        for kind in getattr(pass_, "rules", ()):
            rule = kind()
            assert "=>" in rule.explanation, rule.name
            assert rule.source.startswith("explorer/passes/"), rule.name
            text = type(rule).__doc__ or ""
            assert "Applies" in text and "Pays" in text, rule.name


def test_required_passes_are_those_that_lowering_needs():
    required = [p.name for p in top_pipeline({}) if p.is_required]
    assert required == ["bind-dimensions", "infer-shapes", "split-attention", "legalize"]
