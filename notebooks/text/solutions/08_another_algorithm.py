# %% [markdown]
# # Another algorithm: solutions
#
# For teachers. The exercises are those at the end of the notebook of the same name.

# %%
from pathlib import Path

import explorer as ex
from explorer.course import check, exercises

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())
c = ex.compile(root / "sample_models" / "digits_cnn.onnx")

# %% [markdown]
# **Exercise 1.** 8 × 8 products where the textbook has 36 × 9 = 324.

# %%
verdict = check(64 / 324, exercises.share_of_products(6, 3))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 2.** 6 × 6 numbers for 3 × 3: four times as many.

# %%
verdict = check(4, exercises.growth_of_weights(4, 3))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 3.** The algorithm is a choice of the kernel's schedule.

# %%
mine = c.fork(decisions={"schedule-loops/conv_3x3_2/schedule": "winograd2"})
verdict = check(mine, exercises.uses_schedule("conv_3x3_2", "winograd2"))
assert verdict.is_right
verdict
