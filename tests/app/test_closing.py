"""What the terminal says of pages that close while something is sent to them: nothing."""

import asyncio
import gc
import logging
import weakref

import pytest
from bokeh.application import Application
from bokeh.document import Document
from bokeh.server.contexts import ApplicationContext, BokehSessionContext
from bokeh.util.token import generate_session_id
from tornado.websocket import WebSocketClosedError

from explorer.app.server.closing import (
    LOGGER,
    NOT_SENT,
    call_in_its_loop,
    quiet_about_closed_pages,
)


def told_of(error: Exception, caplog: pytest.LogCaptureFixture) -> str:
    """What is logged of a task that raised, and for which nobody waits."""

    async def fail() -> None:
        raise error

    async def main() -> None:
        quiet_about_closed_pages(asyncio.get_running_loop())
        task = asyncio.ensure_future(fail())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        del task
        gc.collect()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    return caplog.text


def test_a_page_that_closed_is_no_error(caplog: pytest.LogCaptureFixture):
    assert told_of(WebSocketClosedError(), caplog) == ""
    logging.getLogger(LOGGER).warning(NOT_SENT)
    assert caplog.text == ""


def test_whatever_else_fails_is_told(caplog: pytest.LogCaptureFixture):
    assert "ValueError: mine" in told_of(ValueError("mine"), caplog)
    logging.getLogger(LOGGER).warning("something else")
    assert "something else" in caplog.text


def test_an_answer_for_a_page_that_was_loaded_again_is_dropped():
    document = Document()
    server = ApplicationContext(Application())
    context = BokehSessionContext(generate_session_id(), server.server_context, document)
    document._session_context = weakref.ref(context)
    call_in_its_loop(document, lambda: None)
    assert len(document.session_callbacks) == 1

    def session(_event: object) -> None:
        """What Bokeh has listen to the document."""

    document.on_change(session)
    document.destroy(session)
    call_in_its_loop(document, lambda: None)  # it would raise in the worker's listener
