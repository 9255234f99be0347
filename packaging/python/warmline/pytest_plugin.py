"""Fixtures of pytest: `warmline_url`, a server for all tests of a run, emptied before each test that asks for it."""

import socket

import pytest

from . import Warmline


@pytest.fixture(scope="session")
def warmline_server():
    """The server of this run of tests."""
    server = Warmline().start()
    yield server
    server.stop()


@pytest.fixture
def warmline_url(warmline_server):
    """The URL of an empty server."""
    with socket.create_connection(("127.0.0.1", warmline_server.port), timeout=30) as connection:
        connection.sendall(b"FLUSHALL\r\nFUNCTION FLUSH\r\n")
        replies = b""
        while replies.count(b"\n") < 2:
            replies += connection.recv(256)
    return warmline_server.url
