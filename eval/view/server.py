"""A page on this machine that shows pictures as they come and sends back what a person does there.

    GET /               the page; /view.js, /plots.js and /view.css belong to it
    GET /setup          JSON: what there is to choose from, and the keys
    GET /next?after=N   the newest moment, as soon as its number is above N: four bytes, the length
                        of the JSON that follows (little endian), the JSON, a JPEG picture
    GET /map.png        the home from above
    POST /said          what is held down, pressed, dragged and asked for, see `messages.py`

Only 127.0.0.1 is served, and only requests that name this machine: a page from elsewhere that is
open in the same browser cannot drive the robot. Connections are limited in number and in time; a
client that is gone ends its thread and nothing else.
"""

import json
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import SHUT_RDWR, socket
from typing import Any
from urllib.parse import parse_qs, urlsplit

from rearrange.errors import UserError
from rearrange.eval.view.messages import NOTHING, Said, parse

KEYS_LAST_S = 1.0  # held keys count as released if the page is silent for so long
MAX_BODY = 4096  # bytes
MAX_WAITING = 64  # messages of the page that nobody has taken
MAX_CONNECTIONS = 32  # a page holds one open and needs another for its keys
PATIENCE_S = 10.0  # so long a request for the next moment waits, then it gets the old one
PAGE = Path(__file__).parent / "page"
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/plots.js": ("plots.js", "text/javascript; charset=utf-8"),
    "/view.js": ("view.js", "text/javascript; charset=utf-8"),
    "/view.css": ("view.css", "text/css; charset=utf-8"),
}
SILENCE_S = 10.0  # so long a client may take for a piece of its request, or of our answer
REQUEST_S = 30.0  # so long a request and its answer may take in all

_Request = socket | tuple[bytes, socket]  # as socketserver has it, which also knows datagrams


class _LimitedServer(ThreadingHTTPServer):
    """A thread for each connection, of which there are at most `MAX_CONNECTIONS`."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def process_request(self, request: _Request, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)  # a browser asks again
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: _Request, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: _Request, client_address: Any) -> None:
        """Nothing: the client vanished or fell silent, and the terminal is for people."""


class ViewServer:
    """Serves in threads of its own; `publish` moments, `take` what the page said.

    Args:
        port: 0 takes a free one; `port` tells which.
        setup: what there is to choose from, for the page.

    Raises:
        UserError: if the port is taken or may not be used.
    """

    def __init__(self, port: int, setup: dict[str, Any]) -> None:
        self._setup = json.dumps(setup).encode()
        self._changed = threading.Condition()
        self._moment, self._number, self._is_closed = b"", 0, False
        self._map = b""
        self._held: frozenset[str] = frozenset()
        self._heard = 0.0
        self._said: list[Said] = []
        try:
            self._server = _LimitedServer(("127.0.0.1", port), _handler(self))
        except OSError as error:
            raise UserError(
                f"port {port} cannot be used: {error.strerror}; give another, or port=0"
            ) from error
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()

    def publish(self, state: dict[str, Any], jpeg: bytes) -> None:
        """Makes a picture, and what is to be known of it, the newest moment."""
        with self._changed:
            self._number += 1
            text = json.dumps({"number": self._number} | state, allow_nan=False).encode()
            self._moment = len(text).to_bytes(4, "little") + text + jpeg
            self._changed.notify_all()

    def publish_map(self, png: bytes) -> None:
        """Makes a picture of a home the one that `/map.png` gives."""
        self._map = png

    @property
    def held_keys(self) -> frozenset[str]:
        """The keys that are down now, by the names browsers give them; letters are small."""
        is_fresh = time.monotonic() - self._heard < KEYS_LAST_S
        return self._held if is_fresh else frozenset()

    def take(self) -> list[Said]:
        """What the page has said since the last call."""
        with self._changed:
            said, self._said = self._said, []
        return said

    def close(self) -> None:
        """Ends the serving. Harmless when called again."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def next_moment(self, after: int) -> bytes:
        """The newest moment, as soon as its number is above `after`."""
        with self._changed:
            self._changed.wait_for(lambda: self._number > after or self._is_closed, PATIENCE_S)
            return self._moment

    def hear(self, body: bytes) -> None:
        """Takes a message. Raises ValueError for what is none."""
        said = parse(body)
        with self._changed:
            self._held, self._heard = said.held, time.monotonic()
            if said != NOTHING._replace(held=said.held):
                self._said = [*self._said, said][-MAX_WAITING:]

    def asset(self, path: str) -> tuple[bytes, str] | None:
        """What a path of the page has, and of which kind it is."""
        if path in FILES:
            name, kind = FILES[path]
            return (PAGE / name).read_bytes(), kind
        if path == "/setup":
            return self._setup, "application/json"
        if path == "/map.png":
            return self._map, "image/png"
        return None


def _handler(server: ViewServer) -> type[BaseHTTPRequestHandler]:
    class Handler(_LocalHandler):
        def do_GET(self) -> None:
            if not self._is_local():
                return
            url = urlsplit(self.path)
            if url.path == "/next":
                after = parse_qs(url.query).get("after", ["0"])[0]
                number = int(after) if after.isdecimal() and len(after) < 16 else 0
                self._answer(server.next_moment(number), "application/octet-stream")
            elif (found := server.asset(url.path)) is not None:
                self._answer(*found)
            else:
                self.send_error(HTTPStatus.NOT_FOUND)

        def do_POST(self) -> None:
            if not self._is_local():
                return
            try:
                length = int(self.headers.get("Content-Length", ""))
                if self.path != "/said" or not 0 <= length <= MAX_BODY:
                    raise ValueError
                server.hear(self.rfile.read(length))
            except ValueError:
                self.send_error(HTTPStatus.BAD_REQUEST)
                return
            self._answer(b"", "text/plain")

    return Handler


class _LocalHandler(BaseHTTPRequestHandler):
    """Answers pages of this machine alone, and hangs up on whoever takes too long."""

    timeout = SILENCE_S  # of the socket

    def handle(self) -> None:
        self._deadline = threading.Timer(REQUEST_S, self._hang_up)
        self._deadline.daemon = True
        self._deadline.start()
        try:
            super().handle()
        finally:
            self._deadline.cancel()

    def _hang_up(self) -> None:
        with suppress(OSError):  # it may be closed by now
            self.connection.shutdown(SHUT_RDWR)

    def _is_local(self) -> bool:
        # Whatever the port: a forwarded one (ssh -L) has another number here than there.
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        is_ours = host.rsplit(":", 1)[0] in ("127.0.0.1", "localhost")
        if is_ours and origin in (None, f"http://{host}"):
            return True
        self.send_error(HTTPStatus.FORBIDDEN)
        return False

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002, its name in the base
        pass  # the terminal is for people
