# %% [markdown]
# # Search a schedule: solutions
#
# For teachers. The exercises are those at the end of the notebook of the same name. Times differ from machine to machine; what is checked does not depend on them.

# %%
import os
import tempfile
from pathlib import Path

os.environ["EXPLORER_CACHE"] = tempfile.mkdtemp(prefix="search-a-schedule-")

import explorer as ex
from explorer.course import check, exercises

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())

KERNEL = "conv_3x3_2"
c = ex.compile(root / "sample_models" / "digits_cnn.onnx")
c = c.fork(schedule={KERNEL: {"schedule": "direct"}})
steps = c.kernels[KERNEL].schedule

# %% [markdown]
# **Exercise 1.** Four rows of eight pixels in two vectors are 64 accumulators, twice as many as there are registers. The cost model adds what storing and loading them again takes, and it is more than the arithmetic.

# %%
mine = c.fork(schedule={KERNEL: {"vectors": 2, "pixels": 8, "rows": 4}})
verdict = check(mine, exercises.spills(KERNEL))
assert verdict.is_right
mine.cost(KERNEL)

# %% [markdown]
# **Exercise 2.** Which loops are tasks is nobody's business but the scheduler's: without the rows there are fewer and larger ones. To unroll `ov` alone would be legal too, and slow: the sums then have no constant index.

# %%
mine = c.fork(
    schedule={
        KERNEL: [row | {"loops": "n ot"} if row["step"] == "parallel" else row for row in steps]
    }
)
verdict = check(mine, exercises.tells_steps_otherwise(KERNEL, steps))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 3.** The names are those of `c.schedule`. The first layer has few choices, since it has a single channel to read.

# %%
mine = ex.tune(c, budget=4, kernels=["conv_3x3_1"], seed=1)
verdict = check(mine, exercises.is_another_search(KERNEL, seed=0, most=8))
assert verdict.is_right
mine
