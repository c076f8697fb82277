"""Names of packages: whatever a model is called, a legal name in C and C++ comes of it."""

from __future__ import annotations

import subprocess

import pytest

from explorer.errors import InputError
from explorer.packaging.names import derived_name, package_name
from explorer.packaging.text import string_literal


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("digits_cnn", "digits_cnn"),
        ("3x net/v2", "v3x_net_v2"),
        ("", "model"),
        ("*/ /* ", "model"),
        ("int", "int_model"),
        ("class", "class_model"),
        ("math", "math_model"),
        ("a\nb??/'\"c", "a_b_c"),
        ("größe", "gr_e"),
        ("__x", "x"),
    ],
)
def test_a_name_is_made_of_the_models(model, name):
    assert derived_name(model) == name


@pytest.mark.parametrize(
    "name",
    ["", "a b", "1x", "a-b", "int", "template", "stdint", "MATH", "x" * 41, "a\n", "é", "_x"],
)
def test_a_name_that_is_given_is_legal_or_refused(name):
    with pytest.raises(InputError, match="--name"):
        package_name(name, "model")


def test_a_stripped_package_does_not_tell_the_models_name():
    assert package_name(None, "secret", is_stripped=True) == "model"
    assert package_name("mine", "secret", is_stripped=True) == "mine"


HOSTILE = ["plain", 'quote"', "back\\slash", "line\nbreak", "*/", "??/", "\0", "größe", "%d"]


def test_names_in_strings_are_what_they_were(tmp_path):
    names = [*HOSTILE, "\udc80", "\\x41\x7f"]
    lines = "\n".join(
        f"    fwrite({string_literal(n)}, 1, {len(_bytes(n))}, stdout);" for n in names
    )
    (tmp_path / "names.c").write_text(f"#include <stdio.h>\nint main(void)\n{{\n{lines}\n}}\n")
    command = ["cc", "-std=c99", "-Wall", "-Werror", "-pedantic-errors", "names.c", "-o", "names"]
    subprocess.run(command, cwd=tmp_path, check=True)
    found = subprocess.run([tmp_path / "names"], capture_output=True, check=True).stdout
    assert found == b"".join(map(_bytes, names))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
