"""onnx's own test cases, and running one of them on a device through onnx's test runner.

    for case in load_cases():                      # node, simple, pytorch-*, real
        outcome = Suite().run(case.name, case.group, "CPU")

    case test_add      status passed
    case test_if_seq   status refused    reason: a value that is a sequence

A case is passed on CPU or OPENCL only if its numbers are right *and* all of its model runs as
generated code (`coverage.py`).
"""

from __future__ import annotations

import contextlib
import io
import time
import traceback
import unittest
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto
from onnx.backend.base import Backend
from onnx.backend.test import runner
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.runner import Runner

from explorer.compilation import Compilation
from explorer.errors import BuildError, DeviceError, ExplorerError, UnsupportedError
from explorer.onnx_backend.backend import Opener, Representation, backend_for
from explorer.runtime.executable import Executable
from verification.conformance.coverage import not_generated, values_from_inputs
from verification.conformance.onnx_cases import find_case, load_group
from verification.conformance.oracle import ORACLE, OracleBackend

CATEGORIES = {
    "node": "OnnxBackendNodeModelTest",
    "simple": "OnnxBackendSimpleModelTest",
    "pytorch-converted": "OnnxBackendPyTorchConvertedModelTest",
    "pytorch-operator": "OnnxBackendPyTorchOperatorModelTest",
    "real": "OnnxBackendRealModelTest",
}
"""Groups of cases, as the loader names them, and the test classes that the runner makes of them."""
GROUPS = tuple(CATEGORIES)

PASSED = "passed"
STATUSES = {
    PASSED: "right numbers; on CPU and OPENCL all of the model ran as generated code",
    "wrong": "it ran, and a number, shape or type differs from onnx's",
    "refused": "the importer says that it does not know an operator or type",
    "not compiled": "it was imported, and an operation has no generated code",
    "constant": "an input that only runs deliver was compiled in as a constant",
    "host": "right numbers, but something of the model ran outside generated code",
    "failed": "an error that this project did not foresee",
    "crashed": "the process was ended by a signal",
    "hung": "the time limit was reached",
    "illegal": "the reference refuses every model that was drawn",
    "not exported": "torch.export takes none of the samples",
    "random": "eager gives other numbers the second time",
    "finding": "a sanitizer found an error in the generated code",
}


@dataclass(frozen=True)
class Case:
    """One of onnx's cases. `operators`: `Add-14`, or `ai.onnx.ml.Scaler-1`, sorted, no repeats."""

    name: str
    group: str
    operators: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a case went on a device. `seconds`: compiling and running it."""

    case: str
    group: str
    device: str
    status: str
    reason: str = ""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return self.status == PASSED


def load_cases(groups: tuple[str, ...] = GROUPS) -> list[Case]:
    """onnx's cases of some groups, by group and name."""
    cases = []
    for group in groups:
        for case in _quietly(lambda group=group: load_group(group)):
            model = case.model if case.model is not None else onnx.load(_model_path(case))
            cases.append(Case(case.name, group, operators_of(model)))
    return sorted(cases, key=lambda c: (GROUPS.index(c.group), c.name))


def _model_path(case: Any) -> Path:
    """`case`: onnx's TestCase. The light models lie in the onnx package itself."""
    if case.model_dir is not None:
        return Path(case.model_dir, "model.onnx")
    return Path(onnx.__file__).parent.parent / case.url


def operators_of(model: ModelProto) -> tuple[str, ...]:
    """All operators of a model with the opset in which their present form appeared."""
    versions = {i.domain: i.version for i in model.opset_import}
    return tuple(sorted({_operator(node, versions) for node in walk_nodes(model.graph)}))


def _operator(node: NodeProto, versions: dict[str, int]) -> str:
    version = versions.get(node.domain, versions.get("ai.onnx", 1) if not node.domain else 1)
    # A function of the model or an operator of others keeps the model's own number.
    with contextlib.suppress(onnx.defs.SchemaError):
        version = onnx.defs.get_schema(node.op_type, version, node.domain).since_version
    prefix = f"{node.domain}." if node.domain not in ("", "ai.onnx") else ""
    return f"{prefix}{node.op_type}-{version}"


def walk_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of all graphs inside it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from walk_nodes(attribute.g)
            for inner in attribute.graphs:
                yield from walk_nodes(inner)


