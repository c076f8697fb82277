"""The name of a package, which begins every name that a linker or a preprocessor sees.

package_name(None, "3x net/v2")      v3x_net_v2       from the model's name
package_name("kws", "...")           kws              a person's own is taken as it is or refused
"""

from __future__ import annotations

import re

from explorer.errors import InputError
from explorer.kernels.printing.identifiers import C_KEYWORDS, identifier, words_of

MAX_NAME_CHARACTERS = 40
STRIPPED_NAME = "model"
CPP_KEYWORDS = words_of(
    """
    and asm bitand bitor catch class compl const_cast delete dynamic_cast explicit export friend
    mutable namespace new not operator or private protected public reinterpret_cast static_cast
    template this throw try typeid typename using virtual wchar_t xor
    """
)
"""The header can be read by a C++ compiler."""
STANDARD_HEADERS = words_of(
    """
    assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign
    stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time
    uchar wchar wctype
    """
)
"""A file of such a name in the include path would hide the C library's."""
FORM = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)


def package_name(given: str | None, model: str, is_stripped: bool = False) -> str:
    """The name that was given, or one that is made of the model's.

    Raises InputError for a given one that is no legal name in C and C++, or that of a header.
    """
    if given is not None:
        problem = _problem(given)
        if problem:
            raise InputError(
                f"--name {given!r} {problem}",
                hint="letters, digits and underscores, a letter first: --name "
                f"{derived_name(given)}",
            )
        return given
    return STRIPPED_NAME if is_stripped else derived_name(model)


def derived_name(text: str) -> str:
    """The nearest legal name; `model` for a text without letters and digits."""
    if not re.search(r"[A-Za-z0-9]", text, re.ASCII):
        return STRIPPED_NAME
    name = re.sub(r"_+", "_", identifier(text)[:MAX_NAME_CHARACTERS]).strip("_")
    if not FORM.fullmatch(name):
        name = f"{STRIPPED_NAME}_{name}".rstrip("_")
    return f"{name}_model" if _problem(name) else name


def _problem(name: str) -> str:
    if not name:
        return "is empty"
    if not FORM.fullmatch(name):
        return "is no C identifier"
    if len(name) > MAX_NAME_CHARACTERS:
        return f"is longer than {MAX_NAME_CHARACTERS} characters"
    if name in C_KEYWORDS or name in CPP_KEYWORDS:
        return "is a keyword of C or C++"
    if name.lower() in STANDARD_HEADERS:
        return "is the name of a header of the C library"
    return ""
