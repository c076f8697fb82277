"""The catalogue of rules is complete, and the page says what the code does."""

from pathlib import Path

from explorer.cli import main
from explorer.cli.rules import COMMAND
from explorer.ir.rewriting.passes import RulePass
from explorer.passes import TOP_PIPELINE
from explorer.passes.catalogue import PHASES, catalogue, to_markdown

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_every_rule_of_every_pass_is_in_it_with_its_rewrite_and_reasons():
    entries = catalogue()
    assert [e.name for e in entries] == [kind.name for kind in TOP_PIPELINE]
    for entry, kind in zip(entries, TOP_PIPELINE, strict=True):
        rules = kind.rules if issubclass(kind, RulePass) else ()
        assert [r.name for r in entry.rules] == [rule().name for rule in rules]
        for rule in entry.rules:
            assert "=>" in rule.rewrite, rule.name
            assert rule.applies and rule.pays.endswith("."), rule.name


def test_phases_follow_one_another():
    assert tuple(kind for kinds in PHASES.values() for kind in kinds) == TOP_PIPELINE


def test_the_page_is_what_the_command_writes(capsys):
    assert main(["rules", "--markdown"]) == 0
    assert capsys.readouterr().out == to_markdown(catalogue(), COMMAND)
    assert PAGE.read_text() == to_markdown(catalogue(), COMMAND), f"run: {COMMAND} > docs/rules.md"


def test_no_two_rules_share_a_name():
    classes = {rule for kind in TOP_PIPELINE if issubclass(kind, RulePass) for rule in kind.rules}
    assert len({rule().name for rule in classes}) == len(classes)
