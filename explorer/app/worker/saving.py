"""Files of a branch, as the command line and Python write them, too.

saved_file(order, trace, save)
    page      export_page(trace)        c.export_html("net.html")
    trace     save(trace, path)         c.save("net.nnx"), explorer compile --save net.nnx
    source    trace.program.source      explorer compile --dump-dir
    report    report_text(trace)        explorer show --what report -o net.md
    report page    report_page(trace)     the same, drawn: explorer show --what report -o net.html
    package   c.package("net/"), zipped     explorer package net.onnx -o net/
    view      view_file(view, ...)      explorer show --view memory -o m.svg
    tries     the table that the page has
    kernels   csv_text(table_of(...))   c.to_frame("kernels")
"""

from __future__ import annotations

import base64
import io
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.app.protocol import SavedFile, SaveOrder
from explorer.app.view_files import view_file
from explorer.errors import InputError
from explorer.results import Trace
from explorer.runtime.scratch import own_folder
from explorer.traces.tables import Table, csv_text, parquet_bytes, table_of
from explorer.views import register
from explorer.views.catalog.report import report_page, report_text
from explorer.views.page import export_page

if TYPE_CHECKING:
    from explorer.compilation import Compilation

PACKAGE, MODEL = "package", "model"
IR, SAMPLES = "ir", "samples"
"""What is ordered for a page to show: the complete text of a program behind a pass, for an editor;
how often each line of the kernels was at work."""
KINDS = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "svg": "image/svg+xml",
    "png": "image/png",
}
"""Types of files by form."""
SUFFIXES = {"c": ".c", "opencl": ".cl"}
"""Of source files, by language."""


def saved_file(
    order: SaveOrder, trace: Trace, save: Callable[[Trace, Path], object] | None
) -> SavedFile:
    """The file that is ordered. InputError says why there is none.

    `save` writes a trace with its programs; None where it is a file already.
    """
    name = order.name or trace.model.name
    if order.what == "page":
        return text_file(f"{name}.html", export_page(trace, place=order.place), "text/html")
    if order.what == "report":
        return text_file(f"{name}.md", report_text(trace), "text/markdown")
    if order.what == "report page":
        return text_file(f"{name} report.html", report_page(trace), "text/html")
    if order.what == "source":
        if trace.program is None:
            raise InputError("this has no compiled program, and so no source")
        source = trace.program.source
        text = "\n".join((*source.lines, ""))
        return text_file(f"{name}{SUFFIXES.get(source.language, '.txt')}", text, "text/plain")
    if order.what == "trace":
        if save is None:
            raise InputError("this is no compilation that can be saved as a trace")
        with tempfile.TemporaryDirectory(dir=own_folder()) as folder:
            path = Path(folder) / "saved.nnx"
            save(trace, path)
            return _file(f"{name}.nnx", "application/zip", path.read_bytes())
    if order.what == "view":
        content = view_file(register.view_named(order.view, register.VIEWS), trace,
                            _index(trace, order.after), order.form)  # fmt: skip
        return _file(f"{name} {order.view}.{order.form}", KINDS[order.form], content)
    is_of_page = order.what == "tries"
    table = (
        Table(tuple(map(str, order.rows[0])), order.rows[1:])
        if is_of_page
        else table_of(trace, order.what)
    )
    if order.form == "parquet":
        return _file(f"{name} {order.what}.parquet", KINDS["parquet"], parquet_bytes(table))
    return text_file(f"{name} {order.what}.csv", csv_text(table), "text/csv")


def package_file(order: SaveOrder, compilation: Compilation) -> SavedFile:
    """The folder that `Compilation.package` writes, as an archive: the same bytes on any day.

    Raises what `Compilation.package` raises, where the program cannot be one in C.
    """
    from explorer.compilation.packaging import package_source
    from explorer.packaging.names import package_name
    from explorer.packaging.writing import package_files

    called = order.name or compilation.model.name
    source = package_source(compilation, package_name(None, called))
    return zip_file(f"{called} {compilation.target.name}", source.name, package_files(source))


def zip_file(name: str, folder: str, files: Mapping[str, bytes]) -> SavedFile:
    """An archive with the files in a folder: the same bytes on any day."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        for path, content in sorted(files.items()):
            entry = zipfile.ZipInfo(f"{folder}/{path}")
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            made.writestr(entry, content)
    return _file(f"{name}.zip", "application/zip", archive.getvalue())


def model_file(order: SaveOrder, path: Path, edits: Sequence[str]) -> SavedFile:
    """The model with its edits, as ONNX. InputError where there are none."""
    import explorer
    from explorer.editing.model import edited_proto

    proto = edited_proto(explorer.load(path), edits)
    return _file(
        f"{order.name or 'edited'}.onnx", "application/octet-stream", proto.SerializeToString()
    )


def _index(trace: Trace, pass_name: str) -> int:
    """Of the pass; of the last one where it is not named."""
    names = [record.name for record in trace.passes]
    return names.index(pass_name) if pass_name in names else len(names) - 1


def text_file(name: str, text: str, kind: str = "text/plain") -> SavedFile:
    return _file(name, kind, text.encode("utf-8", "backslashreplace"))


def _file(name: str, kind: str, content: bytes) -> SavedFile:
    return SavedFile(name=name, kind=kind, content=base64.b64encode(content).decode())
