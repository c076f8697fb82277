# %% [markdown]
# # Compile for an NPU
#
# A neural processing unit multiplies whole matrices in a cycle. It has no caches: a program says which bytes go into which scratchpad, when, and who waits for whom. So most of compiling for one is not about multiplying.
#
# The idea of this notebook: **the array is fast; what counts is that its next numbers are there when it needs them**. You will describe a machine of your own, cut a convolution into tiles for it, see it wait, and find out why the usual cure makes it slower at first.

# %%
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

import explorer as ex
from explorer.course import check, exercises, predict, skip
from explorer.ir.requantization import Requantization, fixed_point
from explorer.npu import Convolution, LayerError, Rescaling, compile_layer
from explorer.runtime.npu import SimulationFault, simulate
from explorer.targets import load_target
from explorer.targets.npu.assembly import line_of
from explorer.targets.npu.checking import check_program
from explorer.targets.npu.encoding import encode
from explorer.targets.npu.machine import describe

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())
folder = Path(tempfile.mkdtemp())

# %% [markdown]
# ## A machine is a file
#
# Memories, engines, queues. Global memory (`dram`) is large and far away, scratchpads are small and near; `dma` moves bytes between them. Three queues of instructions run beside each other: one loads, one computes, one stores.

# %% tags=["prediction"]
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
holds = ["activations"]

[memories.weights]
kind = "scratchpad"
size_bytes = 16384
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
(folder / "mine.toml").write_text(MACHINE)
machine = describe(load_target(str(folder / "mine.toml")))

fast = predict("How many multiply-accumulates does the array of this machine do in a cycle?", ...)
fast.check(
    machine.batch * machine.rows * machine.columns,
    "Each of `batch` positions times the `rows` x `columns` weights that stand in the array.",
)

# %% [markdown]
# ## A convolution in tiles
#
# 16 channels of 16 x 16 numbers, 16 filters of 3 x 3: 589,824 multiply-accumulates. The channels come in blocks of 8, for so many inputs and outputs the array has. A tile is a rectangle of outputs, and some blocks of them; `sizes` are its rows, columns, blocks of outputs, blocks of inputs.
#
# The largest tile is everything.

# %%
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

try:
    compile_layer(layer, machine, sizes=(16, 16, 2, 2), buffers=1)
except LayerError as error:
    print(error)


# %% [markdown]
# The inputs of a tile have to lie in their scratchpad, with the border that the 3 x 3 windows need and with the padding: 18 x 18 x 16 bytes are too many. In four tiles of 4 rows it is 6 x 18 x 16, which fits twice.
#
# `simulate` runs the instructions, counts cycles, and gives the numbers, too: they are those of the layer, to the last bit.

# %%
def run(machine, sizes, buffers):
    """The program, and what came out of a run of it."""
    made = compile_layer(layer, machine, sizes=sizes, buffers=buffers)
    found = simulate(made.program, made.image_with(x), machine)
    assert (made.output_of(found.image) == layer.run(x)).all()
    return made, found


