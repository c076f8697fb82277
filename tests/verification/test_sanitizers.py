"""The sanitized build finds an access beside a kernel's arguments, also inside the arena."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from explorer.errors import BuildError
from verification.conformance.sanitizers import sanitizer_environment

SCRIPT = """
    import os, sys, tempfile
    from dataclasses import replace
    from pathlib import Path

    os.environ.pop("LD_PRELOAD")
    import numpy as np
    import explorer
    from explorer.kernels.program.build import BuiltProgram
    from verification.conformance.sanitizers import guarded_opener

    c = explorer.compile("sample_models/digits_cnn.onnx")
    if sys.argv[1] == "short":  # as if the first kernel wrote beyond its result
        first, *others = c.program.launches
        *arguments, result = first.arguments
        short = replace(result, size_bytes=result.size_bytes - 4)
        program = replace(
            c.program, launches=(replace(first, arguments=(*arguments, short)), *others)
        )
        c.__dict__["built"] = BuiltProgram(program, c.built.packed)
    with tempfile.TemporaryDirectory() as folder:
        outputs = guarded_opener(Path(folder))(c).run(c.example_inputs())
    print("ran", sorted(outputs))
"""


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    try:
        return {**os.environ, **sanitizer_environment()}
    except BuildError as error:
        pytest.skip(str(error))


def run(which: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), which],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_a_sound_program_runs_without_a_finding(environment):
    finished = run("sound", environment)
    assert finished.returncode == 0, finished.stderr
    assert "ran ['" in finished.stdout


@pytest.mark.slow
def test_a_write_beside_an_argument_is_found_inside_the_arena(environment):
    finished = run("short", environment)
    assert finished.returncode != 0
    assert "AddressSanitizer: use-after-poison" in finished.stderr
    assert "_phase0" in finished.stderr
