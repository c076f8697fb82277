"""An attack on the app's server: addresses, handshakes, origins, made-up sessions.

Nothing is answered without the token, and with it only what the page needs.
"""

import base64
import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import pytest
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine
from tornado.web import ErrorHandler

TOKEN = "a-test-token"
ALIVE = f"/{TOKEN}/static/extensions/panel/css/loading.css"
"""Something small that is there; a page takes a second, and counts as one for some more."""
WAIT_SECONDS = 30


class Server:
    """The app's server, spoken to byte by byte: no client tidies an address up."""

    def __init__(self, address: str) -> None:
        self.place = urlsplit(address).netloc
        self.origin = f"http://{self.place}"

    def ask(self, path: str, method: str = "GET", headers: dict[str, str] | None = None) -> Any:
        """Status, headers and content of an answer."""
        line = f"{method} {path} HTTP/1.1"
        with self._sent(line, {"Connection": "close", **(headers or {})}) as file:
            status, found = read_head(file)
            return status, found, file.read()

    def status(self, path: str, **options: Any) -> int:
        return self.ask(path, **options)[0]

    def shake_hands(
        self, origins: list[str], session: str = "x.y", host: str = ""
    ) -> tuple[int, str]:
        """Status of a websocket's handshake, and the first that is heard: "ACK", or "closed"."""
        headers: dict[str, Any] = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
            "Sec-WebSocket-Protocol": f"bokeh, {session}",
            "Origin": origins,
            **({"Host": host} if host else {}),
        }
        with self._sent(f"GET /{TOKEN}/ws HTTP/1.1", headers) as file:
            status, _ = read_head(file)
            if status != 101:
                return status, ""
            frame = file.read(2)
            if len(frame) < 2 or frame[0] & 15 == 8:  # RFC 6455, 5.5.1
                return status, "closed"
            return status, json.loads(file.read(frame[1] & 127))["msgtype"]

    def page_session(self) -> str:
        """What a page that was just served knows its session by."""
        _, _, content = self.ask(f"/{TOKEN}/")
        found = re.search(rb'"token":"([^"]+)"', content)
        assert found
        return found.group(1).decode()

    def _sent(self, line: str, headers: dict[str, Any]) -> "Exchange":
        lines = [line]
        for name, value in {"Host": self.place, **headers}.items():
            lines += [f"{name}: {one}" for one in (value if isinstance(value, list) else [value])]
        return Exchange(self.place, "\r\n".join([*lines, "", ""]).encode())


class Exchange:
    """A connection on which something was sent."""

    def __init__(self, place: str, content: bytes) -> None:
        host, _, port = place.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), WAIT_SECONDS)
        self._socket.sendall(content)

    def __enter__(self) -> Any:  # a file of bytes
        self._file = self._socket.makefile("rb")
        return self._file

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()


def read_head(file: Any) -> tuple[int, dict[str, str]]:
    status = int(file.readline().split()[1])
    headers = {}
    while line := file.readline().strip().decode():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return status, headers


@pytest.fixture(scope="module")
def server(invented_address: str) -> Server:
    return Server(invented_address)


