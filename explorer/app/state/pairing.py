"""Models of two files that a page sends: each waits for the other, in either order.

    iter_10.caffemodel arrives      it waits, and the page says for what
    deploy.prototxt arrives         both become one model, which is opened: [PairUploads(...)]

A net without its weights is opened as it is, with what they would say marked as missing; weights
that arrive behind it make another model of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePath

from explorer.app.catalog import Choice
from explorer.app.state.messages import Effect, PairUploads, RemoveUpload
from explorer.app.state.page_state import PageState
from explorer.app.uploads import Upload
from explorer.importers.format import layers_suffix_for

MAX_WAITING = 4
Paired = tuple[Choice, list[Effect]]
"""The model of both files, and what makes it one."""


def is_of_weights(upload: Upload) -> bool:
    """Whether it is but the weights of a model of two files."""
    return bool(layers_suffix_for(upload.path))


def net_for(state: PageState, weights: Upload) -> Choice | None:
    """The open net of the weights' name, or else the one that is looked at; None for weights whose
    layers are on their way."""
    if weights.partner:
        return None
    nets = list(_nets(state, layers_suffix_for(weights.path)))
    alike = [choice for choice in nets if _is_alike(choice.label, weights.label)]
    shown = [choice for choice in nets if choice.path == state.wanted.path]
    return next(iter([*alike, *shown]), None)


def is_bare(state: PageState, net: Choice) -> bool:
    """Whether a net that the page sent lacks something: with its weights it is another model."""
    branches = state.of_path(net.path)
    reasons = [branch.trace.head.get("problems", {}).get("reasons") for branch in branches]
    return net.is_upload and (not branches or any(reasons))


def paired(layers: Path, label: str, weights: Upload) -> Paired:
    """Both lie under the weights' name, where whoever reads the one finds the other."""
    path = weights.path.with_suffix(layers.suffix)
    label = label.partition(" + ")[0]
    if not _is_alike(label, weights.label):
        label = f"{label} + {weights.label}"
    choice = Choice(f"upload {path.stem}", label, str(path), is_upload=True)
    return choice, [PairUploads(layers, weights.path)]


def weights_wait(state: PageState, weights: Upload) -> tuple[PageState, list[Effect]]:
    """They are kept until their layers arrive."""
    waiting = (*(w for w in state.waiting if w.label != weights.label), weights)
    dropped = [w for w in state.waiting if w not in waiting] + [*waiting[:-MAX_WAITING]]
    state = replace(state, waiting=waiting[-MAX_WAITING:])
    if not weights.partner:
        missing = f"the file with its layers ({layers_suffix_for(weights.path)})"
        state = lacking(state, weights, "holds weights alone", missing)
    return state, [RemoveUpload(w.path) for w in dropped]


def lacking(state: PageState, upload: Upload, what: str, missing: str) -> PageState:
    """Says that the other file of a model is missing."""
    return replace(state, missing=f"{upload.label!r} {what}: drop {missing} on this page, too")


def without_waiting(state: PageState, weights: Upload) -> PageState:
    return replace(state, waiting=tuple(w for w in state.waiting if w != weights), missing="")


def weights_for(state: PageState, layers: Upload) -> Upload | None:
    """Weights that wait for these layers."""
    suffix = layers.path.suffix
    fitting = [w for w in state.waiting if layers_suffix_for(w.path) == suffix]
    named = [w for w in fitting if w.partner == layers.label]
    alike = [w for w in fitting if not w.partner and _is_alike(w.label, layers.label)]
    free = [w for w in fitting if not w.partner]
    return next(iter([*named, *alike, *reversed(free)]), None)


def _nets(state: PageState, suffix: str) -> Iterator[Choice]:
    """Those that are open."""
    open_paths = {*state.open_paths, state.wanted.path}
    for choice in state.choices:
        if choice.path in open_paths and PurePath(choice.path).suffix.lower() == suffix:
            yield choice


def _is_alike(label: str, other: str) -> bool:
    return PurePath(label).stem == PurePath(other).stem
