# %% [markdown]
# # Where things run: solutions
#
# For teachers. The exercises are those at the end of the notebook of the same name.

# %%
from dataclasses import replace
from pathlib import Path

import explorer as ex
from explorer.course import check, exercises
from explorer.targets import load_target

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())
model = ex.load(root / "sample_models" / "digits_cnn.onnx")

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


fast = c.fork(decisions=prices(1e9))

# %% [markdown]
# **Exercise 1.** All on the processor costs 310 µs, all on the accelerator 80 µs and two transfers. 296 bytes go there and back; with two latencies of 5 µs they may take 230 µs at most before the processor is cheaper. At 1 MB/s they take 306 µs.

# %%
verdict = check(1e6, exercises.keeps_all_on("cpu", c, prices))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 2.** Three pins; the pools and the dense layers follow.

# %%
devices = {"conv7": "accelerator", "conv8": "cpu", "conv9": "accelerator"}
mine = fast.fork(decisions={f"assign/device/{name}": on for name, on in devices.items()})
verdict = check(mine, exercises.runs_on(devices))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 3.** 3 × 20 µs, 5 × 4 µs, two latencies of 5 µs, and 296 bytes at 100 MB/s: 92.96 µs.

# %%
everywhere = c.fork(decisions=prices(1e8) | {"assign/device": "accelerator"})
verdict = check(3 * 20 + 5 * 4 + 2 * 5 + 296 / 100, exercises.cost_of(everywhere))
assert verdict.is_right
verdict
