"""A page's state as the page reads it (js/branches/session.js).

session_json(state)    ->   {"models": [...], "branches": [...], "status": "idle", ...}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from explorer.app.branches import MAX_COMPARED, Branch
from explorer.app.catalog import Choice, offered_suffixes
from explorer.app.decisions import METHODS, settings_of
from explorer.app.protocol import MAX_EDIT_WORDS
from explorer.app.state.dialog import dialog_json
from explorer.app.state.page_state import PageState
from explorer.app.uploads import DATA_SUFFIXES, SWEEP_SUFFIX, UPLOAD_LIMIT_BYTES
from explorer.importers.format import pairs
from explorer.results.decisions import TARGET, label_of, words


def searches_json(state: PageState) -> list[dict[str, Any]]:
    """The searches; they travel apart from the rest."""
    return [search.session(state.branches) for search in state.searches]


def session_json(state: PageState) -> dict[str, Any]:
    """What drives the controls; the branch that is looked at drives everything else."""
    branch, progress, error = state.branch, state.progress, state.error
    request = branch.request if branch else state.wanted
    return {
        "models": [_model(state, choice) for choice in state.choices],
        "targets": list(state.targets),
        "model": _key(state, request.path),
        "isTrace": request.is_trace,
        "optional": list(branch.trace.optional) if branch else [],
        "settings": settings_of(request),
        "switchedOff": list(request.disable),
        "switchedOffAfter": places_of_disabled(state) if branch else {},
        "wanted": {**settings_of(state.wanted), "model": _key(state, state.wanted.path)},
        "edited": list(state.wanted.edit),
        "status": state.status,
        "progress": None
        if progress is None
        else {
            "stage": progress.stage,
            "name": progress.name,
            "index": progress.index,
            "total": progress.total,
        },
        "error": None
        if error is None
        else {
            "what": error.what,
            "where": error.where,
            "advice": error.advice,
            "line": error.line,
            "remedy": None if error.remedy is None else list(error.remedy),
        },
        "notice": state.notice,
        "missing": state.missing,
        "branches": [_branch(state, b) for b in state.branches],
        "branch": "" if state.is_reading else state.current,
        "workspace": state.workspace,
        "looks": dict(state.looks),
        "place": state.place,
        "points": [point.words for point in state.points],
        "at": state.at,
        "pending": branch.pending if branch else [],
        "bisection": None
        if branch is None or branch.bisection is None
        else {
            "pass": branch.bisection.pass_name,
            "rule": branch.bisection.rule,
            "operation": branch.bisection.operation,
            "address": branch.bisection.address,
        },
        "isBisecting": branch is not None and branch.is_bisecting,
        "upload": None
        if state.upload is None
        else {
            "name": state.upload.label,
            "received": state.upload.received,
            "parts": state.upload.parts,
        },
        "pair": [_key(state, path) for path in state.pair],
        "dialog": dialog_json(state.dialog),
        "data": [name for name, _ in state.data.get(request.path, ())],
        "calibrations": list(METHODS),
        "valueSuffixes": list(DATA_SUFFIXES),
        "refusals": state.refusals,
        "uploadLimit": UPLOAD_LIMIT_BYTES,
        "suffixes": list(offered_suffixes()),
        "sweepSuffix": SWEEP_SUFFIX,
        "pairs": [list(pair) for pair in pairs()],
        "mostCompared": MAX_COMPARED,
        "turns": [turns.session() for turns in state.turns],
    }


def places_of_disabled(state: PageState) -> dict[str, str]:
    """For each pass that is switched off, the one behind which it stood, as other branches of the
    model have it. A pass that none of them has is left out."""
    branch = state.branch
    if branch is None:
        return {}
    present = set(branch.pass_names)
    places: dict[str, str] = {}
    for name in branch.request.disable:
        for other in state.of_path(branch.request.path):
            order = other.pass_names
            if name in order:
                before = [n for n in order[: order.index(name)] if n in present]
                places[name] = before[-1] if before else ""
                break
    return places


NUMBERS = ("weights", "counted", "againstFloat", "task", "bitExact", "data", "seconds")
"""Of a branch's summary, besides peak and latency: what the table of tries shows."""


def _from_parent(state: PageState, branch: Branch) -> str:
    """What a branch decides otherwise than the one that it was forked from, in words."""
    parent = state.named(branch.parent)
    if parent is None:
        return ""
    before, now = parent.request, branch.request
    parts = [label_of(now.values, before.values)]
    if now.target != before.target:
        parts.append(words(TARGET, now.target))
    if now.model_edits != before.model_edits:
        known = before.model_edits
        parts += [text[:MAX_EDIT_WORDS] for text in now.model_edits if text not in known]
        parts += [f"without {t[:MAX_EDIT_WORDS]}" for t in known if t not in now.model_edits]
    if now.quantize != before.quantize:
        parts.append(f"quantized by {now.quantize[0]}" if now.quantize else "not quantized")
    if now.edit != before.edit:
        parts.append(f"edited after {now.edit[0]}" if now.edit else "not edited")
    if now.path != before.path:
        choice = state.choice(now.path)
        parts.append("" if choice is None else choice.label)
    return ", ".join(part for part in parts if part) or "nothing"


def _key(state: PageState, path: str) -> str:
    choice = state.choice(path)
    return choice.key if choice else ""


def _model(state: PageState, choice: Choice) -> dict[str, Any]:
    is_opening = state.status == "working" and state.wanted.path == choice.path
    return {
        "key": choice.key,
        "label": choice.label,
        "kind": choice.kind,
        "isUpload": choice.is_upload,
        "isOpen": bool(state.of_path(choice.path)) or is_opening,
    }


def _branch(state: PageState, branch: Branch) -> dict[str, Any]:
    return {
        "key": branch.key,
        "model": _key(state, branch.request.path),
        "label": state.label(branch),
        "fullLabel": state.full_label(branch),
        "stages": len(branch.trace.stages),
        "verdict": branch.trace.head["summary"]["verdict"],
        "peak": branch.trace.head["summary"].get("peak"),
        "milliseconds": branch.trace.head["summary"].get("milliseconds"),
        "decided": state.decided(branch),
        "name": branch.name,
        "note": branch.note,
        "parent": branch.parent,
        "differs": _from_parent(state, branch),
        "numbers": {name: branch.trace.head["summary"].get(name) for name in NUMBERS},
        "isAsleep": branch.is_asleep,
        "isPending": bool(branch.pending) and not branch.is_asleep,
        "settings": settings_of(branch.request),
        "elements": elements_of(branch.trace.head.get("model", {})),
    }


def elements_of(model: Mapping[str, Any]) -> list[int]:
    """Elements of the inputs, then of the outputs, each sorted: what two files of one network have
    in common, whatever their layouts and types. Sizes without a number count as one."""
    found: list[int] = []
    for name in ("inputs", "outputs"):
        shapes = [str(described).split(" ")[0] for _, described in model.get(name, ())]
        sizes = ([int(size) for size in shape.split("x") if size.isdigit()] for shape in shapes)
        found += sorted(math.prod(own) for own in sizes)
    return found
