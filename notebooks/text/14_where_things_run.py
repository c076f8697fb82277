# %% [markdown]
# # Where things run
#
# A machine often has several devices that can compute the same operation: a processor, a GPU, an NPU. One of them is faster, and its memory is elsewhere.
#
# The idea of this notebook: **an assignment of operations to devices has a price, and the compiler finds the cheapest one**. The price has two parts: the time of every operation on its device, and the time of every value that goes from one device to another. You will set both, move the cut, and meet a pair of operations that cannot be joined.

# %%
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser

import explorer as ex
from explorer.course import check, exercises, predict
from explorer.placement import least_cost
from explorer.targets import load_target

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())
model = ex.load(root / "sample_models" / "digits_cnn.onnx")

# %% [markdown]
# ## The choice alone
#
# `least_cost` needs no model. `costs` has the seconds of each operation on each device; a device that is missing cannot run it. `values` has who makes a value, its bytes, and who reads it. A link has a latency and a bandwidth.
#
# A camera gives a picture of 1 MB. Only the processor can resize and sort. The convolution is four times as fast on the GPU.

# %%
costs = {"resize": {"cpu": 1e-3}, "conv": {"cpu": 4e-3, "gpu": 1e-3}, "sort": {"cpu": 1e-3}}
values = {"pixels": ("resize", 1_000_000, ["conv"]), "scores": ("conv", 4_000, ["sort"])}


def camera(bytes_per_second):
    link = (2e-5, bytes_per_second)
    return least_cost(costs, values, {("cpu", "gpu"): link, ("gpu", "cpu"): link})


# %% tags=["prediction"]
conv = predict("1 MB at 100 MB/s: does the convolution run on 'cpu' or on 'gpu'?", ...)
conv.require()
for bandwidth in (1e9, 1e8):
    found = camera(bandwidth)
    device, milliseconds = found.devices["conv"], found.seconds * 1e3
    print(f"{bandwidth / 1e6:6.0f} MB/s: conv on {device}, {milliseconds:.2f} ms")
conv.check(
    camera(1e8).devices["conv"],
    "Sending the picture takes 10 ms, and the GPU saves 3 ms.",
)

# %% [markdown]
# With two devices this is a minimum cut of a network (Stone, 1977): exact, for any graph. The result has a `bound` that no assignment is below.

# %%
found = camera(1e9)
print(found.optimal, found.bound == found.seconds)
for sent in found.transferred:
    print(sent)

# %% [markdown]
# ## A network on two devices
#
# Your machine may have no second device. So the lesson takes the processor twice: under its own name, and as `accelerator`. Its prices are yours: convolutions take 100 µs on the processor and 20 µs on the accelerator, all other operations 2 µs and 4 µs. Every price is a decision with an address.

# %%
c = ex.compile(model, target=["cpu", replace(load_target("cpu"), name="accelerator")])


def prices(bytes_per_second):
    found = {}
    for operation in (op.operation for op in c.placement.operations):
        is_conv = operation.startswith("conv")
        found[f"price/cpu/{operation}"] = 100e-6 if is_conv else 2e-6
        found[f"price/accelerator/{operation}"] = 20e-6 if is_conv else 4e-6
    for link in ("cpu>accelerator", "accelerator>cpu"):
        found |= {f"price/latency/{link}": 5e-6, f"price/bandwidth/{link}": bytes_per_second}
    return found


def table(d):
    for op in d.placement.operations:
        on = ", ".join(f"{p.device} {p.seconds * 1e6:.0f} µs" for p in op.prices)
        print(f"{op.operation:10} {op.device:12} {on}")
    for sent in d.placement.transfers:
        print(f"{sent.value}: {sent.size_bytes} bytes to {sent.target}, {sent.predicted_us:.2f} µs")
    print(f"predicted {d.placement.assignment.seconds * 1e6:.2f} µs")


fast = c.fork(decisions=prices(1e9))
table(fast)

# %% [markdown]
# The cut lies after `pool2`: its value is small, and the dense layers are cheaper on the processor.
#
# ## The cut moves
#
# Now the link is ten times slower.

# %% tags=["prediction"]
more = predict("At 100 MB/s, does 'less', 'as much' or 'more' run on the accelerator?", ...)
more.require()
slow = c.fork(decisions=prices(1e8))
table(slow)


def on_accelerator(d):
    return sum(op.device == "accelerator" for op in d.placement.operations)


before, after = on_accelerator(fast), on_accelerator(slow)
more.check(
    "less" if after < before else "more" if after > before else "as much",
    "Some value has to come back. That of dense2 has 40 bytes and that of pool2 768: sending the "
    "larger one now costs more than the dense layers lose.",
)

