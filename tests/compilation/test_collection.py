"""The garbage collector rests while compiling, and is afterwards as it was before."""

import gc
import subprocess
import sys
import weakref

import pytest

from explorer.compilation import collection
from explorer.compilation.collection import paused_collection


@pytest.fixture(autouse=True)
def enabled_afterwards():
    yield
    gc.enable()


def test_collection_is_off_inside_and_on_again_behind_however_it_ends():
    with paused_collection():
        assert not gc.isenabled()
        with paused_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), paused_collection():
        raise KeyError
    assert gc.isenabled()


def test_who_turned_it_off_finds_it_off():
    gc.disable()
    with paused_collection():
        pass
    assert not gc.isenabled()


def test_what_is_open_at_the_end_of_the_process_is_written(tmp_path):
    program = """
import sys
from explorer.compilation.collection import paused_collection
class Circle: pass
with paused_collection():
    circle = Circle()
    circle.itself = circle
    circle.file = open(sys.argv[1], "w")
    circle.file.write("written")
"""
    path = tmp_path / "file.txt"
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=60)
    assert path.read_text() == "written"


class Circle:
    """What only the collector takes away."""

    def __init__(self) -> None:
        self.itself = self
        self.content = [object() for _ in range(1000)]


def test_what_earlier_compilations_left_is_taken_away_when_it_has_become_much(monkeypatch):
    monkeypatch.setattr(collection, "_collected", collection._Collected())
    monkeypatch.setattr(collection, "GROWTH_BLOCKS", 10_000)
    left = []
    for _ in range(40):
        with paused_collection():
            left.append(weakref.ref(Circle()))
    there = sum(circle() is not None for circle in left)
    assert 1 <= there <= 20  # some ten of them are the growth that is waited for
