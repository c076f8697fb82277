# %% [markdown]
# # Loops and kernels: solutions
#
# For teachers. The exercises are those at the end of the notebook of the same name. Timings differ from machine to machine; what is checked does not depend on them.

# %%
from pathlib import Path

import explorer as ex
from explorer.course import check, exercises

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())

DIRECT = {"schedule": "direct", "prefetch": "none"}
c = ex.compile(root / "sample_models" / "digits_cnn.onnx").fork(schedule={"conv_3x3_2": DIRECT})

# %% [markdown]
# **Exercise 1.** 2 vectors of 14 pixels of one row: 28 accumulators, with long vectors and with short ones. Of 32 registers that leaves four for weights and the pixel that is multiplied; with 16, as AVX2 has them, half of the sums would not fit.

# %%
from xdsl.dialects.builtin import f32

from explorer.compilation.measurements.schedule_steps import measure_ladder
from explorer.ir.compute import KernelBuilder
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.kernels.steps.pack import blocked_pack
from explorer.runtime.core_at_hand import lanes_at_hand

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
lanes = lanes_at_hand()
layouts = {"x": blocked_pack(lanes), "y": blocked_pack(lanes)}
machine = Machine(vector_floats=lanes, language="c")
schedule = schedule_kernel(k.finish("convolution"), machine, layouts, DIRECT)
verdict = check(28, exercises.accumulators(schedule.choices))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 2.** One vector, four pixels, one row. Any other product of four will do: two vectors and two pixels, for example. (Several rows are only legal if a tile is as wide as the picture.)

# %%
address = "schedule-loops/conv_3x3_2/"
mine = c.fork(decisions={address + "vectors": 1, address + "pixels": 4, address + "rows": 1})
mine.schedule["conv_3x3_2"]

# %%
verdict = check(mine, exercises.has_accumulators("conv_3x3_2", 4))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 3.** It comes close, though the kernel only runs for some microseconds: everything it touches lies in the nearest cache. What it lacks goes into starting: the sums that are stored and begun anew more often, and the launch itself.

# %%
large = measure_ladder(schedule)
small = c.measure_ladder("conv_3x3_2")
share = small.rungs[-1].gflops / large.rungs[-1].gflops
verdict = check((small, share), exercises.share_of_speed("conv_3x3_2", large))
assert verdict.is_right
print(f"{share:.2f}")
small
