# %% [markdown]
# # From a histogram to an integer kernel: solutions
#
# For teachers. The exercises are those at the end of the notebook of the same name.

# %%
from pathlib import Path

import numpy as np

import explorer as ex
from explorer.course import check, exercises

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())

digits = np.load(root / "sample_models" / "digits_test.npz")
images = digits["images"].astype(np.float32)
calibration, tested = images[:40].copy(), images[200:240]
calibration[17] *= 8  # the flash went off

model = ex.load(root / "sample_models" / "digits_cnn.onnx")

table = ex.calibrate(model, {"image": calibration}, method="min-max")
c = ex.compile(model, quantization=table)
good = ex.calibrate(model, {"image": images[:40]}, method="min-max")
saved = ex.compile(model, quantization=good)

# %% [markdown]
# **Exercise 1.** All thresholds that are several times those of good data take the latter's.

# %%
better = {t.name: t.threshold for t in saved.quantization.tensors}
mine = c.fork(decisions={f"quantize-tensors/threshold/{n}": t for n, t in better.items()})
verdict = check(mine, exercises.nearer_by(c, {"image": tested[:20]}, 6.0))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 2.** The range goes from 0 to 1 in 255 steps: 0.25 lies at 63.75 of them, which is rounded to 64.

# %%
pixels = next(t for t in saved.quantization.tensors if t.name == "image")
print(f"{0.25 / (pixels.high / 255):.2f} steps")
verdict = check(64, exercises.stored_byte(0.25, pixels.low, pixels.high))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 3.** The mode `F32`. The convolution that reads the tensor computes in floats then, and whatever makes it gives real numbers: what surrounds it pays with conversions.

# %%
report = c.accuracy({"image": tested[:1]}).report
(culprit,) = min(report.quantization.layers, key=lambda layer: layer.both_db).reads
mine = c.fork(decisions={f"quantize-tensors/mode/{culprit}": "F32"})
verdict = check(mine, exercises.keeps_float(c, culprit))
assert verdict.is_right
verdict
