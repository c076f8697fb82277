# %% [markdown]
# # From a histogram to an integer kernel
#
# A byte holds 256 numbers. A network of bytes takes a quarter of the memory, and a processor multiplies four of them where it multiplied one float. But which 256 numbers?
#
# The idea of this notebook: **quantizing is choosing ranges, and a range that is wrong is no fault of any pass**. You will find the range that spoils a network, save the network, and follow it into an integer kernel.

# %%
from pathlib import Path

import numpy as np

import explorer as ex
from explorer.course import check, exercises, predict, skip

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())

digits = np.load(root / "sample_models" / "digits_test.npz")
images = digits["images"].astype(np.float32)
calibration, tested = images[:40].copy(), images[200:240]
calibration[17] *= 8  # the flash went off

model = ex.load(root / "sample_models" / "digits_cnn.onnx")
plain = ex.compile(model)

# %% [markdown]
# ## Steps
#
# A quantized tensor stands for real numbers by a scale and a zero point:
#
# $$q = \mathrm{clip}\left(\mathrm{round}(x / s) + z,\ 0,\ 255\right) \qquad x \approx (q - z) \cdot s$$
#
# What lies in the range is off by at most half a step. What lies outside *saturates*. A wide range has coarse steps, a narrow one cuts off.
#
# Ranges come from data: the float model runs over some pictures (*calibration*), and of every tensor a histogram is kept. The simplest method, min-max, takes the smallest and the largest number. Of the 40 pictures here, from 0 to 1, one was taken with a flash: it is eight times as bright.

# %% tags=["prediction"]
left = predict("How many steps does min-max leave for a picture from 0 to 1: 255, 128 or 32?", ...)
table = ex.calibrate(model, {"image": calibration}, method="min-max")
c = ex.compile(model, quantization=table)
pixels = next(t for t in c.quantization.tensors if t.name == "image")
step = pixels.high / 255
left.check(
    min((255, 128, 32), key=lambda guess: abs(np.log(guess * step))),
    f"All 255 steps reach to {pixels.high:.1f}: {1 / step:.0f} of them are below 1.",
    evidence=f"one step is {step:.4f}",
)

# %% [markdown]
# ## Two references
#
# A quantized program cannot be equal to its float source. So it is compared with two programs. *Is it right?* From the quantization on, every pass and the generated C equal the NumPy meaning of the quantized program, bit by bit. *Is it good?* The distance of the outputs from the float model's is given in decibels:
#
# $$\text{SQNR} = 10 \log_{10} \frac{\sum y^2}{\sum (y' - y)^2}$$
#
# Six more are half of the error: one bit.

# %% tags=["prediction"]
passes = predict("With such ranges: does the comparison pass (True or False)?", ...)
inputs = {"image": tested[:1]}
accuracy = c.accuracy(inputs)
report = accuracy.report
passes.check(accuracy.passed, accuracy.summary + ".")

# %% [markdown]
# Nothing is wrong with the compiler: it computes what the table says. A bad range is no fault; it *costs*.
#
# ## What costs most
#
# Every layer is fed the float model's tensors, with only its weights rounded; then only what it reads; then both. The lower the number, the more that costs.

# %% tags=["prediction"]
half = predict("What costs more in most layers here: 'weights' or 'reads'?", ...)
layers = [layer for layer in report.quantization.layers if layer.weights_db is not None]
reads = sum(layer.activations_db < layer.weights_db for layer in layers)
half.check(
    "reads" if reads > len(layers) / 2 else "weights",
    f"In {reads} of {len(layers)} layers. Weights have a scale for every channel, and no flash.",
    evidence=c.view("quantization"),
)

# %%
# Layers by their cost, the histogram of each tensor, and thresholds that can be dragged.
c.explore(at={"pass": "quantize-tensors", "dock": "quantization"})


# %% [markdown]
# The histogram shows why: nearly all numbers lie in the first part, and the thin tail that reaches eight times as far belongs to one picture of 40.
#
# ## Saving it
#
# Other methods look at the whole histogram. *Percentile* cuts off a few in ten thousand. *KL* keeps what tells most of the distribution, *mse* weighs what saturates against what all others lose by coarse steps (`explorer/quantization/methods.py`).

# %%
def decibels(compiled):
    """How near the logits of the tested pictures are to the float model's."""
    noise = signal = 0.0
    for picture in tested:
        (exact,) = plain.run({"image": picture[None]}).values()
        (found,) = compiled.run({"image": picture[None]}).values()
        noise += float(np.sum((found - exact) ** 2))
        signal += float(np.sum(exact**2))
    return 10 * np.log10(signal / noise)


good = ex.calibrate(model, {"image": images[:40]}, method="min-max")
saved = ex.compile(model, quantization=good)
print(f"with the flash {decibels(c):.1f} dB, without it {decibels(saved):.1f} dB")

# %% [markdown]
# Without the flash min-max does well. But a table with a bad range is no reason to calibrate again: every threshold is a *knob*, which a fork changes.
#
# The view names the costliest layer and what it reads.

