"""The grammar of regular expressions, as RE2 has it (https://github.com/google/re2/wiki/Syntax).

choice := run ("|" run)*        run := repeat*        repeat := atom ("*" | "+" | "?" | "{n,m}")*

"ab|c*"   ->   Choice(Run(a, b), Run(Repeat(c, 0, None)))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from explorer.importers.onnx.program.nodes import Unsupported

Range = tuple[int, int]
ANY: Range = (0, 0x10FFFF)
MAX_REPEATS = 1000
"""As RE2."""
DEEPEST = 100
"""Of groups in groups."""


@dataclass(frozen=True)
class Symbols:
    """One character of a set, given as ranges of code points, ends included."""

    ranges: tuple[Range, ...]

    def contain(self, codes: Sequence[int]) -> list[bool]:
        return [any(low <= code <= high for low, high in self.ranges) for code in codes]

    def without(self) -> Symbols:
        """All other characters."""
        found, begin = [], 0
        for low, high in sorted(self.ranges):
            if low > begin:
                found.append((begin, low - 1))
            begin = max(begin, high + 1)
        return Symbols((*found, (begin, ANY[1])) if begin <= ANY[1] else tuple(found))


@dataclass(frozen=True)
class Assertion:
    """begin, end, line begin, line end, boundary, no boundary."""

    kind: str


@dataclass(frozen=True)
class Run:
    """One piece after the other."""

    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Choice:
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Repeat:
    """most: None for any number."""

    piece: Piece
    least: int
    most: int | None


Piece = Symbols | Assertion | Run | Choice | Repeat

DIGIT = Symbols(((48, 57),))
SPACE = Symbols(((9, 10), (12, 13), (32, 32)))
WORDS = Symbols(((48, 57), (65, 90), (95, 95), (97, 122)))
CLASSES = {"d": DIGIT, "s": SPACE, "w": WORDS}
NAMED = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": ((48, 57),),
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "word": WORDS.ranges,
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}
ESCAPES = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
ASSERTIONS = {"A": "begin", "z": "end", "b": "boundary", "B": "no boundary"}


def parsed(pattern: str) -> Piece:
    """The pattern's structure; Unsupported says what is wrong with it, and where."""
    parser = _Parser(pattern)
    piece = parser.choice(0)
    if parser.position < len(pattern):
        raise parser.problem("a group is closed that was not opened")
    return piece


