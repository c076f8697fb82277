"""Chains of 3 to 12 operations with sizes of 0 and 1, hostile inputs, broadcasting, negative axes.

    chain = draw_chain(seed=7)       Case(pair: Pair("chain", "float32"), ...)

The nodes are drawn by the recipes of random models; inputs with floats or integers get numbers of
one hostile kind, as far as no node takes them for positions or sizes: onnxruntime refuses those.
"""

from __future__ import annotations

import numpy as np

from verification.operators.drawing import Case
from verification.operators.numbers import hostile
from verification.operators.pairs import Pair
from verification.random_models.generation import generate

CHAIN, CHAINS = "chain", "chains"
"""The operator and the format of answers for chains."""
LEAST, MOST = 3, 12
KINDS = ("normal", "special", "tiny", "ties", "zeros")
"""Of floats; whole numbers are small: what overflows in one node is hostile to all after it."""
HOSTILE_SHARE = 0.6


def draw_chain(seed: int) -> Case:
    """The chain of a seed. Its pair has the coarsest floating type of its results."""
    generated = generate(seed, most_nodes=MOST, least_nodes=LEAST, zero_share=0.15)
    random = np.random.default_rng([seed, 1])
    kind, inputs = "as drawn", dict(generated.inputs)
    if random.random() < HOSTILE_SHARE:
        kind = str(random.choice(KINDS))
        for name, array in inputs.items():
            if array.dtype.kind == "f":
                inputs[name] = hostile(random, array.dtype.name, array.shape, kind)
    types = sorted(generated.precisions.values(), key=COARSE.index)
    element_type = types[-1] if types else "float32"
    return Case(Pair(CHAIN, element_type), seed, generated.model, inputs, kind, 0)


COARSE = ("float64", "float32", "float16", "bfloat16")
