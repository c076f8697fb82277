"""Bands of rows: runs of bytes with a pitch, against sets of bytes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.memory.places import Place


@st.composite
def places(draw: st.DrawFn, pitch: int | None = None) -> Place:
    start = draw(st.integers(0, 12))
    if not draw(st.booleans()):
        return Place("s", start, start + draw(st.integers(1, 20)))
    pitch = pitch or draw(st.integers(1, 7))
    run, count = draw(st.integers(1, pitch)), draw(st.integers(1, 4))
    return Place("s", start, start + (count - 1) * pitch + run, run, pitch)


def bytes_of(place: Place) -> set[int]:
    return {byte for begin, end in place.runs for byte in range(begin, end)}


@settings(max_examples=300, deadline=None)
@given(places(), places())
def test_places_meet_where_they_have_bytes_in_common(one: Place, other: Place):
    common = bool(bytes_of(one) & bytes_of(other))
    if one.pitch_bytes == other.pitch_bytes and one.pitch_bytes:
        # Bands of one tensor: those of other planes than both have are not told apart.
        assert one.meets(other) or not common
    else:
        assert one.meets(other) is common
    assert one.meets(other) is other.meets(one)
    assert not one.meets(Place("t", other.start, other.end, other.run_bytes, other.pitch_bytes))


@settings(max_examples=300, deadline=None)
@given(places(), st.lists(places(), max_size=4))
def test_a_place_is_filled_where_others_have_all_its_bytes(place: Place, others: list[Place]):
    there = {byte for other in others for byte in bytes_of(other)}
    assert place.is_filled_by(others) is (bytes_of(place) <= there)


def test_two_bands_of_all_planes_fill_the_whole_and_never_meet():
    upper, lower = Place("s", 0, 38, 8, 10), Place("s", 8, 40, 2, 10)
    assert not upper.meets(lower)
    assert Place("s", 0, 40).is_filled_by([lower, upper])
    assert not Place("s", 0, 40).is_filled_by([upper])
