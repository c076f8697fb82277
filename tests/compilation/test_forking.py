"""Forks: what they may change, what they share, and what is refused with which words."""

from dataclasses import replace
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

import explorer
from explorer.backends.c import CBackend
from explorer.compilation import Compilation
from explorer.compilation.settings.forking import decisions_of
from explorer.errors import DeviceError, InputError, PassError
from explorer.ir.rewriting import Rule
from explorer.ir.top.elementwise import UnaryOp
from explorer.memory.planners import NoSharingPlanner
from explorer.targets import load_target

sources = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "source_models.py")))

# Sums of 72 products in another order.
TOLERANCE = 2e-6


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> Compilation:
    """Convolution, batch norm, relu, convolution, relu; the same on every processor."""
    model = sources.source_model(tmp_path_factory.mktemp("model"), sources.CHAIN)
    return explorer.compile(model, load_target("cpu", {"vector_floats": 16}))


@pytest.fixture(scope="module")
def batched(tmp_path_factory) -> Compilation:
    """The same with a batch of any size."""
    text = sources.CHAIN.replace("float[1,", "float[N,")
    assert "float[N," in text
    model = sources.source_model(tmp_path_factory.mktemp("model"), text)
    return explorer.compile(model, "cpu")


def shared(parent: Compilation, fork: Compilation) -> str:
    """The last pass that both have in common."""
    pairs = zip(parent.passes, fork.passes, strict=False)
    return [mine.name for mine, other in pairs if mine is other][-1]


def final_text(compilation: Compilation) -> tuple[str, ...]:
    return compilation.final.text.lines


def assert_equal_outputs(fork: Compilation, parent: Compilation) -> None:
    inputs = parent.example_inputs()
    for name, expected in parent.run(inputs).items():
        np.testing.assert_allclose(fork.run(inputs)[name], expected, rtol=0, atol=TOLERANCE)
    fork.close()


# -- passes and rules ------------------------------------------------------------------------------


def test_a_disabled_pass_is_switched_on_again(compiled):
    without = compiled.fork(disable=["fuse-activation"])
    again = without.fork(enable=["fuse-activation"])
    assert again.label == "with fuse-activation"
    assert again.names == compiled.names
    assert final_text(again) == final_text(compiled)


@pytest.mark.parametrize("name", ["fuse-unary", "fuse-activation/fuse-unary"])
def test_a_single_rule_is_switched_off_and_on(compiled, name):
    without = compiled.fork(disable=[name])
    assert without.label == "without fuse-unary"
    assert "fuse-activation" in without.names
    assert not without["fuse-activation"].rewrites
    assert shared(compiled, without) == "fuse-residual"
    again = without.fork(enable=[name])
    assert again.settings == compiled.settings
    assert_equal_outputs(without, compiled)


def test_a_site_can_be_used_where_its_rule_is_off(compiled):
    without = compiled.fork(disable=["fuse-unary"])
    one = without.fork(enable=["fuse-activation/fuse-unary/relu2"])
    (rewrite,) = [r for r in one["fuse-activation"].rewrites if r.applied]
    assert rewrite.site == "relu2"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"disable": ["fuse-unari"]}, "there is no pass 'fuse-unari'.*did you mean 'fuse-unary'"),
        ({"enable": ["fuse-activaton"]}, "did you mean 'fuse-activation'"),
        ({"disable": ["fuse-activation/fuse"]}, "has no rule 'fuse'"),
        ({"disable": "fuse-unary"}, r"disable is a list of names, not 'fuse-unary'.*\['fuse-una"),
        ({"disable": ["plan-memory"]}, "cannot be disabled: what follows needs it"),
        ({"decisions": {"fuse-activation/fuse-unary/relu1": 3}}, "a rule is used, or not"),
        ({"decisions": {"fuse-activation": 3}}, "a pass runs, or not"),
        (
            {"decisions": {"fuse-activation/fuse-unary/relu3": False}},
            "nothing in this program is decided by .*relu3'.*did you mean 'fuse-activation/",
        ),
        ({"budgt_bytes": 3}, "no option 'budgt_bytes'.*did you mean 'budget_bytes'"),
    ],
)
def test_what_is_unknown_or_not_legal_is_refused(compiled, option, message):
    with pytest.raises(InputError, match=message):
        compiled.fork(**option)


