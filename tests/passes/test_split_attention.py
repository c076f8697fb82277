"""Whether attention is split into products or stays one kernel: the default, and who decides."""

import pytest

from explorer.errors import InputError
from explorer.ir.rewriting import RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, run_pass
from explorer.ir.top.attention import AttentionOp
from explorer.passes.lower.split_attention import SplitAttentions

ADDRESS = "split-attention/attention/y"


def attention(tokens: int, extra: str = "", operand: str = "", heads: str = "1x4x") -> str:
    kind = f"tensor<{heads}{tokens}x8xf32>"
    return f"""
func.func @main(%q : {kind}, %k : {kind}, %v : {kind}{extra}) -> ({kind}) {{
  %y = top.attention(%q, %k, %v{operand}) {{scale = 0.5}} : {kind}
  top.return(%y)
}}
"""


def split(make_program, text: str, decision: object = None, fuses: bool = True):
    """(what became of the attention, its knobs)"""
    working = make_program(text, {})
    decisions = {} if decision is None else {ADDRESS: decision}
    result = run_pass(SplitAttentions(fuses), working, RewriteOptions(decisions))
    left = [op for op in working.module.walk() if isinstance(op, AttentionOp)]
    knobs = result.artifacts[KNOBS]
    assert isinstance(knobs, tuple)
    return "fused" if left else "split", knobs


def test_scores_that_fit_into_the_cache_are_split_and_others_fused(make_program):
    found, (knob,) = split(make_program, attention(16))
    assert (found, knob.value, knob.choices) == ("split", "split", ("split", "fused"))
    assert knob.address == ADDRESS and "4096 bytes" in knob.why
    found, (knob,) = split(make_program, attention(512))
    assert (found, knob.value) == ("fused", "fused")


@pytest.mark.parametrize(("tokens", "other"), [(16, "fused"), (512, "split")])
def test_the_knob_decides_otherwise(make_program, tokens, other):
    found, (knob,) = split(make_program, attention(tokens), other)
    assert (found, knob.value) == (other, other)
    assert knob.why.startswith("an override")


def test_what_no_fused_kernel_does_is_split_and_cannot_be_asked_for(make_program):
    masked = attention(512, ", %m : tensor<512x512xi1>", ", mask = %m")
    assert split(make_program, masked) == ("split", ())
    with pytest.raises(InputError, match="its mask is of booleans"):
        split(make_program, masked, "fused")
    with pytest.raises(InputError, match="it has no heads"):
        split(make_program, attention(16, heads=""), "fused")


def test_targets_without_memory_of_a_task_split_unless_asked(make_program):
    found, (knob,) = split(make_program, attention(512), fuses=False)
    assert found == "split" and "little memory" in knob.why
    assert split(make_program, attention(512), "fused", fuses=False)[0] == "fused"


def test_a_value_that_is_no_choice_is_refused(make_program):
    with pytest.raises(InputError, match="cannot be 'whole'"):
        split(make_program, attention(16), "whole")
