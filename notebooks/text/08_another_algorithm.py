# %% [markdown]
# # Another algorithm
#
# Notebook 7 changed the order of the operations and never the operations. There is a second way to be faster: compute something else that has the same result.
#
# The idea of this notebook: **a convolution can be computed in several ways, which trade work, memory and exactness**. You will write two of them in NumPy and let the compiler choose.

# %%
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import f32

import explorer as ex
from explorer.compilation.measurements.schedule_steps import measure_ladder
from explorer.course import check, exercises, predict, skip
from explorer.ir.compute import KernelBuilder
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.kernels.steps.pack import blocked_pack
from explorer.runtime.core_at_hand import lanes_at_hand

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())
c = ex.compile(root / "sample_models" / "digits_cnn.onnx")

# %% [markdown]
# ## As a matrix product: im2col
#
# A 3×3 window at one pixel reads nine numbers of each channel. Write the nine numbers of every pixel into a row of a matrix, and the convolution is one matrix product, for which there are fast libraries. (Chellapilla, Puri and Simard, 2006.)

# %% tags=["prediction"]
growth = predict("How many times as large as the picture is that matrix?", ...)

random = np.random.default_rng(0)
x = random.standard_normal((16, 58, 58)).astype(np.float32)  # with a border of one pixel
w = random.standard_normal((32, 16, 3, 3)).astype(np.float32)
windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
matrix = windows.transpose(1, 2, 0, 3, 4).reshape(56 * 56, 16 * 9)
product = (matrix @ w.reshape(32, 16 * 9).T).T.reshape(32, 56, 56)
direct = np.einsum("cijpq,ocpq->oij", windows, w)
assert np.allclose(product, direct, atol=1e-3)
growth.check(
    matrix.size // (16 * 56 * 56),
    "Every number is copied once for each place in the window.",
)

# %% [markdown]
# This is how early frameworks did it. The compiler here does not: its loops read the windows where they lie, and no matrix is ever written.
#
# ## Fewer products: Winograd
#
# Two neighbouring outputs of a filter with three weights are six products when they are computed one after the other. They share inputs. Winograd's F(2, 3) does with four products, and some additions:
#
# $$y = A^T\big[(G g) \odot (B^T d)\big]$$
#
# The matrix $G$ is applied to the weights, beforehand. $B^T$ only adds and subtracts.

# %%
BT = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
AT = np.array([[1, 1, 1, 0], [0, 1, -1, -1]])

d, g = random.standard_normal(4), random.standard_normal(3)
fast = AT @ ((G @ g) * (BT @ d))
print(fast, "and", np.correlate(d, g))

# %% [markdown]
# In two dimensions it is applied to rows and to columns: F(2×2, 3×3) makes a tile of 2×2 outputs from 4×4 inputs. One product for each of the 16 transformed numbers, where the textbook has 4 × 9 = 36. (Lavin and Gray, 2015.)

# %% tags=["prediction"]
products = predict("F(4×4, 3×3) makes 16 outputs, which are 144 products. How many has it?", ...)
side = 4 + 3 - 1
products.check(side * side, f"A tile reads {side}×{side} inputs: one product for each.")

# %% [markdown]
# ## Four times less work?
#
# A layer as in the middle of a ResNet: 64 channels of 56×56. Both kernels are measured here, in one thread. GFLOP/s count the *textbook's* operations, whatever the kernel does.

# %% tags=["prediction"]
k = KernelBuilder("conv")
x = k.argument("x", (1, 64, 58, 58), f32, "input")
w = k.argument("w", (64, 64, 3, 3), f32, "weight")
y = k.argument("y", (1, 64, 56, 56), f32, "output")
n, o, i, j = k.dimensions(n=1, o=64, i=56, j=56)
k.generic("init", [], (y, (n, o, i, j)), lambda s: s.constant(0.0))
n, o, i, j, ch, p, q = k.dimensions(n=1, o=64, i=56, j=56, c=64, p=3, q=3)
k.generic(
    "main",
    [(x, (n, ch, i + p, j + q)), (w, (o, ch, p, q))],
    (y, (n, o, i, j)),
    lambda s, x, w, y: y + x * w,
    reductions="c p q",
    accumulates=True,
)
layer = k.finish("convolution")
machine = Machine(vector_floats=lanes_at_hand(), language="c")
layouts = {name: blocked_pack(lanes_at_hand()) for name in ("x", "y")}

more_exact = predict(
    "Which result is nearer to the textbook's?", ..., choices=["direct", "winograd"]
)
more_exact.require()
last = {}
for name in ("direct", "winograd4"):
    last[name] = measure_ladder(schedule_kernel(layer, machine, layouts, {"schedule": name})).rungs[
        -1
    ]
for name, rung in last.items():
    print(f"{name:10} {rung.gflops:5.0f} GFLOP/s, off by {rung.max_relative:.1e}")
more_exact.check(
    "direct" if last["direct"].max_relative < last["winograd4"].max_relative else "winograd",
    "The transforms add and subtract numbers of different size, and round each time.",
)

# %% [markdown]
# It is faster, if not by four: the transforms cost additions and memory traffic, and the products of a tile no longer share their weights as before. The speed may be higher than what the core can do at all, as fewer operations are done than are counted.
#
# Small pictures have few tiles, so that the transforms of the weights weigh more. The compiler asks its cost model for each layer, and a person may decide otherwise:

# %%
for knob in c.knobs:
    if knob.address.endswith("conv_3x3_2/schedule"):
        print(knob.address, "=", knob.value, "of", knob.choices)

# %%
# The loops of the kernel, step by step; the decision above is in its schedule.
c.explore(at={"operation": c.kernels["conv_3x3_2"].operations[0], "tab": "loops"})

# %% [markdown]
# **Design note.** cuDNN offers direct convolution, implicit matrix products, Winograd and FFT, and measures which is fastest (*autotuning*). XNNPACK uses an *indirect* matrix product: a table of pointers in place of the im2col matrix. Integers are rarely computed by Winograd: its fractions and growing numbers do not fit into eight bits.
#
# ## Exercises
#
# **1.** F(6×6, 3×3) makes 36 outputs. Which share of the textbook's products does it take? (A half is 0.5.)

# %% explorer={"exercise": "8.1"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "8.1"} tags=["grader"]
check(
    answer,
    exercises.share_of_products(6, 3),
    "A tile of outputs with its border is a tile of inputs.",
)

# %% [markdown]
# **2.** Transformed weights are kept instead of the 3×3 ones. How many times as many are they for F(4×4, 3×3)?

# %% explorer={"exercise": "8.2"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "8.2"} tags=["grader"]
check(
    answer,
    exercises.growth_of_weights(4, 3),
    "They are multiplied with the transformed inputs, one by one.",
)

# %% [markdown]
# **3.** Make a fork of `c` in which `conv_3x3_2` is computed by F(2×2, 3×3), and which is right.

# %% explorer={"exercise": "8.3"} tags=["answer"]
mine = ...

# %% explorer={"exercise": "8.3"} tags=["grader"]
check(
    mine,
    exercises.uses_schedule("conv_3x3_2", "winograd2"),
    "c.fork(decisions={address: value})",
)
