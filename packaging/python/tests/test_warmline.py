"""The package as it is installed, with redis-py."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import redis

from warmline import Warmline, WarmlineError


def eventually(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_gone(port):
    try:
        redis.Redis(port=port).ping()
        return False
    except redis.ConnectionError:
        return True


def test_a_block_has_a_server():
    server = Warmline()
    with server as url:
        client = redis.Redis.from_url(url, decode_responses=True)
        assert client.set("greeting", "hello")
        assert client.get("greeting") == "hello"
        assert "warmline_version" in client.info("server")
        port, directory = server.port, server.directory
        assert Path(directory).is_dir()
        assert "Ready to accept connections" in server.log
    assert is_gone(port)
    assert not Path(directory).exists()
    with pytest.raises(WarmlineError):
        server.url


def test_servers_are_apart_and_start_again():
    one, other = Warmline(), Warmline()
    with one as first, other as second:
        redis.Redis.from_url(first).set("key", "value")
        assert redis.Redis.from_url(second).get("key") is None
    with one as url:
        assert redis.Redis.from_url(url).get("key") is None


def test_options_are_keywords():
    with Warmline("--user", "app", "on", ">word", "~*", "+@all", requirepass="a/b@c", maxmemory="100mb") as url:
        client = redis.Redis.from_url(url)
        assert client.config_get("maxmemory")["maxmemory"] == str(100 * 1024 * 1024)
        assert redis.Redis.from_url(url.replace(":a%2Fb%40c@", "app:word@")).ping()


def test_a_wrong_option_is_reported_with_the_log():
    server = Warmline(no_such_option="1")
    with pytest.raises(WarmlineError, match="no-such-option"):
        server.start()
    assert server.directory is None


def test_a_block_that_fails_ends_its_server():
    server = Warmline()
    with pytest.raises(ZeroDivisionError):
        with server:
            port = server.port
            1 / 0
    assert is_gone(port)


PARENT = """
import sys
from warmline import Warmline
server = Warmline().start()
print(server.port, server.directory, flush=True)
{}
"""


@pytest.mark.parametrize("end", ["kill", "exit", "raise"])
def test_a_server_ends_with_its_program(end):
    last = {"kill": "sys.stdin.read()", "exit": "sys.exit(0)", "raise": "raise KeyError"}[end]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(last)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    port, directory = parent.stdout.readline().split()
    if end == "kill":
        assert redis.Redis(port=int(port)).ping()
        parent.send_signal(signal.SIGKILL)
    parent.wait(timeout=30)
    eventually(lambda: is_gone(int(port)))
    eventually(lambda: not os.path.exists(directory))


def test_a_server_that_was_killed_leaves_nothing():
    server = Warmline().start()
    process_id = redis.Redis.from_url(server.url).info("server")["process_id"]
    directory = server.directory
    os.kill(process_id, signal.SIGKILL)
    eventually(lambda: not os.path.exists(directory))
    server.stop()


@pytest.mark.parametrize("time_of_test", [1, 2])
def test_the_fixture_is_empty(warmline_url, time_of_test):
    client = redis.Redis.from_url(warmline_url)
    assert client.dbsize() == 0
    client.set("key", "value")


def test_directories_are_temporary(warmline_server):
    assert Path(warmline_server.directory).parent == Path(tempfile.gettempdir())
