# ---
# jupyter:
#   explorer:
#     needs:
#     - ai_edge_litert
# ---

# %% [markdown]
# # One rounding, three answers
#
# A TFLite file holds bytes, scales and zero points, and nothing that is random. Still LiteRT gives three answers to one picture: its *reference* kernels, written to be read, its *optimized* kernels, and *XNNPACK*, which your telephone runs. Which one is right?
#
# The idea of this notebook: **a sum of products is exact; what differs is how it becomes a byte again**. You will find the layer in which the answers part, the element, and the step of the arithmetic.

# %%
from fractions import Fraction
from pathlib import Path

import numpy as np

import explorer as ex
from explorer.course import check, exercises, predict, skip
from explorer.ir.requantization import Requantization, fixed_point, requantize, rounding_shift
from explorer.references.lite_rt import open_model

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())

model = ex.load(root / "sample_models" / "roundings_int8.tflite")
digits = np.load(root / "sample_models" / "digits_test.npz")["images"]
pictures = (np.rint(digits.reshape(-1, 1, 8, 8, 1) * 255) - 128).astype(np.int8)

LAYERS = ("edges", "shapes", "codes")
answers = {}
for kernels in ("reference", "optimized", "xnnpack"):
    with open_model(model, kernels=kernels) as opened:
        runs = [opened.run({"image": picture}) for picture in pictures]
    answers[kernels] = {name: np.concatenate([run[name] for run in runs]) for name in LAYERS}


# %% [markdown]
# ## How far apart
#
# The model has two convolutions, `edges` and `shapes`, and a matrix product, `codes`; every tensor is of signed bytes. What each layer makes is an output of the file, so that all three sets of kernels show it.

# %% tags=["prediction"]
def apart(kernels, layer):
    """Steps between a set of kernels and the reference, element by element."""
    wide = [answers[name][layer].astype(int) for name in (kernels, "reference")]
    return np.abs(wide[0] - wide[1])


far = predict(
    "By how many steps do codes of XNNPACK differ from the reference's at most: 0, 1 or 10?", ...
)
steps = apart("xnnpack", "codes")
far.check(
    int(steps.max()),
    "Nobody makes a mistake: each rounds a number to one of its two neighbours.",
    evidence=f"{np.count_nonzero(steps)} of {steps.size} codes",
)

# %% [markdown]
# One step, in a few codes of a hundred. But a code is made of 1,024 bytes, and these of others: a rounding that falls otherwise is carried on. So where does it begin?

# %% tags=["prediction"]
begins = predict("In which layer do XNNPACK and the reference part first?", ..., choices=LAYERS)
counts = {layer: np.count_nonzero(apart("xnnpack", layer)) for layer in LAYERS}
begins.check(
    next(layer for layer in LAYERS if counts[layer]),
    "From there on each layer adds roundings of its own.",
    evidence="\n".join(
        f"{layer:7} {n:4} of {apart('xnnpack', layer).size}" for layer, n in counts.items()
    ),
)


# %% [markdown]
# ## Down to the sum
#
# `edges` is a convolution: bytes without their zero point times filters, and a bias, added in 32 bits. This is exact, whoever computes it. The sum stands for a real number at the scale
#
# $$s_\mathrm{sum} = s_\mathrm{image} \cdot s_\mathrm{filters}$$
#
# and becomes a byte at another scale: the sum times the *ratio* $s_\mathrm{sum} / s_\mathrm{edges}$, rounded. That is all that there is to disagree about.

# %%
def scale(tensor):
    return model_scales[tensor].astype(np.float64)


model_scales = {
    tensor.name: tensor.quantization.scales
    for graph in model.content.subgraphs
    for tensor in graph.tensors
}
filters = model.constants["edges/filters"][..., 0].astype(int)
padded = np.pad(pictures[:, 0, :, :, 0].astype(int) + 128, ((0, 0), (1, 1), (1, 1)))
windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
sums = np.einsum("nhwij,oij->nhwo", windows, filters) + model.constants["edges/bias"]
ratio = scale("image") * scale("edges/filters") / scale("edges")

place = tuple(np.argwhere(apart("xnnpack", "edges"))[0])
exact = int(sums[place]) * Fraction(ratio[place[-1]])
print("element", [int(i) for i in place], "sum", sums[place])
print("sum * ratio", float(exact))
for kernels, found in answers.items():
    print(f"{kernels:10} {int(found['edges'][place]) + 128}")

# %% [markdown]
# The product lies within a thousandth or two of a half. A floating-point unit would find the nearer neighbour. Who did?

# %% tags=["prediction"]
nearer = predict(
    "Whose `edges` are nearer to the exact products where they differ?",
    ...,
    choices=("reference", "xnnpack"),
)
products = sums * ratio
differ = apart("xnnpack", "edges") > 0
errors = {
    kernels: np.abs(answers[kernels]["edges"][differ] + 128.0 - products[differ]).mean()
    for kernels in ("reference", "xnnpack")
}
nearer.check(
    min(errors, key=errors.get),
    "The reference is no oracle of arithmetic. It is the oracle of what a TFLite file means.",
    evidence="\n".join(f"{name:10} {error:.4f} steps away" for name, error in errors.items()),
)

