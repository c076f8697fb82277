"""What the app's server answers: the page below its token, and nothing else.

    /TOKEN/              the page
    /TOKEN/ws            its websocket, for the page's own origin
    /TOKEN/static/...    scripts and styles of Panel and Bokeh
    anything else        404

A request that names another host than this machine gets 403: a foreign name that leads here makes
a stranger's site an origin of ours in the eyes of a browser (DNS rebinding).

Panel and Bokeh serve more than the page needs, some of it to whoever asks: a path below
`/components/` names a Python module, which is imported. So what is allowed is listed here, and a
new version of either adds nothing to it.

Every answer has a content security policy (W3C, Content Security Policy Level 3): only those
scripts run that stood in the page when it was sent, known by a number that each page has of its
own.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any

from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.routing import Matcher, Rule
from tornado.web import Application, ErrorHandler, OutputTransform

SCRIPT = re.compile(rb"<script(?=[\s>])")
LOCAL_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the token is in the address
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def guard(application: Application, token: str, origin: str) -> None:
    """From now on the application answers what is listed above.

    origin: of the page, as a browser writes it: `http://127.0.0.1:5006`.
    """
    allowed = re.compile(rf"/{re.escape(token)}(?:/|/ws|/static/.+)?")

    def is_unlisted(request: HTTPServerRequest) -> bool:
        return allowed.fullmatch(request.path) is None

    def is_elsewhere(request: HTTPServerRequest) -> bool:
        # The port is left out: an SSH tunnel may begin at any. Tornado joins several by a comma.
        return LOCAL_HOST.fullmatch(request.host) is None

    def is_foreign(request: HTTPServerRequest) -> bool:
        # A browser always says which origin opens a websocket (RFC 6455, 4.1).
        is_own = request.headers.get_list("Origin") == [origin]
        return request.path == f"/{token}/ws" and not is_own

    # What is added comes before all that the application has by itself.
    application.add_handlers(
        ".*$",
        [
            Rule(Where(is_unlisted), ErrorHandler, {"status_code": 404}),
            Rule(Where(is_elsewhere), ErrorHandler, {"status_code": 403}),
            Rule(Where(is_foreign), ErrorHandler, {"status_code": 403}),
        ],
    )
    application.add_transform(headers_for(f"{origin}/{token}"))


class Where(Matcher):
    """Matches the requests for which a condition holds."""

    def __init__(self, condition: Callable[[HTTPServerRequest], bool]) -> None:
        self._condition = condition

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:  # Any: Tornado's
        return {} if self._condition(request) else None


def headers_for(page: str) -> type[OutputTransform]:
    """Adds the policy of the page at an address, and `HEADERS`, to every answer."""

    class SecurityHeaders(OutputTransform):
        def transform_first_chunk(
            self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
        ) -> tuple[int, HTTPHeaders, bytes]:
            nonce = secrets.token_urlsafe(16)
            for name, value in HEADERS.items():
                headers[name] = value
            headers["Content-Security-Policy"] = policy_for(page, nonce)
            if finishing and headers.get("Content-Type", "").startswith("text/html"):
                chunk = SCRIPT.sub(rb'<script nonce="%s"' % nonce.encode(), chunk)
                headers["Content-Length"] = str(len(chunk))
            return status_code, headers, chunk

    return SecurityHeaders


def policy_for(page: str, nonce: str) -> str:
    """What the page at an address may do. The explorer's own module comes as a blob, out of the
    websocket's messages; styles are written by scripts."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'nonce-{nonce}' blob:",
            f"style-src {page}/static/ 'unsafe-inline'",
            f"img-src {page}/static/ data:",
            f"font-src {page}/static/",
            f"connect-src {page.replace('http', 'ws', 1)}/ws blob:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )
