# %% [markdown]
# # Passes and differences: solutions
#
# For teachers. The exercises are those at the end of the notebook of the same name.

# %%
from pathlib import Path

import explorer as ex
from explorer.course import check, exercises
from explorer.targets import load_target

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())

core = load_target("cpu", {"vector_floats": 4, "core": {"family": "neoverse_v1"}})
c = ex.compile(root / "sample_models" / "digits_resnet.onnx", core, disable=["write-in-place"])

# %% [markdown]
# **Exercise 1.** The pass is `fuse-residual`, its rule `fuse-added-activation`, and the site is the addition that was matched. `conv22` is the convolution's name after `fold-batch-norm`; the result of the fusion has a name of its own.

# %%
answer = "fuse-residual/fuse-added-activation/add4"
verdict = check(answer, exercises.address_of_rewrite(c, "conv22", "add4"))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 2.** One constant is folded, one that nothing reads any more is erased, and two equal constants are shared before the eleven normalizations: 1 + 1 + 2 + 11 = 15. Passes that lowering needs (`infer-shapes`, the layouts, the loops) burn nothing. The branches prove it.

# %%
answer = 15
verdict = check(answer, exercises.least_fuel(c, "fold-batch-norm"))
assert verdict.is_right
for fuel in (14, 15):
    folded = c.fork(fuel=fuel)["fold-batch-norm"].events
    print(fuel, "->", sum(e.applied for e in folded), "folded")
verdict

# %% [markdown]
# **Exercise 3.** There are 15 launches, so five more are needed. An addition that is kept costs two (itself, and the ReLU after it), a ReLU that is kept costs one: two additions and one ReLU make five. There are other ways, five ReLUs for example.

# %%
additions = [e.address for e in c["fuse-residual"].events[:2]]
activation = "fuse-activation/fuse-unary/relu1"
branch = c.fork(decisions=dict.fromkeys([*additions, activation], False))
verdict = check(branch, exercises.has_launches(20, c))
assert verdict.is_right
verdict
