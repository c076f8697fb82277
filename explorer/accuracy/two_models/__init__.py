"""Two models on the same data: tensors that belong together, and the first one that differs.

    compare_models(load("float.onnx"), load("int8.tflite"), {"image": x})
        -> ModelComparison(matched=..., unmatched_a=..., unmatched_b=..., first_difference=...)

Reading order: `sides` runs a model in its reference, `inputs` gives both models the same data,
`matching` pairs tensors, `judging` says which pairs differ by more than rounding explains.
"""

from explorer.accuracy.two_models.comparing import compare_models, is_quantized
from explorer.accuracy.two_models.inputs import GIVEN

__all__ = ["GIVEN", "compare_models", "is_quantized"]
