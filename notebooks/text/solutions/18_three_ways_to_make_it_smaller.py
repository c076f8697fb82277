# %% [markdown]
# # Three ways to make it smaller: solutions
#
# For teachers. The exercises are those at the end of the notebook of the same name.

# %%
from pathlib import Path

import numpy as np

import explorer as ex
from explorer.course import check, exercises
from explorer.targets import load_target

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())

digits = np.load(root / "sample_models" / "digits_test.npz")
images, labels = digits["images"].astype(np.float32), digits["labels"]
tested, known = images[200:300], labels[200:300]

# One core for all readers: some schedules depend on the processor.
core = load_target("cpu", {"vector_floats": 4, "core": {"family": "neoverse_v1"}})
model = ex.load(root / "sample_models" / "digits_mobilenet.onnx")
c = ex.compile(model, core)

# %% [markdown]
# **Exercise 1.** A budget finds the bands by itself. The lever of the peak with the address `stream-rows/chain/...` does the same by hand.

# %%
mine = c.fork(budget_bytes=42_000)
verdict = check(
    mine, exercises.is_small_and_right(tested, known, 99, arena_bytes=42_000, is_float=True)
)
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 2.** Bytes alone leave 54,528 bytes, the shorter network alone 101,440. Together they take about 32,400, for what is left out needs no byte either.

# %%
edited = ex.edit(model, ["delete /stage2/block1/add"])
table = ex.calibrate(edited, {"image": images[:20]}, method="min-max")
smallest = ex.compile(edited, core, quantization=table)
verdict = check(smallest, exercises.is_small_and_right(tested, known, 90, weights_bytes=35_000))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 3.** The late block has the weights, and the fullest step is in the early one: the cut moves the first number, the budget the second.

# %%
both = ex.compile(edited, core).fork(budget_bytes=42_000)
verdict = check(
    both,
    exercises.is_small_and_right(
        tested, known, 90, weights_bytes=102_000, arena_bytes=42_000, is_float=True
    ),
)
assert verdict.is_right
verdict
