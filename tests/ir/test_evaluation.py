"""Executing `top` through NumPy meanings: incremental, isolated, checked at both ends."""

import weakref

import numpy as np
import pytest

from explorer.errors import InputError, PassError
from explorer.ir import evaluation
from explorer.ir.evaluation import (
    EvaluationCache,
    entry_function,
    evaluate_module,
    input_names,
    output_names,
    outputs_by_name,
)
from explorer.ir.inspection.printing import parse
from explorer.ir.operation import to_attribute
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.weights import Weights

CHAIN = """
func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {
  %k = top.weight() {weight = "k"} : tensor<4xf32>
  %a = top.unary(%x) {kind = "abs"} : tensor<4xf32>
  %b = top.binary(%a, %k) {kind = "add"} : tensor<4xf32>
  %y = top.unary(%b) {kind = "neg"} : tensor<4xf32>
  top.return(%y)
}
"""
X = np.array([-2, -1, 0, 3], np.float32)
K = np.array([10, 20, 30, 40], np.float32)


def evaluate(text, inputs, cache=None, replaced=None, arrays=None):
    return evaluate_module(parse(text), Weights(arrays or {"k": K}), inputs, cache, replaced)


def test_all_values_come_back_by_name():
    values = evaluate(CHAIN, {"x": X})
    assert list(values) == ["x", "k", "a", "b", "y"]
    np.testing.assert_array_equal(values["a"], [2, 1, 0, 3])
    np.testing.assert_array_equal(values["b"], [12, 21, 30, 43])
    np.testing.assert_array_equal(values["y"], [-12, -21, -30, -43])


# -- incremental -----------------------------------------------------------------------------------


def test_an_unchanged_program_runs_nothing_again():
    cache, weights = EvaluationCache(), Weights({"k": K})
    first = evaluate_module(parse(CHAIN), weights, {"x": X}, cache)
    assert (cache.runs, cache.hits) == (3, 0)
    second = evaluate_module(parse(CHAIN), weights, {"x": X}, cache)
    assert (cache.runs, cache.hits) == (3, 3)
    assert second["y"] is first["y"]


def test_equal_numbers_are_found_however_they_were_computed():
    cache, weights = EvaluationCache(), Weights({"k": K})
    first = evaluate_module(parse(CHAIN), weights, {"x": X}, cache)
    twice = CHAIN.replace("top.unary(%x)", "top.unary(%n)").replace(
        "%a =", '%n = top.unary(%x) {kind = "neg"} : tensor<4xf32>\n %a ='
    )
    second = evaluate_module(parse(twice), weights, {"x": X}, cache)
    assert (cache.runs, cache.hits) == (5, 2)  # |-x| is |x|: what follows has run before
    assert second["y"] is first["y"]
    fed = evaluate_module(parse(CHAIN), weights, {"x": X}, cache, {"a": first["a"].copy()})
    assert cache.runs == 5 and fed["y"] is first["y"]


def test_equal_integers_of_other_scales_are_other_numbers():
    cache = EvaluationCache()
    for scale in (0.5, 0.25):
        kind = f"!top.quantized<i8, {scale}:0>"
        values = evaluate_module(
            parse(f"""func.func @main(%x : tensor<4x{kind}>) -> tensor<4xf32> {{
                %y = top.dequantize(%x) {{to = f32}} : tensor<4xf32>
                top.return(%y) }}"""),
            Weights(),
            {"x": X.astype(np.int8)},
            cache,
        )
        np.testing.assert_array_equal(values["y"], X * scale)


def test_zeros_of_both_signs_are_other_numbers():
    cache, weights = EvaluationCache(), Weights({"k": K})
    inverse = parse("""func.func @main(%x : tensor<1xf32>) -> tensor<1xf32> {
        %y = top.unary(%x) {kind = "reciprocal"} : tensor<1xf32>
        top.return(%y) }""")
    for sign in (1.0, -1.0):
        x = np.array([sign * 0.0], np.float32)
        assert evaluate_module(inverse, weights, {"x": x}, cache)["y"] == sign * np.inf