def lanes(found, width=84):
    """A row per queue: # works; a letter waits, for a (t)oken, a (b)ank or a (c)hannel."""
    rows = {queue: [" "] * width for queue in found.busy_cycles}
    for event in found.events:
        start, end = (c * width // found.cycles for c in (event.start_cycle, event.end_cycle))
        waited = sum(cycles for _, cycles in event.waits) * width // found.cycles
        row = rows[event.queue]
        if waited:
            longest, _ = max(event.waits, key=lambda wait: wait[1])
            row[start - waited : start] = longest[0] * waited
        row[start:end] = "#" * (end - start)
    return "\n".join(f"{queue:8}{''.join(row)}" for queue, row in rows.items())


made, single = run(machine, sizes=(4, 16, 2, 2), buffers=1)
print(f"{single.cycles:,} cycles, {single.utilization:.0%} of what the array could do")
print(lanes(single))

# %% tags=["prediction"]
waits = predict(
    "What does the queue `compute` wait for most?",
    ...,
    choices=("token", "bank", "channel"),
)
waits.check(
    max(single.stalls["compute"], key=single.stalls["compute"].get),
    "A token says that a tile's numbers were loaded. Another one, back, says that the buffer is "
    "free: with one buffer the loads wait for it, and then the array waits for the loads.",
    evidence="\n".join(f"{queue:8}{causes}" for queue, causes in single.stalls.items()),
)

# %% [markdown]
# ## Two buffers
#
# The cure is in every textbook: while a tile is computed in one half of the scratchpad, the next one is loaded into the other. The bytes stay the same, but for micro-operations that say where the second half is.

# %% tags=["prediction"]
faster = predict("Does this machine become faster by two buffers: True or False?", ...)
_, double = run(machine, sizes=(4, 16, 2, 2), buffers=2)
faster.check(
    double.cycles < single.cycles,
    f"{double.cycles:,} cycles instead of {single.cycles:,}. Look at what it waits for now.",
    evidence=lanes(double),
)

# %% [markdown]
# The letter is another one: `b`. A scratchpad is made of *banks*, and a bank serves one access at a time. Both halves lie in the only bank that `inputs` has, so that the array waits while the other half is written. Nothing is won, and there is more to do.
#
# So it is the machine that has to change. Two banks each:

# %%
TWO_BANKS = re.sub(r'(holds = \["(activations|weights)"\])', r"banks = 2\n\1", MACHINE)
(folder / "mine.toml").write_text(TWO_BANKS)
banked = describe(load_target(str(folder / "mine.toml")))

made, overlapped = run(banked, sizes=(4, 16, 2, 2), buffers=2)
print(f"{overlapped.cycles:,} cycles, {overlapped.utilization:.0%} of what the array could do")
print(lanes(overlapped))

# %% [markdown]
# Loads and multiplications overlap now. What is left of the waiting is the first tile: nobody can multiply what was not loaded.
#
# ## A token is lost
#
# These are instructions of the first tile. `push_after` gives a token to the queue behind, `pop_before` takes one from the queue before and waits for it.

# %%
for number, instruction in enumerate(made.instructions[:8]):
    print(number, line_of(instruction))

# %% [markdown]
# Take the first `push_after` away: the queue `compute` is never told that the first tile was loaded.

# %% tags=["prediction"]
broken = list(made.instructions)
first = next(n for n, one in enumerate(broken) if one.push_after)
broken[first] = replace(broken[first], push_after=False)
program = encode(broken, banked)

stuck = predict(
    "Which tile's multiplication waits forever?", ..., choices=("the first", "the last")
)
findings = check_program(program, made.image, banked)
waiting = findings[0].instruction
last_wait = max(n for n, one in enumerate(broken) if one.kind == "multiply" and one.pop_before)
stuck.check(
    "the last" if waiting == last_wait else "the first",
    "Tokens have no names. The first multiplication takes the token of the second load, and so "
    "on: all are late by one, until one is missing at the end.",
    evidence="\n".join(str(finding) for finding in findings),
)

# %% [markdown]
# This was found without running. A program that runs all the same does not hang: the simulator stops where nothing can go on.

# %%
try:
    simulate(program, made.image_with(x), banked)
except SimulationFault as fault:
    print(fault)

# %% [markdown]
# ## A network
#
# The same file is a target like any other. `digits_cnn` is a float model; a table of thresholds, calibrated on twenty digits, makes it one of integers.

# %% tags=["prediction"]
images = np.load(root / "sample_models" / "digits_test.npz")["images"]
model = ex.load(root / "sample_models" / "digits_cnn.onnx")
table = ex.calibrate(
    model, {"image": images[:20]}, method="min-max", corrections=(), arithmetic="integer"
)
c = ex.compile(model, str(folder / "mine.toml"), quantization=table)
digit = {"image": images[200:201]}
equal = predict("Is the program equal to the integers of the model to the last bit?", ...)
accuracy = c.accuracy(digit)
equal.check(
    accuracy.report.bit_exact,
    "Behind every pass, and in the simulator: whole numbers leave no room for a tolerance.",
    evidence=accuracy.summary,
)

# %%
print(f"{c.counted.cycles:,} cycles, predicted {c.counted.predicted_cycles:,}")
print(f"{c.counted.utilization:.0%} of what the array could do")
for one in c.counted.layers:
    print(f"{one.cycles:6,} cycles {one.macs / one.cycles:6.1f} a cycle  {one.title}")

# %% [markdown]
# Every layer is small, has padding channels, and starts with nothing loaded. `explorer serve` shows the same in the timeline: a lane for each queue, each wait in the colour of its cause.
#
# **Design note.** Tokens between queues are those of VTA, the NPU of TVM. Vela lets commands of an Ethos-U overlap by a stated number of blocks. In the first TPU the matrix unit stalls by itself until its weights and activations are there.
#
# ## Exercises
#
# **1.** How many cycles does the convolution above take at least on this array, if it never waits?

# %% explorer={"exercise": "13.1"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "13.1"} tags=["grader"]
check(
    answer,
    exercises.cycles_of_array(machine, multiplications=589_824),
    "How many multiplications does the array do in a cycle?",
)

# %% [markdown]
# **2.** Find sizes of tiles with which the machine of two banks takes fewer cycles than it does above. (Rows, columns, blocks of outputs, blocks of inputs; two buffers.)

# %% explorer={"exercise": "13.2"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "13.2"} tags=["grader"]
check(
    answer,
    exercises.takes_fewer_cycles(
        lambda sizes: run(banked, sizes=sizes, buffers=2)[1].cycles, than=overlapped.cycles
    ),
    "Try more than one direction: rows, columns, blocks.",
)

# %% [markdown]
# **3.** In which layer of `digits_cnn` does the array do the most in a cycle? (Its place in the list, from 0.)

# %% explorer={"exercise": "13.3"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "13.3"} tags=["grader"]
check(answer, exercises.busiest_layer(c.counted), "The third column of the list.")

# %% [markdown]
# ## Puzzle
#
# Which tiles keep the array busy?

# %%
from explorer.course import puzzles

puzzle = puzzles.feed_the_array()
puzzle  # puzzle.play({"rows": 4, ...})
