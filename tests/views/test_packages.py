"""The view of packages: targets, the flash as a treemap, the arena's map."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import explorer
from explorer.results import (
    PackageBuffer,
    PackageBuild,
    PackageLayer,
    PackageRecord,
    PackagesRecord,
)
from explorer.views.catalog.packages import Tile, packages, squarified
from explorer.views.renderers.html import html_of, svg_of
from explorer.views.renderers.text import text_of

BOX = (0.0, 0.0, 760.0, 220.0)

RECORD = PackageRecord(
    name="net",
    model="net",
    target="cortex-m4",
    files=(),
    arena_bytes=96,
    weights_bytes=700,
    layers=(
        PackageLayer(
            name="conv",
            kernel="conv_1",
            nodes=("/conv",),
            operations=900,
            weights_bytes=600,
            code_bytes=80,
        ),
        PackageLayer(
            name="dense<b>",
            kernel="matmul_1",
            nodes=(),
            operations=200,
            weights_bytes=100,
            code_bytes=20,
        ),
    ),
    buffers=(
        PackageBuffer(name="a", offset_bytes=0, size_bytes=64, first=0, last=1),
        PackageBuffer(name="b", offset_bytes=64, size_bytes=32, first=0, last=2),
    ),
    build=PackageBuild(compiler="cc", code_bytes=120, passed=True, instructions=4000),
)


@pytest.fixture(scope="module")
def trace():
    model = "sample_models/digits_mlp.onnx"
    compiled = explorer.compile(model)
    found = compiled.trace(with_code=False)
    return replace(found, parts={"packages": PackagesRecord((RECORD,))})


@pytest.mark.parametrize("seed", range(5))
def test_tiles_fill_the_map_by_their_bytes_and_never_overlap(seed):
    drawn = random.Random(seed)
    sizes = sorted((drawn.randint(1, 10 ** drawn.randint(1, 6)) for _ in range(30)), reverse=True)
    found = squarified([Tile(str(n), "weights", size) for n, size in enumerate(sizes)], BOX)
    area = BOX[2] * BOX[3] / sum(sizes)
    for tile, size in zip(found, sizes, strict=True):
        x, y, width, height = tile.box
        assert width * height == pytest.approx(area * size, rel=1e-6)
        assert x >= -1e-6 and y >= -1e-6
        assert x + width <= BOX[2] + 1e-6 and y + height <= BOX[3] + 1e-6
    for number, one in enumerate(found):
        for other in found[number + 1 :]:
            assert _overlap(one.box, other.box) < 1e-3


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    return max(width, 0.0) * max(height, 0.0)


def test_equal_tiles_are_nearly_square():
    found = squarified([Tile(str(n), "weights", 5) for n in range(12)], (0.0, 0.0, 400.0, 300.0))
    assert all(0.5 < tile.box[2] / tile.box[3] < 2 for tile in found)


def test_text_and_html_have_targets_layers_and_places(trace):
    found = packages(trace)
    text = text_of(found, 120)
    for word in ("cortex-m4", "passed", "4,000", "conv: 600 B of weights", "dense<b>"):
        assert word in text
    html = html_of(found)
    assert "dense&lt;b&gt;" in html and "dense<b>" not in html
    _, flash, _, arena, _ = found.parts[1].parts
    assert "▦ conv 600 B</text>" in svg_of(flash) and ">a</text>" in svg_of(arena)
    titles = [getattr(mark, "title", "") for chart in (flash, arena) for mark in chart.marks]
    assert "dense<b>: 100 bytes of weights" in titles
    assert "a: 64 bytes from 0, launches 0 to 1" in titles


def test_a_package_without_weights_or_buffers_is_words(trace):
    empty = replace(RECORD, layers=(), buffers=(), build=PackageBuild(note="no compiler"))
    found = packages(replace(trace, parts={"packages": PackagesRecord((empty,))}))
    text = text_of(found, 120)
    assert "No layer has weights" in text and "no buffer" in text and "no compiler" in text


def test_a_compilation_remembers_its_packages(tmp_path):
    compiled = explorer.compile("sample_models/digits_mlp.onnx")
    with pytest.raises(explorer.ExplorerError, match="package"):
        compiled.view("packages")
    compiled.package(tmp_path / "out")
    saved = compiled.save(tmp_path / "trace.nnx")
    for text in (str(compiled.view("packages")), str(explorer.open(saved).view("packages"))):
        assert "digits_mlp for cpu" in text and "not run" in text
