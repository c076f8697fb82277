# %% [markdown]
# # Compile for an NPU: solutions
#
# Run the lesson to see what they are about.

# %%
import tempfile
from pathlib import Path

import numpy as np

import explorer as ex
from explorer.course import check
from explorer.ir.requantization import Requantization, fixed_point
from explorer.npu import Convolution, Rescaling, compile_layer
from explorer.runtime.npu import simulate
from explorer.targets import load_target
from explorer.targets.npu.machine import describe

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())
file = Path(tempfile.mkdtemp()) / "mine.toml"

MACHINE = """
name = "mine-8"
description = "An array of 4 positions x 8 inputs x 8 outputs"
languages = ["instructions"]
data_types = ["int8", "int32"]
arithmetic = "integer"
clock_hz = 200e6

[layout]
channel_block = 8

[requantization]
scheme = "multiplier_shift"
rounding = "nearest_up"

[memories.dram]
kind = "dram"
latency_cycles = 160

[memories.inputs]
kind = "scratchpad"
size_bytes = 4096
banks = 2
holds = ["activations"]

[memories.weights]
kind = "scratchpad"
size_bytes = 16384
banks = 2
holds = ["weights"]

[memories.sums]
kind = "scratchpad"
size_bytes = 32768
ports = 2
holds = ["accumulators"]

[memories.static]
kind = "scratchpad"
size_bytes = 8192
ports = 2
holds = ["micro_operations", "tables"]

[engines.matrix]
kind = "matrix"
batch = 4
rows = 8
columns = 8
input_bits = 8
weight_bits = 8
accumulator_bits = 32

[engines.vector]
kind = "vector"
lanes = 16
operations = ["minimum", "maximum", "add", "shift_right", "multiply", "requantize", "table"]
table_entries = 256

[engines.dma]
kind = "dma"
connects = ["dram", "inputs", "weights", "sums", "static"]
channels = 2
bytes_per_cycle = 4

[queues.load]
loads = ["activations", "weights"]

[queues.compute]
loads = ["micro_operations", "accumulators", "tables"]
engines = ["matrix", "vector"]

[queues.store]
stores = ["accumulators"]
"""
file.write_text(MACHINE)
machine = describe(load_target(str(file)))
random = np.random.default_rng(0)
how = Requantization(machine.scheme, machine.rounding)
factors = fixed_point(random.uniform(0.001, 0.002, 16), how)
layer = Convolution(
    name="conv",
    input_shape=(16, 16, 16),
    weights=random.integers(-128, 128, (16, 16, 3, 3)),
    bias=random.integers(-1000, 1000, 16),
    rescaling=Rescaling(how=how, multipliers=factors.multipliers, shifts=factors.shifts),
    pads=(1, 1, 1, 1),
    input_zero_point=-3,
)
x = random.integers(-128, 128, layer.input_shape)

# %% [markdown]
# **Exercise 1.** 4 positions times 8 x 8 weights are 256 in a cycle: 589,824 / 256.

# %%
verdict = check(2304, 589_824 // (machine.batch * machine.rows * machine.columns))
assert verdict.is_right
verdict


# %% [markdown]
# **Exercise 2.** One block of inputs or of outputs at a time: the first loads are half as long, so that the array begins earlier. That it loads more bytes does not matter while loads are hidden behind multiplications.

# %%
def cycles_with(sizes):
    made = compile_layer(layer, machine, sizes=sizes, buffers=2)
    return simulate(made.program, made.image_with(x), machine).cycles


for sizes in [(4, 16, 2, 2), (2, 16, 2, 2), (4, 16, 1, 2), (4, 16, 2, 1)]:
    print(sizes, f"{cycles_with(sizes):,} cycles")


def better(sizes):
    cycles = cycles_with(sizes)
    return True if cycles < cycles_with((4, 16, 2, 2)) else f"these take {cycles:,} cycles"


verdict = check((4, 16, 2, 1), better)
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 3.** In the second convolution: 16 channels in, 32 out, so that blocks are full, on a picture of 8 x 8. The first one has a single input channel of the eight that the array takes, and a matrix product has one position of four, and loads each weight for a single use.

# %%
images = np.load(root / "sample_models" / "digits_test.npz")["images"]
model = ex.load(root / "sample_models" / "digits_cnn.onnx")
table = ex.calibrate(
    model, {"image": images[:20]}, method="min-max", corrections=(), arithmetic="integer"
)
c = ex.compile(model, str(file), quantization=table)
c.run({"image": images[200:201]})
layers = c.counted.layers
best = max(range(len(layers)), key=lambda place: layers[place].macs / layers[place].cycles)
verdict = check(1, best)
assert verdict.is_right
verdict
