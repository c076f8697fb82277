"""What plain notebooks and terminals show: complete, harmless, without help from outside."""

import base64
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from explorer.results import (
    AccuracyReport,
    Graph,
    GraphNode,
    MemoryPlan,
    ProfileRecord,
    TensorError,
    Trace,
)
from explorer.views import static
from explorer.views.catalog.accuracy import compared
from explorer.views.catalog.comparison import comparison
from explorer.views.catalog.memory import planned
from explorer.views.catalog.passes import passes as passes_view
from explorer.views.catalog.timeline import profile as profiled
from explorer.views.catalog.timeline import timeline
from explorer.views.page import export_page
from explorer.views.parts.markup import escape, plain, shorten
from explorer.views.parts.plain import columns
from explorer.views.renderers.html import html_of
from explorer.views.renderers.text import text_of
from explorer.views.saved_picture import saved_picture
from explorer.views.static.graph import graph_html
from explorer.views.widget import explore

HTML_VIEWS: dict[str, Callable[[Trace], str]] = {
    "passes": lambda t: html_of(passes_view(t)),
    "pass": lambda t: static.pass_html(t, 5),
    "pass that adds": lambda t: static.pass_html(t, 6),
    "import": lambda t: static.pass_html(t, 0),
    "operation": lambda t: static.operation_html(t, "conv_1"),
    "graph": lambda t: static.graph_html(t.snapshots[0].graph),
    "collapsed graph": lambda t: static.graph_html(t.snapshots[0].graph, limit=8),
    "memory": lambda t: html_of(planned(memory(t), families(t))),
    "accuracy": lambda t: html_of(compared(accuracy(t))),
    "profile": lambda t: html_of(timeline(t)),
    "kernel": lambda t: static.kernel_html(t.kernels[0]),
    "schedule": lambda t: static.schedule_html(t.kernels[0]),
    "comparison": lambda t: html_of(comparison(t, replace(t, label=t.model.name))),
}
TEXT_VIEWS: dict[str, Callable[[Trace], str]] = {
    "passes": lambda t: text_of(passes_view(t), 100),
    "pass": lambda t: static.pass_text(t, 5),
    "operation": lambda t: static.operation_text(t, "conv_1"),
    "graph": lambda t: static.graph_text(t.snapshots[0].graph),
    "dot": lambda t: static.graph_dot(t.snapshots[0].graph),
    "memory": lambda t: text_of(planned(memory(t)), 100),
    "accuracy": lambda t: text_of(compared(accuracy(t)), 100),
    "profile": lambda t: text_of(timeline(t), 100),
    "kernel": lambda t: static.kernel_text(t.kernels[0]),
    "schedule": lambda t: static.schedule_text(t.kernels[0]),
    "comparison": lambda t: text_of(comparison(t, replace(t, label=t.model.name)), 100),
}
ALLOWED_TAGS = {"div", "span", "table", "tr", "th", "td", "img", "details", "summary", "br"}
ALLOWED_ATTRIBUTES = {"style", "src", "alt", "title", "role", "aria-label"}


def memory(trace: Trace) -> MemoryPlan:
    assert trace.memory is not None
    return trace.memory


def accuracy(trace: Trace) -> AccuracyReport:
    assert trace.accuracy is not None
    return trace.accuracy


def profile(trace: Trace) -> ProfileRecord:
    assert trace.profile is not None
    return trace.profile


def families(trace: Trace) -> dict[str, str]:
    return {node.id: node.family for node in trace.snapshots[-1].graph.nodes}


