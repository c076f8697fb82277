# %% [markdown]
# # Deploy: a model without Python
#
# A microcontroller has no Python, no operating system and no files. It has *flash*, which keeps code and constants, and *RAM*, of which there is less: 1 MiB and 192 KiB on a usual Cortex-M4.
#
# The idea of this notebook: **a compiled model is a table of function calls and two blocks of bytes**. The weights are constants and lie in flash. The arena is all that a run writes and lies in RAM. What is left is a loop. You will make a C package of a digit classifier, read it, run it in an emulator where one is installed, and then bring its RAM below half.

# %%
import json
import tempfile
from pathlib import Path

import numpy as np

import explorer as ex
from explorer.course import check, exercises, predict
from explorer.packaging.inspecting import inspect_package
from explorer.packaging.toolchains import build_package

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())
out = Path(tempfile.mkdtemp())

model = ex.load(root / "sample_models" / "digits_cnn.onnx")
c = ex.compile(model, target="cortex-m4")

# %% [markdown]
# ## Flash and RAM
#
# Every weight takes four bytes. Batch normalization was folded into the convolutions, so that the compiled program has fewer weights than the file has parameters.

# %% tags=["prediction"]
flash = predict("How many KiB of flash do the weights take: about 30, 60 or 120?", ...)
print(f"{model.parameters:,} parameters in the file")
flash.check(
    min((30, 60, 120), key=lambda guess: abs(guess - c.program.weights_bytes / 1024)),
    f"{c.program.weights_bytes:,} bytes, {c.program.arena_bytes:,} bytes of arena.",
)

# %% [markdown]
# ## The package
#
# `package` writes a folder, all of it or nothing. Its C99 needs a compiler and nothing else.

# %%
folder = c.package(out / "digits")
for path in sorted(p for p in folder.rglob("*") if p.is_file()):
    print(f"{path.stat().st_size:8,}  {path.relative_to(folder)}")

# %% [markdown]
# The interface is small. The caller gives the memory; inputs and outputs lie in it.

# %%
header = (folder / "include" / "digits_cnn.h").read_text()
print(header[header.index("// Takes the memory") : header.index("#ifdef __cplusplus\n}")])

# %% [markdown]
# ## The table of launches
#
# Which layer runs when, and where its numbers lie, was decided by the compiler. What runs on the device is this table. The comment above it is the map of the arena: bytes that two values share are never needed by both at a time.

# %%
driver = (folder / "src" / "digits_cnn.c").read_text()
print(driver[driver.index("// The arena,") : driver.index("const struct digits_cnn_tensor")])

# %% tags=["prediction"]
allocates = predict("Does the package call malloc or free (True or False)?", ...)
sources = "".join(path.read_text() for path in (folder / "src").iterdir())
allocates.check(
    "malloc(" in sources or "free(" in sources,
    "Every address was planned when the model was compiled: nothing is allocated at run time.",
)

# %% [markdown]
# ## Is it right?
#
# `selftest.c` has inputs, and the outputs that the just-in-time program computed of them. `build_package` compiles both for the target and runs the test in an emulator; where a tool is missing, the record says which, and the number is `None`. On this machine's own processor `make selftest` does the same.

# %%
build = build_package(folder, "digits_cnn", c.target)
print("self-test passed:", build.passed, build.note)
print("bytes of code:", build.code_bytes)
print("instructions of a run:", build.instructions)

# %% [markdown]
# ## Half of the RAM
#
# The arena holds activations, four bytes each. Quantized, an activation is one byte ([lesson 11](11_quantization.ipynb)). The pictures of the test set give the ranges.

# %% tags=["prediction"]
halved = predict("Does the int8 package need less than half of the RAM (True or False)?", ...)
images = np.load(root / "sample_models" / "digits_test.npz")["images"].astype(np.float32)
table = ex.calibrate(model, {"image": images[:40]}, method="min-max")
small = ex.compile(model, target="cortex-m4", quantization=table)
halved.check(
    2 * small.program.arena_bytes < c.program.arena_bytes,
    f"{small.program.arena_bytes:,} bytes of arena, {small.program.weights_bytes:,} of weights.",
)

# %%
small_folder = small.package(out / "digits_int8", name="digits_int8")
small_build = build_package(small_folder, "digits_int8", small.target)
print("self-test passed:", small_build.passed, small_build.note)
print("bytes of code:", small_build.code_bytes)

# %% [markdown]
# Fewer bytes, and still the right digits? The just-in-time program of the same compilation computes what the package computes.

# %%
labels = np.load(root / "sample_models" / "digits_test.npz")["labels"]
tested = range(200, 240)
right = {
    name: sum(
        int(program.run({"image": images[i : i + 1]})["logits"].argmax() == labels[i])
        for i in tested
    )
    for name, program in (("float", c), ("int8", small))
}
right

# %% [markdown]
# **Design note.** TFLite Micro interprets the model's file on the device: the model is data, and the kernels of its operators are linked. TVM's ahead-of-time executor and IREE's EmitC write C, as here.
#
# ## Exercises
#
# **1.** In which launch, counted from 0, is the arena of the float package full: where do most bytes live at once? The map above shows it.

# %% explorer={"exercise": "16.1"} tags=["answer"]
fullest = ...

# %% explorer={"exercise": "16.1"} tags=["grader"]
check(fullest, exercises.fullest_launch(c), "Add up the sizes of all values that a launch needs.")

# %% [markdown]
# **2.** Make a compilation for `cortex-m4` that fits into 4 KiB of RAM.

# %% explorer={"exercise": "16.2"} tags=["answer"]
mine = ...

# %% explorer={"exercise": "16.2"} tags=["grader"]
check(mine, exercises.fits_into(4096, "cortex-m4"), "Which of the two programs above does?")

# %% [markdown]
# **3.** A file of the package was changed on its way to the device. Which one does `inspect_package` name?

# %% explorer={"exercise": "16.3"} tags=["answer"]
changed = ...

# %% explorer={"exercise": "16.3"} tags=["grader"]
weights = folder / "src" / "digits_cnn_weights.h"
weights.write_text(weights.read_text().replace(" = {", "  = {", 1))
check(
    changed,
    exercises.changed_file(inspect_package(folder, builds=False)),
    "inspect_package(folder, builds=False).changed_files",
)
