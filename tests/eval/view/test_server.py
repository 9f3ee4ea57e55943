"""The page's server: moments out, keys in, and nobody from elsewhere."""

import http.client
import json
import socket
import struct
import threading
import time
from contextlib import suppress

import pytest

from rearrange.errors import UserError
from rearrange.eval.view import server as serving
from rearrange.eval.view.server import ViewServer


@pytest.fixture
def server():
    server = ViewServer(0, {"tasks": {"pick": "Pick"}})
    yield server
    server.close()


def ask(server, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, body=body, headers=headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


def read(moment):
    """(state, picture) of what the page gets."""
    length = int.from_bytes(moment[:4], "little")
    return json.loads(moment[4 : 4 + length]), moment[4 + length :]


def test_the_page_and_what_belongs_to_it_are_served(server):
    status, page = ask(server, "GET", "/")
    assert status == 200
    for name in ("view.js", "view.css"):
        assert f"/{name}".encode() in page
        assert ask(server, "GET", f"/{name}")[0] == 200
    assert b"http://" not in page and b"https://" not in page  # it works without a net
    assert json.loads(ask(server, "GET", "/setup")[1]) == {"tasks": {"pick": "Pick"}}
    server.publish_map(b"a map")
    assert ask(server, "GET", "/map.png?3") == (200, b"a map")
    assert ask(server, "GET", "/../server.py")[0] == ask(server, "GET", "/etc/passwd")[0] == 404


def test_a_moment_is_its_state_and_its_picture(server):
    server.publish({"steps": 1}, b"one")
    server.publish({"steps": 2}, b"two")
    assert read(ask(server, "GET", "/next?after=1")[1]) == ({"number": 2, "steps": 2}, b"two")
    threading.Timer(0.1, server.publish, ({"steps": 3}, b"three")).start()
    assert read(ask(server, "GET", "/next?after=2")[1]) == ({"number": 3, "steps": 3}, b"three")
    assert read(ask(server, "GET", "/next?after=nonsense")[1])[1] == b"three"


def test_keys_are_held_until_the_page_falls_silent(server, monkeypatch):
    body = json.dumps({"held": ["W", "ArrowUp"], "pressed": ["x"]})
    assert ask(server, "POST", "/said", body)[0] == 200
    assert server.held_keys == {"w", "ArrowUp"}
    (said,) = server.take()
    assert said.pressed == ("x",) and server.take() == []
    ask(server, "POST", "/said", json.dumps({"held": ["w"]}))
    assert server.take() == []  # nothing new in it
    monkeypatch.setattr(serving, "KEYS_LAST_S", 0.0)
    assert server.held_keys == frozenset()


@pytest.mark.parametrize(
    "nonsense",
    [
        "",
        "[]",
        "3",
        "{}",
        '{"held": [1]}',
        '{"held": 3}',
        '{"held": [], "zoom": true}',
        '{"held": [], "orbit": [1]}',
        '{"held": [], "orbit": [1e9, 0]}',
        '{"held": [], "ask": "shell"}',
        '{"held": [], "ask": ["next"]}',
        '{"held": [], "ask": "drive", "value": {}}',
        '{"held": [], "more": 1}',
        "{" * 5000,
        "[" * 4000,
    ],
)
def test_nonsense_is_turned_away(server, nonsense):
    assert ask(server, "POST", "/said", nonsense)[0] == 400
    assert server.take() == [] and server.held_keys == frozenset()


def test_strangers_are_turned_away(server):
    body = json.dumps({"held": ["w"]})
    assert ask(server, "POST", "/said", body, Host="evil.example")[0] == 403
    assert ask(server, "POST", "/said", body, Origin="http://evil.example")[0] == 403
    assert ask(server, "GET", "/next", Host="evil.example")[0] == 403
    assert server.held_keys == frozenset()
    assert ask(server, "POST", "/said", body, Origin=f"http://127.0.0.1:{server.port}")[0] == 200


def test_taken_port_is_one_line(server):
    with pytest.raises(UserError, match="port .* cannot be used"):
        ViewServer(server.port, {})


def plug(server, request=b""):
    """A connection by hand."""
    client = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    client.sendall(request)
    return client


def test_vanished_clients_leave_no_word(server, capfd):
    server.publish({}, b"x" * 1_000_000)
    for request in (b"", b"GET / HT", b"GET /next HTTP/1.0\r\nHost: localhost\r\n\r\n"):
        client = plug(server, request)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        client.close()
    assert ask(server, "GET", "/")[0] == 200
    assert capfd.readouterr().err == ""


def test_connections_are_limited_in_number(monkeypatch):
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 2)
    server = ViewServer(0, {})
    clients = [plug(server, b"GET / HTTP/1.0\r\n") for _ in range(2)]  # not all of a request
    assert plug(server).recv(1) == b""  # shut at once
    for client in clients:
        client.close()
    server.close()


def test_a_client_that_says_nothing_is_hung_up_on(monkeypatch):
    monkeypatch.setattr(serving, "REQUEST_S", 0.1)
    server = ViewServer(0, {})
    assert plug(server, b"GET / HT").recv(1) == b""
    server.close()


def test_closing_lets_those_go_who_wait_for_a_moment():
    server = ViewServer(0, {})
    client = plug(server, b"GET /next?after=7 HTTP/1.0\r\nHost: localhost\r\n\r\n")
    waiting = threading.Thread(target=server.next_moment, args=(7,))
    waiting.start()
    begun = time.monotonic()
    server.close()
    waiting.join()
    with suppress(ConnectionResetError):  # it may not have been let in yet
        while client.recv(4096):
            pass
    assert time.monotonic() - begun < serving.PATIENCE_S / 2
    server.close()  # again
