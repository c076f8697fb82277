"""Files of a branch: as Python and the command line write them, and with a sentence where not."""

import base64
import csv
import io
import json
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest

import explorer as ex
from explorer.app.catalog import Choice, first_request
from explorer.app.protocol import STAGES, CompileRequest, DrawnTrace, SavedFile, SaveOrder
from explorer.app.state.messages import Begun, Reported
from explorer.app.state.page_state import PageState
from explorer.app.state.saving import save_order
from explorer.app.state.step import step
from explorer.app.view_files import joined, view_file
from explorer.app.worker.compiler import ModelCompiler
from explorer.errors import InputError, UnsupportedError
from explorer.traces.tables import FRAMES, Table, csv_text, parquet_bytes, table_of
from explorer.views import register
from explorer.views.catalog.report import report_page, report_text

HEAD = {"label": "", "model": {"name": "a"}, "summary": {"verdict": "not-run"}}
CHOICE = Choice("0", "digits cnn.onnx", "/m/a.onnx")


def quiet(name: str, index: int, total: int) -> None:
    pass


@pytest.fixture(scope="module")
def compiler() -> ModelCompiler:
    return ModelCompiler()


@pytest.fixture(scope="module")
def request_(sample_models: Path) -> CompileRequest:
    return CompileRequest(str(sample_models / "digits_mlp.onnx"), "cpu")


def content(file: SavedFile) -> bytes:
    assert not file.error
    return base64.b64decode(file.content)


def order(what: str, form: str = "csv", **others: Any) -> SaveOrder:
    return SaveOrder(what=what, form=form, stages=("passes", "program"), name="mine", **others)


def test_each_file_is_what_python_makes(
    compiler: ModelCompiler, request_: CompileRequest, tmp_path: Path
):
    def saved(what: str, **others: str) -> SavedFile:
        return compiler.saved(request_, order(what, **others), quiet)

    trace = saved("trace")
    assert trace.name == "mine.nnx"
    path = tmp_path / trace.name
    path.write_bytes(content(trace))
    opened = ex.open(path)
    assert opened.trace().model.name == "mine"
    program = opened.trace().program
    assert program is not None
    source = "\n".join((*program.source.lines, "")).encode()
    assert content(saved("source")) == source
    assert saved("source").name == "mine.c"
    assert content(saved("report")).decode() == report_text(opened.trace())
    drawn = saved("report page")
    assert drawn.name == "mine report.html"
    assert content(drawn).decode() == report_page(opened.trace())
    kernels = content(saved("kernels")).decode()
    assert kernels == csv_text(table_of(opened.trace(), "kernels"))
    page = content(saved("page", place="pass=3&tab=ir")).decode()
    assert '"place":"pass=3\\u0026tab=ir"' in page


def test_a_table_is_csv_that_python_reads(compiler: ModelCompiler, request_: CompileRequest):
    compilation = compiler._compiled(request_, quiet)
    compilation.accuracy()
    trace = compilation.trace()
    for kind, (_, columns) in FRAMES.items():
        rows = list(csv.reader(io.StringIO(csv_text(table_of(trace, kind)))))
        assert tuple(rows[0]) == columns
        assert len(rows) - 1 == len(table_of(trace, kind))
    assert trace.accuracy is not None
    count = sum(len(p.tensors) for p in (*trace.accuracy.passes, *trace.accuracy.isolated))
    assert len(table_of(trace, "errors")) == count > 0


def test_parquet_keeps_types(compiler: ModelCompiler, request_: CompileRequest):
    pyarrow_parquet = pytest.importorskip("pyarrow.parquet")
    table = table_of(compiler._compiled(request_, quiet).trace(), "kernels")
    read = pyarrow_parquet.read_table(io.BytesIO(parquet_bytes(table)))
    assert read.column("flops").to_pylist() == table["flops"]


def test_parquet_without_pyarrow_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match="pyarrow, which is not installed") as raised:
        parquet_bytes(table_of(ex.compile("sample_models/digits_mlp.onnx").trace(), "passes"))
    assert "CSV" in raised.value.hint


def opened() -> PageState:
    state = PageState((CHOICE,), ("cpu",), "cpu", first_request(CHOICE, "cpu"))
    state, _ = step(state, Begun(None))
    state, _ = step(state, Reported(1, DrawnTrace(HEAD, {}, (), STAGES)))
    return state


