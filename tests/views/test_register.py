"""The register of views: what stands in it is shown everywhere; a record adds one more."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.cli import main
from explorer.errors import InputError
from explorer.results import (
    LoopPorts,
    ObservedTensor,
    OperatorRecord,
    PackageBuffer,
    PackageBuild,
    PackageLayer,
    PackageRecord,
    PackagesRecord,
    PortsRecord,
    QuantizationRecord,
    QuantizedTensor,
    RangeCandidate,
    Trace,
    ValueHistogram,
)
from explorer.results.model_comparison import PART as MODELS
from explorer.results.package import PART as PACKAGES
from explorer.results.placement import PART as PLACEMENT
from explorer.results.placement import (
    AssignmentRecord,
    BandwidthPoint,
    DevicePrice,
    LinkRecord,
    OperationPlacement,
    PlacedPart,
    PlacedTransfer,
    PlacementRecord,
    RefusedEdge,
)
from explorer.results.runs.sensitivity import (
    MixedPoint,
    MixedPrecision,
    Quality,
    TensorSensitivity,
)
from explorer.results.sweep import PART as SWEEP
from explorer.results.sweep import MachinePoint, MachineSweep, ModelOnMachine, SkippedMachine
from explorer.results.weights import PART, WeightsRecord
from explorer.views import register
from explorer.views.needs import PARTS
from explorer.views.page import export_page
from explorer.views.view import Shown, View
from explorer.views.widget import explore

PAGE = Path(__file__).resolve().parents[2] / "docs" / "adding-a-view.md"
KEYS_OF_THE_PAGE = set("jkJKudgebf/?0123456")


def test_names_tabs_and_keys_are_used_once():
    panes = [view.pane for view in register.VIEWS if view.pane is not None]
    tabs = [view.tab for view in register.VIEWS if view.pane is not None]
    names = [view.name for view in register.VIEWS]
    keys = [pane.key for pane in panes if pane.key]
    for used in (names, tabs, keys):
        assert len(set(used)) == len(used)
    assert KEYS_OF_THE_PAGE.isdisjoint(keys)


@pytest.mark.parametrize("view", register.VIEWS, ids=lambda view: view.name)
def test_a_view_has_a_title_a_face_and_asks_for_known_parts(view: View):
    assert view.title and (view.has_faces or view.pane)
    assert {*view.needs, *view.uses} <= {*PARTS, PART}


@pytest.mark.parametrize("view", register.shown_views(register.VIEWS), ids=lambda view: view.name)
def test_every_face_takes_hostile_names(view: View, hostile_trace: Trace, synthetic: Any):
    mark = synthetic.HOSTILE
    operator = OperatorRecord(
        domain="",
        operator=mark,
        version=17,
        family="other",
        nodes=(mark,),
        made=((mark, 1),),
        parameters=0,
        problems=((mark, mark),),
    )
    histogram = ValueHistogram(start=0, width=1, counts=(3, 1), low=0, high=1.5, zeros=0)
    candidate = RangeCandidate(method=mark, low=0, high=1, squared_error=0.1)
    tensor = QuantizedTensor(
        name=mark,
        operation=mark,
        mode="INT8",
        storage="ui8",
        threshold=1,
        low=0,
        high=1,
        observed=ObservedTensor(histogram=histogram, candidates=(candidate,)),
    )
    quantization = QuantizationRecord(
        method=mark, table=mark, tensors=(tensor,), weights=(), precision=_search_for_modes(mark)
    )
    loop = LoopPorts(
        kernel=mark, loop=(mark,), lines=(0, 1), text=(mark,), share=1.0, merged=1, cycles=2.0,
        bound=1.0, limit="load", ports=((mark, 1.0),), counts=(("load", 1.0),), spills=0.0,
        predicted_cycles=1.0, predicted_bound="loads", peak_cycles=0.5,
    )  # fmt: skip
    ports = PortsRecord(
        core=mark, model=mark, analyser=mark, compiler=mark, note=mark, loops=(loop,),
        left_out=((mark, mark),),
    )  # fmt: skip
    hostile = replace(
        synthetic.with_counts(hostile_trace, mark),
        operators=(operator,),
        quantization=quantization,
        ports=ports,
        parts={
            PART: WeightsRecord.of([(mark, mark, np.ones((2, 3)))]),
            MODELS: synthetic.two_models(mark),
            PACKAGES: PackagesRecord((_package(mark),)),
            PLACEMENT: _placement(mark),
            SWEEP: _sweep(mark),
        },
    )
    assert view.missing(hostile) is None
    shown = Shown(view=view, trace=hostile, index=len(hostile.passes) - 1)
    assert str(shown).strip()
    html = shown._repr_html_()
    assert html and "<script" not in html and synthetic.HOSTILE not in html


def _sweep(mark: str) -> MachineSweep:
    one = ModelOnMachine(
        model=mark, cycles=3, seconds=None, traffic_bytes=1, macs=1, utilization=0.5,
        energy_picojoules=None, elsewhere=0,
    )  # fmt: skip
    point = MachinePoint(fields=((mark, mark),), scratchpad_bytes=1, mac_units=1, models=(one,))
    skipped = SkippedMachine(fields=((mark, mark),), reason=mark)
    return MachineSweep(base=mark, models=(mark,), points=(point, point), skipped=(skipped,))


def _placement(mark: str) -> PlacementRecord:
    """Every name of it is the mark."""
    return PlacementRecord(
        targets=(mark, "cpu"),
        host=mark,
        parts=(
            PlacedPart(
                function=mark,
                device=mark,
                operations=(mark,),
                predicted_us=1.0,
                arena_bytes=1,
                reason=mark,
            ),
        ),
        transfers=(
            PlacedTransfer(
                value=mark, source=mark, target="cpu", size_bytes=4, predicted_us=1.0, price=mark
            ),
        ),
        operations=(
            OperationPlacement(
                operation=mark,
                device=mark,
                prices=(DevicePrice(device=mark, seconds=1.0, source=mark),),
                refusals=(("cpu", mark),),
                cluster=mark,
            ),
        ),
        edges=(RefusedEdge(maker=mark, reader=mark, reason=mark),),
        links=(
            LinkRecord(
                source=mark, target="cpu", latency_seconds=1.0, bytes_per_second=1.0, price=mark
            ),
        ),
        assignment=AssignmentRecord(
            seconds=1.0, bound=0.5, optimal=False, single=((mark, 1.0),), greedy=1.0
        ),
        bandwidths=(
            BandwidthPoint(factor=1.0, seconds=1.0, counts=((mark, 1),), transferred_bytes=4),
        ),
    )


def _package(mark: str) -> PackageRecord:
    layer = PackageLayer(
        name=mark, kernel=mark, nodes=(mark,), operations=1, weights_bytes=8, code_bytes=4
    )
    return PackageRecord(
        name=mark,
        model=mark,
        target=mark,
        files=(),
        arena_bytes=8,
        weights_bytes=8,
        layers=(layer,),
        buffers=(PackageBuffer(name=mark, offset_bytes=0, size_bytes=8, first=0, last=1),),
        build=PackageBuild(note=mark),
    )


def _search_for_modes(mark: str) -> MixedPrecision:
    quality = Quality(sqnr_db=30.0, differ=0)
    return MixedPrecision(
        model=mark,
        wanted=mark,
        examples=1,
        exact=quality,
        tensors=(
            TensorSensitivity(tensor=mark, macs=1, alone=quality, without=quality, wide=quality),
        ),
        points=(MixedPoint(modes={mark: "F32"}, cost=1, quality=quality, is_best=True),),
        chosen=0,
        seconds=1,
    )


def test_a_view_of_what_is_not_there_says_how_to_get_it(trace: Trace):
    (view,) = [view for view in register.VIEWS if view.name == "accuracy"]
    part = view.missing(replace(trace, accuracy=None))
    assert part is not None and part.noun == "comparison with the source model"


@pytest.fixture(scope="module")
def compiled(sample_models: Path):
    return explorer.compile(sample_models / "digits_mlp.onnx")


def test_a_notebook_is_told_near_names(compiled: Any):
    with pytest.raises(InputError, match=r"no view 'memry'.*did you mean 'memory'"):
        compiled.view("memry")
    with pytest.raises(InputError, match=r"no pass 'imort'.*did you mean 'import'"):
        compiled.view("ir", "imort")
    with pytest.raises(InputError, match=r"no measured times.*c\.profile"):
        compiled.view("timeline")
    assert str(compiled.view("memory")) == str(compiled.memory)


# -- a view more -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> View:
    """The view of the documentation, with the pane of its own."""
    text = PAGE.read_text(encoding="utf-8")
    (script,) = re.findall(r"^```js\n(.*?)^```", text, re.M | re.S)
    module = tmp_path_factory.mktemp("view") / "kinds.js"
    module.write_text(script, encoding="utf-8")
    names: dict[str, Any] = {"__name__": "documentation"}
    exec(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)[0], names)
    made = names["KINDS"]
    return replace(made, pane=replace(made.pane, module=module, function="kindsView"))


def test_a_view_more_is_shown_by_the_command(
    kinds: View, sample_models: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    model = str(sample_models / "digits_mlp.onnx")
    arguments = ["show", model, "--view", "kinds", "--pass", "import"]
    with register.trying(kinds):
        assert main(arguments) == 0
        assert re.search(r"^ +top\.matmul +3$", capsys.readouterr().out, re.M)
        for suffix, begin in ((".html", "<!doctype html>"), (".json", "{")):
            path = tmp_path / f"kinds{suffix}"
            assert main([*arguments, "-o", str(path)]) == 0
            assert path.read_text(encoding="utf-8").startswith(begin)
    with pytest.raises(SystemExit):
        main(arguments)


def test_a_view_more_is_shown_in_a_notebook(kinds: View, compiled: Any):
    with register.trying(kinds):
        shown = compiled.view("kinds", "import")
        widget: Any = explore(compiled.trace())
    assert "top.matmul" in str(shown) and "kinds of operations</div>" in shown._repr_html_()
    assert "kinds" in [tab["id"] for tab in widget.head["tabs"]]
    sent: list[dict] = []
    widget.send = sent.append
    widget._handle_custom_msg({"kind": "module"}, [])  # asked for when the cell is drawn
    assert "kindsView" in sent[0]["text"]


@pytest.mark.browser
def test_a_view_more_has_a_tab_and_a_key_in_a_saved_page(
    kinds: View, trace: Trace, watched: Any, tmp_path: Path
):
    path = tmp_path / "page.html"
    with register.trying(kinds):
        path.write_text(export_page(trace), encoding="utf-8")
    page = watched.page
    page.goto(path.as_uri())
    page.wait_for_selector(".node")
    page.keyboard.press("O")
    table = page.locator(".dock table[aria-label='kinds of operations']")
    table.wait_for()
    last = trace.snapshots[-1].graph.nodes
    assert table.locator("tbody tr").count() == len({node.operation for node in last})
    assert page.url.endswith("dock=kinds")
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text(re.compile(r"\bkinds$")).wait_for()
