"""The explorer as one HTML file that works offline: the module and all chunks are inside.

    export_page(trace) -> "<!doctype html> ... <script type="application/json"> ... "

The data stand in a script element that no browser executes. `<`, `>`, `&` and the two line
separators that end a JavaScript line are written as escapes, so that no name of a model can close
the element (HTML, 4.12.1.3, "Restrictions for contents of script elements").
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from explorer.results import Trace
from explorer.results.overlays import Overlay
from explorer.views.module import explorer_module
from explorer.views.payload.text import Json
from explorer.views.trace_payload import encode, trace_payload

CONTENT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
"""The page may run its own script and may not load anything from anywhere."""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>html, body {{ margin: 0; height: 100%; }} #explorer {{ height: 100%; }}</style>
</head>
<body>
<div id="explorer"></div>
<noscript>This page draws a compilation with JavaScript, which is switched off here.</noscript>
<script type="application/json" id="payload">{payload}</script>
<script type="module">
{module}
const payload = JSON.parse(document.getElementById("payload").textContent);
// An address with a place of its own is followed; without, the page shows what it was saved at.
const isPlain = location.hash.length < 2;
if (payload.place && isPlain) history.replaceState(null, "", `#${{payload.place}}`);
const chunks = new Map(Object.entries(payload.chunks));
render({{
  model: {{
    get: (name) => (name === "head" ? payload.head : null),
    chunk: (key) => chunks.has(key) ? chunks.get(key)
      : Promise.reject(new Error(`this page has no ${{key}}`)),
    holds: (key) => chunks.has(key),
  }},
  el: document.getElementById("explorer"),
}});
</script>
</body>
</html>
"""


def export_page(
    trace: Trace,
    against: Trace | None = None,
    overlay: Overlay | None = None,
    place: str = "",
    at: Mapping[str, str] | None = None,
) -> str:
    """A whole page; `against` is another compilation to compare with, `overlay` a person's own
    numbers on the graph. `place`: what it shows first, as the part of an address after `#`; `at`:
    the same in names, as `explore` takes them."""
    payload = trace_payload(trace, against, overlay=overlay)
    if at:
        payload.head["at"] = dict(at)
    data = {
        "head": payload.head,
        "chunks": payload.saved_chunks(),
        "place": place,
    }
    title = f"{trace.model.name} on {trace.target}" if trace.target else trace.model.name
    return _PAGE.format(
        policy=CONTENT_POLICY,
        title=escape(title),
        payload=script_data(data),
        module=_without_default_export(explorer_module()),
    )


def script_data(value: Json) -> str:
    """JSON that may stand inside of a script element of a page."""
    text = encode(value)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _without_default_export(module: str) -> str:
    # `</` cannot stand in a script element, not even in a string of the module.
    return module.replace("\nexport default {render};\n", "\n").replace("</", "<\\/")
