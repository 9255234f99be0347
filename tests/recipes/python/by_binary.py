"""Starts the program as it is: by_binary.py SERVER."""

import contextlib
import socket
import subprocess
import sys
import tempfile
import time

import redis


@contextlib.contextmanager
def server(program):
    with socket.socket() as probe, tempfile.TemporaryDirectory() as directory:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", directory, "--save", ""]
        process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
        try:
            client = redis.Redis(port=port, decode_responses=True)
            for _ in range(500):
                with contextlib.suppress(redis.ConnectionError, redis.BusyLoadingError):
                    if client.ping():
                        break
                assert process.poll() is None, "the server ended"
                time.sleep(0.01)
            yield client
        finally:
            process.terminate()
            assert process.wait(timeout=30) == 0


with server(sys.argv[1]) as client:
    client.lpush("jobs", "one", "two")
    assert client.rpop("jobs") == "one"
print("by_binary.py: started, used and ended")
