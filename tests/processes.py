"""Python programs in processes of their own, which start at once: see `fork_server.py`.

Such a process has its own id, streams, folder and environment, can be killed, and ends as any other. Only what it
imports is there already, so a test of imports, or of memory, starts a new interpreter with `subprocess`.
"""

import atexit
import json
import os
import socket
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from select import select

ROOT = Path(__file__).parents[1]


class Program(subprocess.Popen):
    """`subprocess.Popen` of Python, without the path of Python: `Program(["-m", "poolwise", "methods"])`.

    It takes the standard streams, `cwd`, `env` and `text`. The process is the leader of a session of its own.
    """

    def _execute_child(self, args, _exe, _pre, _close, _pass, cwd, env, _info, _flags, _shell, *streams_and_more):
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *_ = streams_and_more
        given = [p2cread, c2pwrite, errwrite]
        self._end, end = os.pipe()
        request = {
            "arguments": [str(argument) for argument in args],
            "folder": str(cwd or os.getcwd()),
            "environment": dict(os.environ if env is None else env),
        }
        message = json.dumps(request).encode()
        server = _server()
        streams = [number if stream == -1 else stream for number, stream in enumerate(given)]
        socket.send_fds(server, [f"{len(message):8d}".encode()], [*streams, end])
        server.sendall(message)
        self.pid = int(server.recv(8, socket.MSG_WAITALL))
        self._child_created = True
        os.close(end)
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)

    def _internal_poll(self, *_, **__):
        return self._wait(0) if self.returncode is None else self.returncode

    def _wait(self, timeout):
        if self.returncode is None:
            if not select([self._end], [], [], timeout)[0]:
                if timeout:
                    raise subprocess.TimeoutExpired(self.args, timeout)
                return None
            self.returncode = int(os.read(self._end, 8))
            os.close(self._end)
        return self.returncode


def wait_until(met, seconds=300.0):
    until = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)


def run(arguments, **options):
    """As `subprocess.run` with what is printed as text, for a program in Python."""
    with Program(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options) as program:
        try:
            out, err = program.communicate(timeout=500)
        except BaseException:
            program.kill()
            raise
    return subprocess.CompletedProcess(program.args, program.returncode, out, err)


@cache
def _server():
    """The connection to the server of this process. It ends when the connection is closed."""
    here, there = socket.socketpair()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).with_name("fork_server.py"))]
    with there:
        process = subprocess.Popen(command, stdin=there, env=environment, cwd=ROOT, start_new_session=True)
    atexit.register(_end, here, process)
    return here


def _end(server, process):
    server.close()
    process.wait()
