"""IR as text: for people (with a line map), and complete for files.

`show(module)` leaves out what names already say; `dump(module)` writes identities, origins and
locations too, and `parse(text)` reads either back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import StringIO

from xdsl.context import Context
from xdsl.dialects import affine, arith, builtin, func, linalg, math, memref, scf, vector
from xdsl.dialects.builtin import IndexType, ModuleOp, StringAttr
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Dialect, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.parser import Parser
from xdsl.parser.generic_parser import ParserState
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

from explorer.errors import ModelError, TextError
from explorer.files import reading_file
from explorer.ir.compute import Statement
from explorer.ir.operation import IDENTITY, TopOperation, identity_of, set_identity
from explorer.ir.origins import sources_of
from explorer.results import SourceText


class _LinePrinter(Printer):
    """Notes at which line each operation begins and ends."""

    def __init__(self, stream: StringIO, shows_everything: bool, tags_by_location: bool):
        super().__init__(stream=stream, print_debuginfo=shows_everything)
        self.shows_everything = shows_everything
        self.tags_by_location = tags_by_location
        self.spans: list[tuple[int, int, tuple[str, ...]]] = []
        self.is_in_kernel = tags_by_location

    def print_op(self, op: Operation) -> None:
        begin = self._current_line
        outside = self.is_in_kernel
        if isinstance(op, func.FuncOp) and "kernel.kind" in op.attributes:
            self.is_in_kernel = True
        super().print_op(op)
        # Loops and statements of kernels own their brackets; of other operations with regions
        # only the first line is their own.
        whole = self.is_in_kernel or not op.regions
        self.spans.append((begin, self._current_line if whole else begin, self._tags(op)))
        self.is_in_kernel = outside

    def _tags(self, op: Operation) -> tuple[str, ...]:
        if isinstance(op, func.FuncOp | func.ReturnOp | ModuleOp):
            return ()
        if self.is_in_kernel:
            return sources_of(op)
        if isinstance(op, func.CallOp) or (isinstance(op, TopOperation) and op.is_data):
            # They are no nodes of the graph: their lines belong to whoever uses their values.
            users = [identity_of(use.operation) for r in op.results for use in r.uses]
            if isinstance(op, func.CallOp):  # a result is called after what makes it: conv1.device
                users += [(r.name_hint or "").rpartition(".")[0] for r in op.results]
            return tuple(dict.fromkeys([identity_of(op), *users]))
        if IDENTITY in op.attributes or op.results:
            return (identity_of(op),)
        return ()


def show(op: Operation, tags_by_location: bool = False) -> SourceText:
    """Text of a module or function with, per line, the identities (or location tags) on it."""
    stream = StringIO()
    printer = _LinePrinter(stream, False, tags_by_location)
    printer.print_op(op)
    lines = stream.getvalue().split("\n")
    owners: list[tuple[str, ...]] = [()] * len(lines)
    # Inner operations end before the ones around them, so they come first and win.
    for begin, end, tags in printer.spans:
        for line in range(begin, min(end, len(lines) - 1) + 1):
            if not owners[line]:
                owners[line] = tags
    return SourceText("mlir", tuple(lines), tuple(owners))


def with_functions(module: SourceText, functions: Sequence[SourceText]) -> SourceText:
    """The text of a module with further functions at its end, as `show` prints the whole."""
    if not functions:
        return module
    last = len(module.lines) - 1  # the closing bracket
    lines, owners = list(module.lines[:last]), list(module.owners[:last])
    for function in functions:
        lines += [f"  {line}" for line in function.lines]
        owners += function.owners
    return SourceText(module.language, (*lines, module.lines[last]), (*owners, module.owners[last]))


def dump(module: ModuleOp) -> str:
    """Complete text: parsing it gives an equal module, identities and origins included."""
    stream = StringIO()
    _LinePrinter(stream, True, False).print_op(module)
    return stream.getvalue() + "\n"


def parse(text: str, file: str = "<text>") -> ModuleOp:
    """Reads IR text; TextError names the line where it is not valid IR.

    Nothing in the text is executed. Operations without an identity are named after their first
    result.
    """
    context = make_context()
    hint = "compare with the text that `explorer compile --dump-dir` writes"
    with reading_file(file, "IR text", hint=hint):
        try:
            module = _TextParser(context, text, file).parse_module()
            module.verify()
        except (ParseError, VerifyException, ValueError) as error:
            raise _text_error(str(error).strip(), file, hint) from error
        _name_operations(module)
        _check_program(module, file)
    return module


def _text_error(said: str, file: str, hint: str) -> TextError:
    """What xDSL says, with its place: it begins with `<text>:12:43`, the line, a sign below it."""
    place = re.match(rf"{re.escape(file)}:(\d+):(\d+)\n", said)
    line, column = (int(place[1]), int(place[2])) if place else (0, 0)
    return TextError(f"not valid IR: {said}", hint=hint, line=line, column=column)


def _name_operations(module: ModuleOp) -> None:
    """Identities, where the text has none, after the first result."""
    for op in module.walk():
        if not isinstance(op, TopOperation) or not op.results or IDENTITY in op.attributes:
            continue
        if op.results[0].name_hint:
            set_identity(op, op.results[0].name_hint)


def _check_program(module: ModuleOp, file: str) -> None:
    """What every later stage relies on: a function, and identities that are unique."""
    if not any(isinstance(op, func.FuncOp) for op in module.ops):
        raise ModelError(
            "not a program: the text has no function", file=file, hint="begin with func.func @main"
        )
    seen: set[str] = set()
    for op in module.walk():
        identity = op.attributes.get(IDENTITY)
        if not isinstance(identity, StringAttr):
            continue
        if identity.data in seen:
            raise ModelError(
                f"two operations are called {identity.data!r}",
                file=file,
                node=identity.data,
                hint="names are unique in the whole text, not only in one function: rename one",
            )
        seen.add(identity.data)


class _TextLexer(MLIRLexer):
    """Reads every literal in UTF-8 as a string: names in a model may be in any script.

    xDSL's printer writes what is not ASCII as escaped bytes, which its own lexer reads as bytes.
    """

    # xDSL's own pattern has a repetition inside of another: where the closing quotation mark is
    # missing, it tries every way to cut the text, twice as many for each character. These give
    # nothing back (`++`, `*+`), so that it is read once.
    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    def _lex_string_literal(self, start_pos: int) -> MLIRToken:
        token = super()._lex_string_literal(start_pos)
        if token.kind is not MLIRTokenKind.BYTES_LIT:
            return token
        try:
            StringLiteral.from_span(token.span).bytes_contents.decode("utf-8")
        except UnicodeDecodeError:
            return token
        return Token(MLIRTokenKind.STRING_LIT, token.span)


class _TextParser(Parser):
    def __init__(self, context: Context, text: str, file: str):
        super().__init__(context, "", file)
        self._parser_state = ParserState(_TextLexer(Input(text, file)))

    def parse_affine_map_of_ssa_ids(self) -> tuple[AffineMap, Sequence[SSAValue[IndexType]]]:
        """Subscripts of `affine.load` and the like: values are dimensions, as the compiler has
        them; xDSL reads them as symbols."""
        parsed, operands = super().parse_affine_map_of_ssa_ids()
        dimensions = [AffineExpr.dimension(i) for i in range(parsed.num_symbols)]
        rank = parsed.num_symbols
        return parsed.replace_dims_and_symbols([], dimensions, rank, 0), operands


def make_context() -> Context:
    """A context with every dialect that the compiler's IR uses."""
    from explorer.ir.dialects.kernel import Kernel
    from explorer.ir.dialects.npu import Npu
    from explorer.ir.dialects.source import Source
    from explorer.ir.loop_dialect import Loop
    from explorer.ir.top import Top

    context = Context()
    statements = [Statement if op is GenericOp else op for op in linalg.Linalg.operations]
    for dialect in (
        builtin.Builtin,
        func.Func,
        affine.Affine,
        arith.Arith,
        math.Math,
        memref.MemRef,
        scf.Scf,
        vector.Vector,
        Dialect(linalg.Linalg.name, statements, list(linalg.Linalg.attributes)),
        Top,
        Kernel,
        Npu,
        Loop,
        Source,
    ):
        context.load_dialect(dialect)
    return context
