"""The text form of protobuf messages, as prototxt files have it; no schema is needed.

    net = parse('name: "net" layer { type: "ReLU" relu_param { negative_slope: 0.1 } }')
    net.message("layer").message("relu_param").number("negative_slope", 0.0)      0.1

Fields keep their order and their text, so that those of forks are as good as Caffe's own.
Source: protobuf's text format language specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_BYTES = 16 << 20
"""Of a prototxt; the largest known nets have less than one."""
MAX_NESTED = 32
"""Messages in messages; Caffe's own go five deep."""
_TOKEN = re.compile(
    r"""\s+|\#[^\n]*
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<word>[A-Za-z0-9_.+\-]+)
    |(?P<mark>[{}<>:;,\[\]])
    """,
    re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_TRUE = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
_CLOSING = {"{": "}", "<": ">"}


class Text(str):
    """A value that stood in quotes."""


@dataclass
class Message:
    """Fields in order; each value is a word, a `Text` or a message."""

    fields: list[tuple[str, str | Message]] = field(default_factory=list)

    def has(self, name: str) -> bool:
        return any(found == name for found, _ in self.fields)

    def messages(self, name: str) -> list[Message]:
        """All messages of a field; ValueError where it holds something else."""
        values = [value for found, value in self.fields if found == name]
        for value in values:
            if not isinstance(value, Message):
                raise ValueError(f"field {name} is {value!r}; a message expected")
        return [value for value in values if isinstance(value, Message)]

    def message(self, name: str) -> Message:
        """The messages of a field merged, as protobuf has it; an empty one for none."""
        return Message([entry for found in self.messages(name) for entry in found.fields])

    def words(self, name: str) -> list[str]:
        """All values of a field; ValueError where one is a message."""
        values = [value for found, value in self.fields if found == name]
        if any(isinstance(value, Message) for value in values):
            raise ValueError(f"field {name} is a message; a value expected")
        return [value for value in values if isinstance(value, str)]

    def word(self, name: str, default: str = "") -> str:
        """The last value of a field, which is the one that counts."""
        return ([default] + self.words(name))[-1]

    def integers(self, name: str) -> list[int]:
        return [_integer(word, name) for word in self.words(name)]

    def integer(self, name: str, default: int) -> int:
        return ([default] + self.integers(name))[-1]

    def number(self, name: str, default: float) -> float:
        return ([default] + self.numbers(name))[-1]

    def numbers(self, name: str) -> list[float]:
        return [_number(word, name) for word in self.words(name)]

    def is_set(self, name: str, default: bool) -> bool:
        word = self.word(name, str(default).lower()).lower()
        if word not in _TRUE:
            raise ValueError(f"field {name} is {word!r}; true or false expected")
        return _TRUE[word]

    def text(self, indent: str = "") -> str:
        """As it is written in a file."""
        return "".join(
            f"{indent}{name} {{\n{value.text(indent + '  ')}{indent}}}\n"
            if isinstance(value, Message)
            else f"{indent}{name}: {_quoted(value) if isinstance(value, Text) else value}\n"
            for name, value in self.fields
        )

    def flat(self, prefix: str = "") -> Iterator[tuple[str, str]]:
        """Values with the names of the messages around them, for people."""
        for name, value in self.fields:
            if isinstance(value, Message):
                yield from value.flat(f"{prefix}{name}.")
            else:
                yield prefix + name, value


def parse(text: str) -> Message:
    """ValueError, with the line, for what is no message."""
    tokens = _Tokens(text)
    root = Message()
    open_messages = [(root, "")]
    while True:
        message, closing = open_messages[-1]
        token = tokens.take()
        if token in (",", ";") and message.fields:
            continue
        if token == closing:
            if not closing:
                return root
            open_messages.pop()
            continue
        if not token or tokens.kind != "word":
            raise tokens.error(f"{token!r}; a field's name expected" if token else "it ends early")
        name, begin = token, tokens.take()
        if begin == ":":
            begin = tokens.take()
        elif begin not in _CLOSING:
            raise tokens.error(f"{begin!r} behind {name}; ':' expected")
        if begin in _CLOSING:
            if len(open_messages) > MAX_NESTED:
                raise tokens.error(f"more than {MAX_NESTED} messages in one another")
            inner = Message()
            message.fields.append((name, inner))
            open_messages.append((inner, _CLOSING[begin]))
        elif begin == "[":
            message.fields += [(name, value) for value in _listed(tokens)]
        else:
            message.fields.append((name, tokens.value(begin)))


def _listed(tokens: _Tokens) -> Iterator[str]:
    token = tokens.take()
    while token != "]":
        yield tokens.value(token)
        token = tokens.take()
        if token == ",":
            token = tokens.take()
        elif token != "]":
            raise tokens.error(f"{token!r} in a list; ',' expected")


class _Tokens:
    """One after another; the empty one is the end."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self.kind: str | None = None

    def take(self) -> str:
        while self._at < len(self._text):
            found = _TOKEN.match(self._text, self._at)
            if found is None:
                raise self.error(f"unexpected {self._text[self._at]!r}")
            self._at, self.kind = found.end(), found.lastgroup
            if self.kind is not None:
                return found.group()
        self.kind = None
        return ""

    def value(self, token: str) -> str:
        """A word, or texts behind one another."""
        if self.kind == "word":
            return token
        if self.kind != "text":
            raise self.error(f"{token!r}; a value expected" if token else "it ends early")
        parts = [_unquoted(token)]
        while True:
            begin = self._at
            token = self.take()
            if self.kind != "text":
                self._at = begin
                return Text("".join(parts))
            parts.append(_unquoted(token))

    def error(self, words: str) -> ValueError:
        line = self._text.count("\n", 0, self._at) + 1
        return ValueError(f"line {line}: {words}")


def _unquoted(token: str) -> str:
    def plain(found: re.Match[str]) -> str:
        code = found.group(1)
        if code[0] == "x" and len(code) > 1:
            return chr(int(code[1:], 16))
        return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPES.get(code, code)

    return _ESCAPED.sub(plain, token[1:-1])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _integer(word: str, name: str) -> int:
    try:
        return int(word, 0)
    except ValueError:
        raise ValueError(f"field {name} is {word!r}; a whole number expected") from None


def _number(word: str, name: str) -> float:
    try:
        return float(word.removesuffix("f"))
    except ValueError:
        raise ValueError(f"field {name} is {word!r}; a number expected") from None
