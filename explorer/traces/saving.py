"""Traces on disk: one `.nnx` file, a zip of text and arrays.

    manifest.json         format, version, model, target
    trace.json            the records of `explorer.results`, snapshots' texts and graphs left out
    snapshots/N.json      text with its line map, and graph, of the N-th distinct snapshot
    snapshots/N.mlir      complete IR of it, which `explorer opt` reads
    source.json           text and graph of the model as it is
    source.mlir           complete IR of it
    weights.npz           arrays by name (left out above 16 MiB; the manifest says so)

Reading one executes nothing and needs no compiler and no device. Sizes are checked before
anything is unpacked.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from explorer.calling import named_arguments
from explorer.errors import DeviceError, ModelError
from explorer.files import reading_file, write_file
from explorer.ir import program
from explorer.results import (
    TRACE_VERSION,
    AccuracyReport,
    ConstraintRecord,
    GraphDiff,
    MemoryPlan,
    PassRecord,
    ProfileRecord,
    RewriteEvent,
    Trace,
)
from explorer.results.deferring import Later, deferring
from explorer.results.displayed import Displayed
from explorer.results.encoding import from_json, to_json
from explorer.results.graph import GRAPHS
from explorer.results.pass_names import PassName
from explorer.results.trace import SnapshotRecord
from explorer.results.weights import PART, WeightsRecord
from explorer.traces.collections import Kernels, Knobs, Passes, pass_of
from explorer.traces.exploring import Explorable
from explorer.traces.tables import FrameKind, to_frame

FORMAT = "nn-compiler-explorer trace"
MANIFEST = "manifest.json"
MAX_WEIGHT_BYTES = 16 * 2**20
MAX_UNPACKED_BYTES = 2 * 2**30
MAX_VALUES = 20_000_000
"""Of a trace's JSON: some 1.5 GB of objects."""
MANY_VALUES = 1_000_000
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_WAY_OUT = "save it again with Compilation.save or explorer compile --save"


