"""Programs as files, for who has the machine: instructions, global memory, and what lies where.

    write_emitted(network, target, Path("out"))      program.bin, image.bin, layout.json
    emitted = read_emitted(Path("out"))              refuses what is damaged
    emitted.run({"quantize1": array})                in the simulator

`image.bin` is global memory from the base on, constants at their places and zeros elsewhere.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from explorer.backends.npu.network import Network, ValueAt
from explorer.errors import ExplorerError, InputError
from explorer.files import folder_written_at_once, write_whole
from explorer.ir.unfolding import Unfolding
from explorer.npu.layers.arrangement import Step, arranged_shape
from explorer.npu.layers.tensors import alignment_bytes, channels_per_block
from explorer.npu.layers.value_layout import Stored, lying_shape
from explorer.runtime.npu import Simulation, simulate
from explorer.targets import Target, load_target
from explorer.targets.npu.assembly import line_of
from explorer.targets.npu.checking import check_program
from explorer.targets.npu.encoding import decode
from explorer.targets.npu.machine import Machine, describe

PROGRAM, IMAGE, LAYOUT = "program.bin", "image.bin", "layout.json"
PARTS = "parts.json"
"""Where a model has several parts: their order. Each of the machine's is a folder beside it."""
VERSION = 2
MAX_LAYOUT_BYTES = 1 << 24
STORED_TYPE = re.compile(r"u?int(?:4|8|16|32)")
HINT = "explorer compile MODEL --target TARGET --emit DIR writes it anew"


def write_emitted(network: Network, target: Target, folder: Path, base_bytes: int = 0) -> None:
    """The three files in a folder that appears as a whole."""
    program, image = network.program, network.image()[base_bytes:].tobytes()
    layout = {
        "version": VERSION,
        "target": target.name,
        "machine": machine_digest(network.machine),
        "base_bytes": base_bytes,
        "instructions": len(network.instructions),
        "program_sha256": hashlib.sha256(program).hexdigest(),
        "image_sha256": hashlib.sha256(image).hexdigest(),
        "inputs": [_described(network, name, base_bytes) for name in network.arguments],
        "outputs": [_described(network, name, base_bytes) for name in network.results],
        "layers": [
            {
                "operation": section.operation,
                "first_instruction": section.first,
                "instructions": len(section.instructions),
                "constants_offset_bytes": section.constants_offset - base_bytes,
                "constants_size_bytes": section.constants.size,
            }
            for section in network.sections
        ],
    }
    text = json.dumps(layout, indent=2).encode() + b"\n"
    with folder_written_at_once(folder) as partial:
        for name, content in ((PROGRAM, program), (IMAGE, image), (LAYOUT, text)):
            write_whole(partial / name, content, waits=False, mode=0o666)
    (folder / PARTS).unlink(missing_ok=True)  # of what stood there before


def write_parts(parts: Sequence[Mapping[str, Any]], target: Target, folder: Path) -> None:
    """Says of each part `function`, `device`, and by name what it reads and makes, in order."""
    layout = {"version": VERSION, "target": target.name, "parts": list(parts)}
    text = json.dumps(layout, indent=2).encode() + b"\n"
    with folder_written_at_once(folder) as partial:
        write_whole(partial / PARTS, text, waits=False, mode=0o666)


def _described(network: Network, name: str, base_bytes: int) -> dict[str, Any]:
    """Shape and type are the program's; in memory its numbers lie in blocks of channels, signed.
    `arranged`: reshapes and orders of axes that come before. `unfolded`: how neighbouring positions
    of what these make are channels."""
    place, machine = network.values[name], network.machine
    stored = place.stored
    return {
        "name": name.removesuffix(".device"),
        "shape": list(stored.logical_shape),
        "type": stored.element_type,
        "offset_bytes": place.offset_bytes - base_bytes,
        "size_bytes": place.size_bytes(machine),
        "channels_height_width": list(stored.shape),
        "channels_per_block": channels_per_block(machine),
        **({"arranged": [_step(one) for one in stored.steps]} if stored.steps else {}),
        **({"unfolded": asdict(stored.unfolding)} if stored.unfolding else {}),
        "subtracted": stored.offset,
        "is_wide": stored.is_wide,
    }


def _step(step: Step) -> dict[str, list[int]]:
    name = "shape" if step.shape else "permutation"
    return {name: list(getattr(step, name))}


