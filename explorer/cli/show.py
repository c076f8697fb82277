"""`explorer show MODEL --what ...`: one result of a compilation, as text or as a file.

    explorer show net.onnx --pass fuse-activation --what diff
    explorer show net.nnx --what memory -o memory.html
    explorer show net.onnx --pass import --what graph -o graph.svg
    explorer show net.onnx --what operators

The file's suffix chooses the form: `.html` and `.json` (constraints: `.json` only), `.svg` and
`.dot` for graphs, text for any other. A trace (`.nnx`) needs no compiler and no device. Operators
are shown of models that cannot be compiled, too, with the reasons.
"""

from __future__ import annotations

import argparse
import difflib
import html
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_lines, printable, terminal_width
from explorer.errors import InputError
from explorer.files import check_output, reading_file, write_file
from explorer.results.names import near_name

if TYPE_CHECKING:
    from explorer.compilation import Compilation, SavedCompilation
    from explorer.results import KernelRecord, Trace

SUMMARY = "show the IR, differences, graph, memory, kernels or constraints of a compilation"
WHAT = ("ir", "diff", "graph", "memory", "kernels", "constraints", "operators")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser, "an ONNX file, or a trace (.nnx)")
    parser.add_argument(
        "--pass", dest="pass_name", metavar="NAME", help="a pass (default: the last one)"
    )
    parser.add_argument(
        "--what", "--view", dest="what", choices=WHAT, default="ir", help="default: ir"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: stdout")
    options.add_target(parser)
    options.add_dimensions(parser)
    options.add_host(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.output is not None:
        check_output(arguments.output)
        render_as = find_renderer(arguments.what, arguments.output)
    else:
        render_as = TEXTS[arguments.what]
    if arguments.what == "operators" and not is_trace(arguments.model):
        _write(arguments, render_as(_inspected(arguments), -1))
        return 0
    compilation = open_compilation(arguments)
    # A pass that does not exist is answered before the program's code is generated.
    index = -1 if arguments.pass_name is None else _index(compilation, arguments.pass_name)
    trace = compilation.trace()
    if is_trace(arguments.model):
        # It may fit its schema and contradict itself: a snapshot that names what is not there.
        hint = "save it again with explorer compile --save"
        with reading_file(arguments.model, "trace", hint=hint):
            rendered = render_as(trace, index % len(trace.passes))
    else:
        rendered = render_as(trace, index % len(trace.passes))
    _write(arguments, rendered)
    return 0


def _write(arguments: argparse.Namespace, rendered: str) -> None:
    if arguments.output is None:
        print_lines(rendered.rstrip("\n").split("\n"))
    else:
        write_file(arguments.output, rendered)


def _inspected(arguments: argparse.Namespace) -> Trace:
    """The model as it is: nothing is compiled."""
    import explorer

    # A range of sizes says nothing of whether the nodes can be imported.
    sizes = {name: size for name, size in arguments.dim if isinstance(size, int)}
    return explorer.inspect(arguments.model, dimensions=sizes).trace()


def open_compilation(arguments: argparse.Namespace) -> Compilation | SavedCompilation:
    import explorer

    if is_trace(arguments.model):
        return explorer.open(arguments.model)
    with Progress("compiling") as progress:
        return explorer.compile(
            arguments.model,
            arguments.target,
            dimensions=dict(arguments.dim),
            host=arguments.host,
            progress=progress,
        )


def is_trace(path: str) -> bool:
    return Path(path).suffix.lower() == ".nnx"


def _index(compilation: Compilation | SavedCompilation, name: str) -> int:
    if name not in compilation.names:
        hint = near_name(name, compilation.names)
        raise InputError(f"there is no pass {name!r}", hint=hint)
    return compilation.names.index(name)


# -- text ----------------------------------------------------------------------------------------


def ir_text(trace: Trace, index: int) -> str:
    return "\n".join(trace.snapshots[index].text.lines) + "\n"


def diff_text(trace: Trace, index: int) -> str:
    """What the pass did, and the lines of IR that it changed."""
    from explorer.views.static import pass_text

    before = trace.snapshots[max(index - 1, 0)].text.lines
    after = trace.snapshots[index].text.lines
    name = trace.passes[index].name
    lines = difflib.unified_diff(before, after, f"before {name}", f"after {name}", n=2, lineterm="")
    return "\n".join([pass_text(trace, index), "", *lines]) + "\n"


def graph_text(trace: Trace, index: int) -> str:
    from explorer.views import static

    graph = trace.snapshots[index].graph
    return static.graph_text(graph, limit=len(graph.nodes)) + "\n"


def memory_text(trace: Trace, index: int) -> str:
    from explorer.views import static

    return static.memory_text(_memory(trace)) + "\n"


def operators_text(trace: Trace, index: int) -> str:
    from explorer.views import static

    return static.operators_text(trace, terminal_width()) + "\n"


def kernels_text(trace: Trace, index: int) -> str:
    return "\n".join(line for kernel in trace.kernels for line in _kernel_lines(kernel)) + "\n"


def constraints_text(trace: Trace, index: int) -> str:
    """What the model asks of its symbolic dimensions, and which nodes do."""
    lines = [
        f"{c.text}    {c.operation}" + (f" (from {', '.join(c.nodes)})" if c.nodes else "")
        for c in trace.constraints
    ]
    return "\n".join(lines or ["no constraints"]) + "\n"


def _kernel_lines(kernel: KernelRecord) -> Iterator[str]:
    """The source, below a comment that says what it is for. Names are ours or identifiers."""
    yield f"// {kernel.name}: {kernel.kind}, {kernel.flops:,} FLOP, {kernel.bytes_moved:,} bytes"
    yield f"// launched by {', '.join(printable(name) for name in kernel.operations)}"
    yield from kernel.source.lines
    yield ""


def _memory(trace: Trace):
    if trace.memory is None:
        raise InputError("this trace has no memory plan", hint="compile the model again")
    return trace.memory


# -- files ---------------------------------------------------------------------------------------


def ir_html(trace: Trace, index: int) -> str:
    from explorer.views.static import source_html

    text = trace.snapshots[index].text
    return page(trace.passes[index].name, source_html(text, limit=len(text.lines)))


def diff_html(trace: Trace, index: int) -> str:
    from explorer.views.static import pass_html

    return page(trace.passes[index].name, pass_html(trace, index))


def graph_html(trace: Trace, index: int) -> str:
    from explorer.views import static

    return page(trace.passes[index].name, static.graph_html(trace.snapshots[index].graph))


def graph_svg(trace: Trace, index: int) -> str:
    from explorer.views import static

    return static.graph_svg(trace.snapshots[index].graph)


def graph_dot(trace: Trace, index: int) -> str:
    from explorer.views import static

    return static.graph_dot(trace.snapshots[index].graph)


def memory_html(trace: Trace, index: int) -> str:
    from explorer.views import static

    graph = trace.snapshots[-1].graph
    return page("memory", static.memory_html(_memory(trace), static.families_of(graph)))


def operators_html(trace: Trace, index: int) -> str:
    from explorer.views import static

    return page("operators", static.operators_html(trace))


def kernels_html(trace: Trace, index: int) -> str:
    from explorer.views.static import kernel_html

    return page("kernels", "\n".join(kernel_html(kernel) for kernel in trace.kernels))


def as_json(record: Callable[[Trace, int], object]) -> Callable[[Trace, int], str]:
    """A renderer that writes a record of `explorer.results` as JSON."""

    def render(trace: Trace, index: int) -> str:
        from explorer.results.encoding import to_json

        return json.dumps(to_json(record(trace, index)), indent=1) + "\n"

    return render


def page(title: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f"<title>{html.escape(printable(title))}</title></head>\n<body>\n{body}\n</body>\n</html>\n"
    )


Renderer = Callable[["Trace", int], str]

TEXTS: dict[str, Renderer] = {
    "ir": ir_text,
    "diff": diff_text,
    "graph": graph_text,
    "memory": memory_text,
    "kernels": kernels_text,
    "constraints": constraints_text,
    "operators": operators_text,
}
FILES: dict[tuple[str, str], Renderer] = {
    ("ir", ".html"): ir_html,
    ("ir", ".json"): as_json(lambda trace, index: trace.snapshots[index].text),
    ("diff", ".html"): diff_html,
    ("diff", ".json"): as_json(lambda trace, index: trace.diffs[index]),
    ("graph", ".html"): graph_html,
    ("graph", ".svg"): graph_svg,
    ("graph", ".dot"): graph_dot,
    ("graph", ".json"): as_json(lambda trace, index: trace.snapshots[index].graph),
    ("memory", ".html"): memory_html,
    ("memory", ".json"): as_json(lambda trace, index: _memory(trace)),
    ("kernels", ".html"): kernels_html,
    ("kernels", ".json"): as_json(lambda trace, index: trace.kernels),
    ("operators", ".html"): operators_html,
    ("operators", ".json"): as_json(
        lambda trace, index: {
            "operators": trace.operators,
            "problems": [{"name": name, "reason": reason} for name, reason in trace.problems],
        }
    ),
    ("constraints", ".json"): as_json(lambda trace, index: trace.constraints),
}
_PICTURES = (".svg", ".dot")


def find_renderer(what: str, path: Path) -> Renderer:
    """By the file's suffix; InputError for a picture of what has none."""
    suffix = path.suffix.lower()
    if suffix in _PICTURES and (what, suffix) not in FILES:
        raise InputError(
            f"{what} has no {suffix} form",
            file=str(path),
            hint="use .html, .json or .txt, or --what graph",
        )
    return FILES.get((what, suffix), TEXTS[what])
