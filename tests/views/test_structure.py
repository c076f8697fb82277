"""Structure that is found where names say nothing: every motif, nested, repeated, counted."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx.backend.test
import pytest

import explorer
from explorer.results import Graph
from explorer.views.drawing.blocks import ROOT, BlockTree, build_blocks, level_graphs
from explorer.views.drawing.regions import find_regions
from explorer.views.drawing.rows import MAX_UNITS

SAMPLES = sorted(Path("sample_models").glob("*.onnx"))
LIGHT = sorted((Path(onnx.backend.test.__file__).parent / "data" / "light").glob("*.onnx"))
IMAGE = "1x16x32x32 f32"


@pytest.fixture
def net(module_of_tests: Callable[[str], ModuleType]) -> Any:
    return module_of_tests("views/networks.py").Network()


def inside(tree: BlockTree, block: int) -> list[str]:
    names = titles(tree)
    return [names[i] for i, b in enumerate(tree.blocks) if b.parent == block and i]


def titles(tree: BlockTree) -> list[str]:
    """Every block by its name and what it is a row of: `stage 1: 2 × residual block`."""
    return [f"{b.label}: {b.holds}" if b.holds else b.label for b in tree.blocks]


def outline(graph: Graph) -> dict[str, list[str]]:
    """What blocks stand in the program and in each of its blocks, those of operations left out."""
    tree = build_blocks([graph])
    found = {title: inside(tree, i) for i, title in enumerate(titles(tree))}
    return {label: parts for label, parts in found.items() if parts}


def test_regions_between_two_operations_nest():
    """0 -> 1 -> (2 -> (3 | 4) -> 5 | .) -> 6"""
    regions = find_regions([[], [0], [1], [2], [2], [3, 4], [5, 1]])
    assert regions.chains == ((0, 1, 6), (2, 5), (3,), (4,))
    assert regions.inside == {1: [1], 2: [2, 3]}
    assert regions.outermost == (0,)


def test_what_leaves_a_region_on_another_way_is_no_part_of_it():
    regions = find_regions([[], [0], [1], [1], [2]])
    assert regions.chains == ((0, 1), (2, 4), (3,))
    assert regions.inside == {}


def test_residual_blocks_of_one_resolution_are_a_stage(net: Any):
    x = net.conv(net.conv(net.input(IMAGE)), "16x32x32")
    for sizes in ("", "", "32x16x16", "", "", "64x8x8", ""):
        x = net.residual(x, sizes)
    x = net.add("matmul", net.add("reshape", net.add("average pool 8x8", x), shape="1x64 f32"))
    net.output(net.add("softmax", x))
    assert outline(net.graph()) == {
        "": [
            "stem",
            "stage 1: 2 × residual block",
            "stage 2: 3 × residual block",
            "stage 3: 2 × residual block",
            "head",
        ],
        "stage 1: 2 × residual block": ["residual block 1", "residual block 2"],
        "stage 2: 3 × residual block": [f"residual block {i}" for i in (3, 4, 5)],
        "stage 3: 2 × residual block": ["residual block 6", "residual block 7"],
    }


def test_blocks_that_are_built_alike_know_the_first_of_them(net: Any):
    x = net.conv(net.input(IMAGE), "16x32x32")
    for sizes in ("", "", "32x16x16", ""):
        x = net.residual(x, sizes)
    tree = build_blocks([net.graph()])
    blocks = [i for i, b in enumerate(tree.blocks) if b.label.startswith("residual block")]
    first, second, projecting, last = (tree.blocks[i].alike for i in blocks)
    assert first == second == last == blocks[0]
    assert projecting == blocks[2]


def test_inverted_residuals_have_a_name_with_a_skip_and_without(net: Any):
    x = net.conv(net.input(IMAGE), "16x32x32")
    for sizes in ("8x16x16", "", "8x8x8", ""):
        x = net.inverted(x, sizes)
    assert outline(net.graph())[""] == [f"inverted residual {i}" for i in (1, 2, 3, 4)]


def test_squeeze_excitation_is_nested_in_its_block(net: Any):
    x = net.conv(net.input(IMAGE), "16x32x32")
    for _ in range(2):
        x = net.inverted(x, squeezed=True)
    names = outline(net.graph())
    assert names["inverted residual 1"] == ["squeeze-excitation 1"]


def test_attention_and_feed_forward_are_a_layer_and_layers_are_counted(net: Any):
    x = net.add("gather", net.input("1x8 i64"), shape="1x8x8 f32")
    mask = net.add("mul", net.add("cast", net.input("1x8 i64"), shape="1x1x1x8 f32"))
    for _ in range(16):
        x = net.feed_forward(net.attention(x, mask))
    net.output(net.add("matmul", net.add("tanh", net.add("matmul", x))))
    tree = build_blocks([net.graph()])
    assert "16 × transformer layer" in inside(tree, ROOT)
    row = next(i for i, b in enumerate(tree.blocks) if b.label == "16 × transformer layer")
    assert inside(tree, row) == [f"transformer layer {i}" for i in range(1, 17)]
    assert inside(tree, row + 1) == ["attention 1", "feed-forward 1"]
    assert len({b.alike for b in tree.blocks if b.label.startswith("attention")}) == 1
    assert tree.of[mask] == row  # it serves all layers and is a part of none


def test_what_a_layer_gives_out_beside_its_result_divides_no_layer(net: Any):
    """The keys and values of a language model, which come in and go out in every layer."""
    x = net.add("gather", net.input("1x8 i64"), shape="1x8x8 f32")
    for _ in range(4):
        past = net.add("gather", net.input("2x1x8x8 f32"), shape="1x8x8 f32")
        key = net.add("concat", past, net.add("matmul", x))
        net.output(net.add("reshape", key))
        x = net.feed_forward(net.attention(x, key))
    net.output(net.add("softmax", net.add("matmul", x)))
    tree = build_blocks([net.graph()])
    layers = [name for name in inside(tree, ROOT) if name.startswith("transformer layer")]
    assert layers == [f"transformer layer {i}" for i in (1, 2, 3, 4)]


@pytest.mark.parametrize("name", ["fire", "inception", "dense"])
def test_modules_that_join_by_concat_are_named(net: Any, name: str):
    title = {"fire": "fire module", "inception": "inception module", "dense": "dense layer"}[name]
    x = net.conv(net.input(IMAGE), "16x32x32")
    for _ in range(3):
        x = getattr(net, name)(x)
    net.output(net.conv(net.conv(x)))
    tree = build_blocks([net.graph()])
    assert inside(tree, ROOT)[:3] == [f"{title} {i}" for i in (1, 2, 3)]
    branches = ["branch 1", "branch 2"] if name == "inception" else []
    assert [b for b in inside(tree, 1) if b.startswith("branch")] == branches[:1] or branches


def test_ways_to_several_outputs_are_heads(net: Any):
    x = net.conv(net.input(IMAGE), "16x32x32")
    for _ in range(4):
        x = net.conv(net.conv(x))
    for _ in range(2):
        net.output(net.conv(net.conv(net.conv(x))))
    assert [name for name in outline(net.graph())[""] if "head" in name] == ["head 1", "head 2"]


def test_a_long_chain_without_a_motif_is_named_by_what_is_in_it(net: Any):
    x = net.input("1x4 f32")
    for _ in range(60):
        x = net.add("tanh", net.add("matmul", x))
    for _ in range(60):
        x = net.add("sin", x)
    tree = build_blocks([net.graph()])
    assert inside(tree, ROOT) == [f"matmul, tanh {i}" for i in range(1, 11)]
    assert tree.of[x] == ROOT


def test_5000_operations_without_names_are_blocks_that_can_be_looked_at(net: Any):
    x = net.conv(net.input(IMAGE), "16x32x32")
    for _ in range(900):
        x = net.residual(x)
    graph = net.graph()
    tree = build_blocks([graph])
    sizes = {block: len(level.nodes) for block, level in level_graphs(graph, tree).items()}
    assert max(sizes.values()) <= MAX_UNITS + 2
    names = titles(tree)
    assert "residual block 900" in names
    assert {"section 1: 48 × residual block", "900 × residual block"} < set(names)


def is_only_numbered(label: str) -> bool:
    """`3`, `1–48`, `ops 1-48`, `part 3 of 9`."""
    return not re.search(r"[^\W\d_]", re.sub(r"\b(ops?|operations|nodes|parts?|of)\b", "", label))


@pytest.mark.parametrize("path", [*SAMPLES, *LIGHT], ids=lambda path: path.stem)
def test_no_block_of_a_real_model_is_named_by_a_number_or_a_range(path: Path):
    graph = explorer.inspect(path).source.graph
    tree = build_blocks([graph])
    names = [block.label for block in tree.blocks[1:]]
    assert not [name for name in names if is_only_numbered(name)]
    assert not [n for n, count in Counter(zip([b.parent for b in tree.blocks], ["", *names],
                                              strict=True)).items() if count > 1]  # fmt: skip
    assert names or len(graph.nodes) < 40
