"""Layers for which the same tiles are found: what a search depends on, without numbers but for
what weights take where they are coded.

found = SearchedLayers(machine)
found.of(layer)          searched once for all layers that are cut alike
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.layer import Layer, LayerError
from explorer.npu.layers.partition import Pieces
from explorer.npu.program.compiling import as_computed, tile_as
from explorer.npu.program.ir_layers import tiles_of
from explorer.npu.program.requirements import vector_passes
from explorer.npu.search.searching import Found, Search, search_layer
from explorer.npu.tiling.convolution import constants_per_block, cuttable
from explorer.targets.npu.machine import Machine


def key_of(layer: Layer, machine: Machine) -> Hashable | None:
    """Equal for layers with tiles of equal cycles; None of those that are always searched."""
    if isinstance(layer, Pieces):
        return None
    try:
        found = as_computed(layer, machine)
    except LayerError:
        return None
    if not isinstance(found, Convolution):
        return None
    cut = cuttable(found, machine)
    repeated = None
    if cut.repeated is not None:
        repeated = digest(cut.repeated.index, cut.repeated.elements)
    return (
        found.input_shape, found.weights.shape, found.strides, found.dilations, found.pads,
        found.groups, found.parts, found.reads, found.placement, found.within,
        found.output.is_wide, found.moved is None, vector_passes(found, machine),
        constants_per_block(found, machine), cut.bands, repeated, found.combined,
        found.combined_side, None if cut.coding is None else digest(cut.coding.sums),
    )  # fmt: skip


def digest(*arrays: np.ndarray) -> str:
    """Of numbers and shapes."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(repr((array.shape, str(array.dtype))).encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


class SearchedLayers:
    """What was searched for the layers of one machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._found: dict[Hashable, Found] = {}

    def of(self, layer: Layer, effort: Search = "fast") -> Found:
        """Raises `LayerError` where no tiles fit."""
        key = key_of(layer, self.machine)
        known = self._found.get((key, effort))
        if key is None or known is None or known.record is None:
            found = search_layer(layer, self.machine, effort)
            if key is not None:
                self._found[key, effort] = found
            return found
        tiled = tile_as(layer, self.machine, tiles_of(known.tiled))
        record = replace(known.record, layer=layer.name, seconds=0.0)
        return replace(known, tiled=tiled, record=record)

    def clear(self) -> None:
        self._found.clear()