# -- order -----------------------------------------------------------------------------------------


def test_passes_change_places(compiled):
    fork = compiled.fork(order=["fuse-activation", "fuse-bias"])
    names = list(compiled.names)
    first, second = names.index("fuse-bias"), names.index("fuse-activation")
    names[first], names[second] = names[second], names[first]
    assert fork.names == names
    assert fork.label == "in the order fuse-activation, fuse-bias"
    assert shared(compiled, fork) == names[first - 1]
    assert_equal_outputs(fork, compiled)


def test_a_pipeline_of_names_leaves_out_and_reorders(compiled):
    kept = [name for name in compiled.names if name != "fuse-activation"]
    fork = compiled.fork(pipeline=kept)
    assert fork.names == kept
    assert fork.label == "without fuse-activation"
    swapped = list(compiled.names)
    at = swapped.index("fuse-residual")
    swapped[at], swapped[at + 1] = swapped[at + 1], swapped[at]
    assert compiled.fork(pipeline=swapped).names == swapped
    assert fork.fork(enable=["fuse-activation"]).names == compiled.names


def test_an_order_holds_for_inserted_passes_too(compiled):
    class KeepRelu(Rule):
        """relu(x)   =>   relu(x)"""

        matches = (UnaryOp,)

        def rewrite(self, op, rewriter):
            return

    fork = compiled.insert(KeepRelu, after="legalize").fork(order=["keep-relu", "fuse-bias"])
    assert fork.names.index("keep-relu") == compiled.names.index("fuse-bias")
    later = fork.insert(KeepRelu, after="keep-relu", name="later")
    assert later.names.index("later") == later.names.index("keep-relu") + 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"order": ["fuse-biass", "legalize"]}, "no pass 'fuse-biass'.*did you mean 'fuse-bias'"),
        ({"order": ["fuse-bias", "fuse-bias"]}, "'fuse-bias' stands twice"),
        ({"order": ["assign-layouts", "legalize"]}, "'assign-layouts' cannot run before"),
        (
            {"order": ["plan-memory", "eliminate-dead-code"]},
            "'place-on-device' works on programs of level top, but after plan-memory .* level mem",
        ),
        ({"pipeline": ["fuse-bias"]}, "cannot be left out: what follows needs it"),
        ({"pipeline": ["fuse-bias", 3]}, "either a list of passes or of names"),
        ({"pipeline": []}, "a list of passes, or of names"),
    ],
)
def test_an_order_that_cannot_work_is_refused_with_the_reason(compiled, option, message):
    with pytest.raises(InputError, match=message):
        compiled.fork(**option)