class Reader(HTMLParser):
    """Checks that tags close in order; collects tags, attributes, text and pictures."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in ("img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def pictures(self) -> list[str]:
        prefix = "data:image/svg+xml;base64,"
        sources = [value for name, value in self.attributes if name == "src"]
        assert all(source.startswith(prefix) for source in sources)
        return [base64.b64decode(s.removeprefix(prefix)).decode("utf-8") for s in sources]


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


@pytest.mark.parametrize("name", HTML_VIEWS)
def test_html_keeps_to_what_an_untrusted_notebook_shows(name: str, hostile_trace: Trace) -> None:
    html = HTML_VIEWS[name](hostile_trace)
    reader = read(html)
    assert reader.tags <= ALLOWED_TAGS
    assert {attribute for attribute, _ in reader.attributes} <= ALLOWED_ATTRIBUTES
    styles = [value for attribute, value in reader.attributes if attribute == "style"]
    assert not any(re.search(r"url\(|overflow(-[xy])?:\s*(auto|scroll)", style) for style in styles)
    assert "http" not in html, "nothing is fetched"


DARK_RULES = (
    r"@media \(prefers-color-scheme:dark\)\{"
    r'(\[(fill|stroke)="#[0-9a-f]{6}"\]:not\(\[data-ground\]\)\{(fill|stroke):#[0-9a-f]{6}\})+\}'
)


@pytest.mark.parametrize("name", HTML_VIEWS)
def test_pictures_are_well_formed_and_hold_nothing_but_shapes(
    name: str, hostile_trace: Trace
) -> None:
    for picture in read(HTML_VIEWS[name](hostile_trace)).pictures:
        elements = list(ElementTree.fromstring(picture).iter())
        tags = {element.tag.split("}")[1] for element in elements}
        assert tags <= {"svg", "rect", "line", "text", "path", "polygon", "polyline", "style"}
        for style in (e.text or "" for e in elements if e.tag.endswith("}style")):
            assert re.fullmatch(DARK_RULES, style), "colours of the dark scheme, and nothing else"


def test_every_colour_of_a_card_has_its_counterpart_on_dark(hostile_trace: Trace) -> None:
    html = html_of(passes_view(hostile_trace))
    assert "background-color:#ffffff;background-color:light-dark(#ffffff,#16191d)" in html
    styles = [value for attribute, value in read(html).attributes if attribute == "style"]
    singles = [s for s in styles for d in s.split(";") if re.search(r":#(fff|1f2328|59616b)", d)
               and f"{d.split(':')[0]}:light-dark({d.split(':')[1]}" not in s]  # fmt: skip
    assert singles == []


def test_a_mark_on_a_colour_of_the_scale_keeps_its_own(hostile_trace: Trace) -> None:
    assert hostile_trace.accuracy is not None
    strict = replace(hostile_trace.accuracy, tolerance=1e-12)
    (picture, *_) = read(html_of(compared(strict))).pictures
    marks = [e for e in ElementTree.fromstring(picture).iter() if e.text == "✗"]
    assert marks and all(mark.get("data-ground") == "own" for mark in marks)


@pytest.mark.parametrize("name", ["passes", "operation", "accuracy", "comparison"])
def test_hostile_names_are_shown_as_they_are(
    name: str, hostile_trace: Trace, synthetic: ModuleType
) -> None:
    reader = read(HTML_VIEWS[name](hostile_trace))
    assert synthetic.HOSTILE in " ".join(reader.text)


@pytest.mark.parametrize("name", [*HTML_VIEWS])
def test_html_is_the_same_every_time(name: str, trace: Trace) -> None:
    assert HTML_VIEWS[name](trace) == HTML_VIEWS[name](trace)


@pytest.mark.parametrize("name", TEXT_VIEWS)
def test_text_holds_no_control_characters(name: str, synthetic: ModuleType) -> None:
    text = TEXT_VIEWS[name](synthetic.make_trace(mark="\x1b[2J\u202e\n\x00"))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", text)


@pytest.mark.parametrize("name", ["graph", "pass", "accuracy"])
def test_pictures_survive_characters_that_xml_forbids(name: str, synthetic: ModuleType) -> None:
    html = HTML_VIEWS[name](synthetic.make_trace(mark="\x00\x0b\ud800\uffff"))
    pictures = read(html).pictures
    assert pictures
    for picture in pictures:
        ElementTree.fromstring(picture)


def test_names_are_escaped_for_elements_and_attributes() -> None:
    assert escape("<a href='x'>\"&") == "&lt;a href=&#x27;x&#x27;&gt;&quot;&amp;"
    assert plain("a\nb\x1b[31m") == "a b�[31m"


def test_long_names_lose_their_middle() -> None:
    assert shorten("features.stage3.conv", 11) == "featu….conv"
    assert shorten("conv", 11) == "conv"
    assert len(shorten("x" * 100, 10)) == 10
    assert shorten("xyz", 1) == "…"


def test_passes_line_up_and_fold_where_nothing_changed(trace: Trace) -> None:
    assert text_of(passes_view(trace), 100) == (
        "tiny_resnet → cpu (Invented CPU with AVX2)\n"
        "  ≈ differs, but within the tolerance (worst layer 4.8e-5 of 1.0e-4 allowed) · "
        "peak 32 KiB · 122 µs\n"
        "     pass                       ops  change  rewrites     time\n"
        "  ✓  import                      21     +21         0  12.1 ms  ██▊\n"
        "  ✓  unchanged: infer-shapes                            900 µs  ▎\n"
        "  ✓  remove-identities           20      −1         1   600 µs  ▏\n"
        "  ✓  unchanged: fold-constants                          1.1 ms  ▎\n"
        "  ✓  fold-batch-norm             17      −3         3   4.2 ms  █\n"
        "  ✓  fuse-activation             14      −3         3   1.8 ms  ▍\n"
        "  ✓  fuse-add                    13      −1         1   1.4 ms  ▍\n"
        "  ✓  unchanged: remove-dead                             300 µs  ▏\n"
        "  ≈  choose-layouts              14      +1         1   5.7 ms  █▎\n"
        "  ≈  lower-to-kernels            14       =         0   9.4 ms  ██▏\n"
        "  ≈  schedule-loops              14       =         0  87.3 ms  ████████████████████\n"
        "  ≈  plan-memory                 14       =         0   3.1 ms  ▊\n"
        "  compiled in 128 ms"
    )


def test_without_a_comparison_no_pass_looks_checked(trace: Trace) -> None:
    text = text_of(passes_view(replace(trace, accuracy=None, profile=None)), 100)
    assert "○ not compared with the source model · peak 32 KiB" in text
    assert "✓" not in text


def test_a_wrong_pass_is_marked_even_where_it_changed_nothing(trace: Trace) -> None:
    report = accuracy(trace)
    wrong = replace(report.passes[3].tensors[0], max_relative=float("nan"))
    spoiled = replace(report.passes[3], tensors=(*report.passes[3].tensors, wrong))
    passes = (*report.passes[:3], spoiled, *report.passes[4:])
    text = text_of(passes_view(replace(trace, accuracy=replace(report, passes=passes))), 100)
    assert "  ✗  unchanged: fold-constants" in text


def test_a_pass_lists_its_rules_and_why_candidates_were_declined(trace: Trace) -> None:
    text = static.pass_text(trace, 5)
    assert "fuse-activation   17 → 14 ops (−3) · 1.8 ms" in text
    assert "⊃  fused    conv_1 ⊃ relu_1, add_1 ⊃ relu_2, conv_3 ⊃ relu_3" in text
    assert "fired 3 times, declined 2 times   explorer/passes/fuse_activation.py:31" in text
    assert "✓ conv_1, relu_1 → conv_1" in text
    assert "○ softmax_1 declined: softmax_1 is no elementwise operation" in text


def test_the_picture_of_a_pass_holds_what_changed_and_its_neighbours(trace: Trace) -> None:
    (picture,) = read(static.pass_html(trace, 6)).pictures
    shown = [element.text for element in ElementTree.fromstring(picture).iter() if element.text]
    for name in ("fused_1", "conv_2", "add_1", "conv_1", "weight_2", "conv_3", "⊃ conv_2, add_1"):
        assert name in shown
    assert "softmax_1" not in shown
    assert 'text-decoration="line-through"' in picture


def test_a_pass_of_many_rewrites_shows_some_of_either_outcome(trace: Trace) -> None:
    record = trace.passes[5]
    fired, declined = record.events[0], record.events[3]
    events = (*(replace(fired, site=f"c{i}") for i in range(40)), declined)
    many = replace(trace, passes=(*trace.passes[:5], replace(record, events=events)))
    text = static.pass_text(many, 5)
    assert text.count("✓") == 9
    assert text.count("○") == 1
    assert "and 31 more: trace.passes[5].events" in text


def test_a_large_difference_says_what_its_picture_leaves_out(trace: Trace) -> None:
    extra = tuple(
        GraphNode(
            id=f"new_{i}",
            operation="top.relu",
            label="relu",
            family="elementwise",
            shape="4 f32",
            sources=(),
            device="cpu",
        )
        for i in range(30)
    )
    snapshot = trace.snapshots[6]
    after = Graph((*snapshot.graph.nodes, *extra), snapshot.graph.edges)
    snapshots = list(trace.snapshots)
    snapshots[6] = replace(snapshot, graph=after)
    diffs = list(trace.diffs)
    diffs[6] = replace(diffs[6], added=(*diffs[6].added, *(n.id for n in extra)))
    html = static.pass_html(replace(trace, snapshots=tuple(snapshots), diffs=tuple(diffs)), 6)
    assert "18 more changed operations: trace.diffs[6]" in " ".join(read(html).text)


def test_an_operation_tells_where_it_comes_from_and_who_made_it(trace: Trace) -> None:
    assert static.operation_text(trace, "conv_1", 5) == (
        "conv_1  after fuse-activation\n"
        "  from     Conv_0, BatchNormalization_1, Relu_2\n"
        "  made by  remove-identities (remove-identity), fold-batch-norm (fold-into-conv), "
        "fuse-activation (activation-into-producer)\n"
        "  is       %conv_1 = top.conv(%images, %weight_1) {kernel = 3x3, padding = 1, "
        "bias = folded, activation = relu} : 1x16x16x16 f32\n"
        "  takes    images 1x3x16x16 f32, weight_1 16x3x3x3 f32\n"
        "  gives    1x16x16x16 f32 to conv_2, add_1"
    )


def test_an_unknown_operation_gets_near_names(trace: Trace) -> None:
    with pytest.raises(KeyError, match=r"no operation 'conv_2' after pass 'plan-memory'.*conv_1"):
        static.operation_text(trace, "conv_2")


def test_the_memory_map_draws_every_buffer_below_the_peak(trace: Trace) -> None:
    (picture,) = read(html_of(planned(memory(trace), families(trace)))).pictures
    root = ElementTree.fromstring(picture)
    boxes = [e for e in root if e.tag.endswith("rect")][1:]
    assert len(boxes) == len(memory(trace).placements) == 8
    lines = [e for e in root if e.tag.endswith("polyline")]
    peak = min(float(line.get("points", "nan").split()[0].split(",")[1]) for line in lines)
    assert all(float(box.get("y", "nan")) >= peak for box in boxes)
    assert "peak = bound" in [e.text for e in root]


def test_the_bound_has_a_line_of_its_own_below_the_peak(trace: Trace) -> None:
    plan = replace(memory(trace), bound_bytes=24576, optimal=False)
    (picture,) = read(html_of(planned(plan))).pictures
    texts = [e.text for e in ElementTree.fromstring(picture)]
    assert "peak" in texts
    assert "bound" in texts
    assert "at most 33 % above the smallest possible" in text_of(planned(plan), 100)


def test_a_long_plan_lists_its_fullest_steps(trace: Trace) -> None:
    steps = 200
    plan = replace(
        memory(trace),
        live_bytes=tuple(1000 + step for step in range(steps)),
        steps=tuple(f"op_{step}" for step in range(steps)),
    )
    text = text_of(planned(plan), 100)
    assert "op_199" in text
    assert "op_10 " not in text
    assert "and 160 steps with fewer live bytes: plan.live_bytes" in text


def test_accuracy_names_the_worst_tensor_of_every_pass(trace: Trace) -> None:
    text = text_of(compared(accuracy(trace)), 100)
    assert "≈ differs, but within the tolerance (worst 4.8e-5 of 1.0e-4 allowed)" in text
    assert re.search(r"fold-batch-norm +3\.3e-6  Softmax_14_out", text)
    assert "choose-layouts to plan-memory (4 passes)" in text
    assert "Worst layers after plan-memory, each fed the reference's inputs (8 of 8)" in text


def test_an_error_that_is_no_number_is_the_worst_of_all(trace: Trace) -> None:
    report = accuracy(trace)
    last = report.passes[-1]
    broken = TensorError(
        tensor="broken_out",
        operation="conv_9",
        max_absolute=float("nan"),
        max_relative=float("nan"),
        cosine=0.0,
        sqnr_db=float("nan"),
    )
    passes = (*report.passes[:-1], replace(last, tensors=(broken, *last.tensors)))
    text = text_of(compared(replace(report, passes=passes, isolated=())), 100)
    assert text.startswith("✗ differs by more than the tolerance")
    assert re.search(r"plan-memory +not a number  broken_out", text)
    assert "errors accumulated (9 of 9)\n" in text
    (picture,) = read(html_of(compared(replace(report, passes=passes)))).pictures
    assert "✗" in [e.text for e in ElementTree.fromstring(picture)]


def test_a_report_without_tensors_says_that_nothing_was_compared() -> None:
    report = AccuracyReport(
        target="cpu",
        oracle="onnxruntime",
        tolerance=1e-4,
        passes=(),
        isolated=(),
        outputs=(),
        passed=False,
    )
    assert text_of(compared(report), 100) == "○ not compared with the source model"
    assert "not compared with the source model" in " ".join(read(html_of(compared(report))).text)


def test_many_layers_are_capped_to_the_worst(trace: Trace) -> None:
    report = accuracy(trace)
    tensors = tuple(
        replace(report.passes[-1].tensors[0], tensor=f"t{i}", max_relative=i * 1e-9)
        for i in range(500)
    )
    wide = replace(report, passes=(replace(report.passes[-1], tensors=tensors),))
    words = " ".join(read(html_of(compared(wide))).text)
    assert "The map shows the 80 worst of 500 layers: report.passes holds all." in words


def test_a_profile_shows_shares_and_the_distance_to_the_peak(trace: Trace) -> None:
    lines = text_of(profiled(profile(trace)), 100).splitlines()
    assert lines[0] == "122 µs on Invented CPU with AVX2, 2 threads (median of 20 runs)"
    conv = next(line for line in lines if "conv_1" in line)
    assert conv.split() == [
        "conv_1", "35.1", "µs", "30", "%", "█" * 20, "33.6", "GFLOP/s", "37", "%",
    ]  # fmt: skip


def test_a_long_profile_keeps_the_slowest_launches_in_order(trace: Trace) -> None:
    event = profile(trace).events[0]
    events = tuple(
        replace(event, name=f"op_{i}", start_ns=i * 1000, end_ns=i * 1000 + 10 * i)
        for i in range(100)
    )
    text = text_of(profiled(replace(profile(trace), events=events)), 100)
    shown = re.findall(r"^  (op_\d+)", text, flags=re.MULTILINE)
    assert shown == [f"op_{i}" for i in range(76, 100)]
    assert "and 76 more events of 28.5 µs together: profile.events" in text


def test_source_lines_carry_numbers_and_owners(trace: Trace) -> None:
    lines = static.kernel_text(trace.kernels[1]).splitlines()
    assert lines[0] == "conv_1   conv · 221 k FLOP · 32 KiB moved · 2 tasks"
    assert lines[4] == "   4  a        vec8 sum = {0};"
    assert lines[8] == "   8  b        sum = max8(sum, zero8);"
    assert lines[-2:] == ["  a = conv_1/main", "  b = conv_1/activation"]


def test_long_source_is_cut_and_says_so(trace: Trace) -> None:
    text = static.source_text(trace.kernels[1].source, limit=5)
    assert "and 7 more lines: source.lines" in text
    assert "max8" not in text
    html = static.source_html(trace.kernels[1].source, limit=5)
    assert "and 7 more lines: source.lines" in " ".join(read(html).text)


def test_a_schedule_is_a_ladder_of_steps(trace: Trace) -> None:
    lines = [line.split("  ") for line in static.schedule_text(trace.kernels[1]).splitlines()]
    rows = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert rows == [
        ["conv_1", "schedule of 6 steps"],
        ["step", "ops", "lines"],
        ["1.", "lower()", "14 ops", "14 lines"],
        ["2.", "split(loop = o, by = 8)", "15 ops (+1)", "+3 −1"],
        ["3.", "reorder(loops = o, y, c, x, o8)", "15 ops (=)", "="],
        ["4.", "accumulate(value = sum)", "17 ops (+2)", "="],
        ["5.", "vectorize(loop = o8, width = 8)", "17 ops (=)", "+2 −2"],
        ["6.", "parallel(loop = o)", "17 ops (=)", "+1 −1"],
    ]


def test_a_collapsed_graph_says_what_is_hidden(trace: Trace) -> None:
    words = " ".join(read(static.graph_html(trace.snapshots[0].graph, limit=10)).text)
    assert "15 of 21 operations stand in 4 blocks" in words
    assert "graph_html(graph, limit=21) shows each." in words


def test_graph_text_is_capped(trace: Trace) -> None:
    text = static.graph_text(trace.snapshots[0].graph, limit=3)
    assert text == (
        "21 operations\n"
        "  images    images                         1x3x16x16 f32\n"
        "  weight_1  w1                             16x3x3x3 f32\n"
        "  conv_1    conv 3x3  <- images, weight_1  1x16x16x16 f32\n"
        "  and 18 more: graph_text(graph, limit=...)"
    )


def test_dot_numbers_nodes_and_quotes_labels() -> None:
    nodes = (
        GraphNode(
            id="a:b",
            operation="top.relu",
            label="<b>x</b>",
            family="elementwise",
            shape='4 "f32',
            sources=(),
            device="cpu",
        ),
        GraphNode(
            id="c",
            operation="top.relu",
            label="relu",
            family="elementwise",
            shape="4 f32",
            sources=(),
            device="cpu",
        ),
    )
    dot = static.graph_dot(Graph(nodes, ()))
    assert r'n0 [label="<b>x</b> | a:b | 4 \"f32"' in dot
    assert "label=<" not in dot


def test_dot_needs_no_program_of_the_system(trace: Trace) -> None:
    dot = static.graph_dot(trace.snapshots[-1].graph)
    assert dot.startswith("digraph snapshot {")
    assert dot.count("->") == len(trace.snapshots[-1].graph.edges)


def test_a_comparison_shows_where_two_compilations_part(trace: Trace, fork: Trace) -> None:
    text = text_of(comparison(trace, fork), 100)
    rows = {line.split()[0]: line.split() for line in text.splitlines()[1:] if line}
    assert rows["operations"] == ["operations", "14", "18", "29%", "more"]
    assert rows["latency"] == ["latency", "122", "µs", "150", "µs", "23%", "more"]
    assert re.search(r"=  fold-batch-norm +✓ 17 ops +✓ 17 ops", text)
    assert re.search(r"≠  fuse-activation +✓ 14 ops +✓ 17 ops", text)
    assert "Decided otherwise" in text
    assert re.search(r"fuse-activation/\*/\* +– +false", text)


def test_a_comparison_shows_passes_that_only_one_has(trace: Trace) -> None:
    shorter = replace(
        trace,
        label="short",
        passes=trace.passes[:-1],
        snapshots=trace.snapshots[:-1],
        diffs=trace.diffs[:-1],
        memory=None,
    )
    text = text_of(comparison(trace, shorter), 100)
    assert re.search(r"≠  plan-memory +≈ 14 ops +–", text)
    assert re.search(r"peak memory +32 KiB +–", text)


def test_views_import_neither_panel_nor_bokeh_nor_the_compiler() -> None:
    code = (
        "import sys, explorer.views.static, explorer.views.drawing.layout\n"
        "bad = {'panel', 'bokeh', 'xdsl', 'onnx', 'numpy'} & set(sys.modules)\n"
        "print(sorted(bad))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_table_goes_on_below_itself_where_a_line_would_be_too_long(width):
    names = ", ".join(f"a-pass-{i}" for i in range(30))
    rows = [("·", f"unchanged: {names}", "12", "of this kind"), ("✓", "import", "3", names)]
    lines = columns(rows, ("", "pass", "ops", "why"), "nlrl", width=width)
    assert max(map(len, lines)) <= width
    words = Counter(word.strip(",") for line in lines for word in line.split())
    assert all(words[f"a-pass-{i}"] == 2 for i in range(30))
    assert max(map(len, columns(rows, align="nlrl"))) > 400


def test_the_picture_of_an_explorer_is_of_the_pass_that_it_opened_at(trace: Trace) -> None:
    html = saved_picture(trace, "fuse-add")["text/html"]
    assert "The graph after fuse-add." in html
    assert graph_html(trace.snapshots[6].graph) in html and trace.passes[6].name == "fuse-add"
    most = saved_picture(trace)["text/html"]
    assert "The graph after fold-batch-norm." in most
    assert saved_picture(trace, "no such pass")["text/html"] == most


def test_with_a_folder_for_pages_a_cell_shows_a_frame_with_an_offline_page(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[dict[str, str]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data))
    monkeypatch.setenv("EXPLORER_PAGES", str(tmp_path))
    explore(trace, height="400px", at={"pass": "fuse-add"})._ipython_display_()
    (page,) = tmp_path.iterdir()
    assert f'src="{tmp_path.name}/{page.name}"' in shown[0]["text/html"] and len(shown) == 1
    assert "height: 400px" in shown[0]["text/html"]
    text = page.read_text(encoding="utf-8")
    assert text == export_page(trace, at={"pass": "fuse-add"})
    assert text != export_page(trace)
