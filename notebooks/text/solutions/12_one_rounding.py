# %% [markdown]
# # One rounding, three answers: solutions
#
# Run the lesson to see what they are about.

# %%
import numpy as np

from explorer.course import check
from explorer.ir.requantization import Requantization, requantize

DOUBLE = Requantization("doubling_high_multiply", "nearest_away_from_zero")
WAYS = ("two, ties away from zero", "two, ties up", "once")

# %% [markdown]
# **Exercise 1.** Each way gives one of the two whole numbers beside the exact product.

# %%
verdict = check(1, 1)
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 2.** 1001 / 2 = 500.5 is rounded up to 501; 501 / 4 = 125.25 is rounded to 125. Here one rounding gives the same: 1001 / 8 = 125.125.

# %%
high = (1001 * 2**30 + 2**30) >> 31
print(high)
truth = int(requantize(np.array([1001]), np.array(2.0**-3), 0, (-300, 300), DOUBLE)[0])
verdict = check(125, truth)
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 3.** Its matrix product rounds once, in 64 bits.

# %%
verdict = check("once", WAYS[-1])
assert verdict.is_right
verdict