def optional_moves(names: list[str], movable: list[str]) -> list[list[str]]:
    """Every pipeline in which one of the movable passes stands somewhere else before lowering."""
    last = names.index("assign-layouts")
    return [
        [*rest[:at], name, *rest[at:]]
        for name in movable
        for rest in [[other for other in names if other != name]]
        for at in range(1, last)
        if [*rest[:at], name, *rest[at:]] != names
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("share", range(4))
@pytest.mark.parametrize("name", ["fold-batch-norm", "fuse-activation"])
def test_a_pass_anywhere_else_is_refused_or_computes_the_same(compiled, name, share):
    """`share`: every fourth place, from that one on."""
    inputs = compiled.example_inputs()
    expected = compiled.run(inputs)["y"]
    worked, refused = 0, []
    for pipeline in optional_moves(compiled.names, [name])[share::4]:
        try:
            fork = compiled.fork(pipeline=pipeline)
        except PassError as error:
            refused.append(error.pass_name)
            continue
        worked += 1
        np.testing.assert_allclose(fork.run(inputs)["y"], expected, rtol=0, atol=TOLERANCE)
        fork.close()
    assert worked > 0
    assert set(refused) <= set(compiled.names)


# -- layout ----------------------------------------------------------------------------------------


def blocks(compilation: Compilation) -> dict[str, int]:
    """Channels per block by value, as the program has them."""
    from explorer.ir.types import layout_of

    operations = compilation["assign-layouts"].after.operations
    return {
        name: layout_of(op.results[0]).block
        for name, op in operations.items()
        if op.name == "top.conv"
    }


@pytest.mark.sampled(2)
@pytest.mark.parametrize("layout", ["plain", 4, 8, 16])
def test_everything_gets_another_layout(compiled, layout):
    fork = compiled.fork(layout=layout)
    expected = 0 if layout == "plain" else layout
    assert set(blocks(fork).values()) == {expected}
    assert_equal_outputs(fork, compiled)
    assert final_text(fork.fork(layout="vector")) == final_text(compiled)


def test_functions_and_values_get_layouts_by_name(compiled):
    first, second = blocks(compiled)
    fork = compiled.fork(layout={"main_cpu": 8, second: "plain"})
    assert blocks(fork) == {first: 8, second: 0}
    assert_equal_outputs(fork, compiled)
    again = fork.fork(layout={second: "vector"})
    assert blocks(again) == {first: 8, second: 8}
    both = compiled.fork(layout={first: 4})
    assert blocks(both)[first] == 4 != blocks(both)[second]
    assert_equal_outputs(both, compiled)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("plian", "no layout 'plian'.*did you mean 'plain'"),
        (7, "cannot be 7.*one of 0, 4, 8, 16"),
        (True, "no layout True"),
        ({"conv9": 8}, "nothing in this program is decided by 'assign-layouts/blocked/conv9'"),
    ],
)
def test_an_unknown_layout_is_refused(compiled, layout, message):
    with pytest.raises(InputError, match=message):
        compiled.fork(layout=layout)


# -- target, memory, dimensions, fuel --------------------------------------------------------------


def test_a_target_with_other_fields(compiled):
    fork = compiled.fork(target={"vector_floats": 4})
    assert fork.target.vector_floats == 4
    assert fork.label == "vector_floats = 4"
    assert set(blocks(fork).values()) == {4}
    # compute-in-integers is the first pass that asks for pairs of bytes in short vectors without
    # a dot product of them.
    pairs = CBackend().capabilities(fork.target, 4).multiplies_pairs
    assert shared(compiled, fork) == ("recognize-attention" if pairs else "place-on-device")
    assert_equal_outputs(fork, compiled)
    assert fork.settings == compiled.fork(target=compiled.target.with_(vector_floats=4)).settings


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("cpuu", "did you mean 'cpu'"),
        ({"vector_float": 8}, "did you mean 'vector_floats'"),
        ({"vector_floats": 5}, "vector_floats is 5.*auto.* or one of 1, 4, 8, 16"),
        ({"layout.channel_block": 12}, "channel_block is 12.*vector, 1 or one of 4, 8, 16"),
    ],
)
def test_a_target_that_cannot_be_is_refused(compiled, target, message):
    with pytest.raises(InputError, match=message):
        compiled.fork(target=target)


def test_a_planner_goes_by_its_name(compiled):
    fork = compiled.fork(planner="no-sharing")
    assert fork.settings.planner == NoSharingPlanner()
    assert fork.label == "planner no-sharing"
    assert shared(compiled, fork) == "order-operations"
    with pytest.raises(InputError, match="no memory planner 'no-share'"):
        compiled.fork(planner="no-share")


def test_a_budget_is_taken_back_with_none(compiled):
    fork = compiled.fork(budget_bytes=2**20)
    assert fork.label == f"at most {2**20:,} bytes"
    again = fork.fork(budget_bytes=None)
    assert again.label == "no budget"
    assert again.settings == compiled.settings
    assert fork.fork(disable=["fuse-activation"]).settings.budget_bytes == 2**20


@pytest.mark.parametrize("option", ["budget_bytes", "fuel"])
@pytest.mark.parametrize("value", [-1, 1.5, True, "many"])
def test_limits_are_counts(compiled, option, value):
    least = 0 if option == "fuel" else 1
    wanted = f"a whole number from {least} on, or None"
    for bad in (value, least - 1):
        with pytest.raises(InputError, match=wanted):
            compiled.fork(**{option: bad})


