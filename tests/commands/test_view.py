"""The page of `rearrange view`: pictures out, keys in, and nobody from elsewhere."""

import http.client
import json
import socket
import struct

import pytest

from rearrange.commands.view import KeyboardAgent
from rearrange.errors import UserError
from rearrange.eval.film import view_server
from rearrange.eval.film.view_server import ViewServer


@pytest.fixture
def server():
    server = ViewServer(0, "<p>help</p>")
    yield server
    server.close()


def ask(server, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, body=body, headers=headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


def test_page_and_newest_picture_are_served(server):
    status, page = ask(server, "GET", "/")
    assert status == 200 and b"<p>help</p>" in page and b"/stream" in page
    server.publish(b"first")
    server.publish(b"second")
    assert ask(server, "GET", "/frame.jpg") == (200, b"second")
    assert ask(server, "GET", "/etc/passwd")[0] == 404


def test_stream_sends_each_new_picture(server):
    server.publish(b"one")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", "/stream")
    answer = connection.getresponse()
    assert b"--picture" in answer.fp.readline()
    lines = [answer.fp.readline() for _ in range(4)]
    assert lines[-1].strip() == b"one"
    server.publish(b"two")
    lines = [answer.fp.readline() for _ in range(5)]
    assert lines[-1].strip() == b"two"
    connection.close()


def test_keys_become_an_action(server):
    agent = KeyboardAgent(server, 11)
    assert agent.act(None, {}).tolist() == [0] * 7 + [-1, 0, 0, -1]
    body = json.dumps({"held": ["ArrowUp", "ArrowRight", "q", "s"], "pressed": ["q", " "]})
    assert ask(server, "POST", "/keys", body)[0] == 200
    for key in server.take_pressed():
        agent.press(key)
    assert agent.act(None, {}).tolist() == [1, -1, 0, 0, 0, 0, 0, 1, 1, -1, -1]
    assert server.take_pressed() == []


def test_strangers_and_nonsense_are_turned_away(server):
    body = json.dumps({"held": ["ArrowUp"], "pressed": []})
    assert ask(server, "POST", "/keys", body, Host="evil.example")[0] == 403
    assert ask(server, "POST", "/keys", body, Origin="http://evil.example")[0] == 403
    for nonsense in (
        "",
        "[]",
        '{"held": [1], "pressed": []}',
        '{"held": 3}',
        "{" * 5000,
        "[" * 4000,
    ):
        assert ask(server, "POST", "/keys", nonsense)[0] == 400
    assert server.held_keys == frozenset()
    assert ask(server, "POST", "/keys", body, Origin=f"http://127.0.0.1:{server.port}")[0] == 200


def test_taken_port_is_one_line(server):
    with pytest.raises(UserError, match="port .* cannot be used"):
        ViewServer(server.port, "")


def plug(server, request=b""):
    """A connection by hand."""
    client = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    client.sendall(request)
    return client


def test_vanished_clients_leave_no_word(server, capfd):
    server.publish(b"x" * 1_000_000)
    for request in (b"", b"GET / HT", b"GET /frame.jpg HTTP/1.0\r\nHost: localhost\r\n\r\n"):
        client = plug(server, request)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        client.close()
    assert ask(server, "GET", "/")[0] == 200
    assert capfd.readouterr().err == ""


def test_connections_are_limited_in_number(monkeypatch):
    monkeypatch.setattr(view_server, "MAX_CONNECTIONS", 2)
    server = ViewServer(0, "")
    clients = [plug(server, b"GET /stream HTTP/1.0\r\nHost: localhost\r\n\r\n") for _ in range(2)]
    assert all(client.recv(4) == b"HTTP" for client in clients)
    assert plug(server).recv(1) == b""  # shut at once
    server.close()


def test_a_client_that_says_nothing_is_hung_up_on(monkeypatch):
    monkeypatch.setattr(view_server, "REQUEST_S", 0.1)
    server = ViewServer(0, "")
    assert plug(server, b"GET / HT").recv(1) == b""
    server.close()
