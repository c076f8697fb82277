"""What students get, ledgers of predictions, and the check of a machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from explorer.cli import main
from explorer.course import locking
from explorer.course.ledger import collect, histogram_lines
from explorer.course.lessons import lessons_folder, read_lesson, read_lessons
from explorer.course.machine import examine
from explorer.course.predictions import check, predict
from explorer.course.terms import Term, new_course
from explorer.errors import InputError


def test_students_get_lessons_without_solutions(tmp_path: Path):
    written = new_course(tmp_path / "course", "2027a")
    names = {str(path.relative_to(tmp_path / "course")) for path in written}
    assert {"course.toml", "README.md", "03_passes_and_diffs.ipynb"} <= names
    assert "sample_models/digits_cnn.onnx" in names
    assert not any("solutions" in name for name in names)
    assert read_lesson(tmp_path / "course" / "03_passes_and_diffs.ipynb").term == "2027a"
    term = Term.read(tmp_path / "course" / "course.toml")
    assert term.name == "2027a"
    assert set(term.points) == {e.name for lesson in read_lessons() for e in lesson.exercises}
    with pytest.raises(InputError, match="exists"):
        new_course(tmp_path / "course")
    with pytest.raises(InputError, match="no such folder"):
        new_course(tmp_path / "no" / "course")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["course"]


def test_the_names_of_exercises_are_unique():
    names = [exercise.name for lesson in read_lessons() for exercise in lesson.exercises]
    assert len(set(names)) == len(names) >= 30
    assert all(exercise.question for lesson in read_lessons() for exercise in lesson.exercises)


@pytest.mark.parametrize(
    "text", ["points = 3", '[points]\n"1.1" = "many"', "[points", "[points]\na = -1"]
)
def test_damaged_settings_are_refused(text: str, tmp_path: Path):
    (tmp_path / "course.toml").write_text(text)
    with pytest.raises(InputError):
        Term.read(tmp_path / "course.toml")


def test_guesses_are_counted_once_for_each_student(tmp_path: Path):
    def entry(answer: object, state: str, question: str = "How many?") -> str:
        return json.dumps({"question": question, "answer": answer, "truth": 11, "state": state})

    for student, lines in {
        "a": [entry(9, "wrong"), entry(11, "right")],
        "b": [entry(9, "wrong"), "no json", "[]"],
        "c": [entry(11, "right"), entry(True, "wrong", "Is it <b>?")],
    }.items():
        (tmp_path / student).mkdir()
        (tmp_path / student / locking.LEDGER).write_text("\n".join(lines))
    first, second = collect(tmp_path)
    assert (first.answers, first.right) == ({"9": 2, "11": 1}, 1)
    assert (second.text, second.answers) == ("Is it <b>?", {"True": 1})
    lines = list(histogram_lines(first))
    assert lines[0] == "How many? (1 of 3 right)" and "✓ 11" in lines[2]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="predictions"):
        collect(tmp_path / "empty")


# Two seconds: devices are tried.
def test_this_machine_can_run_the_course():
    findings = {finding.name: finding for finding in examine()}
    assert findings["a first program"].is_fine and findings["lessons"].is_fine
    assert all(finding.found for finding in findings.values())
    assert all(finding.is_fine or finding.advice for finding in findings.values())


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A notebook in which predictions come first."""
    monkeypatch.setattr(locking, "is_locking", lambda: True)
    monkeypatch.setattr(locking, "_show_widget", lambda question, choices: None)
    for name in ("_locked", "_tries"):
        monkeypatch.setattr(locking, name, {})
    monkeypatch.setattr(locking, "_noted", set())
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("notebook")
def test_a_cell_stops_until_there_is_a_prediction(tmp_path: Path):
    guess = predict("How many?", ...)
    with pytest.raises(locking.FirstPredict) as stopped:
        guess.check(11)
    assert stopped.value._render_traceback_() == ["○ first your prediction, or skip() in its place"]
    assert not (tmp_path / locking.LEDGER).exists()
    locking.lock("How many?", 9)
    locking.lock("How many?", 11)  # it stays
    verdict = predict("How many?", ...).check(
        11, "One each.", tempting={9: "You counted the declined ones."}
    )
    told = "✗ you said 9; the compiler says 11 (off by 2). You counted the declined ones. One each."
    assert str(verdict) == told
    predict("How many?", ...).check(11)
    (line,) = (tmp_path / locking.LEDGER).read_text().splitlines()
    assert json.loads(line) == {"question": "How many?", "answer": 9, "truth": 11, "state": "wrong"}


@pytest.mark.usefixtures("notebook")
def test_help_comes_try_by_try():
    said = [str(check(1, 2, "A hint.", "Look there.")) for _ in range(4)]
    assert "hint" in said[0] and "A hint" not in said[0]
    assert said[1].endswith("A hint.") and said[2].endswith("A hint. Look there.")
    assert said[3] == said[2]


@pytest.mark.parametrize(
    ("answer", "truth", "told"),
    [
        (9, 11, "off by 2"),
        (1, 100, "off by a factor of 1e+02"),
        (0.5, 0.75, "off by a factor of 1.5"),
    ],
)
def test_a_wrong_number_is_told_how_far_off_it_is(answer, truth, told):
    assert told in str(predict("How many?", answer).check(truth))


@pytest.mark.parametrize(
    ("text", "value"),
    [("7", 7), (" 0.5 ", 0.5), ("True", True), ("a, b", {"a", "b"}), ("pack", "pack")],
)
def test_what_is_typed_becomes_an_answer(text, value):
    assert locking.parsed(text) == value


def test_the_command_grades_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    student = tmp_path / "handed" / "ann"
    student.mkdir(parents=True)
    name = "03_passes_and_diffs.ipynb"
    student.joinpath(name).write_bytes((lessons_folder() / name).read_bytes())
    out = tmp_path / "grades.csv"
    arguments = ["course", "grade", str(tmp_path / "handed"), "--out", str(out), "--lesson", "3"]
    assert main([*arguments, "--json", "--gradescope", str(tmp_path / "scope")]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [result["message"] for result in printed] == ["not answered"] * 3
    assert out.read_text().startswith("student,lesson,exercise,points,of,message")
    assert (tmp_path / "grades" / "ann.html").exists()
    assert (tmp_path / "scope" / "ann" / "results.json").exists()
    assert main([*arguments[:-1], "99"]) == 2
