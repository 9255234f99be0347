"""pytest-redis starts the program that conftest.py names, and empties it after each test."""

import pytest


@pytest.mark.parametrize("time_of_test", [1, 2])
def test_the_server_is_empty(redisdb, time_of_test):
    assert redisdb.dbsize() == 0
    redisdb.hset("user:1", mapping={"name": "Ada"})
    assert redisdb.hget("user:1", "name") == b"Ada"


def test_it_is_this_server(redisdb, server):
    assert "warmline_version" in redisdb.info("server")
    assert redisdb.config_get("port")["port"] == str(server.port)
