"""Terms of the glossary in lessons: marked once, and in running text only."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

REPOSITORY = Path(__file__).resolve().parent.parent
glossary = SimpleNamespace(**run_path(str(REPOSITORY / "scripts/documentation/glossary.py")))
TERMS = {"arena": 'all "activations"', "IR": "a language"}


def test_a_term_is_marked_where_it_first_stands_and_not_again():
    page = "<p>Two arenas, one arena.</p>"
    mark = '<abbr title="all &quot;activations&quot;">arenas</abbr>'
    assert glossary.with_terms(page, TERMS) == f"<p>Two {mark}, one arena.</p>"


def test_code_headings_links_and_parts_of_words_are_left_alone():
    page = (
        '<h2 id="arena">arena</h2><pre>arena</pre><a href="#arena">arena</a><p>arena-like FIRs</p>'
    )
    assert glossary.with_terms(page, TERMS) == page


def test_a_meaning_is_not_searched_for_other_terms():
    terms = {"pass": "changes the IR", "IR": "a language"}
    page = glossary.with_terms("<p>a pass over IR</p>", terms)
    assert page.count("<abbr") == 2 and 'title="changes the IR"' in page


def test_the_terms_of_the_documents_are_read():
    terms = glossary.terms_of((REPOSITORY / "docs/words.md").read_text(encoding="utf-8"))
    assert {"IR", "arena", "pass", "halo"} <= set(terms)
    assert "term" not in terms and all(meaning.endswith(".") for meaning in terms.values())