# %% [markdown]
# ## Two roundings instead of one
#
# A processor without floats multiplies by an integer: the ratio is about $m \cdot 2^{-s}$, $m$ having 32 bits. gemmlowp, whose arithmetic the reference kernels keep, takes *the upper half of the doubled product*, which is rounded, and shifts it by what is left, which is rounded again:
#
# $$h = \left\lfloor \frac{\mathrm{sum} \cdot m + 2^{30}}{2^{31}} \right\rfloor \qquad y = \mathrm{round}\left(h \cdot 2^{-(s - 31)}\right)$$
#
# The first rounding may make exactly a half of what was a little less, and the second one rounds that half away from zero.

# %%
DOUBLE = Requantization("doubling_high_multiply", "nearest_away_from_zero")
factors = fixed_point(ratio, DOUBLE)
m, shift = int(factors.multipliers[place[-1]]), int(factors.shifts[place[-1]])
high = (int(sums[place]) * m + (1 << 30)) >> 31
unit = 1 << (shift - 31)
print(f"exact          {float(exact):.6f}")
print(f"after the first rounding {high} / {unit} = {high / unit}")
print(f"after the second         {int(answers['reference']['edges'][place]) + 128}")

# %% [markdown]
# That is the step in which they part. In the compiler's program it is a property of the requantization, kept from the file's format to the generated C; `c.accuracy()` compares it with the reference kernels bit by bit.

# %%
c = ex.compile(model)
conv = next(op for op in c["fuse-quantization"].after.walked if op.name == "top.conv")
print(conv.get("requantization"), "\n")
kernel = c.kernels["conv_3x3_1"]
print(*[line.strip() for line in kernel.source.lines if "high_product" in line][:2], sep="\n")
accuracy = c.accuracy({"image": pictures[0]})
accuracy.summary


# %% [markdown]
# ## Three sets, layer by layer
#
# Now every layer of every set by itself: it is fed the bytes that this very set made before. Each candidate is a way to round; `none` differ where it is the one.
#
# - *two, ties away from zero*: gemmlowp, as above
# - *two, ties up*: the same, but the second rounding takes a half upwards
# - *once*: one rounding, in 64 bits or in floats

# %%
def rounded(sums, ratio, way):
    """Sums in the scale of a result, without its zero point."""
    if way == "once":
        return requantize(sums, ratio, 0, (-300, 300), Requantization("float", "nearest_even"))
    factors = fixed_point(ratio, DOUBLE)
    high = (sums * factors.multipliers + (1 << 30)) >> 31
    ties = "nearest_up" if way == "two, ties up" else "nearest_away_from_zero"
    return rounding_shift(high, factors.shifts - 31, ties)


def layer_sums(kernels, layer):
    """The exact sums of a layer, of what a set of kernels gave it, and their ratios."""
    constants, made = model.constants, answers[kernels]
    if layer == "edges":
        return sums, ratio
    if layer == "shapes":
        x, source = made["edges"].astype(int) + 128, "edges"
        products = x @ constants["shapes/filters"][:, 0, 0].T.astype(int)
    else:
        x, source = made["shapes"].reshape(len(pictures), -1).astype(int) + 128, "shapes"
        products = x @ constants["codes/filters"].T.astype(int)
    ratios = scale(source) * scale(f"{layer}/filters") / scale(layer)
    return products + constants[f"{layer}/bias"], ratios


WAYS = ("two, ties away from zero", "two, ties up", "once")
ZEROS = {"edges": -128, "shapes": -128, "codes": 5}
table = {}
for kernels in answers:
    for layer in LAYERS:
        for way in WAYS:
            found = rounded(*layer_sums(kernels, layer), way) + ZEROS[layer]
            wrong = np.count_nonzero(np.clip(found, -128, 127) != answers[kernels][layer])
            table[kernels, layer, way] = wrong
        row = "   ".join(f"{way}: {table[kernels, layer, way] or 'none'}" for way in WAYS)
        print(f"{kernels:10} {layer:7} {row}")

# %% [markdown]
# The reference rounds twice in convolutions and once in the matrix product: two kernels, two authors. XNNPACK rounds once, everywhere, in floats. What the optimized kernels do depends on the processor that they are optimized for; look at the rows that your machine shows.
#
# So "equal to LiteRT" means nothing until somebody says to which kernels. `explorer check` names them, and compares integers bit by bit.
#
# **Design note.** gemmlowp rounds twice because an instruction of Arm's (`SQRDMULH`) does the first rounding for nothing. TFLite and CMSIS-NN can be built with a single rounding; onnxruntime multiplies by a float.
#
# ## Exercises
#
# **1.** By how many steps may a layer differ between two of these ways of rounding, if both get the same sums? (A whole number.)

# %% explorer={"exercise": "12.1"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "12.1"} tags=["grader"]
check(
    answer,
    exercises.steps_between(rounded, WAYS),
    "Each gives one of the two neighbours of the exact product.",
)

# %% [markdown]
# **2.** A sum of 1001 with m = 2^30 and s = 33: what does gemmlowp make of it? (h first, then y.)

# %% explorer={"exercise": "12.2"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "12.2"} tags=["grader"]
check(
    answer,
    exercises.requantized(1001, 2.0**-3, DOUBLE),
    "m / 2^s is 1/8. The first rounding is of 1001 / 2, and the second of that by 4.",
)

# %% [markdown]
# **3.** Which of the three ways makes the reference's `codes` of its sums? (One of `WAYS`.)

# %% explorer={"exercise": "12.3"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "12.3"} tags=["grader"]
check(
    answer,
    exercises.way_without_errors({way: table["reference", "codes", way] for way in WAYS}),
    "Look for `none` in the table.",
)
