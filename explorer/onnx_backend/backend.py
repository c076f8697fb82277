"""`onnx.backend.base.Backend`: a model is compiled when its inputs are first seen.

    r = ExplorerBackend.prepare(model, "CPU")
    r.run([x])         compiled for x's shape
    r.run([x])         the same program again
    r.run([longer])    compiled anew: another shape, or other contents where these decide a shape

A program is made for the shapes of the inputs, and for the contents of those inputs that decide a
shape themselves (the target of a Reshape): `specialized_inputs` of its entry function names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import ModelProto
from onnx.backend.base import Backend, BackendRep

from explorer.compilation import compile_model
from explorer.errors import InputError
from explorer.importers import SourceModel, to_top
from explorer.ir.evaluation import entry_function, outputs_by_name, specialized_inputs
from explorer.ir.program import Snapshot
from explorer.onnx_backend.signatures import Signature, specialized_model
from explorer.runtime.devices import first_usable, list_devices

DEVICES = ("INTERPRETER", "CPU", "OPENCL")
_TARGETS = {"CPU": "cpu", "OPENCL": "opencl"}


class Representation(BackendRep):
    """A model that runs on one device; programs are kept by what they were made for."""

    def __init__(self, model: ModelProto, device: str) -> None:
        self.device = device
        self._proto = model
        self._programs: dict[Signature, _Program] = {}

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Outputs in the model's order, for inputs in the model's order or by name."""
        named = self._named(inputs)
        for signature, program in self._programs.items():
            if signature.fits(named):
                return program.run(named)
        source = specialized_model(self._proto, named)
        program = _Interpreted(source) if self.device == "INTERPRETER" else self._compiled(source)
        self._programs[Signature.of(named, program.specialized)] = program
        return program.run(named)

    def _compiled(self, source: SourceModel) -> _Program:
        return _Compiled(source, _TARGETS[self.device])

    def _named(self, inputs: Any) -> dict[str, Any]:
        stored = {t.name for t in self._proto.graph.initializer}
        names = [i.name for i in self._proto.graph.input]
        if isinstance(inputs, dict):
            return dict(inputs)
        arrays = list(inputs) if isinstance(inputs, Sequence) else [inputs]
        wanted = names if len(arrays) == len(names) else [n for n in names if n not in stored]
        if len(arrays) != len(wanted):
            raise InputError(
                f"{len(arrays)} inputs were given, the model takes {len(wanted)}",
                hint=f"they are {', '.join(wanted)}",
            )
        return dict(zip(wanted, arrays, strict=True))


class _Program:
    specialized: tuple[str, ...]

    def run(self, inputs: dict[str, Any]) -> tuple[Any, ...]:
        raise NotImplementedError


class _Interpreted(_Program):
    def __init__(self, source: SourceModel) -> None:
        self._source = source
        module, weights = to_top(source)
        self._snapshot = Snapshot(module, weights)
        self.specialized = specialized_inputs(entry_function(module))

    def run(self, inputs: dict[str, Any]) -> tuple[Any, ...]:
        wanted = {i.name: inputs[i.name] for i in self._source.inputs}
        values = self._snapshot.run(wanted)
        outputs = outputs_by_name(self._snapshot.program, values)
        return tuple(outputs[o.name] for o in self._source.outputs)


class _Compiled(_Program):
    def __init__(self, source: SourceModel, target: str) -> None:
        self._source = source
        self._compilation = compile_model(source, target)
        program = self._compilation.passes[0].after.program
        self.specialized = specialized_inputs(entry_function(program))

    def run(self, inputs: dict[str, Any]) -> tuple[Any, ...]:
        wanted = {i.name: inputs[i.name] for i in self._source.inputs}
        outputs = self._compilation.run(wanted)
        return tuple(outputs[o.name] for o in self._source.outputs)


class ExplorerBackend(Backend):
    """The backend; `device` is one of DEVICES."""

    default_device = "CPU"

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
        return Representation(model, chosen)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        chosen = cls._device(device)
        if chosen == "OPENCL":
            return first_usable(list_devices(), "opencl") is not None
        return chosen in DEVICES

    @classmethod
    def _device(cls, device: str) -> str:
        """onnx's own tests say CPU and CUDA: CPU stands for this backend's device."""
        return cls.default_device if device in ("", "CPU") else device


def backend_for(device: str) -> type[ExplorerBackend]:
    """A backend whose device CPU is another one, so that onnx's test runner runs it unchanged."""
    if device not in DEVICES:
        raise InputError(f"unknown device {device!r}", hint=f"there are {', '.join(DEVICES)}")
    return type(f"{device.capitalize()}Backend", (ExplorerBackend,), {"default_device": device})