def test_dimensions_get_other_sizes(batched):
    fork = batched.fork(dimensions={"N": 3})
    assert fork.label == "N = 3"
    assert fork.example_inputs()["x"].shape[0] == 3
    assert fork.run(fork.example_inputs())["y"].shape[0] == 3
    assert shared(batched, fork) == "import"
    fork.close()
    with pytest.raises(InputError, match="no dimension 'M'"):
        batched.fork(dimensions={"M": 3})


def test_other_fuel_shares_what_was_done_with_less(compiled):
    before = compiled.names.index("fuse-activation")
    done = [r for result in compiled.passes[1:before] for r in result.rewrites if r.applied]
    fuel = len(done) + 1
    limited = compiled.fork(fuel=fuel)
    # All rewrites before fuse-activation and one of it: that one ends for want of fuel.
    assert shared(compiled, limited) == "fuse-residual"
    fresh = explorer.compile(compiled.model, compiled.settings.target, fuel=fuel)
    assert final_text(limited) == final_text(fresh)
    more = limited.fork(fuel=None)
    assert shared(limited, more) == "fuse-residual"
    assert final_text(more) == final_text(compiled)
    plenty = compiled.fork(fuel=1000)
    assert all(a is b for a, b in zip(compiled.passes, plenty.passes, strict=True))


# -- one mapping -----------------------------------------------------------------------------------


def test_every_option_has_an_address(compiled):
    buffer = compiled.memory.placements[-1].buffer.id
    offset = compiled.memory.peak_bytes + 64 - compiled.memory.peak_bytes % 64
    decisions = {
        "fuse-activation": False,
        "order": ["fuse-residual", "fuse-bias"],
        "plan-memory/pins": {buffer: offset},
        "plan-memory/budget_bytes": 2**20,
    }
    fork = compiled.fork(decisions=decisions)
    settings = fork.settings
    assert settings.disable == ("fuse-activation",)
    assert fork.names.index("fuse-residual") < fork.names.index("fuse-bias")
    assert fork.memory.offsets[buffer] == offset and settings.budget_bytes == 2**20
    assert {a: decisions_of(settings)[a] for a in decisions} == {
        **decisions,
        "plan-memory/pins": [[buffer, offset]],
    }
    back = fork.fork(decisions=dict.fromkeys(decisions))
    assert back.settings == compiled.settings


@pytest.mark.parametrize(
    ("address", "value", "message"),
    [
        ("order", "fuse-bias", "a list of passes is expected"),
        ("plan-memory/pins", {"conv_1": -1}, "buffers with bytes are expected"),
        ("plan-memory/pins", 4, "buffers with bytes are expected"),
        ("fuse-bias", 1, "a pass runs, or not"),
    ],
)
def test_what_an_address_cannot_be_is_refused(compiled, address, value, message):
    with pytest.raises(InputError, match=message):
        compiled.fork(decisions={address: value})


# -- settings alone --------------------------------------------------------------------------------


def test_a_fork_is_what_its_settings_say(compiled):
    fork = compiled.fork(disable=["fuse-activation"], layout="plain").fork(planner="no-sharing")
    branch = compiled.branch(fork.settings)
    assert final_text(branch) == final_text(fork)
    assert branch.label == ("without fuse-activation, block = 0, planner no-sharing")


def test_a_branch_says_which_overrides_decide_nothing(compiled):
    address = "schedule-loops/conv_9/pixels"
    settings = replace(compiled.settings, decisions={address: 4})
    branch = compiled.branch(settings)
    assert branch.unmet == (address,)
    assert final_text(branch) == final_text(compiled)
    # Its forks may keep it: it may decide something again.
    assert branch.fork(disable=["fuse-activation"]).unmet == (address,)


def test_a_pass_of_ones_own_pipeline_is_blamed_for_what_it_raises(compiled):
    from explorer.ir.rewriting.passes import Pass

    class Fails(Pass):
        """Fails."""

        name = "fails"

        def run(self, rewriter, options):
            raise ZeroDivisionError("of all things")

    with pytest.raises(PassError, match="failed with ZeroDivisionError: of all things") as raised:
        compiled.fork(pipeline=[Fails(), *compiled.pipeline])
    assert raised.value.pass_name == "fails"