def test_the_page_is_there_for_who_has_the_token(server: Server):
    assert server.status(f"/{TOKEN}/") == 200
    status, headers, _ = server.ask(f"/{TOKEN}")
    assert (status, headers["location"]) == (302, f"/{TOKEN}/")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/favicon.ico",
        "/components/unittest.__main__/x/__css__/y",
        "/components/venv.__main__/x/__css__/y",
        "/static/js/bokeh.min.js",
        "/static/extensions/panel/panel.min.js",
        "/index",
        "/ws",
        "/metadata",
        "/autoload.js",
        "/admin",
        "/login",
        "/logout",
        "/liveness",
        "/rest/session_info",
        "//a-test-token/",
        "/./a-test-token/",
        "/x/../a-test-token/",
        "/%61-test-token/",
        "/A-TEST-TOKEN/",
        "/a-test-toke",
        "/a-test-tokens/",
        "/a-test-token/components/unittest.__main__/x/__css__/y",
        "/a-test-token//components/unittest.__main__/x/__css__/y",
        "/a-test-token/static/../components/unittest.__main__/x/__css__/y",
        "/a-test-token/favicon.ico",
        "/a-test-token/metadata",
        "/a-test-token/autoload.js",
        "/a-test-token/admin",
        "/a-test-token/static/",
        "/a-test-token/static/../../../../../../etc/passwd",
        "/a-test-token/static/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/a-test-token/static//etc/passwd",
        "/a-test-token/static/extensions/panel/../../../../../../etc/passwd",
        "/a-test-token/static/extensions/explorer/app/server/guard.py",
    ],
)
def test_other_addresses_are_not_there(server: Server, path: str):
    status, _, content = server.ask(path)
    assert status in (403, 404) if "/static/" in path and "a-test" in path else status == 404
    assert b"root:" not in content
    assert server.status(ALIVE) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:5006",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.example@127.0.0.1",
        "127.0.0.1:5006:5006",
        "127.0.0.1, evil.example",
        "0.0.0.0",
        "192.168.1.2",
        "[::2]",
        "",
    ],
)
def test_a_foreign_name_for_this_machine_is_refused(server: Server, host: str):
    """DNS rebinding: a stranger's name leads here, and its page is then of the same origin."""
    assert server.status(f"/{TOKEN}/", headers={"Host": host}) in (400, 403)
    if host:
        assert server.shake_hands([f"http://{host}"], host=host)[0] in (400, 403)
        assert server.shake_hands([server.origin], host=host)[0] in (400, 403)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "127.0.0.1:8000", "[::1]", "[::1]:5006"]
)
def test_all_names_of_this_machine_are_answered(server: Server, host: str):
    assert server.status(ALIVE, headers={"Host": host}) == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_the_page_is_only_read(server: Server, method: str):
    length = {"Content-Length": "0"}
    assert server.status(f"/{TOKEN}/", method=method, headers=length) in (403, 405)
    assert server.status("/", method=method, headers=length) == 404


def test_whatever_panel_serves_besides_is_not_there():
    """All handlers that the application has, whichever its version brings."""
    import panel as pn
    from panel.io.server import get_server

    from explorer.app.server.guard import guard

    built = get_server({"/": pn.Column}, port=0, address="127.0.0.1", prefix=TOKEN, start=False)
    application = built._tornado
    patterns = [rule.matcher.regex.pattern for rule in application.wildcard_router.rules]
    assert any("components" in pattern for pattern in patterns)
    guard(application, TOKEN, "http://127.0.0.1:1")

    def handler(path: str) -> type:
        request = HTTPServerRequest(
            headers=HTTPHeaders({"Host": "127.0.0.1"}),
            start_line=RequestStartLine("GET", path, "HTTP/1.1"),
        )
        return application.find_handler(request).handler_class

    answered = set()
    for pattern in patterns:
        path = re.sub(r"\(\?!.*?\)|\$$", "", pattern).replace("(.*)", "panel/panel.min.js")
        path = path.replace("/?", "/")
        if handler(path) is not ErrorHandler:
            answered.add(path)
        outside = path.removeprefix(f"/{TOKEN}")
        assert handler(outside) is ErrorHandler, outside
    assert answered == {
        f"/{TOKEN}/",
        f"/{TOKEN}/static/panel/panel.min.js",
        f"/{TOKEN}/static/extensions/panel/panel.min.js",
    }
    built.stop()


def test_a_websocket_is_for_the_pages_own_origin(server: Server):
    session = server.page_session()
    assert server.shake_hands([server.origin], session) == (101, "ACK")
    port = server.place.rpartition(":")[2]
    for origins in (
        [],
        [""],
        ["null"],
        [f"https://{server.place}"],
        [f"http://localhost:{port}"],
        ["http://127.0.0.1"],
        ["http://evil.example"],
        [f"http://{server.place}.evil.example"],
        [f"http://{server.place}@evil.example"],
        [f"http://evil.example@{server.place}"],
        [f"{server.origin}/"],
        [server.origin, server.origin],
        [server.origin, "http://evil.example"],
    ):
        assert server.shake_hands(origins, session) == (403, ""), origins