class Suite:
    """Runs cases by name; of onnx's cases it loads those that it runs."""

    def __init__(self, open_program: Opener | None = None) -> None:
        self._open = open_program or open_here
        self._tests: dict[str, _Tests] = {}

    def run(self, case: str, group: str, device: str) -> Outcome:
        """Runs one case in this process; whatever it raises becomes an outcome."""
        if device not in self._tests:
            self._tests[device] = _Tests.on(device, self._open)
        tests = self._tests[device]
        _quietly(lambda: find_case(case, group))  # what it loads is not the case's own time
        started = time.perf_counter()

        def run() -> tuple[str, str] | None:
            tests.run(case, group)
            return None if device in ("INTERPRETER", ORACLE) else _left_out(tests.seen)

        status, reason = judge(run, device)
        for representation in tests.seen:
            representation.close()
        tests.seen.clear()
        return Outcome(
            case=case,
            group=group,
            device=device,
            status=status,
            reason=reason,
            seconds=time.perf_counter() - started,
        )


def open_here(compilation: Compilation) -> Executable:
    """Native code in this process, for a child process that may end."""
    return compilation.open(isolated=False)


class _Runner(Runner):
    """onnx's runner, with sequences compared tensor by tensor.

    onnx's own looks into every tensor of a sequence as if it were another list of outputs, which
    ends with a TypeError at tensors of rank 0 and leaves the shapes of others unseen. And onnx's
    own has all cases.
    """

    def __init__(self, backend: type[Backend], case: TestCase, group: str) -> None:
        def load(kind: str) -> list[TestCase]:
            return [case] if kind == group else []

        with patch.object(runner, "load_model_tests", load):
            super().__init__(backend)

    @classmethod
    def assert_similar_outputs(
        cls,
        ref_outputs: Sequence[Any],
        outputs: Sequence[Any],
        rtol: float,
        atol: float,
        model_dir: str | None = None,
    ) -> None:
        if len(ref_outputs) != len(outputs):
            raise AssertionError(f"{len(outputs)} results, {len(ref_outputs)} expected")
        for expected, found in zip(ref_outputs, outputs, strict=True):
            if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
                cls.assert_similar_outputs(expected, found, rtol, atol, model_dir)
            else:
                super().assert_similar_outputs([expected], [found], rtol, atol, model_dir)


@dataclass
class _Tests:
    """onnx's tests for one device, and the models that the running one prepared."""

    backend: type[Backend]
    seen: list[Representation] = field(default_factory=list)

    @classmethod
    def on(cls, device: str, open_program: Opener) -> _Tests:
        seen: list[Representation] = []
        if device == ORACLE:
            return cls(OracleBackend, seen)

        class Watched(backend_for(device, open_program)):
            """The backend unchanged; what it prepares can be looked at afterwards."""

            watchers: ClassVar[list[Representation]] = seen

            @classmethod
            def prepare(cls, model: ModelProto, device: str = "", **kwargs: Any) -> Representation:
                representation = super().prepare(model, device, **kwargs)
                cls.watchers.append(representation)
                return representation

        return cls(Watched, seen)

    def run(self, case: str, group: str) -> None:
        """Raises what the test raises; AssertionError for numbers that differ."""
        found = _quietly(lambda: find_case(case, group))
        classes = _Runner(self.backend, found, group).test_cases
        test = classes[CATEGORIES[group]](f"{case}_cpu")
        with contextlib.redirect_stdout(io.StringIO()):
            _quietly(test.debug)


def _quietly(run: Callable[[], Any]) -> Any:
    """What `run` returns, without NumPy's warnings of infinities that onnx's cases ask for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run()


def judge(run: Callable[[], tuple[str, str] | None], device: str) -> tuple[str, str]:
    """Status and reason of one case: of what `run` raises, or finds that is not generated code."""
    try:
        return run() or (PASSED, "")
    except unittest.SkipTest as error:
        return "refused", str(error)
    except AssertionError as error:
        return "wrong", _one_line(error)
    except UnsupportedError as error:
        status = "refused" if _is_from_importer(error) else "not compiled"
        return status, _one_line("; ".join(error.problems) or error.message)
    except ExplorerError as error:
        log = getattr(error, "log", "") if isinstance(error, BuildError | DeviceError) else ""
        return "failed", _one_line(f"{type(error).__name__}: {error.message} {log[-300:]}")
    except Exception as error:  # a defect of the project is a result here, and not the end
        if device == ORACLE:
            return "refused", _one_line(error)
        return "failed", _one_line(f"{type(error).__name__}: {error}")


def _left_out(seen: Sequence[Representation]) -> tuple[str, str] | None:
    """What of the programs of a case does not run as generated code."""
    for representation in seen:
        computed = values_from_inputs(representation.model.graph)
        for compilation in representation.compilations:
            problem = not_generated(compilation, computed)
            if problem is not None:
                return problem
    return None


def _is_from_importer(error: Exception) -> bool:
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(f.f_globals.get("__name__", "").startswith("explorer.importers") for f in frames)


def _one_line(text: object, limit: int = 300) -> str:
    words = " ".join(str(text).split())
    return words if len(words) <= limit else words[: limit - 1] + "…"