# %%
for point in slow.placement.bandwidths:
    bar = "█" * dict(point.counts)["accelerator"]
    print(f"{100 * point.factor:9,.2f} MB/s  {point.seconds * 1e6:6.1f} µs  {bar}")

# %% [markdown]
# `slow.view("placement")` shows the same, with the price of every operation on every device.
#
# ## Trust
#
# An assignment decides where a number is computed, not which number it is.

# %% tags=["prediction"]
same = predict("Do both programs give the same logits, bit by bit (True or False)?", ...)
inputs = c.example_inputs()
first, second = (d.run(inputs)["logits"] for d in (fast, slow))
same.check(
    first.tobytes() == second.tobytes(),
    "Both devices are the same processor here. Devices that round in another order differ by 1e-5.",
)

# %% [markdown]
# ## A cycle that clustering avoids
#
# Before it assigns, the compiler joins operations between which no cut pays: `cluster`. A cluster runs as one function, so that it has all its inputs before it starts.
#
# `TopK` below gives values and their positions. `Add` reads the values, and the positions as floats. It costs the same on both devices, so that it would go with `TopK`; `Cast` is cheaper on the other one. The devices share their memory here.

# %%
text = """<ir_version: 9, opset_import: ["" : 17]>
loop (float[1,8] x) => (float[1,2] y) {
  k = Constant <value = int64[1] {2}> ()
  values, places = TopK (x, k)
  numbers = Cast <to = 1> (places)
  y = Add (values, numbers)
}"""
path = Path(tempfile.mkdtemp(), "loop.onnx")
onnx.save(onnx.parser.parse_model(text), path)
own = {"topk1": (20e-6, 5e-6), "cast1": (5e-6, 20e-6), "add1": (1e-6, 1e-6)}
decisions = {}
for operation, (cpu, accelerator) in own.items():
    decisions |= {f"price/cpu/{operation}": cpu, f"price/accelerator/{operation}": accelerator}
targets = ["cpu", replace(load_target("cpu"), name="accelerator")]
loop = ex.compile(path, target=targets, decisions=decisions)

# %% tags=["prediction"]
joined = predict("Can TopK and Add be one cluster without Cast (True or False)?", ...)
joined.require()
print({op.operation: op.device for op in loop.placement.operations})
for edge in loop.placement.edges:
    print(f"{edge.maker} -> {edge.reader}: {edge.reason}")
is_refused = any("cycle" in edge.reason for edge in loop.placement.edges)
joined.check(
    not is_refused,
    "Cast waits for the cluster, and the cluster waits for Cast: nothing could begin.",
)

# %% [markdown]
# **Design note.** onnxruntime asks its providers in their order, and the first that can takes what it can. TFLite hands parts of a graph to a delegate. XLA's clustering avoids cycles as above. None of the three weighs a transfer against the time that it saves.
#
# ## Exercises
#
# **1.** The convolutions are five times as fast on the accelerator. Give a bandwidth in bytes per second with which all eight operations stay on `cpu` nevertheless.

# %% explorer={"exercise": "14.1"} tags=["answer"]
bandwidth = ...

# %% explorer={"exercise": "14.1"} tags=["grader"]
check(
    bandwidth,
    exercises.keeps_all_on("cpu", c, prices),
    "The accelerator saves 240 µs. How many bytes go to it and back at least?",
)

# %% [markdown]
# **2.** Make a compilation with `conv8` on `cpu`, and `conv7` and `conv9` on `accelerator`. `assign/device/OPERATION` is a knob; the operations that you do not pin follow.

# %% explorer={"exercise": "14.2"} tags=["answer"]
mine = ...

# %% explorer={"exercise": "14.2"} tags=["grader"]
check(
    mine,
    exercises.runs_on({"conv7": "accelerator", "conv8": "cpu", "conv9": "accelerator"}),
    "fast.fork(decisions={'assign/device/conv8': 'cpu', ...})",
)

# %% [markdown]
# **3.** Compute by hand what the program costs, in microseconds, with all operations on the accelerator and a link of 100 MB/s. The input has 256 bytes, the output 40.

# %% explorer={"exercise": "14.3"} tags=["answer"]
microseconds = ...

# %% explorer={"exercise": "14.3"} tags=["grader"]
check(
    microseconds,
    exercises.cost_of(c.fork(decisions=prices(1e8) | {"assign/device": "accelerator"})),
    "Three convolutions, five other operations, and two transfers with their latency.",
)
