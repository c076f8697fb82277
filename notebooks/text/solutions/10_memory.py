# %% [markdown]
# # Memory: solutions
#
# For teachers. The exercises are those at the end of the notebook of the same name.

# %%
from pathlib import Path

import explorer as ex
from explorer.course import check, exercises

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())
from explorer.memory.bounds import live_bytes
from explorer.memory.planners import make_plan, name_steps
from explorer.results import BufferLifetime
from explorer.targets import load_target


def buffer(name, size_bytes, first, last):
    return BufferLifetime(id=name, values=(name,), size_bytes=size_bytes, first=first, last=last)


puzzle = [
    buffer("a", 64, 0, 3),
    buffer("b", 64, 1, 3),
    buffer("c", 64, 1, 4),
    buffer("d", 192, 3, 4),
]
live = live_bytes(puzzle, steps=4)


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


device = load_target("cpu", {"vector_floats": 16, "core": {"family": "neoverse_v1"}})
model = root / "sample_models" / "digits_mobilenet.onnx"
start = ex.compile(model, device, disable=["write-in-place"])

# %% [markdown]
# **Exercise 1.** `d` needs 192 bytes in one piece while `c` still lives, so `c` must lie at one of the two ends of the arena: at 0 or at 192. What is below or above it may be anything that is dead by then.

# %%
addresses = {"c": 0, "a": 64, "b": 128, "d": 64}
verdict = check(addresses, exercises.places_tightly(puzzle))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 2.** In order of birth `a` lies at 0, `b` at 64, `c` at 128; and `d` finds 128 bytes below `c`, too few, and goes above it: 192 + 192 = 384 bytes, 128 more than the bound of 256.

# %%
verdict = check(128, first_come(puzzle).peak_bytes - max(live))
assert verdict.is_right
verdict


# %% [markdown]
# **Exercise 3.** The largest first: small buffers then fill the gaps that are left. Among equals the longer-lived ones go first. This is no proof: there are programs for which it fails, which is why the compiler's planner tries other orders, too.

# %%
def my_planner(buffers, steps=()):
    largest_first = sorted(buffers, key=lambda b: (-b.size_bytes, b.first - b.last))
    return plan_in_order(buffers, steps, largest_first)


names = ("digits_cnn", "digits_resnet", "digits_mobilenet", "digits_transformer")
models = [root / "sample_models" / f"{name}.onnx" for name in names]
verdict = check(my_planner, exercises.reaches_bounds(models))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 4.** 8 channels per block: 24 channels are three whole blocks, and nothing is rounded up. 53,376 bytes.

# %%
level_1 = start.fork(decisions={"assign-layouts/block/main_cpu": 8})
verdict = check(level_1, exercises.meets_budget(start, 54_000, ["layout"]))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 5.** Four bands keep few of the rows between the two convolutions. 43,584 bytes; with two bands it would be more.

# %%
level_2 = level_1.fork(decisions={"stream-rows/chain/depthwise6": "conv31:4:roll"})
verdict = check(level_2, exercises.meets_budget(start, 44_000, ["layout", "roll"]))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 6.** With four bands the fullest step is one of theirs, and the pass alone saves nothing. Eight bands alone save 288 bytes: then a step outside of them is the fullest, in which a result can take the place of an operand. Both together take 40,704 bytes.

# %%
level_3 = level_2.fork(
    enable=["write-in-place"],
    decisions={"stream-rows/chain/depthwise6": "conv31:8:roll"},
)
verdict = check(level_3, exercises.meets_budget(start, 41_000, ["layout", "roll", "in place"]))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 7.** Rows that two bands read are computed twice, and none is kept: 36,096 bytes in four bands. The price is in `level_4.cost()`.

# %%
level_4 = level_3.fork(decisions={"stream-rows/chain/depthwise6": "conv31:4:recompute"})
levers = ["layout", "roll", "in place", "recompute"]
verdict = check(level_4, exercises.meets_budget(start, 37_000, levers))
assert verdict.is_right
verdict
