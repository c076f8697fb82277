# %% [markdown]
# # Three ways to make it smaller
#
# A device has two memories that a network fills: weights lie in flash, the arena lies in RAM. When one of them is too small, something must give way. What?
#
# The idea of this notebook: **decisions make a number too large, and each of them has a price**. You will take three ways on one network: decide otherwise, round, and leave out. After each you look at the same three numbers: bytes of the arena, bytes of the weights, right answers.

# %%
from pathlib import Path

import numpy as np

import explorer as ex
from explorer.course import check, exercises, predict
from explorer.targets import load_target

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())

digits = np.load(root / "sample_models" / "digits_test.npz")
images, labels = digits["images"].astype(np.float32), digits["labels"]
tested, known = images[200:300], labels[200:300]

# One core for all readers: some schedules depend on the processor.
core = load_target("cpu", {"vector_floats": 4, "core": {"family": "neoverse_v1"}})
model = ex.load(root / "sample_models" / "digits_mobilenet.onnx")
c = ex.compile(model, core)


def right(compiled):
    """How many of the 100 tested images get the right digit."""
    scores = [compiled.run({"image": image[None]})["logits"] for image in tested]
    return int(sum(int(s.argmax()) == label for s, label in zip(scores, known, strict=True)))


def row(name, compiled):
    arena, weights = compiled.memory.peak_bytes, compiled.program.weights_bytes
    print(f"{name:<12} arena {arena:>7,}  weights {weights:>8,}  right {right(compiled)} of 100")


row("as it is", c)

# %% [markdown]
# ## Decide otherwise
#
# The first way changes no weight and no formula. A *lever* is a decision that moves a number, with its legal values and what each would change. Some changes are computed (a plan can be made without running it), some come from a model of the processor.

# %%
found = c.levers("peak")
for lever in found.levers[:3]:
    best = lever.options[0]
    print(lever.title, lever.of, "=", best.value, "changes", best.change, "bytes,", best.also)

# %% [markdown]
# A budget is the lever that tries the others: schedules with less scratch, other layouts, layers computed again, and chains of layers in *bands* of rows, so that no tensor between them is ever whole. In the explorer a press on a number shows the same list, and "try" makes a branch.

# %% tags=["prediction"]
falls = predict("With four fifths of the arena: will fewer answers be right (True or False)?", ...)
falls.require()
banded = c.fork(budget_bytes=c.memory.peak_bytes * 4 // 5)
row("in bands", banded)
falls.check(
    right(banded) < right(c),
    "Every number is computed by the same formula. The price is time: rows on the edges of bands "
    "are computed twice.",
)

# %% [markdown]
# What was tried, in order, and what each step bought:

# %%
for step in banded.memory.fit:
    print(
        f"{step.lever}: {step.bytes_before:,} -> {step.bytes_after:,}, {step.microseconds:.2f} us"
    )

# %% [markdown]
# The weights are as large as before. No schedule, layout or order changes them: they are in the model.
#
# ## Round
#
# A byte holds a quarter of a float. Rounding changes numbers, so now the answers need to be watched, on data that calibration has not seen.

# %% tags=["prediction"]
factor = predict("By which factor do the weights shrink: 4, 3 or 2?", ...)
factor.require()
table = ex.calibrate(model, {"image": images[:20]}, method="min-max")
rounded = ex.compile(model, core, quantization=table)
row("in bytes", rounded)
exact = c.program.weights_bytes / rounded.program.weights_bytes
factor.check(
    round(exact),
    f"By {exact:.2f}. Biases keep 32 bits, and so do some small tables.",
    tempting={4: "Only where all weights become bytes; look at the biases."},
)

# %% [markdown]
# The arena shrinks, too, for tensors between layers are bytes now.
#
# ## Leave out
#
# The third way changes the network. In a residual block the input goes around the layers and is added to what they make. Without the addition the block is only a way around: nothing reads its layers, and they go.
#
# `explorer.edit` deletes a node; what read it then reads its first operand of the same type. Two blocks have such an addition.

# %% tags=["prediction"]
kept = predict("Without which block do more answers stay right: 'stage1' or 'stage2'?", ...)
kept.require()
shorter = {}
for stage in ("stage1", "stage2"):
    edited = ex.edit(model, [f"delete /{stage}/block1/add"])
    shorter[stage] = ex.compile(edited, core)
    row(f"no {stage}", shorter[stage])
kept.check(
    max(shorter, key=lambda stage: right(shorter[stage])),
    "The early block makes the features that all others read. The late one refines them, and has "
    "more weights, for there are more channels.",
)

# %% [markdown]
# Layers of deep networks are often redundant, and which ones, only a test tells. After a cut a network is usually trained on for a while; ours was not.
#
# ## Which way first?
#
# | way | arena | weights | price |
# | --- | --- | --- | --- |
# | decide otherwise | smaller | the same | time |
# | round | smaller | smaller | decibels, a calibration |
# | leave out | smaller for early layers | smaller for late ones | answers, training |
#
# Ways that cost nothing but time come first, and they add up. The tab "tries" of the explorer has all branches in one table and marks those that no other one beats.
#
# **Design note.** TFLite Micro and STM32Cube.AI report arena and flash for each model, and change neither by themselves. MCUNet searches the network together with the schedule for a budget of RAM, and computes its first blocks in patches, which are bands in two dimensions. ExecuTorch and Vela plan memory after quantization, in one order. Stochastic depth (Huang et al., 2016) trains networks so that blocks may be missing.
#
# ## Exercises

# %% [markdown]
# **1.** Give a compilation for this core with all tensors floats, an arena of at most 42,000 bytes, and at least 99 right answers.

# %% explorer={"exercise": "18.1"} tags=["answer"]
mine = ...

# %% explorer={"exercise": "18.1"} tags=["grader"]
check(
    mine,
    exercises.is_small_and_right(tested, known, 99, arena_bytes=42_000, is_float=True),
    "c.fork(...) with one decision is enough.",
)

# %% [markdown]
# **2.** At most 35,000 bytes of weights, at least 90 right answers. Which two ways do you need?

# %% explorer={"exercise": "18.2"} tags=["answer"]
smallest = ...

# %% explorer={"exercise": "18.2"} tags=["grader"]
check(
    smallest,
    exercises.is_small_and_right(tested, known, 90, weights_bytes=35_000),
    "An edited model is a model: it can be calibrated and compiled.",
)

# %% [markdown]
# **3.** Without a table of calibration: weights of at most 102,000 bytes in flash and an arena of at most 42,000 bytes in RAM, with at least 90 right answers.

# %% explorer={"exercise": "18.3"} tags=["answer"]
both = ...

# %% explorer={"exercise": "18.3"} tags=["grader"]
check(
    both,
    exercises.is_small_and_right(
        tested, known, 90, weights_bytes=102_000, arena_bytes=42_000, is_float=True
    ),
    "Take the first way after the third.",
)
