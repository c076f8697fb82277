"""Logs and progress: silent unless asked, and with times where something takes long."""

import logging
import subprocess
import sys

import pytest

import explorer as ex
from explorer import progress as module
from explorer.errors import InputError
from explorer.logs import configure, logger
from explorer.progress import Progress, is_notebook, spent_and_left


@pytest.fixture(autouse=True)
def levels():
    """Levels and handlers as they were."""
    names = ["explorer", "explorer.compilation", "explorer.runtime"]
    before = [(logging.getLogger(n), logging.getLogger(n).level) for n in names]
    handlers = list(before[0][0].handlers)
    yield
    for log, level in before:
        log.setLevel(level)
    before[0][0].handlers[:] = handlers


def test_a_logger_is_that_of_the_package():
    assert logger("explorer.compilation.running").name == "explorer.compilation"
    assert logger("explorer.runtime.cache.store") is logger("explorer.runtime")


def test_nothing_is_logged_unless_asked(caplog):
    ex.compile(ex.sample("digits_mlp"))
    assert [r for r in caplog.records if r.levelno > logging.INFO] == []
    assert not logging.getLogger("explorer.compilation").isEnabledFor(logging.INFO)


def test_levels_are_set_by_package(caplog):
    configure("info,explorer.compilation=debug")
    assert logging.getLogger("explorer.runtime").isEnabledFor(logging.INFO)
    assert not logging.getLogger("explorer.runtime").isEnabledFor(logging.DEBUG)
    compiled = ex.compile(ex.sample("digits_mlp"))
    messages = [r.getMessage() for r in caplog.records if r.name == "explorer.compilation"]
    assert len(messages) == len(compiled.passes)  # and a sum, in the place of the import
    assert messages[-1].startswith("compiled for cpu: ")
    assert any(r.name == "explorer.importers" for r in caplog.records)


def test_another_level_is_refused():
    with pytest.raises(InputError, match="did you mean 'info'"):
        configure("explorer.runtime=inf")


def test_the_variable_and_the_option_log_to_stderr(tmp_path):
    command = [sys.executable, "-m", "explorer", "rules"]
    quiet = subprocess.run(command, capture_output=True, text=True)
    assert quiet.stderr == ""
    wrong = subprocess.run(
        command, capture_output=True, text=True, env={**_environment(), "EXPLORER_LOG": "inf"}
    )
    assert wrong.returncode == 0 and "there is no level 'inf'" in wrong.stderr
    assert wrong.stdout == quiet.stdout


def _environment() -> dict[str, str]:
    import os

    return dict(os.environ)


def test_times_follow_what_takes_long():
    assert spent_and_left(1.0, 3, 10) == ""
    assert spent_and_left(12.0, 3, 15) == "  00:12, 00:48 left"
    assert spent_and_left(12.0, 0, 15) == "  00:12"
    assert spent_and_left(12.0, 7, 8) == "  00:12"  # the total may be the next one only
    assert spent_and_left(3723, 0, 15) == "  1:02:03"


def test_without_a_terminal_a_line_comes_every_few_seconds(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    with Progress("tuning") as progress:
        for number in range(12):
            now[0] = float(number)
            progress(f"k{number}", number, 12)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["tuning 6/12 k5  00:05, 00:07 left", "tuning 11/12 k10  00:10, 00:02 left"]


def test_a_second_round_begins_its_own_time(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    with Progress("timing", every_seconds=0) as progress:
        for moment, number in ((0.0, 0), (8.0, 4), (10.0, 0), (13.0, 3)):
            now[0] = moment
            progress("a", number, 9)
    lines = capsys.readouterr().err.splitlines()
    assert lines[1].endswith("00:08, 00:10 left") and lines[2] == "timing 1/9 a"
    assert lines[3].endswith("00:03, 00:06 left")


def test_a_line_is_written_over_where_that_is_possible(monkeypatch, capsys):
    monkeypatch.setattr(module, "is_notebook", lambda: True)
    with ex.Progress("compiling") as progress:
        progress("a-{long}-name", 0, 2)
        progress("b", 1, 2)
    first, second, last = capsys.readouterr().err.strip("\r").split("\r")
    assert first == "compiling 1/2 a-{long}-name"
    assert second.rstrip() == "compiling 2/2 b" and len(second) >= len(first)
    assert set(last) == {" "}
    assert not is_notebook()


def test_progress_of_python_calls_names_every_pass(capsys):
    seen: list[str] = []
    compiled = ex.compile(
        ex.sample("digits_mlp"), progress=lambda name, number, total: seen.append(name)
    )
    assert seen == compiled.names[1:]
