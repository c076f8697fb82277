# %% [markdown]
# # A compiler in 150 lines: solutions
#
# For teachers. The exercises are those at the end of the notebook of the same name.

# %%
from explorer.course import check, exercises


# %% [markdown]
# **Exercise 1.** The pattern is two products; the condition is that both second operands are numbers. Without it `mul(mul(x, y), 2.0)` matches, and Python cannot multiply a name by 2. The product of the factors is rounded once, at compile time: results may differ in the last bit.

# %%
def merge(node):
    """x * a * b   =>   x * (a * b)"""
    match node:
        case ("mul", ("mul", x, float(a)), float(b)):
            return ("mul", x, a * b)


verdict = check(merge, exercises.merges_factors())
assert verdict.is_right
verdict


# %% [markdown]
# **Exercise 2.** A product of two transposed matrices is the transposed product in the other order. Where one of the transposed operands is also read by something else, the rule saves nothing: it does not see who else reads an operand. Compilers count uses for this reason.

# %%
def turn(node):
    """x.T @ y.T   =>   (y @ x).T"""
    match node:
        case ("matmul", ("transpose", x), ("transpose", y)):
            return ("transpose", ("matmul", y, x))


verdict = check(turn, exercises.turns_products())
assert verdict.is_right
verdict


# %% [markdown]
# **Exercise 3.** A relu and a factor change places if the factor is not negative. The factor moves out of the relu, and meets the next one. The other direction is right, too; a list with both directions never ends.

# %%
def pull(node):
    """relu(x * a)   =>   relu(x) * a      if a >= 0"""
    match node:
        case ("relu", ("mul", x, float(a))) if a >= 0:
            return ("mul", ("relu", x), a)


rules = [pull, merge]
verdict = check(rules, exercises.brings_factors_together())
assert verdict.is_right
verdict
