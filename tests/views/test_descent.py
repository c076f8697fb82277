"""The line of rewrites that led to an operation, over all the identities that it had."""

from dataclasses import replace

import explorer as ex
from explorer.results import Delta, RewriteEvent, Trace
from explorer.views.replay.descent import Step, lines_of_makers
from explorer.views.static.operation import operation_text


def event(rule: str, removed: str = "", added: str = "", changed: str = "") -> RewriteEvent:
    """Of identities, separated by blanks."""
    gone, made, kept = removed.split(), added.split(), changed.split()
    return RewriteEvent(
        address=f"pass/{rule}/site",
        rule=rule,
        applied=True,
        site="site",
        matched=tuple(gone),
        produced=tuple(made or kept),
        reason="",
        rule_source="",
        explanation="",
        microseconds=1.0,
        delta=Delta(
            tuple((name, "") for name in gone),
            tuple((name, "") for name in made),
            tuple((name, "", "") for name in kept),
        ),
    )


def line(trace: Trace, passes: list[list[RewriteEvent]], identity: str) -> list[tuple[str, str]]:
    """(rule, what it made) of all rewrites that led to an operation."""
    records = tuple(
        replace(record, events=tuple(events))
        for record, events in zip(trace.passes, passes, strict=False)
    )
    made = replace(trace, passes=records)
    steps = lines_of_makers(made).get(identity, ())
    return [(records[step.index].events[step.event].rule, step.made) for step in steps]


def test_a_line_goes_through_what_an_operation_was_made_of(trace: Trace):
    passes = [
        [event("conv", "n1", "conv1"), event("norm", "n2", "norm1"), event("relu", "n3", "relu1")],
        [event("fold", "norm1 conv1", "w1 conv2")],
        [event("fuse", "relu1 conv2", "conv3"), event("other", "x", "y")],
    ]
    assert line(trace, passes, "conv3") == [
        ("conv", "conv1"),
        ("norm", "norm1"),
        ("relu", "relu1"),
        ("fold", "conv2"),
        ("fuse", "conv3"),
    ]


def test_a_change_in_place_belongs_to_the_line(trace: Trace):
    passes = [[event("import", "n1", "conv1")], [event("layout", changed="conv1 relu1")]]
    assert line(trace, passes, "conv1") == [("import", "conv1"), ("layout", "conv1")]
    assert line(trace, passes, "relu1") == [("layout", "relu1")]


def test_an_identity_that_is_made_anew_keeps_its_line(trace: Trace):
    passes = [[event("import", "n1", "conv1")], [event("lower", "conv1", "conv1")]]
    assert line(trace, passes, "conv1") == [("import", "conv1"), ("lower", "conv1")]


def test_what_is_added_beside_others_begins_a_line(trace: Trace):
    passes = [[event("import", "n1", "conv1")], [event("send", added="send1")]]
    assert line(trace, passes, "send1") == [("send", "send1")]


def test_a_folded_and_fused_convolution_leads_back_to_the_import(sample_models):
    compiled = ex.compile(sample_models / "digits_cnn.onnx")
    trace = compiled.trace(with_code=False)
    index = compiled.names.index("fuse-activation")
    lines = lines_of_makers(trace)
    names = dict.fromkeys(trace.passes[s.index].name for s in lines["conv8"] if s.index <= index)
    assert list(names) == ["import", "fold-batch-norm", "fuse-activation"]
    assert Step(index, 1, "conv8") in lines["conv8"]
    text = operation_text(trace, "conv8", index)
    assert "fold-batch-norm (fold-into-weights), fuse-activation (fuse-unary)" in text