def test_a_session_that_was_made_up_is_refused(server: Server):
    session = server.page_session()
    content = json.dumps({"session_id": "mine", "session_expiry": 4_000_000_000}).encode()
    unsigned = base64.urlsafe_b64encode(content).decode().rstrip("=")
    changed = session[:-4] + ("AAAA" if session[-4:] != "AAAA" else "BBBB")
    for made_up in (unsigned, f"{unsigned}.{session.partition('.')[2]}", changed, "x", "x.y"):
        status, heard = server.shake_hands([server.origin], made_up)
        assert (status, heard) == (101, "closed"), made_up
        assert server.status(f"/{TOKEN}/?bokeh-token={made_up}") in (403, 500)
    assert server.status(f"/{TOKEN}/?bokeh-session-id=mine") == 403
    assert server.status(f"/{TOKEN}/", headers={"Bokeh-Session-Id": "mine"}) == 403
    assert server.status(ALIVE) == 200


def test_every_answer_says_what_its_page_may_do(server: Server):
    nonces = set()
    for path in (f"/{TOKEN}/", f"/{TOKEN}/", f"/{TOKEN}/static/js/bokeh.min.js", "/elsewhere"):
        _, headers, content = server.ask(path)
        policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["frame-ancestors"] == "'none'"
        found = re.fullmatch(r"'nonce-([\w-]{22})' blob:", policy["script-src"])
        assert found
        nonces.add(found.group(1))
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        if path == f"/{TOKEN}/":
            assert content.count(b"<script") == content.count(b'nonce="%b"' % found[1].encode()) > 5
            assert int(headers["content-length"]) == len(content)
    assert len(nonces) == 4


INTRUDE = """() => {
    const box = document.createElement('div');
    box.innerHTML = '<img src="data:," onerror="intruded = 1"><a href="javascript:intruded = 2">';
    const script = document.createElement('script');
    script.textContent = 'window.intruded = 3';
    document.body.append(box, script);
    box.querySelector('a').click();
    const remote = document.createElement('script');
    remote.src = 'http://127.0.0.1:9/x.js';
    document.body.append(remote);
}"""


@pytest.mark.browser
def test_a_script_that_got_into_the_page_is_not_run(opened_app: Callable[[], Any]):
    seen = opened_app()
    assert seen.is_clean(), seen
    seen.page.evaluate(INTRUDE)
    seen.page.wait_for_timeout(300)
    assert seen.page.evaluate("window.intruded") is None
    assert "violates the following Content Security Policy directive" in repr(seen)


@pytest.fixture
def small_app(sample_models: Path, serve_apart: Callable[..., Any]) -> Iterator[str]:
    """The app with room for one page."""
    command = ("-m", "explorer", "serve", "--no-browser", "--pages", "1")
    with serve_apart(*command, str(sample_models / "digits_mlp.onnx")) as (address, _):
        yield address


@pytest.mark.browser
@pytest.mark.slow
def test_a_page_too_many_says_so_until_another_one_is_closed(
    browsing: ModuleType, chromium: Any, small_app: str
):
    with browsing.watched(chromium) as second:
        with browsing.watched(chromium) as first:
            first.page.goto(small_app)
            first.page.wait_for_selector(".node", timeout=60_000)
            second.page.goto(small_app)
            words = second.page.get_by_text("1 page is open, which is the most")
            words.wait_for()
            assert "Close one and load this page again" in words.inner_text()
            first.page.reload()
            first.page.wait_for_selector(".node", timeout=60_000)
            assert first.is_clean(), first
        second.page.reload()
        second.page.wait_for_selector(".node", timeout=60_000)
        assert second.is_clean(), second


def test_a_port_that_is_taken_is_said_in_one_sentence(sample_models: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        model = str(sample_models / "digits_mlp.onnx")
        finished = subprocess.run(
            [sys.executable, "-m", "explorer", "serve", "--no-browser", "--port", str(port), model],
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=False,
        )
    assert finished.returncode == 2
    assert finished.stdout == ""
    assert (
        f"cannot be served on port {port} of 127.0.0.1: Address already in use" in finished.stderr
    )
    assert "Traceback" not in finished.stderr
