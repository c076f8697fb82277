"""Where programs came from and how a session answered, as text and as HTML."""

from explorer.results import ProgramLookup, SessionCall, SessionProgram, SessionRecord
from explorer.views.catalog.program import MAX_ROWS, programs
from explorer.views.catalog.session import MAX_CALLS, session
from explorer.views.payload.measures import lookups_payload
from explorer.views.renderers.html import html_of
from explorer.views.renderers.text import text_of


def lookup(tier: str = "memory", reason: str = "", name: str = "net") -> ProgramLookup:
    return ProgramLookup(
        name=name,
        digest="ab" * 32,
        tier=tier,
        reason=reason,
        seconds=0.25,
        key=(("compiler", "cc"),),
    )


def call(number: int, event: str = "hit", reason: str = "") -> SessionCall:
    answered_by = "onnxruntime" if event == "not hot" else "program"
    return SessionCall(number, "x: float32 1", answered_by, event, reason, 1e-5)


def record(*calls: SessionCall, is_cut_off: bool = False) -> SessionRecord:
    programs = (SessionProgram("x: float32 1", 2, 0.5, "source", "the source: another line"),)
    return SessionRecord(
        model="net",
        target="cpu",
        mode="lazy",
        calls=calls,
        programs=programs,
        is_cut_off=is_cut_off,
    )


def test_the_latest_lookup_stands_first_and_tiers_are_counted():
    text = text_of(programs([lookup("source", "it was not compiled before"), lookup()]), 120)
    title, _, first, second = text.splitlines()[:4]
    assert title == "2 programs: 1 from memory, 1 built"
    assert "memory" in first and "it was not compiled before" in second


def test_lookups_that_are_left_out_are_counted():
    text = text_of(programs([lookup()] * (MAX_ROWS + 3)), 120)
    assert text.count("  250 ms") == MAX_ROWS
    assert "and 3 more" in text


def test_names_of_a_model_are_text_in_html():
    html = html_of(programs([lookup("source", "<script>", "<b>net</b>")]))
    assert "<script>" not in html and "<b>net" not in html


def test_the_payload_of_lookups_begins_with_the_latest():
    first, second = lookups_payload([lookup("source", "new"), lookup("folder")])
    assert (first["tier"], second["tier"], second["reason"]) == ("folder", "source", "new")


def test_a_session_says_which_call_met_no_program_and_why():
    text = text_of(session(record(call(1, "not hot", "nothing was compiled before"), call(2))), 120)
    lines = text.splitlines()
    assert lines[0] == "net for cpu, lazy: 2 calls, 1 met a program, 1 program"
    assert "the source: another line" in lines[2]
    assert "onnxruntime" in lines[4] and "nothing was compiled before" in lines[4]


def test_calls_that_met_no_program_are_listed_before_hits():
    calls = [call(1, "compiled", "other shape"), *(call(n) for n in range(2, 200))]
    text = text_of(session(record(*calls)), 120)
    assert "other shape" in text
    assert f"and {199 - MAX_CALLS} other calls" in text
    assert "● 199  hit" in text


def test_a_cut_off_session_says_so():
    assert "no longer compiled" in html_of(session(record(call(1), is_cut_off=True)))
