"""`explorer show MODEL --what ...`: one result of a compilation, as text or as a file.

    explorer show net.onnx --pass fuse-activation --what diff
    explorer show net.nnx --what memory -o memory.html
    explorer show net.onnx --pass import --what graph -o graph.svg
    explorer show net.onnx --what operators
    explorer show net.onnx --what ports --core sapphire-rapids

What can be shown are the views of `explorer/views/register.py`. The file's suffix chooses the form:
`.html` and `.json`, `.svg` and `.png` pictures for a paper, `.csv` and `.parquet` tables, `.dot`
for graphs, text for any other. A trace (`.nnx`) needs no compiler and no device. Operators are
shown of models that cannot be compiled, too, with the reasons.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_lines, terminal_width
from explorer.errors import InputError
from explorer.files import check_output, reading_file, write_file
from explorer.results.names import near_name
from explorer.views import register
from explorer.views.view import Face, View

if TYPE_CHECKING:
    from explorer.compilation import Compilation, SavedCompilation
    from explorer.results import Trace
    from explorer.targets import Target

Form = Callable[["Trace", int], str | bytes]
SUMMARY = "show the IR, differences, graph, memory, kernels or another view of a compilation"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser, "a model file, or a trace (.nnx)")
    parser.add_argument(
        "--pass", dest="pass_name", metavar="NAME", help="a pass (default: the last one)"
    )
    views = register.shown_views(register.VIEWS)
    parser.add_argument(
        "--what",
        "--view",
        dest="view",
        choices=[view.name for view in views],
        default=views[0].name,
        help=f"default: {views[0].name}",
    )
    parser.add_argument(
        "--core",
        metavar="NAME",
        help="with ports: cores of this family, with the code for them (default: the target's)",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: stdout")
    options.add_compiling(parser)


def run(arguments: argparse.Namespace) -> int:
    view = register.view_named(arguments.view, register.VIEWS)
    if arguments.core and "ports" not in view.needs:
        raise InputError(f"{view.name} is of no core", hint="--core goes with --what ports")
    if arguments.output is not None:
        check_output(arguments.output)
    form = find_form(view, arguments.output)
    if view.is_of_model and not is_trace(arguments.model):
        _write(arguments, form(_inspected(arguments), -1))
        return 0
    compilation = open_compilation(arguments, view.needs, with_peaks=view.name == "roofline")
    # A pass that does not exist is answered before the program's code is generated.
    index = -1 if arguments.pass_name is None else _index(compilation, arguments.pass_name)
    trace = compilation.trace()
    check_needs(view, trace, arguments.model)
    if is_trace(arguments.model):
        # It may fit its schema and contradict itself: a snapshot that names what is not there.
        hint = "save it again with explorer compile --save"
        with reading_file(arguments.model, "trace", hint=hint):
            rendered = form(trace, index % len(trace.passes))
    else:
        rendered = form(trace, index % len(trace.passes))
    _write(arguments, rendered)
    return 0


def _write(arguments: argparse.Namespace, rendered: str | bytes) -> None:
    if arguments.output is None:
        assert isinstance(rendered, str), "pixels go into a file"
        print_lines(rendered.rstrip("\n").split("\n"))
    else:
        write_file(arguments.output, rendered)


def _inspected(arguments: argparse.Namespace) -> Trace:
    """The model as it is: nothing is compiled."""
    import explorer

    # A range of sizes says nothing of whether the nodes can be imported.
    sizes = {name: size for name, size in arguments.dim if isinstance(size, int)}
    return explorer.inspect(options.model_of(arguments), dimensions=sizes).trace()


def open_compilation(
    arguments: argparse.Namespace, needs: Sequence[str] = (), with_peaks: bool = False
) -> Compilation | SavedCompilation:
    """A trace as it is; a model compiled, timed and analysed as far as the view needs it."""
    import explorer

    if is_trace(arguments.model):
        if arguments.core:
            raise InputError("a saved trace is compiled already", hint="show the model")
        if options.decisions_of(arguments):
            raise InputError("a saved trace is shown as it was decided", hint="show the model")
        return explorer.open(arguments.model)
    with Progress("compiling") as progress:
        compilation = explorer.compile(
            options.model_of(arguments),
            _target(arguments),
            dimensions=dict(arguments.dim),
            **options.compile_options(arguments),
            progress=progress,
        )
        if "accuracy" in needs:
            progress("comparing", 0, 1)
            compilation.accuracy()
        if "profile" in needs:
            progress("timing", 0, 1)
            compilation.profile(with_peaks=with_peaks)
        if "ports" in needs:
            progress("counting ports", 0, 1)
            compilation.ports()
        return compilation


def _target(arguments: argparse.Namespace) -> str | Target:
    """The one that is named, for the cores that are named."""
    if not arguments.core:
        return arguments.target
    from explorer.compilation.measurements.ports import target_for_core
    from explorer.targets import load_target

    return target_for_core(load_target(arguments.target), arguments.core)


def is_trace(path: str) -> bool:
    return Path(path).suffix.lower() == ".nnx"


def _index(compilation: Compilation | SavedCompilation, name: str) -> int:
    if name not in compilation.names:
        hint = near_name(name, compilation.names)
        raise InputError(f"there is no pass {name!r}", hint=hint)
    return compilation.names.index(name)


# -- forms ---------------------------------------------------------------------------------------


def find_form(view: View, path: Path | None) -> Form:
    """What makes the content of that file, by its suffix; InputError where the view has no such
    form. Any other suffix than those of pages, data and pictures is one of plain text."""
    suffix = "" if path is None else path.suffix.lower()
    faces = view.made_faces()
    made: dict[str, Form | None] = {
        ".html": _page_of(view, faces.html),
        ".json": _json_of(faces.json),
        ".svg": _file_of(view, "svg"),
        ".png": _file_of(view, "png"),
        ".csv": _file_of(view, "csv"),
        ".parquet": _file_of(view, "parquet"),
        ".dot": faces.dot,
    }
    if suffix not in made:
        return lambda trace, index: faces.text(trace, index, terminal_width()) + "\n"
    form = made[suffix]
    if form is None:
        known = ", ".join(name for name, face in made.items() if face is not None)
        raise InputError(
            f"{view.name} has no {suffix} form", file=str(path), hint=f"use {known} or .txt"
        )
    return form


def _file_of(view: View, form: str) -> Form | None:
    """The view as data or as a picture."""
    from explorer.app.view_files import CSV, SVG, forms_of, view_file

    if form not in forms_of(view):
        return None

    def make(trace: Trace, index: int) -> str | bytes:
        made = view_file(view, trace, index, form)
        return made.decode() if form in (CSV, SVG) else made

    return make


def _page_of(view: View, html: Face | None) -> Face | None:
    if html is None:
        return None

    def page(trace: Trace, index: int) -> str:
        from explorer.views.parts.markup import document

        title = trace.passes[index].name if view.is_of_pass else view.name
        return document(title, html(trace, index))

    return page


def _json_of(record: Callable[[Trace, int], object] | None) -> Face | None:
    if record is None:
        return None

    def data(trace: Trace, index: int) -> str:
        from explorer.results.encoding import to_json

        return json.dumps(to_json(record(trace, index)), indent=1) + "\n"

    return data


def check_needs(view: View, trace: Trace, file: str) -> None:
    """InputError where the trace has not what the view shows."""
    part = view.missing(trace)
    if part is not None:
        raise InputError(f"this compilation has no {part.noun}", file=file, hint=part.advice)
