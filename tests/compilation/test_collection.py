"""The garbage collector rests while compiling, and is afterwards as it was before."""

import gc

import pytest

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