def test_only_what_follows_a_change_runs_again():
    cache, weights = EvaluationCache(), Weights({"k": K})
    evaluate_module(parse(CHAIN), weights, {"x": X}, cache)
    changed = CHAIN.replace('kind = "add"', 'kind = "sub"')
    values = evaluate_module(parse(changed), weights, {"x": X}, cache)
    assert (cache.runs, cache.hits) == (5, 1)  # %a is found; %b and, behind it, %y are new
    np.testing.assert_array_equal(values["y"], [8, 19, 30, 37])


@pytest.mark.parametrize(
    "changed",
    [
        CHAIN.replace("%a", "%other"),
        CHAIN.replace(
            '"abs"} : tensor<4xf32>', '"abs"} : tensor<4xf32, #top.encoding<fill = "-1.0">>'
        ),
    ],
    ids=["another name", "another layout"],
)
def test_names_and_layouts_do_not_count_as_changes(changed):
    assert changed != CHAIN
    cache, weights = EvaluationCache(), Weights({"k": K})
    evaluate_module(parse(CHAIN), weights, {"x": X}, cache)
    evaluate_module(parse(changed), weights, {"x": X}, cache)
    assert (cache.runs, cache.hits) == (3, 3)


def test_properties_that_have_equal_hashes_are_told_apart():
    """Python's hash(-1) is hash(-2), and attributes take over their number's hash."""
    cache, one, two = EvaluationCache(), to_attribute(-1), to_attribute(-2)
    assert hash(one) == hash(two)
    assert cache.key(("top.shape", one)) != cache.key(("top.shape", two))
    assert cache.key(("top.shape", one)) == cache.key(("top.shape", to_attribute(-1)))


def test_equal_operations_with_other_declared_types_are_not_mixed_up():
    cache = EvaluationCache()
    evaluate(CHAIN, {"x": X}, cache)
    symbolic = CHAIN.replace("tensor<4xf32>", 'tensor<?xf32, #top.encoding<dims = ["n"]>>')
    symbolic = symbolic.replace(
        'weight = "k"} : tensor<?xf32, #top.encoding<dims = ["n"]>>',
        'weight = "k"} : tensor<4xf32>',
    )
    evaluate(symbolic, {"x": X}, cache)
    assert cache.hits == 0


def test_arrays_are_told_apart_even_when_they_lie_in_the_same_place():
    """Lists become new arrays in every run; a freed one's place may be taken by the next."""
    cache, weights, module = EvaluationCache(), Weights({"k": K}), parse(CHAIN)
    for number in range(50):
        x = np.full(4, number, np.float32)
        values = evaluate_module(module, weights, {"x": x}, cache)
        np.testing.assert_array_equal(values["a"], np.full(4, number))
        del x, values


# -- isolated --------------------------------------------------------------------------------------


def test_what_was_not_asked_for_is_forgotten_and_computed_again():
    cache, weights = EvaluationCache(), Weights({"k": K})
    module = parse(CHAIN)
    first = evaluate_module(module, weights, {"x": X}, cache)
    cache.forget_unused()  # all of it was asked for
    runs = cache.runs
    evaluate_module(module, weights, {"x": X}, cache)
    assert cache.runs == runs
    for number in range(5):
        evaluate_module(module, weights, {"x": X + number + 1}, cache)
        cache.forget_unused()
    assert len(cache.results) == runs
    again = evaluate_module(module, weights, {"x": X}, cache)
    assert cache.runs == 7 * runs
    for name, array in first.items():
        np.testing.assert_array_equal(again[name], array)
    cache.forget_unused()
    cache.forget_unused()
    assert not cache.results


def test_arrays_are_held_until_they_are_not_asked_for():
    cache, array = EvaluationCache(), np.arange(4.0)
    equal, held = array.copy(), weakref.ref(array)
    number = cache.known(array)[1]
    cache.forget_unused()  # it was asked for
    found, same = cache.known(equal)
    assert found is array and same == number
    del array, found
    cache.forget_unused()
    assert held() is not None
    cache.forget_unused()
    assert held() is None


def test_replaced_values_feed_their_users_and_are_reported_as_computed():
    fed = np.zeros(4, np.float32)
    values = evaluate(CHAIN, {"x": X}, replaced={"a": fed})
    np.testing.assert_array_equal(values["a"], [2, 1, 0, 3])
    np.testing.assert_array_equal(values["b"], K)
    np.testing.assert_array_equal(values["y"], -K)


