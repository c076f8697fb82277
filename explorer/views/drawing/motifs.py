"""What a group of operations is called: descriptions of the structures that networks are made of.

    x -> conv -> norm -> relu -> conv -> norm -> add       residual block
    |________________________________________^

A description asks which kinds of operations a region holds, what joins its branches and whether the
value that enters it is joined too. The first that fits gives the name, so that the special ones
stand before the general ones; `source` says where a structure comes from.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from explorer.results.graph import GraphNode

HEAVY = frozenset({"conv", "depthwise", "matmul", "recurrent", "attention"})
"""Kinds that do most of the work: what light operations follow belongs to them."""
WHOLE_LAYERS = frozenset({"recurrent", "attention"})
"""Kinds that name a group before others do: one such operation is what the group computes."""
_WORDS = (
    ("softmax", "softmax"),
    ("concat", "concat"),
    ("split", "slice"),
    ("slice", "slice"),
    ("resize", "resize"),
    ("upsample", "resize"),
    ("transpose", "transpose"),
    ("reshape", "reshape"),
    ("sigmoid", "sigmoid"),
    ("gather", "gather"),
    ("embedding", "gather"),
)


@dataclass(frozen=True, kw_only=True)
class Region:
    """What is known of a group of operations between two values."""

    kinds: Mapping[str, int]
    """How many operations of each kind are in it."""
    joined_by: str = ""
    """Kind of the operation in which its branches meet; empty where nothing branches."""
    is_skipped: bool = False
    """Whether what enters it goes straight into the operation in which the branches meet."""
    branches: int = 1
    """Branches with operations in them."""

    def count(self, *kinds: str) -> int:
        return sum(self.kinds.get(kind, 0) for kind in kinds)


@dataclass(frozen=True, kw_only=True)
class Motif:
    name: str
    source: str
    has: Mapping[str, int]
    """Least number of operations of a kind; `a|b` counts both kinds."""
    lacks: frozenset[str] = frozenset()
    joined_by: frozenset[str] = frozenset()
    """Kinds that may join the branches; empty where that does not matter."""
    is_skipped: bool | None = None
    least_branches: int = 1
    most_branches: int = 1000

    def fits(self, region: Region) -> bool:
        return (
            all(region.count(*kinds.split("|")) >= least for kinds, least in self.has.items())
            and not any(region.count(kind) for kind in self.lacks)
            and (not self.joined_by or region.joined_by in self.joined_by)
            and self.is_skipped in (None, region.is_skipped)
            and self.least_branches <= region.branches <= self.most_branches
        )


_ADD, _MUL, _CONCAT = frozenset({"add"}), frozenset({"mul"}), frozenset({"concat"})
MOTIFS = (
    Motif(
        name="transformer layer",
        source="Vaswani and others, Attention Is All You Need, 2017",
        has={"attention block": 1, "feed-forward block": 1},
    ),
    Motif(
        name="attention",
        source="Vaswani and others, Attention Is All You Need, 2017",
        has={"softmax": 1, "matmul": 2},
        lacks=frozenset({"recurrent"}),
    ),
    Motif(
        name="attention",
        source="Vaswani and others, Attention Is All You Need, 2017",
        has={"attention": 1},
    ),
    Motif(
        name="shuffle unit",
        source="Zhang and others, ShuffleNet, 2018; Ma and others, ShuffleNet V2, 2018",
        has={"depthwise": 1, "conv": 2, "reshape": 1, "transpose": 1},
        lacks=frozenset({"matmul", "softmax"}),
        joined_by=_ADD | _CONCAT,
    ),
    Motif(
        name="squeeze-excitation",
        source="Hu, Shen, Sun, Squeeze-and-Excitation Networks, 2018",
        has={"pooling|reduction": 1, "conv|matmul": 1},
        joined_by=_MUL,
        is_skipped=True,
    ),
    Motif(
        name="inverted residual",
        source="Sandler and others, MobileNetV2, 2018",
        has={"depthwise": 1, "conv": 1},
        joined_by=_ADD,
        is_skipped=True,
    ),
    Motif(
        name="feed-forward",
        source="Vaswani and others, Attention Is All You Need, 2017",
        has={"matmul": 2},
        lacks=frozenset({"conv", "depthwise", "recurrent"}),
        joined_by=_ADD,
        is_skipped=True,
    ),
    Motif(
        name="recurrent block",
        source="Elman, Finding Structure in Time, 1990",
        has={"recurrent": 1},
    ),
    Motif(
        name="residual block",
        source="He and others, Deep Residual Learning, 2016",
        has={"conv|depthwise|matmul": 1},
        joined_by=_ADD,
    ),
    Motif(
        name="dense layer",
        source="Huang and others, Densely Connected Convolutional Networks, 2017",
        has={"conv|depthwise": 1},
        joined_by=_CONCAT,
        is_skipped=True,
    ),
    Motif(
        name="pyramid pooling",
        source="He and others, Spatial Pyramid Pooling, 2015",
        has={"pooling": 2},
        lacks=HEAVY,
        joined_by=_CONCAT,
    ),
    Motif(
        name="inception module",
        source="Szegedy and others, Going Deeper with Convolutions, 2015",
        has={"conv|depthwise": 3, "pooling": 1},
        joined_by=_CONCAT,
        least_branches=3,
    ),
    Motif(
        name="fire module",
        source="Iandola and others, SqueezeNet, 2016",
        has={"conv": 2},
        lacks=frozenset({"depthwise", "pooling", "add", "branch block"}),
        joined_by=_CONCAT,
        least_branches=2,
    ),
    Motif(
        name="cross-stage block",
        source="Wang and others, CSPNet, 2020",
        has={"conv|depthwise": 3},
        lacks=frozenset({"matmul"}),
        joined_by=_CONCAT,
        least_branches=2,
        most_branches=2,
    ),
    Motif(
        name="gated block",
        source="Dauphin and others, Language Modeling with Gated Convolutional Networks, 2017",
        has={"conv|depthwise|matmul": 1},
        joined_by=_MUL,
    ),
    Motif(
        name="branches",
        source="",
        has={"conv|depthwise|matmul|recurrent|attention": 1},
    ),
)


def name_of(region: Region) -> str:
    """The name of the first motif that fits; empty where none does."""
    return next((motif.name for motif in MOTIFS if motif.fits(region)), "")


def kind_of(node: GraphNode) -> str:
    """What an operation is for the descriptions: `conv`, `depthwise`, `add`, or its family."""
    kind = _kind(node.label.lower(), node.family)
    is_single = kind in ("conv", "matmul") and node.family == "convolution"
    return "depthwise" if is_single and _is_depthwise(node) else kind


@lru_cache(maxsize=4096)
def _kind(label: str, family: str) -> str:
    if family == "recurrent":
        return "recurrent"
    if "attention" in label:
        return "attention"
    if family == "convolution":
        if "depthwise" in label:
            return "depthwise"
        return "conv" if "conv" in label else "matmul"
    first = re.split(r"[ +(]", label)[0]
    if first in ("add", "sub", "mul", "div"):
        return first
    return next((kind for word, kind in _WORDS if word in label), family)


def _is_depthwise(node: GraphNode) -> bool:
    """One group for each of its output channels, of a file's own convolution."""
    groups = dict(node.attributes).get("group", "1")
    sizes = node.shape.split(" ")[0].split("x")
    return groups != "1" and len(sizes) > 2 and sizes[1] == groups


def content_name(labels: Sequence[str], most: int = 3) -> str:
    """What a group without a motif is called: its most frequent operations.

    conv 3x3, relu, conv 3x3, relu, add  ->  "conv 3x3, relu, add"
    """
    return ", ".join(name for name, _ in Counter(labels).most_common(most))
