"""ES modules joined into one file, so that a page, an app and a notebook fetch nothing.

    // names.js                             const $names = (() => {
    export const NAME = "relu";             const NAME = "relu";
                                            return {NAME};
                                     ->     })();
    // main.js
    import {NAME} from "./names.js";        const {NAME} = $names;
    export default {NAME};                  export default {NAME};

Each module keeps a scope of its own and runs once, after those that it imports; the entry comes
last and outside of a function. Understood is the part of the language (ECMA-262, 16.2) that our
modules need: imports by name at the start of lines, `export` before a function, class or constant.
Whatever else stands there, names that nobody exports, and circles are refused. Comments and
indentation stay in the files: they would be a fifth of what a page reads before it draws.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath


class ModuleError(ValueError):
    """A module cannot be joined with the others."""


@dataclass(frozen=True)
class Module:
    """One file: what it imports, what it exports, and the text without both words."""

    imports: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    """For each file: names there and names here."""
    exports: tuple[str, ...]
    body: str


_IMPORT = re.compile(r'^import \{([\w$,\s]*)\} from "(\.[\w/.-]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) ([\w$]+))", re.MULTILINE)
_DEFAULT = re.compile(r"^export default \{[\w$,\s]*\};\n", re.MULTILINE)
_COMMENT = re.compile(r"^[ ]*(?://[^\n]*|/\*(?:(?!\*/).)*\*/)\n", re.MULTILINE | re.DOTALL)
_INDENT = re.compile(r"^[ ]+", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def read_module(name: str, text: str) -> Module:
    """A module's parts.

    Raises:
        ModuleError: for an import or export of another form.
    """
    imports = tuple(
        (_found(name, file), tuple(_renamed(part) for part in names.split(",") if part.strip()))
        for names, file in _IMPORT.findall(text)
    )
    exports = tuple(_EXPORT.findall(text))
    body = _EXPORT.sub("", _IMPORT.sub("", _without_margins(text)))
    left = _LEFT.search(_DEFAULT.sub("", body))
    if left:
        raise ModuleError(f"{name}: what is `{left[0]}`? Import and export single names")
    return Module(imports, exports, body)


def bundle(entry: str, read: Callable[[str], str]) -> str:
    """The text of one module that does what `entry` does.

    read(name) gives the text of a module; a name is its path from the entry's folder.

    Raises:
        ModuleError: for what `read_module` refuses, for a name that the other module does not
            export, for two modules of one name, and for a circle.
    """
    modules: dict[str, Module] = {}
    order: list[str] = []

    def visit(name: str, way: tuple[str, ...]) -> None:
        if name in way:
            circle = " -> ".join((*way[way.index(name) :], name))
            raise ModuleError(f"these modules need each other first: {circle}")
        if name in modules:
            return
        modules[name] = module = read_module(name, read(name))
        for other, names in module.imports:
            visit(other, (*way, name))
            for there, _here in names:
                if there not in modules[other].exports:
                    raise ModuleError(f"{name}: {other} exports no {there}")
        order.append(name)

    visit(entry, ())
    scopes = [_scope(name) for name in order]
    if len(set(scopes)) < len(scopes):
        raise ModuleError(f"two of these modules get one name: {', '.join(sorted(order))}")
    *others, last = order
    parts = [_function(name, modules[name]) for name in others]
    return "\n".join((*parts, _body(modules[last])))


def _without_margins(text: str) -> str:
    """Without comments on lines of their own and without indentation, which browsers would read.

    A template that goes on over several lines holds both as text: its module stays as it is.
    """
    if any(line.count("`") % 2 for line in text.split("\n")):
        return text
    return _INDENT.sub("", _COMMENT.sub("", text))


def _renamed(part: str) -> tuple[str, str]:
    """`a` or `a as b`: the name there, and the name here."""
    there, _, here = (word.strip() for word in part.partition(" as "))
    return there, here or there


def _found(name: str, file: str) -> str:
    """`../ground/dom.js` in `graph/scene.js`: `ground/dom.js`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), file))


def _scope(name: str) -> str:
    return "$" + re.sub(r"\W", "_", str(PurePosixPath(name).with_suffix("")))


def _function(name: str, module: Module) -> str:
    """A module as a constant: its exports are what its function returns."""
    exports = ", ".join(module.exports)
    return f"const {_scope(name)} = (() => {{\n{_body(module)}return {{{exports}}};\n}})();\n"


def _body(module: Module) -> str:
    taken = [
        f"const {{{', '.join(a if a == b else f'{a}: {b}' for a, b in names)}}} = {_scope(file)};\n"
        for file, names in module.imports
    ]
    return "".join(taken) + module.body
