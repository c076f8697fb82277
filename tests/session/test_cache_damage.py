"""Damage of every kind to a cache: what is still started has the same bytes, or nothing is started.

Bytes decide here whether numbers are right: a start reads the program, its binary and its weights,
and computes nothing. `python tests/session/test_cache_damage.py 400` compares the numbers, too.
"""

import os
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from explorer.backends.loading import saved_programs
from explorer.results.runs.saved_program import SavedProgram
from explorer.runtime.cache import ProgramCache
from explorer.runtime.cache.requests import ProgramRequest, request_of
from explorer.runtime.cache.saved_program_files import name_of
from explorer.runtime.cache.saved_programs import Startable
from explorer.runtime.cache.weights import MappedWeights
from explorer.session import Session

PAGE = 4096
DAMAGES = 400
FILES = (".weights", ".weights", ".program", ".kept", "sources.json")
"""What is damaged, by the end of its name; weights twice as often."""

Damage = Callable[[random.Random, bytearray], bytes]


def flipped_bit(chance: random.Random, content: bytearray) -> bytes:
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(content)


def noise(chance: random.Random, content: bytearray) -> bytes:
    start = chance.randrange(len(content))
    end = min(len(content), start + chance.randrange(1, 2 * PAGE))
    content[start:end] = chance.randbytes(end - start)
    return bytes(content)


def zeros(chance: random.Random, content: bytearray) -> bytes:
    start = chance.randrange(len(content))
    end = min(len(content), start + chance.randrange(1, 2 * PAGE))
    content[start:end] = bytes(end - start)
    return bytes(content)


def cut_off(chance: random.Random, content: bytearray) -> bytes:
    return bytes(content[: chance.randrange(len(content))])


def longer(chance: random.Random, content: bytearray) -> bytes:
    return bytes(content) + chance.randbytes(chance.randrange(1, PAGE))


def swapped(size: int) -> Damage:
    """Two parts of so many bytes change places."""

    def damage(chance: random.Random, content: bytearray) -> bytes:
        count = len(content) // size
        if count < 2:
            return flipped_bit(chance, content)
        one, other = (size * place for place in chance.sample(range(count), 2))
        first, second = content[one : one + size], content[other : other + size]
        content[one : one + size], content[other : other + size] = second, first
        return bytes(content)

    damage.__name__ = f"swapped_{size}"
    return damage


def moved(chance: random.Random, content: bytearray) -> bytes:
    """All bytes, some places further on."""
    place = chance.randrange(1, len(content))
    return bytes(content[place:] + content[:place])


def reversed_words(chance: random.Random, content: bytearray) -> bytes:
    start = chance.randrange(len(content)) // 8 * 8
    words = np.frombuffer(content[start : start + PAGE // 8 * 8], np.uint8)
    words = words[: len(words) // 8 * 8].reshape(-1, 8)[::-1]
    content[start : start + words.size] = words.tobytes()
    return bytes(content)


def repeated_page(chance: random.Random, content: bytearray) -> bytes:
    pages = max(1, len(content) // PAGE)
    one, other = (PAGE * chance.randrange(pages) for _ in range(2))
    size = min(PAGE, len(content) - max(one, other))
    content[one : one + size] = content[other : other + size]
    return bytes(content)


KINDS: tuple[Damage, ...] = (
    flipped_bit,
    noise,
    zeros,
    cut_off,
    longer,
    swapped(4),
    swapped(8),
    swapped(64),
    swapped(PAGE),
    moved,
    reversed_words,
    repeated_page,
)


def write_product(path: Path, weight: np.ndarray) -> None:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, len(weight)))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))


def damages(seed: int, count: int, folder: Path) -> Iterator[tuple[str, Path, bytes, bytes]]:
    """(what happens, the file, what was in it, what is in it): the file is damaged meanwhile."""
    chance = random.Random(seed)
    sound = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    for number in range(count):
        suffix = FILES[number % len(FILES)]
        path = chance.choice([path for path in sound if path.name.endswith(suffix)])
        kind = chance.choice(KINDS)
        damaged = kind(chance, bytearray(sound[path]))
        path.write_bytes(damaged)
        yield f"{kind.__name__} of {path.name}, damage {number}", path, sound[path], damaged
        for other, content in sound.items():
            if not other.exists() or other.read_bytes() != content:
                other.write_bytes(content)
                other.chmod(0o600)


@dataclass(frozen=True)
class Sound:
    """A program as it was started before anything was damaged."""

    request: ProgramRequest
    kept: SavedProgram
    binary: bytes
    weights: bytes

    def is_made_of(self, path: Path) -> bool:
        return path.stem in (Path(name_of(self.kept)).stem, self.kept.binary, self.kept.weights)

    def is_equal(self, found: Startable) -> bool:
        """All that running it depends on is the same."""
        parts = (found.kept, found.binary.payload, weights_of(found))
        return parts == (self.kept, self.binary, self.weights)


def weights_of(found: Startable) -> bytes:
    weights = found.weights
    return (weights.array if isinstance(weights, MappedWeights) else weights).tobytes()


def kept_product(path: Path, weight: np.ndarray, cache: ProgramCache) -> Sound:
    write_product(path, weight)
    with Session(path, isolated=False) as session:
        session(np.ones((1, len(weight)), np.float32))
    request = request_of(path, "cpu", {})
    assert isinstance(request, ProgramRequest)
    found = saved_programs(cache).find(request, ())
    assert isinstance(found, Startable)
    return Sound(request, found.kept, found.binary.payload, weights_of(found))


def test_no_damage_starts_another_program(place, tmp_path: Path):
    noise = np.random.default_rng(0).normal(size=(96, 96)).astype(np.float32)
    signs = np.where(noise < 0, np.float32(-0.5), np.float32(0.5))
    programs = [
        kept_product(tmp_path / f"{name}.onnx", weight, place.cache)
        for name, weight in (("noise", noise), ("signs", signs))
    ]
    noticed = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for what, path, before, damaged in damages(4, DAMAGES, place.folder):
            owners = [program for program in programs if program.is_made_of(path)]
            for program in owners or programs:
                found = saved_programs(place.cache).find(program.request, ())
                if isinstance(found, Startable):
                    assert program.is_equal(found), what
                if owners and damaged != before:
                    assert not isinstance(found, Startable), what
                    noticed += 1
    assert noticed > DAMAGES // 2


def run_numbers(count: int) -> None:
    """The same on a network, each start with its numbers and compiled again where it has to be."""
    model = Path(__file__).resolve().parents[2] / "sample_models" / "digits_cnn.onnx"
    image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    events: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name, "programs")
        folder.mkdir(0o700)
        # Tuned schedules are those of the environment's cache: there are none here.
        os.environ["EXPLORER_CACHE"] = str(folder)
        with Session(model, isolated=False, cache=ProgramCache(folder)) as session:
            expected = session(image)["logits"]
        for what, *_ in damages(count, count, folder):
            with Session(model, isolated=False, cache=ProgramCache(folder)) as session:
                found = session(image)["logits"]
                event = session.calls[0].event
            if found.tobytes() != expected.tobytes():
                raise SystemExit(
                    f"wrong numbers after {what}: off by {abs(found - expected).max()}"
                )
            events[event] = events.get(event, 0) + 1
    print(f"{count} damages of {model.stem}'s cache, no wrong number: {events}")


if __name__ == "__main__":
    run_numbers(int(sys.argv[1]))
