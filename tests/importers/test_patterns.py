"""Tables of regular expressions, against Python's `re`, which agrees with RE2 on these."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.importers.onnx.program.nodes import Unsupported
from explorer_extras.onnx.automata import automaton

PATTERNS = [
    r"",
    r"abc",
    r"a*b+c?",
    r"(a|b)*abb",
    r"[a-cx]{2,3}",
    r"[^a-c\n]+",
    r"a{0,2}b{2}",
    r"(?:ab|cd)*?e??",
    r"\w+\s\d\D",
    r"\bfoo\b.*\Bbar",
    r"(\W|^)[\w.\-]{0,25}@(yahoo|gmail)\.com(\W|$)",
    r"www\.[\w.-]+\.\bcom\b",
    r"(?i)HeLLo|w[a-c]",
    r"(?s).b",
    r"(?P<year>\d{4})-(?P<month>\d\d)",
    r"[]a]+|[a\]-]b",
    r"a{,2}|x{y",
    r"\x41\x{1F600}\t",
    r"(a*)*b",
    r"(x+x+)+y",
    r"a$|^b|c^",
    r"(?m:^a$\n^b$)",
]
TEXTS = [
    *("", "a", "b", "abc", "abb", "babb", "aab", "aabbc", "xx", "cabx", "acx", "bb", "abcde", "e"),
    *("foo-bar", "foobar", "foo xbar", "word 1x", "_ 9 ", "x@gmail.com", "account@gmail.com!"),
    *("@hotmail.com", "www.google.com", "www.bbc.co.uk", "HELLO", "hello", "Wb", "\nb", "ab\n"),
    *("2024-10", "2024-1", "]a]", "-b", "a{,2}", "x{y", "A😀\t", "aaab", "xxxxxxxxy", "c", "a\nb"),
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_table_accepts_what_the_pattern_matches(pattern: str) -> None:
    machine = automaton(pattern)
    python = pattern.replace(r"\x{1F600}", "😀").replace("a{,2}", r"a\{,2\}")
    wanted = [re.fullmatch(python, text, re.ASCII) is not None for text in TEXTS]
    assert [machine.matches(text) for text in TEXTS] == wanted


pieces = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\b", "^", "$"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda p: f"(?:{p[0]}|{p[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{1,2}"])).map(
            lambda p: f"(?:{p[0]}){p[1]}"
        ),
    ),
    max_leaves=8,
)


@given(pieces, st.lists(st.text("ab \n", max_size=6), min_size=1, max_size=8))
def test_generated_patterns(pattern: str, texts: list[str]) -> None:
    # Python's $ also holds before a last line's end; RE2's does not.
    python = re.compile(pattern.replace("$", r"\Z"))
    machine = automaton(pattern)
    for text in texts:
        assert machine.matches(text) == (python.fullmatch(text) is not None), (pattern, text)


def test_the_table_is_the_smallest() -> None:
    """Texts over a and b whose third character from the end is a: 2^3 states."""
    assert automaton("[ab]*a[ab]{2}").table.shape == (9, 4)
    assert len(automaton("(?:a|aa|aaa)*").table) == 2


def test_time_does_not_depend_on_the_pattern() -> None:
    """Backtracking would take 2^30 steps."""
    assert not automaton("(a*)*b").matches("a" * 3000)
    assert automaton("(a?){30}a{30}").matches("a" * 30)


def test_named_sets_are_those_of_ascii() -> None:
    for name, members in {"alpha": string.ascii_letters, "punct": string.punctuation}.items():
        machine = automaton(f"[[:{name}:]]")
        assert [c for c in map(chr, range(300)) if machine.matches(c)] == sorted(members)
        others = automaton(f"[[:^{name}:]]")
        assert not any(others.matches(c) for c in members)
        assert others.matches("é")


def test_quoted_text_is_taken_as_it_is() -> None:
    assert automaton(r"\Qa.b*\E+").matches("a.b**")
    assert not automaton(r"\Qa.b*\E").matches("axb*")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(a", "not closed"),
        ("a)", "closed that was not opened"),
        ("*a", "nothing before"),
        ("a**", "repetition of a repetition"),
        ("[b-a]", "ends before it begins"),
        ("[a", "ends too early"),
        ("a{3,2}", "the lower number first"),
        ("a{1001}", "at most 1000 repetitions"),
        (r"(?<=a)b", "lookbehind"),
        (r"(?=a)", "not part of RE2"),
        (r"(a)\1", "not part of RE2"),
        (r"\p{L}", "not supported"),
        (r"[[:letter:]]", "unknown set"),
        ("(" * 200 + ")" * 200, "groups in each other"),
        ("(?:a{1000}){1000}", "more than 20,000 parts"),
        ("[ab]*a[ab]{12}", "more than 1,024 states"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        automaton(pattern)


def test_symbols_are_counted_by_bounds() -> None:
    machine = automaton("[b-d]")
    assert machine.bounds.tolist() == [98, 101]
    assert machine.table.shape == (3, 3)  # nothing read, one character read, too many
    assert machine.accepted.sum() == 1