def machine_digest(machine: Machine) -> str:
    """Of all that decides what bytes mean and how long they take."""
    text = json.dumps(dataclasses.asdict(machine), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Emitted:
    """What was read from a folder, and found whole."""

    machine: Machine
    program: bytes
    image: bytes
    base_bytes: int
    inputs: Mapping[str, ValueAt]
    outputs: Mapping[str, ValueAt]
    layers: tuple[tuple[str, int], ...]
    """Operation and number of the first instruction."""

    def run(self, given: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], Simulation]:
        """Outputs by name, and the simulated run. InputError for arrays that are not the
        program's inputs."""
        memory = np.zeros(self.base_bytes + len(self.image), np.uint8)
        memory[self.base_bytes :] = np.frombuffer(self.image, np.uint8)
        if unknown := sorted(set(given) - set(self.inputs)):
            raise InputError(
                f"the program has no input {unknown[0]!r}",
                hint=f"its inputs are {', '.join(self.inputs)}",
            )
        for name, place in self.inputs.items():
            stored = place.stored
            if name not in given:
                raise InputError(f"input {name!r} is missing")
            array = given[name]
            if array.shape != stored.logical_shape or array.dtype.name != stored.element_type:
                raise InputError(
                    f"input {name!r} is {array.dtype.name} of {list(array.shape)}, expected "
                    f"{stored.element_type} of {list(stored.logical_shape)}: stored integers",
                    hint="`layout.json` has names, shapes and types of all inputs",
                )
            place.write(memory, array, self.machine)
        if problems := check_program(self.program, memory, self.machine):
            raise InputError(f"the program is not safe to run: {problems[0]}")
        found = simulate(self.program, memory, self.machine)
        after = np.frombuffer(found.image, np.uint8)
        outputs = {
            name: place.read(after[place.offset_bytes :], self.machine)
            for name, place in self.outputs.items()
        }
        return outputs, found

    def listing(self) -> str:
        """The program as text, each layer below its name."""
        firsts = {first: operation for operation, first in self.layers}
        lines = []
        for number, instruction in enumerate(decode(self.program, self.machine)):
            if number in firsts:
                lines.append(f"# {firsts[number]}")
            lines.append(line_of(instruction))
        return "\n".join(lines) + "\n"


def read_emitted(folder: Path, target: str | Path | None = None) -> Emitted:
    """The program of a folder. InputError where it is truncated, damaged, or of another target.

    `target`: the one that it has to be of; by default the one of that name, which comes with the
    package.
    """
    layout = _read_layout(folder)
    try:
        return _checked(folder, layout, target)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ExplorerError):
            raise
        raise _damaged(folder / LAYOUT, f"it lacks or contradicts {error}") from error


def _read_layout(folder: Path) -> dict[str, Any]:
    if (folder / PARTS).exists():
        own = ", ".join(str(path.parent) for path in sorted(folder.glob(f"*/{LAYOUT}")))
        raise InputError(
            f"{folder}: it holds several programs, in the order of {PARTS}", hint=f"name one: {own}"
        )
    path = folder / LAYOUT
    data = _read(path, MAX_LAYOUT_BYTES)
    try:
        layout = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"it is no JSON ({error})") from error
    if not isinstance(layout, dict) or layout.get("version") != VERSION:
        raise _damaged(path, f"it is not of version {VERSION}")
    return layout


def _checked(folder: Path, layout: dict[str, Any], target: str | Path | None) -> Emitted:
    found = load_target(target or str(layout["target"]))
    if not found.queues:
        raise InputError(
            f"{folder}: the program was made for the target {layout['target']}, and {found.name} "
            "runs no instructions",
            hint=f"--target {layout['target']}, or its file",
        )
    machine = describe(found)
    if layout["machine"] != machine_digest(machine):
        raise InputError(
            f"{folder}: the program was made for the target {layout['target']} as it was "
            f"described then, and {machine.name} is another machine",
            hint="name its file with --target, or compile it again",
        )
    contents = {}
    for name in (PROGRAM, IMAGE):
        data = _read(folder / name, 1 << 32)
        expected = layout[f"{name.removesuffix('.bin')}_sha256"]
        if hashlib.sha256(data).hexdigest() != expected:
            raise _damaged(folder / name, f"its bytes are not those that {LAYOUT} describes")
        contents[name] = data
    base, size = _count(layout["base_bytes"]), len(contents[IMAGE])
    if base >= 1 << 32 or base % alignment_bytes(machine):
        raise _damaged(folder / LAYOUT, f"a base of {base} bytes is none")
    return Emitted(
        machine=machine,
        program=contents[PROGRAM],
        image=contents[IMAGE],
        base_bytes=base,
        inputs={_name(e["name"]): _place(e, base, size, machine) for e in layout["inputs"]},
        outputs={_name(e["name"]): _place(e, base, size, machine) for e in layout["outputs"]},
        layers=tuple(
            (_name(e["operation"]), _count(e["first_instruction"])) for e in layout["layers"]
        ),
    )


