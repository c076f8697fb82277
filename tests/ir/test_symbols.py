"""Arithmetic of symbolic sizes: one text for equal expressions, and the right numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.ir.sizes.symbols import Expression, larger, name, number, parse, smaller


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("h", "h"),
        ("(h-1)//2+1", "(h+1)//2"),
        ("((h+1)//2+1)//2", "(h+3)//4"),
        ("2*batch+batch", "3*batch"),
        ("1 + seq + past", "past+seq+1"),
        ("(4*h+3)//2", "2*h+1"),
        ("n*2//2", "n"),
        ("n - n", "0"),
        ("2*(h//2)", "2*(h//2)"),
        ("min(s, s+1)", "s"),
        ("min(8, min(8, s+1))", "min(8,s+1)"),
        ("max(1, s)", "s"),
        ("`batch size` + 1", "`batch size`+1"),
        ("x.2 - 1", "x.2-1"),
    ],
)
def test_equal_expressions_have_one_text_that_reads_back(text, canonical):
    assert str(parse(text)) == canonical
    assert parse(canonical) == parse(text)


@pytest.mark.parametrize("text", ["batch size", "1//", "a//0", "(a", "a b", "?", "(" * 100 + "a"])
def test_a_text_that_is_no_expression_is_a_name(text):
    assert parse(text).names == (text,)
    assert parse(text).is_name


NAMES = ("a", "b", "h")
EXPRESSIONS = st.recursive(
    st.one_of(st.sampled_from(NAMES).map(name), st.integers(-4, 9).map(number)),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] - pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] * pair[1]),
        st.tuples(inner, st.integers(1, 6)).map(lambda pair: pair[0].divided(pair[1])),
        st.tuples(inner, inner).map(lambda pair: smaller(*pair)),
        st.tuples(inner, inner).map(lambda pair: larger(*pair)),
    ),
    max_leaves=6,
)
SIZES = st.fixed_dictionaries({n: st.integers(1, 20) for n in NAMES})


@given(EXPRESSIONS, SIZES)
def test_text_substitution_and_lower_bound_agree_with_the_value(expression: Expression, sizes):
    value = expression.value(sizes)
    assert parse(str(expression)) == expression
    assert expression.substituted(sizes) == number(value)
    low = expression.lowest()
    assert low is None or low <= value


@given(EXPRESSIONS, EXPRESSIONS, st.integers(1, 6), SIZES)
def test_arithmetic_means_what_it_means_for_numbers(a, b, divisor, sizes):
    x, y = a.value(sizes), b.value(sizes)
    assert (a + b).value(sizes) == x + y
    assert (a - b).value(sizes) == x - y
    assert (a * b).value(sizes) == x * y
    assert a.divided(divisor).value(sizes) == x // divisor
    assert smaller(a, b).value(sizes) == min(x, y)
    assert larger(a, b).value(sizes) == max(x, y)


def test_an_exact_quotient_or_none():
    assert str(parse("6*a*b").quotient(parse("2*a"))) == "3*b"
    assert parse("6*a").quotient(parse("4*a")) is None
    assert str(parse("512*a-3072").quotient(parse("a-6"))) == "512"
    assert str((parse("a-6") * parse("2*a*b+1")).quotient(parse("a-6"))) == "2*a*b+1"
    assert parse("512*a-3071").quotient(parse("a-6")) is None
    assert parse("a+1").quotient(parse("a")) is None


def test_the_only_name_of_a_multiple_is_solved():
    assert parse("2*h+3").solved(11) == ("h", 4)
    assert parse("2*h+3").solved(10) is None
    assert parse("h//2").solved(4) is None
    assert parse("h*w").solved(4) is None
