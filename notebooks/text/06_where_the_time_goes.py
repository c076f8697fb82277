# %% [markdown]
# # Where the time goes
#
# A processor that could do 100 billion operations per second does 10 in one kernel and 90 in another. Before anything is made faster one question has to be answered: *what does it wait for?*
#
# The idea of this notebook: **a kernel is limited by arithmetic or by the numbers that it has to fetch**, and a quotient of two counts says by which.

# %%
from pathlib import Path

import explorer as ex
from explorer.course import check, exercises, predict, skip
from explorer.targets import load_target

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())

# Predicted times are those of one core, so that all numbers but the measured ones are yours, too.
core = load_target("cpu", {"vector_floats": 4, "core": {"family": "neoverse_v1"}})
c = ex.compile(root / "sample_models" / "digits_mobilenet.onnx", core)

# %% [markdown]
# ## Operations per byte
#
# The *arithmetic intensity* of a kernel is its floating-point operations (a multiply-add is two) over the bytes that it reads and writes at least once: inputs, weights and result.
#
# MobileNet splits a convolution in two. A *depthwise* 3×3 convolution filters each channel by itself; a 1×1 convolution mixes the channels at each pixel. The 3×3 one reads each input number up to nine times, the 1×1 one looks at a single pixel.

# %% tags=["prediction"]
denser = predict(
    "Which of the two does more arithmetic per byte?", ..., choices=["depthwise 3x3", "1x1"]
)
wide, deep = c.kernels["conv_1x1_8"], c.kernels["depthwise_3x3_2"]
intensity = {k.name: k.flops / k.bytes_moved for k in (wide, deep)}
denser.check(
    "1x1" if intensity["conv_1x1_8"] > intensity["depthwise_3x3_2"] else "depthwise 3x3",
    ", ".join(f"{name}: {value:.1f} operations per byte" for name, value in intensity.items())
    + ". A number that is read once by the 1x1 kernel serves all output channels.",
    tempting={"depthwise 3x3": "It reuses a number nine times; the other one, by all filters."},
)

# %% [markdown]
# ## The roofline
#
# Draw the intensity from left to right and the speed from bottom to top, both in powers of ten. Two lines bound what is possible: the speed of the arithmetic units, and bandwidth × intensity. Where they meet is the *ridge*. A kernel left of it cannot be fast however well it is written; only moving fewer bytes helps. A kernel right of it can reach the peak. (Williams, Waterman and Patterson, 2009.)
#
# This profile was measured here, just now.

# %%
profile = c.profile(c.example_inputs(), with_peaks=True)
c.view("roofline")

# %% [markdown]
# Most dots lie far below both lines. The network is tiny: a kernel that runs for a microsecond has hardly begun when it ends, and everything fits into the nearest cache, so that the line of the memory is not the one that counts. Roofs are upper bounds and no explanations. For those the compiler's cost model has more terms.

# %% tags=["prediction"]
decides = predict(
    "What decides the time of depthwise_3x3_2?", ..., choices=["arithmetic", "loads", "latency"]
)
decides.check(
    c.cost("depthwise_3x3_2").bound,
    "Each multiply-add needs a new number, and a core loads fewer vectors than it multiplies.",
    evidence=c.cost("depthwise_3x3_2"),
)

# %%
# Press a dot of the roofline: the operation, its loops and its code are marked everywhere.
c.explore(at={"dock": "roofline"})

# %% [markdown]
# ## What is worth the work
#
# Suppose that you make one kind of kernel twice as fast. How much faster does the network become? If it had the share $s$ of the time, the rest stays: $1 / (1 - s / 2)$. This is Amdahl's law, and it says: look at shares first.

# %% tags=["prediction"]
costs = {k: c.cost(k).microseconds for k in c.kernels if not k.startswith("reshape")}
pointwise = sum(t for name, t in costs.items() if name.startswith("conv_1x1"))
share = predict("Which share of the predicted time is in 1x1 convolutions (0 to 1)?", ...)
share.check(
    round(pointwise / sum(costs.values()), 2),
    f"{pointwise:.0f} of {sum(costs.values()):.0f} µs. A tenth more or less counts.",
    within=0.1,
)

# %% [markdown]
# The depthwise kernels do a sixth of the arithmetic, and take much more than a sixth of the time: their intensity is low.
#
# **Design note.** TVM and oneDNN treat depthwise convolutions as kernels of their own, with schedules that keep rows in registers. XLA and TensorRT rather fuse what follows into them: what is never written need not be read again. TFLite's EfficientNet-Lite and MobileNet for edge TPUs go further and replace them by full convolutions in early layers: more arithmetic, and faster.
#
# ## Exercises
#
# **1.** Compute the arithmetic intensity of `conv_1x1_1` to three digits. (`c.kernels[name]` has `flops` and `bytes_moved`.)

# %% explorer={"exercise": "6.1"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "6.1"} tags=["grader"]
check(answer, exercises.intensity(c, "conv_1x1_1"), "Operations over bytes.")

# %% [markdown]
# **2.** Which kernel of this network has the highest intensity? Give its name.

# %% explorer={"exercise": "6.2"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "6.2"} tags=["grader"]
check(answer, exercises.most_intense(c), "All kernels are in c.kernels.")

# %% [markdown]
# **3.** A dense layer multiplies a batch of $b$ rows of 192 floats by a matrix of 192×64. On a machine whose ridge is at 10 operations per byte: what is the least batch with which it is limited by arithmetic? Count inputs, weights and results once, four bytes each.

# %% explorer={"exercise": "6.3"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "6.3"} tags=["grader"]
check(
    answer,
    exercises.least_batch(192, 64, ridge=10.0),
    "Write operations and bytes as functions of b.",
    "The weights are read once, however many rows there are.",
)
