"""Relations between sizes in the form in which a person would say them."""

import pytest

from explorer.ir.sizes.relations import simplified


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        (("at least", "max(0,h-2)", 3), ("at least", "h", 5)),
        (("at least", "max(0,h-2)*2", 3), ("at least", "h", 4)),
        (("equal", "max(0,h-2)", 4), ("fixed", "h", 6)),
        (("at most", "max(0,h-2)", 4), ("at most", "max(0,h-2)", 4)),
        (("at least", "min(8,h)", 3), ("at least", "h", 3)),
    ],
)
def test_extremes_are_solved_for_their_names(relation, expected):
    assert list(simplified([relation])) == [expected]


def test_what_always_holds_is_left_out():
    assert not list(simplified([("at least", "max(0,h-2)", 0)]))
