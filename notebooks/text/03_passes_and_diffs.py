# %% [markdown]
# # Passes and differences
#
# A compiler is a list of *passes*. Each takes a program and gives a program that computes the same thing, a little better. No pass knows the others.
#
# This notebook is about one idea: **what a pass did is data**. You can count it, read it, take back a part of it, and ask what follows.
#
# You are asked for predictions. Choose or type yours, press *lock*, and run the cell again: until then the compiler keeps its answer to itself (`skip()` instead of the three dots asks for it all the same). A locked prediction stays, and is noted in `predictions.jsonl`; it gets no points, right or wrong.

# %%
from pathlib import Path

import explorer as ex
from explorer.course import check, exercises, predict, skip
from explorer.targets import load_target

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())

# Schedules depend on the processor. With those of one core all numbers below are yours, too.
core = load_target("cpu", {"vector_floats": 4, "core": {"family": "neoverse_v1"}})
# One pass is left out: writing over tensors that nobody reads any more is for lesson 10.
c = ex.compile(root / "sample_models" / "digits_resnet.onnx", core, disable=["write-in-place"])
c

# %% [markdown]
# In a residual network a block adds its input to its result, so besides convolutions there are additions. This is what the file holds:

# %%
from collections import Counter

operators = Counter(node.operator for node in c.model.nodes)
for operator, count in operators.most_common():
    print(f"{count:3} {operator}")

# %% [markdown]
# ## A pass takes operations away
#
# `fold-batch-norm` multiplies each normalization's scale into the weights of the convolution before it (the first notebook showed why that is right).

# %% tags=["prediction"]
folded = predict("How many operations will fold-batch-norm take away?", ...)
folded

# %%
r = c["fold-batch-norm"]
folded.check(
    r.before.operation_count - r.after.operation_count,
    "Every BatchNormalization follows a convolution that nothing else reads.",
)

# %% [markdown]
# ## A difference in four words
#
# A difference between two programs says what was *added*, *removed*, *changed* and *fused*. An operation that is fused stands for others that are gone, and the compiler remembers which. That is how a line of C leads back to a node of the file.

# %%
for operation, parents in r.diff.fused[:4]:
    print(f"{operation} stands for {' and '.join(parents)}")
print(len(r.diff.added), "added,", len(r.diff.removed), "removed")

# %% [markdown]
# ## One rewrite, in both directions
#
# A pass is made of *rewrites*, and each is an event with an address, `pass/rule/operation`. It holds the operations before and after, so it can be read forwards and backwards.

# %%
event = r.events[0]
print(event.address)
for name, text in event.delta.removed:
    print("  −", name, "=", text)
for name, text in event.delta.added:
    print("  +", name, "=", text)

# %%
# In the explorer J and K step from rewrite to rewrite; Ctrl and the wheel zoom the graph.
c.explore(at={"pass": "fold-batch-norm", "dock": "rewrites"})

# %% [markdown]
# ## What each pass bought
#
# `macs` are multiply-adds, `peak_bytes` is the most memory that activations take at once.

# %%
passes = c.to_frame("passes")
passes[["name", "level", "rewrites", "operations_after", "macs", "peak_bytes"]]

# %% [markdown]
# These passes save no arithmetic, and the fullest moment of this network stays as full as it was: 3 × 4,096 bytes of bare tensors. In the plan, which is the last row, each of the three has a border of zeros around its pictures, so that it takes 3 × 6,400.
#
# What they save is walks through memory, and *launches*. A *kernel* is a function that the compiler makes, a launch is one call of it. Of the 18 operations that are left at the end three are no work for a kernel: two transfers and a reshape, which is another view of the same bytes. The other 15 are a launch each.
#
# ## Passes open doors for each other
#
# `fuse-activation` lets a convolution apply the ReLU that follows it. In this network it fires nine times. Its rule looks at what feeds the ReLU: it must be a convolution or a matrix product.
#
# Suppose we leave `fold-batch-norm` out. The order in the file is convolution, normalization, ReLU.

# %% tags=["prediction"]
fused = predict("Without fold-batch-norm, how many times will fuse-activation fire?", ...)
fused

# %%
without_folding = c.fork(disable=["fold-batch-norm"])
fused.check(
    len(without_folding["fuse-activation"].events),
    "Each ReLU is now fed by a normalization or an addition, never by a convolution.",
)

# %% [markdown]
# Leaving one pass out has silenced two others, and something must still be done about the normalizations: `legalize` splits each into a multiplication and an addition. Count the launches:

# %%
for branch in (c, without_folding):
    print(f"{len(branch.program.launches):3} launches   {branch.label or 'all passes'}")

# %%
c.compare(without_folding)

# %% [markdown]
# Fifty launches of only 26 kernels: layers that compute the same thing share one. And one number goes the other way: without folding the network takes *less* memory, 16,896 bytes instead of 19,200. In the fullest step a fused convolution writes its result with the border around it; in this branch the border is only written by the ReLU at the end, when an input has gone already.
#
# This is called *phase ordering*: a rewrite is worth what the ones after it can make of it. No list of passes is best for all programs.
#
# ## Smaller than a pass
#
# A branch can also take back one rewrite. Here the first addition stays an operation of its own:

# %% tags=["prediction"]
kept = predict("How many more launches will there be with one addition kept?", ...)
address = c["fuse-residual"].events[0].address
branch = c.fork(decisions={address: False})
print(branch.label)
for event in branch["fuse-residual"].events[:2]:
    print("  applied " if event.applied else "  declined", event.site, event.reason)
shared = sum(mine is theirs for mine, theirs in zip(c.passes, branch.passes, strict=True))
print("  passes shared with c:", shared)

# %%
kept.check(
    len(branch.program.launches) - len(c.program.launches),
    "The addition, and the ReLU after it, which has no convolution before it any more.",
)

# %% [markdown]
# **Design note.** XLA repeats groups of passes until nothing changes; a pass of TVM names those that it needs. LLVM's `-opt-bisect-limit` counts passes as fuel counts rewrites.
#
# ## Exercises
#
# **1.** One rewrite made the convolution that stands for `conv22` *and* `add4`. What is its address? (`c.to_frame("events")` or the events of a pass will tell you.)

# %% explorer={"exercise": "3.1"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "3.1"} tags=["grader"]
check(
    answer,
    exercises.address_of_rewrite(c, "conv22", "add4"),
    "Residual connections are fused by one pass; look through its events.",
)

# %% [markdown]
# **2.** *Fuel* limits how many rewrites the optional passes may do, all together: `c.fork(fuel=5)` does the first five. What is the least fuel with which all eleven normalizations are folded?

# %% explorer={"exercise": "3.2"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "3.2"} tags=["grader"]
check(
    answer,
    exercises.least_fuel(c, "fold-batch-norm"),
    "Every rewrite of an optional pass before it burns fuel, too; the import is none.",
)

# %% [markdown]
# **3.** Make a branch with exactly 20 launches, without leaving out a whole pass.

# %% explorer={"exercise": "3.3"} tags=["answer"]
branch = ...

# %% explorer={"exercise": "3.3"} tags=["grader"]
check(
    branch,
    exercises.has_launches(20, c),
    "Decline rewrites by their addresses; one can cost two.",
)

# %% [markdown]
# ## Puzzle
#
# Which fusion costs memory? The score is the optimum over yours.

# %%
from explorer.course import puzzles

puzzle = puzzles.one_rewrite_too_many()
puzzle  # puzzle.play([address, ...])
