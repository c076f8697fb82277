# %% [markdown]
# # Where the time goes: solutions
#
# For teachers. The exercises are those at the end of the notebook of the same name.

# %%
from pathlib import Path

import explorer as ex
from explorer.course import check, exercises
from explorer.targets import load_target

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())
core = load_target("cpu", {"vector_floats": 4, "core": {"family": "neoverse_v1"}})
c = ex.compile(root / "sample_models" / "digits_mobilenet.onnx", core)

# %% [markdown]
# **Exercise 1.** Bias and activation are not counted as operations.

# %%
kernel = c.kernels["conv_1x1_1"]
verdict = check(kernel.flops / kernel.bytes_moved, exercises.intensity(c, "conv_1x1_1"))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 2.** A 1×1 convolution with many channels on both sides and many pixels.

# %%
densest = max(c.kernels.values(), key=lambda k: k.flops / k.bytes_moved).name
verdict = check(densest, exercises.most_intense(c))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 3.** 2 · 192 · 64 · b operations on 4 · (192 b + 192 · 64 + 64 b) bytes are at least 10 per byte from b = 34.3 on.

# %%
verdict = check(35, exercises.least_batch(192, 64, ridge=10.0))
assert verdict.is_right
verdict
