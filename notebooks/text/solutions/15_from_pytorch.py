# %% [markdown]
# # From a line of Python to its kernel: solutions
#
# Run the lesson to see what they are about.

# %%
from pathlib import Path

import numpy as np

import explorer as ex
from explorer.course import check

# %% [markdown]
# **Exercise 1.** The convolution, the normalization, which became a part of its weights, and the `relu`, which is its last step.

# %%
verdict = check(3, len(["conv2d", "batch_norm", "relu"]))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 2.** The sum of the weights of a row, and the bias: 2 + 3 + 4. The factor 0.5 is in the weights alone.

# %%
weights, bias, x = np.array([[2.0, 3.0]]), np.array([4.0]), np.array([5.0, 7.0])
folded = weights.sum(axis=1) + bias
assert np.allclose(weights @ (0.5 * x + 1) + bias, (0.5 * weights) @ x + folded)
verdict = check(9, folded[0])
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 3.** It is the same rule that folds the normalizations of an ONNX file.

# %%
root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())
c = ex.compile(root / "sample_models" / "digits_resnet.onnx")
verdict = check("fold-into-weights", c["fold-batch-norm"].events[0].rule)
assert verdict.is_right
verdict
