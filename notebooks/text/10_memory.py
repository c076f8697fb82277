# %% [markdown]
# # Memory: planned, not allocated
#
# While a network runs, tensors come and go. A compiler knows beforehand which there are, how large, and in which steps each is needed.
#
# The idea of this notebook: **an address is a decision like any other**. Tensors that never live at the same time may lie at the same place. How little is enough, and what proves it?

# %%
from pathlib import Path

import explorer as ex
from explorer.course import check, exercises, predict, skip

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())

# Each tensor has a place of its own while it lives: no operation writes over what it reads.
c = ex.compile(root / "sample_models" / "digits_mobilenet.onnx", disable=["write-in-place"])

# %% [markdown]
# ## Lifetimes
#
# A *buffer* is a block of bytes for one tensor. It lives from the step (the launch) that writes it to the last one that reads it. These are the first of them; `last` is the first step in which the buffer is no longer needed.

# %%
c.to_frame("buffers").head(8)

# %% [markdown]
# Some buffers hold several values: a reshape is another view of the same bytes. Sizes include rounding: 24 channels in blocks as wide as a vector may take up 32, and a picture's border of zeros is part of the buffer.
#
# ## The plan
#
# The map shows time from left to right and addresses from bottom to top. Every box is a buffer.

# %%
c.memory

# %%
# In the explorer a buffer can be pressed; what it holds is then shown in every pane.
c.explore(at={"dock": "memory"})

# %% [markdown]
# ## The bound
#
# In a step, everything that lives must lie somewhere. So the arena is never smaller than the bytes that live in the fullest step. This is the *bound*, and it needs no plan.
#
# Practise on four buffers. A buffer lives in steps `first` up to, and not including, `last`.

# %% tags=["prediction"]
from explorer.memory.bounds import live_bytes
from explorer.results import BufferLifetime


def buffer(name, size_bytes, first, last):
    return BufferLifetime(id=name, values=(name,), size_bytes=size_bytes, first=first, last=last)


puzzle = [
    buffer("a", 64, 0, 3),
    buffer("b", 64, 1, 3),
    buffer("c", 64, 1, 4),
    buffer("d", 192, 3, 4),
]
live = live_bytes(puzzle, steps=4)
bound = predict("How many bytes is the bound of this puzzle?", ...)
for b in puzzle:
    print(b.id, f"{b.size_bytes:4} bytes", "·" * b.first + "█" * (b.last - b.first))
bound.check(max(live), f"Live in steps 0 to 3: {', '.join(map(str, live))} bytes.")

# %% [markdown]
# ## A planner of your own
#
# Is the bound always reached? That depends on who chooses the addresses; and for a few programs nobody can. (Seven buffers of (size, `first`, `last`) = (2,0,3) (3,0,2) (2,2,4) (1,2,6) (1,3,6) (3,4,7) (2,6,7) have the bound 5, and no plan takes less than 6.) Here is the simplest planner: take the buffers in the order in which they are born, and put each as low as it fits.

# %%
from explorer.memory.planners import make_plan, name_steps


def lie_at(buffer, placed):
    """The lowest address at which the buffer meets none that lives at the same time."""
    neighbours = [
        (at, at + other.size_bytes)
        for other, at in placed
        if other.first < buffer.last and buffer.first < other.last
    ]
    address = 0
    for start, end in sorted(neighbours):
        if address + buffer.size_bytes <= start:
            break
        address = max(address, end + -end % buffer.alignment_bytes)
    return address


def plan_in_order(buffers, steps, order):
    """A plan in which the buffers get their addresses one after the other."""
    placed = []
    for buffer in order:
        placed.append((buffer, lie_at(buffer, placed)))
    offsets = {buffer.id: at for buffer, at in placed}
    names = name_steps(buffers, steps)
    live = live_bytes(buffers, len(names))
    return make_plan(buffers, [offsets[b.id] for b in buffers], names, live, [])


def first_come(buffers, steps=()):
    return plan_in_order(buffers, steps, order=buffers)


# %% [markdown]
# Any function of this form can be the planner of a compilation. It is not trusted: whatever it returns is verified before anything runs.

# %% tags=["prediction"]
reached = predict("Will first_come reach the bound of this network (True or False)?", ...)
simple = c.fork(planner=first_come)
plan = simple.memory
reached.check(
    plan.peak_bytes == plan.bound_bytes,
    f"The bound is {plan.bound_bytes} bytes, it takes {plan.peak_bytes}, "
    f"and {plan.total_bytes} without sharing. Early buffers lie in the way of later ones.",
    evidence=plan,
)

# %% [markdown]
# Look for gaps: a small buffer that lives long cuts the free room into pieces that are too small.
#
# The compiler's planner tries other orders and stops as soon as a plan is as small as the bound. Then it is *proven* that no plan can be better:

# %%
print("optimal:", c.memory.optimal, "after", len(c.memory.attempts), "of its orders")

# %% [markdown]
# ## A wrong plan is refused
#
# This planner puts everything at address 0.

# %%
from explorer.errors import ExplorerError


def all_at_zero(buffers, steps=()):
    names = name_steps(buffers, steps)
    return make_plan(buffers, [0] * len(buffers), names, live_bytes(buffers, len(names)), [])


try:
    c.fork(planner=all_at_zero)
except ExplorerError as error:
    print(error)

# %% [markdown]
# ## A budget
#
# Below the bound no planner helps: with a budget the compiler decides otherwise until the program fits, or says which budget would do.

