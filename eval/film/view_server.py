"""A page on this machine that shows pictures as they come and sends back which keys are held.

    GET /            the page
    GET /stream      the pictures, one after the other (MJPEG)
    GET /frame.jpg   the newest picture
    POST /keys       JSON {"held": ["ArrowUp", ...], "pressed": [...]}

Only 127.0.0.1 is served, and only requests that name this machine: a page from elsewhere that is
open in the same browser cannot drive the robot. Connections are limited in number and, the stream
aside, in time; a client that is gone ends its thread and nothing else.
"""

import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from typing import Any

from rearrange.errors import UserError
from rearrange.system.checked_json import strict_json

KEYS_LAST_S = 1.0  # held keys count as released if the page is silent for so long
MAX_BODY = 4096  # bytes
MAX_CONNECTIONS = 32  # a page holds one open and needs another for its keys
SILENCE_S = 10.0  # so long a client may take for a piece of its request, or of our answer
REQUEST_S = 30.0  # so long a request and its answer may take in all
BOUNDARY = "picture"

PAGE = """<!doctype html><html lang=en><meta charset=utf-8><title>rearrange</title>
<style>
body { background: #18191c; color: #ddd; font: 15px/1.5 system-ui, sans-serif; text-align: center }
img { max-width: 100% } kbd { background: #333; border-radius: 4px; padding: 0 .4em }
table { margin: .5rem auto } td { padding: 0 .8em; text-align: left } #lost { color: #f77 }
</style>
<img src=/stream alt="the robot"><p id=lost hidden>The program has ended or cannot be reached.</p>
HELP
<script>
const held = new Set(); let lost = document.getElementById("lost");
function send(pressed) {
  fetch("/keys", {method: "POST", body: JSON.stringify({held: [...held], pressed: pressed})})
    .then(() => { lost.hidden = true }, () => { lost.hidden = false });
}
addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  e.preventDefault(); if (e.repeat) return;
  held.add(e.key); send([e.key]);
});
addEventListener("keyup", e => { held.delete(e.key); send([]) });
addEventListener("blur", () => { held.clear(); send([]) });
setInterval(() => { if (held.size) send([]) }, 300);
</script></html>
"""


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
    """Serves in threads of its own; `publish` pictures, read `held_keys` and `take_pressed`.

    Args:
        port: 0 takes a free one; `port` tells which.
        help_html: what stands under the picture.

    Raises:
        UserError: if the port is taken or may not be used.
    """

    def __init__(self, port: int, help_html: str) -> None:
        self._page = PAGE.replace("HELP", help_html).encode()
        self._changed = threading.Condition()
        self._jpeg, self._number = b"", 0
        self._held: frozenset[str] = frozenset()
        self._pressed: list[str] = []
        self._heard = 0.0
        try:
            self._server = _LimitedServer(("127.0.0.1", port), self._handler())
        except OSError as error:
            raise UserError(
                f"port {port} cannot be used: {error.strerror}; give another, or port=0"
            ) from error
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def publish(self, jpeg: bytes) -> None:
        """Makes a picture the newest one."""
        with self._changed:
            self._jpeg = jpeg
            self._number += 1
            self._changed.notify_all()

    @property
    def held_keys(self) -> frozenset[str]:
        """The keys that are down now, by the names browsers give them."""
        is_fresh = time.monotonic() - self._heard < KEYS_LAST_S
        return self._held if is_fresh else frozenset()

    def take_pressed(self) -> list[str]:
        """The keys that went down since the last call."""
        with self._changed:
            pressed, self._pressed = self._pressed, []
        return pressed

    def close(self) -> None:
        """Ends the serving."""
        self._server.shutdown()
        self._server.server_close()

    def _next(self, after: int) -> tuple[int, bytes]:
        """The newest picture, as soon as its number is above `after`."""
        with self._changed:
            self._changed.wait_for(lambda: self._number > after, timeout=10.0)
            return self._number, self._jpeg

    def _take_keys(self, body: bytes) -> None:
        message = strict_json(body.decode())
        held, pressed = message["held"], message["pressed"]
        if not all(isinstance(key, str) for key in [*held, *pressed]):
            raise ValueError("keys are strings")
        with self._changed:
            self._held, self._heard = frozenset(held), time.monotonic()
            self._pressed = [*self._pressed, *pressed][-16:]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(_LocalHandler):
            def do_GET(self) -> None:
                if not self._is_local():
                    return
                if self.path == "/":
                    self._answer(server._page, "text/html; charset=utf-8")
                elif self.path.split("?")[0] == "/frame.jpg":
                    self._answer(server._next(0)[1], "image/jpeg")
                elif self.path == "/stream":
                    self._stream()
                else:
                    self.send_error(HTTPStatus.NOT_FOUND)

            def do_POST(self) -> None:
                if not self._is_local():
                    return
                try:
                    length = int(self.headers.get("Content-Length", ""))
                    if self.path != "/keys" or not 0 <= length <= MAX_BODY:
                        raise ValueError
                    server._take_keys(self.rfile.read(length))
                except (ValueError, KeyError, TypeError):
                    self.send_error(HTTPStatus.BAD_REQUEST)
                    return
                self._answer(b"", "text/plain")

            def _stream(self) -> None:
                self.send_response(HTTPStatus.OK)
                kind = f"multipart/x-mixed-replace; boundary={BOUNDARY}"
                self.send_header("Content-Type", kind)
                self.end_headers()
                self._deadline.cancel()
                number = 0
                try:
                    while True:
                        number, jpeg = server._next(number)
                        head = f"--{BOUNDARY}\r\nContent-Type: image/jpeg\r\n"
                        head += f"Content-Length: {len(jpeg)}\r\n\r\n"
                        self.wfile.write(head.encode() + jpeg + b"\r\n")
                except OSError:
                    pass  # the page was closed

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
