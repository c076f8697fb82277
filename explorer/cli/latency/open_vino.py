"""OpenVINO as a side of a measurement, in a process and an environment of its own.

    with OpenVino(model, inputs, threads=2) as runtime:
        runtime.time(least=5, budget_seconds=0.02)      [0.0011, 0.0010, ...]

It is not installed beside our own packages, whose versions it may not like: the first use makes a
virtual environment in the cache folder (280 MB, half a minute).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from explorer.cli.latency import OPENVINO
from explorer.cli.latency.reference import onnx_content
from explorer.errors import DeviceError, ModelError
from explorer.importers import SourceModel
from explorer.references import timing
from explorer.runtime.cache.folder import cache_folder, make_private
from explorer.runtime.child import Child

VERSION = "2026.4.1"
WORKER = Path(__file__).with_name("openvino_worker.py")
TIMING = Path(timing.__file__).parent
"""What the worker finds there times calls of every runtime in the same way."""
LIMIT_SECONDS = 300.0
"""For loading a model, and for one turn."""
READY = "ready"
"""A file in the environment that says that it is complete."""


class OpenVino:
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        answer = self._child.ask(request, LIMIT_SECONDS)
        problem = answer.get("error") or answer.get("reason")
        if problem:
            raise ModelError(f"OpenVINO cannot run the model: {problem}")
        return answer


def environment() -> Path:
    """The Python interpreter of OpenVINO's environment, which is made where there is none.

    DeviceError where it cannot be made: no network, no space, no wheel for this system.
    """
    folder = environment_folder()
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if (folder / READY).is_file() and python.is_file():
        return python
    try:
        if folder.exists():  # an installation that was interrupted
            shutil.rmtree(folder)
        make_private(folder.parent)
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([str(python), "-m", "pip", "install", "--quiet", f"openvino=={VERSION}", "numpy"])
        (folder / READY).touch()
    except OSError as error:
        raise _refusal(folder, error.strerror or str(error)) from error
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or "").strip().splitlines() or [f"status {error.returncode}"]
        raise _refusal(folder, lines[-1]) from error
    return python


def environment_folder() -> Path:
    """Beside the compiled programs; among the temporary files where these are not kept."""
    programs = cache_folder()
    root = Path(tempfile.gettempdir()) / "explorer" if programs is None else programs.parent
    return root / "peers" / f"openvino-{VERSION}-python{sys.version_info[0]}.{sys.version_info[1]}"


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, errors="replace")


def _refusal(folder: Path, reason: str) -> DeviceError:
    return DeviceError(
        f"OpenVINO cannot be installed into {folder}: {reason}",
        hint=f"make that environment by hand (pip install openvino=={VERSION} numpy, then an "
        f"empty file `{READY}` in it), or measure without it",
    )