# %% tags=["prediction"]
needed = predict("Can any planner fit this program into 50,000 bytes (True or False)?", ...)
small = c.fork(budget_bytes=50_000)  # another program: see small.memory.fit
needed.check(
    c.memory.bound_bytes <= 50_000,
    f"The bound is {c.memory.bound_bytes} bytes. With other decisions the compiler makes "
    f"another program, of {small.memory.peak_bytes} bytes.",
    evidence=small.memory,
)

# %% [markdown]
# ## Passes and memory
#
# `fuse-activation` lets a convolution apply the activation itself. Without it, both have a buffer, and both live while the activation runs.

# %% tags=["prediction"]
from explorer.targets import load_target

grows = predict(
    "Without fuse-activation, will the digits CNN need more memory (True or False)?", ...
)
# Some schedules take memory, and they depend on the processor: here are those of one core.
core = load_target("cpu", {"vector_floats": 4, "core": {"family": "neoverse_v1"}})
cnn = ex.compile(root / "sample_models" / "digits_cnn.onnx", core, disable=["write-in-place"])
unfused = cnn.fork(disable=["fuse-activation"])
grows.check(
    unfused.memory.peak_bytes > cnn.memory.peak_bytes,
    f"{cnn.memory.peak_bytes} bytes fused, {unfused.memory.peak_bytes} unfused: "
    "two large buffers meet in a step.",
)

# %% [markdown]
# On the small ResNet it is the other way round for this core: 19,200 bytes fused, 16,896 unfused. Its fullest step has three buffers of 6,400 bytes. Unfused, one of them is still without its border, 4,096 bytes.
#
# **Design note.** TFLite Micro places the largest buffers first. XLA tries several orders and keeps the best; onnxruntime repeats the pattern of an earlier run. None states a bound.
#
# ## Exercises
#
# **1.** Solve the puzzle by hand: give each of its four buffers an address (a multiple of 64), so that the arena is as small as the bound.

# %% explorer={"exercise": "10.1"} tags=["answer"]
addresses = ...  # {"a": 0, ...}

# %% explorer={"exercise": "10.1"} tags=["grader"]
check(
    addresses,
    exercises.places_tightly(puzzle),
    "The largest buffer comes last. Which two may have lain at its addresses before?",
)

# %% [markdown]
# **2.** By how many bytes is the puzzle's plan larger than the bound if `first_come` makes it?

# %% explorer={"exercise": "10.2"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "10.2"} tags=["grader"]
check(
    answer, exercises.above_the_bound(first_come, puzzle), "Draw it: time to the right, bytes up."
)

# %% [markdown]
# **3.** Write a better planner: change nothing but the order in which `plan_in_order` takes the buffers, and reach the bound for four networks. What stands in the way least when it comes late?

# %% explorer={"exercise": "10.3"} tags=["answer"]
my_planner = ...

# %% explorer={"exercise": "10.3"} tags=["grader"]
names = ("digits_cnn", "digits_resnet", "digits_mobilenet", "digits_transformer")
check(
    my_planner,
    exercises.reaches_bounds([root / "sample_models" / f"{name}.onnx" for name in names]),
    "def my_planner(buffers, steps=()): sorted(buffers, key=...)",
)

# %% [markdown]
# **4.** Four levels: meet four budgets, each with another decision on the program of the level before. The budgets' slider in `start.explore(at={"dock": "memory"})` shows what the compiler would do; here you decide.
#
# *54,000 bytes.* 16 lanes round 24 channels up to 32. Narrow `assign-layouts/block/main_cpu`.

# %%
device = core.with_(vector_floats=16)
start = ex.compile(c.model, device, disable=["write-in-place"])
start.memory.peak_bytes

# %% explorer={"exercise": "10.4"} tags=["answer"]
level_1 = ...  # start.fork(decisions={...})

# %% explorer={"exercise": "10.4"} tags=["grader"]
check(
    level_1,
    exercises.meets_budget(start, 54_000, ["layout"]),
    "Which number of channels per block divides 24?",
)

# %% [markdown]
# **5.** *44,000 bytes.* From `conv31` to `depthwise6`, bands of rows (`FIRST:BANDS:roll` at `stream-rows/chain/depthwise6`): few rows of what lies between them live.

# %% explorer={"exercise": "10.5"} tags=["answer"]
level_2 = ...

# %% explorer={"exercise": "10.5"} tags=["grader"]
check(
    level_2,
    exercises.meets_budget(start, 44_000, ["layout", "roll"]),
    "Start at conv31; the number of bands is at most the number of rows.",
)

# %% [markdown]
# **6.** *41,000 bytes.* `enable` the pass that `start` left out. Alone it saves nothing: what else has to change?

# %% explorer={"exercise": "10.6"} tags=["answer"]
level_3 = ...

# %% explorer={"exercise": "10.6"} tags=["grader"]
check(
    level_3,
    exercises.meets_budget(start, 41_000, ["layout", "roll", "in place"]),
    "level_3.memory shows what lives in the fullest step.",
)

# %% [markdown]
# **7.** *37,000 bytes.* `recompute` instead of `roll` keeps no row for the next band.

# %% explorer={"exercise": "10.7"} tags=["answer"]
level_4 = ...

# %% explorer={"exercise": "10.7"} tags=["grader"]
check(
    level_4,
    exercises.meets_budget(start, 37_000, ["layout", "roll", "in place", "recompute"]),
    "Two bands are too few.",
)

# %% [markdown]
# ## Puzzle
#
# Eight buffers of your own: take a number as your student number.

# %%
from explorer.course import puzzles

puzzle = puzzles.fit_it(student=0)
puzzle  # puzzle.buffers has them; puzzle.play({"a": 0, ...})
