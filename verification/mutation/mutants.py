"""Damaged files: whatever is in them, there is a clear error or what they hold, and nothing else.

    damage_message(content, random)      bytes of an ONNX model, one field of which is damaged
    try_mutant(content, path, watch, read, seconds)
        -> {"status": "refused", "reason": "...", "seconds": 0.02}

What is tried is what a command does with such a file; `read` does it. An audit hook notes whatever
writes, starts a process or opens a connection. How files of other kinds are damaged and read stands
in `explorer.cli.mutants`.
"""

from __future__ import annotations

import gc
import hashlib
import re
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError, Message

from explorer.compilation import compile_model
from explorer.errors import ExplorerError
from explorer.files import is_foreseen
from explorer.importers import SourceModel, to_top
from explorer.importers.model import is_batch, symbolic_dimensions
from explorer.ir.inspection.printing import dump
from explorer.runtime.child import Answer

MAX_SECONDS = 10.0
"""Of processor time, for files that take little when they are whole."""
TIMES_UNDAMAGED = 5.0
"""A damaged file may take so many times what the undamaged one takes: damage can leave a model
that is larger by some, but not one that goes on for ever."""
MEMORY_BYTES = 1 << 30
"""How much a mutant may add to the process's memory at its peak, on top of MEMORY_PER_BYTE for
each of its own bytes: what the models of the tests need, with room to spare."""
MEMORY_PER_BYTE = 60
SMALL_WEIGHT = 64
"""Numbers of a weight that may decide more than results."""
ADDRESS_SPACE_BYTES = 12 << 30
"""Beyond this the process gets a MemoryError instead of taking the machine down."""

READ, REFUSED, CAUGHT, FAILED = "read", "refused", "caught", "failed"
STATUSES = {
    READ: "the damage left a file that can be used",
    REFUSED: "a clear error",
    CAUGHT: "a clear error; what it was made of, at the boundary of readers, nobody foresaw",
    FAILED: "an error that was not foreseen",
    "hung": f"more than {MAX_SECONDS:g} s, or {TIMES_UNDAMAGED:g} times the undamaged file's",
    "memory": "more memory than the stated bound",
    "forbidden": "it wrote, started a process or opened a connection",
}
DEFECTS = (FAILED, "memory", "forbidden", "crashed", "hung")

ODD_NUMBERS = (0, 1, -1, 2, 7, 255, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63))
ODD_NAMES = ("", "x", "\n", "*/ #include <x>", "../../etc/passwd", "é" * 50, "a" * 5000, "%s%n")
FORBIDDEN = ("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork")
WRITING = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink")


def damage_bytes(content: bytes, random: np.random.Generator) -> bytes:
    """One damage to the bytes as they are."""
    data = bytearray(content)
    if not data:
        return bytes(random.integers(0, 256, 8, np.uint8))
    begin, other = (int(random.integers(len(data))) for _ in range(2))
    length = int(min(len(data) - begin, 1 + random.integers(64)))
    match int(random.integers(6)):
        case 0:
            data[begin] ^= 1 << int(random.integers(8))
        case 1:
            data[begin : begin + length] = bytes(random.integers(0, 256, length, np.uint8))
        case 2:
            del data[begin : begin + length]
        case 3:
            data[other:other] = data[begin : begin + length]
        case 4:
            del data[begin:]
        case _:
            data[begin] = (0x00, 0x7F, 0x80, 0xFF)[int(random.integers(4))]
    return bytes(data)


def damage_message(content: bytes, random: np.random.Generator) -> bytes:
    """One damage to a field of the model; to the bytes where they are no model any more."""
    try:
        model = onnx.ModelProto.FromString(content)
    except DecodeError:
        return damage_bytes(content, random)
    message: Message = model
    for _ in range(int(random.integers(1, 9))):
        inner = [m for m in _messages(message) if not isinstance(m, onnx.TensorProto)]
        if not inner or random.random() < 0.1:
            break
        message = inner[int(random.integers(len(inner)))]
    fields = message.ListFields()
    if not fields:
        return damage_bytes(content, random)
    try:
        _damage_field(message, *fields[int(random.integers(len(fields)))], random)
    except ValueError:  # an enumeration does not take the number
        return damage_bytes(content, random)
    return model.SerializeToString()


def _messages(message: Message) -> list[Message]:
    found: list[Message] = []
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            found.extend(value if descriptor.is_repeated else [value])
    return found


