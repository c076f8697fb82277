"""Pages that close while a message is on its way to them: nothing went wrong, and nothing is said.

Tornado finds out that the other end is gone when it writes, in a task that nobody waits for;
asyncio would print what that raised when the task is collected.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError

CLOSED = (WebSocketClosedError, StreamClosedError)
LOGGER = "bokeh.server.views.ws"
"""Warns of each message that a closed page did not get."""
NOT_SENT = "Failed sending message as connection was closed"


def quiet_about_closed_pages(loop: asyncio.AbstractEventLoop) -> None:
    """Everything else that goes wrong in a task is told as before."""
    loop.set_exception_handler(_handle)
    logging.getLogger(LOGGER).addFilter(_is_news)


def _handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if not isinstance(context.get("exception"), CLOSED):
        loop.default_exception_handler(context)


def _is_news(record: logging.LogRecord) -> bool:
    return NOT_SENT not in record.getMessage()
