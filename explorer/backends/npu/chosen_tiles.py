"""The tiles of each layer: those of a search, or those that decisions say.

    tile-layers/search                "none", "fast" or "full"
    tile-layers/conv1/rows            7; what is not given is searched for
    tile-layers/conv1.0/rows          of the first of several layers that compute an operation

A decision outside of what is legal is refused with the reason, and so is a point that is too large.
"""

from __future__ import annotations

from explorer.backends.npu.saved_searches import SavedSearches
from explorer.errors import InputError
from explorer.ir.rewriting import RewriteOptions
from explorer.npu.layers.layer import Layer, LayerError
from explorer.npu.program.compiling import CHOICES, Choices
from explorer.npu.program.ir_layers import tiles_of
from explorer.npu.search.equal import key_of
from explorer.npu.search.legal import legal_choices, listed, require_legal
from explorer.npu.search.searching import (
    SEARCHES,
    Found,
    Search,
    SearchRecord,
    search_layer,
)
from explorer.results import Knob
from explorer.results.decisions import SEARCH, TILES
from explorer.results.names import suggestion
from explorer.targets.npu.machine import Machine

DEFAULT: Search = "fast"


class ChosenTiles:
    """What was chosen for the layers of one compilation."""

    def __init__(self, machine: Machine, options: RewriteOptions, pass_name: str = TILES) -> None:
        """`pass_name`: what addresses of choices begin with."""
        self.machine, self.options, self.pass_name = machine, options, pass_name
        self.effort: Search = self._effort()
        self.records: list[SearchRecord] = []
        self.saved = SavedSearches()
        why = (
            "how many tiles of each layer are tried: the rule, a few by estimates, or all by bounds"
        )
        self.knobs: list[Knob] = [Knob(SEARCH, self.effort, SEARCHES, why)]

    def _effort(self) -> Search:
        given = self.options.decision(SEARCH)
        for one in SEARCHES:
            if given in (None, one):
                return DEFAULT if given is None else one
        raise InputError(
            f"{SEARCH} is {given!r}, expected {', '.join(SEARCHES)}"
            f"{suggestion(str(given), SEARCHES)}"
        )

    def of(self, name: str, layer: Layer, known: Found) -> Found:
        """The tiles of a layer; `known`: those of a fast search. `LayerError` for decisions that
        are not legal."""
        kind = type(known.tiled)
        given = {
            choice: value
            for choice in CHOICES[kind]
            if (value := self.options.decision(f"{self.pass_name}/{name}/{choice}")) is not None
        }
        found = known
        if given or self.effort != DEFAULT:
            try:
                fixed = require_legal(layer, self.machine, given)
                found = self._searched(layer, fixed)
            except LayerError as error:
                if not given:
                    raise
                raise InputError(f"{self.pass_name}/{name}: {error.message}") from error
        if found.record is not None:
            self.records.append(found.record)
        self._describe(name, layer, found, given)
        return found

    def _searched(self, layer: Layer, fixed: Choices) -> Found:
        """What is not given is searched for; full searches are kept, and found again."""
        key = None
        if self.effort == "full" and not fixed:
            key = key_of(layer, self.machine)
        if key is not None and (kept := self.saved.find(key, layer, self.machine)) is not None:
            return kept
        found = search_layer(layer, self.machine, self.effort, fixed)
        if key is not None:
            self.saved.keep(key, self.machine, found)
        return found

    def _describe(self, name: str, layer: Layer, found: Found, given: dict[str, object]) -> None:
        """Its knobs."""
        chosen, record = tiles_of(found.tiled), found.record
        why = "the rule: the fewest bytes that are loaded"
        if record is not None:
            why = f"{record.cycles:,} cycles by itself, at least {record.bound:,} in any tiles"
        for choice, values in legal_choices(layer, self.machine).items():
            because = f"an override; {why}" if choice in given else why
            address = f"{self.pass_name}/{name}/{choice}"
            self.knobs.append(Knob(address, chosen[choice], listed(values), because))
