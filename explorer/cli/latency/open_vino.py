"""OpenVINO as a side of a measurement, in a process and an environment of its own.

    with OpenVino(model, inputs, threads=2) as runtime:
        runtime.time(least=5, budget_seconds=0.02)      [0.0011, 0.0010, ...]

It is not installed next to our own packages, which may need other versions of its requirements:
it has a virtual environment in the cache folder (280 MB), which the person makes once.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from explorer.cli.latency import OPENVINO
from explorer.cli.latency.reference import onnx_content
from explorer.closing import Closing
from explorer.errors import DeviceError, ModelError
from explorer.importers import SourceModel
from explorer.references import timing
from explorer.runtime.cache.folder import cache_folder
from explorer.runtime.child import Child

VERSION = "2026.4.1"
WORKER = Path(__file__).with_name("openvino_worker.py")
TIMING = Path(timing.__file__).parent
"""What the worker finds there times calls of every runtime in the same way."""
LIMIT_SECONDS = 300.0
"""For loading a model, and for one turn."""


class OpenVino(Closing):
    """Close it, or use it in a `with` statement."""

    name = OPENVINO

    def __init__(self, model: SourceModel, inputs: Mapping[str, np.ndarray], threads: int) -> None:
        """ModelError where OpenVINO does not load or run it; DeviceError where there is none."""
        python = environment()
        self._folder = Path(tempfile.mkdtemp(prefix="explorer-openvino-"))
        self._child = Child(
            [str(WORKER)], executable=str(python), environment={"PYTHONPATH": str(TIMING)}
        )
        try:
            path, arrays = self._folder / "model.onnx", self._folder / "inputs.npz"
            path.write_bytes(onnx_content(model).proto.SerializeToString())
            np.savez(arrays, **inputs)  # pyright: ignore[reportArgumentType]  a name of an input
            request = {"open": str(path), "inputs": str(arrays), "threads": threads}
            self.version = self._ask(request)["version"]
        except BaseException:
            self.close()
            raise

    def time(self, least: int, budget_seconds: float) -> list[float]:
        return self._ask({"time": least, "budget_seconds": budget_seconds})["seconds"]

    def run(self) -> dict[str, np.ndarray]:
        """Outputs by name."""
        path = self._folder / "outputs.npz"
        self._ask({"outputs": str(path)})
        with np.load(path) as arrays:
            return {name: arrays[name] for name in arrays.files}

    def close(self) -> None:
        self._child.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        answer = self._child.ask(request, LIMIT_SECONDS)
        problem = answer.get("error") or answer.get("reason")
        if problem:
            raise ModelError(f"OpenVINO cannot run the model: {problem}")
        return answer


def environment() -> Path:
    """The Python interpreter of OpenVINO's environment; DeviceError where there is none."""
    folder = environment_folder()
    is_windows = sys.platform == "win32"
    python = folder / ("Scripts/python.exe" if is_windows else "bin/python")
    packages = "Lib/site-packages" if is_windows else "lib/python*/site-packages"
    if python.is_file() and any(folder.glob(f"{packages}/openvino-*.dist-info/RECORD")):
        return python
    name = shlex.quote(str(folder))
    raise DeviceError(
        f"OpenVINO has no environment at {folder}",
        hint=f"make one: {shlex.quote(sys.executable)} -m venv {name} && "
        f"{shlex.quote(str(python))} -m pip install openvino=={VERSION} numpy",
    )


def environment_folder() -> Path:
    """Next to the compiled programs; among the temporary files where these are not kept."""
    programs = cache_folder()
    root = Path(tempfile.gettempdir()) / "explorer" if programs is None else programs.parent
    return root / "peers" / f"openvino-{VERSION}-python{sys.version_info[0]}.{sys.version_info[1]}"