def test_an_error_shows_only_where_it_is_made_when_values_are_replaced():
    right = evaluate(CHAIN, {"x": X})
    wrong = CHAIN.replace('kind = "add"', 'kind = "sub"')
    reference = {name: right[name] for name in ("a", "b", "y")}
    values = evaluate(wrong, {"x": X}, replaced=reference)
    differing = [n for n in reference if not np.array_equal(values[n], right[n])]
    assert differing == ["b"]


def test_isolated_and_accumulated_runs_share_a_cache_without_mixing():
    cache, fed = EvaluationCache(), {"a": np.zeros(4, np.float32)}
    weights, module = Weights({"k": K}), parse(CHAIN)
    plain = evaluate_module(module, weights, {"x": X}, cache)
    apart = evaluate_module(module, weights, {"x": X}, cache, fed)
    assert (cache.runs, cache.hits) == (5, 1)
    np.testing.assert_array_equal(plain["b"], [12, 21, 30, 43])
    np.testing.assert_array_equal(apart["b"], K)


# -- functions and regions -------------------------------------------------------------------------


def test_called_functions_are_executed_and_their_values_reported():
    values = evaluate(
        """
        func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {
          %r = func.call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
          %y = top.unary(%r) {kind = "neg"} : tensor<4xf32>
          top.return(%y)
        }
        func.func @inner(%a : tensor<4xf32>) -> tensor<4xf32> {
          %b = top.unary(%a) {kind = "abs"} : tensor<4xf32>
          top.return(%b)
        }""",
        {"x": X},
    )
    assert set(values) == {"x", "a", "b", "r", "y"}
    np.testing.assert_array_equal(values["r"], [2, 1, 0, 3])
    np.testing.assert_array_equal(values["y"], [-2, -1, 0, -3])


CONDITIONAL = """
func.func @main(%c : tensor<i1>, %x : tensor<4xf32>) -> tensor<4xf32> {
  %r = top.if(%c) {
    %a = top.unary(%x) {kind = "abs"} : tensor<4xf32>
    top.return(%a)
  } {
    %n = top.unary(%x) {kind = "neg"} : tensor<4xf32>
    top.return(%n)
  } : tensor<4xf32>
  %y = top.unary(%r) {kind = "relu"} : tensor<4xf32>
  top.return(%y)
}
"""


@pytest.mark.parametrize(
    ("condition", "inner", "expected"), [(True, "a", [2, 1, 0, 3]), (False, "n", [2, 1, 0, 0])]
)
def test_only_the_chosen_region_runs(condition, inner, expected):
    cache = EvaluationCache()
    values = evaluate(CONDITIONAL, {"c": np.array(condition), "x": X}, cache)
    assert {"a", "n"} & set(values) == {inner}
    np.testing.assert_array_equal(values["y"], expected)


def test_what_follows_a_region_runs_again_when_the_region_changed():
    cache, inputs = EvaluationCache(), {"c": np.array(True), "x": X}
    for _ in range(20):
        values = evaluate(CONDITIONAL, inputs, cache)
        np.testing.assert_array_equal(values["y"], [2, 1, 0, 3])
        changed = evaluate(CONDITIONAL.replace('"abs"', '"sign"'), inputs, cache)
        np.testing.assert_array_equal(changed["y"], [0, 0, 0, 1])
        del values, changed


