"""Records whose fields are made when they are first read."""

from dataclasses import dataclass, replace

import pytest

from explorer.results.deferring import Later, deferring, made_fields
from explorer.results.encoding import from_json, to_json


@dataclass(frozen=True)
class Pair:
    left: str
    right: str


class Counted:
    """Makes a text, and counts how often it was asked for one."""

    def __init__(self, text: str) -> None:
        self.text, self.count = text, 0

    def __call__(self) -> str:
        self.count += 1
        return self.text


def test_a_field_is_made_when_it_is_first_read_and_once():
    right = Counted("b")
    pair = deferring(Pair, left="a", right=Later(right))
    assert pair.left == "a" and right.count == 0 and made_fields(pair) == {"left"}
    assert pair.right == "b" and pair.right == "b" and right.count == 1
    assert made_fields(pair) == {"left", "right"}


def test_it_is_a_record_like_one_that_was_made_at_once():
    pair = deferring(Pair, left=Later(lambda: "a"), right="b")
    plain = Pair("a", "b")
    assert isinstance(pair, Pair)
    assert pair == plain and plain == pair and pair != Pair("a", "c")
    assert hash(pair) == hash(plain) and repr(pair) == repr(plain)
    assert from_json(Pair, to_json(pair)) == plain
    assert replace(pair, right="c") == Pair("a", "c")


def test_what_is_no_field_is_no_attribute():
    pair = deferring(Pair, left="a", right=Later(lambda: "b"))
    with pytest.raises(AttributeError, match="Pair has no 'middle'"):
        _ = pair.middle  # pyright: ignore[reportAttributeAccessIssue]


def test_a_field_that_could_not_be_made_is_tried_again():
    texts = iter(["b"])
    failing = [ValueError("not yet")]

    def make() -> str:
        if failing:
            raise failing.pop()
        return next(texts)

    pair = deferring(Pair, left="a", right=Later(make))
    with pytest.raises(ValueError, match="not yet"):
        _ = pair.right
    assert pair.right == "b"
