# %% [markdown]
# # Deploy: solutions
#
# For teachers. The exercises are those at the end of the notebook of the same name.

# %%
import tempfile
from pathlib import Path

import numpy as np

import explorer as ex
from explorer.course import check, exercises
from explorer.packaging.inspecting import inspect_package

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())
out = Path(tempfile.mkdtemp())

model = ex.load(root / "sample_models" / "digits_cnn.onnx")
c = ex.compile(model, target="cortex-m4")

folder = c.package(out / "digits")

# %% [markdown]
# **Exercise 1.** The arena has 14,592 bytes. In launch 2 the second convolution reads the 6,400 bytes of `conv7` and writes the 8,192 bytes of `conv8`, which is all of it.

# %%
live = c.memory.live_bytes
verdict = check(2, live.index(max(live)))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 2.** The program in int8 takes 3,648 bytes.

# %%
images = np.load(root / "sample_models" / "digits_test.npz")["images"].astype(np.float32)
table = ex.calibrate(model, {"image": images[:40]}, method="min-max")
mine = ex.compile(model, target="cortex-m4", quantization=table)
verdict = check(mine, exercises.fits_into(4096, "cortex-m4"))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 3.** One blank more changes the SHA-256 of the file, which the manifest has.

# %%
weights = folder / "src" / "digits_cnn_weights.h"
weights.write_text(weights.read_text().replace(" = {", "  = {", 1))
named = [text.split(":")[0] for text in inspect_package(folder, builds=False).changed_files]
verdict = check("src/digits_cnn_weights.h", named[0])
assert verdict.is_right
verdict
