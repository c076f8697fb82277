"""ONNX's backend interface: onnx's own tests, and every tool that speaks it, can run this compiler.

    import explorer.onnx_backend as backend
    outputs = backend.run_model(onnx.load("net.onnx"), [image], device="CPU")

    INTERPRETER   the NumPy meaning of the imported program
    CPU           generated C; every operation of the model runs in it
    OPENCL        generated OpenCL C on the first usable device

    tests = onnx.backend.test.BackendTest(backend.backend_for("OPENCL"), __name__)

Reference: "Implementing an ONNX backend" in ONNX's documentation, `onnx.backend.base`.
"""

from explorer.onnx_backend.backend import (
    DEVICES,
    ExplorerBackend,
    Representation,
    backend_for,
)

prepare = ExplorerBackend.prepare
run_model = ExplorerBackend.run_model
run_node = ExplorerBackend.run_node
supports_device = ExplorerBackend.supports_device

__all__ = [
    "DEVICES",
    "ExplorerBackend",
    "Representation",
    "backend_for",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]
