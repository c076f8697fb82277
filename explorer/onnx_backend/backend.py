"""`onnx.backend.base.Backend`: a model is compiled when its inputs are first seen.

    r = ExplorerBackend.prepare(model, "CPU")
    r.run([x])         compiled for x's shape
    r.run([x])         the same program again
    r.run([longer])    compiled anew: another shape, or other contents where these decide a shape

A program is made for the shapes of the inputs, and for the contents of those inputs that decide a
shape themselves (the target of a Reshape): `specialized_inputs` of its entry function names them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from onnx import ModelProto
from onnx.backend.base import Backend, BackendRep

from explorer.backends import backend_of
from explorer.compilation import Compilation, compile_model
from explorer.errors import DeviceError, InputError
from explorer.importers import SourceModel, to_top
from explorer.ir.evaluation import entry_function, outputs_by_name, specialized_inputs
from explorer.ir.program import Snapshot
from explorer.onnx_backend.signatures import (
    flattened_inputs,
    specialized_model,
    structure_of,
    structured_outputs,
    tensors_of,
)
from explorer.runtime.executable import Executable
from explorer.session import Signature
from explorer.targets import load_target

DEVICES = ("INTERPRETER", "CPU", "OPENCL")
TARGETS = {"CPU": "cpu", "OPENCL": "opencl"}

Opener = Callable[[Compilation], Executable]
"""Builds a compiled program for its device. The default runs C in a process of its own."""


class Representation(BackendRep):
    """A model that runs on one device; programs are kept by what they were made for."""

    def __init__(
        self, model: ModelProto, device: str, open_program: Opener = Compilation.open
    ) -> None:
        self.device = device
        self.model = model
        self._open_program = open_program
        self._programs: dict[tuple[object, Signature], _Program] = {}

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Outputs in the model's order, for inputs in the model's order or by name."""
        named = self._named(inputs)
        outputs = self._program(named).run(flattened_inputs(named))
        return structured_outputs(self.model, outputs)

    def _program(self, named: dict[str, Any]) -> _Program:
        structure, tensors = structure_of(named), tensors_of(named)
        for (known, signature), program in self._programs.items():
            if known == structure and signature.fits(tensors):
                return program
        source = specialized_model(self.model, named)
        program = _Interpreted(source) if self.device == "INTERPRETER" else self._compiled(source)
        self._programs[structure, Signature.of(tensors, program.specialized)] = program
        return program

    def _compiled(self, source: SourceModel) -> _Program:
        return _Compiled(source, TARGETS[self.device], self._open_program)

    @property
    def compilations(self) -> list[Compilation]:
        """What was compiled so far; nothing on the device INTERPRETER."""
        return [p.compilation for p in self._programs.values() if isinstance(p, _Compiled)]

    def close(self) -> None:
        """Gives the devices' memory and processes back; the next run compiles anew."""
        for program in self._programs.values():
            program.close()
        self._programs.clear()

    def _named(self, inputs: Any) -> dict[str, Any]:
        stored = {t.name for t in self.model.graph.initializer}
        names = [i.name for i in self.model.graph.input]
        if isinstance(inputs, dict):
            return {name: _as_array(value) for name, value in inputs.items()}
        arrays = list(inputs) if isinstance(inputs, Sequence) else [inputs]
        wanted = names if len(arrays) == len(names) else [n for n in names if n not in stored]
        if len(arrays) != len(wanted):
            raise InputError(
                f"{len(arrays)} inputs were given, the model takes {len(wanted)}",
                hint=f"they are {', '.join(wanted)}",
            )
        return dict(zip(wanted, map(_as_array, arrays), strict=True))


def _as_array(value: Any) -> Any:
    """A NumPy scalar as an array of rank 0; sequences and optionals stay what they are."""
    return np.asarray(value) if isinstance(value, np.generic) else value


class _Program:
    specialized: tuple[str, ...]

    def run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Tensors by name from tensors by name."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to give back, unless a device is held."""


class _Interpreted(_Program):
    def __init__(self, source: SourceModel) -> None:
        self._source = source
        module, weights = to_top(source)
        self._snapshot = Snapshot(module, weights)
        self.specialized = specialized_inputs(entry_function(module))

    def run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        wanted = {i.name: inputs[i.name] for i in self._source.inputs}
        return outputs_by_name(self._snapshot.program, self._snapshot.run(wanted))


class _Compiled(_Program):
    def __init__(self, source: SourceModel, target: str, open_program: Opener) -> None:
        self._source = source
        self.compilation = compile_model(source, target)
        program = self.compilation.passes[0].after.program
        self.specialized = specialized_inputs(entry_function(program))
        self._executable = open_program(self.compilation)

    def run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return self._executable.run({i.name: inputs[i.name] for i in self._source.inputs})

    def close(self) -> None:
        self._executable.close()


class ExplorerBackend(Backend):
    """The backend; `device` is one of DEVICES."""

    default_device: ClassVar[str] = "CPU"
    open_program: ClassVar[Opener] = Compilation.open

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "", **kwargs: Any) -> Representation:
        """Checks the model; it is compiled when the first inputs are there.

        InputError for an unknown device; ModelError and UnsupportedError come from `run`, because
        what can be compiled depends on the inputs' shapes.
        """
        chosen = cls._device(device)
        if not cls.supports_device(device):
            raise InputError(
                f"there is no device {device!r} here", hint=f"there are {', '.join(DEVICES)}"
            )
        return Representation(model, chosen, cls.open_program)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        chosen = cls._device(device)
        if chosen not in TARGETS:
            return chosen in DEVICES
        try:
            backend_of(load_target(TARGETS[chosen])).device()
        except DeviceError:
            return False
        return True

    @classmethod
    def _device(cls, device: str) -> str:
        """onnx's own tests say CPU and CUDA: CPU stands for this backend's device."""
        return cls.default_device if device in ("", "CPU") else device


def backend_for(device: str, open_program: Opener | None = None) -> type[ExplorerBackend]:
    """A backend whose device CPU is another one, so that onnx's test runner runs it unchanged."""
    if device not in DEVICES:
        raise InputError(f"unknown device {device!r}", hint=f"there are {', '.join(DEVICES)}")
    chosen: Any = open_program or Compilation.open  # which has several forms
    opener = staticmethod(chosen)
    members = {"default_device": device, "open_program": opener}
    return type(f"{device.capitalize()}Backend", (ExplorerBackend,), members)
