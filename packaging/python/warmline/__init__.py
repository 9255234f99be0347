"""Warmline for tests and scripts: a server of its own for as long as a block runs.

    from warmline import Warmline

    with Warmline() as url:
        client = redis.Redis.from_url(url)

The server listens on a free port of the loopback address, keeps its files in a temporary directory, and ends with the
block or with the program, even one that is killed.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

__all__ = ["Warmline", "WarmlineError", "program"]

_HERE = Path(__file__).parent
_ATTEMPTS = 10


class WarmlineError(Exception):
    """The server has not started; its log is in the text."""


def program(name="warmline-server"):
    """The path of a program of this package, or of the one that the environment variable WARMLINE_SERVER names."""
    override = os.environ.get("WARMLINE_SERVER")
    if override and name == "warmline-server":
        return override
    path = _HERE / "bin" / name
    if path.is_file():
        return str(path)
    found = shutil.which(name)
    if found is None:
        raise WarmlineError(f"{name} is not in this package, which was built for another platform, nor in PATH")
    return found


class Warmline:
    """A server. `options` are those of the command line; keywords are options too, with `_` for `-`.

        Warmline("--user", "app", "on", ">secret", "~*", "+@all", maxmemory="100mb", appendonly="yes")
    """

    def __init__(self, *options, start_timeout=30.0, **settings):
        self._options = [str(option) for option in options]
        for name, value in settings.items():
            self._options += [f"--{name.replace('_', '-')}", str(value)]
        self._password = str(settings["requirepass"]) if "requirepass" in settings else None
        self._start_timeout = start_timeout
        self._process = None
        self.port = None
        self.directory = None

    @property
    def url(self):
        """redis://127.0.0.1:PORT, with the password of `requirepass`."""
        if self.port is None:
            raise WarmlineError("the server is not running")
        user = f":{_quoted(self._password)}@" if self._password else ""
        return f"redis://{user}127.0.0.1:{self.port}"

    @property
    def log(self):
        """What the server has logged."""
        return Path(self.directory, "log").read_text(errors="replace") if self.directory else ""

    def start(self):
        if self._process is not None:
            raise WarmlineError("the server is running already")
        for attempt in range(_ATTEMPTS):
            # Another program may take the port before the server does.
            if self._start_on(_free_port()):
                return self
        raise WarmlineError("no port was free for long enough")

    def _start_on(self, port):
        self.directory = tempfile.mkdtemp(prefix="warmline-")
        log = os.path.join(self.directory, "log")
        command = [
            "sh", str(_HERE / "supervise.sh"), self.directory, program(),
            "--port", str(port), "--bind", "127.0.0.1", "--dir", self.directory, "--save", "", *self._options,
        ]  # fmt: skip
        # Opened before the server starts: the directory goes with a server that ends at once.
        opened = open(log, "w+", errors="replace")
        with open(log, "ab") as output:
            # A session of its own: the terminal's Ctrl-C is for the program, which then ends the server.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True
            )
        deadline = time.monotonic() + self._start_timeout
        with opened:
            while not _answers(port):
                ended = self._process.poll() is not None
                if ended or time.monotonic() > deadline:
                    text = opened.read()
                    self.stop()
                    if ended and "Address already in use" in text:
                        return False
                    raise WarmlineError(f"the server has not started:\n{text}")
                time.sleep(0.005)
            # A server of another program may have answered.
            if self._process.poll() is not None:
                self.stop()
                return False
        self.port = port
        return True

    def stop(self):
        """Ends the server, and removes its directory."""
        process, self._process = self._process, None
        if process is None:
            return
        process.stdin.close()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            shutil.rmtree(self.directory, ignore_errors=True)
        self.port = self.directory = None

    def __enter__(self):
        return self.start().url

    def __exit__(self, *_):
        self.stop()


def _quoted(text):
    from urllib.parse import quote

    return quote(text, safe="")


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _answers(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            # An error too: of a server that asks for a password, or loads its data. The latter is not ready.
            reply = connection.recv(64)
            return reply[:1] in (b"+", b"-") and not reply.startswith(b"-LOADING")
    except OSError:
        return False


def _run(name):
    path = program(name)
    os.execv(path, [path, *sys.argv[1:]])


def run_server():
    _run("warmline-server")


def run_cli():
    _run("warmline-cli")