@dataclass
class _Parser:
    """Reads from left to right; the flags are those of the group that is being read."""

    pattern: str
    position: int = 0
    ignores_case: bool = False
    is_multiline: bool = False
    takes_lines: bool = False
    """Whether `.` takes the end of a line, too."""

    def problem(self, words: str) -> Unsupported:
        return Unsupported(f"pattern {self.pattern!r}, position {self.position}: {words}")

    def peek(self, length: int = 1) -> str:
        return self.pattern[self.position : self.position + length]

    def take(self, text: str) -> bool:
        """Goes on behind a text, if it is next."""
        is_next = self.pattern.startswith(text, self.position)
        self.position += len(text) * is_next
        return is_next

    def next(self) -> str:
        if self.position >= len(self.pattern):
            raise self.problem("it ends too early")
        self.position += 1
        return self.pattern[self.position - 1]

    # -- the grammar -----------------------------------------------------------------------------
    def choice(self, depth: int) -> Piece:
        if depth > DEEPEST:
            raise self.problem(f"more than {DEEPEST} groups in each other")
        runs = [self.run(depth)]
        while self.take("|"):
            runs.append(self.run(depth))
        return runs[0] if len(runs) == 1 else Choice(tuple(runs))

    def run(self, depth: int) -> Piece:
        pieces: list[Piece] = []
        while self.peek() not in ("", "|", ")"):
            if self.take("\\Q"):
                quoted = self._quoted()
                pieces += [*quoted[:-1], *map(self._repeats, quoted[-1:])]
                continue
            piece = self.atom(depth)
            if piece is not None:
                pieces.append(self._repeats(piece))
        return pieces[0] if len(pieces) == 1 else Run(tuple(pieces))

    def atom(self, depth: int) -> Piece | None:
        """None for flags, which are no piece."""
        character = self.next()
        if character == "(":
            return self._group(depth)
        if character == "[":
            return self._set()
        if character == "\\":
            return self._escape()
        if character == ".":
            line = Symbols(((10, 10),))
            return Symbols((ANY,)) if self.takes_lines else line.without()
        if character in "^$":
            begins = "begin" if character == "^" else "end"
            return Assertion(f"line {begins}" if self.is_multiline else begins)
        if character in "*+?":
            raise self.problem(f"nothing before {character!r} that could be repeated")
        return self._letter(ord(character))

    def _repeats(self, piece: Piece) -> Piece:
        """Lazy ones match the same texts; a repetition of a repetition needs a group."""
        bounds = self._bounds()
        if bounds is None:
            return piece
        self.take("?")
        if self._bounds() is not None:
            raise self.problem("a repetition of a repetition")
        return Repeat(piece, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(sign):
                return bounds
        if self.peek() != "{":
            return None
        end = self.pattern.find("}", self.position)
        words = self.pattern[self.position + 1 : max(end, 0)].split(",")
        is_count = 1 <= len(words) <= 2 and words[0].isascii() and words[0].isdigit()
        if not is_count or (len(words) == 2 and words[1] and not words[1].isdigit()):
            return None  # a brace like any other character
        numbers = [int(word) if len(word) < 6 else MAX_REPEATS + 1 for word in words if word]
        if max(numbers) > MAX_REPEATS or numbers != sorted(numbers):
            raise self.problem(f"at most {MAX_REPEATS} repetitions, the lower number first")
        self.position = end + 1
        return numbers[0], None if len(words) > len(numbers) else numbers[-1]

    def _group(self, depth: int) -> Piece | None:
        flags = (self.ignores_case, self.is_multiline, self.takes_lines)
        if self.take("?P<") or self.take("?<"):
            if self.peek() in ("=", "!"):
                raise self.problem("lookbehind is not part of RE2")
            while self.next() != ">":
                pass
        elif self.take("?") and self._flags():
            return None
        piece = self.choice(depth + 1)
        if not self.take(")"):
            raise self.problem("a group that is not closed")
        self.ignores_case, self.is_multiline, self.takes_lines = flags
        return piece

    def _flags(self) -> bool:
        """`i`, `m`, `s`, `U` and their negations; True where no group follows."""
        value = True
        while True:
            letter = self.next()
            if letter in ":)":
                return letter == ")"
            if letter == "-" and value:
                value = False
            elif letter == "i":
                self.ignores_case = value
            elif letter == "m":
                self.is_multiline = value
            elif letter == "s":
                self.takes_lines = value
            elif letter != "U":  # which is about lazy ones
                raise self.problem(f"(?{letter} is not part of RE2")

    def _quoted(self) -> list[Piece]:
        end = self.pattern.find("\\E", self.position)
        end = len(self.pattern) if end < 0 else end
        text = self.pattern[self.position : end]
        self.position = min(end + 2, len(self.pattern))
        return [self._letter(ord(character)) for character in text]

    def _escape(self) -> Piece:
        letter = self.peek()
        if letter in ASSERTIONS:
            self.position += 1
            return Assertion(ASSERTIONS[letter])
        found = self._class()
        return found if found is not None else self._letter(self._code())

    def _class(self) -> Symbols | None:
        r"""`\d`, `\S` and the like behind a backslash."""
        letter = self.peek()
        if letter.lower() not in CLASSES:
            if letter in ("p", "P", "C"):
                raise self.problem(f"\\{letter} is not supported")
            return None
        self.position += 1
        chosen = CLASSES[letter.lower()]
        return chosen if letter.islower() else chosen.without()

    def _code(self) -> int:
        """The character that stands behind a backslash."""
        letter = self.next()
        if letter in ESCAPES:
            return ESCAPES[letter]
        if letter == "x":
            digits = self._until("}") if self.take("{") else self.next() + self.next()
            return self._number(digits, 16)
        if letter == "0" or (letter in "1234567" and self.peek() in tuple("01234567")):
            digits = letter
            while len(digits) < 3 and self.peek() in tuple("01234567"):
                digits += self.next()
            return self._number(digits, 8)
        if letter.isalnum() and letter.isascii():
            raise self.problem(f"\\{letter} is not part of RE2")
        return ord(letter)

    def _until(self, end: str) -> str:
        text = ""
        while (character := self.next()) != end:
            text += character
        return text

    def _number(self, digits: str, base: int) -> int:
        try:
            code = int(digits, base)
        except ValueError:
            code = ANY[1] + 1
        if not 0 <= code <= ANY[1] or not digits.isalnum():
            raise self.problem(f"{digits!r} is the number of no character")
        return code

    def _letter(self, code: int) -> Symbols:
        return self._folded(Symbols(((code, code),)))

    def _folded(self, symbols: Symbols) -> Symbols:
        """With both cases of each letter, where case is ignored."""
        if not self.ignores_case:
            return symbols
        if sum(high - low for low, high in symbols.ranges) > 1 << 12:
            raise self.problem("case is ignored in a set of too many characters")
        codes = [code for low, high in symbols.ranges for code in range(low, high + 1)]
        changes: tuple[Callable[[str], str], ...] = (str.lower, str.upper)
        others = [change(chr(code)) for code in codes for change in changes]
        extra = {ord(other) for other in others if len(other) == 1} - set(codes)
        return Symbols((*symbols.ranges, *((code, code) for code in sorted(extra))))

    # -- sets --------------------------------------------------------------------------------------
    def _set(self) -> Symbols:
        is_negated = self.take("^")
        ranges: list[Range] = []
        is_first = True
        while is_first or not self.take("]"):
            ranges += self._range()
            is_first = False
        chosen = self._folded(Symbols(tuple(ranges)))
        return chosen.without() if is_negated else chosen

    def _range(self) -> tuple[Range, ...]:
        if self.take("[:"):
            is_negated, name = self.take("^"), self._until(":")
            if name not in NAMED or not self.take("]"):
                raise self.problem(f"unknown set [:{name}:]")
            named = Symbols(NAMED[name])
            return named.without().ranges if is_negated else named.ranges
        low = self._member()
        if isinstance(low, Symbols):
            return low.ranges
        if self.peek() != "-" or self.peek(2) in ("-]", "-"):
            return ((low, low),)
        self.position += 1
        high = self._member()
        if isinstance(high, Symbols) or high < low:
            raise self.problem("a range that ends before it begins")
        return ((low, high),)

    def _member(self) -> Symbols | int:
        if not self.take("\\"):
            return ord(self.next())
        found = self._class()
        return found if found is not None else self._code()