# -- both ends -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'x' is missing; try: give an array named 'x'"),
        ({"x": X, "z": X}, "the model has no input 'z'; try: its inputs are x"),
        (
            {"x": X[:3]},
            "input 'x' is 3 float32, but the model takes 4 float32; where: node x; "
            "try: reshape or convert the array (numpy: reshape, astype)",
        ),
        (
            {"x": X.astype(np.float64)},
            "input 'x' is 4 float64, but the model takes 4 float32; where: node x; "
            "try: reshape or convert the array (numpy: reshape, astype)",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_named(inputs, message):
    with pytest.raises(InputError) as raised:
        evaluate(CHAIN, inputs)
    assert str(raised.value) == message


def test_a_symbolic_dimension_takes_any_size_but_not_another_rank():
    text = """func.func @main(%x : tensor<?x2xf32, #top.encoding<dims = ["n", ""]>>)
        -> tensor<?x2xf32, #top.encoding<dims = ["n", ""]>> {
      %y = top.unary(%x) {kind = "neg"} : tensor<?x2xf32, #top.encoding<dims = ["n", ""]>>
      top.return(%y)
    }"""
    assert evaluate(text, {"x": np.zeros((5, 2), np.float32)})["y"].shape == (5, 2)
    with pytest.raises(
        InputError, match="input 'x' is 5x3 float32, but the model takes nx2 float32"
    ):
        evaluate(text, {"x": np.zeros((5, 3), np.float32)})
    with pytest.raises(InputError, match="input 'x' is 5 float32"):
        evaluate(text, {"x": np.zeros(5, np.float32)})


def test_a_meaning_that_contradicts_the_declared_shape_is_found_where_it_arises():
    text = CHAIN.replace('weight = "k"} : tensor<4xf32>', 'weight = "k"} : tensor<1xf32>')
    with pytest.raises(PassError) as raised:
        evaluate(text, {"x": X}, arrays={"k": np.ones((2, 1), np.float32)})
    assert str(raised.value) == (
        "top.binary b declares 4 but computes 2x4 (result 0); where: node b"
    )


def test_a_region_that_contradicts_its_declared_shape_is_found():
    text = CONDITIONAL.replace("%r) {kind", "%r) {kind").replace(
        '%a = top.unary(%x) {kind = "abs"}', '%a = top.binary(%x, %k) {kind = "add"}'
    )
    text = text.replace(
        "  %r = top.if", '  %k = top.weight() {weight = "k"} : tensor<1xf32>\n  %r = top.if'
    )
    wide = {"k": np.ones((3, 1), np.float32)}
    with pytest.raises(PassError, match="declares 4 but computes 3x4"):
        evaluate(text, {"c": np.array(True), "x": X}, arrays=wide)


def test_an_operation_that_cannot_be_executed_is_named():
    text = CHAIN.replace('weight = "k"} : tensor<4xf32>', 'weight = "k"} : tensor<1xf32>')
    with pytest.raises(PassError) as raised:
        evaluate(text, {"x": X}, arrays={"k": np.ones(3, np.float32)})
    assert str(raised.value).startswith("top.binary b cannot be executed: operands could not be")
    assert raised.value.node == "b"


def test_an_operation_that_needs_too_much_memory_is_named(monkeypatch):
    def evaluate_without_memory(self, *operands):
        raise MemoryError

    monkeypatch.setattr(BinaryOp, "evaluate", evaluate_without_memory)
    with pytest.raises(PassError, match="b of 4 float32, 4 float32 needs more memory than"):
        evaluate(CHAIN, {"x": X}, arrays={"k": np.ones(4, np.float32)})


def test_a_result_that_repeats_its_elements_may_need_too_much_memory(monkeypatch):
    """Its elements are written out after the operation was executed."""
    contents = evaluation._contents

    def contents_without_memory(array):
        if array.strides == (0,):
            raise MemoryError
        return contents(array)

    monkeypatch.setattr(evaluation, "_contents", contents_without_memory)
    repeated = np.broadcast_to(np.float32(1), (4,))
    monkeypatch.setattr(BinaryOp, "evaluate", lambda self, *operands: (repeated,))
    with pytest.raises(PassError, match="b of 4 float32, 4 float32 needs more memory than"):
        evaluate(CHAIN, {"x": X}, arrays={"k": np.ones(4, np.float32)})


def test_the_source_models_names_stand_before_the_values_own():
    text = CHAIN.replace(
        "-> tensor<4xf32> {",
        '-> tensor<4xf32> attributes {input_names = ["image/0"], output_names = ["logits:0"]} {',
    )
    function = entry_function(parse(text))
    assert (input_names(function), output_names(function)) == (("image/0",), ("logits:0",))
    module = parse(text)
    values = evaluate_module(module, Weights({"k": K}), {"image/0": X})
    np.testing.assert_array_equal(outputs_by_name(module, values)["logits:0"], [-12, -21, -30, -43])