# %%
worst = min(report.quantization.layers, key=lambda layer: layer.both_db)
(culprit,) = worst.reads
print(f"{worst.operation} reads {culprit}: {worst.activations_db:.0f} dB")
address = f"quantize-tensors/threshold/{culprit}"
d = c.fork(decisions={address: 4.0})
again = d.accuracy(inputs).report
after = next(layer for layer in again.quantization.layers if layer.operation == worst.operation)
print(f"with {address} = 4: {after.activations_db:.0f} dB")
print(f"the network: {decibels(c):.1f} dB before, {decibels(d):.1f} dB after")

# %% [markdown]
# One layer is repaired, and the network is a little better: other layers still have the steps that the flash left them.
#
# ## Down to the kernel
#
# What became of a convolution? A dot product of bytes, sums of 32 bits, and one multiplication that makes bytes of them again (*requantization*), by the scale of the sums over the scale of the result.

# %%
conv = next(op for op in c["fuse-quantization"].after.walked if op.name == "top.conv")
print(conv.get("requantization"), "\n")
kernel = c.kernels["conv_3x3_1"]
lines = [line.strip() for line in kernel.source.lines]
for line in lines[1:4] + [line for line in lines if "dot" in line or "ratios" in line][1:]:
    print(line)

# %% [markdown]
# The only floats are the ratios. All that was lost, was lost in the ranges.
#
# ## A keyword spotter
#
# `alibaba_kws` recognizes twelve words. Its first activation has a long tail, and under min-max the layer after it breaks. The cell says where the model and its data come from.

# %%
import os

folder = Path(os.environ.get("EXPLORER_MODELS", root.parent / "shared" / "models"))
spotter, words = folder / "onnx" / "alibaba_kws.onnx", folder / "data" / "labelled" / "kws01.npz"
if spotter.is_file() and words.is_file():
    sounds = (np.load(words)["features_int8"].astype(np.float32) - 83) * 0.58470296859
    sounds = {"x:0": sounds.reshape(-1, 49, 10, 1).astype(np.float32)}
    heard = {name: array[:200] for name, array in sounds.items()}
    for method in ("min-max", "best"):
        k = ex.compile(spotter, quantization=ex.calibrate(spotter, heard, method=method))
        found = k.accuracy({name: array[200:201] for name, array in sounds.items()}).report
        broken = min(found.quantization.layers, key=lambda layer: layer.both_db)
        print(f"{method}: {found.float_outputs[0].sqnr_db:.1f} dB; {broken.operation} reads")
        print(f"    {broken.reads[0]}: {broken.activations_db:.0f} dB")
else:
    print("model_kws.onnx: github.com/mlcommons/tiny_results_v0.7, open/Alibaba/code/kws")
    print("kws01: github.com/eembc/energyrunner, datasets/kws01, packed as kws01.npz")
    print("put them below the folder that EXPLORER_MODELS names, as", spotter, "and", words)

# %% [markdown]
# ## Weights alone
#
# A model that spends its time on reading weights needs no ranges of activations: its weights become narrow integers with a scale for every block of rows, and all else stays float. Each goes to the nearest integer; or GPTQ rounds row by row over some pictures, and later rows make up for each error.

# %%
dense = ex.load(root / "sample_models" / "digits_mlp.onnx")
pictures = {"image": images[:40]}
for rounding in ("nearest", "gptq"):
    narrow = ex.calibrate(dense, pictures, weights="int4", block=16, rounding=rounding)
    w = ex.compile(dense, quantization=narrow)
    blocks = w.quantization.blocks
    near = w.accuracy({"image": tested[:1]}).report.float_outputs[0].sqnr_db
    size, before = sum(b.size_bytes for b in blocks), sum(b.float_bytes for b in blocks)
    print(f"{rounding}: {size} bytes instead of {before}, {near:.1f} dB")
w.view("quantization")

# %% [markdown]
# **Design note.** TFLite's weights have symmetric scales by channel; TensorRT's calibrator cuts ranges by KL; onnxruntime's default is min-max.
#
# ## Exercises
#
# **1.** Save the network: assign a fork of `c` to `mine` whose logits are at least 6 dB nearer to the float model's than those of `c`, by other thresholds only. All tensors stay bytes.

# %% explorer={"exercise": "11.1"} tags=["answer"]
mine = ...

# %% explorer={"exercise": "11.1"} tags=["grader"]
check(
    mine,
    exercises.nearer_by(c, {"image": tested[:20]}, 6.0),
    "Several thresholds may be changed at once. Those of `saved` are a guide.",
)

# %% [markdown]
# **2.** With the ranges of `saved`: which byte stands for a pixel of 0.25? (A whole number.)

# %% explorer={"exercise": "11.2"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "11.2"} tags=["grader"]
pixels = next(t for t in saved.quantization.tensors if t.name == "image")
check(
    answer,
    exercises.stored_byte(0.25, pixels.low, pixels.high),
    "The range has 255 steps; where it begins at 0, the zero point is 0.",
)

# %% [markdown]
# **3.** Leave the tensor that the costliest layer of `c` reads in floats, and no other one: assign the fork to `mine`. What does its mode cost in the graph?

# %% explorer={"exercise": "11.3"} tags=["answer"]
mine = ...

# %% explorer={"exercise": "11.3"} tags=["grader"]
check(
    mine,
    exercises.keeps_float(c, culprit),
    "Every tensor has, besides its threshold, a knob quantize-tensors/mode/TENSOR.",
)
