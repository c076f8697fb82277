"""What notebooks and terminals show of results: text first, HTML second, names escaped."""

from dataclasses import is_dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

import explorer
from explorer.compilation.measurements.schedule_steps import Bars, Ladder, Rung
from explorer.ir.rewriting.passes import PassResult
from explorer.representations import _REPRESENTATIONS, _SPECIFICATIONS
from explorer.results import Candidate, KernelSearch, SearchResult
from explorer.results.displayed import Displayed
from explorer.results.graph import GraphDiff
from explorer.results.model_comparison import ComparedModel
from explorer.results.runs.sensitivity import MixedPoint, MixedPrecision, Quality
from explorer.results.sweep import MachineSweep, SkippedMachine
from explorer.runtime.cache import ProgramCache
from explorer.traces.exploring import Explorable
from explorer.traces.saving import SavedPass
from explorer.traces.tables import Table

sources = SimpleNamespace(**run_path(str(Path(__file__).parent / "source_models.py")))

HOSTILE = "<script>alert('x')</script>\"&"

TRIED = Candidate(
    choices=((HOSTILE, HOSTILE),),
    predicted_us=1.0,
    measured_us=2.0,
    spread_us=0.1,
    status="measured",
    reason="",
    default_us=2.0,
    origin=HOSTILE,
)
SEARCH = KernelSearch(
    kernel=HOSTILE,
    workload=HOSTILE,
    target=HOSTILE,
    device=HOSTILE,
    seed=0,
    default=0,
    chosen=1,
    candidates=(
        TRIED,
        TRIED,
        Candidate(choices=(), predicted_us=1.0, status="failed", reason=HOSTILE),
    ),
    seconds=1.0,
    why=HOSTILE,
)

SWEEP = MachineSweep(
    base=HOSTILE,
    models=(HOSTILE,),
    points=(),
    skipped=(SkippedMachine(fields=((HOSTILE, 1),), reason=HOSTILE),),
)
COMPARED = ComparedModel(name=HOSTILE, format=HOSTILE, nodes=1, judge=HOSTILE, inputs=HOSTILE)


@pytest.fixture(scope="module")
def shown(tmp_path_factory) -> dict[type, object]:
    """One object of every registered kind, all of a model whose names are markup."""
    folder = tmp_path_factory.mktemp("model")
    plain = sources.source_model(folder, sources.CHAIN)
    model = onnx.load(plain.path)
    for node in model.graph.node:
        node.name = f"{HOSTILE}{node.op_type}"
        for names in (node.input, node.output):
            names[:] = [hostile(name) for name in names]
    for value in (*model.graph.initializer, *model.graph.input, *model.graph.output):
        value.name = hostile(value.name)
    model.graph.name = HOSTILE
    path = folder / "hostile.onnx"
    onnx.save(model, path)
    compilation = explorer.compile(path, "cpu")
    accuracy = compilation.accuracy()
    fork = compilation.fork(disable=["fuse-activation"])
    saved = explorer.open(compilation.save(folder / "hostile.nnx"))
    objects = [
        compilation,
        saved,
        compilation["fuse-activation"],
        compilation["fuse-activation"].diff,
        saved["fuse-activation"],
        compilation.compare(fork),
        accuracy,
        accuracy.report,
        compilation.memory,
        compilation.profile(repeats=1),
        next(iter(compilation.kernels.values())),
        compilation.program.source,
        compilation.final.graph,
        compilation.final,
        compilation.passes,
        compilation.kernels,
        compilation.knobs,
        explorer.inspect(path),
        compilation.cost(next(iter(compilation.kernels))),
        SEARCH,
        Table((HOSTILE,), ((HOSTILE,),)),
        Bars(((HOSTILE, 1.0),), HOSTILE),
        Ladder(HOSTILE, 1, (Rung(HOSTILE, ((HOSTILE, HOSTILE),), 1.0, 1.0, 0.0),)),
        SearchResult(
            model=HOSTILE,
            target=HOSTILE,
            device=HOSTILE,
            threads=1,
            seed=0,
            kernels=(SEARCH,),
            seconds=1.0,
        ),
        SWEEP,
        replace(explorer.compare_models(path, path), a=replace(COMPARED, name=HOSTILE), b=COMPARED),
        MixedPrecision(
            model=HOSTILE,
            wanted=HOSTILE,
            examples=1,
            exact=Quality(sqnr_db=np.inf, differ=0),
            tensors=(),
            points=(
                MixedPoint(modes={HOSTILE: "F32"}, cost=1, quality=Quality(sqnr_db=30.0, differ=0)),
            ),
            chosen=0,
            seconds=1.0,
        ),
        *session_and_cache(path, compilation.example_inputs()),
    ]
    compilation.close()
    return {kind: o for o in objects for kind in type(o).__mro__}


