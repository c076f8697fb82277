# %% [markdown]
# # Reading IR: solutions
#
# For teachers. The exercises are those at the end of the notebook of the same name.

# %%
from pathlib import Path

import explorer as ex
from explorer.course import check, exercises
from explorer.targets import load_target

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())
core = load_target("cpu", {"vector_floats": 4, "core": {"family": "neoverse_v1"}})
c = ex.compile(root / "sample_models" / "digits_cnn.onnx", core)
lines = c["fuse-activation"].after.text.lines

# %% [markdown]
# **Exercise 1.** With one zero at each end a row has 10 places; a window of 3 starts at 0, 2, 4 and 6. The batch and the number of filters stay.

# %%
verdict = check("1x32x4x4", exercises.shape_with(c, "conv2", strides=[2, 2]))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 2.** Only the line that defines `%conv9` changes.

# %%
mine = "\n".join(
    line.replace('activation = "relu", ', "") if "%conv9 =" in line else line for line in lines
)
verdict = check(mine, exercises.without_activation(c, "fuse-activation", "conv9"))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 3.** The verifier names `%conv88`, which is `%conv8`, and then the pool whose result has 3 columns.

# %%
damaged = exercises.damaged_text(c, "fuse-activation")
mine = damaged.replace("%conv88", "%conv8").replace("tensor<1x48x2x3xf32>", "tensor<1x48x2x2xf32>")
verdict = check(mine, exercises.repaired(c, "fuse-activation", most=2))
assert verdict.is_right
verdict