def _damage_field(
    message: Message,
    descriptor: Any,  # protobuf has no type for it that its stubs know
    value: Any,
    random: np.random.Generator,
) -> None:
    def pick(choices: Any) -> Any:
        return choices[int(random.integers(len(choices)))]

    if descriptor.is_repeated:
        index = int(random.integers(len(value)))
        action = random.integers(3)
        if action == 0:
            del value[index]
        elif descriptor.message_type is not None:
            value.append(value[index])  # a node, input or dimension twice
        elif descriptor.type == descriptor.TYPE_STRING:
            value[index] = pick((*ODD_NAMES, *value))
        elif descriptor.cpp_type in (descriptor.CPPTYPE_INT64, descriptor.CPPTYPE_INT32):
            limit = 2**63 if descriptor.cpp_type == descriptor.CPPTYPE_INT64 else 2**31
            value[index] = pick([n for n in ODD_NUMBERS if -limit <= n < limit])
        return
    if descriptor.message_type is not None or random.random() < 0.2:
        message.ClearField(descriptor.name)
    elif descriptor.type == descriptor.TYPE_STRING:
        operators = ("Add", "Conv", "Reshape", "Loop", "If", "Gather", "Resize", "Einsum")
        setattr(message, descriptor.name, pick((*ODD_NAMES, *operators)))
    elif descriptor.cpp_type == descriptor.CPPTYPE_INT64:
        setattr(message, descriptor.name, pick(ODD_NUMBERS))
    elif descriptor.cpp_type in (descriptor.CPPTYPE_INT32, descriptor.CPPTYPE_ENUM):
        setattr(message, descriptor.name, int(random.integers(0, 30)))
    elif descriptor.cpp_type == descriptor.CPPTYPE_FLOAT:
        setattr(message, descriptor.name, pick((0.0, -1.0, float("nan"), float("inf"), 1e38)))


class Watch:
    """An audit hook (it can never be taken out) that notes what no model may cause."""

    def __init__(self) -> None:
        self.is_on = False
        self.seen: list[str] = []
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_on:
            return
        writes = event == "open" and any(c in str(arguments[1]) for c in "wax+")
        if writes or event.startswith((*FORBIDDEN, *WRITING)):
            self.seen.append(f"{event} {arguments[0] if arguments else ''}")


class Compiled:
    """The programs that were compiled, so that damage without consequences costs little.

    Programs are the same when their text is, and the numbers of their small weights: what decides
    shapes and trip counts.
    """

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def compile(self, model: SourceModel) -> None:
        """Imports the model, and compiles it down to source text if it is another program."""
        batch = {name: 1 for name in symbolic_dimensions(model) if is_batch(model, name)}
        module, weights = to_top(model, batch)
        digest = hashlib.sha256(dump(module).encode())
        for name in weights:
            if weights[name].size <= SMALL_WEIGHT:
                digest.update(f"{name} {weights[name].tobytes()!r}".encode())
        if digest.digest() not in self._seen:
            assert compile_model(model, "cpu").built
            self._seen.add(digest.digest())


def seconds_for(undamaged: float) -> float:
    """How long a damaged copy may take, by what the undamaged file takes."""
    return max(MAX_SECONDS, TIMES_UNDAMAGED * undamaged)


def try_mutant(
    content: bytes, path: Path, watch: Watch, read: Callable[[Path], object], seconds: float
) -> Answer:
    """Reads a damaged file, which is put at `path`. seconds: of processor time, at most."""
    path.write_bytes(content)
    gc.collect()
    before = _begin_peak()
    started = time.process_time()
    watch.seen.clear()
    watch.is_on = True
    try:
        status, reason = _outcome(lambda: read(path))
    finally:
        watch.is_on = False
    taken = time.process_time() - started
    grown = _peak_bytes() - before
    if watch.seen:
        status, reason = "forbidden", watch.seen[0]
    elif taken > seconds:
        status, reason = "hung", f"{taken:.0f} s"
    elif grown > MEMORY_BYTES + MEMORY_PER_BYTE * len(content):
        status, reason = "memory", f"{grown >> 20} MiB for {len(content)} bytes"
    return {"status": status, "reason": reason, "seconds": taken}


def _outcome(run: Callable[[], object]) -> tuple[str, str]:
    try:
        run()
    except ExplorerError as error:
        cause = error.__cause__
        if cause is not None and not is_foreseen(cause):
            return CAUGHT, _described(cause)
        return REFUSED, f"{type(error).__name__}: {error.message[:150]}"
    except MemoryError:
        return "memory", "it ran out of memory"
    except Exception as error:  # a defect is the result here
        return FAILED, _described(error)
    return READ, ""


def _described(error: BaseException) -> str:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}" if place else ""
    return f"{type(error).__name__}: {str(error)[:150]} at {where}"


def _begin_peak() -> int:
    """Starts a new peak of this process's memory where the system can (Linux); its size now.

    Elsewhere the peak only ever rises, and what lies below an earlier one is not seen.
    """
    with suppress(OSError):
        _CLEAR_REFERENCES.write_text("5")
    return _peak_bytes()


def _peak_bytes() -> int:
    with suppress(OSError):
        found = re.search(r"VmHWM:\s*(\d+) kB", _STATUS.read_text())
        if found is not None:
            return int(found[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


_CLEAR_REFERENCES, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def prepare_process() -> None:
    """For this process, from now on: its memory is limited, and what is loaded stays.

    Python keeps no bytecode: a module that the first mutant needs would be written, and writing is
    what a mutant is watched for. Objects that are there already are no garbage: collecting after
    each mutant looks at its own.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_AS)  # `ulimit -v` may have set a lower one
    limit = (
        ADDRESS_SPACE_BYTES if hard == resource.RLIM_INFINITY else min(ADDRESS_SPACE_BYTES, hard)
    )
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    sys.dont_write_bytecode = True
    gc.collect()
    gc.freeze()
