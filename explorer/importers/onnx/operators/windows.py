"""Windows of nodes that slide over spatial axes: what convolutions and pools have in common.

Conv <auto_pad = "SAME_UPPER", strides = [2, 2]>     pads = (0, 0, 1, 1)
MaxPool <ceil_mode = 1>                              one more row and column at the end
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.importers.building.expr import Expr
from explorer.importers.building.windows import Window, same
from explorer.importers.onnx.program.nodes import Node, Unsupported


def window_of(node: Node, x: Expr, sizes: Sequence[int]) -> Window:
    """The node's window over x (N, C, spatial...), `auto_pad` resolved."""
    return padded(node, x, sizes, None)[1]


def padded(node: Node, x: Expr, sizes: Sequence[int], fill: float | None) -> tuple[Expr, Window]:
    """x (N, C, spatial...) and the node's window over it, `auto_pad` resolved.

    fill: of what x may be padded, where the size of a call decides how far the window reaches.
    """
    rank = x.rank - 2
    if not 1 <= rank <= 3:
        raise Unsupported(f"{rank} spatial dimensions; 1 to 3 are supported")
    ones = (1,) * rank
    strides, dilations = node.integers("strides") or ones, node.integers("dilations") or ones
    pads = node.integers("pads") or (0,) * (2 * rank)
    stated = node.integers("kernel_shape")
    if stated is not None and stated != tuple(sizes):
        raise ValueError(f"kernel_shape is {list(stated)}, but the weight's is {list(sizes)}")
    if {len(sizes), len(strides), len(dilations), len(pads) / 2} != {rank}:
        raise ValueError(
            f"window {list(sizes)}, strides {list(strides)}, dilations {list(dilations)} and pads "
            f"{list(pads)} do not fit {rank} spatial dimensions"
        )
    if min(*strides, *dilations, *sizes) < 1:
        raise ValueError("sizes, strides and dilations of a window are at least 1")
    window = Window(tuple(sizes), strides, dilations, pads[:rank], pads[rank:])
    if min(pads) < 0:
        raise Unsupported(f"negative pads {list(pads)}")
    automatic = node.text("auto_pad", "NOTSET")
    if automatic in ("NOTSET", ""):
        return x, window
    window = replace(window, begins=(0,) * rank, ends=(0,) * rank)
    if automatic == "VALID":
        return x, window
    if automatic not in ("SAME_UPPER", "SAME_LOWER"):
        raise Unsupported(f"auto_pad {automatic!r}")
    return same(x, window, automatic == "SAME_UPPER", fill)
