"""Levers as the page draws them: see js/desk/levers.js.

{"quantity": "peak_bytes", "value": 512576, "valueSource": "memory plan", "rises": false,
 "levers": [{"address": ..., "options": [{"value": ..., "decisions": [[address, value]],
             "change": -147456, "also": ""}], ...}],
 "fixed": [["inputs and outputs", "the caller holds them"]]}
"""

from __future__ import annotations

from explorer.results.levers import RISES, UNITS, LeverRecord, LeversRecord
from explorer.views.payload.measures import number
from explorer.views.payload.text import Json

MAX_LEVERS = 60
MAX_OPTIONS = 12
"""Values of one lever that travel, the most helpful first."""


def levers_payload(record: LeversRecord) -> Json:
    """The first levers; `total` says how many there are."""
    return {
        "quantity": record.quantity,
        "unit": UNITS[record.quantity],
        "rises": record.quantity in RISES,
        "value": None if record.value is None else number(record.value),
        "valueSource": record.value_source,
        "levers": [lever_payload(lever) for lever in record.levers[:MAX_LEVERS]],
        "total": len(record.levers),
        "fixed": [list(pair) for pair in record.fixed],
    }


def lever_payload(lever: LeverRecord) -> Json:
    return {
        "address": lever.address,
        "group": lever.group,
        "of": lever.of,
        "title": lever.title,
        "value": lever.value,
        "source": lever.source,
        "why": lever.why,
        "unpredicted": lever.unpredicted,
        "onDemand": lever.on_demand,
        "layers": list(lever.layers),
        "commands": list(lever.commands),
        "total": len(lever.options),
        "options": [
            {
                "value": option.value,
                "decisions": [list(pair) for pair in option.decisions],
                "change": None if option.change is None else number(option.change),
                "also": option.also,
            }
            for option in lever.options[:MAX_OPTIONS]
        ],
    }
