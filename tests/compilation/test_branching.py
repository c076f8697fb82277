"""Changes that a notebook's page asks for are done by the compilation, or refused with a reason."""

from typing import Any

import pytest

import explorer as ex
from explorer.compilation import Compilation
from explorer.compilation.branching import Branches
from explorer.compilation.custom_passes.written import TEMPLATE, rules_of
from explorer.errors import ExplorerError, InputError


@pytest.fixture(scope="module")
def compiled(sample_models) -> Compilation:
    return ex.compile(sample_models / "digits_mlp.onnx")


def first_rewrite(compiled, pass_name: str) -> str:
    return next(r.address for r in compiled[pass_name].rewrites if r.applied)


def test_a_rewrite_is_left_out_and_the_first_branch_stays(compiled):
    branches = Branches(compiled)
    address = first_rewrite(compiled, "fuse-activation")
    branches.change({"what": "decide", "decisions": {address: False}})
    assert branches.shown is not compiled and branches.place == 1 and len(branches.labels) == 2
    assert branches.shown.decisions()[address] is False
    assert branches.first_trace() is not None
    branches.show(0)
    assert branches.shown is compiled and branches.first_trace() is None


def test_edited_text_goes_on_from_its_pass(compiled):
    branches = Branches(compiled)
    text = branches.text_after("import")
    assert "relu" in text
    branches.change({"what": "edit", "after": "import", "text": text.replace('"relu"', '"tanh"')})
    assert "tanh" in "\n".join(branches.shown["import"].after.text.lines)
    before, after = (c.run(compiled.example_inputs()) for c in (compiled, branches.shown))
    assert any((before[name] != after[name]).any() for name in before)


RULE = '''class TanhForRelu(Rule):
    """relu(x)   =>   tanh(x)      (wrong)"""

    matches = (UnaryOp,)

    def rewrite(self, op, rewriter):
        if op.kind.data == "relu":
            rewriter.update(op, kind="tanh")
'''


def test_a_rule_that_was_written_fires_and_keeps_its_text(compiled):
    branches = Branches(compiled)
    branches.change({"what": "rule", "after": "import", "text": RULE})
    assert "tanh-for-relu" in branches.shown.names
    assert branches.shown["tanh-for-relu"].rewrites
    texts = {rule.name: rule.text.lines for rule in branches.trace().rules}
    assert texts["tanh-for-relu"][0] == "class TanhForRelu(Rule):"


def test_the_template_is_a_rule():
    (rule,) = rules_of(TEMPLATE)
    assert rule().name == "drop-relu" and "=>" in rule().explanation


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("class A(Rule)\n", "line 1: expected ':'"),
        ("x = 1\n", "defines no rule"),
        ("y = 1\nunknown()\n", "line 2: NameError"),
    ],
)
def test_text_that_is_no_rule_is_refused_with_its_line(text: str, words: str):
    with pytest.raises(InputError, match=words):
        rules_of(text)


@pytest.mark.parametrize(
    "asked",
    [
        {"what": "decide", "decisions": {"fuse-activation/no/such": False}},
        {"what": "edit", "after": "nowhere", "text": ""},
        {"what": "edit", "after": "import", "text": "no IR"},
        {"what": "rule", "after": "nowhere", "text": RULE},
        {"what": "delete everything"},
    ],
)
def test_what_is_refused_changes_nothing(compiled, asked):
    branches = Branches(compiled)
    with pytest.raises(ExplorerError):
        branches.change(asked)
    assert branches.all == [compiled]


def test_a_widget_shows_what_its_kernel_made(compiled):
    widget: Any = compiled.explore(at={"pass": "import", "dock": "rewrites"})
    assert widget.head["at"] == {"pass": "import", "dock": "rewrites"}
    sent: list[dict] = []
    widget.send = sent.append
    address = first_rewrite(compiled, "fuse-activation")
    asked = {"kind": "change", "what": "decide", "decisions": {address: False}}
    widget._handle_custom_msg(asked, [])
    assert (sent[-1]["error"], widget.revision) == ("", 1)
    assert widget.branches.shown.decisions()[address] is False
    assert widget.head["branches"]["place"] == 1 and widget.head["has"]["compare"]
    widget._handle_custom_msg({"kind": "change", "what": "rule", "after": "import"}, [])
    assert "defines no rule" in sent[-1]["error"] and widget.revision == 1
    widget._handle_custom_msg({"kind": "need", "keys": ["rewrites"], "revision": 1}, [])
    assert sent[-1]["key"] == "rewrites", "of the branch that is shown"
    widget._handle_custom_msg({"kind": "show", "place": 0}, [])
    assert widget.branches.shown is compiled and widget.revision == 2


@pytest.mark.parametrize("at", [{"pass": "improt"}, {"dock": "nowhere"}, {"colour": "red"}])
def test_a_place_that_there_is_not_is_refused(compiled, at):
    with pytest.raises(InputError):
        compiled.explore(at=at)
