"""Other tools that quantize: what they need, and what they make of a case.

    PEERS["NNCF"].packages                          ("nncf==3.4.0", ...)
    python = interpreter(PEERS["NNCF"], folder)     made where it is missing
    outputs_of("NNCF", case, folder)                (N, ...) of each output, over the test data

Tools share an environment where their requirements agree; AIMET's agree with no other's, and take
another Python.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cases import Case

FOLDER = Path(__file__).resolve().parent
SECONDS = 1800
"""That a peer has for one model."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment, by its folder's name."""

    name: str
    packages: tuple[str, ...]
    python: str = ""
    """The command that runs its Python; "" for the one that runs this."""


GENERAL = Environment("general", ("nncf==3.4.0", "onnx", "onnxruntime", "scikit-learn", "sympy"))
AIMET = Environment("aimet", ("aimet-onnx==2.42.0",), "python3.10")

PEERS: Mapping[str, Environment] = {
    "onnxruntime min-max": GENERAL,
    "onnxruntime percentile": GENERAL,
    "onnxruntime entropy": GENERAL,
    "NNCF": GENERAL,
    "AIMET": AIMET,
    "AIMET+adaround": AIMET,
}


class PeerError(Exception):
    """A peer was not installed, or did not quantize or run the model; the last line it said."""


def interpreter(environment: Environment, folder: Path) -> Path:
    """The environment's Python; the environment is made where it is missing."""
    home = folder / environment.name
    python = home / "bin/python"
    if not python.is_file():
        base = shutil.which(environment.python) if environment.python else sys.executable
        if base is None:
            raise PeerError(f"there is no {environment.python}")
        _said([base, "-m", "venv", str(home)])
        try:
            _said([str(python), "-m", "pip", "install", "-q", *environment.packages])
        except PeerError:
            shutil.rmtree(home)  # half of it would count as there
            raise
    # A virtual environment's python is a link, which has to keep its place.
    return python.absolute()


def outputs_of(method: str, case: Case, folder: Path) -> list[np.ndarray]:
    """(N, ...) of each output over the test data, as the peer's quantized model computes them."""
    python = interpreter(PEERS[method], folder)
    with tempfile.TemporaryDirectory() as place:
        data, outputs = Path(place) / "data.npz", Path(place) / "outputs.npz"
        arrays = {f"calibration/{name}": array for name, array in case.calibration.items()}
        arrays |= {f"test/{name}": array for name, array in case.test.items()}
        np.savez(data, **arrays)  # pyright: ignore[reportArgumentType]  names of inputs
        command = [str(python), str(FOLDER / "peer.py"), method, str(Path(case.model).resolve())]
        # Quantizers leave files where they are started.
        _said([*command, str(data), str(outputs)], cwd=place, timeout=SECONDS)
        with np.load(outputs) as file:
            return [file[name] for name in file.files]


def _said(command: list[str], cwd: str | None = None, timeout: float | None = None) -> None:
    """Runs it; PeerError with the last line that it said."""
    try:
        subprocess.run(
            command, cwd=cwd, check=True, capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired as error:
        raise PeerError(f"not done within {timeout:g} s") from error
    except subprocess.CalledProcessError as error:
        if error.returncode < 0:
            raise PeerError(f"ended by signal {-error.returncode}") from error
        lines = (error.stderr or "").strip().splitlines() or [f"status {error.returncode}"]
        raise PeerError(lines[-1].strip()) from error
