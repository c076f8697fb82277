"""Pages that close while a message is on its way to them: nothing went wrong, and nothing is said.

Tornado finds out that the other end is gone when it writes, in a task that nobody waits for;
asyncio would print what that raised when the task is collected.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from bokeh.document import Document
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError

CLOSED = (WebSocketClosedError, StreamClosedError)
LOGGER = "bokeh.server.views.ws"
"""Warns of each message that a closed page did not get."""
NOT_SENT = "Failed sending message as connection was closed"


def call_in_its_loop(document: Document, callback: Callable[[], None]) -> None:
    """Has a page's loop call something, from any thread; nothing where the page is gone.

    A worker answers what a page asked for before it was closed or loaded again.
    """
    if is_gone(document):
        return
    try:
        document.add_next_tick_callback(callback)
    except (AttributeError, RuntimeError):  # Bokeh takes the document apart meanwhile
        if not is_gone(document):
            raise


def is_gone(document: Document) -> bool:
    """Whether Bokeh has ended a document's session, with which it loses its context."""
    return document.session_context is None


def quiet_about_closed_pages(loop: asyncio.AbstractEventLoop) -> None:
    """Everything else that goes wrong in a task is told as before."""
    loop.set_exception_handler(_handle)
    logging.getLogger(LOGGER).addFilter(_is_news)


def _handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if not isinstance(context.get("exception"), CLOSED):
        loop.default_exception_handler(context)


def _is_news(record: logging.LogRecord) -> bool:
    return NOT_SENT not in record.getMessage()