def test_a_package_is_the_folder_that_python_writes(
    compiler: ModelCompiler, request_: CompileRequest, tmp_path: Path
):
    file = compiler.saved(request_, order("package"), quiet)
    assert file.name == "mine cpu.zip"
    assert compiler.saved(request_, order("package"), quiet).content == file.content
    with zipfile.ZipFile(io.BytesIO(content(file))) as archive:
        archive.extractall(tmp_path)
    compilation = ex.compile(request_.path)
    folder = compilation.package(tmp_path / "python", name="mine")
    written = {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    zipped = tmp_path / "mine"
    assert {p.relative_to(zipped): p.read_bytes() for p in zipped.rglob("*") if p.is_file()} == (
        written
    )


def test_a_program_that_is_no_c_has_no_package_and_says_why(
    compiler: ModelCompiler, tmp_path: Path
):
    text = """<ir_version: 9, opset_import: ["" : 17]>
    found (float[4] x) => (int64[1, n] y) { y = NonZero (x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "found.onnx")
    with pytest.raises(UnsupportedError, match="no host that runs"):
        compiler.saved(CompileRequest(str(tmp_path / "found.onnx"), "cpu"), order("package"), quiet)


def test_an_order_is_of_the_branch_that_is_looked_at():
    ordered = save_order(opened(), {"what": "page", "place": "pass=3"})
    assert ordered is not None
    request, found = ordered
    assert request.path == CHOICE.path
    assert (found.name, found.place, found.stages) == ("digits cnn", "pass=3", STAGES)


@pytest.mark.parametrize(
    "message",
    [{}, {"what": "/etc/passwd"}, {"what": "page", "place": 7}, {"what": "kernels", "form": "exe"},
     {"what": ["page"]}, {"what": "page", "place": "x" * 10_000}],
)  # fmt: skip
def test_what_no_page_would_ask_for_is_no_order(message: dict[str, object]):
    assert save_order(opened(), message) is None


def test_a_view_is_saved_as_the_command_line_writes_it(
    compiler: ModelCompiler, request_: CompileRequest
):
    trace = compiler.stage(request_, "passes", quiet)
    view = register.view_named("memory", register.VIEWS)
    for form in ("svg", "csv"):
        saved = compiler.saved(request_, order("view", form, view="memory", after="import"), quiet)
        assert saved.name == f"mine memory.{form}"
        assert content(saved) == view_file(view, trace, 0, form)
    compare = register.view_named("compare", register.VIEWS)
    with pytest.raises(InputError, match=r"compare has no \.csv form"):
        view_file(compare, trace, 0, "csv")


def test_tables_of_a_view_become_one():
    one, two = Table(("a", "b"), ((1, 2),)), Table(("b", "table"), ((3, 4), (5, None)))
    assert joined([one]) is one
    assert joined([one, two]) == Table(
        ("table number", "a", "b", "table"),
        ((1, 1, 2, None), (2, None, 3, 4), (2, None, 5, None)),
    )


def test_the_table_of_tries_is_checked_and_saved(compiler: ModelCompiler, request_: CompileRequest):
    rows = [["branch", "peak"], ["=first", 1024], ["no peak", None]]
    ordered = save_order(opened(), {"what": "tries", "rows": rows})
    assert ordered is not None
    saved = compiler.saved(request_, replace(ordered[1], name="mine"), quiet)
    assert content(saved).decode().splitlines() == ["branch,peak", "'=first,1024", "no peak,"]
    pyarrow_parquet = pytest.importorskip("pyarrow.parquet")
    as_parquet = compiler.saved(request_, replace(ordered[1], form="parquet"), quiet)
    read = pyarrow_parquet.read_table(io.BytesIO(content(as_parquet)))
    assert read["peak"].to_pylist() == [1024, None]


@pytest.mark.parametrize(
    "more",
    [{}, {"rows": []}, {"rows": "x"}, {"rows": [["a"], ["b", "c"]]}, {"rows": [["a", "a"]]},
     {"rows": [["a"], [["b"]]]}, {"rows": [["a"], ["x" * 5000]]}, {"rows": [["a"]] * 30_000},
     {"rows": [["a"]], "form": "svg"}],
)  # fmt: skip
def test_a_table_that_no_page_sends_is_no_order(more: dict[str, object]):
    assert save_order(opened(), {"what": "tries", **more}) is None


def test_only_views_that_there_are_can_be_ordered():
    assert save_order(opened(), {"what": "view", "view": "../x", "form": "svg"}) is None
    ordered = save_order(opened(), {"what": "view", "view": "memory", "form": "svg"})
    assert ordered is not None
    assert (ordered[1].view, ordered[1].form) == ("memory", "svg")


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_a_cell_that_would_be_a_formula_is_text(begin: str):
    """A model's names are a stranger's: a spreadsheet would run `=HYPERLINK(...)`."""
    name = f"{begin}cmd|' /C calc'!A0"
    ((written,),) = list(csv.reader(io.StringIO(csv_text(Table((name,), ())), newline="")))
    assert written == f"'{name}"
    rows = list(csv.reader(io.StringIO(csv_text(Table(("a", "b"), ((name, [name]),))), newline="")))
    assert rows[1] == [f"'{name}", json.dumps([name])]


def test_numbers_in_cells_stay_numbers():
    row = (-1, -0.5, float("-inf"), "-0.5", "+1e-3", "-inf", "a-b", None, True)
    columns = tuple(map(str, range(len(row))))
    written = list(csv.reader(io.StringIO(csv_text(Table(columns, (row,))))))[1]
    assert written == ["-1", "-0.5", "-inf", "-0.5", "+1e-3", "-inf", "a-b", "", "True"]