def _place(entry: Mapping[str, Any], base: int, image_bytes: int, machine: Machine) -> ValueAt:
    """ValueError for what does not lie in the image, or not as this type and shape do."""
    name, kind = _name(entry["name"]), str(entry["type"])
    if STORED_TYPE.fullmatch(kind) is None:
        raise ValueError(f"the type of {name}")
    logical_shape = tuple(_count(n, 1) for n in entry["shape"])
    steps = tuple(_steps(entry, logical_shape))
    read_shape = arranged_shape(logical_shape, steps)
    unfolding = _unfolding(entry, read_shape)
    channels, height, width = (_count(n, 1) for n in entry["channels_height_width"])
    stored = Stored(
        name=name,
        logical_shape=logical_shape,
        element_type=np.dtype(kind).name,
        shape=(channels, height, width),
        offset=_count(entry["subtracted"]),
        is_wide=bool(entry["is_wide"]),
        steps=steps,
        unfolding=unfolding,
    )
    if not logical_shape or stored.shape != lying_shape(read_shape, unfolding):
        raise ValueError(f"the shape of {name}")
    bits = int(kind.lstrip("uint"))
    if stored.offset != (1 << bits - 1 if kind.startswith("u") else 0):
        raise ValueError(f"what is subtracted of {name}")
    offset = _count(entry["offset_bytes"])
    place = ValueAt(stored=stored, offset_bytes=base + offset)
    if offset + place.size_bytes(machine) > image_bytes:
        raise ValueError(f"{name} in an image of {image_bytes} bytes")
    return place


def _steps(entry: Mapping[str, Any], shape: tuple[int, ...]) -> Iterator[Step]:
    """ValueError where a value of that shape cannot be arranged so."""
    for fields in entry.get("arranged", ()):
        given = {name: fields[name] for name in ("shape", "permutation") if name in fields}
        step = Step(**{name: tuple(map(_count, numbers)) for name, numbers in given.items()})
        if problem := step.problem(shape):
            raise ValueError(f"how {_name(entry['name'])} is arranged: {problem}")
        shape = step.result(shape)
        yield step


def _unfolding(entry: Mapping[str, Any], shape: tuple[int, ...]) -> Unfolding | None:
    """ValueError where a picture of that shape cannot be unfolded so."""
    fields = entry.get("unfolded")
    if fields is None:
        return None
    (rows, columns), (down, right) = (
        [_count(n, 1) for n in fields[name]] for name in ("neighbours", "strides")
    )
    top, left, bottom, right_pad = (_whole(n) for n in fields["pads"])
    found = Unfolding(
        neighbours=(rows, columns), strides=(down, right), pads=(top, left, bottom, right_pad),
        padding=_whole(fields["padding"]),
    )  # fmt: skip
    is_picture = len(shape) == 4 and shape[0] == 1
    if not is_picture or found.problem((shape[1], shape[2], shape[3])):
        raise ValueError(f"how {_name(entry['name'])} is unfolded")
    return found


def _count(value: object, least: int = 0) -> int:
    """A whole number of JSON; ValueError for what is none, or less."""
    found = _whole(value)
    if found < least:
        raise ValueError(f"a number: {str(value)[:40]!r}")
    return found


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"a number: {str(value)[:40]!r}")
    return value


def _name(value: object) -> str:
    """A name that stays on one line of a listing."""
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"a name: {str(value)[:40]!r}")
    return value


def _read(path: Path, most_bytes: int) -> bytes:
    try:
        if path.stat().st_size > most_bytes:
            raise _damaged(path, f"it has more than {most_bytes} bytes")
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{path}: {reason}", hint=HINT) from error


def _damaged(path: Path, what: str) -> InputError:
    return InputError(f"{path}: {what}", hint=HINT)