def save(
    trace: Trace, snapshots: Sequence[program.Snapshot], source: program.Snapshot, path: str | Path
) -> Path:
    """Writes a trace, complete or not at all; InputError says why it cannot.

    `snapshots`: what the trace's own show, after every pass; `source`: the model as it is.
    """
    path = Path(path)
    order: list[int] = []
    texts: dict[int, str] = {}
    for snapshot, shown in zip(snapshots, trace.snapshots, strict=True):
        if id(shown) not in order:
            order.append(id(shown))
            texts[id(shown)] = snapshot.dump()
    distinct = {id(s): s for s in trace.snapshots}
    weights = snapshots[-1].weights
    total = sum(a.nbytes for a in weights.values())
    keeps_weights = total <= MAX_WEIGHT_BYTES
    manifest = {
        "format": FORMAT,
        "version": TRACE_VERSION,
        "model": trace.model.name,
        "target": trace.target,
        "snapshots": [order.index(id(s)) for s in trace.snapshots],
        "weights": "weights.npz" if keeps_weights else f"left out: {total} bytes",
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(MANIFEST, json.dumps(manifest, indent=1))
        slim = replace(trace, snapshots=(), source=None)
        file.writestr("trace.json", json.dumps(to_json(slim)))
        for number, key in enumerate(order):
            file.writestr(f"snapshots/{number}.json", json.dumps(to_json(distinct[key])))
            file.writestr(f"snapshots/{number}.mlir", texts[key])
        file.writestr("source.json", json.dumps(to_json(trace.source)))
        file.writestr("source.mlir", source.dump())
        if keeps_weights:
            arrays = io.BytesIO()
            # Names in a model are not file names: arrays are numbered, weights.json names them.
            named = {f"w{i}": a for i, a in enumerate(weights.values())}
            np.savez(arrays, **named)  # pyright: ignore[reportArgumentType]
            file.writestr("weights.npz", arrays.getvalue())
            file.writestr("weights.json", json.dumps(list(weights)))
    write_file(path, content.getvalue())
    return path


@dataclass(frozen=True, repr=False)
class SavedPass(Displayed):
    """A pass result out of a file: all that `PassResult` shows, but for running."""

    record: PassRecord
    before: SnapshotRecord
    after: SnapshotRecord
    diff: GraphDiff

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def description(self) -> str:
        return self.record.description

    @property
    def changed(self) -> bool:
        return self.record.changed

    @property
    def seconds(self) -> float:
        return self.record.seconds

    @property
    def events(self) -> tuple[RewriteEvent, ...]:
        return self.record.events


class SavedCompilation(Explorable):
    """A compilation that was saved: everything but running it."""

    weights: Mapping[str, np.ndarray]
    """By name; none where they were too large to be saved."""
    passes: Passes[SavedPass]
    """What every pass did, the import first."""

    def __init__(self, trace: Trace, weights: Mapping[str, np.ndarray]):
        self._trace = trace
        self.weights = weights
        before = [trace.source or trace.snapshots[0], *trace.snapshots[:-1]]
        self.passes = Passes(
            SavedPass(record, old, new, _with_graphs(diff, old, new))
            for record, old, new, diff in zip(
                trace.passes, before, trace.snapshots, trace.diffs, strict=True
            )
        )

    def trace(self) -> Trace:
        return self._trace

    @property
    def names(self) -> list[str]:
        return [p.name for p in self.passes]

    def __getitem__(self, key: PassName | str | int) -> SavedPass:
        return pass_of(self.passes, key)

    def _ipython_key_completions_(self) -> list[str]:
        return self.names

    def __iter__(self) -> Iterator[SavedPass]:
        return iter(self.passes)

    def __len__(self) -> int:
        return len(self.passes)

    @property
    def memory(self) -> MemoryPlan | None:
        return self._trace.memory

    @property
    def knobs(self) -> Knobs:
        """What might have been decided otherwise, with the legal values."""
        return Knobs(self._trace.knobs)

    @property
    def constraints(self) -> tuple[ConstraintRecord, ...]:
        """What the model asks of its symbolic dimensions."""
        return self._trace.constraints

    @cached_property
    def kernels(self) -> Kernels:
        """Kernel records by name."""
        return Kernels({k.name: k for k in self._trace.kernels})

    @property
    def accuracy(self) -> AccuracyReport | None:
        """The comparison that was saved, if one was made before saving."""
        return self._trace.accuracy

    @property
    def profile(self) -> ProfileRecord | None:
        return self._trace.profile

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        raise DeviceError(
            "a saved compilation cannot run",
            hint="compile the model again, from its own file",
        )

    @named_arguments
    def to_frame(self, kind: FrameKind) -> Any:  # a pandas.DataFrame or a frames.Table
        """As `Compilation.to_frame`."""
        return to_frame(self._trace, kind)


def _with_graphs(diff: GraphDiff, before: SnapshotRecord, after: SnapshotRecord) -> GraphDiff:
    """The difference with what its picture is drawn of."""
    graphs = Later(lambda: (before.graph, after.graph))
    own = {field.name: getattr(diff, field.name) for field in fields(diff)}
    return deferring(GraphDiff, **own, **{GRAPHS: graphs})


def open_trace(path: str | Path) -> SavedCompilation:
    """Reads a `.nnx` file; ModelError says what is wrong with one that cannot be read."""
    path = Path(path)
    if not path.is_file():
        raise ModelError("no such file", file=str(path), hint="check the path")
    with reading_file(path, "trace", hint=_WAY_OUT):
        if not zipfile.is_zipfile(path):
            raise ModelError(
                "not a readable trace: traces are zip files, and this is none, or cut off",
                hint="a model has its own suffix (.onnx); Compilation.save writes traces",
            )
        with zipfile.ZipFile(path) as file:
            if MANIFEST not in file.namelist():
                raise ModelError(
                    "a zip file, but not a saved trace: it has no manifest",
                    hint="Compilation.save and explorer compile --save write traces",
                )
            return _read(file)


class _Members:
    """The JSON of a trace's members. All of it together may hold so many values, and no more.

    A text of 300 KB that is packed into a kilobyte can hold 100,000 lists; each takes 60 to 90
    bytes once it is read, so bounding the text alone is not enough.
    """

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file
        self._left = MAX_VALUES

    def __call__(self, name: str) -> Any:  # what JSON can hold
        data = self._file.read(name)
        self._left -= count_values(data)
        if self._left < 0:
            raise ModelError(
                f"the trace holds more than {MAX_VALUES:,} values", hint="save a smaller model's"
            )
        return json.loads(data)


def count_values(data: bytes) -> int:
    """At least as many as a text of JSON has lists, objects, and entries of these."""
    marks = sum(map(data.count, (b"[", b"{", b",", b":")))
    if marks > MANY_VALUES:  # worth looking which of them stand in strings, as in texts of IR
        outside = _STRING.sub(b"", data)
        marks = sum(map(outside.count, (b"[", b"{", b",", b":")))
    return marks


def _read(file: zipfile.ZipFile) -> SavedCompilation:
    _check_members(file)
    read_json = _Members(file)
    manifest = read_json(MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError("its manifest is not that of a trace")
    if manifest.get("version") != TRACE_VERSION:
        raise ModelError(
            f"the trace has version {manifest.get('version')}, this program reads {TRACE_VERSION}",
            hint="save it again with this version",
        )
    slim = from_json(Trace, read_json("trace.json"))
    slim.part(PART, WeightsRecord)  # a damaged part is refused here
    numbers = manifest["snapshots"]
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        raise ValueError("its manifest does not list the snapshots by number")
    if not len(slim.passes) == len(slim.diffs) == len(numbers) > 0:
        raise ValueError(
            f"it has {len(slim.passes)} passes, {len(slim.diffs)} differences and "
            f"{len(numbers)} snapshots"
        )
    distinct = {
        number: from_json(SnapshotRecord, read_json(f"snapshots/{number}.json"))
        for number in sorted(set(numbers))
    }
    weights: dict[str, np.ndarray] = {}
    if "weights.npz" in file.namelist():
        with zipfile.ZipFile(io.BytesIO(file.read("weights.npz"))) as arrays:
            _check_members(arrays)
            names = from_json(tuple[str, ...], read_json("weights.json"))
            if len(names) != len(arrays.namelist()):
                raise ValueError(f"{len(names)} names for {len(arrays.namelist())} weights")
            weights = {
                name: _read_array(arrays.read(f"w{index}.npy")) for index, name in enumerate(names)
            }
    snapshots = tuple(distinct[number] for number in numbers)
    source = None
    if "source.json" in file.namelist():  # traces of before the import was a pass have none
        source = from_json(SnapshotRecord, read_json("source.json"))
    return SavedCompilation(replace(slim, snapshots=snapshots, source=source), weights)


def _check_members(file: zipfile.ZipFile) -> None:
    """ModelError for a trace that is too large; ValueError where two members have one name."""
    if len(set(file.namelist())) < len(file.namelist()):
        raise ValueError("two of its members have one name")
    unpacked = sum(info.file_size for info in file.infolist())
    if unpacked > MAX_UNPACKED_BYTES:
        raise ModelError(
            f"the trace unpacks to {unpacked} bytes, more than {MAX_UNPACKED_BYTES}",
            hint="save a smaller model's trace",
        )


def _read_array(data: bytes) -> np.ndarray:
    """An array in NumPy's format whose header claims no more than the data that follows it."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"an array in version {version} of NumPy's format")
    shape, _, dtype = readers[version](stream)
    if dtype.hasobject:
        raise ValueError("an array of Python objects, which would execute code")
    claimed, present = prod(shape) * dtype.itemsize, len(data) - stream.tell()
    if claimed != present:
        raise ValueError(f"an array of {shape} {dtype} takes {claimed} bytes, not {present}")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)