def session_and_cache(path: Path, inputs: dict[str, np.ndarray]) -> list[object]:
    """What a session shows of itself, and the cache that its program came from."""
    cache = ProgramCache(None)
    with explorer.Session(path, cache=cache) as session:
        session.run(inputs)
        session.run(inputs)
    return [session, session.record(), cache, cache.looked[0]]


def hostile(name: str) -> str:
    return f"{HOSTILE}{name}" if name else name


class Elements(HTMLParser):
    """Names of elements and attributes, and whether every element is closed."""

    VOID = frozenset({"br", "hr", "img", "input", "meta", "link", "col", "wbr"})

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open and self.open[-1] == tag, f"</{tag}> closes <{self.open[-1:]}>"
            self.open.pop()


KINDS = sorted(
    {**_REPRESENTATIONS, **_SPECIFICATIONS}, key=lambda kind: f"{kind.__module__}.{kind.__name__}"
)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_html_is_escaped_and_well_formed(kind, shown):
    html = shown[kind]._repr_html_()
    elements = Elements()
    elements.feed(html)
    elements.close()
    assert elements.open == []
    assert elements.names
    assert "script" not in elements.names
    assert not {name for name in elements.attributes if name.startswith("on")}
    assert "<script>alert" not in html


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_nothing_is_fetched_from_anywhere(kind, shown):
    html = shown[kind]._repr_html_()
    for scheme in ("http://", "https://", "@import"):
        assert scheme not in html.replace("http://www.w3.org/", "")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_text_is_readable(kind, shown):
    text = str(shown[kind])
    assert text.strip()
    assert "<div" not in text and "object at 0x" not in text
    assert all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_ipython_shows_the_text(kind, shown):
    written: list[str] = []
    printer = SimpleNamespace(text=written.append)
    shown[kind]._repr_pretty_(printer, cycle=False)
    assert written == [str(shown[kind])]
    written.clear()
    shown[kind]._repr_pretty_(printer, cycle=True)
    assert written == ["..."]


def test_a_long_text_keeps_its_lines_in_html():
    """One that is too long for a cell is its first lines, as text."""
    c = explorer.compile(explorer.sample("digits_cnn"))
    text = c["import"].after.text
    page = text._repr_html_()
    assert page.startswith("<pre")
    assert page.count("\n") == repr(text).rstrip().count("\n") > 8


def test_names_of_the_model_are_shown_as_they_are(shown):
    text = "".join(str(o) for o in shown.values())
    assert HOSTILE in text


def test_a_compilation_becomes_one_page(shown, tmp_path):
    compilation = next(o for o in shown.values() if isinstance(o, explorer.compilation.Compilation))
    path = compilation.export_html(tmp_path / "page.html")
    page = path.read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_the_difference_of_a_pass_has_a_picture(shown):
    assert "<img" in shown[PassResult].diff._repr_html_()
    assert "<img" in shown[SavedPass].diff._repr_html_()
    assert "<img" not in GraphDiff(added=("a",))._repr_html_()
    assert "no difference" in str(GraphDiff())


def test_everything_that_is_displayed_has_a_representation():
    """Classes that draw themselves have a `to_text` of their own; of records all fields show."""
    drawn = {*_REPRESENTATIONS, *_SPECIFICATIONS}
    for kind in displayed_classes(Displayed):
        draws_itself = kind.to_text is not Displayed.to_text or is_dataclass(kind)
        assert draws_itself or kind is Explorable or drawn.intersection(kind.__mro__), kind


def displayed_classes(kind: type) -> list[type]:
    return [found for k in kind.__subclasses__() for found in (k, *displayed_classes(k))]