def test_kernels_that_stay_as_they_are_are_not_scheduled_again(compiled):
    address = next(k.address for k in compiled.knobs if k.address.endswith("/pixels"))
    fork = compiled.fork(decisions={address: 2})
    mine, theirs = (c["schedule-loops"].artifacts["kernels"] for c in (compiled, fork))
    assert isinstance(mine, dict) and isinstance(theirs, dict)
    again = [name for name in mine if theirs[name].steps is not mine[name].steps]
    assert again == [address.split("/")[1]]
    fresh = explorer.compile(compiled.model, compiled.target, decisions={address: 2})
    assert [p.after.dump() for p in fork.passes] == [p.after.dump() for p in fresh.passes]
    assert final_text(compiled.fork(decisions={address: 3})) != final_text(fork)


@pytest.mark.parametrize(
    "option",
    [{"target": {"vector_floats": 4}}, {"planner": "no-sharing"}, {"budget_bytes": 2**20}],
    ids=str,
)
def test_options_of_passes_are_refused_where_the_passes_are_given(compiled, option):
    own = compiled.fork(pipeline=compiled.pipeline)
    assert final_text(own) == final_text(compiled)
    with pytest.raises(InputError, match="has no effect on a pipeline of one's own"):
        own.fork(**option)
    with pytest.raises(InputError, match="plan-memory/planner has no effect"):
        own.fork(decisions={"plan-memory/planner": "no-sharing"})
    back = own.fork(pipeline=None, **option)
    assert back.settings == compiled.fork(**option).settings


# -- threads ---------------------------------------------------------------------------------------


@pytest.mark.opencl
def test_threads_take_a_part_of_an_opencl_processor(compiled):
    try:
        fork = compiled.fork(target="opencl")
    except DeviceError as error:
        pytest.skip(str(error))
    assert fork.device is not None
    inputs = compiled.example_inputs()
    if fork.device.processor != "cpu":
        with pytest.raises(InputError, match="takes all of it"):
            fork.open(threads=1)
        return
    with fork.open(threads=1) as executable:
        assert executable.profile(inputs, 2).threads == 1
        np.testing.assert_array_equal(executable.run(inputs)["y"], fork.run(inputs)["y"])
    # By itself it is one thread too: so few operations are not worth waking another for.
    assert fork.profile(inputs, 2).threads == 1
    with pytest.raises(InputError, match=r"has \d+ compute units, not 4096"):
        fork.open(threads=4096)
    fork.close()


# -- after an edit by hand -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def edited(compiled) -> Compilation:
    text = compiled["fold-batch-norm"].after.dump()
    return compiled.continue_from("fold-batch-norm", text.replace('kind = "relu"', 'kind = "abs"'))


@pytest.mark.parametrize(
    "option",
    [{"fuel": 500}, {"fuel": 0}, {"disable": ["fuse-activation"]}, {"layout": "plain"}],
    ids=str,
)
def test_forks_keep_the_edit(edited, option):
    fork = edited.fork(**option)
    assert edited.label == "edited after fold-batch-norm"
    assert fork["fold-batch-norm"] is edited["fold-batch-norm"]
    inputs = edited.example_inputs()
    expected = edited.run(inputs)["y"]
    np.testing.assert_allclose(fork.run(inputs)["y"], expected, rtol=0, atol=TOLERANCE)
    fork.close()


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ({"disable": ["fold-constants"]}, "fold-constants would change"),
        ({"disable": ["fold-batch-norm/fold-scale"]}, "fold-batch-norm/fold-scale would change"),
        ({"order": ["remove-no-ops", "fold-constants"]}, "fold-constants would change"),
    ],
)
def test_what_comes_before_an_edit_cannot_change(edited, option, what):
    with pytest.raises(InputError, match=f"after fold-batch-norm was edited by hand.*{what}"):
        edited.fork(**option)


def test_a_result_of_another_compilation_cannot_be_edited(compiled, edited):
    with pytest.raises(InputError, match="belongs to another compilation"):
        edited.continue_from(compiled["fuse-activation"], "")
